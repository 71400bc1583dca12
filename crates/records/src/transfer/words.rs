//! The words of a record: who moved what, by which command, and how it ended.
//!
//! Each word has a code that never changes, which the store keeps instead of it. 0 is no code, so
//! that it can stand for what is not known.

use super::value::{Field, Kind, Value};

/// Declares an enum whose variants have a code and a word.
macro_rules! words {
    ($($(#[$about:meta])* pub enum $Name:ident {
        $($(#[$doc:meta])* $Variant:ident = $code:literal $word:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $($(#[$doc])* $Variant,)*
        }

        impl $Name {
            /// Every one of them, by code.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// Returns the word.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$Variant => $word),* }
            }

            /// Returns the code, which is not 0.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $(Self::$Variant => $code),* }
            }

            /// Returns what `code` stands for.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$Variant),)* _ => None }
            }
        }

        impl Field for $Name {
            const KIND: Kind = Kind::Word;

            fn value(&self) -> Value<'_> {
                Value::Word(self.text(), self.code())
            }

            fn from_text(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$Variant),)* _ => None }
            }

            fn from_number(number: u64) -> Option<Self> {
                Self::from_code(u8::try_from(number).ok()?)
            }
        }
    )*};
}

words! {
    /// Which of the two programs wrote the record; RFC 573 calls it the program.
    pub enum Role {
        /// The program that asked.
        User = 1 "user",
        /// The program that was asked.
        Server = 2 "server",
    }

    /// Whose TCP/IP carried it.
    pub enum Stack {
        /// The kernel's.
        Kernel = 1 "kernel",
        /// Our own.
        Plumbline = 2 "plumbline",
    }

    /// What was asked for; the names of RFC 959, RFC 3659, RFC 354 and RFC 1350.
    pub enum Command {
        /// A file from the server.
        Retr = 1 "RETR",
        /// A file to the server.
        Stor = 2 "STOR",
        /// A file to the end of another one.
        Appe = 3 "APPE",
        /// A file to the server under a name that it chooses.
        Stou = 4 "STOU",
        /// A listing for people.
        List = 5 "LIST",
        /// The names alone.
        Nlst = 6 "NLST",
        /// A listing for programs.
        Mlsd = 7 "MLSD",
        /// Mail over the data connection (RFC 354).
        Mlfl = 8 "MLFL",
        /// Mail over the control connection (RFC 354).
        Mail = 9 "MAIL",
        /// A file from a TFTP server.
        TftpRrq = 10 "TFTP-RRQ",
        /// A file to a TFTP server.
        TftpWrq = 11 "TFTP-WRQ",
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

    /// The transmission mode (RFC 959 §3.4), and deflate.
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

    /// How the data connection was asked for.
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

    /// How it ended.
    pub enum Outcome {
        /// All of it arrived.
        Complete = 1 "complete",
        /// The user ended it.
        AbortedByUser = 2 "aborted-by-user",
        /// The far side, or the path to it, ended it.
        AbortedByPeer = 3 "aborted-by-peer",
        /// Nothing came for too long.
        Timeout = 4 "timeout",
        /// No room on the disk, or it failed.
        Disk = 5 "disk",
        /// The user may not have so much.
        Quota = 6 "quota",
        /// The far side broke the protocol, or one of the two does not do what was asked for.
        Protocol = 7 "protocol",
        /// This machine refused what was needed, and not for want of room.
        Local = 8 "local",
        /// The server refused: the file is not there, or the user may not have it so.
        Refused = 9 "refused",
    }

    /// What kept a transfer from being faster.
    pub enum Limit {
        /// The far side: its window was full.
        Peer = 1 "peer",
        /// The network.
        Network = 2 "net",
        /// This processor.
        Processor = 3 "cpu",
        /// This disk.
        Disk = 4 "disk",
        /// This program or its send buffer.
        Application = 5 "app",
    }
}

impl Command {
    /// Returns whether the file goes from the user to the server.
    #[must_use]
    pub const fn is_to_server(self) -> bool {
        match self {
            Self::Stor | Self::Appe | Self::Stou | Self::Mlfl | Self::Mail | Self::TftpWrq => true,
            Self::Retr | Self::List | Self::Nlst | Self::Mlsd | Self::TftpRrq => false,
        }
    }

    /// Returns whether it is a listing that is moved, and no file.
    #[must_use]
    pub const fn is_listing(self) -> bool {
        matches!(self, Self::List | Self::Nlst | Self::Mlsd)
    }

    /// Returns whether a program of this `role` sends the file.
    #[must_use]
    pub fn is_sent_by(self, role: Role) -> bool {
        self.is_to_server() == (role == Role::User)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_from_its_text_and_from_its_code() {
        for command in Command::ALL {
            assert_eq!(Command::from_text(command.text()), Some(*command));
            assert_eq!(Command::from_code(command.code()), Some(*command));
        }
    }

    #[test]
    fn a_word_that_is_not_known_is_none() {
        assert_eq!(Outcome::from_text("vanished"), None);
        assert_eq!(Outcome::from_number(256 + 1), None);
        assert_eq!(Outcome::from_code(0), None);
    }

    #[test]
    fn a_user_sends_what_it_stores_and_a_server_what_is_retrieved() {
        assert!(Command::Stor.is_sent_by(Role::User) && Command::Retr.is_sent_by(Role::Server));
        assert!(!Command::Stor.is_sent_by(Role::Server) && !Command::Retr.is_sent_by(Role::User));
    }
}
