//! The namespaces of a guest, found by the ID of a process or by the path of a file.
//!
//! Only a process with a single thread can enter a user namespace. Therefore a program does not
//! enter the namespaces itself: [`crate::tun_in_namespace`] does so in a child process.

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// A network namespace, and the user namespace to enter before it.
#[derive(Debug)]
pub struct TargetNamespaces {
    network: OwnedFd,
    /// `None` if the calling process is in the user namespace already, or if none is given.
    user: Option<OwnedFd>,
}

impl TargetNamespaces {
    /// Opens the network and the user namespace of the process `id`.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::NoProcess`] also for a process that ends meanwhile.
    pub fn of_process(id: u32) -> Result<Self, TargetError> {
        let process = open_process(id)?;
        let network = open_file(&PathBuf::from(format!("/proc/{id}/ns/net")));
        let user = open_file(&PathBuf::from(format!("/proc/{id}/ns/user")));
        // Until here the ID may have been reused by another process.
        if has_ended(&process) {
            return Err(TargetError::NoProcess(id));
        }
        let network = network.map_err(|error| match error {
            TargetError::NoFile(_) => TargetError::NoProcess(id),
            error => error,
        })?;
        Ok(Self { network, user: user.ok().filter(|user| !is_own_user_namespace(user)) })
    }

    /// Opens the network namespace at `path`, without a user namespace.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::NoFile`] or [`TargetError::NotPermitted`].
    pub fn at_path(path: &Path) -> Result<Self, TargetError> {
        Ok(Self { network: open_file(path)?, user: None })
    }

    /// Replaces the user namespace by the one at `path`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::at_path`].
    pub fn with_user_namespace(self, path: &Path) -> Result<Self, TargetError> {
        let user = open_file(path)?;
        Ok(Self { user: Some(user).filter(|user| !is_own_user_namespace(user)), ..self })
    }

    /// Removes the user namespace: the caller has the necessary privileges already.
    #[must_use]
    pub fn without_user_namespace(self) -> Self {
        Self { user: None, ..self }
    }

    /// Returns these namespaces, unless the network namespace is that of the calling process.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::OwnNetwork`].
    pub fn of_other(self) -> Result<Self, TargetError> {
        if is_own(&self.network, "/proc/self/ns/net") {
            Err(TargetError::OwnNetwork)
        } else {
            Ok(self)
        }
    }

    pub(crate) fn network(&self) -> BorrowedFd<'_> {
        self.network.as_fd()
    }

    pub(crate) fn user(&self) -> Option<BorrowedFd<'_>> {
        self.user.as_ref().map(AsFd::as_fd)
    }
}

/// Opens a descriptor that becomes readable when the process `id` ends.
pub(crate) fn open_process(id: u32) -> Result<OwnedFd, TargetError> {
    let raw = i32::try_from(id).ok().and_then(Pid::from_raw);
    let process = raw.ok_or(TargetError::NoProcess(id))?;
    pidfd_open(process, PidfdFlags::NONBLOCK).map_err(|error| match error {
        Errno::SRCH | Errno::INVAL => TargetError::NoProcess(id),
        error => TargetError::Other(PathBuf::from(format!("/proc/{id}")), error.into()),
    })
}

/// Returns whether the process of a descriptor of [`open_process`] has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

fn open_file(path: &Path) -> Result<OwnedFd, TargetError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR | Errno::SRCH => TargetError::NoFile(path.into()),
        Errno::ACCESS | Errno::PERM => TargetError::NotPermitted(path.into()),
        error => TargetError::Other(path.into(), error.into()),
    })
}

/// The kernel refuses to enter the user namespace of the calling process (EINVAL of setns(2)).
fn is_own_user_namespace(user: &OwnedFd) -> bool {
    is_own(user, "/proc/self/ns/user")
}

/// Returns whether a namespace is that of the calling process, whose path is `own`.
fn is_own(namespace: &OwnedFd, own: &str) -> bool {
    let Ok(own) = rustix::fs::stat(own) else { return false };
    fstat(namespace).is_ok_and(|other| (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino))
}

/// Reason for which the namespaces of a guest cannot be opened.
#[derive(Debug)]
pub enum TargetError {
    /// There is no process with this ID.
    NoProcess(u32),
    /// There is no file of this path.
    NoFile(PathBuf),
    /// The file may not be opened.
    NotPermitted(PathBuf),
    /// The network namespace is that of the calling process.
    OwnNetwork,
    /// The user has too many instances of inotify, or the process too many descriptors, to watch another
    /// path.
    TooManyWatches,
    /// Any other error.
    Other(PathBuf, io::Error),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(id) => write!(f, "there is no process {id}"),
            Self::NoFile(path) => {
                write!(f, "there is no namespace {}: no such file", path.display())
            }
            Self::NotPermitted(path) => write!(
                f,
                "no permission to open {}: run as the user of the process, or as root",
                path.display()
            ),
            Self::OwnNetwork => f.write_str(
                "the network namespace is the one of this program: a guest has another one",
            ),
            Self::TooManyWatches => f.write_str(
                "no inotify instance is free to watch another namespace: let root raise \
                 fs.inotify.max_user_instances, give guests as pid:PROCESS, or raise the limit of \
                 descriptors with \"ulimit -n\"",
            ),
            Self::Other(path, error) => write!(f, "cannot open {}: {error}", path.display()),
        }
    }
}

impl error::Error for TargetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_exist_is_reported() {
        for id in [0, 4_194_305, u32::MAX] {
            let error = TargetNamespaces::of_process(id).unwrap_err();
            assert!(matches!(error, TargetError::NoProcess(other) if other == id), "{error}");
        }
    }

    #[test]
    fn a_path_that_does_not_exist_is_reported() {
        let error = TargetNamespaces::at_path(Path::new("/run/netns/plumb-none")).unwrap_err();
        assert!(matches!(error, TargetError::NoFile(_)), "{error}");
        assert!(error.to_string().contains("/run/netns/plumb-none"));
    }

    #[test]
    fn the_user_namespace_of_this_process_is_not_entered() {
        let own = TargetNamespaces::of_process(std::process::id()).unwrap();
        assert!(own.user().is_none());
        let path = Path::new("/proc/self/ns/user");
        assert!(own.with_user_namespace(path).unwrap().user().is_none());
    }
}
