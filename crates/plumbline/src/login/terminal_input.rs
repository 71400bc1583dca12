//! The local end: keyboard (standard input), display (standard output) and the size of the window.

use os::output::Output;
use os::readiness::{self, PollFlags};
use os::tty::{RawMode, RawModeError, WindowChanges, WindowSize};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Size of the read buffer in bytes: more than a terminal delivers in one read.
const READ_LEN: usize = 8 * 1024;

/// Standard input and standard output of the local terminal.
#[derive(Debug)]
pub(super) struct LocalTerminal {
    /// Standard input.
    pub(super) keyboard: Keyboard,
    /// Standard output.
    pub(super) output: Output,
}

impl LocalTerminal {
    /// Opens the standard streams. Changes of the window size are reported if `is_interactive`.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub(super) fn new(is_interactive: bool) -> io::Result<Self> {
        let changes = WindowChanges::watch()?;
        let output = Output::standard()?;
        let buffer = vec![0; READ_LEN];
        let keyboard =
            Keyboard { raw: None, changes, is_interactive, buffer, may_have_more: false };
        Ok(Self { keyboard, output })
    }
}

/// Standard input, the mode of the local terminal, and the changes of its window size.
#[derive(Debug)]
pub(super) struct Keyboard {
    raw: Option<RawMode>,
    /// Changes of the window size, and deferred termination signals.
    changes: WindowChanges,
    is_interactive: bool,
    buffer: Vec<u8>,
    /// Whether the last read filled the buffer, so that more may be available.
    may_have_more: bool,
}

/// Result of a read from standard input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Number of bytes read.
    Bytes(usize),
    /// No data is available now.
    Nothing,
    /// End of file, or the terminal has hung up.
    End,
}

impl Keyboard {
    /// Puts the terminal into raw mode until `self` is dropped or [`Self::leave_raw`] is called.
    ///
    /// # Errors
    ///
    /// Returns a [`RawModeError`].
    pub(super) fn set_raw(&mut self) -> Result<(), RawModeError> {
        self.raw = Some(RawMode::enter()?);
        Ok(())
    }

    /// Returns whether the terminal is in raw mode.
    pub(super) fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Restores the original mode of the terminal permanently.
    pub(super) fn leave_raw(&mut self) {
        self.raw = None;
    }

    /// Suspends the process and returns when it is continued.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::Unsupported`] without job control.
    pub(super) fn suspend(&self) -> io::Result<()> {
        match &self.raw {
            Some(raw) => raw.suspend(),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the descriptors to wait for: window changes and the keyboard.
    pub(super) fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        // Window changes come first: keys typed after a change are meant for the new size.
        vec![self.changes.as_fd(), rustix::stdio::stdin()]
    }

    /// Returns the index of the keyboard among the inputs.
    pub(super) const fn index(&self) -> usize {
        1
    }

    /// Returns whether more data may be available at the keyboard.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Reads the keyboard once. To be called when it is readable or `may_have_more` returns `true`.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`.
    pub(super) fn read(&mut self) -> io::Result<Read> {
        let stdin = rustix::stdio::stdin();
        // Other processes share the standard input, so it stays in blocking mode. It is polled
        // first if no event has reported it as readable.
        if std::mem::take(&mut self.may_have_more)
            && readiness::poll_now(stdin, PollFlags::IN)?.is_empty()
        {
            return Ok(Read::Nothing);
        }
        loop {
            match rustix::io::read(stdin, self.buffer.as_mut_slice()) {
                // EIO: the terminal has hung up.
                Ok(0) | Err(Errno::IO) => return Ok(Read::End),
                Ok(count) => {
                    self.may_have_more = count == self.buffer.len();
                    return Ok(Read::Bytes(count));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Read::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the buffer with the data that was read; return it with [`Self::put_back`].
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Stores the buffer again that [`Self::take_buffer`] returned.
    pub(super) fn put_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Returns whether the window has changed; cheap to call.
    pub(super) fn has_new_window(&self) -> bool {
        self.changes.is_due()
    }

    /// Returns the new window size if it has changed.
    pub(super) fn new_window(&self) -> Option<WindowSize> {
        let is_new = self.changes.take() && self.is_interactive;
        is_new.then(window).flatten()
    }
}

/// Returns the size of the user's window, if standard output or standard input is a terminal.
pub(super) fn window() -> Option<WindowSize> {
    WindowSize::of(rustix::stdio::stdout()).or_else(|| WindowSize::of(rustix::stdio::stdin()))
}
