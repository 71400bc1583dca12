//! Privileges that a gateway gives up after its set-up, before it reads packets of its guests.
//!
//! [`drop_capabilities`] and [`restrict_system_calls`] are independent; both prevent that a program
//! started later gains privileges (`PR_SET_NO_NEW_PRIVS`). The filter of system calls is a
//! deny-list, as that of slirp4netns: a call of it ends the process by SIGSYS. `io_uring_setup`
//! fails with EPERM instead, because [`crate::batch`] works without a ring.
//!
//! A driver opens its interfaces, listeners, watches and log files first. After the restriction,
//! [`crate::tun_in_namespace`], watches of processes, and [`std::process::Command`] are no longer
//! available.

use crate::sandbox::Sandbox;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::{error, fmt, fs, io};

/// Drops all capabilities of this process but those of `kept` that it has.
///
/// Capabilities belong to threads: call this function before the first thread is started.
///
/// # Errors
///
/// Returns [`PrivilegeError`].
pub fn drop_capabilities(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    let threads = fs::read_dir("/proc/self/task").map_err(PrivilegeError::NoProc)?.count();
    if threads > 1 {
        return Err(PrivilegeError::Threads(threads));
    }
    drop_in_this_thread(kept)
}

/// As [`drop_capabilities`], in a sandbox, which has no /proc. No thread may have been started since
/// it was entered.
///
/// # Errors
///
/// Returns [`PrivilegeError::Capabilities`].
pub fn drop_capabilities_in(_sandbox: &Sandbox, kept: CapabilitySet) -> Result<(), PrivilegeError> {
    drop_in_this_thread(kept)
}

/// As [`drop_capabilities`], in a child that is the fork of a process with a single thread.
pub(crate) fn drop_in_child(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    drop_in_this_thread(kept)
}

fn drop_in_this_thread(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    let failed = |error: Errno| PrivilegeError::Capabilities(error.into());
    set_no_new_privs(true).map_err(failed)?;
    let own = capabilities(None).map_err(failed)?;
    // Without CAP_SETPCAP the bounding set stays, and without new privileges it has no effect.
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for bit in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << bit);
            if kept.contains(capability) {
                continue;
            }
            match remove_capability_from_bounding_set(capability) {
                Ok(()) => {}
                // The first number that the kernel does not know.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(failed(error)),
            }
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let sets = CapabilitySets {
        effective: own.permitted & kept,
        permitted: own.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(failed)
}

/// Forbids system calls that the data path of a gateway does not need, in all threads.
///
/// # Errors
///
/// Returns [`PrivilegeError::Filter`] also for a processor that the filter does not support.
pub fn restrict_system_calls() -> Result<(), PrivilegeError> {
    let ring = filter([(libc::SYS_io_uring_setup, Vec::new())], SeccompAction::Errno(EPERM))?;
    let mut denied: BTreeMap<_, _> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    denied.insert(libc::SYS_prctl, vec![other_than_names()?]);
    let denied = filter(denied, SeccompAction::KillProcess)?;
    for program in [ring, denied] {
        apply_filter_all_threads(&program).map_err(PrivilegeError::of)?;
    }
    Ok(())
}

/// Returns a rule for calls of prctl(2) other than those that name threads and memory, which the C
/// library makes.
fn other_than_names() -> Result<SeccompRule, PrivilegeError> {
    let is_not = |option| {
        let operator = SeccompCmpOp::Ne;
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, option)
            .map_err(PrivilegeError::of)
    };
    let conditions = vec![is_not(PR_SET_NAME)?, is_not(PR_SET_VMA)?];
    SeccompRule::new(conditions).map_err(PrivilegeError::of)
}

fn filter(
    calls: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>,
    action: SeccompAction,
) -> Result<BpfProgram, PrivilegeError> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(PrivilegeError::of)?;
    let calls = calls.into_iter().collect();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, processor);
    filter.and_then(TryInto::try_into).map_err(PrivilegeError::of)
}

/// Reason for which privileges could not be dropped.
#[derive(Debug)]
pub enum PrivilegeError {
    /// The process already has this many threads.
    Threads(usize),
    /// /proc cannot be read.
    NoProc(io::Error),
    /// The capabilities cannot be dropped.
    Capabilities(io::Error),
    /// The filter of system calls cannot be installed.
    Filter(String),
}

impl PrivilegeError {
    fn of(error: impl fmt::Display) -> Self {
        Self::Filter(error.to_string())
    }
}

impl fmt::Display for PrivilegeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(threads) => {
                write!(f, "cannot drop capabilities: the process already has {threads} threads")
            }
            Self::NoProc(error) => write!(f, "cannot read /proc: {error}; mount it first"),
            Self::Capabilities(error) => write!(f, "cannot drop capabilities: {error}"),
            Self::Filter(error) => write!(f, "cannot install a filter of system calls: {error}"),
        }
    }
}

impl error::Error for PrivilegeError {}

/// Calls that end the process: new programs, other processes, namespaces, mounts, modules, and
/// interfaces of the kernel that have had many faults.
const DENIED: [i64; 40] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];
const EPERM: u32 = libc::EPERM as u32;
// <linux/prctl.h>
const PR_SET_NAME: u64 = 15;
const PR_SET_VMA: u64 = 0x5356_4d41;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::this_program;
    use rustix::thread::{UnshareFlags, no_new_privs, unshare_unsafe};
    use std::os::unix::process::ExitStatusExt;

    fn run(name: &str) -> std::process::Output {
        this_program(&format!("privileges::tests::{name}")).output().unwrap()
    }

    #[test]
    fn a_forbidden_system_call_ends_the_process() {
        let output = run("child_unshares");
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_unshares() {
        restrict_system_calls().unwrap();
        // SAFETY: nothing is unshared.
        let _ = unsafe { unshare_unsafe(UnshareFlags::empty()) };
    }

    #[test]
    fn a_restricted_process_still_opens_sockets_threads_and_files() {
        let output = run("child_works");
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_works() {
        restrict_system_calls().unwrap();
        let named = std::thread::Builder::new().name("flow".into());
        named.spawn(|| fs::read("/proc/self/status").unwrap()).unwrap().join().unwrap();
        std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ring = io_uring::IoUring::new(4).map(drop);
        assert_eq!(ring.unwrap_err().raw_os_error(), Some(libc::EPERM));
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("NoNewPrivs:\t1\nSeccomp:\t2\n"), "{status}");
    }

    #[test]
    fn only_the_kept_capabilities_are_left() {
        let output = run("child_drops_capabilities");
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_drops_capabilities() {
        let before = capabilities(None).unwrap().permitted;
        // libtest has a thread of its own.
        drop_in_this_thread(CapabilitySet::NET_BIND_SERVICE).unwrap();
        let left = capabilities(None).unwrap();
        assert_eq!(left.effective, before & CapabilitySet::NET_BIND_SERVICE);
        assert_eq!(left.permitted, left.effective);
        assert!(no_new_privs().unwrap());
        if before.contains(CapabilitySet::SETPCAP) {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("CapBnd:\t0000000000000400\n"), "{status}");
        }
    }

    #[test]
    fn a_process_with_threads_keeps_its_capabilities() {
        // The thread of the test runs beside the main thread.
        let dropped = std::thread::spawn(|| drop_capabilities(CapabilitySet::empty()));
        let error = dropped.join().unwrap().unwrap_err();
        assert!(matches!(error, PrivilegeError::Threads(_)), "{error}");
    }
}
