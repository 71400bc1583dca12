//! What the FTP server says of itself: one line an event. Names that somebody sent are escaped
//! already (attack 92).

use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// An event.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    /// Files are served.
    ServingFtp { at: SocketAddr, how: &'static str, what: String },
    /// The fingerprint of the certificate.
    Certificate { sha256: String },
    /// This process may not have as many descriptors as all sessions could need.
    FewDescriptors { allowed: u64, sessions: u64 },
    /// TLS is not offered.
    NoTls { why: String },
    /// Somebody was not let in, or his session failed.
    Refused { from: SocketAddr, why: String },
    /// Somebody could not prove who he is.
    LoginFailed { from: SocketAddr, name: String },
    /// Somebody has proved who he is.
    LoggedIn { from: SocketAddr, name: String },
    /// A file has gone out or come in.
    Moved { from: SocketAddr, user: String, name: String, is_read: bool, bytes: u64, micros: u64 },
    /// A transfer has failed.
    Failed { from: SocketAddr, user: String, name: String, is_read: bool, bytes: u64, why: String },
    /// Names of a folder could not be told as they are.
    NamesUntold { from: SocketAddr, user: String, name: String, count: u64 },
    /// A session has ended.
    Left { from: SocketAddr, seconds: u64 },
    /// The configuration was read again.
    Reloaded,
    /// It could not be, and the old one is in force.
    NotReloaded { why: String },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |is_read: bool| if is_read { "reads" } else { "writes" };
        match self {
            Self::ServingFtp { at, how, what } => write!(f, "serving FTP at {at}, {how}: {what}"),
            Self::Certificate { sha256 } => write!(f, "certificate SHA-256 {sha256}"),
            Self::FewDescriptors { allowed, sessions } => write!(
                f,
                "this process may have {allowed} descriptors open, enough for {sessions} sessions \
                 that move files at once: raise the hard limit (ulimit -Hn) for more"
            ),
            Self::NoTls { why } => write!(f, "TLS is not offered: {why}"),
            Self::Refused { from, why } => write!(f, "{from} is refused: {why}"),
            Self::LoginFailed { from, name } => write!(f, "{from} cannot prove to be '{name}'"),
            Self::LoggedIn { from, name } => write!(f, "{from} is logged in as '{name}'"),
            Self::Moved { from, user, name, is_read, bytes, micros } => {
                let way = way(*is_read);
                write!(f, "{from} as '{user}' {way} '{name}': {bytes} bytes in {micros} us")
            }
            Self::Failed { from, user, name, is_read, bytes, why } => {
                let way = way(*is_read);
                write!(f, "{from} as '{user}' {way} '{name}': ended after {bytes} bytes: {why}")
            }
            Self::NamesUntold { from, user, name, count } => write!(
                f,
                "{from} as '{user}' lists '{name}': {count} names hold line ends or other control \
                 characters, and are left out or shown with ?"
            ),
            Self::Left { from, seconds } => write!(f, "{from} has left after {seconds} s"),
            Self::Reloaded => f.write_str("the configuration was read again"),
            Self::NotReloaded { why } => {
                write!(f, "the configuration stays as it was: {why}")
            }
        }
    }
}
