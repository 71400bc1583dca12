//! A pipe through which the kernel moves received data into a file, without a copy to user space
//! (`splice(2)`).

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Capacity of a pipe in bytes.
pub(super) const SPLICE_PIPE_BYTES: usize = 1 << 20;

/// A pipe through which the kernel moves received data into a file.
#[derive(Debug)]
pub struct SplicePipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes in the pipe.
    buffered_bytes: usize,
    /// Number of `splice(2)` calls since the last [`Self::take_calls`].
    calls: u64,
}

impl SplicePipe {
    /// Creates a pipe.
    ///
    /// # Errors
    ///
    /// Returns the error of `pipe2(2)`.
    pub fn new() -> io::Result<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        // Ignored: a smaller pipe only needs more calls.
        _ = fcntl_setpipe_size(&to, SPLICE_PIPE_BYTES);
        Ok(Self { from, to, buffered_bytes: 0, calls: 0 })
    }

    /// Moves at most `at_most` received bytes from `socket` into the pipe, which must be empty.
    /// Returns the number of bytes; 0 at the end of the stream. Waits for data only if `waits` and
    /// the socket blocks.
    ///
    /// # Errors
    ///
    /// Returns the error of `splice(2)`.
    pub fn fill(
        &mut self,
        socket: &impl AsFd,
        at_most: usize,
        waits: bool,
    ) -> rustix::io::Result<usize> {
        let flags = if waits { SpliceFlags::empty() } else { SpliceFlags::NONBLOCK };
        self.calls += 1;
        let count = splice(socket, None, &self.to, None, at_most, SpliceFlags::MOVE | flags)?;
        self.buffered_bytes = count;
        Ok(count)
    }

    /// Moves at least one byte from the pipe into `file`, at offset `at` or at its current
    /// position.
    pub(crate) fn write_to(&mut self, file: &File, at: Option<u64>) -> io::Result<usize> {
        self.calls += 1;
        let mut offset = at;
        let flags = SpliceFlags::MOVE;
        let moved_bytes =
            splice(&self.from, None, file, offset.as_mut(), self.buffered_bytes, flags)?;
        self.buffered_bytes = self.buffered_bytes.saturating_sub(moved_bytes);
        Ok(moved_bytes)
    }

    /// Moves all bytes of the pipe into `file`, at its current position. Returns false if the file
    /// does not support `splice(2)`; the bytes are copied in that case.
    ///
    /// # Errors
    ///
    /// Returns the error of `splice(2)` or of the write, and [`ErrorKind::WriteZero`] if the file
    /// accepts no more data.
    pub fn drain_to(&mut self, mut file: &File) -> io::Result<bool> {
        while self.buffered_bytes > 0 {
            match self.write_to(file, None) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_unsupported(&error) => {
                    file.write_all(&self.take_bytes()?)?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns the number of bytes in the pipe.
    #[must_use]
    pub const fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Removes and returns the bytes in the pipe, for a file that does not support `splice`.
    pub(crate) fn take_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.buffered_bytes];
        File::from(self.from.try_clone()?).read_exact(&mut bytes)?;
        self.buffered_bytes = 0;
        Ok(bytes)
    }

    /// Returns the number of system calls since the last call of this method.
    pub(super) const fn take_calls(&mut self) -> u64 {
        std::mem::replace(&mut self.calls, 0)
    }
}

/// Returns whether `error` says that the file or the socket does not support `sendfile` or
/// `splice`.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::INVAL, Errno::NOSYS].map(|errno| Some(errno.raw_os_error()));
    unsupported.contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;
    use std::net::{TcpListener, TcpStream};

    /// Receives a file of several bytes through a pipe into `file`. Returns the content of `file`,
    /// and whether each part was moved by the kernel.
    fn receive_through_pipe(mut file: File) -> (String, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(b"content").unwrap();
        drop(sender);
        let mut splice_pipe = SplicePipe::new().unwrap();
        let mut is_moved_by_kernel = true;
        while splice_pipe.fill(&receiver, SPLICE_PIPE_BYTES, true).unwrap() > 0 {
            is_moved_by_kernel &= splice_pipe.drain_to(&file).unwrap();
            assert_eq!(splice_pipe.buffered_bytes(), 0);
        }
        file.rewind().unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        (content, is_moved_by_kernel)
    }

    fn memory_file() -> File {
        File::from(rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn received_bytes_reach_the_file_through_the_pipe() {
        assert_eq!(receive_through_pipe(memory_file()), ("content".to_owned(), true));
    }

    #[test]
    fn received_bytes_are_copied_into_a_file_that_does_not_support_splice() {
        let file = memory_file();
        // The kernel rejects splice(2) into a file that is opened for appending.
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).unwrap();
        assert_eq!(receive_through_pipe(file), ("content".to_owned(), false));
    }
}
