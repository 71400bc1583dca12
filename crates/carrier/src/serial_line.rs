//! Runs a session directly over a serial line: input is sent as it is typed, received bytes are
//! displayed. The line has no network layer and no addresses.

use super::byte_device::{ByteDevice, DeviceEnd, NO_ADDRESS, run_on_device};
use super::{EndedSession, EngineContext, Outcome, StreamSession};
use anyhow::{Context, Result, anyhow};
use os::serial::{LineSettings, Serial};
use std::io;
use std::path::Path;

impl ByteDevice for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        Self::read(self, bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        Self::write(self, bytes)
    }

    fn send_break(&mut self) -> io::Result<()> {
        Self::send_break(self)
    }
}

/// Runs `session` over the line at `device` until the session ends.
///
/// # Errors
///
/// Returns an error if the line does not exist, does not support the settings or is unplugged.
pub fn run_on_serial_line<S: StreamSession>(
    session: S,
    device: &Path,
    settings: LineSettings,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    let serial = Serial::open_with(device, settings)?;
    let lost = || format!("lost the serial line {}", device.display());
    let (_, session, end) = run_on_device(serial, session, context).with_context(lost)?;
    if end == DeviceEnd::HungUp {
        return Err(
            anyhow!("the device hung up: check that it is still plugged in").context(lost())
        );
    }
    Ok(EndedSession {
        session,
        outcome: Outcome::LocalClosed,
        address: NO_ADDRESS,
        connect_time: None,
    })
}
