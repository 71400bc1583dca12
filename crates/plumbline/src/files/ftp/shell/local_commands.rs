//! Shell commands on the local machine.
//!
//! A local command gets only text that the user has typed, never text that a server has sent.

use super::super::command_output::print;
use super::ShellState;
use super::transfer_commands::expand_local;
use anyhow::{Context, anyhow};
use protocols::ftp::Timestamp;
use protocols::ftp::listing::{Entry, Kind};
use std::fs::Metadata;
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use transfer::ftp::FtpError;
use transfer::ftp::{ListingFormat, listing_text};
use transfer::shell_line::split_flags;

impl ShellState<'_> {
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
            ("lls", words) => {
                let (flags, names) = split_flags(words, "la1")?;
                list(if names.is_empty() { &["."] } else { names }, flags.contains('l'))
            }
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
        match status.success() {
            true => Ok(()),
            false => Err(FtpError::Local(anyhow!("the command ended with {status}"))),
        }
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

/// Lists local directories, files and the matches of patterns.
fn list(names: &[&str], is_long: bool) -> Result<(), FtpError> {
    let mut entries = Vec::new();
    for name in names {
        for path in expand_local(name)? {
            let read_error = || format!("cannot read {}", path.display());
            if !path.is_dir() || *name != path.as_os_str() {
                let metadata = std::fs::metadata(&path).with_context(read_error)?;
                entries.push(entry_of(path.clone().into_os_string().into_vec(), Some(&metadata)));
                continue;
            }
            for entry in std::fs::read_dir(&path).with_context(read_error)? {
                let entry = entry.with_context(read_error)?;
                let metadata = std::fs::metadata(entry.path()).or_else(|_| entry.metadata()).ok();
                entries.push(entry_of(entry.file_name().into_vec(), metadata.as_ref()));
            }
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    print(listing_text(&entries, ListingFormat { is_long, has_utc_times: true }).as_bytes())
}

fn entry_of(name: Vec<u8>, metadata: Option<&Metadata>) -> Entry {
    Entry {
        name,
        kind: match metadata {
            Some(metadata) if metadata.is_dir() => Kind::Directory,
            Some(metadata) if metadata.is_file() => Kind::File,
            _ => Kind::Other,
        },
        size: metadata.map(Metadata::len),
        modified: metadata.map(|metadata| Timestamp { seconds: metadata.mtime(), nanos: 0 }),
        mode: metadata.and_then(|metadata| u16::try_from(metadata.mode() & 0o7777).ok()),
        ..Entry::default()
    }
}
