//! Drives a session over a device that carries its bytes unchanged: a serial line, or a program on a
//! pseudo-terminal. The device has no addresses and no counters of a network.

use super::session_poller::SessionPoller;
use super::stream_session::end_session;
use super::{CarrierStatus, EngineContext, Outcome, StreamSession};
use anyhow::{Context, Result};
use net::meter::{Account, Counter, Work};
use net::time::{Duration, Instant};
use os::readiness::PollFlags;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

/// Size of one read, in bytes: more than a line delivers between two reads.
const READ_LEN: usize = 4096;

/// Time without received data after which a session with nothing more to send ends. A serial line
/// reports no end of file.
const QUIET_TIMEOUT: Duration = Duration::from_secs(1);

/// Address of a device, which has none.
pub(super) const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A device that carries the bytes of one session.
pub(super) trait ByteDevice: AsFd {
    /// Reads received bytes. Returns 0 after a hang-up, or `None` if no bytes are waiting.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes bytes. Returns the number of accepted bytes, or `None` if the buffer is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// Sends a break condition.
    fn send_break(&mut self) -> io::Result<()>;
}

/// Reason why the driver has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceEnd {
    /// The session is over.
    SessionOver,
    /// The device hung up.
    HungUp,
}

/// Runs `session` over `device` until either ends. Returns the device too.
///
/// # Errors
///
/// Returns an error if the device cannot be read, written or watched.
pub(super) fn run_on_device<D: ByteDevice, S: StreamSession>(
    device: D,
    session: S,
    context: &mut EngineContext,
) -> Result<(D, S, DeviceEnd)> {
    let buffer = vec![0; READ_LEN];
    let poller = SessionPoller::for_device(device.as_fd(), &session)?;
    let mut driver = Driver { device, session, context, buffer, poller, quiet_until: None };
    driver.session.set_remote_address(NO_ADDRESS);
    driver.session.opened(&mut driver.context.cx());
    let end = driver.run();
    let outcome = matches!(end, Ok(DeviceEnd::SessionOver)).then_some(Outcome::LocalClosed);
    end_session(&mut driver.session, outcome, driver.context);
    Ok((driver.device, driver.session, end?))
}

struct Driver<'a, D, S> {
    device: D,
    session: S,
    context: &'a mut EngineContext,
    buffer: Vec<u8>,
    poller: SessionPoller,
    /// Time at which the session ends if no more data arrives.
    quiet_until: Option<Instant>,
}

impl<D: ByteDevice, S: StreamSession> Driver<'_, D, S> {
    fn run(&mut self) -> Result<DeviceEnd> {
        loop {
            self.session.run(&mut self.context.cx());
            self.write()?;
            self.session.output_written(&mut self.context.cx());
            self.session.flush(&mut self.context.cx())?;
            if self.session.take_break_request() {
                self.device.send_break().context("cannot send a break")?;
            }
            if self.session.wants_status() {
                self.session.take_status(&CarrierStatus::None);
                self.session.flush(&mut self.context.cx())?;
            }
            if self.session.is_over() || self.is_quiet() {
                return Ok(DeviceEnd::SessionOver);
            }
            if !self.session.wants_to_run() && self.wait()? == Some(DeviceEnd::HungUp) {
                return Ok(DeviceEnd::HungUp);
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
            let write_result = self.device.write(self.session.output());
            self.context.meter.enter(previous_account);
            let Some(count) = write_result.context("cannot write to the device")? else { break };
            self.context.meter.work(Work::LineByte, count);
            self.session.sent(count);
        }
        Ok(())
    }

    /// Waits for the line, the local inputs and the session's deadline, then reads what is ready.
    fn wait(&mut self) -> Result<Option<DeviceEnd>> {
        let mut line_events = PollFlags::empty();
        line_events.set(PollFlags::IN, self.session.wants_data());
        line_events.set(PollFlags::OUT, !self.session.output().is_empty());
        self.poller.set_device_events(self.device.as_fd(), line_events)?;
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
            let hung_up = self.read()?;
            if hung_up.is_some() {
                return Ok(hung_up);
            }
        }
        for index in 0..self.poller.inputs() {
            if self.poller.is_input_ready(index, &self.session) {
                self.session.take_input(index, &mut self.context.cx())?;
                self.poller.input_taken(index, &self.session);
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<DeviceEnd>> {
        let previous_account = self.context.meter.enter(Account::Interrupt);
        let read_result = self.device.read(&mut self.buffer);
        self.context.meter.enter(previous_account);
        match read_result.context("cannot read from the device")? {
            None => Ok(None),
            Some(0) => Ok(Some(DeviceEnd::HungUp)),
            Some(count) => {
                self.context.meter.work(Work::LineByte, count);
                self.quiet_until = None;
                let data = self.buffer.get(..count).unwrap_or_default();
                self.session.receive(data, &mut self.context.cx());
                Ok(None)
            }
        }
    }
}
