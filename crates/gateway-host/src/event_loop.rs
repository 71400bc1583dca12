//! The event loop: the guests' devices, the host's sockets, and the timers.
//!
//! # A turn
//!
//! 1. Wait for a device, a socket or a timer.
//! 2. Read at most [`BATCH`] packets from each ready device, and record the readiness of sockets.
//! 3. Run the guests whose state has changed, and copy data between their flows and sockets. A flow
//!    that could copy more continues in the next turn.
//! 4. Write the output of the guests to their devices.

use crate::capture_file::{CaptureFile, CaptureFormat, CaptureLink, CaptureStatus};
use crate::forwards::{Forward, ForwardId, ForwardTable};
use crate::guest_device::GuestDevice;
use crate::poll::{Poll, Source};
use crate::port::{AddForwardError, GuestSettings, Port};
use gateway::Guest;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::Duration;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::datagram::Inbox;
use rustix::event::epoll::EventFlags;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Size of the buffer between a socket and a flow, in bytes.
const BUFFER_LEN: usize = 1 << 18;
/// Number of descriptors to ask for.
const DESCRIPTORS: u64 = 65_536;
/// Time for which no connections are accepted after an accept has failed, for example because no
/// descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The gateway: its guests, and the loop that drives them.
#[derive(Debug)]
pub struct EventLoop {
    poll: Poll,
    ports: Vec<Port>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
    inbox: Inbox,
    buffer: Vec<u8>,
    /// Time at which listeners are served again after an accept has failed.
    accept_again_at: Option<Instant>,
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
            clock: Monotonic::start(),
            rng: Rng::from_seed(os::entropy::seed()?),
            meter: Meter::new(Clock::None),
            inbox: Inbox::default(),
            buffer: vec![0; BUFFER_LEN],
            accept_again_at: None,
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
        self.ports.push(Port::new(number, settings, device, &mut cx));
        Ok(number)
    }

    /// Reports the readiness of a descriptor of the program by [`Turn::Ready`] with `number`.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub fn watch(&self, descriptor: impl AsFd, number: usize) -> io::Result<()> {
        self.poll.add(descriptor, Source::Other(number), EventFlags::IN)
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns a guest.
    #[must_use]
    pub fn guest(&self, number: usize) -> Option<&Guest> {
        self.ports.get(number).map(|port| &port.guest)
    }

    /// Returns the port forwards of a guest.
    pub fn forwards(&self, guest: usize) -> impl Iterator<Item = (ForwardId, &Forward)> {
        self.ports.get(guest).into_iter().flat_map(|port| port.forwards.iter())
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
        let port = self.ports.get_mut(guest).ok_or(AddForwardError::NoGuest)?;
        port.add_forward(forward, &self.poll)
    }

    /// Removes a port forward of a guest. Its open connections remain. Returns whether it existed.
    pub fn remove_forward(&mut self, guest: usize, id: ForwardId) -> bool {
        self.ports.get_mut(guest).is_some_and(|port| port.remove_forward(id))
    }

    /// Takes the table of port forwards of a guest, so that a caller changes it together with the
    /// sockets by [`Self::open_forward`] and [`Self::close_forward`], and returns it by
    /// [`Self::put_forwards`].
    pub fn take_forwards(&mut self, guest: usize) -> Option<ForwardTable> {
        self.ports.get_mut(guest).map(|port| std::mem::take(&mut port.forwards))
    }

    /// Returns a table of [`Self::take_forwards`].
    pub fn put_forwards(&mut self, guest: usize, forwards: ForwardTable) {
        if let Some(port) = self.ports.get_mut(guest) {
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
        let port = self.ports.get_mut(guest).ok_or(io::ErrorKind::NotFound)?;
        port.open_forward((id, forward), &self.poll)
    }

    /// Closes the sockets of a port forward. Its open connections remain.
    pub fn close_forward(&mut self, guest: usize, id: ForwardId) {
        if let Some(port) = self.ports.get_mut(guest) {
            port.close_forward(id);
        }
    }

    /// Leaves TCP connections from loopback addresses of the host to forwarded ports to the program.
    pub(crate) fn divert_loopback(&mut self, guest: usize) {
        if let Some(port) = self.ports.get_mut(guest) {
            port.forward_sockets.is_diverting = true;
        }
    }

    /// Returns the connections that are left to the program, each with the port of the guest.
    pub(crate) fn take_diverted(&mut self, guest: usize) -> Vec<(TcpStream, u16)> {
        let port = self.ports.get_mut(guest);
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
        let port = self.ports.get_mut(guest).ok_or(io::ErrorKind::NotFound)?;
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
        self.ports.get_mut(guest)?.stop_capture(self.clock.now())
    }

    /// Waits for input and processes it, at most until `until`.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_wait(2)`.
    pub fn turn(&mut self, until: Option<Instant>) -> io::Result<Turn> {
        let waited = self.wait(until)?;
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        if self.accept_again_at.take_if(|at| *at <= now).is_some() {
            self.ports.iter().for_each(|port| port.accept_connections(true, &self.poll));
        }
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
            let Some(port) = self.ports.get_mut(guest) else { continue };
            let shared = (&mut self.inbox, &self.poll);
            if port.process(source, flags, shared, &mut cx).is_err() {
                self.accept_again_at = Some(now + ACCEPT_PAUSE);
                port.accept_connections(false, &self.poll);
            }
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            if let Err(error) = port.run(waited, &self.poll, &mut self.buffer, &mut cx) {
                outcome = Turn::Lost(number, error);
            }
        }
        Ok(outcome)
    }

    /// Waits for an event. Returns whether the loop had to sleep.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let now = self.clock.now();
        if self.ports.iter().any(Port::has_more) {
            self.poll.wait(now, Some(now))?;
            return Ok(false);
        }
        let deadlines = self.ports.iter().filter_map(Port::deadline);
        let deadlines = deadlines.chain(until).chain(self.accept_again_at);
        self.poll.wait(now, deadlines.min())?;
        Ok(true)
    }
}
