//! Users of this machine, and permanent changes of a program's user.

use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Size of the buffer for a user's strings, in bytes.
const STRINGS_LEN: usize = 16 * 1024;
const GROUPS_MAX: usize = 1024;

/// A user of this machine (`getpwnam(3)`).
#[derive(Clone, Debug)]
pub struct User {
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
    home: PathBuf,
    shell: PathBuf,
}

impl User {
    /// Returns the user called `name`, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the user database cannot be read or if the name contains a NUL.
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        let name = CString::new(name)?;
        let mut strings = vec![0; STRINGS_LEN];
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut entry_pointer = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and `strings` has the length passed.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
                &raw mut entry_pointer,
            )
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        if entry_pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: `entry_pointer` is not null, so the entry is initialized, with pointers into
        // `strings`, which outlives this block.
        let user = unsafe {
            let entry = entry.assume_init();
            Self {
                uid: entry.pw_uid,
                gid: entry.pw_gid,
                home: path(CStr::from_ptr(entry.pw_dir)),
                shell: path(CStr::from_ptr(entry.pw_shell)),
                name,
            }
        };
        Ok(Some(user))
    }

    /// Returns the user name.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns the user ID; 0 is root.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the group ID.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home(&self) -> &std::path::Path {
        &self.home
    }

    /// Returns the login shell.
    #[must_use]
    pub fn shell(&self) -> &std::path::Path {
        &self.shell
    }

    /// Makes `command` run as this user: sets groups, group and user, and checks that the previous
    /// user cannot be restored. If a step fails the program does not start.
    ///
    /// # Errors
    ///
    /// Returns an error if the groups cannot be read, or if there are more than 1024.
    pub fn enter(&self, command: &mut Command) -> io::Result<()> {
        let groups = self.groups()?;
        let uid = self.uid;
        let gid = self.gid;
        // SAFETY: between fork and exec only system calls are made, and nothing allocates.
        unsafe {
            command.pre_exec(move || become_user(uid, gid, &groups));
        }
        Ok(())
    }

    /// Makes this process run as this user permanently, to check what the user may do. The process
    /// keeps only the capability to bind ports below 1024, if it has it, as the unit of a service does.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails; the process must then end.
    pub fn become_for_check(&self) -> io::Result<()> {
        let groups = self.groups()?;
        rustix::thread::set_keep_capabilities(true)?;
        become_user(self.uid, self.gid, &groups)?;
        let may_bind =
            rustix::thread::capabilities(None)?.permitted & CapabilitySet::NET_BIND_SERVICE;
        let kept = CapabilitySets {
            effective: may_bind,
            permitted: may_bind,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, kept)?;
        Ok(())
    }

    pub(crate) fn groups(&self) -> io::Result<Vec<libc::gid_t>> {
        let mut groups = vec![0; GROUPS_MAX];
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `groups` has space for `count` elements.
        let group_count = unsafe {
            libc::getgrouplist(self.name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
        };
        if group_count < 0 {
            return Err(io::Error::other("the user is in too many groups"));
        }
        groups.truncate(usize::try_from(count).unwrap_or(0));
        Ok(groups)
    }
}

fn path(text: &CStr) -> PathBuf {
    PathBuf::from(OsString::from_vec(text.to_bytes().to_vec()))
}

/// Changes the user permanently; called between fork and exec.
///
/// Every result is checked: a login server that ignores a failure to drop its privileges gives them
/// to the user (CVE-2023-40303).
fn become_user(uid: libc::uid_t, gid: libc::gid_t, groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: system calls with plain values, and a slice of the length passed.
    unsafe {
        if libc::geteuid() != 0 && libc::geteuid() == uid && libc::getuid() == uid {
            return Ok(());
        }
        if libc::setgroups(groups.len(), groups.as_ptr()) != 0
            || libc::setresgid(gid, gid, gid) != 0
            || libc::setresuid(uid, uid, uid) != 0
        {
            return Err(io::Error::last_os_error());
        }
        let has_left = libc::getuid() == uid && libc::geteuid() == uid && libc::getegid() == gid;
        if !has_left || (uid != 0 && libc::setuid(0) == 0) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

/// Makes this process run as the user `uid` and the group `gid` permanently, without further groups.
/// The capabilities stay, until [`crate::privileges::drop_capabilities`] drops them.
///
/// # Errors
///
/// Returns an error if a step fails; the process must then end.
pub fn run_as(uid: u32, gid: u32) -> io::Result<()> {
    rustix::thread::set_keep_capabilities(true)?;
    become_user(uid, gid, &[])?;
    // The change of the user has made the effective set empty.
    let own = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets { effective: own.permitted, ..own };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Returns whether the IDs of users are those of the machine: the process is in no user namespace
/// other than the first one.
#[must_use]
pub fn is_in_first_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mut words = map.split_ascii_whitespace();
    words.next() == Some("0") && words.next() == Some("0") && words.next() == Some("4294967295")
}

/// Returns the ID of the effective user.
#[must_use]
pub fn effective_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn root_has_the_number_0_and_a_home() {
        let root = User::named("root").unwrap().unwrap();
        assert_eq!(root.uid(), 0);
        assert!(root.home().is_absolute());
        assert!(root.shell().is_absolute());
    }

    #[test]
    fn an_unknown_user_name_is_none() {
        assert!(User::named("no such user").unwrap().is_none());
        assert!(User::named("a\0b").is_err());
    }

    // attack row 63
    #[test]
    fn a_program_does_not_start_without_permission_to_change_the_user() {
        let nobody = User::named("nobody").unwrap().expect("every Linux has the user nobody");
        let mut command = Command::new("true");
        nobody.enter(&mut command).unwrap();
        // If this test runs as root, the child first changes to an unprivileged user.
        let groups = Vec::new();
        let mut cannot = Command::new("true");
        // SAFETY: system calls only.
        unsafe {
            cannot.pre_exec(move || {
                become_user(65_534, 65_534, &groups).ok();
                become_user(1, 1, &groups)
            });
        }
        assert_eq!(cannot.status().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        if is_root() {
            assert_eq!(command.status().unwrap().into_raw(), 0);
        }
    }

    #[test]
    fn a_program_cannot_revert_its_change_of_user() {
        if !test_support::is_root_of_the_machine() {
            return;
        }
        let nobody = User::named("nobody").unwrap().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "id -u; id -G"]);
        nobody.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(nobody.uid().to_string().as_str()));
        assert!(!lines.next().unwrap().split(' ').any(|group| group == "0"));
    }
}
