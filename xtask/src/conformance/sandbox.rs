//! The directory in which scripts are played, with replacements for system programs.
//!
//! Scripts call `sysctl`, `ip` and other programs, which would change this machine and have no
//! effect on a stack in a library. Replacements of the same names come first in the search path:
//! settings go to a file that the library reads, queries are answered from a file that the library
//! writes, and the other replacements do nothing. google/packetdrill's scripts also call two
//! programs by a path relative to themselves, so that suite is played from a tree of symbolic links
//! in which these two are replaced.

use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Environment variable with which the programs find the directory of their script.
pub(super) const DIRECTORY_VARIABLE: &str = "PLUMB_CONFORMANCE_FOLDER";

/// Appends each NAME=VALUE to the settings file.
const SYSCTL: &str = "#!/bin/sh
for pair in \"$@\"; do
    case $pair in *=*) printf '%s\\n' \"$pair\" >>\"$PLUMB_CONFORMANCE_FOLDER/sysctl\" ;; esac
done
exit 0
";

/// Prints the existing connections.
const SOCKSTAT: &str = "#!/bin/sh
cat \"$PLUMB_CONFORMANCE_FOLDER/sockstat\" 2>/dev/null
exit 0
";

const EMPTY_SCRIPT: &str = "#!/bin/sh
exit 0
";

/// Programs that scripts call and that have no effect on a stack in a library.
const STUBBED_PROGRAMS: [&str; 7] =
    ["tc", "ip", "ethtool", "nstat", "tcpdrop", "ifconfig", "route"];

/// Replacement for the program with which scripts change files under /proc/sys. It applies these
/// settings, and creates the program that would restore them. Scripts call that program at their
/// end, under the name used here.
const SET_SYSCTLS: &str = "#!/bin/sh
for pair in \"$@\"; do
    name=${pair%%=*}
    name=$(printf '%s' \"${name#/proc/sys/}\" | tr / .)
    printf '%s=%s\\n' \"$name\" \"${pair#*=}\" >>\"$PLUMB_CONFORMANCE_FOLDER/sysctl\"
done
restore=/tmp/sysctl_restore_$PACKETDRILL_PID.sh
printf '#!/bin/sh\\n' >\"$restore\"
chmod +x \"$restore\"
";

/// Returns the path of the program that would restore the settings changed by the script of process
/// `pid`.
pub(super) fn restorer_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/sysctl_restore_{pid}.sh"))
}

/// A temporary directory, removed on drop.
#[derive(Debug)]
pub(super) struct Sandbox {
    directory: PathBuf,
}

impl Sandbox {
    /// Creates the directory, with the programs and the tree of links to the scripts in `linked`.
    pub(super) fn new(linked: &Path) -> Result<Self> {
        let directory =
            std::env::temp_dir().join(format!("plumb-conformance-{}", std::process::id()));
        let sandbox = Self { directory };
        std::fs::create_dir_all(sandbox.programs())
            .context("cannot create a temporary directory")?;
        write_program(&sandbox.programs().join("sysctl"), SYSCTL)?;
        write_program(&sandbox.programs().join("sockstat"), SOCKSTAT)?;
        for name in STUBBED_PROGRAMS {
            write_program(&sandbox.programs().join(name), EMPTY_SCRIPT)?;
        }
        for path in scripts(linked)? {
            let link = sandbox.linked().join(&path);
            let parent = link.parent().context("a script is in a directory")?;
            std::fs::create_dir_all(parent)?;
            symlink(linked.join(&path), &link)?;
        }
        for common in ["common", "tcp/common"] {
            let common = sandbox.linked().join(common);
            std::fs::create_dir_all(&common)?;
            write_program(&common.join("defaults.sh"), EMPTY_SCRIPT)?;
            write_program(&common.join("set_sysctls.py"), SET_SYSCTLS)?;
        }
        Ok(sandbox)
    }

    /// Returns the directory of the programs.
    pub(super) fn programs(&self) -> PathBuf {
        self.directory.join("programs")
    }

    /// Returns the tree of links.
    pub(super) fn linked(&self) -> PathBuf {
        self.directory.join("scripts")
    }

    /// Creates a directory for one script.
    pub(super) fn directory_of(&self, number: usize) -> Result<PathBuf> {
        let directory = self.directory.join(number.to_string());
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Leftovers are in a temporary directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns the paths of all scripts in `root`, relative to it.
pub(super) fn scripts(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                let path = path.strip_prefix(root)?;
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
