//! One host: its layers, and the steps between them.
//!
//! # The steps
//!
//! Bytes from the wire go into the link as they come ([`Station::receive`], what interrupt level
//! was in TM-233). Everything else happens in four steps, which one of the drivers calls:
//!
//! | step | does | in TM-233 |
//! |---|---|---|
//! | [`Step::Network`] | carries one datagram from the link up to its transport | network task |
//! | [`Step::Timer`] | lets the timers that are due run out | timer signal |
//! | [`Step::User`] | runs the application | user task |
//! | [`Step::Send`] | carries all that is owed down to the link | send task |
//!
//! The order is network, user, send: what arrives is not answered where it arrives. The answer is
//! owed, the application runs, and then echo, acknowledgment and window leave in one segment
//! (TM-233 §3.3). All input that waits is taken before anything is sent, as long as the
//! application does not want to run.
//!
//! A station does not know who calls its steps. The drivers differ in just that.

#[cfg(test)]
mod flow_tests;
mod scheduler;
mod stream;
#[cfg(test)]
mod tests;

pub use scheduler::Scheduler;
pub use stream::{Carried, Opening};

use crate::cx::Cx;
use crate::internet::icmp::{EchoReply, Unreachable};
use crate::internet::ipv4::Protocol;
use crate::internet::{self, Internet};
use crate::link::{self, Link};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use crate::transport::tcp::Tcp;
use crate::transport::udp::{Limits, Udp};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Bytes of IPv4 and TCP header without options: what a segment's data has not (RFC 9293 §3.7.1).
const FIXED_HEADERS_LEN: u16 = 40;

/// What a station is.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its address; 0.0.0.0 if the link has to ask for it.
    pub address: Ipv4Addr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
    /// How many packet buffers it has.
    pub packets: usize,
}

/// A step of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One datagram goes from the link up to its transport.
    Network,
    /// The timers that are due run out.
    Timer,
    /// The application runs.
    User,
    /// All that is owed goes down to the link.
    Send,
}

/// The transports of a station, as the application sees them.
#[derive(Debug)]
pub struct Transports {
    /// TCP.
    pub tcp: Tcp,
    /// UDP.
    pub udp: Udp,
}

/// What runs on a station above its transports.
pub trait Application {
    /// Returns whether something waits for the application that did not come by the transports:
    /// a key was struck.
    fn wants_to_run(&self) -> bool;

    /// Runs until there is nothing more to do now: it must not want to run again at once, or the
    /// scheduler runs nothing else.
    fn run(&mut self, transports: &mut Transports, cx: &mut Cx<'_>);

    /// Returns when it wants to run next, if nothing happens before.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// One host.
#[derive(Debug)]
pub struct Station {
    pool: Pool,
    link: Link,
    internet: Internet,
    /// The transports.
    pub transports: Transports,
    /// News of the link that waits for [`Step::Network`].
    arrived: Option<link::Event>,
    /// The last answer to an echo request of ours that nobody has taken.
    echo_reply: Option<EchoReply>,
    has_news: bool,
}

impl Station {
    /// Makes a host with one link.
    #[must_use]
    pub fn new(link: Link, settings: Settings, cx: &mut Cx<'_>) -> Self {
        let mtu = u16::try_from(link.mtu()).unwrap_or(u16::MAX);
        let internet = Internet::new(settings.address, settings.prefix_len, mtu);
        let tcp = Tcp::new(internet.mtu() - FIXED_HEADERS_LEN, cx);
        let udp = Udp::new(Limits::default());
        Self {
            pool: Pool::new(settings.packets, link.mtu()),
            link,
            internet,
            transports: Transports { tcp, udp },
            arrived: None,
            echo_reply: None,
            has_news: true,
        }
    }

    /// Returns our address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.internet.address()
    }

    /// Returns the link.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the link, to ask it what only its kind can do.
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Returns the last answer to an echo request of ours, once.
    pub fn take_echo_reply(&mut self) -> Option<EchoReply> {
        self.echo_reply.take()
    }

    /// Returns the Internet layer.
    pub fn internet_mut(&mut self) -> &mut Internet {
        &mut self.internet
    }

    /// Returns how many packet buffers are in use.
    #[must_use]
    pub fn packets_lent(&self) -> usize {
        self.pool.lent()
    }

    /// Takes bytes from the wire; for a link of datagrams, one whole datagram.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        self.link.receive(bytes, &mut self.pool, cx);
    }

    /// Appends at most `limit` bytes for the wire to `wire` and returns how many; for a link of
    /// datagrams, one whole datagram. Call until nothing is appended.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        let len = self.link.transmit_into(wire, limit, cx);
        self.collect();
        len
    }

    /// Returns whether something waits for [`Step::Network`].
    pub fn has_input(&mut self) -> bool {
        self.collect();
        self.arrived.is_some()
    }

    /// Takes back at once the buffers that have gone out, because what arrives next needs them,
    /// and leaves what has arrived to [`Step::Network`].
    fn collect(&mut self) {
        while self.arrived.is_none() {
            match self.link.event() {
                Some(link::Event::Sent(packet) | link::Event::Failed(packet)) => {
                    self.pool.put(packet);
                }
                Some(arrived) => self.arrived = Some(arrived),
                None => return,
            }
        }
    }

    /// Returns whether something may wait for [`Step::Send`], and there is room for it: a full
    /// link or a lack of packet buffers ends when the link has sent something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        let has_segments = self.transports.tcp.has_output() && !self.pool.is_exhausted();
        (has_segments || self.internet.has_output()) && !self.link.is_full()
    }

    /// Returns whether the transports have had something to do with since the application ran.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Returns when [`Step::Timer`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.link.deadline(), self.transports.tcp.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Does one step.
    pub fn step(&mut self, step: Step, application: &mut dyn Application, cx: &mut Cx<'_>) {
        match step {
            Step::Network => self.network(cx),
            Step::Timer => self.timer(cx),
            Step::User => {
                self.has_news = false;
                application.run(&mut self.transports, cx);
            }
            Step::Send => self.send(cx),
        }
    }

    fn network(&mut self, cx: &mut Cx<'_>) {
        if !self.has_input() {
            return;
        }
        match self.arrived.take() {
            Some(link::Event::Received(packet)) => self.deliver(packet, cx),
            Some(link::Event::Sent(packet) | link::Event::Failed(packet)) => self.pool.put(packet),
            Some(link::Event::Address(address)) => {
                self.internet.set_address(Ipv4Addr::from(address), 0);
                self.has_news = true;
            }
            Some(
                link::Event::InterfaceIdentifier(_)
                | link::Event::NetworkUp
                | link::Event::NetworkDown,
            )
            | None => {}
        }
    }

    fn deliver(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let Some(datagram) = self.internet.receive(packet, &mut self.pool, cx) else {
            return self.take_internet_news(cx);
        };
        self.has_news = true;
        match datagram.header.protocol {
            Protocol::Tcp => {
                let header = &datagram.header;
                let data = datagram.packet.data();
                self.transports.tcp.receive(header.source, header.destination, data, cx);
                self.pool.put(datagram.packet);
            }
            Protocol::Udp => {
                if let Err(datagram) = self.transports.udp.receive(datagram, &mut self.pool, cx) {
                    self.internet.report(datagram, Unreachable::Port, &mut self.pool, cx);
                }
            }
            Protocol::Icmp | Protocol::Other(_) => self.pool.put(datagram.packet),
        }
    }

    fn take_internet_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.internet.event() {
            self.has_news = true;
            match event {
                internet::Event::Error(error) => {
                    self.transports.udp.receive_error(&error);
                    self.transports.tcp.icmp_error(&error, cx);
                }
                internet::Event::EchoReply(reply) => self.echo_reply = Some(reply),
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>) {
        if self.link.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.link.timeout(cx);
        }
        if self.transports.tcp.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.transports.tcp.timeout(cx);
            self.has_news = true;
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        while !self.link.is_full() {
            let Some(packet) = self.next_datagram(cx) else { return };
            if let Err(packet) = self.link.send(packet, cx) {
                // Longer than the link takes, which has counted it.
                self.pool.put(packet);
            }
        }
    }

    fn next_datagram(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.internet.transmit(cx) {
            return Some(packet);
        }
        loop {
            let segment = self.transports.tcp.transmit(&mut self.pool, cx)?;
            let (destination, pool) = (segment.destination, &mut self.pool);
            let sent = self.internet.send(segment.packet, destination, Protocol::Tcp, 0, pool, cx);
            match sent {
                Ok(packet) => return Some(packet),
                // TCP sends it again when its timer runs out.
                Err(_) => cx.meter.count(Counter::IpOutputDropped),
            }
        }
    }
}
