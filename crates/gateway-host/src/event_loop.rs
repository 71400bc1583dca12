//! The event loop: the guests' devices, the host's sockets, and the timers.
//!
//! # A turn
//!
//! 1. Wait for a device, a socket or a timer.
//! 2. Read at most [`BATCH`] packets from each ready device, and record the readiness of sockets.
//! 3. Run the guests whose state has changed, and copy data between their flows and sockets. A flow
//!    that could copy more continues in the next turn.
//! 4. Write the output of the guests to their devices.

use crate::poll::{Poll, Source};
use crate::tcp_sockets::TcpSockets;
use crate::udp_sockets::UdpSockets;
use gateway::relay::{Key, tcp_flows, udp_flows};
use gateway::{Event, Guest, Settings};
use net::meter::{Clock, Counter, Meter};
use net::packet::Packet;
use net::rng::Rng;
use net::station::Frame;
use net::time::Duration;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::datagram::Inbox;
use os::device::Device;
use os::driver::{describe, is_device_error, write_frame};
use rustix::event::epoll::EventFlags;
use std::io;

/// Maximum number of packets read from a device in a turn.
const BATCH: usize = 64;
/// Size of the buffer between a socket and a flow, in bytes.
const BUFFER_LEN: usize = 1 << 18;
/// A packet of at most this length, for which the loop had to wait, is probably not followed by
/// another one, so that the attempt to read one is omitted.
const SHORT_LEN: usize = 512;

/// The device of a guest.
#[derive(Debug)]
pub struct GuestDevice {
    /// The TUN or TAP.
    pub device: Device,
}

/// A guest, its device and the host's sockets of its flows.
#[derive(Debug)]
struct Port {
    guest: Guest,
    device: Device,
    tcp: TcpSockets,
    udp: UdpSockets,
    /// Empty packet into which the next packet is read.
    next_packet: Option<Packet>,
    /// TCP flows that can copy more.
    unfinished: Vec<Key>,
    is_readable: bool,
}

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
}

impl EventLoop {
    /// Creates a gateway without guests.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_create1(2)` or `getrandom(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            ports: Vec::new(),
            clock: Monotonic::start(),
            rng: Rng::from_seed(os::entropy::seed()?),
            meter: Meter::new(Clock::None),
            inbox: Inbox::default(),
            buffer: vec![0; BUFFER_LEN],
        })
    }

    /// Adds a guest on a device. The offloads of `settings` are replaced by those of the device.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)` or [`Device::set_blocking`].
    pub fn add_guest(&mut self, mut settings: Settings, device: GuestDevice) -> io::Result<usize> {
        let GuestDevice { device } = device;
        device.set_blocking(false)?;
        let number = self.ports.len();
        self.poll.add(&device, Source::Device(number), EventFlags::IN)?;
        let has_offloads = device.has_offloads();
        settings.station.tso = has_offloads;
        settings.station.uso = device.has_uso();
        settings.station.checksum_offload = has_offloads;
        settings.station.routines = os::checksum::routines();
        let mut cx = Cx { now: self.clock.now(), rng: &mut self.rng, meter: &mut self.meter };
        let guest = Guest::new(settings, &mut cx);
        self.ports.push(Port {
            guest,
            device,
            tcp: TcpSockets::default(),
            udp: UdpSockets::default(),
            next_packet: None,
            unfinished: Vec::new(),
            is_readable: false,
        });
        Ok(number)
    }

    /// Waits for input and processes it, at most until `until`.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works, or of `epoll_wait(2)`.
    pub fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        let waited = self.wait(until)?;
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let mut number = 0;
        while let Some((source, flags)) = self.poll.event(number) {
            number += 1;
            match source {
                Source::Device(guest) => {
                    if let Some(port) = self.ports.get_mut(guest) {
                        port.is_readable = true;
                    }
                }
                Source::Tcp(guest, slot) => {
                    let Some(port) = self.ports.get_mut(guest) else { continue };
                    let flow = port.tcp.ready(&mut port.guest, slot, flags, &mut cx);
                    port.unfinished.extend(flow);
                }
                Source::Udp(guest, slot) => {
                    let Some(port) = self.ports.get_mut(guest) else { continue };
                    port.udp.receive(&mut port.guest, slot, &mut self.inbox, &mut cx);
                }
                Source::Echo(..) | Source::Other(_) => {}
            }
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            if std::mem::take(&mut port.is_readable) {
                port.read(waited, &mut cx)?;
            }
            port.run(number, &self.poll, &mut self.buffer, &mut cx);
            port.write(&mut cx)?;
        }
        Ok(())
    }

    /// Waits for an event. Returns whether the loop had to sleep.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let is_ready = self.ports.iter().any(|port| !port.unfinished.is_empty());
        if is_ready {
            self.poll.wait(Some(Duration::ZERO))?;
            return Ok(false);
        }
        let deadlines = self.ports.iter().filter_map(|port| port.guest.deadline()).chain(until);
        let before = self.clock.now();
        let limit = deadlines.min().map(|deadline| deadline - before);
        self.poll.wait(limit)?;
        Ok(true)
    }
}

impl Port {
    /// Reads packets from the device.
    fn read(&mut self, waited: bool, cx: &mut Cx<'_>) -> io::Result<()> {
        for number in 0..BATCH {
            let packet = self.next_packet.take().or_else(|| self.guest.lend(cx));
            let Some(mut packet) = packet else { return Ok(()) };
            match self.device.receive_now(packet.spare_mut()) {
                Ok(Some(received)) => {
                    packet.extend_from_spare(received.start + received.length);
                    packet.pull(received.start);
                    describe(&mut packet, &received.header, received.start);
                    self.guest.receive_packet(packet, cx);
                    if waited && number == 0 && received.length <= SHORT_LEN {
                        return Ok(());
                    }
                }
                Ok(None) => {
                    self.next_packet = Some(packet);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    cx.meter.count(Counter::LinkHeadersUnknown);
                    self.next_packet = Some(packet);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs the guest, and copies data between its flows and their sockets.
    fn run(&mut self, number: usize, poll: &Poll, buffer: &mut [u8], cx: &mut Cx<'_>) {
        if self.guest.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.guest.timeout(cx);
        }
        self.guest.run(cx);
        for flow in std::mem::take(&mut self.unfinished) {
            self.copy(flow, buffer, cx);
        }
        while let Some(event) = self.guest.event() {
            match event {
                Event::Tcp(tcp_flows::Event::Connect { flow, remote }) => {
                    self.tcp.connect(&mut self.guest, (number, flow), remote, poll, cx);
                }
                Event::Tcp(tcp_flows::Event::Progress { flow }) => self.copy(flow, buffer, cx),
                Event::Tcp(tcp_flows::Event::End { flow, is_reset: false }) => {
                    self.tcp.remove(flow);
                }
                Event::Tcp(tcp_flows::Event::End { flow, is_reset: true }) => self.tcp.reset(flow),
                Event::Udp(udp_flows::Event::Bind { flow, is_v4 }) => {
                    if self.udp.bind((number, flow), is_v4, poll).is_err() {
                        self.guest.udp_mut().end(flow);
                    }
                }
                Event::Udp(udp_flows::Event::Progress { flow }) => {
                    self.udp.send(&mut self.guest, flow);
                }
                Event::Udp(udp_flows::Event::End { flow }) => self.udp.remove(flow),
                Event::Echo(_) => {}
            }
        }
    }

    fn copy(&mut self, flow: Key, buffer: &mut [u8], cx: &mut Cx<'_>) {
        if self.tcp.copy(&mut self.guest, flow, buffer, cx) && !self.unfinished.contains(&flow) {
            self.unfinished.push(flow);
        }
    }

    /// Writes the output of the guest to its device.
    fn write(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let mut failure = None;
        let device = &self.device;
        let mut write = |frame: Frame<'_>, cx: &mut Cx<'_>| match write_frame(device, &frame) {
            Ok(is_accepted) => is_accepted,
            Err(error) => {
                if is_device_error(&error) {
                    failure = Some(error);
                } else {
                    cx.meter.count(Counter::LinkPacketsDropped);
                }
                true
            }
        };
        self.guest.transmit_to(&mut write, cx);
        failure.map_or(Ok(()), Err)
    }
}
