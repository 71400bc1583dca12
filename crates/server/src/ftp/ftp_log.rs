//! Log events of the FTP server, one line each. Names sent by clients are already escaped
//! (attack 92).

use crate::log_line::{Level, LogEvent};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Log event of the FTP server.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum FtpEvent {
    /// A listener is open.
    ServingFtp { at: String, how: &'static str, what: String },
    /// SHA-256 fingerprint of the certificate.
    Certificate { sha256: String },
    /// The descriptor limit of this process is too low for the maximum number of sessions.
    FewDescriptors { allowed: u64, sessions: u64 },
    /// TLS is not offered.
    NoTls { why: String },
    /// A connection or login was refused, or a session failed.
    Refused { from: SocketAddr, why: String },
    /// A login attempt failed.
    LoginFailed {
        from: SocketAddr,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A user logged in.
    LoggedIn {
        from: SocketAddr,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A transfer completed.
    Moved {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        is_read: bool,
        bytes: u64,
        micros: u64,
    },
    /// A transfer failed.
    Failed {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        is_read: bool,
        bytes: u64,
        why: String,
    },
    /// Names in a directory could not be sent unchanged.
    #[serde(rename = "names-untold")]
    UnsendableNames {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        count: u64,
    },
    /// A session ended.
    Left { from: SocketAddr, seconds: u64 },
    /// The configuration was reloaded.
    Reloaded,
    /// Reloading failed; the previous configuration remains in force.
    NotReloaded { why: String },
}

impl fmt::Display for FtpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = |is_read: bool| if is_read { "download" } else { "upload" };
        match self {
            Self::ServingFtp { at, how, what } => write!(f, "serving FTP at {at}, {how}: {what}"),
            Self::Certificate { sha256 } => write!(f, "certificate SHA-256 {sha256}"),
            Self::FewDescriptors { allowed, sessions } => write!(
                f,
                "open-file limit {allowed} allows {sessions} concurrent transfers: raise the \
                 hard limit (ulimit -Hn) for more"
            ),
            Self::NoTls { why } => write!(f, "TLS is not offered: {why}"),
            Self::Refused { from, why } => write!(f, "{from} refused: {why}"),
            Self::LoginFailed { from, name, host } => {
                write!(f, "{from}: login failed for {}", user_at_host(name, host.as_deref()))
            }
            Self::LoggedIn { from, name, host } => {
                write!(f, "{from} logged in as {}", user_at_host(name, host.as_deref()))
            }
            Self::Moved { from, user, host, name, is_read, bytes, micros } => {
                let user = user_at_host(user, host.as_deref());
                let direction = direction(*is_read);
                let time = records::format::duration(micros.saturating_mul(1000));
                write!(f, "{from} as {user}: {direction} of '{name}': {bytes} bytes in {time}")
            }
            Self::Failed { from, user, host, name, is_read, bytes, why } => {
                let user = user_at_host(user, host.as_deref());
                let direction = direction(*is_read);
                write!(
                    f,
                    "{from} as {user}: {direction} of '{name}' failed after {bytes} bytes: {why}"
                )
            }
            Self::UnsendableNames { from, user, host, name, count } => write!(
                f,
                "{from} as {}: listing of '{name}': {count} names with line ends or other \
                 control characters are omitted or shown with ?",
                user_at_host(user, host.as_deref())
            ),
            Self::Left { from, seconds } => write!(f, "{from} disconnected after {seconds} s"),
            Self::Reloaded => f.write_str("configuration reloaded"),
            Self::NotReloaded { why } => {
                write!(f, "configuration not reloaded, the old one stays in force: {why}")
            }
        }
    }
}

impl LogEvent for FtpEvent {
    fn level(&self) -> Level {
        match self {
            Self::NotReloaded { .. } => Level::Error,
            Self::FewDescriptors { .. }
            | Self::NoTls { .. }
            | Self::Refused { .. }
            | Self::LoginFailed { .. }
            | Self::UnsendableNames { .. } => Level::Warning,
            Self::ServingFtp { .. } | Self::Certificate { .. } | Self::Reloaded => Level::Notice,
            Self::LoggedIn { .. }
            | Self::Moved { .. }
            | Self::Failed { .. }
            | Self::Left { .. } => Level::Info,
        }
    }
}

/// Returns a user name with its virtual host, for display.
fn user_at_host(user: &str, host: Option<&str>) -> String {
    host.map_or_else(|| format!("'{user}'"), |host| format!("'{user}' of {host}"))
}

#[cfg(test)]
mod tests {
    use super::super::super::log::{HOSTILE, assert_lines_are_harmless};
    use super::*;

    // attack row 75
    #[test]
    fn ftp_log_lines_contain_no_terminal_command_or_forged_line() {
        let from = SocketAddr::from(([192, 0, 2, 7], 2121));
        let text = || HOSTILE.to_owned();
        let host = || Some(text());
        let is_read = true;
        let bytes = 1;
        let events = [
            FtpEvent::ServingFtp { at: text(), how: "how", what: text() },
            FtpEvent::Certificate { sha256: text() },
            FtpEvent::FewDescriptors { allowed: 1, sessions: 1 },
            FtpEvent::NoTls { why: text() },
            FtpEvent::Refused { from, why: text() },
            FtpEvent::LoginFailed { from, name: text(), host: host() },
            FtpEvent::LoggedIn { from, name: text(), host: host() },
            FtpEvent::Moved {
                from,
                user: text(),
                host: host(),
                name: text(),
                is_read,
                bytes,
                micros: 1,
            },
            FtpEvent::Failed {
                from,
                user: text(),
                host: host(),
                name: text(),
                is_read,
                bytes,
                why: text(),
            },
            FtpEvent::UnsendableNames { from, user: text(), host: host(), name: text(), count: 1 },
            FtpEvent::Left { from, seconds: 1 },
            FtpEvent::Reloaded,
            FtpEvent::NotReloaded { why: text() },
        ];
        assert_lines_are_harmless(&events, 13, |event| match event {
            FtpEvent::ServingFtp { .. } => 0,
            FtpEvent::Certificate { .. } => 1,
            FtpEvent::FewDescriptors { .. } => 2,
            FtpEvent::NoTls { .. } => 3,
            FtpEvent::Refused { .. } => 4,
            FtpEvent::LoginFailed { .. } => 5,
            FtpEvent::LoggedIn { .. } => 6,
            FtpEvent::Moved { .. } => 7,
            FtpEvent::Failed { .. } => 8,
            FtpEvent::UnsendableNames { .. } => 9,
            FtpEvent::Left { .. } => 10,
            FtpEvent::Reloaded => 11,
            FtpEvent::NotReloaded { .. } => 12,
        });
    }

    #[test]
    fn log_lines_name_the_virtual_host_of_a_user() {
        let from = SocketAddr::from(([192, 0, 2, 7], 2121));
        let logged_in = |host: Option<&str>| {
            let host = host.map(str::to_owned);
            FtpEvent::LoggedIn { from, name: "ann".to_owned(), host }
        };
        let of_org = logged_in(Some("ftp.example.org"));
        assert!(of_org.to_string().ends_with(" logged in as 'ann' of ftp.example.org"));
        assert!(serde_json::to_string(&of_org).unwrap().contains("\"host\":\"ftp.example.org\""));
        let ours = logged_in(None);
        assert!(ours.to_string().ends_with(" logged in as 'ann'"));
        assert!(!serde_json::to_string(&ours).unwrap().contains("host"));
    }
}
