//! Locks of a serial line, so that two programs do not share its bytes.
//!
//! Each lock is a convention that a part of the terminal programs follows: a lock file
//! `LCK..NAME` with the process ID (UUCP, minicom, pppd) and flock(2) on the device (picocom, tio,
//! agetty). A lock file has the name of the device as it was given to the program: picocom and
//! minicom lock a link such as /dev/serial/by-id/NAME under the name of the link. Therefore a line
//! that is given by a link is locked under both names, that of the link and that of the device.
//! TIOCEXCL, which [`Serial`](crate::serial::Serial) also sets, does not stop programs of root.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Directory of the lock files.
const DIRECTORY: &str = "/run/lock";

/// Another program has locked the line.
#[derive(Debug)]
pub(crate) struct LineLocked;

/// Lock of a serial line. Dropping it removes the lock files.
#[derive(Debug)]
pub(crate) struct SerialLock(Vec<PathBuf>);

impl SerialLock {
    /// Locks `device`, which is open as `descriptor`. A lock that this process has no permission for
    /// is omitted.
    pub(crate) fn acquire(device: &Path, descriptor: impl AsFd) -> Result<Self, LineLocked> {
        if flock(descriptor, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(LineLocked);
        }
        Self::create_files(Path::new(DIRECTORY), device)
    }

    /// Creates the lock files of `device` in `directory`.
    fn create_files(directory: &Path, device: &Path) -> Result<Self, LineLocked> {
        // The files that exist so far are removed if one cannot be created.
        let mut lock = Self(Vec::new());
        for name in file_names(device) {
            let file = directory.join(name);
            match create(&file) {
                Ok(()) => lock.0.push(file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(LineLocked),
                Err(_) => {}
            }
        }
        Ok(lock)
    }
}

impl Drop for SerialLock {
    fn drop(&mut self) {
        for file in &self.0 {
            // Without the file, there is nothing to remove.
            _ = fs::remove_file(file);
        }
    }
}

/// Returns the names of the lock files: that of the device, and that of the link by which the device
/// is given, if it is one.
fn file_names(device: &Path) -> Vec<String> {
    let real = fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let mut names = vec![file_name(&real), file_name(device)];
    names.dedup();
    names
}

/// Returns the name of the lock file of a path, as in minicom and picocom: `LCK..ttyUSB0`, or
/// `LCK..pts_3` for a device in a subdirectory.
fn file_name(device: &Path) -> String {
    let name = device.strip_prefix("/dev").unwrap_or(device).to_string_lossy().into_owned();
    format!("LCK..{}", name.trim_start_matches('/').replace('/', "_"))
}

/// Creates the lock file. The file of a process that has ended is replaced.
fn create(file: &Path) -> io::Result<()> {
    // The name is unique, so that the lock file appears with its content.
    let pid = std::process::id();
    let new = file.with_file_name(format!("LTMP.{pid}.{:?}", std::thread::current().id()));
    // Any user can create files in the directory: an existing file is not written, because it may be a
    // symbolic link.
    _ = fs::remove_file(&new);
    let created = File::options().write(true).create_new(true).open(&new);
    // Ten columns, as in the Filesystem Hierarchy Standard.
    let result = created
        .and_then(|mut created| writeln!(created, "{pid:>10}"))
        .map_err(io::Error::other)
        .and_then(|()| match fs::hard_link(&new, file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_stale(file) => {
                fs::remove_file(file)?;
                fs::hard_link(&new, file)
            }
            linked => linked,
        });
    // An error means that the file was not created.
    _ = fs::remove_file(new);
    match result {
        // A user without permission for the directory can still read the lock of another program.
        Err(error)
            if error.kind() != ErrorKind::AlreadyExists && file.exists() && !is_stale(file) =>
        {
            Err(ErrorKind::AlreadyExists.into())
        }
        result => result,
    }
}

/// Returns whether the process of a lock file has ended. A file without a process ID is kept.
fn is_stale(file: &Path) -> bool {
    let Ok(content) = fs::read(file) else { return false };
    let pid = match <[u8; 4]>::try_from(content.as_slice()) {
        // Old programs write the number in binary.
        Ok(bytes) if !content.is_ascii() || bytes.contains(&0) => Some(i32::from_ne_bytes(bytes)),
        _ => String::from_utf8_lossy(&content)
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok()),
    };
    let pid = pid.filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let Some(pid) = pid else { return false };
    test_kill_process(pid) == Err(Errno::SRCH) || is_zombie(pid)
}

/// Returns whether a process has ended and its parent has not waited for it yet.
fn is_zombie(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The state follows the name of the program, which may contain parentheses (proc(5)).
    let status = status.unwrap_or_default();
    let Some((_, fields)) = status.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    // A process whose first thread has ended runs on in the others.
    has_ended && fields.nth(THREADS_AFTER_STATE).is_some_and(|threads| threads == "1")
}

/// Number of fields of proc(5) between the state and the number of threads.
const THREADS_AFTER_STATE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_process_that_was_not_waited_for_is_stale() {
        let directory = directory("zombie");
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let file = directory.join("LCK..ttyS0");
        fs::write(&file, format!("{:>10}\n", child.id())).unwrap();
        assert!(!is_stale(&file));
        drop(child.stdin.take());
        test_support::poll_until_timeout(|| is_stale(&file).then_some(()));
        child.wait().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    fn directory(test: &str) -> PathBuf {
        let name = format!("plumb-serial-lock-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn the_lock_of_a_running_process_is_kept_and_that_of_an_ended_one_is_replaced() {
        let directory = directory("stale");
        let file = directory.join("LCK..ttyS0");
        create(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{:>10}\n", std::process::id()));
        assert_eq!(create(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        for content in [format!("{pid:>10}\n").into_bytes(), pid.to_ne_bytes().to_vec()] {
            fs::write(&file, content).unwrap();
            create(&file).unwrap();
        }
        fs::write(&file, "no number").unwrap();
        assert_eq!(create(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file remains");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_device_that_is_given_by_a_link_is_locked_under_both_names() {
        assert_eq!(file_names(Path::new("/dev/ttyNONE0")), ["LCK..ttyNONE0"]);
        assert_eq!(file_names(Path::new("/dev/pts/NONE")), ["LCK..pts_NONE"]);
        let directory = directory("names");
        let link = directory.join("modem");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let of_link = file_name(&link);
        assert!(of_link.starts_with("LCK..") && of_link.ends_with("_modem"), "{of_link}");
        assert_eq!(file_names(&link), ["LCK..null".to_owned(), of_link.clone()]);
        let lock = SerialLock::create_files(&directory, &link).unwrap();
        for name in ["LCK..null", &of_link] {
            assert!(directory.join(name).exists(), "{name}");
        }
        assert!(SerialLock::create_files(&directory, Path::new("/dev/null")).is_err());
        drop(lock);
        // Another program has locked only the link.
        fs::write(directory.join(&of_link), format!("{:>10}\n", std::process::id())).unwrap();
        assert!(SerialLock::create_files(&directory, &link).is_err());
        assert!(!directory.join("LCK..null").exists(), "no lock remains");
        fs::remove_dir_all(directory).unwrap();
    }
}
