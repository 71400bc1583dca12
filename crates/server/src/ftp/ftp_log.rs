//! Log events of the FTP server, one line each. Names sent by clients are already escaped
//! (attack 92).

use crate::log_line::{Level, LogEvent};
use crate::log_text::TransferAction;
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Log event of the FTP server.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum FtpEvent {
    /// A listener is open.
    ServingFtp { at: String, how: &'static str, what: String },
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
    #[serde(rename = "transfer-complete")]
    Moved {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        action: TransferAction,
        bytes: u64,
        duration_us: u64,
    },
    /// A transfer failed or was refused.
    #[serde(rename = "transfer-failed")]
    Failed {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        action: TransferAction,
        bytes: u64,
        why: String,
        #[serde(skip)]
        level: Level,
    },
    /// A command has changed a file or directory.
    Changed {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        #[serde(flatten)]
        change: Change,
    },
    /// A command was refused, mostly because the user lacks the right.
    #[serde(rename = "command-refused")]
    Denied {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        command: String,
        why: &'static str,
    },
    /// Names in a directory could not be sent unchanged.
    UnsendableNames {
        from: SocketAddr,
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        name: String,
        count: u64,
    },
    /// A session ended; `why` is the error of its connection, or the reason if the server ended it.
    #[serde(rename = "disconnected")]
    Left {
        from: SocketAddr,
        seconds: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        #[serde(skip)]
        level: Level,
    },
    /// System users cannot log in, because the server does not run as root.
    NoSystemUsers,
    /// Anonymous users cannot log in, because there are other users.
    NoAnonymous { because: &'static str },
}

/// Change of a file or directory by a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub(super) enum Change {
    Delete { name: String },
    RemoveDirectory { name: String },
    MakeDirectory { name: String },
    Rename { name: String, to: String },
    SetMode { name: String, mode: String },
    SetTime { name: String },
    Combine { name: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete { name } => write!(f, "deleted '{name}'"),
            Self::RemoveDirectory { name } => write!(f, "removed directory '{name}'"),
            Self::MakeDirectory { name } => write!(f, "created directory '{name}'"),
            Self::Rename { name, to } => write!(f, "renamed '{name}' to '{to}'"),
            Self::SetMode { name, mode } => write!(f, "changed the mode of '{name}' to {mode}"),
            Self::SetTime { name } => write!(f, "changed the modification time of '{name}'"),
            Self::Combine { name } => write!(f, "combined files into '{name}'"),
        }
    }
}

impl fmt::Display for FtpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServingFtp { at, how, what } => write!(f, "serving FTP at {at}, {how}: {what}"),
            Self::FewDescriptors { allowed, sessions } => write!(
                f,
                "open-file limit {allowed} allows {sessions} concurrent transfers: raise the \
                 hard limit (LimitNOFILE= of a unit, or ulimit -Hn) for more"
            ),
            Self::NoTls { why } => write!(f, "TLS is not offered: {why}"),
            Self::Refused { from, why } => write!(f, "{from} refused: {why}"),
            Self::LoginFailed { from, name, host } => {
                write!(f, "{from}: login failed for {}", user_at_host(name, host.as_deref()))
            }
            Self::LoggedIn { from, name, host } => {
                write!(f, "{from} logged in as {}", user_at_host(name, host.as_deref()))
            }
            Self::Moved { from, user, host, name, action, bytes, duration_us } => {
                let user = user_at_host(user, host.as_deref());
                let time = records::format::duration(duration_us.saturating_mul(1000));
                write!(f, "{from} as {user}: {action} of '{name}': {bytes} bytes in {time}")
            }
            Self::Failed { from, user, host, name, action, bytes: 0, why, .. } => {
                let user = user_at_host(user, host.as_deref());
                write!(f, "{from} as {user}: {action} of '{name}' failed: {why}")
            }
            Self::Failed { from, user, host, name, action, bytes, why, .. } => {
                let user = user_at_host(user, host.as_deref());
                write!(
                    f,
                    "{from} as {user}: {action} of '{name}' failed after {bytes} bytes: {why}"
                )
            }
            Self::Changed { from, user, host, change } => {
                write!(f, "{from} as {}: {change}", user_at_host(user, host.as_deref()))
            }
            Self::Denied { from, user, host, command, why } => {
                let user = user_at_host(user, host.as_deref());
                write!(f, "{from} as {user}: '{command}' refused: {why}")
            }
            Self::UnsendableNames { from, user, host, name, count } => write!(
                f,
                "{from} as {}: listing of '{name}': {count} names with line ends or other \
                 control characters are omitted or shown with ?",
                user_at_host(user, host.as_deref())
            ),
            Self::Left { from, seconds, why, .. } => {
                write!(f, "{from} disconnected after {seconds} s")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::NoSystemUsers => f.write_str(NO_SYSTEM_USERS),
            Self::NoAnonymous { because } => write!(f, "{}", no_anonymous(because)),
        }
    }
}

impl LogEvent for FtpEvent {
    fn level(&self) -> Level {
        match self {
            Self::FewDescriptors { .. }
            | Self::NoTls { .. }
            | Self::Refused { .. }
            | Self::LoginFailed { .. }
            | Self::Denied { .. }
            | Self::NoSystemUsers
            | Self::UnsendableNames { .. } => Level::Warning,
            Self::ServingFtp { .. } | Self::NoAnonymous { .. } => Level::Notice,
            Self::LoggedIn { .. } | Self::Moved { .. } | Self::Changed { .. } => Level::Info,
            Self::Failed { level, .. } | Self::Left { level, .. } => *level,
        }
    }
}

/// Warning that system users cannot log in, because the server does not run as root.
pub(super) const NO_SYSTEM_USERS: &str =
    "system users need root: the server does not run as root, so they cannot log in by FTP";

/// Describes that anonymous users cannot log in, because the key `because` is set.
pub(super) fn no_anonymous(because: &str) -> String {
    format!(
        "anonymous users cannot log in by FTP, because {because} is set; anonymous = true in [ftp] \
         allows them"
    )
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
        let action = TransferAction::Download;
        let bytes = 1;
        let events = [
            FtpEvent::ServingFtp { at: text(), how: "how", what: text() },
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
                action,
                bytes,
                duration_us: 1,
            },
            FtpEvent::Failed {
                from,
                user: text(),
                host: host(),
                name: text(),
                action,
                bytes,
                why: text(),
                level: Level::Warning,
            },
            FtpEvent::UnsendableNames { from, user: text(), host: host(), name: text(), count: 1 },
            FtpEvent::Left { from, seconds: 1, why: Some(text()), level: Level::Info },
            FtpEvent::NoAnonymous { because: "users" },
            FtpEvent::NoSystemUsers,
            FtpEvent::Denied { from, user: text(), host: host(), command: text(), why: "why" },
            FtpEvent::Changed {
                from,
                user: text(),
                host: host(),
                change: Change::Rename { name: text(), to: text() },
            },
        ];
        assert_lines_are_harmless(&events, 14, |event| match event {
            FtpEvent::ServingFtp { .. } => 0,
            FtpEvent::FewDescriptors { .. } => 1,
            FtpEvent::NoTls { .. } => 2,
            FtpEvent::Refused { .. } => 3,
            FtpEvent::LoginFailed { .. } => 4,
            FtpEvent::LoggedIn { .. } => 5,
            FtpEvent::Moved { .. } => 6,
            FtpEvent::Failed { .. } => 7,
            FtpEvent::UnsendableNames { .. } => 8,
            FtpEvent::Left { .. } => 9,
            FtpEvent::NoAnonymous { .. } => 10,
            FtpEvent::Denied { .. } => 11,
            FtpEvent::Changed { .. } => 12,
            FtpEvent::NoSystemUsers => 13,
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
