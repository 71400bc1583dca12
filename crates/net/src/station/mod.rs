//! One host: its layers, and the steps between them.
//!
//! # The steps
//!
//! Bytes from the wire enter the link as they arrive ([`Station::receive`], the interrupt level of
//! TM-233). All other work is done in four steps, which one of the drivers calls:
//!
//! | step | does | in TM-233 |
//! |---|---|---|
//! | [`Step::Network`] | passes one datagram from the link up to its transport | network task |
//! | [`Step::Timer`] | processes the timers that are due | timer signal |
//! | [`Step::User`] | runs the application | user task |
//! | [`Step::Send`] | passes all pending output down to the link | send task |
//!
//! The order is network, user, send: received data is not answered immediately. The answer is
//! queued, the application runs, and then echo, acknowledgment and window update are sent in one
//! segment (TM-233 §3.3). All pending input is processed before anything is sent, unless the
//! application has input of its own, such as a keystroke.
//!
//! A station does not depend on the driver that calls its steps.

mod control_structure;
pub mod ethernet;
#[cfg(test)]
mod flow_tests;
mod layers;
mod misdelivered;
mod multiqueue;
#[cfg(test)]
mod path_mtu_tests;
#[cfg(test)]
mod relayed_tests;
mod scheduler;
#[cfg(test)]
mod segments_tests;
mod stream;

pub use control_structure::Control;
pub use ethernet::Ethernet;
pub use layers::Layers;
pub use multiqueue::Misdelivered;
pub use scheduler::Scheduler;
pub use stream::{Opening, TcpStreamApp};

use crate::checksum::Routines;
use crate::cx::Cx;
use crate::internet::Internet;
use crate::internet::icmp::EchoReply;
use crate::link::{self, Link};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use crate::transport::tcp::{self, Tcp};
use crate::transport::udp::{self, Udp};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Maximum datagram length in bytes for a device that segments super-segments.
const DATAGRAM_MAX: usize = 65_535;
/// Maximum length of the frame headers before a datagram, in bytes.
const FRAME_HEADERS_MAX: usize = 32;

/// Settings of a station.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// IPv4 address; 0.0.0.0 if the link must request an address.
    pub address: Ipv4Addr,
    /// Prefix length of the network, in bits.
    pub prefix_len: u8,
    /// Number of packet buffers.
    pub packets: usize,
    /// Maximum number of TCP connections, in any state.
    pub connections: usize,
    /// Whether the device segments TCP super-segments (TSO) and delivers received super-segments.
    pub tso: bool,
    /// Whether the device segments UDP super-datagrams (USO).
    pub uso: bool,
    /// Whether the device finishes the checksums of sent packets and verifies the checksums of
    /// received packets.
    pub checksum_offload: bool,
    /// The checksum and copy routines to use. The processor determines which ones are fastest.
    pub routines: Routines,
}

impl Default for Settings {
    /// Returns the settings of a station that must request its address, with the packet buffers of
    /// TM-233 §5.4 and a device without offloads.
    fn default() -> Self {
        Self {
            address: Ipv4Addr::UNSPECIFIED,
            prefix_len: 0,
            packets: Pool::DEFAULT_LIMIT,
            connections: 1024,
            tso: false,
            uso: false,
            checksum_offload: false,
            routines: Routines::PORTABLE,
        }
    }
}

/// A datagram for a device with gather output: the packet, and the data that is not in the packet.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The headers, and the data unless it is in `tail`.
    pub packet: &'a Packet,
    /// Data to send directly after the packet.
    pub tail: [&'a [u8]; 2],
}

/// A step of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Passes one datagram from the link up to its transport.
    Network,
    /// Processes the timers that are due.
    Timer,
    /// Runs the application.
    User,
    /// Passes all pending output down to the link.
    Send,
}

/// A program that uses the transports of a station.
pub trait Application {
    /// Returns whether the application has input that did not arrive through the transports, such
    /// as a keystroke.
    fn wants_to_run(&self) -> bool;

    /// Runs until there is nothing more to do now. [`Self::wants_to_run`] must be false afterwards;
    /// otherwise the scheduler runs nothing else.
    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>);

    /// Returns the time at which the application must run next even without an event.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// One host.
#[derive(Debug)]
pub struct Station {
    link: Link,
    /// The layers above the link.
    pub layers: Layers,
    /// A received packet or other event of the link, to be processed by [`Step::Network`].
    pending_event: Option<link::Event>,
}

impl Station {
    /// Creates a host with one link.
    #[must_use]
    pub fn new(link: Link, settings: Settings, cx: &mut Cx<'_>) -> Self {
        let mtu = u16::try_from(link.mtu()).unwrap_or(u16::MAX);
        let internet = Internet::new(settings.address, settings.prefix_len, mtu);
        let Settings { tso, checksum_offload, routines, .. } = settings;
        let lower = tcp::LowerLevel { mtu: internet.mtu(), tso, checksum_offload, routines };
        let mut tcp = Tcp::new(lower, cx);
        tcp.set_connections_max(settings.connections);
        let packet_len = if tso { DATAGRAM_MAX + FRAME_HEADERS_MAX } else { link.buffer_len() };
        // A quarter of the packets, so that an application that does not read its datagrams leaves
        // three quarters to other sockets and connections.
        let datagrams = (settings.packets / 4).max(1);
        let bytes = (datagrams * packet_len).max(udp::Limits::default().bytes);
        let mut udp = Udp::new(udp::Limits { datagrams, bytes, ..udp::Limits::default() });
        let uso = settings.uso;
        udp.set_lower_level(udp::LowerLevel { uso, checksum_offload, routines });
        let layers = Layers {
            pool: Pool::new(settings.packets, packet_len),
            internet,
            tcp,
            udp,
            ethernet: None,
            echo_reply: None,
            outgoing: VecDeque::new(),
            raw: VecDeque::new(),
            multiqueue: None,
            has_events: true,
        };
        Self { link, layers, pending_event: None }
    }

    /// Attaches the station to an Ethernet segment; its link must carry frames. The segment
    /// provides the addresses, and the address in the station's own settings is ignored.
    pub fn join_segment(&mut self, settings: ethernet::Settings, cx: &mut Cx<'_>) {
        let mtu = self.layers.internet.mtu();
        self.layers.ethernet = Some(Box::new(Ethernet::new(settings, mtu, cx)));
        for everywhere in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            self.layers.internet.routes_mut().remove(everywhere, 0, None);
        }
        let own_address = self.layers.internet.address();
        self.layers.internet.remove_address(own_address.into());
        self.layers.process_ethernet_events(cx);
    }

    /// Returns the host's address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.layers.internet.address()
    }

    /// Returns the link.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the link for modification, for operations of its specific kind.
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Removes and returns the last reply to an echo request of this host.
    pub fn take_echo_reply(&mut self) -> Option<EchoReply> {
        self.layers.take_echo_reply()
    }

    /// Returns the Internet layer.
    pub fn internet_mut(&mut self) -> &mut Internet {
        &mut self.layers.internet
    }

    /// Returns the number of packet buffers in use.
    #[must_use]
    pub fn packets_in_use(&self) -> usize {
        self.layers.pool.lent()
    }

    /// Processes bytes from the wire. If the link carries datagrams, `bytes` is one whole datagram.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        self.link.receive(bytes, &mut self.layers.pool, cx);
    }

    /// Appends at most `limit` bytes of output for the wire to `wire` and returns their number. If
    /// the link carries datagrams, appends one whole datagram. Call until nothing is appended.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        let len = self.link.transmit_into(wire, limit, cx);
        self.collect();
        len
    }

    /// Returns whether input is pending for [`Step::Network`].
    pub fn has_input(&mut self) -> bool {
        self.collect();
        self.pending_event.is_some() || self.layers.internet.has_looped()
    }

    /// Returns whether exactly one input is pending for [`Step::Network`].
    pub(super) fn has_last_input(&mut self) -> bool {
        self.has_input() && !(self.pending_event.is_some() && self.link.has_received())
    }

    /// Reclaims the buffers that the link has sent, because the next input needs them. Received
    /// packets stay queued for [`Step::Network`].
    fn collect(&mut self) {
        while self.pending_event.is_none() {
            match self.link.event() {
                Some(link::Event::Sent(packet) | link::Event::Failed(packet)) => {
                    self.layers.pool.put(packet);
                }
                Some(pending_event) => self.pending_event = Some(pending_event),
                None => return,
            }
        }
    }

    /// Returns whether output may be pending for [`Step::Send`] and the link has space for it.
    /// While the link is full or no packet buffer is free, returns false until the link has sent
    /// something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.layers.has_output() && !self.link.is_full()
    }

    /// Returns whether the transports have had activity since the application last ran.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.layers.has_events
    }

    /// Returns the time at which [`Step::Timer`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.link.deadline(), self.layers.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Runs one step.
    pub fn step(&mut self, step: Step, application: &mut dyn Application, cx: &mut Cx<'_>) {
        match step {
            Step::Network => self.run_network_step(cx),
            Step::Timer => self.run_timer_step(cx),
            Step::User => {
                self.layers.has_events = false;
                application.run(&mut self.layers, cx);
            }
            Step::Send => self.run_send_step(cx),
        }
    }

    fn run_network_step(&mut self, cx: &mut Cx<'_>) {
        if !self.has_input() {
            return;
        }
        match self.pending_event.take() {
            Some(link::Event::Received(packet)) => self.layers.receive(packet, cx),
            Some(link::Event::Sent(packet) | link::Event::Failed(packet)) => {
                self.layers.pool.put(packet);
            }
            Some(link::Event::Address(address)) => {
                self.layers.internet.set_address(Ipv4Addr::from(address), 0);
                self.layers.has_events = true;
            }
            Some(
                link::Event::InterfaceIdentifier(_)
                | link::Event::NetworkUp
                | link::Event::NetworkDown,
            ) => {}
            None => self.layers.receive_looped(cx),
        }
    }

    fn run_timer_step(&mut self, cx: &mut Cx<'_>) {
        if self.link.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.link.timeout(cx);
        }
        self.layers.timer(cx);
    }

    fn run_send_step(&mut self, cx: &mut Cx<'_>) {
        while !self.link.is_full() {
            let Some(packet) = self.layers.transmit(cx) else { return };
            if let Err(packet) = self.link.send(packet, cx) {
                // The packet is longer than the link accepts, and the link has counted it.
                self.layers.pool.put(packet);
            }
        }
        self.layers.tcp.output_stopped();
    }

    /// Allocates an empty packet into which a device reads a datagram.
    pub fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.layers.lend(cx)
    }

    /// Returns an unused packet to the pool.
    pub fn take_back(&mut self, packet: Packet) {
        self.layers.pool.put(packet);
    }

    /// Processes one whole datagram that a device has read into a packet of [`Self::lend`]. The
    /// datagram bypasses the link's queue.
    pub fn receive_packet(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::LinkPacketsIn);
        self.layers.receive(packet, cx);
    }

    /// Passes all pending output to a device that accepts whole datagrams, bypassing the link's
    /// queue. If `device` returns `false` because it has no space, the datagram is queued and sent
    /// first at the next call.
    pub fn transmit_to(
        &mut self,
        device: &mut dyn FnMut(Frame<'_>, &mut Cx<'_>) -> bool,
        cx: &mut Cx<'_>,
    ) {
        self.transmit_frames_to(&mut |_| {}, device, cx);
    }

    /// Passes all pending output to a device like [`Self::transmit_to`]. `frame` prepends the frame
    /// header of the device to each datagram.
    pub fn transmit_frames_to(
        &mut self,
        frame: &mut dyn FnMut(&mut Packet),
        device: &mut dyn FnMut(Frame<'_>, &mut Cx<'_>) -> bool,
        cx: &mut Cx<'_>,
    ) {
        while let Some(packet) = self.take_waiting_packet() {
            let is_accepted = device(Frame { packet: &packet, tail: [&[], &[]] }, cx);
            self.finish_transmission(packet, is_accepted, cx);
            if !is_accepted {
                return;
            }
        }
        while !self.link.is_full() {
            let Some((mut packet, tail)) = self.layers.transmit_in_parts(cx) else { return };
            frame(&mut packet);
            let tail = tail.map_or([&[][..], &[][..]], |tail| self.layers.tcp.tail(&tail));
            let is_accepted = device(Frame { packet: &packet, tail }, cx);
            if !is_accepted {
                packet.gather(tail);
            }
            self.finish_transmission(packet, is_accepted, cx);
            if !is_accepted {
                break;
            }
            if self.layers.is_output_empty() {
                return;
            }
        }
        self.layers.tcp.output_stopped();
    }

    /// Returns the first packet for which the device had no space at an earlier call.
    fn take_waiting_packet(&mut self) -> Option<Packet> {
        match &mut self.link {
            Link::Datagram(link) => link.take_waiting(),
            Link::Ethernet(link) => link.take_waiting(),
            Link::Llp(_) | Link::Ppp(_) | Link::Slip(_) => None,
        }
    }

    fn finish_transmission(&mut self, packet: Packet, is_accepted: bool, cx: &mut Cx<'_>) {
        if is_accepted {
            cx.meter.count(Counter::LinkPacketsOut);
            return self.layers.pool.put(packet);
        }
        match &mut self.link {
            Link::Datagram(link) => link.put_back(packet),
            Link::Ethernet(link) => link.put_back(packet),
            Link::Llp(_) | Link::Ppp(_) | Link::Slip(_) => {}
        }
    }
}
