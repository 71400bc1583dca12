//! The packet concentrator of TM-233 (§2.4, §6.3): LLP to a personal computer on one side, a fast
//! network on the other, and a few packet buffers between them.
//!
//! The concentrator implements [`Medium`] for a world. The bytes of the personal computer arrive
//! one by one over a serial line and go into an LLP instance; a complete packet is forwarded to the
//! network without delay. Datagrams of the network arrive as fast as the remote host sends them,
//! wait in the buffers, and leave by LLP, one byte at a time. A packet without a free buffer is
//! dropped. A packet that closely follows another is dropped at random: the fault that the thesis
//! found in its concentrator.

use crate::medium::{Arrival, Medium};
use crate::transmission_line::Line;
use crate::world::Side;
use protocols::Cx;
use protocols::link::{Event, Llp};
use protocols::meter::{Clock, Meter};
use protocols::packet::Pool;
use protocols::rng::Rng;
use protocols::time::{Duration, Instant};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Parameters of a concentrator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The serial line to the personal computer.
    pub line: Line,
    /// The longest datagram, in bytes.
    pub mtu: usize,
    /// Packet buffers for both directions.
    pub buffers: usize,
    /// Time after a packet from the network within which the next one may be dropped.
    pub burst: Duration,
    /// Probability that a packet within `burst` of the previous one is dropped, in parts per
    /// million.
    pub burst_loss_ppm: u32,
    /// Delay from the concentrator to the remote host, one way.
    pub path: Duration,
}

/// Counts of dropped packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets dropped for lack of a buffer.
    pub overflows: u64,
    /// Packets dropped because they closely followed another packet.
    pub in_bursts: u64,
}

/// Data that will arrive at the concentrator.
#[derive(Debug)]
enum Input {
    /// Bytes of the serial line.
    Line(Vec<u8>),
    /// A datagram from the network.
    Network(Vec<u8>),
}

/// A packet concentrator with one personal computer, which is the user of its world.
#[derive(Debug)]
pub struct Concentrator {
    settings: Settings,
    llp: Llp,
    pool: Pool,
    meter: Meter,
    /// Pending inputs in order of time.
    inputs: BTreeMap<(Instant, u64), Input>,
    numbered: u64,
    /// Time until which the serial line is busy with a byte from the concentrator.
    sending_until: Instant,
    last_of_network: Option<Instant>,
    dropped: Rc<Cell<Dropped>>,
}

impl Concentrator {
    /// Makes a concentrator that counts its drops in `dropped`.
    #[must_use]
    pub fn new(settings: Settings, dropped: Rc<Cell<Dropped>>) -> Self {
        Self {
            settings,
            llp: Llp::with_queue_limit(settings.mtu, settings.buffers),
            pool: Pool::new(settings.buffers, settings.mtu),
            meter: Meter::new(Clock::None),
            inputs: BTreeMap::new(),
            numbered: 0,
            sending_until: Instant::ZERO,
            last_of_network: None,
            dropped,
        }
    }

    /// Enables TCP header compression (RFC 1144) in the LLP of the concentrator; the LLP of the
    /// personal computer needs it too.
    #[must_use]
    pub fn with_header_compression(mut self) -> Self {
        self.llp = self.llp.with_header_compression();
        self
    }

    fn await_input(&mut self, at: Instant, input: Input) {
        self.numbered += 1;
        self.inputs.insert((at, self.numbered), input);
    }

    fn take(&mut self, input: Input, now: Instant, rng: &mut Rng) {
        match input {
            Input::Line(bytes) => {
                let mut cx = Cx { now, rng, meter: &mut self.meter };
                self.llp.receive(&bytes, &mut self.pool, &mut cx);
            }
            Input::Network(datagram) => self.take_datagram(&datagram, now, rng),
        }
    }

    fn take_datagram(&mut self, datagram: &[u8], now: Instant, rng: &mut Rng) {
        let before = self.last_of_network.replace(now);
        let is_close = before.is_some_and(|before| now - before < self.settings.burst);
        let mut dropped = self.dropped.get();
        if is_close && rng.happens(self.settings.burst_loss_ppm) {
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

    /// Forwards the data received over the line, and gives the line its next byte if it is idle.
    fn pump(&mut self, now: Instant, rng: &mut Rng) -> Vec<Arrival> {
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
            Side::User => self.await_input(sent_at, Input::Line(bytes)),
            Side::Server => self.await_input(sent_at + self.settings.path, Input::Network(bytes)),
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
            self.take(input, now, rng);
        }
        if self.llp.deadline().is_some_and(|deadline| deadline <= now) {
            self.llp.timeout(&mut Cx { now, rng, meter: &mut self.meter });
        }
        self.pump(now, rng)
    }
}
