//! Processes that have a device open.
//!
//! The descriptors of a process are visible to its user and to root only, so the list may be
//! incomplete.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that has a device open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUser {
    /// Process ID.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub name: String,
}

/// Returns the other processes that have the character device `device` open, as far as they are
/// visible.
#[must_use]
pub fn other_device_users(device: &Path) -> Vec<DeviceUser> {
    let Ok(wanted) = fs::metadata(device).map(|metadata| metadata.rdev()) else {
        return Vec::new();
    };
    // A link in /proc ends with the path by which the device was opened; the number of the device
    // also matches if it has several paths. Only links to devices are followed, because following a
    // link may wait for a remote file system.
    let is_device = |link: &Path| {
        let is_in_dev = fs::read_link(link).is_ok_and(|target| target.starts_with("/dev"));
        is_in_dev && fs::metadata(link).is_ok_and(|metadata| metadata.rdev() == wanted)
    };
    let own_pid = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let users = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok().filter(|pid| *pid != own_pid)?;
        let mut descriptors = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let has_device = descriptors.any(|descriptor| is_device(&descriptor.path()));
        let name = has_device.then(|| fs::read(process.path().join("comm")).ok())??;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        Some(DeviceUser { pid, name })
    });
    users.collect()
}

/// The device numbers of the slaves of pseudo-terminals (pts(4)).
const PSEUDO_TERMINAL_MAJORS: std::ops::RangeInclusive<u32> = 136..=143;

/// Returns whether `device` is the slave of a pseudo-terminal.
#[must_use]
pub fn is_pseudo_terminal(device: &Path) -> bool {
    let number = fs::metadata(device).map(|metadata| metadata.rdev());
    number.is_ok_and(|number| PSEUDO_TERMINAL_MAJORS.contains(&rustix::fs::major(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::Pty;
    use crate::tty::WindowSize;
    use std::process::{Command, Stdio};

    #[test]
    fn another_program_that_has_the_device_open_is_found_under_each_name_of_the_device() {
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        assert_eq!(other_device_users(pty.path()), [], "this process is not another one");
        assert!(is_pseudo_terminal(pty.path()) && !is_pseudo_terminal(Path::new("/dev/null")));
        let device = fs::File::options().read(true).write(true).open(pty.path()).unwrap();
        let mut command = Command::new("cat");
        command.stdin(Stdio::from(device)).stdout(Stdio::null());
        let mut program = command.spawn().unwrap();
        let link = std::env::temp_dir().join(format!("plumb-device-link-{}", program.id()));
        std::os::unix::fs::symlink(pty.path(), &link).unwrap();
        let users = [pty.path(), &link].map(other_device_users);
        program.kill().unwrap();
        program.wait().unwrap();
        fs::remove_file(link).unwrap();
        for found in users {
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].pid, program.id());
        }
    }
}
