//! The packet concentrator of TM-233 (§2.4, §6.3). It connects a personal computer on a serial line
//! (LLP) to a fast network, and has a few packet buffers.
//!
//! The concentrator implements [`Medium`] for a world. The bytes of the personal computer arrive
//! one by one over the serial line and are passed to an LLP instance. A complete packet is
//! forwarded to the network without delay. Datagrams from the network arrive as fast as the remote
//! host sends them, wait in the buffers, and are sent by LLP, one byte at a time. A packet is
//! dropped if no buffer is free. A packet that closely follows another may be dropped at random:
//! the thesis found this fault in its concentrator.

use net::Cx;
use net::link::{Event, Llp};
use net::meter::{Clock, Meter};
use net::packet::Pool;
use net::rng::Rng;
use net::time::{Duration, Instant};
use simulator::Side;
use simulator::medium::{Arrival, Medium};
use simulator::transmission_line::Line;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Parameters of a concentrator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The serial line to the personal computer.
    pub(super) line: Line,
    /// Maximum datagram length, in bytes.
    pub(super) mtu: usize,
    /// Number of packet buffers for both directions together.
    pub(super) buffers: usize,
    /// Time after a packet from the network during which the next packet may be dropped.
    pub(super) burst: Duration,
    /// Probability that a packet within `burst` of the previous one is dropped, in parts per
    /// million.
    pub(super) burst_loss_ppm: u32,
    /// One-way delay between the concentrator and the remote host.
    pub(super) path: Duration,
}

/// Counts of dropped packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Packets dropped for lack of a buffer.
    pub(super) overflows: u64,
    /// Packets dropped because they closely followed another packet.
    pub(super) in_bursts: u64,
}

/// Data in transit to the concentrator.
#[derive(Debug)]
enum Input {
    /// Bytes from the serial line.
    Line(Vec<u8>),
    /// A datagram from the network.
    Network(Vec<u8>),
}

/// A packet concentrator. Its personal computer is the user of the world.
#[derive(Debug)]
pub(super) struct Concentrator {
    settings: Settings,
    llp: Llp,
    pool: Pool,
    meter: Meter,
    /// Pending inputs, ordered by arrival time and then by sequence number.
    inputs: BTreeMap<(Instant, u64), Input>,
    input_count: u64,
    /// Time until which the serial line transmits a byte from the concentrator.
    sending_until: Instant,
    last_network_packet_at: Option<Instant>,
    dropped: Rc<Cell<Dropped>>,
}

impl Concentrator {
    /// Creates a concentrator that counts dropped packets in `dropped`.
    #[must_use]
    pub(super) fn new(settings: Settings, dropped: Rc<Cell<Dropped>>) -> Self {
        Self {
            settings,
            llp: Llp::with_queue_limit(settings.mtu, settings.buffers),
            pool: Pool::new(settings.buffers, settings.mtu),
            meter: Meter::new(Clock::None),
            inputs: BTreeMap::new(),
            input_count: 0,
            sending_until: Instant::ZERO,
            last_network_packet_at: None,
            dropped,
        }
    }

    /// Enables TCP header compression (RFC 1144) in the LLP of the concentrator. The LLP of the
    /// personal computer must also be configured for it.
    #[must_use]
    pub(super) fn with_header_compression(mut self) -> Self {
        self.llp = self.llp.with_header_compression();
        self
    }

    fn schedule_input(&mut self, at: Instant, input: Input) {
        self.input_count += 1;
        self.inputs.insert((at, self.input_count), input);
    }

    fn process_input(&mut self, input: Input, now: Instant, rng: &mut Rng) {
        match input {
            Input::Line(bytes) => {
                let mut cx = Cx { now, rng, meter: &mut self.meter };
                self.llp.receive(&bytes, &mut self.pool, &mut cx);
            }
            Input::Network(datagram) => self.enqueue_datagram(&datagram, now, rng),
        }
    }

    fn enqueue_datagram(&mut self, datagram: &[u8], now: Instant, rng: &mut Rng) {
        let before = self.last_network_packet_at.replace(now);
        let is_in_burst = before.is_some_and(|before| now - before < self.settings.burst);
        let mut dropped = self.dropped.get();
        if is_in_burst && rng.random_bool(self.settings.burst_loss_ppm) {
            dropped.in_bursts += 1;
        } else if let Some(mut packet) = self.pool.take(&mut self.meter) {
            packet.extend(datagram);
            let mut cx = Cx { now, rng, meter: &mut self.meter };
            if let Err(packet) = self.llp.send(packet, &mut cx) {
                dropped.overflows += 1;
                self.pool.put(packet);
            }
        } else {
            dropped.overflows += 1;
        }
        self.dropped.set(dropped);
    }

    /// Forwards packets received over the line to the network, and sends the next byte on the line
    /// if it is idle.
    fn forward_packets(&mut self, now: Instant, rng: &mut Rng) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut cx = Cx { now, rng, meter: &mut self.meter };
        if self.sending_until <= now {
            let mut bytes = Vec::new();
            if self.llp.transmit_into(&mut bytes, 1, &mut cx) > 0 {
                self.sending_until = now + self.settings.line.serial_time(bytes.len());
                arrivals.push(Arrival { to: Side::User, at: self.sending_until, bytes });
            }
        }
        while let Some(event) = self.llp.event() {
            let is_received = matches!(event, Event::Received(_));
            let Some(packet) = event.into_packet() else { continue };
            if is_received {
                let at = now + self.settings.path;
                let bytes = packet.data().to_vec();
                arrivals.push(Arrival { to: Side::Server, at, bytes });
            }
            self.pool.put(packet);
        }
        arrivals
    }
}

impl Medium for Concentrator {
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        _rng: &mut Rng,
    ) -> Vec<Arrival> {
        match from {
            Side::User => self.schedule_input(sent_at, Input::Line(bytes)),
            Side::Server => {
                self.schedule_input(sent_at + self.settings.path, Input::Network(bytes));
            }
        }
        Vec::new()
    }

    fn deadline(&self) -> Option<Instant> {
        let input = self.inputs.first_key_value().map(|((at, _), _)| *at);
        let line = self.llp.has_output().then_some(self.sending_until);
        [input, line, self.llp.deadline()].into_iter().flatten().min()
    }

    fn timeout(&mut self, now: Instant, rng: &mut Rng) -> Vec<Arrival> {
        while let Some(entry) = self.inputs.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let input = entry.remove();
            self.process_input(input, now, rng);
        }
        if self.llp.deadline().is_some_and(|deadline| deadline <= now) {
            self.llp.timeout(&mut Cx { now, rng, meter: &mut self.meter });
        }
        self.forward_packets(now, rng)
    }
}
