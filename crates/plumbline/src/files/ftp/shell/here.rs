//! Shell commands on the local machine.
//!
//! A local command gets what the user has typed, and nothing that a server has sent.

use super::super::manage::{line, show};
use super::super::trouble::Trouble;
use super::Desk;
use crate::files::progress::say;
use anyhow::Context;
use protocols::application::ftp::Timestamp;
use protocols::application::ftp::listing::{Entry, Kind};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

impl Desk {
    /// Runs a command on the local machine; `None` if its arguments are wrong.
    pub(super) async fn here(
        &self,
        name: &str,
        words: &[&str],
        rest: &str,
    ) -> Option<Result<(), Trouble>> {
        Some(match (name, words) {
            ("lcd", []) => match std::env::var_os("HOME") {
                Some(home) => change_folder(Path::new(&home)),
                None => Err(Trouble::Wrong("HOME is not set in the environment".to_owned())),
            },
            ("lcd", [folder]) => change_folder(Path::new(folder)),
            ("lpwd", []) => tell_folder(),
            ("lls", ["-l" | "-la" | "-al"]) => list(Path::new("."), true),
            ("lls", []) => list(Path::new("."), false),
            ("lls", ["-l", folder]) => list(Path::new(folder), true),
            ("lls", [folder]) => list(Path::new(folder), false),
            ("!", _) => self.run_here(rest).await,
            _ => return None,
        })
    }

    /// Runs a command, or an interactive shell, and waits for its end.
    async fn run_here(&self, command: &str) -> Result<(), Trouble> {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let mut program = Command::new(shell.unwrap_or_else(|| "/bin/sh".into()));
        if !command.is_empty() {
            program.args(["-c", command]);
        }
        // Without a terminal, the standard input contains commands for this client.
        if !std::io::stdin().is_terminal() {
            program.stdin(Stdio::null());
        }
        let mut running = tokio::task::spawn_blocking(move || program.status());
        let caller = &self.dialogue.caller;
        let mut stop = caller.shared.stop.clone();
        let ended = tokio::select! {
            ended = &mut running => ended,
            // An interrupt from the keyboard reaches the command too.
            _ = stop.wait_for(|is_wanted| *is_wanted) => match caller.stopper.goes_on() {
                true => running.await,
                false => return Err(Trouble::Stopped),
            },
        };
        let status = ended.map_err(anyhow::Error::new)?.context("cannot run the shell")?;
        if !status.success() {
            say(&format!("the command ended with {status}"));
        }
        Ok(())
    }
}

fn change_folder(folder: &Path) -> Result<(), Trouble> {
    std::env::set_current_dir(folder)
        .map_err(|error| Trouble::Wrong(format!("cannot change to {}: {error}", folder.display())))
}

fn tell_folder() -> Result<(), Trouble> {
    let folder = std::env::current_dir().context("cannot determine the local directory")?;
    show(&[folder.as_os_str().as_bytes(), b"\n"].concat())
}

fn list(folder: &Path, is_long: bool) -> Result<(), Trouble> {
    let unread = || format!("cannot read the directory {}", folder.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unread)? {
        let entry = entry.with_context(unread)?;
        let about = std::fs::metadata(entry.path()).or_else(|_| entry.metadata()).ok();
        let kind = match &about {
            Some(about) if about.is_dir() => Kind::Directory,
            Some(about) if about.is_file() => Kind::File,
            _ => Kind::Other,
        };
        entries.push(Entry {
            name: entry.file_name().into_vec(),
            kind,
            size: about.as_ref().map(std::fs::Metadata::len),
            modified: about.as_ref().map(|about| Timestamp { seconds: about.mtime(), nanos: 0 }),
            mode: about.as_ref().and_then(|about| u16::try_from(about.mode() & 0o7777).ok()),
            ..Entry::default()
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let text: String = entries.iter().map(|entry| line(entry, is_long)).collect();
    show(text.as_bytes())
}
