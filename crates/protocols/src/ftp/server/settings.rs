//! Settings of a server, and the rights of its users.

use crate::ftp::command::Right;
use crate::ftp::name::VirtualPath;
use alloc::string::String;
use net::time::Duration;

/// The server's requirement for TLS in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS is not available.
    #[default]
    None,
    /// TLS is used only if the client requests it.
    Offered,
    /// A login requires TLS.
    RequiredForLogin,
    /// A login requires TLS, and so does every data connection.
    RequiredForData,
}

/// The set of rights of a user, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// No rights beyond those of every login.
    pub const NONE: Self = Self(0);
    /// Rights to list and read files.
    pub const READ_ONLY: Self = Self::NONE.with(Right::List).with(Right::Read);
    /// All rights except mail.
    pub const ALL: Self = Self::READ_ONLY
        .with(Right::Write)
        .with(Right::Overwrite)
        .with(Right::Append)
        .with(Right::Delete)
        .with(Right::Rename)
        .with(Right::MakeDirectory)
        .with(Right::Change);

    /// Returns the set with `right` added.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | 1 << right as u16)
    }

    /// Returns the set with `right` removed.
    #[must_use]
    pub const fn without(self, right: Right) -> Self {
        Self(self.0 & !(1 << right as u16))
    }

    /// Returns the union of this set and `others`.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns whether the set contains `right`. The rights that every client or every login has
    /// are always contained.
    #[must_use]
    pub const fn contains(self, right: Right) -> bool {
        matches!(right, Right::Anyone | Right::Login) || self.0 >> right as u16 & 1 == 1
    }
}

/// Account of an authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Rights of the user in all directories. If the rights differ by path, the owner also checks
    /// each path.
    pub rights: Rights,
    /// Initial working directory.
    pub home: VirtualPath,
}

/// Default grace time of an upload: the maximum expected time between the last byte of the upload
/// and the end of the control connection if the client was killed. This time is normally a few
/// milliseconds, or a retransmission interval if packets are lost.
const UPLOAD_GRACE: Duration = Duration::from_secs(1);

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Text of the greeting.
    pub greeting: String,
    /// Text of the reply to SYST (RFC 959); its first word is an official system name.
    pub system: String,
    /// Requirement for TLS.
    pub tls: TlsPolicy,
    /// Names of the users who need no TLS if [`Self::tls`] requires it, in any case of letters. The
    /// owner must give these names no rights that depend on a password.
    pub cleartext_users: &'static [&'static [u8]],
    /// Whether the session begins with a TLS handshake.
    pub is_implicit_tls: bool,
    /// Whether CCC may switch the control connection back to plaintext.
    pub allows_clear_control: bool,
    /// Whether the server accepts mail (RFC 354).
    pub accepts_mail: bool,
    /// Number of failed logins after which the session ends.
    pub logins_max: u32,
    /// Maximum time from the start of the session to the login.
    pub login_timeout: Duration,
    /// Time without a command after which the session ends. RFC 1123 §4.1.3.2 requires at least
    /// five minutes.
    pub idle_timeout: Duration,
    /// Maximum time from reply 150 to an established data connection.
    pub data_connect_timeout: Duration,
    /// Time without data after which a transfer fails.
    pub stall_timeout: Duration,
    /// Maximum time after the end of an upload's data in which the server waits for a sign that the
    /// client has died. It applies only if the data has no end mark of its own.
    ///
    /// If the owner can revert the upload, reply 226 is sent at once. If the control connection is
    /// then reset before another command arrives, or ends before the reply is acknowledged, the
    /// client has died, and its upload is reverted because it may be truncated. If the owner cannot
    /// revert the upload, it is committed after this time or 50 ms, whichever is shorter. With
    /// zero, every upload is committed at once.
    pub upload_grace: Duration,
    /// Lowest port that a user may specify for a data connection; lower ports belong to services.
    pub data_port_min: u16,
    /// Maximum size in bytes of a file whose size or hash in a text type is computed. The
    /// computation requires reading the whole file.
    pub text_size_max_bytes: u64,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            greeting: "plumbline FTP server ready".into(),
            system: "UNIX Type: L8".into(),
            tls: TlsPolicy::None,
            cleartext_users: &[],
            is_implicit_tls: false,
            allows_clear_control: false,
            accepts_mail: false,
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
