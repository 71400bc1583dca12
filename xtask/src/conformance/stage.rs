//! The folder in which scripts are played: programs of their own instead of the machine's.
//!
//! Scripts call `sysctl`, `ip` and others, which would change this machine and say nothing to a
//! stack in a library. Programs of the same names stand first in the search path: what is set goes
//! to a file that the library reads, what is asked comes from a file that it writes, and all else
//! does nothing. google/packetdrill's scripts also call two programs by a path relative to
//! themselves; so that suite is played from a tree of links in which these two are ours.

use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The variable by which the programs find the folder of their script.
pub(super) const FOLDER: &str = "PLUMB_CONFORMANCE_FOLDER";

/// Appends each NAME=VALUE to the file of settings.
const SYSCTL: &str = "#!/bin/sh
for pair in \"$@\"; do
    case $pair in *=*) printf '%s\\n' \"$pair\" >>\"$PLUMB_CONFORMANCE_FOLDER/sysctl\" ;; esac
done
exit 0
";

/// Says which connections there are.
const SOCKSTAT: &str = "#!/bin/sh
cat \"$PLUMB_CONFORMANCE_FOLDER/sockstat\" 2>/dev/null
exit 0
";

const NOTHING: &str = "#!/bin/sh
exit 0
";

/// Programs that scripts call and that mean nothing to a stack in a library.
const WITHOUT_MEANING: [&str; 7] = ["tc", "ip", "ethtool", "nstat", "tcpdrop", "ifconfig", "route"];

/// Sets what is named by its file under /proc/sys, and makes the program that would set it back,
/// which scripts call at their end by the name that it has here.
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

/// Returns the program that would set back what the script of the process `pid` has set.
pub(super) fn restorer_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/sysctl_restore_{pid}.sh"))
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// Makes the folder, with the programs and the tree of links to the scripts in `linked`.
    pub(super) fn new(linked: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("plumb-conformance-{}", std::process::id()));
        let stage = Self { folder };
        std::fs::create_dir_all(stage.programs()).context("cannot make a temporary folder")?;
        write_program(&stage.programs().join("sysctl"), SYSCTL)?;
        write_program(&stage.programs().join("sockstat"), SOCKSTAT)?;
        for name in WITHOUT_MEANING {
            write_program(&stage.programs().join(name), NOTHING)?;
        }
        for path in scripts(linked)? {
            let link = stage.linked().join(&path);
            let parent = link.parent().context("a script is in a folder")?;
            std::fs::create_dir_all(parent)?;
            symlink(linked.join(&path), &link)?;
        }
        for common in ["common", "tcp/common"] {
            let common = stage.linked().join(common);
            std::fs::create_dir_all(&common)?;
            write_program(&common.join("defaults.sh"), NOTHING)?;
            write_program(&common.join("set_sysctls.py"), SET_SYSCTLS)?;
        }
        Ok(stage)
    }

    /// Returns the folder of the programs.
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    /// Returns the tree of links.
    pub(super) fn linked(&self) -> PathBuf {
        self.folder.join("scripts")
    }

    /// Makes a folder for one script.
    pub(super) fn folder_of(&self, number: usize) -> Result<PathBuf> {
        let folder = self.folder.join(number.to_string());
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary folder, where nobody is harmed by it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns the paths of all scripts in `root`, relative to it.
pub(super) fn scripts(root: &Path) -> Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                let path = path.strip_prefix(root)?;
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
