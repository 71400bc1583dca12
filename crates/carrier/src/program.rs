//! Runs a session over a program on a pseudo-terminal: the session types into the terminal and reads
//! what the program prints.

use super::byte_device::{ByteDevice, DeviceEnd, run_on_device};
use super::{EngineContext, StreamSession};
use anyhow::{Context, Result};
use net::time::Duration;
use os::pty::{Pty, PtyProgram};
use os::tty::WindowSize;
use std::io;
use std::process::{Command, ExitStatus};

/// Time for which a program that has closed its terminal may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A session whose program has ended, or whose program was hung up at the end of the session.
#[derive(Debug)]
pub struct EndedProgram<S> {
    /// The session.
    pub session: S,
    /// Exit status of a program that ended by itself; `None` if the session ended first, or if the
    /// program only closed its terminal.
    pub exit_status: Option<ExitStatus>,
    /// Whether the program closed its terminal before the session ended.
    pub has_hung_up: bool,
}

impl ByteDevice for PtyProgram {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        Self::read(self, bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        Self::write(self, bytes)
    }

    fn send_break(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts `command` on a new pseudo-terminal with a window of `size`, and runs `session` over it
/// until the session or the program ends. The inner error is the reason why the program could not
/// be started.
///
/// # Errors
///
/// Returns an error if the operating system refuses a pseudo-terminal or another resource.
pub fn run_on_program<S: StreamSession>(
    session: S,
    command: Command,
    size: WindowSize,
    context: &mut EngineContext,
) -> Result<io::Result<EndedProgram<S>>> {
    let pty = Pty::open(size).context("cannot open a pseudo-terminal")?;
    let program = match pty.start(command) {
        Ok(program) => program,
        Err(error) => return Ok(Err(error)),
    };
    let (mut program, mut session, end) = run_on_device(program, session, context)?;
    let has_hung_up = end == DeviceEnd::HungUp;
    let exit_status = match has_hung_up {
        true => {
            session.peer_closed(&mut context.cx());
            program.program().wait_for_end(EXIT_TIMEOUT)?
        }
        false => None,
    };
    Ok(Ok(EndedProgram { session, exit_status, has_hung_up }))
}
