//! File access rights of one user, lent to one thread for the duration of one call.
//!
//! A server for many users is one privileged process, but it must open, create, rename and remove
//! each file with the rights of the user that requests the operation. Linux keeps a file-system
//! user ID beside the effective one (`setfsuid(2)`, made for file servers), separately for each
//! thread. Other threads are not affected, and the user cannot send signals to the process or trace
//! it meanwhile, as would be possible with the user's effective user ID. Therefore a call that
//! names a file runs with the groups, group and file-system user ID of the user, and without
//! effective capabilities, so that reserved blocks and quotas apply to the user too.
//!
//! The alternative, a worker process per user, would need the control connection, its TLS state and
//! every data connection handed over. Lending the rights to a thread needs only system calls, which
//! take about two microseconds per lent call. The risk is a failure to restore the original rights.
//! In that case the process aborts at once, because the thread must not continue with the rights of
//! the wrong user.
//!
//! Reading or writing an open file needs no rights: the kernel checks the rights when the file is
//! opened.

use crate::user::User;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Argument with which `setfsuid` and `setfsgid` change nothing and return the current ID.
const INVALID_ID: u32 = u32::MAX;
/// System call number of `setgroups` with 32-bit group IDs. The C library's function would change
/// all threads.
#[cfg(any(target_arch = "x86", target_arch = "arm"))]
const SETGROUPS: libc::c_long = libc::SYS_setgroups32;
#[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
const SETGROUPS: libc::c_long = libc::SYS_setgroups;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The file access rights of a user.
#[derive(Debug)]
pub struct FsCredentials {
    /// IDs of the user; `None` for the user of this process, whose rights need no change.
    user: Option<Ids>,
    own: Ids,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ids {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
}

/// Capability sets of a thread, as two groups of 32 bits, each with the effective, the permitted
/// and the inheritable set.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Capabilities([[u32; 3]; 2]);

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

impl FsCredentials {
    /// Returns the rights of `user`.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's groups cannot be read; `EPERM` if this process may not assume
    /// the rights of the user.
    pub fn of(user: &User) -> io::Result<Self> {
        let own = Ids::own()?;
        if user.uid() == own.uid {
            return Ok(Self { user: None, own });
        }
        if own.uid != 0 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let user = Ids { uid: user.uid(), gid: user.gid(), groups: user.groups()? };
        Ok(Self { user: Some(user), own })
    }

    /// Returns the rights of the owner of `directory`, with the directory's group as the only
    /// group. Returns this process's own rights if it may not assume others.
    ///
    /// # Errors
    ///
    /// Returns the error of `stat(2)` for `directory`.
    pub fn of_owner(directory: &Path) -> io::Result<Self> {
        let status = std::fs::metadata(directory)?;
        let own = Ids::own()?;
        let is_other_user = own.uid == 0 && status.uid() != 0;
        let user = Ids { uid: status.uid(), gid: status.gid(), groups: vec![status.gid()] };
        Ok(Self { user: is_other_user.then_some(user), own })
    }

    /// Runs `work` on this thread with these file access rights.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`; `EPERM` if the rights cannot be assumed, and then `work` does
    /// not run.
    pub fn lend<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(user) = &self.user else { return work() };
        if fs_uid() == user.uid {
            // An enclosing call of `lend` has already assumed these rights.
            return work();
        }
        let original = capabilities()?;
        let _restore = RestoreOnDrop { own: &self.own, original };
        assume(user)?;
        let [low, high] = original.0;
        let without_effective = |set: [u32; 3]| [0, set[1], set[2]];
        set_capabilities(&Capabilities([without_effective(low), without_effective(high)]))?;
        work()
    }
}

impl Ids {
    fn own() -> io::Result<Self> {
        let euid = rustix::process::geteuid();
        let egid = rustix::process::getegid();
        let groups = rustix::process::getgroups()?.iter().map(|group| group.as_raw()).collect();
        Ok(Self { uid: euid.as_raw(), gid: egid.as_raw(), groups })
    }
}

/// Restores the thread's own rights when dropped, also after a panic.
struct RestoreOnDrop<'a> {
    own: &'a Ids,
    original: Capabilities,
}

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        let is_restored = set_capabilities(&self.original).is_ok() && assume(self.own).is_ok();
        // `setfsuid` also changes the file capabilities, so they are restored afterwards.
        if !is_restored || set_capabilities(&self.original).is_err() {
            // Otherwise this thread would serve later requests with the rights of the wrong user.
            std::process::abort();
        }
    }
}

/// Sets groups, group and file-system user ID of this thread, and checks that they took effect.
fn assume(ids: &Ids) -> io::Result<()> {
    // SAFETY: the pointer points to as many groups as the length says.
    let result = unsafe { libc::syscall(SETGROUPS, ids.groups.len(), ids.groups.as_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both calls take and return plain values.
    let gid = unsafe {
        libc::setfsgid(ids.gid);
        libc::setfsgid(INVALID_ID)
    };
    // SAFETY: the call takes and returns plain values.
    unsafe { libc::setfsuid(ids.uid) };
    let has_gid = gid.cast_unsigned() == ids.gid;
    if has_gid && fs_uid() == ids.uid {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

fn fs_uid() -> u32 {
    // SAFETY: takes and returns plain values; the ID is invalid, so nothing changes.
    unsafe { libc::setfsuid(INVALID_ID) }.cast_unsigned()
}

fn capabilities() -> io::Result<Capabilities> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets = Capabilities::default();
    // SAFETY: version 3 takes a header and fills two sets, here of this thread.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) };
    if result == 0 { Ok(sets) } else { Err(io::Error::last_os_error()) }
}

fn set_capabilities(sets: &Capabilities) -> io::Result<()> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    // SAFETY: version 3 takes a header and two sets, here for this thread.
    let result =
        unsafe { libc::syscall(libc::SYS_capset, &raw mut header, std::ptr::from_ref(sets)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use test_support::is_root_of_the_machine;

    /// Creates a world-writable directory with a file readable by root only. Returns `None` unless
    /// the test runs as root of the machine.
    fn fixture(name: &str) -> Option<(PathBuf, FsCredentials)> {
        is_root_of_the_machine().then_some(())?;
        let nobody = User::named("nobody").unwrap().unwrap();
        let credentials = FsCredentials::of(&nobody).unwrap();
        credentials.lend(|| Ok(())).unwrap();
        let seed = crate::entropy::seed().unwrap();
        let path = std::env::temp_dir().join(format!("plumb-file-rights-{name}-{seed:x}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        fs::write(path.join("mine"), "root's").unwrap();
        fs::set_permissions(path.join("mine"), PermissionsExt::from_mode(0o600)).unwrap();
        Some((path, credentials))
    }

    #[test]
    fn a_user_cannot_read_files_of_root_and_owns_created_files() {
        let Some((path, credentials)) = fixture("read") else { return };
        let error = credentials.lend(|| fs::read(path.join("mine"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        credentials.lend(|| fs::write(path.join("created"), "content")).unwrap();
        let nobody = User::named("nobody").unwrap().unwrap();
        let status = fs::metadata(path.join("created")).unwrap();
        assert_eq!((status.uid(), status.gid()), (nobody.uid(), nobody.gid()));
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_original_rights_are_restored_after_the_call_even_after_a_panic() {
        let Some((path, credentials)) = fixture("back") else { return };
        let rights_before = (capabilities().unwrap(), rustix::process::getgroups().unwrap());
        credentials.lend(|| fs::read(path.join("mine"))).unwrap_err();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            credentials.lend(|| -> io::Result<()> { panic!("the work breaks off") })
        }));
        assert!(panic.is_err());
        assert_eq!(rights_before, (capabilities().unwrap(), rustix::process::getgroups().unwrap()));
        assert_eq!(fs::read(path.join("mine")).unwrap(), b"root's");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn nested_calls_do_not_restore_the_original_rights() {
        let Some((path, credentials)) = fixture("nested") else { return };
        let inner = credentials.lend(|| {
            credentials.lend(|| Ok(()))?;
            fs::read(path.join("mine"))
        });
        assert_eq!(inner.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn other_threads_keep_their_own_rights_meanwhile() {
        let Some((path, credentials)) = fixture("thread") else { return };
        let result = credentials.lend(|| {
            std::thread::scope(|scope| {
                let nested_in_thread =
                    scope.spawn(|| credentials.lend(|| Ok(())).map(|()| fs_uid()));
                nested_in_thread.join().map_err(|_| io::Error::other("the thread broke off"))?
            })
        });
        // A thread inherits the rights of the thread that starts it.
        assert!(result.is_ok());
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn({
            let path = path.clone();
            move || {
                receiver.recv().unwrap();
                fs::read(path.join("mine"))
            }
        });
        let result = credentials.lend(|| {
            sender.send(()).unwrap();
            Ok(other.join().unwrap())
        });
        assert_eq!(result.unwrap().unwrap(), b"root's");
        fs::remove_dir_all(&path).unwrap();
    }
}
