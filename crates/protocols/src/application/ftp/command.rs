//! Commands: from a line to an enum that cannot be wrong.
//!
//! Known are all of RFC 959, 1123, 2228, 2389, 2428, 1639, 2640, 3659, 4217 and 7151, the X-forms of
//! RFC 775, MFMT and MFF, the hashes, COMB, AVBL, CSID, and MLFL and MAIL of RFC 354. Each verb has
//! one row in a table: its text, the right that it needs and how it is written. A verb that is in
//! no row is 500, an argument that is wrong 501, one that is right and not done here 504 (RFC 959
//! §4.2).

use super::address::{AddressError, Family, parse_eprt, parse_lprt, parse_port};
use super::listing::FactSet;
use super::name::{Name, NameError, has_control};
use super::representation::{ByteSize, Format, Mode, Structure, Type};
use super::timestamp::Timestamp;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

mod arguments;
#[cfg(test)]
mod tests;

/// The most bytes of a command line; ours.
pub const COMMAND_MAX_BYTES: usize = 4096;

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Nothing: it is for everybody who connects.
    Anyone,
    /// A login.
    Login,
    /// To see what there is.
    List,
    /// To read files.
    Read,
    /// To write files that are not there.
    Write,
    /// To write files that are there.
    Overwrite,
    /// To remove files and directories.
    Delete,
    /// To give another name.
    Rename,
    /// To make directories.
    MakeDirectory,
    /// To change what is known of a file: its mode, its time.
    Change,
    /// To send mail.
    Mail,
    /// To write behind the end of files that are there.
    Append,
}

impl Right {
    /// Every right that is given, with its name.
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

    /// Returns the right that is called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }

    /// Returns what is said to who does not have it.
    #[must_use]
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Anyone | Self::Login => "Permission denied",
            Self::List => "Permission denied: no right to list here",
            Self::Read => "Permission denied: no right to read here",
            Self::Write => "Permission denied: no right to write new files here",
            Self::Overwrite => "Permission denied: no right to overwrite what is there",
            Self::Append => "Permission denied: no right to append to what is there",
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
        /// The verbs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "a verb is its own text")]
        pub enum Verb { $($variant,)+ }

        impl Verb {
            /// Every verb, in the order of HELP.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns it as it is sent.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns what it needs.
            #[must_use]
            pub const fn right(self) -> Right {
                match self { $(Self::$variant => Right::$right),+ }
            }

            /// Returns its argument as HELP shows it.
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

/// Other texts for the same: the X-forms of RFC 775 (RFC 1123 §4.1.3.1), and names of hashes.
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
    /// Returns whether it is known and nothing is done for it: 502 whatever its argument.
    #[must_use]
    pub const fn is_unimplemented(self) -> bool {
        matches!(self, Self::Smnt | Self::Adat | Self::Mic | Self::Conf | Self::Enc)
    }

    /// Returns the verb that `text` is, in either case.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(text);
        let known = Self::ALL.iter().copied().find(|verb| is(verb.text()));
        known.or_else(|| ALIASES.iter().find(|(alias, _)| is(alias)).map(|(_, verb)| *verb))
    }
}

/// A password. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Makes a secret, which may be empty.
    ///
    /// # Errors
    ///
    /// If it has a CR, an LF or a NUL, or is too long.
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

    /// Returns its bytes.
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

/// A hash that a server may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// CRC-32 of Ethernet and zip.
    Crc32,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
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

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Returns the algorithm with this name, in either case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        Self::ALL.iter().find(|(_, known)| is(known)).map(|(algorithm, _)| *algorithm)
    }
}

/// A part of a file: from the first number to before the second, or to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last; `None` for the end of the file.
    pub end: Option<u64>,
}

/// The argument of EPSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epsv {
    /// None: the family of the control connection.
    Same,
    /// A family.
    Of(Family),
    /// ALL: no other way to make a data connection follows.
    All,
}

/// The argument of LIST, NLST and STAT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Whether an option asks for names that begin with a dot.
    pub shows_hidden: bool,
    /// What is to be listed; `None` for where one is.
    pub name: Option<Name>,
}

/// The argument of OPTS (RFC 2389).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opts {
    /// Names are of UTF-8, which they are anyway.
    Utf8(bool),
    /// The facts of MLST and MLSD.
    Mlst(FactSet),
    /// The algorithm of HASH; `None` asks which it is.
    Hash(Option<HashAlgorithm>),
    /// How hard MODE Z tries, 1 to 9.
    DeflateLevel(u8),
}

/// The argument of PROT (RFC 2228).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// C: data travels in the clear.
    Clear,
    /// P: data travels in TLS.
    Private,
}

/// The argument of AUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// TLS, with data in the clear until PROT says otherwise.
    Tls,
    /// SSL, an old name that protects data at once.
    Ssl,
}

/// The argument of SITE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// HELP.
    Help,
    /// CHMOD, with the twelve bits of Unix.
    Chmod(u16, Name),
    /// UTIME.
    Utime(Timestamp, Name),
    /// PARTIAL: the upload of this name that broke off. An extension of plumbline.
    Partial(Name),
}

/// Facts that MFF may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// `Modify=`.
    pub modified: Option<Timestamp>,
    /// `Create=`.
    pub created: Option<Timestamp>,
    /// `UNIX.mode=`.
    pub mode: Option<u16>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "a variant is the verb with its argument; RFC 959 §4.1 says which")]
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
    List(Listed),
    Nlst(Listed),
    Site(Site),
    Syst,
    Stat(Listed),
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
    /// One of the verbs that name a hash.
    HashOf(HashAlgorithm, Range, Name),
    /// The file and its parts, at least one.
    Comb(Name, Vec<Name>),
    Avbl(Option<Name>),
    Csid(Name),
    Clnt(Name),
    Mlfl(Option<Name>),
    Mail(Option<Name>),
}

/// Why a line is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The verb is unknown: 500.
    Unrecognized,
    /// The argument is wrong: 501.
    Syntax(Verb),
    /// The verb is known and not done here: 502.
    NotImplemented(Verb),
    /// The argument is right and not done here: 504.
    Parameter(Verb),
    /// The family of addresses is not here: 522 (RFC 2428).
    Family(Verb),
    /// The level of protection is unknown or not there: 504 and 536 (RFC 2228).
    Protection(Verb),
}

impl Command {
    /// Reads one line, without its end.
    ///
    /// # Errors
    ///
    /// If it is no command that is done here.
    pub fn parse(line: &[u8]) -> Result<Self, CommandError> {
        let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let (text, argument) = line.split_at_checked(end).unwrap_or((line, &[]));
        let verb = Verb::from_text(text).ok_or(CommandError::Unrecognized)?;
        // One space separates; what follows it may be part of a name.
        let argument = argument.get(1..).unwrap_or_default();
        if has_control(argument) {
            return Err(CommandError::Syntax(verb));
        }
        arguments::command(verb, argument)
    }
}
