//! The two queues between a link and the layer above. Each has its own limit.
//!
//! TM-233 §5.4 calls the queue of received packets the used queue. The output queue also stores
//! sent and failed packets until their owner collects them. If a station never collects them, the
//! queue becomes full and rejects further packets.

use super::Event;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use alloc::collections::VecDeque;

/// Received packets that the layer above has not collected yet.
#[derive(Debug)]
pub(super) struct UsedQueue {
    packets: VecDeque<Packet>,
    limit: usize,
}

impl UsedQueue {
    /// Makes a queue of at most `limit` packets.
    pub(super) fn new(limit: usize) -> Self {
        Self { packets: VecDeque::new(), limit }
    }

    /// Returns whether there is no space for another packet.
    ///
    /// A link checks this before it allocates a buffer for a packet. It receives one packet at a
    /// time, so the space is still available when the packet is complete.
    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= self.limit
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Appends a complete packet.
    pub(super) fn push(&mut self, packet: Packet) {
        self.packets.push_back(packet);
    }

    /// Removes the first packet and returns it as an event.
    pub(super) fn event(&mut self) -> Option<Event> {
        self.packets.pop_front().map(Event::Received)
    }

    /// Returns every packet to the pool.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.packets.drain(..).for_each(|packet| pool.put(packet));
    }
}

/// Packets queued for the wire, and packets that were sent or have failed.
#[derive(Debug)]
pub(super) struct OutputQueue {
    waiting: VecDeque<Packet>,
    finished: VecDeque<Event>,
    /// Number of accepted packets that have not been collected yet.
    uncollected: usize,
    limit: usize,
    mtu: usize,
}

impl OutputQueue {
    /// Makes a queue of at most `limit` packets of at most `mtu` bytes.
    pub(super) fn new(mtu: usize, limit: usize) -> Self {
        Self { waiting: VecDeque::new(), finished: VecDeque::new(), uncollected: 0, limit, mtu }
    }

    /// Returns the length of the longest packet, in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sets the length of the longest packet that is accepted from now on.
    pub(super) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Accepts a packet, or counts the rejection and returns the packet.
    pub(super) fn accept(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        // A super-segment may be longer than the MTU: the device splits it into shorter packets.
        if packet.len() > self.mtu && packet.offload.segment_size == 0 {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return Err(packet);
        }
        if self.is_full() {
            cx.meter.count(Counter::LinkPacketsDropped);
            return Err(packet);
        }
        self.uncollected += 1;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Returns whether the next packet would be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.uncollected >= self.limit
    }

    /// Returns whether a packet is queued.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the next packet for the wire.
    pub(super) fn peek(&self) -> Option<&Packet> {
        self.waiting.front()
    }

    /// Removes and returns the next packet for the wire. The packet still counts towards the limit
    /// until the link returns it with [`Self::finish`].
    pub(super) fn next(&mut self) -> Option<Packet> {
        self.waiting.pop_front()
    }

    /// Removes and returns the next packet for the wire. The packet no longer counts towards the
    /// limit.
    pub(super) fn take_first(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.uncollected = self.uncollected.saturating_sub(1);
        Some(packet)
    }

    /// Puts a packet at the front, even if the queue is full.
    pub(super) fn put_first(&mut self, packet: Packet) {
        self.uncollected += 1;
        self.waiting.push_front(packet);
    }

    /// Stores a sent or failed packet until it is collected.
    pub(super) fn finish(&mut self, event: Event) {
        self.finished.push_back(event);
    }

    /// Removes the first sent or failed packet.
    pub(super) fn event(&mut self) -> Option<Event> {
        let event = self.finished.pop_front()?;
        self.uncollected = self.uncollected.saturating_sub(1);
        Some(event)
    }

    /// Returns every packet to the pool.
    ///
    /// If the link is sending a packet, it must first put that packet back into the queue.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.waiting.drain(..).for_each(|packet| pool.put(packet));
        self.finished.drain(..).filter_map(Event::into_packet).for_each(|packet| pool.put(packet));
        self.uncollected = 0;
    }
}
