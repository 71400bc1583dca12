//! A session over a serial line itself: what is typed goes out, what comes is shown. There is no
//! network below, and no address.

use super::{Bench, Call, CarrierStatus, Outcome, Session};
use anyhow::{Context, Result, bail};
use os::readiness::{self, PollFd, PollFlags};
use os::serial::{LineSettings, Serial};
use protocols::meter::{Account, Counter, Work};
use protocols::time::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

/// What one read takes: more than a line brings in a turn.
const READ_LEN: usize = 4096;

/// How long a line must be quiet before a session is over that has nothing more to send: a line has
/// no end that could be waited for.
const QUIET: Duration = Duration::from_secs(1);

/// Carries `session` over the line at `device`, until it is over.
///
/// # Errors
///
/// If there is no such line, if it cannot be as the settings say, and if it is unplugged.
pub(crate) fn run_on_line<S: Session>(
    session: S,
    device: &Path,
    settings: LineSettings,
    bench: &mut Bench,
) -> Result<Call<S>> {
    let serial = Serial::open_with(device, settings)?;
    let buffer = vec![0; READ_LEN];
    let mut driver = Driver { serial, session, bench, buffer, quiet_until: None };
    // A line has no address.
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    driver.session.reached(address);
    driver.session.opened(&mut driver.bench.cx());
    driver.run().with_context(|| format!("the line {} is gone", device.display()))?;
    Ok(Call { session: driver.session, outcome: Outcome::Left, address })
}

struct Driver<'a, S> {
    serial: Serial,
    session: S,
    bench: &'a mut Bench,
    buffer: Vec<u8>,
    /// When it is over, if nothing more comes.
    quiet_until: Option<Instant>,
}

impl<S: Session> Driver<'_, S> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.session.run(&mut self.bench.cx());
            self.write()?;
            self.session.has_gone_out(&mut self.bench.cx());
            self.session.flush(&mut self.bench.cx())?;
            if self.session.takes_break() {
                self.serial.send_break().context("the line takes no break")?;
            }
            if self.session.wants_status() {
                self.session.take_status(&CarrierStatus::None);
                self.session.flush(&mut self.bench.cx())?;
            }
            if self.session.is_over() || self.is_quiet() {
                return Ok(());
            }
            if !self.session.wants_to_run() {
                self.wait()?;
            }
        }
    }

    /// Returns whether nothing more goes out, and nothing has come for long enough.
    fn is_quiet(&mut self) -> bool {
        let is_busy = !self.session.output().is_empty() || self.session.is_display_full();
        if !self.session.is_closing() || is_busy {
            return false;
        }
        let now = self.bench.clock.now();
        now >= *self.quiet_until.get_or_insert(now + QUIET)
    }

    /// Writes what the line has room for.
    fn write(&mut self) -> Result<()> {
        while !self.session.output().is_empty() {
            let left = self.bench.meter.enter(Account::Interrupt);
            let written = self.serial.write(self.session.output());
            self.bench.meter.enter(left);
            let Some(count) = written.context("it does not take what we send")? else { break };
            self.bench.meter.work(Work::LineByte, count);
            self.session.sent(count);
        }
        Ok(())
    }

    /// Waits for the line, the near side and the session's deadline, and takes what is there.
    fn wait(&mut self) -> Result<()> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.session.wants_data());
        wanted.set(PollFlags::OUT, !self.session.output().is_empty());
        let display = self.session.display().filter(|_| self.session.is_display_full());
        let display = display.map(|display| PollFd::from_borrowed_fd(display, PollFlags::OUT));
        let near = self.session.inputs().into_iter().enumerate();
        let near: Vec<_> = near.filter(|(index, _)| self.session.wants_input(*index)).collect();
        let inputs = near.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
        let line = PollFd::from_borrowed_fd(self.serial.as_fd(), wanted);
        // The session writes to its display at each turn: that it has room only ends the wait.
        let mut descriptors: Vec<_> = std::iter::once(line).chain(inputs).chain(display).collect();
        let until = self.session.deadline().into_iter().chain(self.quiet_until).min();
        let left = self.bench.meter.enter(Account::Outside);
        let waited = readiness::wait(&mut descriptors, &self.bench.clock, until);
        self.bench.meter.enter(left);
        self.bench.meter.count(Counter::Wakeups);
        waited?;
        let mut is_ready = descriptors.iter().map(|fd| !fd.revents().is_empty());
        let is_line_ready = is_ready.next().unwrap_or(false);
        let ready = near.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready);
        let ready: Vec<_> = ready.map(|((index, _), _)| *index).collect();
        if is_line_ready {
            self.read()?;
        }
        for index in ready {
            self.session.take_input(index, &mut self.bench.cx())?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let left = self.bench.meter.enter(Account::Interrupt);
        let read = self.serial.read(&mut self.buffer);
        self.bench.meter.enter(left);
        match read.context("it cannot be read any more")? {
            None => Ok(()),
            Some(0) => bail!("it has hung up: is the device still plugged in?"),
            Some(count) => {
                self.bench.meter.work(Work::LineByte, count);
                self.quiet_until = None;
                let data = self.buffer.get(..count).unwrap_or_default();
                self.session.receive(data, &mut self.bench.cx());
                Ok(())
            }
        }
    }
}
