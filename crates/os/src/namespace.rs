//! New network namespaces, with or without root.
//!
//! A privileged caller unshares only the network namespace, and only the calling thread moves into
//! the new one. Any other caller first becomes root of a new user namespace (user_namespaces(7)).
//! This moves the whole process, and the kernel permits it only to a process with a single thread:
//! call [`enter_new_network`] at the beginning of `main`, before any thread is started.

use crate::interface::{Interface, InterfaceError};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::os::fd::{AsFd, BorrowedFd};
use std::{error, fmt, fs, io};

/// Moves the calling thread into a new network namespace, in which only `lo` exists and is up.
///
/// A caller without CAP_SYS_ADMIN also gets a user namespace, in which its user and group are root;
/// this requires a process with a single thread. Sockets opened before the call stay in the old
/// network namespace.
///
/// # Errors
///
/// Returns [`Refused`]. If a later step fails, the process may be left in its new user namespace.
pub fn enter_new_network() -> Result<(), Refused> {
    match unshare(UnshareFlags::NEWNET) {
        Ok(()) => {}
        Err(Errno::PERM) => enter_as_own_root()?,
        Err(Errno::INVAL | Errno::NOSYS) => return Err(Refused::NoNetworkNamespaces),
        Err(Errno::NOSPC | Errno::USERS) => return Err(Refused::TooMany),
        Err(error) => return Err(Refused::Other(error.into())),
    }
    let loopback = Interface::named("lo").map_err(Refused::Loopback)?;
    loopback.bring_up().map_err(|error| restriction().unwrap_or(Refused::Loopback(error)))
}

/// A reference to a network namespace, which exists at least as long as this value.
#[derive(Debug)]
pub struct Network {
    file: fs::File,
}

impl Network {
    /// Returns the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Returns the error of opening the file of the namespace in /proc.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Self { file: fs::File::open("/proc/thread-self/ns/net")? })
    }

    /// Returns the network namespace of the process `id`.
    ///
    /// # Errors
    ///
    /// Returns ENOENT if there is no such process, and EACCES without permission to inspect it.
    pub fn of_process(id: u32) -> io::Result<Self> {
        Ok(Self { file: fs::File::open(format!("/proc/{id}/ns/net"))? })
    }

    /// Moves the calling thread, and threads and programs that it starts later, into this
    /// namespace.
    ///
    /// # Errors
    ///
    /// Returns EPERM without the privilege (CAP_SYS_ADMIN).
    pub fn enter(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.file.as_fd(), network)?)
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn enter_as_own_root() -> Result<(), Refused> {
    let threads = fs::read_dir("/proc/self/task").map_err(Refused::NoProc)?.count();
    if threads > 1 {
        return Err(Refused::Threads(threads));
    }
    // Both IDs are those of the old namespace, so they must be read before leaving it.
    let user = geteuid().as_raw();
    let group = getegid().as_raw();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(|error| match error {
        Errno::INVAL | Errno::NOSYS => Refused::NoUserNamespaces,
        Errno::NOSPC | Errno::USERS => Refused::TooMany,
        Errno::PERM => restriction().unwrap_or(Refused::NotPermitted),
        error => Refused::Other(error.into()),
    })?;
    // The kernel permits an unprivileged group mapping only after setgroups is denied
    // (user_namespaces(7)).
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, line) in maps {
        fs::write(file, line)
            .map_err(|error| restriction().unwrap_or(Refused::NotMapped(file, error)))?;
    }
    Ok(())
}

/// Returns the system setting that forbids unprivileged processes to create user namespaces, if
/// there is one.
fn restriction() -> Option<Refused> {
    let has_value = |setting: &str, value: &str| {
        fs::read_to_string(setting).is_ok_and(|text| text.trim() == value)
    };
    RESTRICTIONS
        .iter()
        .find(|(file, forbidding_value, _)| has_value(file, forbidding_value))
        .map(|(file, _, remedy)| Refused::ForbiddenBy { file, remedy })
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: only unsharing the table of descriptors is unsafe, and it stays shared.
    unsafe { unshare_unsafe(flags) }
}

/// System settings that can forbid namespaces: the file, the value that forbids them, and the
/// command that permits them.
const RESTRICTIONS: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=1000"),
];

/// Reason for which no network namespace could be entered.
#[derive(Debug)]
pub enum Refused {
    /// The process already has this many threads, and its user is not root.
    Threads(usize),
    /// A system setting forbids new user namespaces.
    ForbiddenBy {
        /// File with the setting.
        file: &'static str,
        /// Command with which root permits new user namespaces.
        remedy: &'static str,
    },
    /// The kernel forbids new namespaces for another reason, like a container's seccomp filter or a
    /// chroot.
    NotPermitted,
    /// The limit on namespaces is reached.
    TooMany,
    /// The kernel was built without network namespaces.
    NoNetworkNamespaces,
    /// The kernel was built without user namespaces.
    NoUserNamespaces,
    /// /proc cannot be read.
    NoProc(io::Error),
    /// The user namespace was created, but user or group could not be mapped into it.
    NotMapped(&'static str, io::Error),
    /// `lo` could not be brought up.
    Loopback(InterfaceError),
    /// Any other error.
    Other(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no network namespace: ")?;
        match self {
            Self::Threads(threads) => write!(
                f,
                "the process has {threads} threads, and without root only a process with a single \
                 thread may create a network namespace: run as root"
            ),
            Self::ForbiddenBy { file, remedy } => {
                write!(f, "{file} forbids user namespaces: run as root, or let root run '{remedy}'")
            }
            Self::NotPermitted => f.write_str(
                "not permitted, by a container's seccomp filter or a chroot: run as root, or \
                 start the container with '--cap-add SYS_ADMIN --cap-add NET_ADMIN'",
            ),
            Self::TooMany => f.write_str(
                "the limit on namespaces is reached: end programs that hold a namespace, or raise \
                 user.max_net_namespaces and user.max_user_namespaces",
            ),
            Self::NoNetworkNamespaces => f.write_str(
                "this kernel has no network namespaces: use a kernel with CONFIG_NET_NS",
            ),
            Self::NoUserNamespaces => f.write_str(
                "this kernel has no user namespaces: run as root, or use a kernel with \
                 CONFIG_USER_NS",
            ),
            Self::NoProc(error) => write!(f, "cannot read /proc: {error}; mount it first"),
            Self::NotMapped(file, error) => {
                write!(f, "cannot write {file}: {error}; run as root")
            }
            Self::Loopback(error) => {
                write!(f, "cannot bring up the loopback interface of the namespace: {error}")
            }
            Self::Other(error) => write!(f, "{error}"),
        }
    }
}

impl error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use std::net::UdpSocket;

    fn is_first_network() -> bool {
        fs::read_link("/proc/thread-self/ns/net").unwrap()
            == fs::read_link("/proc/self/ns/net").unwrap()
    }

    #[test]
    fn only_the_calling_thread_of_root_moves_and_its_loopback_is_up() {
        in_new_network(|| {
            assert!(!is_first_network());
            assert!(Interface::named("lo").unwrap().is_up().unwrap());
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
            crate::testing::wait_until_readable(&socket);
        });
        assert!(is_first_network());
    }

    #[test]
    fn a_thread_goes_to_another_network_and_comes_back() {
        in_new_network(|| {
            let place = || fs::read_link("/proc/thread-self/ns/net").unwrap();
            let first = Network::of_this_thread().unwrap();
            let first_place = place();
            enter_new_network().unwrap();
            assert_ne!(place(), first_place);
            first.enter().unwrap();
            assert_eq!(place(), first_place);
        });
    }

    #[test]
    fn a_refusal_names_the_setting_and_the_command_that_changes_it() {
        let (file, _, remedy) = RESTRICTIONS[1];
        let text = Refused::ForbiddenBy { file, remedy }.to_string();
        assert!(text.contains(file) && text.contains(remedy));
    }
}
