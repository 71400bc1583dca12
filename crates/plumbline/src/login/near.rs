//! The local end: keyboard (standard input), display (standard output) and the size of the window.

use os::output::Output;
use os::tty::{RawMode, RawModeError, WindowChanges, WindowSize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What one read takes: more than a terminal gives at a time.
const READ_LEN: usize = 8 * 1024;

/// The standard input.
#[derive(Debug)]
pub(super) struct Near {
    raw: Option<RawMode>,
    output: Output,
    changes: Option<WindowChanges>,
    buffer: Vec<u8>,
    /// Whether the last read filled the buffer, so that more may lie ready.
    may_have_more: bool,
}

/// What a read of the standard input gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// This many bytes.
    Some(usize),
    /// Nothing now.
    Nothing,
    /// It has ended, or the terminal has gone.
    End,
}

impl Near {
    /// Takes the standard input; the size of its window is watched if it is a terminal.
    ///
    /// # Errors
    ///
    /// Where there are no descriptors left.
    pub(super) fn new(is_interactive: bool) -> io::Result<Self> {
        let changes = if is_interactive { Some(WindowChanges::watch()?) } else { None };
        let output = Output::standard()?;
        Ok(Self { raw: None, output, changes, buffer: vec![0; READ_LEN], may_have_more: false })
    }

    /// Puts the terminal into raw mode, until this is dropped.
    ///
    /// # Errors
    ///
    /// See [`RawModeError`].
    pub(super) fn set_raw(&mut self) -> Result<(), RawModeError> {
        self.raw = Some(RawMode::enter()?);
        Ok(())
    }

    /// Returns whether the terminal is in raw mode.
    pub(super) fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Puts the terminal back as it was found, for good.
    pub(super) fn leave_raw(&mut self) {
        self.raw = None;
    }

    /// Stops the program, and returns when it is continued.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] where there is no job control.
    pub(super) fn suspend(&self) -> io::Result<()> {
        match &self.raw {
            Some(raw) => raw.suspend(),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the descriptors to wait for: the keyboard, and changes of the window.
    pub(super) fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        // A change of the window goes first: what is typed behind it is meant for the new size.
        let changes = self.changes.iter().map(AsFd::as_fd);
        changes.chain(std::iter::once(rustix::stdio::stdin())).collect()
    }

    /// Returns the display.
    pub(super) fn output(&self) -> &Output {
        &self.output
    }

    /// Returns which of the inputs is the keyboard.
    pub(super) fn keyboard(&self) -> usize {
        usize::from(self.changes.is_some())
    }

    /// Returns whether more may lie ready at the keyboard.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Reads the keyboard once, when it is ready or may be.
    ///
    /// # Errors
    ///
    /// What `read` says.
    pub(super) fn read(&mut self) -> io::Result<Read> {
        let stdin = rustix::stdio::stdin();
        // The standard input is others' too and stays a blocking one, so it is asked first
        // wherever nobody has said that there is something.
        if std::mem::take(&mut self.may_have_more) && !is_ready(stdin)? {
            return Ok(Read::Nothing);
        }
        loop {
            match rustix::io::read(stdin, self.buffer.as_mut_slice()) {
                // EIO: the terminal has hung up.
                Ok(0) | Err(Errno::IO) => return Ok(Read::End),
                Ok(count) => {
                    self.may_have_more = count == self.buffer.len();
                    return Ok(Read::Some(count));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Read::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lends what was read; give it back by [`Self::put_back`].
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back.
    pub(super) fn put_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Returns whether the window has changed, which is cheap to ask.
    pub(super) fn has_new_window(&self) -> bool {
        self.changes.as_ref().is_some_and(WindowChanges::is_due)
    }

    /// Returns the new size of the window, if it has changed.
    pub(super) fn new_window(&self) -> Option<WindowSize> {
        self.changes.as_ref().filter(|changes| changes.take()).and_then(|_| window())
    }
}

fn is_ready(stdin: BorrowedFd<'_>) -> io::Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut [PollFd::from_borrowed_fd(stdin, PollFlags::IN)], Some(&now)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the size of the user's window, if there is a terminal.
pub(super) fn window() -> Option<WindowSize> {
    WindowSize::of(rustix::stdio::stdout()).or_else(|| WindowSize::of(rustix::stdio::stdin()))
}
