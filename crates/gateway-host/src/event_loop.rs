//! The event loop: the guests' devices, the host's sockets, and the timers.
//!
//! # A turn
//!
//! 1. Wait for a device, a socket or a timer.
//! 2. Record the readiness of devices and sockets.
//! 3. Run the guests that have an event, a timer that is due, or work left from the last turn: read a
//!    bounded number of packets from their devices, copy data between their flows and sockets, and
//!    write their output to their devices. A flow that could copy more continues in the next turn.
//!    Other guests cost nothing.
//! 4. Write the packets that the rate shared by all guests permits, in rounds of the guests.
//! 5. Close some sockets of connections that are to be reset.
//!
//! A guest whose device fails is removed with its flows, and reported by [`Turn::Lost`].

use crate::capture_file::{CaptureFile, CaptureFormat, CaptureLink, CaptureStatus};
use crate::forwards::{Forward, ForwardId, ForwardTable};
use crate::guest_device::GuestDevice;
use crate::poll::{Poll, Source};
use crate::port::{AddForwardError, GuestSettings, Port};
use crate::read_buffers::ReadBuffers;
use crate::reset_queue::ResetQueue;
use crate::socket_errors::lacks_descriptor;
use gateway::{Guest, SharedRate};
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::Duration;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::datagram::Inbox;
use rustix::event::epoll::EventFlags;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsFd;

/// Number of descriptors to ask for.
const DESCRIPTORS: u64 = 65_536;
/// Time for which no connections are accepted after an accept has failed, for example because no
/// descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between two reports that no descriptor was free.
const DESCRIPTOR_NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// The gateway: its guests, and the loop that drives them.
#[derive(Debug)]
pub struct EventLoop {
    poll: Poll,
    /// The guests by their number; `None` for a guest that is gone.
    ports: Vec<Option<Box<Port>>>,
    /// The guests to run in this turn.
    active: Vec<usize>,
    /// The guests by their deadlines.
    deadlines: BTreeSet<(Instant, usize)>,
    /// The rate of the packets to all guests, if it is limited.
    shared_rate: Option<SharedRate>,
    /// The guests whose devices have failed, and are not reported yet.
    lost: VecDeque<(usize, io::Error)>,
    /// Notices that are not reported yet. A guest causes only a few.
    notices: VecDeque<Notice>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
    inbox: Inbox,
    buffers: ReadBuffers,
    /// The sockets of connections that are to be reset.
    resets: ResetQueue,
    /// Time at which listeners are served again after an accept has failed.
    accept_again_at: Option<Instant>,
    /// Time from which on the limit of descriptors may be reported again.
    descriptor_notice_at: Option<Instant>,
}

/// The outcome of a turn.
#[derive(Debug)]
pub enum Turn {
    /// Call the next turn.
    Continue,
    /// The descriptor of the program that was registered with this number is ready.
    Ready(usize),
    /// The device of this guest no longer works.
    Lost(usize, io::Error),
    /// The user has to correct a condition. The gateway goes on.
    Notice(Notice),
}

/// A condition that the user has to correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Datagrams of a guest at a serial line were dropped, because their source is not its address.
    WrongSource {
        /// The guest.
        guest: usize,
        /// The source.
        source: IpAddr,
    },
    /// Packets of a guest at a serial line were dropped, because they are longer than the MTU of the
    /// line. This is reported once.
    AboveMtu {
        /// The guest.
        guest: usize,
    },
    /// Connections were refused or wait because no descriptor is free. This is reported once per
    /// minute at most.
    NoDescriptor {
        /// The limit of descriptors of this process; `None` if it has none.
        limit: Option<u64>,
    },
}

impl EventLoop {
    /// Creates a gateway without guests.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_create1(2)` or `getrandom(2)`.
    pub fn new() -> io::Result<Self> {
        // Each flow has a descriptor. With fewer, further flows fail one by one.
        _ = os::process::allow_descriptors(DESCRIPTORS);
        Ok(Self {
            poll: Poll::new()?,
            ports: Vec::new(),
            active: Vec::new(),
            deadlines: BTreeSet::new(),
            shared_rate: None,
            lost: VecDeque::new(),
            notices: VecDeque::new(),
            clock: Monotonic::start(),
            rng: Rng::from_seed(os::entropy::seed()?),
            meter: Meter::new(Clock::None),
            inbox: Inbox::default(),
            buffers: ReadBuffers::new(),
            resets: ResetQueue::default(),
            accept_again_at: None,
            descriptor_notice_at: None,
        })
    }

    /// Adds a guest on a device, and returns its number.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)` or of making the device non-blocking.
    pub fn add_guest(&mut self, settings: GuestSettings, device: GuestDevice) -> io::Result<usize> {
        let number = self.ports.len();
        device.register(number, &self.poll)?;
        let mut cx = Cx { now: self.clock.now(), rng: &mut self.rng, meter: &mut self.meter };
        let total_bps = self.shared_rate.as_ref().map(SharedRate::bits_per_s);
        let port = Port::new(number, settings, device, total_bps, &mut cx);
        self.ports.push(Some(Box::new(port)));
        self.activate(number);
        Ok(number)
    }

    /// Limits the packets to all guests that are added later to `bits_per_s`, except those at serial
    /// lines. The guests share this rate equally.
    pub fn limit_total_rate(&mut self, bits_per_s: u64) {
        self.shared_rate = Some(SharedRate::new(bits_per_s));
    }

    /// Removes a guest. The next turns reset its connections, as does the end of the event loop; its
    /// other sockets are closed.
    pub fn remove_guest(&mut self, number: usize) {
        let Some(mut port) = self.ports.get_mut(number).and_then(Option::take) else { return };
        port.reset_flows();
        self.resets.append(port.resets());
        if let Some(planned) = port.planned {
            self.deadlines.remove(&(planned, number));
        }
        if let Some(shared_rate) = &mut self.shared_rate {
            shared_rate.remove(number);
        }
    }

    /// Returns whether a guest remains.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        self.ports.iter().any(Option::is_some)
    }

    /// Reports the readiness of a descriptor of the program by [`Turn::Ready`] with `number`.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub fn watch(&self, descriptor: impl AsFd, number: usize) -> io::Result<()> {
        self.poll.add(descriptor, Source::Other(number), EventFlags::IN)
    }

    /// Reports the readiness of a watched descriptor for writing instead of for reading, or again for
    /// reading.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub(crate) fn watch_output(
        &self,
        descriptor: impl AsFd,
        number: usize,
        is_output: bool,
    ) -> io::Result<()> {
        self.poll.watch_output(descriptor, Source::Other(number), is_output)
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    fn port(&self, number: usize) -> Option<&Port> {
        self.ports.get(number)?.as_deref()
    }

    fn port_mut(&mut self, number: usize) -> Option<&mut Port> {
        self.ports.get_mut(number)?.as_deref_mut()
    }

    /// Adds a guest to those that run in this turn.
    fn activate(&mut self, number: usize) {
        if let Some(port) = self.port_mut(number)
            && !std::mem::replace(&mut port.is_active, true)
        {
            self.active.push(number);
        }
    }

    /// Returns a guest.
    #[must_use]
    pub fn guest(&self, number: usize) -> Option<&Guest> {
        self.port(number).map(|port| &port.guest)
    }

    /// Returns the port forwards of a guest.
    pub fn forwards(&self, guest: usize) -> impl Iterator<Item = (ForwardId, &Forward)> {
        self.port(guest).into_iter().flat_map(|port| port.forwards.iter())
    }

    /// Adds a port forward to a guest.
    ///
    /// # Errors
    ///
    /// See [`AddForwardError`].
    pub fn add_forward(
        &mut self,
        guest: usize,
        forward: Forward,
    ) -> Result<ForwardId, AddForwardError> {
        let port = self.ports.get_mut(guest).and_then(Option::as_mut);
        let port = port.ok_or(AddForwardError::NoGuest)?;
        port.add_forward(forward, &self.poll)
    }

    /// Removes a port forward of a guest. Its open connections remain. Returns whether it existed.
    pub fn remove_forward(&mut self, guest: usize, id: ForwardId) -> bool {
        self.port_mut(guest).is_some_and(|port| port.remove_forward(id))
    }

    /// Takes the table of port forwards of a guest, so that a caller changes it together with the
    /// sockets by [`Self::open_forward`] and [`Self::close_forward`], and returns it by
    /// [`Self::put_forwards`].
    pub fn take_forwards(&mut self, guest: usize) -> Option<ForwardTable> {
        self.port_mut(guest).map(|port| std::mem::take(&mut port.forwards))
    }

    /// Returns a table of [`Self::take_forwards`].
    pub fn put_forwards(&mut self, guest: usize, forwards: ForwardTable) {
        if let Some(port) = self.port_mut(guest) {
            port.forwards = forwards;
        }
    }

    /// Opens the sockets of a port forward.
    ///
    /// # Errors
    ///
    /// Returns the error of the first socket that could not be opened.
    pub fn open_forward(
        &mut self,
        guest: usize,
        id: ForwardId,
        forward: &Forward,
    ) -> io::Result<()> {
        let port = self.ports.get_mut(guest).and_then(Option::as_mut);
        let port = port.ok_or(io::ErrorKind::NotFound)?;
        port.open_forward((id, forward), &self.poll)
    }

    /// Closes the sockets of a port forward. Its open connections remain.
    pub fn close_forward(&mut self, guest: usize, id: ForwardId) {
        if let Some(port) = self.port_mut(guest) {
            port.close_forward(id);
        }
    }

    /// Leaves TCP connections from loopback addresses of the host to forwarded ports to the program.
    pub(crate) fn divert_loopback(&mut self, guest: usize) {
        if let Some(port) = self.port_mut(guest) {
            port.forward_sockets.is_diverting = true;
        }
    }

    /// Returns the connections that are left to the program, each with the port of the guest.
    pub(crate) fn take_diverted(&mut self, guest: usize) -> Vec<(TcpStream, u16)> {
        let port = self.port_mut(guest);
        port.map(|port| port.forward_sockets.take_diverted()).unwrap_or_default()
    }

    /// Starts to write the packets of a guest to `file`.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` for a guest without packets, `AlreadyExists` while the packets are
    /// being written to another file, and the error of the write of the header.
    pub(crate) fn start_capture(
        &mut self,
        guest: usize,
        (file, format): (File, CaptureFormat),
        limit_bytes: u64,
    ) -> io::Result<()> {
        let port = self.ports.get_mut(guest).and_then(Option::as_mut);
        let port = port.ok_or(io::ErrorKind::NotFound)?;
        if port.capture.as_ref().is_some_and(|capture| !capture.has_ended()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let has_frames = port.guest.segment().is_some();
        let link = if has_frames { CaptureLink::Ethernet } else { CaptureLink::Datagrams };
        let file = CaptureFile::begin(file, format, link, limit_bytes, self.clock.now())?;
        if port.start_capture(file) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Completes the file of the packets of a guest, if there is one.
    pub(crate) fn stop_capture(&mut self, guest: usize) -> Option<CaptureStatus> {
        let now = self.clock.now();
        self.port_mut(guest)?.stop_capture(now)
    }

    /// Waits for input and processes it, at most until `until`.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_wait(2)`.
    pub fn turn(&mut self, until: Option<Instant>) -> io::Result<Turn> {
        if let Some((number, error)) = self.lost.pop_front() {
            return Ok(Turn::Lost(number, error));
        }
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Turn::Notice(notice));
        }
        let waited = self.wait(until)?;
        let now = self.clock.now();
        if self.accept_again_at.take_if(|at| *at <= now).is_some() {
            let ports = self.ports.iter().flatten();
            ports.for_each(|port| port.accept_connections(true, &self.poll));
        }
        let outcome = self.process_events(now);
        while let Some(&(at, number)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(port) = self.port_mut(number) {
                port.planned = None;
            }
            self.activate(number);
        }
        self.run_active(waited, now);
        self.transmit_shared(now);
        self.resets.close_some();
        Ok(outcome)
    }

    /// Passes the events of the last wait to the guests, and activates these.
    fn process_events(&mut self, now: Instant) -> Turn {
        let mut outcome = Turn::Continue;
        let mut number = 0;
        while let Some((source, flags)) = self.poll.event(number) {
            number += 1;
            let guest = match source {
                Source::Other(other) => {
                    outcome = Turn::Ready(other);
                    continue;
                }
                Source::Timer => continue,
                Source::Device(guest)
                | Source::Tcp(guest, _)
                | Source::Udp(guest, _)
                | Source::Echo(guest, _)
                | Source::Dns(guest, _)
                | Source::Forward(guest, _) => guest,
            };
            self.activate(guest);
            let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
            let port = self.ports.get_mut(guest).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            let shared = (&mut self.inbox, &self.poll);
            if let Err(error) = port.process(source, flags, shared, &mut cx) {
                self.accept_again_at = Some(now + ACCEPT_PAUSE);
                port.accept_connections(false, &self.poll);
                if lacks_descriptor(&error) {
                    self.report_descriptor_limit(now);
                }
            }
        }
        outcome
    }

    /// Runs the active guests once, and plans their next run.
    fn run_active(&mut self, waited: bool, now: Instant) {
        for number in std::mem::take(&mut self.active) {
            let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
            let Some(port) = self.ports.get_mut(number).and_then(Option::as_mut) else { continue };
            port.is_active = false;
            let result = port.run(waited, &self.poll, &mut self.buffers, &mut cx);
            self.resets.append(port.resets());
            let has_more = port.has_more();
            while let Some(source) = port.guest.wrong_source() {
                self.notices.push_back(Notice::WrongSource { guest: number, source });
            }
            if port.guest.reports_packets_above_mtu() {
                self.notices.push_back(Notice::AboveMtu { guest: number });
            }
            if let Some(rate) = &mut self.shared_rate
                && port.waits_for_share(now)
            {
                rate.add(number);
            }
            if port.take_lack_of_descriptors() {
                self.report_descriptor_limit(now);
            }
            match result {
                Ok(()) => self.plan(number),
                Err(error) => self.lose(number, error),
            }
            if has_more {
                self.activate(number);
            }
        }
    }

    /// Reports that no descriptor was free, unless this was reported a short time ago.
    fn report_descriptor_limit(&mut self, now: Instant) {
        if self.descriptor_notice_at.is_none_or(|at| at <= now) {
            self.descriptor_notice_at = Some(now + DESCRIPTOR_NOTICE_INTERVAL);
            let limit = os::process::descriptors_max();
            self.notices.push_back(Notice::NoDescriptor { limit });
        }
    }

    /// Writes packets of the guests in rounds, as far as the shared rate permits.
    fn transmit_shared(&mut self, now: Instant) {
        while let Some(number) = self.shared_rate.as_mut().and_then(|rate| rate.next(now)) {
            let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
            let port = self.ports.get_mut(number).and_then(Option::as_mut);
            let sent = port.map_or(Ok(None), |port| port.write_one(&self.poll, &mut cx));
            let Some(rate) = &mut self.shared_rate else { return };
            match sent {
                Ok(Some(len)) => rate.has_sent(number, len, now),
                Ok(None) => rate.withdraw(number),
                Err(error) => self.lose(number, error),
            }
            self.plan(number);
        }
    }

    /// Removes a guest whose device has failed.
    fn lose(&mut self, number: usize, error: io::Error) {
        self.remove_guest(number);
        self.lost.push_back((number, error));
    }

    /// Sets the time at which a guest runs again without an event.
    fn plan(&mut self, number: usize) {
        let Some(port) = self.ports.get_mut(number).and_then(Option::as_mut) else { return };
        let deadline = port.deadline();
        let planned = std::mem::replace(&mut port.planned, deadline);
        if planned == deadline {
            return;
        }
        if let Some(planned) = planned {
            self.deadlines.remove(&(planned, number));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, number)));
    }

    /// Waits for an event. Returns whether the loop had to sleep.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let now = self.clock.now();
        if !self.active.is_empty() || !self.resets.is_empty() {
            self.poll.wait(now, Some(now))?;
            return Ok(false);
        }
        let guests = self.deadlines.first().map(|(at, _)| *at);
        let shared = self.shared_rate.as_ref().and_then(SharedRate::deadline);
        let deadlines = [guests, shared, until, self.accept_again_at];
        self.poll.wait(now, deadlines.into_iter().flatten().min())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_reported_once_per_minute() {
        let mut event_loop = EventLoop::new().unwrap();
        let reports = [0, 1, 59, 60, 61, 119, 120].map(|seconds| {
            event_loop.report_descriptor_limit(Instant::ZERO + Duration::from_secs(seconds));
            event_loop.notices.drain(..).count()
        });
        assert_eq!(reports, [1, 0, 0, 1, 0, 0, 1]);
    }
}
