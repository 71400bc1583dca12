//! The queue of the packet concentrator of TM-233: one list with few buffers, and its fault.
//!
//! §6.3.3: if hosts send faster than the line, the concentrator "may run out of space and drop
//! packets"; the thesis does not state the number of its buffers. §6.3.1: "Whenever multiple
//! packets came into the packet concentrator in quick succession from a foreign host, the packet
//! concentrator often dropped packets other than the first." The thesis gives no probability and no
//! time for "often" and "quick succession", so both are parameters. A packet that arrives alone is
//! never dropped by the fault, which therefore did not affect the echo of characters.

use super::queued::Queued;
use net::Cx;
use net::packet::Packet;
use net::time::{Duration, Instant};
use std::collections::VecDeque;

/// Parameters of the concentrator of 1982.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concentrator1982 {
    /// Number of packet buffers.
    pub buffers: usize,
    /// Time after a packet within which the next packet is part of the same burst.
    pub burst: Duration,
    /// Probability that a packet of a burst other than the first is dropped, in parts per million.
    pub loss_ppm: u32,
}

impl Default for Concentrator1982 {
    /// Returns the parameters of `scenarios/tm233.toml`, with which the simulated clumps of figure
    /// 6-3 resemble those of the thesis.
    fn default() -> Self {
        Self { buffers: 16, burst: Duration::from_millis(20), loss_ppm: 350_000 }
    }
}

/// Reasons why the concentrator drops a packet.
#[derive(Debug)]
pub(super) enum Rejected {
    /// No buffer is free.
    NoBuffer(Packet),
    /// The packet closely followed another one.
    InBurst(Packet),
}

/// The queue.
#[derive(Debug)]
pub(super) struct FewBuffers {
    parameters: Concentrator1982,
    packets: VecDeque<Queued>,
    last_arrival: Option<Instant>,
}

impl FewBuffers {
    pub(super) const fn new(parameters: Concentrator1982) -> Self {
        Self { parameters, packets: VecDeque::new(), last_arrival: None }
    }

    pub(super) fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Rejected> {
        let last_arrival = self.last_arrival.replace(cx.now);
        let is_in_burst =
            last_arrival.is_some_and(|last| cx.now.since(last) < self.parameters.burst);
        if is_in_burst && cx.rng.random_bool(self.parameters.loss_ppm) {
            return Err(Rejected::InBurst(packet));
        }
        if self.packets.len() >= self.parameters.buffers {
            return Err(Rejected::NoBuffer(packet));
        }
        self.packets.push_back(Queued { packet, since: cx.now });
        Ok(())
    }

    pub(super) fn dequeue(&mut self) -> Option<Queued> {
        self.packets.pop_front()
    }
}
