//! `plumb manual`: generates the manual pages and shell completions from the definition of the
//! arguments.

use crate::exit::{self, Failure};
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `plumb manual`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory to write to; created if it does not exist.
    folder: PathBuf,
}

/// Writes the pages and the completions for `command`.
pub(crate) fn run(arguments: &Arguments, command: Command) -> exit::Result {
    write_all(&arguments.folder, command).map_err(|error| {
        exit::complain(&error);
        Failure::ThisMachine
    })
}

fn write_all(folder: &Path, mut command: Command) -> Result<()> {
    let made = fs::create_dir_all(folder);
    made.with_context(|| format!("cannot create the directory {}", folder.display()))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let written = clap_complete::generate_to(shell, &mut command, "plumb", folder);
        written.with_context(|| format!("cannot write the completions to {}", folder.display()))?;
    }
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_page_with_the_exit_codes() {
        let folder = std::env::temp_dir().join(format!("plumb-manual-{}", std::process::id()));
        write_all(&folder, crate::cli::command()).unwrap();
        let commands = ["login", "get", "put", "replay", "measure", "lab", "demo"];
        let pages = commands.map(|command| format!("plumb-{command}.1"));
        for page in pages.iter().map(String::as_str).chain(["plumb.1"]) {
            assert!(folder.join(page).is_file(), "{page}");
        }
        let page = fs::read_to_string(folder.join("plumb.1")).unwrap();
        assert!(page.contains("remote host unreachable"), "{page}");
        fs::remove_dir_all(folder).unwrap();
    }
}
