//! Operations of FTP commands that the log names: changes of files and directories, and refusals.

use super::ftp_log::{Change, FtpEvent};
use crate::log_text::escape_name;
use protocols::ftp::VirtualPath;
use protocols::ftp::server::{FileError, Operation};
use std::net::SocketAddr;

/// Operation whose result is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedOperation {
    /// The command that a refusal names.
    command: String,
    /// Changes that the log names after success.
    changes: Vec<Change>,
}

impl LoggedOperation {
    /// Returns the part of `operation` for the log; `None` if its result is not logged.
    pub(super) fn new(operation: &Operation) -> Option<Self> {
        let change = |verb: &str, path: &VirtualPath, change: fn(String) -> Change| {
            let name = name_of(path);
            Some(Self { command: format!("{verb} {name}"), changes: vec![change(name)] })
        };
        let access = |verb: &str, path: &VirtualPath| {
            Some(Self { command: format!("{verb} {}", name_of(path)), changes: Vec::new() })
        };
        match operation {
            Operation::Delete(path) => change("DELE", path, |name| Change::Delete { name }),
            Operation::RemoveDirectory(path) => {
                change("RMD", path, |name| Change::RemoveDirectory { name })
            }
            Operation::MakeDirectory(path) => {
                change("MKD", path, |name| Change::MakeDirectory { name })
            }
            Operation::Combine { target, .. } => {
                change("COMB", target, |name| Change::Combine { name })
            }
            Operation::Rename { from, to } => {
                let name = name_of(from);
                let to = name_of(to);
                let command = format!("RNTO {to}");
                Some(Self { command, changes: vec![Change::Rename { name, to }] })
            }
            Operation::SetFacts(path, facts) => {
                let name = name_of(path);
                let mode = facts.mode.map(|mode| format!("{mode:o}"));
                let command = match &mode {
                    Some(mode) => format!("SITE CHMOD {mode} {name}"),
                    None => format!("MFMT {name}"),
                };
                let set_time = facts.modified.map(|_| Change::SetTime { name: name.clone() });
                let set_mode = mode.map(|mode| Change::SetMode { name, mode });
                Some(Self { command, changes: set_time.into_iter().chain(set_mode).collect() })
            }
            Operation::ChangeDirectory(path) => access("CWD", path),
            Operation::Exists(path) => access("RNFR", path),
            _ => None,
        }
    }

    /// Returns the log events of the operation; `failure` is its error, if it has failed, and the
    /// description.
    pub(super) fn events(
        self,
        from: SocketAddr,
        user: &str,
        host: Option<&str>,
        failure: Option<(FileError, &'static str)>,
    ) -> Vec<FtpEvent> {
        let user = || user.to_owned();
        let host = || host.map(str::to_owned);
        let Some((error, why)) = failure else {
            let event = |change| FtpEvent::Changed { from, user: user(), host: host(), change };
            return self.changes.into_iter().map(event).collect();
        };
        // Clients check by CWD and RNFR whether a name exists.
        let is_refusal = matches!(error, FileError::Denied | FileError::Missing(_));
        if self.changes.is_empty() && !is_refusal {
            return Vec::new();
        }
        vec![FtpEvent::Denied { from, user: user(), host: host(), command: self.command, why }]
    }
}

fn name_of(path: &VirtualPath) -> String {
    escape_name(&path.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::{Name, Right, SetFacts, Timestamp};

    fn lines(operation: &Operation, error: Option<FileError>) -> Vec<String> {
        let from = SocketAddr::from(([192, 0, 2, 7], 2121));
        let logged = LoggedOperation::new(operation);
        let events = logged
            .map(|it| it.events(from, "ann", None, error.map(|error| (error, "why"))))
            .unwrap_or_default();
        let text = |event: &FtpEvent| event.to_string().replace("192.0.2.7:2121 as 'ann': ", "");
        events.iter().map(text).collect()
    }

    fn path(text: &str) -> VirtualPath {
        VirtualPath::root().join(&Name::new(text).unwrap()).unwrap()
    }

    #[test]
    fn changes_are_logged_with_their_names_and_escaped() {
        let modified = Some(Timestamp { seconds: 1, nanos: 0 });
        let facts = SetFacts { modified, created: None, mode: Some(0o640) };
        for (operation, expected) in [
            (Operation::Delete(path("a'b")), vec!["deleted '/a\\'b'"]),
            (Operation::MakeDirectory(path("d")), vec!["created directory '/d'"]),
            (Operation::RemoveDirectory(path("d")), vec!["removed directory '/d'"]),
            (
                Operation::Rename { from: path("a"), to: path("d/b") },
                vec!["renamed '/a' to '/d/b'"],
            ),
            (
                Operation::SetFacts(path("a"), facts),
                vec!["changed the modification time of '/a'", "changed the mode of '/a' to 640"],
            ),
            (
                Operation::Combine { target: path("a"), parts: Vec::new() },
                vec!["combined files into '/a'"],
            ),
            (Operation::ChangeDirectory(path("d")), vec![]),
            (Operation::Exists(path("d")), vec![]),
            (Operation::Facts(path("d")), vec![]),
        ] {
            assert_eq!(lines(&operation, None), expected, "{operation:?}");
        }
    }

    #[test]
    fn refused_commands_are_logged_but_not_a_check_whether_a_name_exists() {
        let missing = Some(FileError::Missing(Right::Change));
        let facts = SetFacts { modified: None, created: None, mode: Some(0o777) };
        let set_mode = Operation::SetFacts(path("a"), facts);
        assert_eq!(lines(&set_mode, missing), ["'SITE CHMOD 777 /a' refused: why"]);
        let enter = Operation::ChangeDirectory(path("d"));
        let refused = lines(&enter, Some(FileError::Denied));
        assert_eq!(refused, ["'CWD /d' refused: why"]);
        assert_eq!(lines(&enter, Some(FileError::NotFound)), [""; 0]);
        let delete = Operation::Delete(path("a"));
        let failed = lines(&delete, Some(FileError::NotFound));
        assert_eq!(failed, ["'DELE /a' refused: why"]);
    }
}
