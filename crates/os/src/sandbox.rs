//! A file system of which only /etc and /run are left, read-only.
//!
//! A gateway needs no files but the addresses of its resolvers, which change at run time. The
//! process gets a mount namespace of its own whose root is an empty tmpfs with read-only bind mounts
//! of /etc and /run, and of the directory of /etc/resolv.conf if it is a symbolic link to another
//! one.
//!
//! Without CAP_SYS_ADMIN the process first enters a user namespace: that of its guest, as slirp4netns
//! does, or a new one. Open descriptors are not affected.

use crate::process::forbid_tracing;
use crate::target_namespace::TargetNamespaces;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::process::{
    DumpableBehavior, chdir, getegid, geteuid, pivot_root, set_dumpable_behavior,
};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space,
    set_thread_gid, set_thread_uid, unshare_unsafe,
};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{error, fmt, fs, io};

/// A process in a file system of its own, which had a single thread when it entered it.
#[derive(Debug)]
pub struct Sandbox(());

/// Enters a file system that has only /etc and /run. `guest` has the user namespace to enter if the
/// process lacks privileges; without one, a new user namespace is created. Call this function before
/// the first thread is started.
///
/// # Errors
///
/// Returns [`SandboxError`]; the process must then end, because its root may be incomplete.
pub fn enter(guest: Option<&TargetNamespaces>) -> Result<Sandbox, SandboxError> {
    let threads = fs::read_dir("/proc/self/task");
    let threads = threads.map_err(|error| SandboxError { step: "read /proc", error })?.count();
    if threads > 1 {
        return Err(SandboxError { step: "enter with threads", error: Errno::BUSY.into() });
    }
    enter_root(guest)?;
    Ok(Sandbox(()))
}

fn enter_root(guest: Option<&TargetNamespaces>) -> Result<(), SandboxError> {
    let failed = |step| move |error: Errno| SandboxError { step, error: error.into() };
    become_administrator(guest)?;
    // SAFETY: the process has a single thread, and shares no file descriptors with another one.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(failed("create a mount namespace"))?;
    let propagation = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    mount_change("/", propagation).map_err(failed("separate the mounts"))?;
    let root = mount_root().map_err(failed("mount a tmpfs"))?;
    for directory in kept_directories() {
        let relative = directory.strip_prefix("/").unwrap_or(&directory);
        let copy = root.join(relative);
        fs::create_dir_all(&copy)
            .map_err(|error| SandboxError { step: "create a directory", error })?;
        mount_bind_recursive(&directory, &copy).map_err(failed("bind a directory"))?;
        set_read_only(&copy, true).map_err(failed("make a directory read-only"))?;
    }
    chdir(&root).map_err(failed("change the root"))?;
    // pivot_root(2): the old root is mounted over the new one, and unmounted from there.
    pivot_root(".", ".").map_err(failed("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(failed("unmount the old root"))?;
    chdir("/").map_err(failed("change the root"))?;
    set_read_only(Path::new("/"), false).map_err(failed("make the root read-only"))
}

/// Enters a user namespace unless the process may mount in its own one.
fn become_administrator(guest: Option<&TargetNamespaces>) -> Result<(), SandboxError> {
    let failed =
        |error: Errno| SandboxError { step: "enter a user namespace", error: error.into() };
    let may_mount = || {
        let own = capabilities(None).map_err(failed)?;
        Ok(own.effective.contains(CapabilitySet::SYS_ADMIN))
    };
    if may_mount()? {
        return Ok(());
    }
    if let Some(user) = guest.and_then(TargetNamespaces::user)
        && forbid_tracing().is_ok()
        && move_into_link_name_space(user, Some(LinkNameSpaceType::User)).is_ok()
    {
        // An ID that is not mapped in the namespace could not be used in files there.
        let _ = set_thread_gid(rustix::process::Gid::ROOT);
        let _ = set_thread_uid(rustix::process::Uid::ROOT);
        return Ok(());
    }
    // Otherwise the files in /proc belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(failed)?;
    let uid = geteuid().as_raw();
    let gid = getegid().as_raw();
    // SAFETY: the process has a single thread, and shares no file descriptors with another one.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(failed)?;
    let write = |file: &str, text: String| {
        let path = Path::new("/proc/self").join(file);
        fs::write(path, text)
            .map_err(|error| SandboxError { step: "map the user in a new namespace", error })
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

/// Mounts a tmpfs for the new root.
fn mount_root() -> Result<PathBuf, Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mut result = Err(Errno::NOENT);
    for directory in ["/tmp", "/mnt", "/var"] {
        result = mount("tmpfs", directory, "tmpfs", flags, OPTIONS).map(|()| directory.into());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Returns the directories that stay.
fn kept_directories() -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> =
        ["/etc", "/run"].iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    let resolvers = fs::canonicalize("/etc/resolv.conf").ok();
    let directory =
        resolvers.as_deref().and_then(Path::parent).filter(|path| path.parent().is_some());
    if let Some(directory) = directory
        && !kept.iter().any(|kept| directory.starts_with(kept))
    {
        kept.push(directory.to_owned());
    }
    kept
}

/// Makes a mount read-only, also those below it if `is_recursive` (`mount_setattr(2)`, Linux 5.12).
/// Unlike a remount, it keeps the flags that a user namespace may not clear.
fn set_read_only(path: &Path, is_recursive: bool) -> Result<(), Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let attributes =
        MountAttributes { attr_set: MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if is_recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads the path and a structure of the length passed.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// struct mount_attr of <linux/mount.h>.
#[repr(C)]
struct MountAttributes {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
/// Options of the tmpfs, which holds a few empty directories.
const OPTIONS: &CStr = c"size=64k,mode=0755";

/// The sandbox could not be entered.
#[derive(Debug)]
pub struct SandboxError {
    step: &'static str,
    error: io::Error,
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot enter the sandbox: cannot {}: {}", self.step, self.error)
    }
}

impl error::Error for SandboxError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::this_program;
    use rustix::fs::{Mode, mkdir};

    #[test]
    fn only_etc_and_run_are_left_and_cannot_be_changed() {
        let output = this_program("sandbox::tests::child_enters").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_enters() {
        // libtest has a thread of its own, which only a user namespace would not permit.
        if !crate::user::is_root() {
            return;
        }
        let resolvers = fs::read_to_string("/etc/resolv.conf").ok();
        enter_root(None).unwrap();
        let names = fs::read_dir("/").unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert!(names.iter().any(|name| name == "etc") && !names.contains(&"proc".into()));
        assert_eq!(fs::read_to_string("/etc/resolv.conf").ok(), resolvers);
        for path in ["/file", "/etc/file", "/run/file"] {
            let error = fs::write(path, "data").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{path}");
        }
        let error = mkdir("/directory", Mode::empty()).unwrap_err();
        assert_eq!(error, Errno::ROFS);
    }
}
