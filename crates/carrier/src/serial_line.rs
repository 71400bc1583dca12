//! Runs a session directly over a serial line: input is sent as it is typed, received bytes are
//! displayed. The line has no network layer and no addresses.

use super::session_poller::SessionPoller;
use super::{CarrierStatus, EndedSession, EngineContext, Outcome, StreamSession};
use anyhow::{Context, Result, bail};
use net::meter::{Account, Counter, Work};
use net::time::{Duration, Instant};
use os::readiness::PollFlags;
use os::serial::{LineSettings, Serial};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

/// Size of one read, in bytes: more than a line delivers between two reads.
const READ_LEN: usize = 4096;

/// Time without received data after which a session with nothing more to send ends. A serial line
/// reports no end of file.
const QUIET_TIMEOUT: Duration = Duration::from_secs(1);

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
    let buffer = vec![0; READ_LEN];
    let poller = SessionPoller::for_device(serial.as_fd(), &session)?;
    let mut driver = Driver { serial, session, context, buffer, poller, quiet_until: None };
    // A line has no address.
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    driver.session.set_remote_address(address);
    driver.session.opened(&mut driver.context.cx());
    driver.run().with_context(|| format!("lost the serial line {}", device.display()))?;
    Ok(EndedSession { session: driver.session, outcome: Outcome::LocalClosed, address })
}

struct Driver<'a, S> {
    serial: Serial,
    session: S,
    context: &'a mut EngineContext,
    buffer: Vec<u8>,
    poller: SessionPoller,
    /// Time at which the session ends if no more data arrives.
    quiet_until: Option<Instant>,
}

impl<S: StreamSession> Driver<'_, S> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.session.run(&mut self.context.cx());
            self.write()?;
            self.session.output_written(&mut self.context.cx());
            self.session.flush(&mut self.context.cx())?;
            if self.session.take_break_request() {
                self.serial.send_break().context("cannot send a break")?;
            }
            if self.session.wants_status() {
                self.session.take_status(&CarrierStatus::None);
                self.session.flush(&mut self.context.cx())?;
            }
            if self.session.is_over() || self.is_quiet() {
                return Ok(());
            }
            if !self.session.wants_to_run() {
                self.wait()?;
            }
        }
    }

    /// Returns whether nothing remains to be sent and nothing was received for [`QUIET_TIMEOUT`].
    fn is_quiet(&mut self) -> bool {
        let is_busy = !self.session.output().is_empty() || self.session.is_display_full();
        if !self.session.is_closing() || is_busy {
            return false;
        }
        let now = self.context.clock.now();
        now >= *self.quiet_until.get_or_insert(now + QUIET_TIMEOUT)
    }

    /// Writes as much of the session's output as the line accepts.
    fn write(&mut self) -> Result<()> {
        while !self.session.output().is_empty() {
            let previous_account = self.context.meter.enter(Account::Interrupt);
            let write_result = self.serial.write(self.session.output());
            self.context.meter.enter(previous_account);
            let Some(count) = write_result.context("cannot write to the device")? else { break };
            self.context.meter.work(Work::LineByte, count);
            self.session.sent(count);
        }
        Ok(())
    }

    /// Waits for the line, the local inputs and the session's deadline, then reads what is ready.
    fn wait(&mut self) -> Result<()> {
        let mut line_events = PollFlags::empty();
        line_events.set(PollFlags::IN, self.session.wants_data());
        line_events.set(PollFlags::OUT, !self.session.output().is_empty());
        self.poller.set_device_events(self.serial.as_fd(), line_events)?;
        // The loop calls the session after each wait, and the session then writes to its display. A
        // writable display therefore only needs to end the wait.
        self.poller.watch_display(&self.session)?;
        let until = self.session.deadline().into_iter().chain(self.quiet_until).min();
        let previous_account = self.context.meter.enter(Account::Outside);
        let clock = &self.context.clock;
        let wait_result = self.poller.wait_for_device(clock, until, &self.session, true);
        self.context.meter.enter(previous_account);
        self.context.meter.count(Counter::Wakeups);
        wait_result?;
        // Data that the display does not accept stays in the line, even if the line accepts output.
        if self.poller.ready().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.read()?;
        }
        for index in 0..self.poller.inputs() {
            if self.poller.is_input_ready(index, &self.session) {
                self.session.take_input(index, &mut self.context.cx())?;
                self.poller.input_taken(index, &self.session);
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let previous_account = self.context.meter.enter(Account::Interrupt);
        let read_result = self.serial.read(&mut self.buffer);
        self.context.meter.enter(previous_account);
        match read_result.context("cannot read from the device")? {
            None => Ok(()),
            Some(0) => bail!("the device hung up: check that it is still plugged in"),
            Some(count) => {
                self.context.meter.work(Work::LineByte, count);
                self.quiet_until = None;
                let data = self.buffer.get(..count).unwrap_or_default();
                self.session.receive(data, &mut self.context.cx());
                Ok(())
            }
        }
    }
}
