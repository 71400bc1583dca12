//! Shell commands on the local machine.
//!
//! A local command gets only text that the user has typed, never text that a server has sent.

use super::super::command_output::print;
use super::super::listing::line;
use super::ShellState;
use crate::files::progress::print_message;
use anyhow::Context;
use protocols::ftp::Timestamp;
use protocols::ftp::listing::{Entry, Kind};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use transfer::ftp::FtpError;

impl ShellState {
    /// Runs a command on the local machine; `None` if its arguments are wrong.
    pub(super) async fn local_command(
        &self,
        name: &str,
        words: &[&str],
        rest: &str,
    ) -> Option<Result<(), FtpError>> {
        Some(match (name, words) {
            ("lcd", []) => match std::env::var_os("HOME") {
                Some(home) => change_directory(Path::new(&home)),
                None => {
                    Err(FtpError::InvalidRequest("HOME is not set in the environment".to_owned()))
                }
            },
            ("lcd", [directory]) => change_directory(Path::new(directory)),
            ("lpwd", []) => print_directory(),
            ("lls", ["-l" | "-la" | "-al"]) => list(Path::new("."), true),
            ("lls", []) => list(Path::new("."), false),
            ("lls", ["-l", directory]) => list(Path::new(directory), true),
            ("lls", [directory]) => list(Path::new(directory), false),
            ("!", _) => self.run_local(rest).await,
            _ => return None,
        })
    }

    /// Runs a local command, or an interactive local shell, and waits for its end.
    async fn run_local(&self, command: &str) -> Result<(), FtpError> {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let mut program = Command::new(shell.unwrap_or_else(|| "/bin/sh".into()));
        if !command.is_empty() {
            program.args(["-c", command]);
        }
        // If the standard input is not a terminal, it contains commands for this client. The local
        // command must not read them.
        if !std::io::stdin().is_terminal() {
            program.stdin(Stdio::null());
        }
        let mut child = tokio::task::spawn_blocking(move || program.status());
        let connector = self.client.connector();
        let exit_result = tokio::select! {
            ended = &mut child => ended,
            // The terminal also sends SIGINT to the local command.
            () = connector.cancelled() => match connector.clear_cancellation() {
                true => child.await,
                false => return Err(FtpError::Stopped),
            },
        };
        let status = exit_result.map_err(anyhow::Error::new)?.context("cannot run the shell")?;
        if !status.success() {
            print_message(&format!("the command ended with {status}"));
        }
        Ok(())
    }
}

fn change_directory(directory: &Path) -> Result<(), FtpError> {
    std::env::set_current_dir(directory).map_err(|error| {
        FtpError::InvalidRequest(format!("cannot change to {}: {error}", directory.display()))
    })
}

fn print_directory() -> Result<(), FtpError> {
    let directory = std::env::current_dir().context("cannot determine the local directory")?;
    print(&[directory.as_os_str().as_bytes(), b"\n"].concat())
}

fn list(directory: &Path, is_long: bool) -> Result<(), FtpError> {
    let read_error = || format!("cannot read the directory {}", directory.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(read_error)? {
        let entry = entry.with_context(read_error)?;
        let metadata = std::fs::metadata(entry.path()).or_else(|_| entry.metadata()).ok();
        let kind = match &metadata {
            Some(metadata) if metadata.is_dir() => Kind::Directory,
            Some(metadata) if metadata.is_file() => Kind::File,
            _ => Kind::Other,
        };
        entries.push(Entry {
            name: entry.file_name().into_vec(),
            kind,
            size: metadata.as_ref().map(std::fs::Metadata::len),
            modified: metadata
                .as_ref()
                .map(|metadata| Timestamp { seconds: metadata.mtime(), nanos: 0 }),
            mode: metadata
                .as_ref()
                .and_then(|metadata| u16::try_from(metadata.mode() & 0o7777).ok()),
            ..Entry::default()
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let text: String = entries.iter().map(|entry| line(entry, is_long)).collect();
    print(text.as_bytes())
}
