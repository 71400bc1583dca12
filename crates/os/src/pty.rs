//! Pseudo-terminals: this program holds the master end, another program runs on the terminal end.

use crate::process::Program;
use crate::readiness::OwnsDescriptor;
use crate::tty::WindowSize;
use crate::unless_blocked;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};
use rustix::termios::{tcgetattr, tcsetattr, tcsetwinsize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Both ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
    /// Held open so that the master end does not see a hang-up before a program has opened the
    /// terminal.
    terminal: OwnedFd,
    path: PathBuf,
}

impl Pty {
    /// Opens a pseudo-terminal with a window of `size`. The master end is non-blocking.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call, for example if there are too many
    /// pseudo-terminals or if /dev/pts is not mounted.
    pub fn open(size: WindowSize) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = PathBuf::from(OsString::from_vec(ptsname(&master, Vec::new())?.into_bytes()));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&path, flags, Mode::empty())?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let pty = Self { master, terminal, path };
        pty.resize(size)?;
        Ok(pty)
    }

    /// Returns the path with which another program can open the terminal end.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the terminal end.
    #[must_use]
    pub fn terminal(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }

    /// Enables packet mode: each read of the master end starts with a byte that is 0 before data,
    /// and otherwise reports an event on the terminal ([`OUTPUT_FLUSHED`]).
    ///
    /// # Errors
    ///
    /// Returns the error of `ioctl(2)`.
    pub fn set_packet_mode(&self) -> io::Result<()> {
        let one: libc::c_int = 1;
        // SAFETY: TIOCPKT reads an int, which outlives the call.
        let answer = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCPKT, &raw const one) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Enables or disables echo of the terminal, before a program is started.
    ///
    /// # Errors
    ///
    /// Returns EIO if the terminal has hung up.
    pub fn set_echo(&self, is_on: bool) -> io::Result<()> {
        set_echo(&self.master, is_on)
    }

    /// Starts `command` in a new session, with this terminal as its controlling terminal.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Command::spawn`].
    pub fn start(self, mut command: Command) -> io::Result<PtyProgram> {
        command.stdin(Stdio::from(self.terminal.try_clone()?));
        command.stdout(Stdio::from(self.terminal.try_clone()?));
        command.stderr(Stdio::from(self.terminal));
        crate::process::isolate(&mut command);
        // SAFETY: between fork and exec only system calls are made, and nothing allocates.
        unsafe {
            command.pre_exec(|| {
                // A shell starts background programs with these two signals ignored; a new session
                // starts with their default actions, like a login.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                setsid()?;
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        let program = Program::start(&mut command)?;
        // The command holds duplicates of the terminal end; without them, the master end sees the
        // program hang up.
        drop(command);
        Ok(PtyProgram { master: self.master, program })
    }

    /// Reads output written to the terminal; see [`PtyProgram::read`].
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        read(&self.master, bytes)
    }

    /// Writes `bytes` as terminal input. Returns the number of bytes accepted, or `None` if the
    /// buffer is full.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::write(&self.master, bytes))
    }

    /// Changes the size of the window.
    ///
    /// # Errors
    ///
    /// Returns the error of `ioctl(2)`.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, size.into())?)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

/// Bit of the first byte in packet mode (`TIOCPKT_FLUSHWRITE`). It is set if the program was
/// interrupted and its unread output was discarded.
pub const OUTPUT_FLUSHED: u8 = 2;

/// Control characters of the terminal; a disabled character is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlCharacters {
    /// Erases the last character (VERASE).
    pub erase: u8,
    /// Erases the line (VKILL).
    pub kill: u8,
    /// Interrupts the program (VINTR).
    pub interrupt: u8,
    /// Terminates the program, with a core dump where that is permitted (VQUIT).
    pub quit: u8,
    /// Suspends the program (VSUSP).
    pub suspend: u8,
    /// Ends the input (VEOF).
    pub end_of_file: u8,
}

/// A program running on a pseudo-terminal. Dropping it hangs up and ends the program.
#[derive(Debug)]
pub struct PtyProgram {
    master: OwnedFd,
    program: Program,
}

// SAFETY: the master end is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for PtyProgram {}

impl PtyProgram {
    /// Reads output of the program. Returns the number of bytes, 0 after a hang-up, or `None` if no
    /// output is waiting.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        read(&self.master, bytes)
    }

    /// Writes `bytes` as terminal input. Returns the number of bytes accepted, or `None` if the
    /// buffer is full.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::write(&self.master, bytes))
    }

    /// Changes the size of the window; the program is notified by SIGWINCH.
    ///
    /// # Errors
    ///
    /// Returns the error of `ioctl(2)`.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, size.into())?)
    }

    /// Enables or disables echo of the terminal, until the program changes it.
    ///
    /// # Errors
    ///
    /// Returns EIO if the program has hung up.
    pub fn set_echo(&self, is_on: bool) -> io::Result<()> {
        set_echo(&self.master, is_on)
    }

    /// Returns the terminal's control characters.
    ///
    /// # Errors
    ///
    /// Returns the error of `tcgetattr(3)`.
    pub fn control_characters(&self) -> io::Result<ControlCharacters> {
        let codes = tcgetattr(&self.master)?.special_codes;
        Ok(ControlCharacters {
            erase: codes[SpecialCodeIndex::VERASE],
            kill: codes[SpecialCodeIndex::VKILL],
            interrupt: codes[SpecialCodeIndex::VINTR],
            quit: codes[SpecialCodeIndex::VQUIT],
            suspend: codes[SpecialCodeIndex::VSUSP],
            end_of_file: codes[SpecialCodeIndex::VEOF],
        })
    }

    /// Hangs up, and returns the program, which may take some time to exit.
    #[must_use]
    pub fn hang_up(self) -> Program {
        self.program
    }

    /// Returns the program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }
}

impl AsFd for PtyProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

/// For runtimes that wait for the descriptor.
impl AsRawFd for PtyProgram {
    fn as_raw_fd(&self) -> RawFd {
        self.master.as_raw_fd()
    }
}

fn set_echo(master: &OwnedFd, is_on: bool) -> io::Result<()> {
    let mut modes = tcgetattr(master)?;
    modes.local_modes.set(LocalModes::ECHO, is_on);
    Ok(tcsetattr(master, OptionalActions::Now, &modes)?)
}

fn read(master: &OwnedFd, bytes: &mut [u8]) -> io::Result<Option<usize>> {
    unless_blocked(|| match rustix::io::read(master, &mut *bytes) {
        // On Linux, EIO means that no process holds the terminal end any more.
        Err(Errno::IO) => Ok(0),
        answer => answer,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::wait_until_readable;
    use net::time::Duration;
    use rustix::process::{Pid, test_kill_process};

    pub(crate) const SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };

    fn shell(script: &str) -> PtyProgram {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Pty::open(SIZE).unwrap().start(command).unwrap()
    }

    /// Reads until the output contains `text`, and returns the whole output.
    pub(crate) fn read_until(pty: &PtyProgram, text: &str) -> String {
        let mut screen = String::new();
        let mut bytes = [0; 4096];
        while !screen.contains(text) {
            wait_until_readable(pty);
            match pty.read(&mut bytes).unwrap() {
                Some(0) => panic!("the program hung up, no '{text}' in:\n{screen}"),
                Some(length) => screen.push_str(&String::from_utf8_lossy(&bytes[..length])),
                None => {}
            }
        }
        screen
    }

    #[test]
    fn typed_text_is_echoed_by_the_terminal_and_output_by_the_program() {
        let mut command = Command::new("cat");
        command.env("LC_ALL", "C");
        let pty = Pty::open(SIZE).unwrap().start(command).unwrap();
        assert_eq!(pty.write(b"plumb\n").unwrap(), Some(6));
        read_until(&pty, "plumb\r\nplumb\r\n");
    }

    #[test]
    fn a_terminal_without_echo_outputs_only_what_the_program_writes() {
        let pty = Pty::open(SIZE).unwrap();
        pty.set_echo(false).unwrap();
        let pty = pty.start(Command::new("cat")).unwrap();
        pty.write(b"typed\n").unwrap();
        assert_eq!(read_until(&pty, "typed"), "typed\r\n");
        pty.set_echo(true).unwrap();
        pty.write(b"again\n").unwrap();
        read_until(&pty, "again\r\nagain\r\n");
    }

    #[test]
    fn a_program_has_the_pty_as_its_controlling_terminal() {
        let pty = shell("echo through > /dev/tty; read x");
        read_until(&pty, "through");
    }

    #[test]
    fn a_program_sees_the_size_of_the_window_and_its_change() {
        let pty = shell("trap 'stty size; exit' WINCH; stty size; while :; do read x; done");
        read_until(&pty, "24 80");
        pty.resize(WindowSize { rows: 50, columns: 132 }).unwrap();
        // The shell handles signals after it has read a line.
        pty.write(b"\n").unwrap();
        read_until(&pty, "50 132");
    }

    #[test]
    fn the_end_of_a_program_is_read_as_a_hang_up() {
        let mut pty = shell("exit 3");
        let mut bytes = [0; 64];
        wait_until_readable(&pty);
        while pty.read(&mut bytes).unwrap() != Some(0) {
            wait_until_readable(&pty);
        }
        let status = pty.program().wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn dropping_the_pty_ends_its_program() {
        let mut pty = shell("echo here; read x");
        read_until(&pty, "here");
        let id = Pid::from_raw(pty.program().id().try_into().unwrap()).unwrap();
        drop(pty);
        assert_eq!(test_kill_process(id), Err(Errno::SRCH));
    }

    #[test]
    fn an_interrupt_at_the_terminal_is_reported_in_packet_mode() {
        let pty = Pty::open(SIZE).unwrap();
        pty.set_packet_mode().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "trap : INT; echo; while :; do read x; done"]);
        let pty = pty.start(command).unwrap();
        let mut bytes = [0; 64];
        let mut flags = 0;
        wait_until_readable(&pty);
        assert_eq!(pty.read(&mut bytes).unwrap(), Some(3));
        assert_eq!(&bytes[..3], b"\0\r\n");
        let interrupt = pty.control_characters().unwrap().interrupt;
        assert_eq!(interrupt, 3);
        pty.write(&[interrupt]).unwrap();
        while flags & OUTPUT_FLUSHED == 0 {
            wait_until_readable(&pty);
            pty.read(&mut bytes).unwrap();
            flags = bytes[0];
        }
    }

    #[test]
    fn a_program_ends_after_a_hang_up() {
        let pty = shell("read x");
        let mut program = pty.hang_up();
        assert!(program.wait_for_end(Duration::from_secs(10)).unwrap().is_some());
    }

    #[test]
    fn a_pty_without_data_returns_none() {
        let pty = Pty::open(SIZE).unwrap();
        assert_eq!(pty.read(&mut [0; 8]).unwrap(), None);
    }
}
