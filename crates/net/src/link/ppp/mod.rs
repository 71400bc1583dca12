//! PPP, the point-to-point protocol (RFC 1661), on an asynchronous line (RFC 1662).
//!
//! Theory of operation. The two ends of a PPP line are equal: each sends a request to configure its
//! receiving direction, and answers the request of the other. The line goes through phases (RFC
//! 1661 §3):
//!
//! ```text
//! Dead ──open──► Establish ──LCP is open──► Authenticate ──► Network ──► Terminate ──► Dead
//! ```
//!
//! In Establish only LCP sends, and its packets always use the frame format that every end
//! understands. In Authenticate an end authenticates by PAP or CHAP if the other requires it. In
//! Network, IPCP negotiates the IPv4 addresses and Van Jacobson's header compression, and IPv6CP
//! negotiates the interface identifiers. Each of the two enables only its own datagrams. LCP
//! periodically sends echo requests, because a line may be dead without an indication.
//!
//! An IPv4 datagram that is queued before IPCP is open waits, because the line is being opened for
//! it. If IPCP will not open, the datagram is reported as failed. An IPv6 datagram is reported as
//! failed whenever IPv6CP is not open. Control packets are sent before datagrams, but a frame in
//! progress is finished first.
//!
//! A frame with a wrong check sequence is dropped, and the header decompressor tosses the packets
//! whose slot it no longer knows. A frame of an unsupported protocol is answered with a rejection
//! (§5.7). A frame of a protocol that is not open yet is dropped and counted.
//!
//! The file `framing` implements RFC 1662. `control_packet` contains the packet format of the
//! control protocols, and `negotiation` their automaton. `lcp`, `ipcp` and `ipv6cp` contain their
//! options. `auth` implements PAP and CHAP. Not implemented: link quality reports, callback,
//! multilink, compression of data, and FCS of 32 bits.

mod auth;
mod control_packet;
mod framing;
mod ipcp;
mod ipv6cp;
mod lcp;
mod negotiation;

#[cfg(test)]
mod tests;

pub use auth::{Credentials, Method, RequiredAuthentication};
pub use framing::{ACCM_DEFAULT, ESCAPE, FLAG, FLIPPED};

use self::auth::Authentication;
use self::framing::{Deframer, Format, FrameResult};
use self::ipcp::IpcpOptions;
use self::ipv6cp::Ipv6cpOptions;
use self::lcp::{EndOptions, Lcp, PacketEffect};
use self::negotiation::{Event as Drive, Negotiation, NegotiationEvent};
use super::queue::{OutputQueue, UsedQueue};
use super::vj::{self, Compressor, Decompressor};
use super::{Event, QUEUE_LIMIT, charged};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

const LCP: u16 = 0xC021;
const IPCP: u16 = 0x8021;
const IPV6CP: u16 = 0x8057;
const IPV4: u16 = 0x0021;
const IPV6: u16 = 0x0057;
const VJ_COMPRESSED: u16 = 0x002D;
const VJ_UNCOMPRESSED: u16 = 0x002F;

/// Default interval of echo requests.
pub const ECHO_INTERVAL: Duration = Duration::from_secs(10);
/// Idle time of the line after which a frame begins with an additional flag. The flag ends any
/// noise before the frame.
const IDLE_BEFORE_FLAG: Duration = Duration::from_secs(1);

/// Settings of an end of a PPP line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The local IPv4 address; `None` to request one from the peer.
    pub address: Option<Ipv4Addr>,
    /// The address that the peer must use; `None` if it may use any address.
    pub peer_address: Option<Ipv4Addr>,
    /// The address assigned to a peer that requests one, if `peer_address` is `None`.
    pub spare_address: Option<Ipv4Addr>,
    /// Whether headers may be compressed, in both directions.
    pub compresses_headers: bool,
    /// Whether to request the addresses of two name servers.
    pub wants_name_servers: bool,
    /// Whether to carry IPv6 as well.
    pub carries_ipv6: bool,
    /// The credentials of this end, in case the peer requires authentication.
    pub credentials: Option<Credentials>,
    /// The authentication required of the peer.
    pub required_authentication: Option<RequiredAuthentication>,
    /// The control characters that the peer must escape; none on a line that passes all bytes
    /// unchanged.
    pub accm: u32,
    /// Interval of echo requests; `None` to send none.
    pub echo_interval: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: None,
            peer_address: None,
            spare_address: None,
            compresses_headers: true,
            wants_name_servers: false,
            carries_ipv6: true,
            credentials: None,
            required_authentication: None,
            accm: 0,
            echo_interval: Some(ECHO_INTERVAL),
        }
    }
}

/// A phase of the line (RFC 1661 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The line has not been opened, or has ended.
    #[default]
    Dead,
    /// LCP is negotiating.
    Establish,
    /// At least one end must authenticate before network protocols may open.
    Authenticate,
    /// Network protocols may open, and carry datagrams.
    Network,
    /// LCP is terminating the link.
    Terminate,
}

/// Reasons why a line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This end closed the line.
    Closed,
    /// The peer closed the line.
    PeerClosed,
    /// The peer did not answer, or the ends did not agree on the options.
    NotEstablished,
    /// An authentication was rejected, or timed out.
    AuthenticationFailed,
    /// The line is looped back.
    LoopedBack,
    /// The peer no longer answers echo requests.
    NoEcho,
    /// The ends did not agree on IPv4.
    NoNetwork,
}

/// One end of a serial line with PPP.
#[derive(Debug)]
pub struct Ppp {
    phase: Phase,
    close_reason: Option<CloseReason>,
    deframer: Deframer,
    line: Line,
    lcp: Lcp,
    authentication: Authentication,
    ipcp: Negotiation<IpcpOptions>,
    ipv6cp: Negotiation<Ipv6cpOptions>,
    carries_ipv6: bool,
    /// Maximum length of a datagram in both directions, even if the peer's MRU is larger.
    mtu: usize,
    compressor: Option<Compressor>,
    decompressor: Option<Decompressor>,
    used: UsedQueue,
    output: OutputQueue,
    pending_events: PendingEvents,
}

/// Events that the layer above has not collected yet. Only the last event of each kind is kept.
#[derive(Debug, Default)]
struct PendingEvents {
    is_network_up: Option<bool>,
    address: Option<Ipv4Addr>,
    interface_identifier: Option<u64>,
}

/// How the next datagram is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendDecision {
    Ipv4,
    Ipv6,
    /// There is no datagram, or its protocol is not open yet.
    Wait,
    /// The protocol of the datagram will not open.
    Fail,
}

/// The frame that is being sent to the line.
#[derive(Debug, Default)]
struct Line {
    encoded: Vec<u8>,
    position: usize,
    /// The datagram in the frame, if the frame carries one.
    packet: Option<Packet>,
    is_active: bool,
    /// Time at which the last frame was completely sent.
    ended_at: Option<Instant>,
}

impl Ppp {
    /// Returns a line for datagrams of at most `mtu` bytes, with queues of [`QUEUE_LIMIT`] packets.
    #[must_use]
    pub fn new(mtu: usize, settings: Settings) -> Self {
        Self::with_queue_limit(mtu, QUEUE_LIMIT, settings)
    }

    /// Returns a line for datagrams of at most `mtu` bytes, with queues of `limit` packets.
    #[must_use]
    pub fn with_queue_limit(mtu: usize, limit: usize, settings: Settings) -> Self {
        let (method, accepted) = settings
            .required_authentication
            .map(|required_authentication| {
                (required_authentication.method, required_authentication.accepted)
            })
            .unzip();
        let format = Format { accm: settings.accm, omits_address: true, omits_zero: true };
        let mru = u16::try_from(mtu).unwrap_or(u16::MAX);
        let desired = EndOptions { mru, format, authentication: method, magic: 0 };
        let can_authenticate = settings.credentials.is_some();
        let ipcp = IpcpOptions::new(
            settings.address,
            settings.peer_address,
            settings.spare_address,
            settings.compresses_headers,
            settings.wants_name_servers,
        );
        Self {
            phase: Phase::Dead,
            close_reason: None,
            deframer: Deframer::default(),
            line: Line::default(),
            lcp: Lcp::new(desired, can_authenticate, settings.echo_interval),
            authentication: Authentication::new(settings.credentials, accepted.unwrap_or_default()),
            ipcp: Negotiation::new(ipcp),
            ipv6cp: Negotiation::new(Ipv6cpOptions::default()),
            carries_ipv6: settings.carries_ipv6,
            mtu,
            compressor: None,
            decompressor: None,
            used: UsedQueue::new(limit),
            output: OutputQueue::new(mtu, limit),
            pending_events: PendingEvents::default(),
        }
    }

    /// Opens the line, because bytes can be exchanged from now on.
    pub fn open(&mut self, cx: &mut Cx<'_>) {
        charged(cx, |cx| {
            if self.phase != Phase::Dead {
                return;
            }
            self.phase = Phase::Establish;
            self.close_reason = None;
            // If the line has ended without a hang-up, the automaton still considers the layer
            // below to be up.
            for event in [Drive::Down, Drive::Open, Drive::Up] {
                self.lcp.negotiation.drive(event, cx);
            }
            self.process_events(cx);
        });
    }

    /// Closes the line: terminates the link. The phase becomes [`Phase::Dead`] when the peer has
    /// answered, or when the termination has timed out.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        charged(cx, |cx| self.end(CloseReason::Closed, cx));
    }

    /// Returns the phase of the line.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns why the line has ended, or is ending.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Returns whether IPv4 datagrams can be exchanged.
    #[must_use]
    pub fn is_network_up(&self) -> bool {
        self.ipcp.is_opened()
    }

    /// Returns the IPv4 addresses of both ends: the local one, then the peer's. `None` stands for
    /// an unknown address.
    #[must_use]
    pub fn addresses(&self) -> [Option<Ipv4Addr>; 2] {
        if !self.ipcp.is_opened() {
            return [None; 2];
        }
        [self.ipcp.options.address(), self.ipcp.options.theirs.address]
    }

    /// Returns the IPv6 interface identifiers of both ends: the local one, then the peer's. `None`
    /// stands for an unknown identifier.
    #[must_use]
    pub fn interface_identifiers(&self) -> [Option<u64>; 2] {
        if !self.ipv6cp.is_opened() {
            return [None; 2];
        }
        [self.ipv6cp.options.ours, self.ipv6cp.options.theirs]
            .map(|one| Some(one).filter(|one| *one != 0))
    }

    /// Returns the name servers that the peer has provided.
    #[must_use]
    pub fn name_servers(&self) -> [Option<Ipv4Addr>; 2] {
        let servers = self.ipcp.options.ours.name_servers;
        servers.map(|server| server.filter(|server| !server.is_unspecified()))
    }

    /// Returns whether headers are compressed in the sending and in the receiving direction.
    #[must_use]
    pub fn compresses_headers(&self) -> [bool; 2] {
        [self.compressor.is_some(), self.decompressor.is_some()]
    }

    /// Processes bytes from the line, split anywhere.
    pub fn receive(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        charged(cx, |cx| {
            let mut input = bytes;
            loop {
                // A line that was not opened ignores its input.
                if self.phase == Phase::Dead && self.close_reason.is_none() {
                    return;
                }
                let accm = self.accm();
                let arrived = self.deframer.receive(&mut input, self.mtu, accm, pool, cx);
                let Some(arrived) = arrived else { return };
                match arrived {
                    FrameResult::Frame(protocol, packet) => {
                        self.receive_frame(protocol, packet, pool, cx);
                    }
                    FrameResult::Lost => self.packet_lost(),
                }
                self.process_events(cx);
            }
        });
    }

    /// Returns the control characters that the peer escapes now.
    fn accm(&self) -> u32 {
        let negotiation = &self.lcp.negotiation;
        if negotiation.is_opened() { negotiation.options.ours.format.accm } else { ACCM_DEFAULT }
    }

    fn packet_lost(&mut self) {
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.packet_lost();
        }
    }

    fn receive_frame(&mut self, protocol: u16, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        let data = packet.data();
        let is_network = self.phase == Phase::Network;
        match protocol {
            LCP => match self.lcp.receive(data, cx) {
                PacketEffect::Nothing => {}
                PacketEffect::ProtocolRejected(protocol) => self.protocol_rejected(protocol, cx),
            },
            auth::PAP | auth::CHAP if self.lcp.negotiation.is_opened() => {
                self.authentication.receive(protocol, data, cx);
            }
            IPCP if is_network => receive_control(&mut self.ipcp, data, self.mtu, cx),
            IPV6CP if is_network && self.carries_ipv6 => {
                receive_control(&mut self.ipv6cp, data, self.mtu, cx);
            }
            IPV4 | VJ_COMPRESSED | VJ_UNCOMPRESSED if self.ipcp.is_opened() => {
                return self.receive_datagram(protocol, packet, pool, cx);
            }
            IPV6 if self.ipv6cp.is_opened() => {
                return self.receive_datagram(protocol, packet, pool, cx);
            }
            IPCP | IPV4 | VJ_COMPRESSED | VJ_UNCOMPRESSED | auth::PAP | auth::CHAP => {
                cx.meter.count(Counter::PppProtocolsUnknown);
            }
            _ => {
                cx.meter.count(Counter::PppProtocolsUnknown);
                if is_network {
                    self.lcp.reject_protocol(protocol, data, cx);
                }
            }
        }
        pool.put(packet);
    }

    fn receive_datagram(
        &mut self,
        protocol: u16,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let mut packet = packet;
        let kind = match protocol {
            VJ_COMPRESSED => vj::Kind::CompressedTcp,
            VJ_UNCOMPRESSED => vj::Kind::UncompressedTcp,
            _ => vj::Kind::Ip,
        };
        let is_made = match (&mut self.decompressor, kind) {
            (_, vj::Kind::Ip) => true,
            (Some(decompressor), _) => decompressor.decompress(kind, &mut packet, cx.meter).is_ok(),
            (None, _) => {
                cx.meter.count(Counter::PppProtocolsUnknown);
                false
            }
        };
        if !is_made || packet.is_empty() {
            return pool.put(packet);
        }
        if packet.len() > self.mtu {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return pool.put(packet);
        }
        if self.used.is_full() {
            cx.meter.count(Counter::LinkPacketsRefused);
            return pool.put(packet);
        }
        self.used.push(packet);
    }

    fn protocol_rejected(&mut self, protocol: u16, cx: &mut Cx<'_>) {
        match protocol {
            IPCP | IPV4 => self.ipcp.drive(Drive::FatalReject, cx),
            IPV6CP | IPV6 => self.ipv6cp.drive(Drive::FatalReject, cx),
            VJ_COMPRESSED | VJ_UNCOMPRESSED => self.compressor = None,
            _ => {}
        }
    }

    /// Processes the events of all control protocols until there are none.
    fn process_events(&mut self, cx: &mut Cx<'_>) {
        loop {
            if let Some(event) = self.lcp.negotiation.next_event() {
                self.on_lcp(event, cx);
            } else if let Some(event) = self.ipcp.next_event() {
                self.on_ipcp(event, cx);
            } else if let Some(event) = self.ipv6cp.next_event() {
                let is_up = event == NegotiationEvent::Up && self.ipv6cp.options.ours != 0;
                self.pending_events.interface_identifier =
                    is_up.then_some(self.ipv6cp.options.ours);
            } else if self.phase == Phase::Authenticate && self.authentication.is_done() {
                self.begin_network(cx);
            } else {
                break;
            }
        }
        let is_running = !matches!(self.phase, Phase::Dead | Phase::Terminate);
        if is_running && self.lcp.is_looped() {
            self.end(CloseReason::LoopedBack, cx);
        } else if is_running
            && (self.authentication.has_failed()
                || self.lcp.negotiation.options.is_authentication_refused)
        {
            self.end(CloseReason::AuthenticationFailed, cx);
        }
    }

    /// Closes LCP and records `close_reason`, unless the line is already dead or terminating.
    fn end(&mut self, close_reason: CloseReason, cx: &mut Cx<'_>) {
        if matches!(self.phase, Phase::Dead | Phase::Terminate) {
            return;
        }
        self.close_reason = Some(close_reason);
        self.phase = Phase::Terminate;
        self.lcp.negotiation.drive(Drive::Close, cx);
        while let Some(event) = self.lcp.negotiation.next_event() {
            self.on_lcp(event, cx);
        }
    }

    fn on_lcp(&mut self, event: NegotiationEvent, cx: &mut Cx<'_>) {
        match event {
            NegotiationEvent::Up => {
                self.phase = Phase::Authenticate;
                self.close_reason = None;
                let options = &self.lcp.negotiation.options;
                let ours = options.ours;
                let theirs = options.theirs;
                self.output.set_mtu(self.mtu.min(usize::from(theirs.mru)));
                self.lcp.went_up(cx);
                self.authentication.start(theirs.authentication, ours.authentication, cx);
            }
            NegotiationEvent::Down => {
                self.lcp.went_down();
                self.authentication.went_down();
                self.ipcp.drive(Drive::Down, cx);
                self.ipv6cp.drive(Drive::Down, cx);
                if self.lcp.negotiation.is_ending() {
                    self.close_reason.get_or_insert(CloseReason::PeerClosed);
                    self.phase = Phase::Terminate;
                } else {
                    self.phase = Phase::Establish;
                }
            }
            NegotiationEvent::Finished => {
                self.close_reason.get_or_insert(CloseReason::NotEstablished);
                self.phase = Phase::Dead;
                self.fail_output();
            }
        }
    }

    fn begin_network(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Network;
        for event in [Drive::Open, Drive::Up] {
            self.ipcp.drive(event, cx);
        }
        if self.carries_ipv6 {
            for event in [Drive::Open, Drive::Up] {
                self.ipv6cp.drive(event, cx);
            }
        }
    }

    fn on_ipcp(&mut self, event: NegotiationEvent, cx: &mut Cx<'_>) {
        match event {
            NegotiationEvent::Up => {
                let options = &self.ipcp.options;
                self.compressor = options
                    .theirs
                    .compression
                    .map(|theirs| Compressor::new(theirs.slots, theirs.may_omit_slot));
                self.decompressor =
                    options.ours.compression.map(|ours| Decompressor::new(ours.slots));
                self.pending_events.address = options.address();
                self.pending_events.is_network_up = Some(true);
            }
            NegotiationEvent::Down => {
                self.compressor = None;
                self.decompressor = None;
                self.pending_events.address = None;
                self.pending_events.is_network_up = Some(false);
            }
            NegotiationEvent::Finished => {
                if self.phase == Phase::Network && !self.ipv6cp.is_opened() {
                    self.end(CloseReason::NoNetwork, cx);
                }
            }
        }
    }

    fn fail_output(&mut self) {
        while let Some(packet) = self.output.next() {
            self.output.finish(Event::Failed(packet));
        }
    }

    /// Queues a datagram for output.
    ///
    /// # Errors
    ///
    /// Returns the packet, and counts it, if it is longer than the peer accepts, the queue is full,
    /// or the line is dead.
    pub fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        charged(cx, |cx| {
            if self.phase == Phase::Dead {
                cx.meter.count(Counter::LinkPacketsDropped);
                return Err(packet);
            }
            self.output.accept(packet, cx)
        })
    }

    /// Appends at most `limit` bytes for the line, and returns their number.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        charged(cx, |cx| {
            let start = wire.len();
            let end = start.saturating_add(limit);
            while wire.len() < end && (self.line.is_active || self.begin_frame(cx)) {
                if self.line.fill(wire, end - wire.len()) {
                    self.line.ended_at = Some(cx.now);
                    cx.meter.count(Counter::LinkPacketsOut);
                    if let Some(packet) = self.line.packet.take() {
                        self.output.finish(Event::Sent(packet));
                    }
                }
            }
            wire.len() - start
        })
    }

    /// Encodes the next frame for the line, if there is one.
    fn begin_frame(&mut self, cx: &mut Cx<'_>) -> bool {
        let sent = self.lcp.negotiation.options.theirs.format;
        let is_established = self.lcp.negotiation.is_opened();
        let format = if is_established { sent } else { Format::default() };
        // The answer to a failed authentication is sent before the Terminate-Request that follows
        // it. Otherwise LCP packets are sent first, because the peer processes an authentication
        // only after it has opened LCP.
        let is_ending = self.phase == Phase::Terminate;
        let lcp = &mut self.lcp.negotiation;
        if let Some((protocol, control)) =
            if is_ending || !lcp.has_output() { self.authentication.transmit() } else { None }
        {
            self.line.begin(format, protocol, &control, cx);
        } else if let Some(control) = lcp.transmit() {
            // RFC 1662 §7.1: LCP packets use the default format, because an end without negotiated
            // options understands it.
            self.line.begin(Format::default(), LCP, &control, cx);
        } else if let Some(control) = self.ipcp.transmit() {
            self.line.begin(format, IPCP, &control, cx);
        } else if let Some(control) = self.ipv6cp.transmit() {
            self.line.begin(format, IPV6CP, &control, cx);
        } else if let Some((protocol, packet)) = self.next_datagram(cx) {
            self.line.begin(format, protocol, packet.data(), cx);
            self.line.packet = Some(packet);
        }
        self.line.is_active
    }

    fn next_datagram(&mut self, cx: &mut Cx<'_>) -> Option<(u16, Packet)> {
        loop {
            let send_decision = self.send_decision();
            if send_decision == SendDecision::Wait {
                return None;
            }
            let mut packet = self.output.next()?;
            match send_decision {
                SendDecision::Ipv6 => return Some((IPV6, packet)),
                SendDecision::Fail => {
                    cx.meter.count(Counter::LinkPacketsDropped);
                    self.output.finish(Event::Failed(packet));
                }
                SendDecision::Ipv4 | SendDecision::Wait => {
                    let compressor = self.compressor.as_mut();
                    let kind = compressor.map(|vj| vj.compress(&mut packet, cx.meter));
                    let protocol = match kind {
                        Some(vj::Kind::CompressedTcp) => VJ_COMPRESSED,
                        Some(vj::Kind::UncompressedTcp) => VJ_UNCOMPRESSED,
                        Some(vj::Kind::Ip) | None => IPV4,
                    };
                    return Some((protocol, packet));
                }
            }
        }
    }

    /// Returns how the first queued datagram is sent.
    fn send_decision(&self) -> SendDecision {
        let Some(packet) = self.output.peek() else { return SendDecision::Wait };
        if packet.data().first().is_some_and(|first| first >> 4 == 6) {
            // IPv6 datagrams do not wait, because the layer above is informed only when IPv6CP has
            // opened.
            if self.ipv6cp.is_opened() { SendDecision::Ipv6 } else { SendDecision::Fail }
        } else if self.ipcp.is_opened() {
            SendDecision::Ipv4
        } else if self.phase == Phase::Network && self.ipcp.is_given_up() {
            SendDecision::Fail
        } else {
            SendDecision::Wait
        }
    }

    /// Returns whether the output queue is full, so that [`Self::send`] would reject a packet.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        if let Some(event) = self.output.event() {
            return Some(event);
        }
        if let Some(address) = self.pending_events.address.take() {
            return Some(Event::Address(address.octets()));
        }
        if let Some(identifier) = self.pending_events.interface_identifier.take() {
            return Some(Event::InterfaceIdentifier(identifier.to_be_bytes()));
        }
        if let Some(is_up) = self.pending_events.is_network_up.take() {
            return Some(if is_up { Event::NetworkUp } else { Event::NetworkDown });
        }
        self.used.event()
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.lcp.deadline(),
            self.authentication.deadline(),
            self.ipcp.deadline(),
            self.ipv6cp.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        charged(cx, |cx| {
            let is_peer_present = self.lcp.timeout(cx);
            self.authentication.timeout(cx);
            self.ipcp.timeout(cx);
            self.ipv6cp.timeout(cx);
            self.process_events(cx);
            if !is_peer_present {
                self.end(CloseReason::NoEcho, cx);
            }
        });
    }

    /// Returns the length of the longest datagram that can be sent, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.output.mtu()
    }

    /// Returns whether a received datagram is queued among the events.
    #[must_use]
    pub fn has_received(&self) -> bool {
        !self.used.is_empty()
    }

    /// Returns whether there is something to transmit now.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.line.is_active
            || self.lcp.negotiation.has_output()
            || self.authentication.has_output()
            || self.ipcp.has_output()
            || self.ipv6cp.has_output()
            || self.send_decision() != SendDecision::Wait
    }

    /// Drops everything in progress and returns every buffer to the pool, because the line hung up.
    pub fn reset(&mut self, pool: &mut Pool) {
        self.deframer.reset(pool);
        if let Some(packet) = self.line.packet.take() {
            pool.put(packet);
        }
        self.used.reset(pool);
        self.output.reset(pool);
        self.output.set_mtu(self.mtu);
        self.lcp.reset();
        self.authentication.reset();
        self.ipcp.reset();
        self.ipv6cp.reset();
        self.line = Line::default();
        self.pending_events = PendingEvents::default();
        self.compressor = None;
        self.decompressor = None;
        self.phase = Phase::Dead;
        self.close_reason = None;
    }
}

fn receive_control<O: negotiation::Options>(
    control: &mut Negotiation<O>,
    data: &[u8],
    mtu: usize,
    cx: &mut Cx<'_>,
) {
    if let Some(packet) = control.receive(data, cx) {
        control.refuse(&packet, mtu, cx);
    }
}

impl Line {
    fn begin(&mut self, format: Format, protocol: u16, information: &[u8], cx: &mut Cx<'_>) {
        self.encoded.clear();
        self.position = 0;
        self.is_active = true;
        if self.ended_at.is_none_or(|ended_at| cx.now - ended_at > IDLE_BEFORE_FLAG) {
            self.encoded.push(FLAG);
        }
        let escapes = format.encode(protocol, information, &mut self.encoded);
        cx.meter.add(Counter::LinkEscapesOut, escapes);
    }

    /// Appends at most `max_bytes` bytes of the frame. Returns whether the frame is complete.
    fn fill(&mut self, wire: &mut Vec<u8>, max_bytes: usize) -> bool {
        let rest = self.encoded.get(self.position..).unwrap_or_default();
        let chunk = rest.get(..max_bytes).unwrap_or(rest);
        wire.extend_from_slice(chunk);
        self.position += chunk.len();
        self.is_active = self.position < self.encoded.len();
        !self.is_active
    }
}
