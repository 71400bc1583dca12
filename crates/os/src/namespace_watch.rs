//! The end of a guest: the end of its process, or the deletion of the path of its namespace.
//!
//! An open TUN keeps the network namespace of a guest alive, so that a gateway would not notice
//! otherwise that the guest is gone. A process is watched by a pidfd (Linux 5.3), a path by inotify
//! of its directory. Inotify reports nothing for paths in /proc, so that a path below `/proc/ID` is
//! watched by the process.
//!
//! A gateway waits until the descriptor is readable, and then calls [`NamespaceWatch::is_gone`].

use crate::target_namespace::{TargetError, has_ended, open_process};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// A watch of a process or of a path. Its descriptor is readable after an event.
#[derive(Debug)]
pub struct NamespaceWatch {
    descriptor: OwnedFd,
    /// Name of the file in the watched directory; `None` for a process.
    name: Option<OsString>,
}

impl NamespaceWatch {
    /// Watches the process `id`.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::NoProcess`].
    pub fn of_process(id: u32) -> Result<Self, TargetError> {
        Ok(Self { descriptor: open_process(id)?, name: None })
    }

    /// Watches the file at `path`.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::NoFile`] if the file does not exist, and [`TargetError::TooManyWatches`]
    /// at the limit of inotify instances of the user.
    pub fn of_path(path: &Path) -> Result<Self, TargetError> {
        if let Some(id) = process_of(path) {
            return Self::of_process(id);
        }
        let failed = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR => TargetError::NoFile(path.into()),
            Errno::ACCESS => TargetError::NotPermitted(path.into()),
            error => TargetError::Other(path.into(), error.into()),
        };
        let name = path.file_name().ok_or_else(|| failed(Errno::NOENT))?;
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let descriptor = inotify::init(flags).map_err(|error| match error {
            // The limit of inotify instances and that of descriptors have the same error.
            Errno::MFILE => TargetError::TooManyWatches,
            error => failed(error),
        })?;
        let events = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::DELETE_SELF;
        inotify::add_watch(&descriptor, directory, events).map_err(failed)?;
        // A file that was deleted before the watch began causes no event.
        rustix::fs::lstat(path).map_err(failed)?;
        Ok(Self { descriptor, name: Some(name.into()) })
    }

    /// Returns whether the process has ended, or the path was deleted since the last call.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`.
    pub fn is_gone(&self) -> io::Result<bool> {
        let Some(name) = &self.name else { return Ok(has_ended(&self.descriptor)) };
        let mut buffer = [MaybeUninit::uninit(); EVENTS_LEN];
        let mut events = inotify::Reader::new(&self.descriptor, &mut buffer);
        loop {
            match events.next() {
                // The kernel removes the watch if the directory is deleted or its file system
                // unmounted.
                Ok(event) if event.events().contains(ReadFlags::IGNORED) => return Ok(true),
                Ok(event) => {
                    if event.file_name().is_some_and(|file| file.to_bytes() == name.as_bytes()) {
                        return Ok(true);
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for NamespaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns the process whose directory in /proc contains `path`.
fn process_of(path: &Path) -> Option<u32> {
    let mut components = path.components();
    let is_proc = components.next()? == Component::RootDir
        && components.next()? == Component::Normal("proc".as_ref());
    let Component::Normal(process) = components.next()? else { return None };
    if !is_proc {
        return None;
    }
    match process.to_str()? {
        "self" => Some(std::process::id()),
        id => id.parse().ok(),
    }
}

/// Size of the buffer for events, each of up to 272 bytes.
const EVENTS_LEN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wait_until_readable;
    use std::process::Command;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("plumb-watch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn the_end_of_a_process_is_reported() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let watch = NamespaceWatch::of_process(child.id()).unwrap();
        let path = format!("/proc/{}/ns/net", child.id());
        let watch_of_path = NamespaceWatch::of_path(Path::new(&path)).unwrap();
        assert!(!watch.is_gone().unwrap());
        assert!(!watch_of_path.is_gone().unwrap());
        child.kill().unwrap();
        wait_until_readable(&watch);
        assert!(watch.is_gone().unwrap());
        assert!(watch_of_path.is_gone().unwrap());
        child.wait().unwrap();
        let error = NamespaceWatch::of_process(child.id()).unwrap_err();
        assert!(matches!(error, TargetError::NoProcess(_)), "{error}");
    }

    #[test]
    fn only_the_deletion_of_the_watched_file_is_reported() {
        let directory = directory("file");
        let [file, other] = ["netns-1", "netns-2"].map(|name| directory.join(name));
        std::fs::write(&file, "").unwrap();
        std::fs::write(&other, "").unwrap();
        let watch = NamespaceWatch::of_path(&file).unwrap();
        std::fs::remove_file(&other).unwrap();
        wait_until_readable(&watch);
        assert!(!watch.is_gone().unwrap());
        std::fs::remove_file(&file).unwrap();
        wait_until_readable(&watch);
        assert!(watch.is_gone().unwrap());
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn the_deletion_of_the_directory_is_reported() {
        let directory = directory("directory");
        let file = directory.join("netns-1");
        std::fs::write(&file, "").unwrap();
        let watch = NamespaceWatch::of_path(&file).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        wait_until_readable(&watch);
        assert!(watch.is_gone().unwrap());
        let error = NamespaceWatch::of_path(&file).unwrap_err();
        assert!(matches!(error, TargetError::NoFile(_)), "{error}");
    }
}
