//! Enumerated values of a record: program, command, outcome and others, each with a name and a
//! code.
//!
//! The code of a value never changes; the store keeps it instead of the name. No value has code 0,
//! which means unknown.

use super::value::{Field, FieldKind, Value};

/// Declares an enum whose variants have a code and a name.
macro_rules! enums {
    ($($(#[$about:meta])* pub enum $Name:ident {
        $($(#[$doc:meta])* $Variant:ident = $code:literal $text:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $($(#[$doc])* $Variant,)*
        }

        impl $Name {
            /// All values, ordered by code.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// Returns the name of the value.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$Variant => $text),* }
            }

            /// Returns the code, which is not 0.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $(Self::$Variant => $code),* }
            }

            /// Returns the value with this code, or `None` if it is unknown.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$Variant),)* _ => None }
            }
        }

        impl Field for $Name {
            const KIND: FieldKind = FieldKind::Enum;

            fn value(&self) -> Value<'_> {
                Value::Enum(self.text(), self.code())
            }

            fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$Variant),)* _ => None }
            }

            fn from_number(number: u64) -> Option<Self> {
                Self::from_code(u8::try_from(number).ok()?)
            }
        }
    )*};
}

enums! {
    /// Role of the program that wrote the record; RFC 573 calls this value the program.
    pub enum Role {
        /// The client program.
        User = 1 "user",
        /// The server program.
        Server = 2 "server",
    }

    /// TCP/IP implementation used for the transfer.
    pub enum Stack {
        /// The kernel's TCP/IP.
        Kernel = 1 "kernel",
        /// The userspace TCP/IP of plumbline.
        Plumbline = 2 "plumbline",
    }

    /// Command of the transfer; names of RFC 959, RFC 3659, RFC 354 and RFC 1350, and
    /// the protocols of terminal sessions.
    pub enum Command {
        /// File from the server.
        Retr = 1 "RETR",
        /// File to the server.
        Stor = 2 "STOR",
        /// File to the server, appended to an existing one.
        Appe = 3 "APPE",
        /// File to the server under a unique name that the server chooses.
        Stou = 4 "STOU",
        /// Directory listing in human-readable form.
        List = 5 "LIST",
        /// Directory listing, names only.
        Nlst = 6 "NLST",
        /// Directory listing in machine-readable form.
        Mlsd = 7 "MLSD",
        /// Mail over the data connection (RFC 354).
        Mlfl = 8 "MLFL",
        /// Mail over the control connection (RFC 354).
        Mail = 9 "MAIL",
        /// File from a TFTP server.
        TftpRrq = 10 "TFTP-RRQ",
        /// File to a TFTP server.
        TftpWrq = 11 "TFTP-WRQ",
        /// File received by ZMODEM over a terminal session.
        ZmodemReceive = 12 "ZMODEM-RECEIVE",
        /// File sent by ZMODEM over a terminal session.
        ZmodemSend = 13 "ZMODEM-SEND",
        /// File received by YMODEM over a terminal session.
        YmodemReceive = 14 "YMODEM-RECEIVE",
        /// File sent by YMODEM over a terminal session.
        YmodemSend = 15 "YMODEM-SEND",
        /// File received by XMODEM over a terminal session.
        XmodemReceive = 16 "XMODEM-RECEIVE",
        /// File sent by XMODEM over a terminal session.
        XmodemSend = 17 "XMODEM-SEND",
    }

    /// The representation type (RFC 959 §3.1.1).
    pub enum Type {
        /// ASCII.
        Ascii = 1 "A",
        /// EBCDIC.
        Ebcdic = 2 "E",
        /// Image.
        Image = 3 "I",
        /// Local byte.
        Local = 4 "L",
    }

    /// The format control of text (RFC 959 §3.1.1.5).
    pub enum Format {
        /// Non print.
        NonPrint = 1 "N",
        /// Telnet format effectors.
        Telnet = 2 "T",
        /// Carriage control.
        CarriageControl = 3 "C",
    }

    /// The transmission mode (RFC 959 §3.4), or deflate.
    pub enum Mode {
        /// Stream.
        Stream = 1 "S",
        /// Block.
        Block = 2 "B",
        /// Compressed.
        Compressed = 3 "C",
        /// Deflate.
        Deflate = 4 "Z",
    }

    /// The structure of the file (RFC 959 §3.1.2).
    pub enum Structure {
        /// File.
        File = 1 "F",
        /// Record.
        Record = 2 "R",
        /// Page.
        Page = 3 "P",
    }

    /// Command that set up the data connection.
    pub enum DataStyle {
        /// The user listens (RFC 959).
        Port = 1 "PORT",
        /// The server listens (RFC 959).
        Pasv = 2 "PASV",
        /// The user listens (RFC 2428).
        Eprt = 3 "EPRT",
        /// The server listens (RFC 2428).
        Epsv = 4 "EPSV",
        /// The user listens (RFC 1639).
        Lprt = 5 "LPRT",
        /// By sockets of the NCP (RFC 354).
        Sock = 6 "SOCK",
        /// The server listens (RFC 1639).
        Lpsv = 7 "LPSV",
    }

    /// Outcome of a transfer.
    pub enum Outcome {
        /// The complete file arrived.
        Complete = 1 "complete",
        /// The user aborted the transfer.
        AbortedByUser = 2 "aborted-by-user",
        /// The peer aborted the transfer, or the path to the peer failed.
        AbortedByPeer = 3 "aborted-by-peer",
        /// No data arrived before the timeout.
        Timeout = 4 "timeout",
        /// The disk is full or failed.
        Disk = 5 "disk",
        /// The user's quota is exhausted.
        Quota = 6 "quota",
        /// The peer violated the protocol, or one end does not implement a requested feature.
        Protocol = 7 "protocol",
        /// The local host denied a required resource, for a reason other than space.
        Local = 8 "local",
        /// The server refused: the file does not exist, or the user lacks permission.
        Refused = 9 "refused",
    }

    /// Limiting factor of a transfer.
    pub enum TransferLimit {
        /// The peer: its receive window was full.
        Peer = 1 "peer",
        /// The network.
        Network = 2 "net",
        /// The local processor.
        Processor = 3 "cpu",
        /// The local disk.
        Disk = 4 "disk",
        /// The local program or its send buffer.
        Application = 5 "app",
    }
}

impl Command {
    /// Returns the protocol of the transfer.
    #[must_use]
    pub const fn protocol_text(self) -> &'static str {
        match self {
            Self::TftpRrq | Self::TftpWrq => "TFTP",
            Self::ZmodemReceive | Self::ZmodemSend => "ZMODEM",
            Self::YmodemReceive | Self::YmodemSend => "YMODEM",
            Self::XmodemReceive | Self::XmodemSend => "XMODEM",
            Self::Retr
            | Self::Stor
            | Self::Appe
            | Self::Stou
            | Self::List
            | Self::Nlst
            | Self::Mlsd
            | Self::Mlfl
            | Self::Mail => "FTP",
        }
    }

    /// Returns whether the file is sent from the user to the server.
    #[must_use]
    pub const fn is_to_server(self) -> bool {
        match self {
            Self::Stor
            | Self::Appe
            | Self::Stou
            | Self::Mlfl
            | Self::Mail
            | Self::TftpWrq
            | Self::ZmodemSend
            | Self::YmodemSend
            | Self::XmodemSend => true,
            Self::Retr
            | Self::List
            | Self::Nlst
            | Self::Mlsd
            | Self::TftpRrq
            | Self::ZmodemReceive
            | Self::YmodemReceive
            | Self::XmodemReceive => false,
        }
    }

    /// Returns whether the command transfers a listing instead of a file.
    #[must_use]
    pub const fn is_listing(self) -> bool {
        matches!(self, Self::List | Self::Nlst | Self::Mlsd)
    }

    /// Returns whether the program with this `role` sends the file.
    #[must_use]
    pub(crate) fn is_sent_by(self, role: Role) -> bool {
        self.is_to_server() == (role == Role::User)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_text_and_by_its_code() {
        for command in Command::ALL {
            assert_eq!(Command::from_text(command.text()), Some(*command));
            assert_eq!(Command::from_code(command.code()), Some(*command));
        }
    }

    #[test]
    fn an_unknown_value_is_none() {
        assert_eq!(Outcome::from_text("vanished"), None);
        assert_eq!(Outcome::from_number(256 + 1), None);
        assert_eq!(Outcome::from_code(0), None);
    }

    #[test]
    fn a_user_sends_files_for_stor_and_a_server_for_retr() {
        assert!(Command::Stor.is_sent_by(Role::User) && Command::Retr.is_sent_by(Role::Server));
        assert!(!Command::Stor.is_sent_by(Role::Server) && !Command::Retr.is_sent_by(Role::User));
    }
}
