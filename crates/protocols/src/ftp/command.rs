//! Commands: parsing of command lines into a type without invalid values.
//!
//! The parser knows the commands of RFC 959, 1123, 2228, 2389, 2428, 1639, 2640, 3659, 4217 and
//! 7151, the X-forms of RFC 775, MFMT and MFF, the hash commands, COMB, AVBL, CSID, and MLFL and
//! MAIL of RFC 354. Each verb has one row in a table: its text, the right that it requires and the
//! syntax of its argument. The reply to a verb without a row is 500, to an invalid argument 501,
//! and to a valid but unsupported argument 504 (RFC 959 §4.2).

use super::address::{AddressError, Family, parse_eprt, parse_lprt, parse_port};
use super::listing::FactSet;
use super::name::{Name, NameError, has_control};
use super::representation::{ByteSize, Format, Mode, Structure, Type};
use super::timestamp::Timestamp;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

mod argument_syntax;
#[cfg(test)]
mod tests;

/// Maximum length of a command line in bytes (our choice).
pub const COMMAND_MAX_BYTES: usize = 4096;

/// Right that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// No right: every client may send the command, even without a login.
    Anyone,
    /// A login, without any further right.
    Login,
    /// List directories.
    List,
    /// Read files.
    Read,
    /// Create new files.
    Write,
    /// Overwrite existing files.
    Overwrite,
    /// Remove files and directories.
    Delete,
    /// Rename files and directories.
    Rename,
    /// Create directories.
    MakeDirectory,
    /// Change metadata of a file: its mode and time.
    Change,
    /// Send mail.
    Mail,
    /// Append to existing files.
    Append,
}

impl Right {
    /// Every right that can be granted, with its name.
    pub const NAMED: [(Self, &'static str); 10] = [
        (Self::List, "list"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Overwrite, "overwrite"),
        (Self::Append, "append"),
        (Self::Delete, "delete"),
        (Self::Rename, "rename"),
        (Self::MakeDirectory, "mkdir"),
        (Self::Change, "site"),
        (Self::Mail, "mail"),
    ];

    /// Returns the right with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }

    /// Returns the reply text for a user who lacks this right.
    #[must_use]
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Anyone | Self::Login => "Permission denied",
            Self::List => "Permission denied: no right to list here",
            Self::Read => "Permission denied: no right to read here",
            Self::Write => "Permission denied: no right to write new files here",
            Self::Overwrite => "Permission denied: no right to overwrite existing files",
            Self::Append => "Permission denied: no right to append to existing files",
            Self::Delete => "Permission denied: no right to delete here",
            Self::Rename => "Permission denied: no right to rename here",
            Self::MakeDirectory => "Permission denied: no right to make directories here",
            Self::Change => "Permission denied: no right to change modes and times here",
            Self::Mail => "Permission denied: no right to send mail",
        }
    }
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $variant:ident $text:literal $right:ident $usage:literal,)+) => {
        /// The verb of a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant has the text of its verb as its name")]
        pub enum Verb { $($variant,)+ }

        impl Verb {
            /// Every verb, in the order of HELP.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the text of the verb in a command line, such as `RETR`.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the right that the verb requires.
            #[must_use]
            pub const fn right(self) -> Right {
                match self { $(Self::$variant => Right::$right),+ }
            }

            /// Returns the syntax of the argument as HELP displays it.
            #[must_use]
            pub const fn usage(self) -> &'static str {
                match self { $(Self::$variant => $usage),+ }
            }
        }
    };
}

verbs! {
    User "USER" Anyone "name",
    Pass "PASS" Anyone "password",
    Acct "ACCT" Anyone "account",
    Cwd "CWD" Login "directory",
    Cdup "CDUP" Login "",
    Smnt "SMNT" Login "name",
    Rein "REIN" Anyone "",
    Quit "QUIT" Anyone "",
    Port "PORT" Login "h1,h2,h3,h4,p1,p2",
    Pasv "PASV" Login "",
    Lprt "LPRT" Login "family,length,octets,2,p1,p2",
    Lpsv "LPSV" Login "",
    Eprt "EPRT" Login "|family|address|port|",
    Epsv "EPSV" Login "[family | ALL]",
    Type "TYPE" Login "A [N|T|C] | E [N|T|C] | I | L bits",
    Stru "STRU" Login "F | R | P",
    Mode "MODE" Login "S | B | C | Z",
    Retr "RETR" Read "file",
    Stor "STOR" Write "file",
    Stou "STOU" Write "[file]",
    Appe "APPE" Append "file",
    Allo "ALLO" Login "bytes [R bytes]",
    Rest "REST" Login "marker",
    Rnfr "RNFR" Rename "file",
    Rnto "RNTO" Rename "file",
    Abor "ABOR" Login "",
    Dele "DELE" Delete "file",
    Rmd "RMD" Delete "directory",
    Mkd "MKD" MakeDirectory "directory",
    Pwd "PWD" Login "",
    List "LIST" List "[file]",
    Nlst "NLST" List "[file]",
    Site "SITE" Login "HELP | CHMOD mode file | UTIME time file | PARTIAL file",
    Syst "SYST" Anyone "",
    Stat "STAT" Login "[file]",
    Help "HELP" Anyone "[command]",
    Noop "NOOP" Anyone "",
    Auth "AUTH" Anyone "TLS",
    Adat "ADAT" Anyone "data",
    Pbsz "PBSZ" Anyone "0",
    Prot "PROT" Anyone "C | P",
    Ccc "CCC" Login "",
    Mic "MIC" Anyone "data",
    Conf "CONF" Anyone "data",
    Enc "ENC" Anyone "data",
    Feat "FEAT" Anyone "",
    Opts "OPTS" Anyone "UTF8 ON | MLST facts | HASH algorithm | MODE Z LEVEL n",
    Lang "LANG" Anyone "[language]",
    Host "HOST" Anyone "name",
    Mdtm "MDTM" List "file",
    Size "SIZE" List "file",
    Mlst "MLST" List "[file]",
    Mlsd "MLSD" List "[directory]",
    Mfmt "MFMT" Change "time file",
    Mff "MFF" Change "facts file",
    Hash "HASH" Read "file",
    Xcrc "XCRC" Read "file [from [to]]",
    Xmd5 "XMD5" Read "file [from [to]]",
    Xsha "XSHA" Read "file [from [to]]",
    Xsha256 "XSHA256" Read "file [from [to]]",
    Xsha512 "XSHA512" Read "file [from [to]]",
    Comb "COMB" Write "file part ...",
    Avbl "AVBL" List "[directory]",
    Csid "CSID" Anyone "name=value; ...",
    Clnt "CLNT" Anyone "name",
    Mlfl "MLFL" Mail "[user]",
    Mail "MAIL" Mail "[user]",
}

/// Alternative texts of verbs: the X-forms of RFC 775 (RFC 1123 §4.1.3.1), and other names of hash
/// commands.
const ALIASES: [(&str, Verb); 8] = [
    ("XCUP", Verb::Cdup),
    ("XCWD", Verb::Cwd),
    ("XMKD", Verb::Mkd),
    ("XPWD", Verb::Pwd),
    ("XRMD", Verb::Rmd),
    ("MD5", Verb::Xmd5),
    ("XSHA1", Verb::Xsha),
    ("BYE", Verb::Quit),
];

impl Verb {
    /// Returns whether the verb is known but not implemented. Such a verb is answered with 502,
    /// whatever its argument.
    #[must_use]
    pub const fn is_unimplemented(self) -> bool {
        matches!(self, Self::Smnt | Self::Adat | Self::Mic | Self::Conf | Self::Enc)
    }

    /// Returns the verb with this text, in upper or lower case.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let is_text = |name: &str| name.as_bytes().eq_ignore_ascii_case(text);
        let verb = Self::ALL.iter().copied().find(|verb| is_text(verb.text()));
        verb.or_else(|| ALIASES.iter().find(|(alias, _)| is_text(alias)).map(|(_, verb)| *verb))
    }
}

/// A password or account. Its contents are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates a secret, which may be empty.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the bytes contain a CR, an LF or a NUL, or are too long.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        if has_control(&bytes) {
            return Err(NameError::Control);
        }
        if bytes.len() > COMMAND_MAX_BYTES {
            return Err(NameError::TooLong);
        }
        Ok(Self(bytes))
    }

    /// Returns the bytes of the secret.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Hash algorithm of the commands HASH, XCRC, XMD5, XSHA1, XSHA256 and XSHA512.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// CRC-32, as in Ethernet and zip.
    Crc32,
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
}

impl HashAlgorithm {
    /// Every algorithm, with its name on the wire.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Crc32, "CRC32"),
        (Self::Md5, "MD5"),
        (Self::Sha1, "SHA-1"),
        (Self::Sha256, "SHA-256"),
        (Self::Sha512, "SHA-512"),
    ];

    /// Returns the name of the algorithm.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Returns the algorithm with this name, in upper or lower case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let is_text = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        Self::ALL.iter().find(|(_, known)| is_text(known)).map(|(algorithm, _)| *algorithm)
    }
}

/// Byte range of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte; `None` for the end of the file.
    pub end: Option<u64>,
}

/// The argument of EPSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epsv {
    /// No argument: the address family of the control connection.
    Same,
    /// An address family.
    Family(Family),
    /// ALL: the client will use no other command to set up data connections.
    All,
}

/// The argument of LIST, NLST and STAT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListArgument {
    /// Whether to list names that begin with a dot.
    pub shows_hidden: bool,
    /// The file or directory to list; `None` for the working directory.
    pub name: Option<Name>,
}

/// The argument of OPTS (RFC 2389).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opts {
    /// UTF8: whether names are UTF-8. Accepted without effect, since names are always UTF-8.
    Utf8(bool),
    /// MLST: the facts that MLST and MLSD report.
    Mlst(FactSet),
    /// HASH: the algorithm that HASH uses; `None` queries the current one.
    Hash(Option<HashAlgorithm>),
    /// Compression level of MODE Z, 1 to 9.
    DeflateLevel(u8),
}

/// The argument of PROT (RFC 2228).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// C: data is sent in plaintext.
    Clear,
    /// P: data is sent over TLS.
    Private,
}

/// The argument of AUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// TLS: data is sent in plaintext until PROT changes the protection level.
    Tls,
    /// SSL: an old name of TLS with which data is protected from the start.
    Ssl,
}

/// The argument of SITE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// HELP: lists the SITE commands.
    Help,
    /// CHMOD: sets the twelve mode bits of a Unix file.
    Chmod(u16, Name),
    /// UTIME: sets the modification time of a file.
    Utime(Timestamp, Name),
    /// PARTIAL: queries the stored size of an interrupted upload of this name. An extension of
    /// plumbline.
    Partial(Name),
}

/// Facts that MFF may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// Modification time (`Modify=`).
    pub modified: Option<Timestamp>,
    /// Creation time (`Create=`).
    pub created: Option<Timestamp>,
    /// Unix mode bits (`UNIX.mode=`).
    pub mode: Option<u16>,
}

/// One parsed command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each variant is a verb with its argument, as defined in RFC 959 §4.1"
)]
pub enum Command {
    User(Name),
    Pass(Secret),
    Acct(Secret),
    Cwd(Name),
    Cdup,
    Smnt(Name),
    Rein,
    Quit,
    Port(SocketAddr),
    Pasv,
    Lprt(SocketAddr),
    Lpsv,
    Eprt(SocketAddr),
    Epsv(Epsv),
    Type(Type),
    Stru(Structure),
    Mode(Mode),
    Retr(Name),
    Stor(Name),
    Stou(Option<Name>),
    Appe(Name),
    Allo(u64),
    Rest(u64),
    Rnfr(Name),
    Rnto(Name),
    Abor,
    Dele(Name),
    Rmd(Name),
    Mkd(Name),
    Pwd,
    List(ListArgument),
    Nlst(ListArgument),
    Site(Site),
    Syst,
    Stat(ListArgument),
    Help(Option<Name>),
    Noop,
    Auth(Mechanism),
    Pbsz,
    Prot(Protection),
    Ccc,
    Feat,
    Opts(Opts),
    Lang(Option<Name>),
    Host(Name),
    Mdtm(Name),
    Size(Name),
    Mlst(Option<Name>),
    Mlsd(Option<Name>),
    Mfmt(Timestamp, Name),
    Mff(SetFacts, Name),
    Hash(Name),
    /// XCRC, XMD5, XSHA1, XSHA256 or XSHA512: a hash command whose verb names the algorithm.
    HashOf(HashAlgorithm, Range, Name),
    /// COMB: the target file and the files to append to it, at least one.
    Comb(Name, Vec<Name>),
    Avbl(Option<Name>),
    Csid(Name),
    Clnt(Name),
    Mlfl(Option<Name>),
    Mail(Option<Name>),
}

/// Reason why a line is not a valid command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The verb is unknown: reply 500.
    Unrecognized,
    /// The argument is invalid: reply 501.
    Syntax(Verb),
    /// The verb is known but not implemented: reply 502.
    NotImplemented(Verb),
    /// The argument is valid but not supported: reply 504.
    Parameter(Verb),
    /// The address family is not supported: reply 522 (RFC 2428).
    Family(Verb),
    /// The protection level is not available: reply 536 (RFC 2228).
    Protection(Verb),
}
