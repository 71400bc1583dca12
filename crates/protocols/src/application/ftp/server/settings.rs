//! What a server is, and who may do what.

use crate::application::ftp::command::Right;
use crate::application::ftp::name::VirtualPath;
use crate::time::Duration;
use alloc::string::String;

/// What of a session is in TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// There is no TLS.
    #[default]
    None,
    /// Who asks has it.
    Offered,
    /// Nobody logs in without.
    RequiredForLogin,
    /// And nothing travels on a data connection without.
    RequiredForData,
}

/// The rights of a user, each with a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// None, but what every login has.
    pub const NONE: Self = Self(0);
    /// To see and to read.
    pub const READ_ONLY: Self = Self::NONE.with(Right::List).with(Right::Read);
    /// All but mail.
    pub const ALL: Self = Self::READ_ONLY
        .with(Right::Write)
        .with(Right::Overwrite)
        .with(Right::Append)
        .with(Right::Delete)
        .with(Right::Rename)
        .with(Right::MakeDirectory)
        .with(Right::Change);

    /// Returns them with one more.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | 1 << right as u16)
    }

    /// Returns them with one less.
    #[must_use]
    pub const fn without(self, right: Right) -> Self {
        Self(self.0 & !(1 << right as u16))
    }

    /// Returns what is in these or in `others`.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns whether `right` is among them; what everybody may is.
    #[must_use]
    pub const fn contains(self, right: Right) -> bool {
        matches!(right, Right::Anyone | Right::Login) || self.0 >> right as u16 & 1 == 1
    }
}

/// What the owner knows of a user who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What he may anywhere; where it is not the same everywhere, the owner looks at each name.
    pub rights: Rights,
    /// Where he begins.
    pub home: VirtualPath,
}

/// Behind the last byte of an upload the end of the control connection of a killed client comes in
/// milliseconds, or behind a retransmission if it is lost. Nothing waits for this time.
const UPLOAD_GRACE: Duration = Duration::from_secs(1);

/// What a server is.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The text of the greeting.
    pub greeting: String,
    /// The answer to SYST (RFC 959; the first word is an official name).
    pub system: String,
    /// TLS.
    pub tls: TlsPolicy,
    /// Whether the session begins in TLS.
    pub is_implicit_tls: bool,
    /// Whether CCC may take the control connection out of TLS.
    pub allows_clear_control: bool,
    /// Whether files may be mailed (RFC 354).
    pub takes_mail: bool,
    /// Failed logins before the session ends.
    pub logins_max: u32,
    /// From the start to a login.
    pub login_timeout: Duration,
    /// Without a command. RFC 1123 §4.1.3.2 asks for at least five minutes.
    pub idle_timeout: Duration,
    /// From 150 to a data connection.
    pub data_connect_timeout: Duration,
    /// Without a byte on a data connection.
    pub stall_timeout: Duration,
    /// From the reply to an upload whose end nothing marks: if the control connection is reset within
    /// this time and before another command, or ends without the reply having been acknowledged, the
    /// client has died and the upload, which may be cut off, is taken back. An upload that cannot be
    /// taken back is committed after this time or 50 ms, whichever is shorter. Zero commits at once.
    pub upload_grace: Duration,
    /// Lowest port that a user may name for data; below it are those of services.
    pub data_port_min: u16,
    /// The largest file whose size or hash in a text type is told; it takes a look at all of it.
    pub text_size_max_bytes: u64,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            greeting: "plumbline FTP server ready".into(),
            system: "UNIX Type: L8".into(),
            tls: TlsPolicy::None,
            is_implicit_tls: false,
            allows_clear_control: false,
            takes_mail: false,
            logins_max: 3,
            login_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(300),
            data_connect_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(120),
            upload_grace: UPLOAD_GRACE,
            data_port_min: 1024,
            text_size_max_bytes: 8 << 20,
        }
    }
}
