//! Non-blocking output to a descriptor that is shared with other processes.
//!
//! O_NONBLOCK belongs to the open file description, which the shell that started the program
//! shares: the flag would stay set for the shell. Therefore a terminal or a pipe is opened again
//! through its entry in `/proc/self/fd`, which creates a separate description. Where the system
//! refuses that (no `/proc`, or a terminal of another user), a poll precedes each write, and the
//! write is so short that a writable descriptor takes all of it.

use crate::readiness::{self, PollFd, PollFlags};
use crate::unless_blocked;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::termios::isatty;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Number of bytes that a writable terminal takes without blocking. Linux reports a terminal as
/// writable below this many queued bytes (`WAKEUP_CHARS`), and drivers have buffers of at least
/// twice that size.
const TERMINAL_WRITE_LEN: usize = 256;
/// Number of bytes that a writable pipe takes without blocking (`PIPE_BUF`).
const PIPE_WRITE_LEN: usize = 4096;

/// Non-blocking output to a shared descriptor.
#[derive(Debug)]
pub struct Output {
    descriptor: OwnedFd,
    method: Method,
}

/// Method by which a write avoids blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// The description is not shared and has O_NONBLOCK.
    NonBlocking,
    /// A poll precedes each write of at most this many bytes.
    Polled(usize),
    /// A regular file or a device without a reader: a write does not wait.
    Immediate,
}

impl Output {
    /// Creates an output to the standard output.
    ///
    /// # Errors
    ///
    /// Returns EMFILE if no descriptor is left.
    pub fn standard() -> io::Result<Self> {
        Self::to(rustix::stdio::stdout())
    }

    /// Creates an output to `descriptor`, whose flags stay unchanged.
    ///
    /// # Errors
    ///
    /// Returns EBADF if `descriptor` is not open; EMFILE if no descriptor is left.
    pub fn to(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(descriptor)?.st_mode);
        let is_terminal = isatty(descriptor);
        let polled_len = match kind {
            FileType::Fifo => Some(PIPE_WRITE_LEN),
            FileType::CharacterDevice if is_terminal => Some(TERMINAL_WRITE_LEN),
            FileType::Socket => Some(PIPE_WRITE_LEN),
            _ => None,
        };
        let Some(len) = polled_len else {
            let descriptor = descriptor.try_clone_to_owned()?;
            return Ok(Self { descriptor, method: Method::Immediate });
        };
        if let Some(descriptor) = reopened(descriptor) {
            return Ok(Self { descriptor, method: Method::NonBlocking });
        }
        Ok(Self { descriptor: descriptor.try_clone_to_owned()?, method: Method::Polled(len) })
    }

    /// Writes as many bytes as possible without blocking; returns `None` if none can be written.
    ///
    /// # Errors
    ///
    /// Returns EPIPE or EIO if the reader is gone, and other errors of `write(2)`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let bytes = match self.method {
            Method::NonBlocking | Method::Immediate => bytes,
            Method::Polled(_) if !self.has_room()? => return Ok(None),
            Method::Polled(len) => bytes.get(..len).unwrap_or(bytes),
        };
        unless_blocked(|| rustix::io::write(&self.descriptor, bytes))
    }

    /// Waits until the descriptor is writable, for at most `limit`. Returns whether the descriptor
    /// is writable.
    ///
    /// # Errors
    ///
    /// Returns the error of `poll(2)`.
    pub fn wait_for_room(&self, limit: Option<Duration>) -> io::Result<bool> {
        let mut room = [PollFd::new(&self.descriptor, PollFlags::OUT)];
        Ok(readiness::wait_for(&mut room, limit)? > 0)
    }

    fn has_room(&self) -> io::Result<bool> {
        self.wait_for_room(Some(Duration::ZERO))
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Opens the file of `descriptor` again, non-blocking, if the system permits that.
#[cfg(target_os = "linux")]
fn reopened(descriptor: BorrowedFd<'_>) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok()
}

/// Other systems duplicate the descriptor on opening its entry, so the flags would be shared.
#[cfg(not(target_os = "linux"))]
fn reopened(_descriptor: BorrowedFd<'_>) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_getfl;
    use rustix::pipe::pipe;

    /// Writes until the descriptor is no longer writable.
    fn fill_pipe(output: &Output) -> usize {
        let bytes = [b'x'; 4096];
        std::iter::from_fn(|| output.write(&bytes).unwrap()).sum()
    }

    #[test]
    fn a_full_pipe_accepts_no_data_until_read_and_keeps_its_flags() {
        let (reader, writer) = pipe().unwrap();
        let output = Output::to(writer.as_fd()).unwrap();
        assert!(fill_pipe(&output) > 0);
        assert_eq!(output.write(b"y").unwrap(), None);
        assert!(!output.wait_for_room(Some(Duration::ZERO)).unwrap());
        rustix::io::read(&reader, &mut [0; 8192]).unwrap();
        assert_eq!(output.write(b"y").unwrap(), Some(1));
        assert!(!fcntl_getfl(&writer).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn output_that_cannot_be_opened_again_is_polled_and_does_not_block() {
        let (reader, writer) = pipe().unwrap();
        let output = Output { descriptor: writer, method: Method::Polled(PIPE_WRITE_LEN) };
        assert!(fill_pipe(&output) >= PIPE_WRITE_LEN);
        rustix::io::read(&reader, &mut [0; PIPE_WRITE_LEN]).unwrap();
        assert_eq!(output.write(&[b'y'; 10_000]).unwrap(), Some(PIPE_WRITE_LEN));
        assert_eq!(output.write(b"y").unwrap(), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_unread_terminal_accepts_some_data_and_is_then_full() {
        use crate::pty::Pty;
        use crate::tty::WindowSize;
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let terminal = std::fs::OpenOptions::new().write(true).open(pty.path()).unwrap();
        for method in [Method::NonBlocking, Method::Polled(TERMINAL_WRITE_LEN)] {
            let output = Output { method, ..Output::to(terminal.as_fd()).unwrap() };
            fill_pipe(&output);
            assert_eq!(output.write(b"y").unwrap(), None, "{method:?}");
        }
        assert!(!fcntl_getfl(&terminal).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_regular_file_accepts_all_data_at_its_own_offset() {
        let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, b"begun ").unwrap();
        let output = Output::to(file.as_fd()).unwrap();
        assert_eq!(output.write(b"ended").unwrap(), Some(5));
        let mut text = [0; 16];
        let count = rustix::io::pread(&file, &mut text, 0).unwrap();
        assert_eq!(&text[..count], b"begun ended");
    }
}
