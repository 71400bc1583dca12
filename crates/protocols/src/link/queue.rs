//! The two queues between a link and the layer above, each with its limit.
//!
//! TM-233 §5.4 calls the incoming one the used queue. The outgoing one also holds the packets
//! that are done with until their owner collects them, so that a station which forgets to
//! collect is refused instead of running out of buffers unseen.

use super::Event;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use alloc::collections::VecDeque;

/// Packets from the wire that the layer above has not taken yet.
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

    /// Returns whether there is no place for one packet more.
    ///
    /// A link asks before it takes a buffer for a packet; it receives one packet at a time, so
    /// the place is still there when the packet is whole.
    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= self.limit
    }

    /// Returns whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Puts a whole packet behind the others.
    pub(super) fn push(&mut self, packet: Packet) {
        self.packets.push_back(packet);
    }

    /// Takes the first packet as an event.
    pub(super) fn event(&mut self) -> Option<Event> {
        self.packets.pop_front().map(Event::Received)
    }

    /// Gives every packet back to the pool.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.packets.drain(..).for_each(|packet| pool.put(packet));
    }
}

/// Packets that wait for the wire, and those that are done with.
#[derive(Debug)]
pub(super) struct OutputQueue {
    waiting: VecDeque<Packet>,
    finished: VecDeque<Event>,
    /// How many packets were accepted and are not collected yet.
    held: usize,
    limit: usize,
    mtu: usize,
}

impl OutputQueue {
    /// Makes a queue of at most `limit` packets of at most `mtu` bytes.
    pub(super) fn new(mtu: usize, limit: usize) -> Self {
        Self { waiting: VecDeque::new(), finished: VecDeque::new(), held: 0, limit, mtu }
    }

    /// Returns the length of the longest packet, in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sets the length of the longest packet that is accepted from now on.
    pub(super) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Accepts a packet, or counts the refusal and gives it back.
    pub(super) fn accept(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        // The device cuts a super-segment into packets that are short enough.
        if packet.len() > self.mtu && packet.offload.segment_size == 0 {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return Err(packet);
        }
        if self.is_full() {
            cx.meter.count(Counter::LinkPacketsDropped);
            return Err(packet);
        }
        self.held += 1;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Returns whether the next packet would be refused.
    pub(super) fn is_full(&self) -> bool {
        self.held >= self.limit
    }

    /// Returns whether a packet waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the packet that goes to the wire next.
    pub(super) fn peek(&self) -> Option<&Packet> {
        self.waiting.front()
    }

    /// Takes the packet that goes to the wire next; [`Self::finish`] brings it back.
    pub(super) fn next(&mut self) -> Option<Packet> {
        self.waiting.pop_front()
    }

    /// Takes the first packet away for good.
    pub(super) fn take_first(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.held = self.held.saturating_sub(1);
        Some(packet)
    }

    /// Takes a packet in that goes before all others, also if there are as many as may be.
    pub(super) fn put_first(&mut self, packet: Packet) {
        self.held += 1;
        self.waiting.push_front(packet);
    }

    /// Keeps a packet that was sent or has failed until it is collected.
    pub(super) fn finish(&mut self, event: Event) {
        self.finished.push_back(event);
    }

    /// Takes the first packet that is done with.
    pub(super) fn event(&mut self) -> Option<Event> {
        let event = self.finished.pop_front()?;
        self.held = self.held.saturating_sub(1);
        Some(event)
    }

    /// Gives every packet back to the pool.
    ///
    /// The link has put the packet that it was sending into the queue's care before.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.waiting.drain(..).for_each(|packet| pool.put(packet));
        self.finished.drain(..).filter_map(Event::into_packet).for_each(|packet| pool.put(packet));
        self.held = 0;
    }
}
