//! One guest of the event loop: its device, and the host's sockets of its flows.

use crate::capture_file::{CaptureFile, CaptureStatus};
use crate::dns_sockets::DnsSockets;
use crate::echo_sockets::EchoSockets;
use crate::forward_sockets::{ForwardSockets, GuestAddresses};
use crate::forwards::{Forward, ForwardError, ForwardId, ForwardTable};
use crate::guest_device::{GuestDevice, ReadState};
use crate::poll::{Poll, Source};
use crate::read_buffers::ReadBuffers;
use crate::reset_queue::ResetQueue;
use crate::socket_errors::lacks_descriptor;
use crate::tcp_sockets::TcpSockets;
use crate::udp_sockets::UdpSockets;
use gateway::relay::{Key, echo_flows, tcp_flows, udp_flows};
use gateway::{Event, Guest, Medium, OutputRate, RateLimit, Settings};
use net::time::Duration;
use net::{Cx, Instant};
use os::datagram::Inbox;
use os::outbound::Outbound;
use rustix::event::epoll::EventFlags;
use std::net::SocketAddr;
use std::{error, fmt, io};

/// The settings of a guest and of its sockets.
#[derive(Debug)]
pub struct GuestSettings {
    /// Settings of the engine. The offloads are replaced by those of the device.
    pub engine: Settings,
    /// The addresses for port forwards.
    pub addresses: GuestAddresses,
    /// The source of IPv4 sockets to hosts.
    pub outbound4: Outbound,
    /// The source of IPv6 sockets to hosts.
    pub outbound6: Outbound,
    /// Maximum rate of the packets to the guest in bits per second.
    pub rate_bps: Option<u64>,
    /// Whether the resolvers are always those of /etc/resolv.conf, also after it has changed.
    pub follows_resolv_conf: bool,
    /// Whether the host fragments UDP datagrams with the flag DF that exceed the path MTU, as
    /// slirp4netns and pasta do. Otherwise the guest receives an ICMP error with the path MTU
    /// (RFC 1191 §4, RFC 8201 §4).
    pub fragments_datagrams: bool,
}

/// Reasons why a port forward cannot be added.
#[derive(Debug)]
pub enum AddForwardError {
    /// There is no such guest.
    NoGuest,
    /// The forward is invalid or conflicts with another one.
    Forward(ForwardError),
    /// A socket could not be opened.
    Socket(Forward, io::Error),
}

/// A guest, its device and the host's sockets of its flows.
#[derive(Debug)]
pub(crate) struct Port {
    number: usize,
    pub(crate) guest: Guest,
    device: GuestDevice,
    addresses: GuestAddresses,
    outbound4: Outbound,
    outbound6: Outbound,
    tcp: TcpSockets,
    udp: UdpSockets,
    echo: EchoSockets,
    dns: DnsSockets,
    pub(crate) forwards: ForwardTable,
    pub(crate) forward_sockets: ForwardSockets,
    read_state: ReadState,
    /// TCP flows that can copy more.
    unfinished: Vec<Key>,
    is_readable: bool,
    /// Whether events of the guest may wait for the next turn.
    may_have_events: bool,
    /// The rate limit of the output, unless the device is a line.
    limit: Option<RateLimit>,
    /// Whether the output shares the rate of all guests.
    is_sharing: bool,
    /// Whether the own rate was used up at the last attempt to write.
    is_rate_used_up: bool,
    /// Whether the device accepts no output until it is reported as writable.
    is_blocked: bool,
    /// Time at which a limited output is tried again that had no packet buffer.
    retry_at: Option<Instant>,
    /// Whether the port is in the list of ports to run.
    pub(crate) is_active: bool,
    /// The deadline for which the event loop waits.
    pub(crate) planned: Option<Instant>,
    pub(crate) capture: Option<CaptureFile>,
}

/// Maximum number of sockets that are connected in a turn. The kernel looks for a free port, which
/// takes milliseconds if most ports towards a host are in use, and the other guests wait.
const CONNECTS_MAX: usize = 8;
/// Time after which an output that had no packet buffer is tried again.
const RETRY_TIME: Duration = Duration::from_millis(10);
/// Prefix of the lengths of an Ethernet frame.
const ETHERNET_HEADER_LEN: u16 = 14;

impl Port {
    pub(crate) fn new(
        number: usize,
        settings: GuestSettings,
        device: GuestDevice,
        total_bps: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let rate_bps = settings.rate_bps;
        let mut engine = settings.engine;
        let line_rate = device.line_rate();
        let limits = [line_rate, rate_bps, total_bps.filter(|_| line_rate.is_none())];
        let mtu_bytes = mtu_of(&engine.medium);
        engine.output_rate = limits
            .into_iter()
            .flatten()
            .min()
            .map(|bits_per_s| OutputRate { bits_per_s, mtu_bytes });
        if let GuestDevice::Packets(device) = &device {
            let has_offloads = device.has_offloads();
            engine.station.tso = has_offloads;
            engine.station.uso = device.has_uso();
            engine.station.checksum_offload = has_offloads;
        }
        engine.station.routines = os::checksum::routines();
        Self {
            number,
            guest: Guest::new(engine, cx),
            device,
            addresses: settings.addresses,
            outbound4: settings.outbound4,
            outbound6: settings.outbound6,
            tcp: TcpSockets::default(),
            udp: UdpSockets::new(settings.fragments_datagrams),
            echo: EchoSockets::default(),
            dns: DnsSockets::new(settings.follows_resolv_conf),
            forwards: ForwardTable::default(),
            forward_sockets: ForwardSockets::default(),
            read_state: ReadState::default(),
            unfinished: Vec::new(),
            is_readable: false,
            may_have_events: false,
            limit: rate_bps.filter(|_| line_rate.is_none()).map(RateLimit::new),
            is_sharing: total_bps.is_some() && line_rate.is_none(),
            is_rate_used_up: false,
            is_blocked: false,
            retry_at: None,
            is_active: false,
            planned: None,
            capture: None,
        }
    }

    /// Returns whether the port has work that waits for no event.
    pub(crate) fn has_more(&self) -> bool {
        !self.unfinished.is_empty() || self.is_readable || self.may_have_events
    }

    /// Returns when [`Self::run`] has to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let may_write = !self.is_blocked && self.guest.has_output();
        let line = self.device.deadline(&self.guest).filter(|_| may_write);
        let limit = self.limit.map(|limit| limit.allows_at()).filter(|_| may_write);
        // A port that shares a rate waits for its turn, unless its own rate is used up.
        let limit = limit.filter(|_| !self.is_sharing || self.is_rate_used_up);
        let limit = limit.map(|at| self.retry_at.map_or(at, |retry_at| retry_at.max(at)));
        let retry = self.retry_at.filter(|_| self.is_sharing && may_write);
        let deadlines = [self.guest.deadline(), line, limit, retry, self.tcp.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns whether the port waits for the rate that all guests share from now on.
    pub(crate) fn waits_for_share(&mut self, now: Instant) -> bool {
        let is_allowed = self.limit.is_none_or(|limit| limit.allows(now));
        let waits = self.is_sharing && !self.is_blocked && is_allowed && self.guest.has_output();
        if waits {
            self.retry_at = None;
        }
        waits
    }

    /// Returns whether a socket could not be opened because no descriptor was free, since the last
    /// call.
    pub(crate) fn take_lack_of_descriptors(&mut self) -> bool {
        std::mem::take(&mut self.tcp.lacked_descriptor)
    }

    /// Moves the sockets of all flows to those that are to be reset, because the guest is gone.
    pub(crate) fn reset_flows(&mut self) {
        self.tcp.reset_all();
    }

    /// Returns the sockets that the event loop has to close with a reset.
    pub(crate) fn resets(&mut self) -> &mut ResetQueue {
        &mut self.tcp.resets
    }

    /// Adds a port forward and opens its sockets.
    pub(crate) fn add_forward(
        &mut self,
        forward: Forward,
        poll: &Poll,
    ) -> Result<ForwardId, AddForwardError> {
        let id = self.forwards.add(forward.clone()).map_err(AddForwardError::Forward)?;
        match self.forward_sockets.open(self.number, (id, &forward), poll) {
            Ok(()) => Ok(id),
            Err(error) => {
                self.forwards.remove(id);
                Err(AddForwardError::Socket(forward, error))
            }
        }
    }

    /// Opens the sockets of a port forward.
    pub(crate) fn open_forward(
        &mut self,
        forward: (ForwardId, &Forward),
        poll: &Poll,
    ) -> io::Result<()> {
        self.forward_sockets.open(self.number, forward, poll)
    }

    /// Closes the sockets of a port forward.
    pub(crate) fn close_forward(&mut self, id: ForwardId) {
        self.forward_sockets.close(id);
    }

    /// Removes a port forward and closes its sockets.
    pub(crate) fn remove_forward(&mut self, id: ForwardId) -> bool {
        self.forward_sockets.close(id);
        self.forwards.remove(id).is_some()
    }

    /// Sets whether connections to forwarded ports are accepted.
    pub(crate) fn accept_connections(&self, is_accepting: bool, poll: &Poll) {
        self.forward_sockets.accept_connections(self.number, is_accepting, poll);
    }

    /// Processes the readiness of one descriptor of the port. Returns an error if a connection could
    /// not be accepted.
    pub(crate) fn process(
        &mut self,
        source: Source,
        flags: EventFlags,
        (inbox, poll): (&mut Inbox, &Poll),
        cx: &mut Cx<'_>,
    ) -> io::Result<()> {
        let guest = &mut self.guest;
        match source {
            Source::Device(_) => {
                self.is_readable |= flags != EventFlags::OUT;
                if flags.contains(EventFlags::OUT) && std::mem::take(&mut self.is_blocked) {
                    // Cannot fail: the device is registered.
                    _ = self.device.watch_output(false, self.number, poll);
                }
            }
            Source::Tcp(_, slot) => {
                let ready = self.tcp.ready(guest, slot, flags, cx);
                self.unfinished.extend(ready.filter(|flow| self.tcp.mark_unfinished(*flow)));
            }
            Source::Udp(_, slot) => self.udp.receive(guest, (slot, flags), inbox, cx),
            Source::Echo(_, slot) => self.echo.receive(guest, slot, cx),
            Source::Dns(_, index) => self.dns.receive(guest, index, inbox, cx),
            Source::Forward(_, index) => {
                let socket = (self.number, index);
                let flows = (guest, &mut self.tcp);
                return self.forward_sockets.receive(
                    socket,
                    flows,
                    &self.addresses,
                    (inbox, poll),
                    cx,
                );
            }
            Source::Timer | Source::Other(_) => {}
        }
        Ok(())
    }

    /// Reads the device, runs the guest, copies data between flows and sockets, and writes to the
    /// device. `waited` tells whether the loop had to wait for the current events.
    pub(crate) fn run(
        &mut self,
        waited: bool,
        poll: &Poll,
        buffers: &mut ReadBuffers,
        cx: &mut Cx<'_>,
    ) -> io::Result<()> {
        // Before the guest's queries are read, so that none of them goes to a resolver that the file no
        // longer names.
        self.dns.check_resolvers(&mut self.guest, cx);
        if std::mem::take(&mut self.is_readable) {
            let turn = (self.number, waited, poll);
            self.device.read(&mut self.guest, &mut self.read_state, turn, cx)?;
            self.is_readable = self.read_state.has_more;
        }
        if self.guest.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.guest.timeout(cx);
        }
        self.tcp.timeout(cx.now);
        self.guest.run(cx);
        let ready = std::mem::take(&mut self.unfinished);
        let flows = ready.len();
        for flow in ready {
            self.copy((flow, flows), poll, buffers, cx);
        }
        let mut connects = 0;
        while connects < CONNECTS_MAX
            && let Some(event) = self.guest.event()
        {
            let is_connect = matches!(event, Event::Tcp(tcp_flows::Event::Connect { .. }));
            connects += usize::from(is_connect);
            self.execute(event, poll, buffers, cx);
        }
        self.may_have_events = connects == CONNECTS_MAX;
        let written = self.write(poll, cx);
        self.drain_capture();
        written
    }

    fn drain_capture(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.drain(&mut || self.guest.captured());
        }
    }

    /// Writes the output of the guest that its own rate permits.
    fn write(&mut self, poll: &Poll, cx: &mut Cx<'_>) -> io::Result<()> {
        if self.is_blocked || self.is_sharing {
            return Ok(());
        }
        if self.limit.is_some() {
            while self.write_one(poll, cx)?.is_some() {}
            return Ok(());
        }
        let is_full = self.device.write(&mut self.guest, cx)?;
        self.wait_if_full(is_full, poll)
    }

    /// Writes one packet of a limited output, if its own rate permits one now, and returns its
    /// length.
    pub(crate) fn write_one(&mut self, poll: &Poll, cx: &mut Cx<'_>) -> io::Result<Option<usize>> {
        self.is_rate_used_up = self.limit.is_some_and(|limit| !limit.allows(cx.now));
        if self.is_blocked || self.is_rate_used_up {
            return Ok(None);
        }
        let (sent, is_full) = self.device.write_one(&mut self.guest, cx)?;
        self.drain_capture();
        self.wait_if_full(is_full, poll)?;
        if let (Some(len), Some(limit)) = (sent, &mut self.limit) {
            limit.use_up(len, cx.now);
        }
        let is_waiting = sent.is_none() && self.guest.has_output();
        self.retry_at = is_waiting.then(|| cx.now + RETRY_TIME);
        Ok(sent)
    }

    fn wait_if_full(&mut self, is_full: bool, poll: &Poll) -> io::Result<()> {
        if is_full && !std::mem::replace(&mut self.is_blocked, true) {
            self.device.watch_output(true, self.number, poll)?;
        }
        Ok(())
    }

    /// Starts to write the packets of the guest to a file. Returns false for a guest without
    /// packets.
    pub(crate) fn start_capture(&mut self, file: CaptureFile) -> bool {
        let has_packets = self.guest.start_capture();
        if has_packets {
            self.capture = Some(file);
        }
        has_packets
    }

    /// Completes the file of the packets, if there is one.
    pub(crate) fn stop_capture(&mut self, now: Instant) -> Option<CaptureStatus> {
        let mut capture = self.capture.take()?;
        capture.drain(&mut || self.guest.captured());
        Some(capture.end(self.guest.stop_capture(), now))
    }

    fn execute(&mut self, event: Event, poll: &Poll, buffers: &mut ReadBuffers, cx: &mut Cx<'_>) {
        match event {
            Event::Tcp(event) => self.execute_tcp(event, poll, buffers, cx),
            Event::Udp(udp_flows::Event::Bind { flow, is_v4 }) => {
                let outbound = if is_v4 { &self.outbound4 } else { &self.outbound6 };
                match self.udp.bind((self.number, flow), is_v4, (outbound, poll)) {
                    Err(error) if lacks_descriptor(&error) => {
                        self.tcp.lacked_descriptor = true;
                        self.guest.udp_mut().end_without_descriptor(flow);
                    }
                    Err(_) => self.guest.udp_mut().end(flow),
                    Ok(()) => {}
                }
            }
            Event::Udp(udp_flows::Event::Progress { flow }) => {
                self.udp.send(&mut self.guest, flow, &self.forward_sockets, cx);
            }
            Event::Udp(udp_flows::Event::End { flow }) => self.udp.remove(flow),
            Event::Echo(echo_flows::Event::Send { flow, destination, hop_limit, message }) => {
                let is_v4 = destination.is_ipv4();
                let outbound = if is_v4 { &self.outbound4 } else { &self.outbound6 };
                let request = (message.as_slice(), hop_limit);
                let flow = (self.number, flow);
                let host = (outbound, poll);
                self.echo.send(&mut self.guest, flow, destination, request, host, cx);
            }
            Event::Echo(echo_flows::Event::End { flow }) => self.echo.remove(flow),
            Event::Dns(event) => {
                let outbound = [&self.outbound4, &self.outbound6];
                self.dns.execute(&mut self.guest, (self.number, event), outbound, poll, cx);
            }
        }
    }

    fn execute_tcp(
        &mut self,
        event: tcp_flows::Event,
        poll: &Poll,
        buffers: &mut ReadBuffers,
        cx: &mut Cx<'_>,
    ) {
        match event {
            tcp_flows::Event::Connect { flow, remote } => self.connect(flow, remote, poll, cx),
            tcp_flows::Event::Progress { flow } => self.copy((flow, 1), poll, buffers, cx),
            tcp_flows::Event::End { flow, is_reset: false } => self.tcp.remove(flow),
            tcp_flows::Event::End { flow, is_reset: true } => self.tcp.reset(flow),
        }
    }

    fn connect(&mut self, flow: Key, remote: SocketAddr, poll: &Poll, cx: &mut Cx<'_>) {
        let outbound = if remote.is_ipv4() { &self.outbound4 } else { &self.outbound6 };
        let flow = (self.number, flow);
        self.tcp.connect(&mut self.guest, flow, remote, (outbound, poll), cx);
    }

    fn copy(
        &mut self,
        (flow, flows): (Key, usize),
        poll: &Poll,
        buffers: &mut ReadBuffers,
        cx: &mut Cx<'_>,
    ) {
        let turn = (self.number, flow, flows);
        if self.tcp.copy(&mut self.guest, turn, (poll, buffers), cx)
            && self.tcp.mark_unfinished(flow)
        {
            self.unfinished.push(flow);
        }
    }
}

/// Returns the length of the longest packet of a medium, in bytes.
pub(crate) fn mtu_of(medium: &Medium) -> u16 {
    match medium {
        Medium::Datagrams(mtu) => *mtu,
        Medium::Frames(mtu, _) => mtu.saturating_add(ETHERNET_HEADER_LEN),
        Medium::Line(link) => u16::try_from(link.mtu()).unwrap_or(u16::MAX),
    }
}

impl fmt::Display for AddForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGuest => f.write_str("there is no guest with this number"),
            Self::Forward(error) => error.fmt(f),
            Self::Socket(forward, error) => {
                write!(f, "port {}", forward.host_ports)?;
                if let Some(address) = forward.bind.address {
                    write!(f, " at {address}")?;
                }
                match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str(": in use by another program; choose another port or address")
                    }
                    io::ErrorKind::PermissionDenied => f.write_str(
                        ": permission denied; choose a port of 1024 or above, or run as root \
                         'sysctl net.ipv4.ip_unprivileged_port_start=PORT'",
                    ),
                    _ => write!(f, ": {error}"),
                }
            }
        }
    }
}

impl error::Error for AddForwardError {}
