//! A device that carries whole datagrams, such as a TUN: no framing, no escaping.
//!
//! One call of [`Datagram::receive`] processes one datagram from the device, and one call of
//! [`Datagram::transmit_into`] returns one datagram for the device. A datagram is counted and
//! dropped if it is longer than a buffer or if no buffer is free.

use super::queue::{OutputQueue, UsedQueue};
use super::{Event, QUEUE_LIMIT, charged};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::vec::Vec;

/// One end of a device that carries whole datagrams.
#[derive(Debug)]
pub struct Datagram {
    used: UsedQueue,
    output: OutputQueue,
}

impl Datagram {
    /// Returns a link for datagrams of at most `mtu` bytes, with queues of [`QUEUE_LIMIT`] packets.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self::with_queue_limit(mtu, QUEUE_LIMIT)
    }

    /// Returns a link for datagrams of at most `mtu` bytes, with queues of `limit` packets.
    #[must_use]
    pub fn with_queue_limit(mtu: usize, limit: usize) -> Self {
        Self { used: UsedQueue::new(limit), output: OutputQueue::new(mtu, limit) }
    }

    /// Copies one datagram from the device into a packet of the pool, and queues it as an event.
    pub fn receive(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        charged(cx, |cx| self.store(bytes, pool, cx));
    }

    fn store(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        if bytes.is_empty() {
            return;
        }
        if self.used.is_full() {
            return cx.meter.count(Counter::LinkPacketsRefused);
        }
        let Some(mut packet) = pool.take(cx.meter) else { return };
        if bytes.len() > self.output.mtu().min(packet.room()) {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return pool.put(packet);
        }
        packet.extend(bytes);
        cx.meter.count(Counter::LinkPacketsIn);
        self.used.push(packet);
    }

    /// Queues a datagram for output.
    ///
    /// # Errors
    ///
    /// Returns the packet, and counts it, if it is longer than the MTU or the queue is full.
    pub fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        charged(cx, |cx| self.output.accept(packet, cx))
    }

    /// Appends one whole datagram regardless of the limit, and returns its length. Returns 0 if no
    /// datagram is queued.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, _limit: usize, cx: &mut Cx<'_>) -> usize {
        charged(cx, |cx| {
            let Some(packet) = self.output.next() else { return 0 };
            let length = packet.len();
            wire.extend_from_slice(packet.data());
            cx.meter.count(Counter::LinkPacketsOut);
            self.output.finish(Event::Sent(packet));
            length
        })
    }

    /// Removes the first queued datagram. If the device has no space for it, call
    /// [`Self::put_back`].
    pub fn take_waiting(&mut self) -> Option<Packet> {
        self.output.take_first()
    }

    /// Puts a datagram back at the front of the queue, because the device had no space for it.
    pub fn put_back(&mut self, packet: Packet) {
        self.output.put_first(packet);
    }

    /// Returns whether the output queue is full, so that [`Self::send`] would reject a packet.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        self.output.event().or_else(|| self.used.event())
    }

    /// Returns `None`: a device that carries whole datagrams has no timers.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does nothing.
    pub fn timeout(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns the length of the longest datagram, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.output.mtu()
    }

    /// Returns whether a received datagram is queued among the events.
    #[must_use]
    pub fn has_received(&self) -> bool {
        !self.used.is_empty()
    }

    /// Returns whether a datagram is queued for the device.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.output.is_waiting()
    }

    /// Drops all datagrams and returns their buffers to the pool.
    pub fn reset(&mut self, pool: &mut Pool) {
        self.used.reset(pool);
        self.output.reset(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use crate::meter::Account;

    #[test]
    fn one_call_carries_one_whole_datagram_whatever_the_limit() {
        let mut link = Datagram::new(1500);
        let mut context = OwnedCx::default();
        link.send(Packet::from_slice(b"first"), &mut context.cx()).unwrap();
        link.send(Packet::from_slice(b"second"), &mut context.cx()).unwrap();
        let mut wire = Vec::new();
        assert_eq!(link.transmit_into(&mut wire, 1, &mut context.cx()), 5);
        assert_eq!(wire, b"first");
        assert_eq!(link.transmit_into(&mut wire, 1, &mut context.cx()), 6);
        assert_eq!(link.transmit_into(&mut wire, 1, &mut context.cx()), 0);
        assert!(!link.has_output());
    }

    #[test]
    fn an_empty_datagram_is_returned_after_sending() {
        let mut link = Datagram::new(1500);
        let mut context = OwnedCx::default();
        link.send(Packet::from_slice(b""), &mut context.cx()).unwrap();
        assert_eq!(link.transmit_into(&mut Vec::new(), 1, &mut context.cx()), 0);
        assert!(matches!(link.event(), Some(Event::Sent(_))));
    }

    #[test]
    fn a_datagram_that_fills_its_buffer_is_received_and_a_longer_one_is_dropped() {
        let mut link = Datagram::new(2000);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(1, 100);
        link.receive(&[7; 101], &mut pool, &mut context.cx());
        assert_eq!((pool.lent(), context.counted(Counter::LinkPacketsTooLong)), (0, 1));
        link.receive(&[7; 100], &mut pool, &mut context.cx());
        let Some(Event::Received(packet)) = link.event() else { panic!("a packet") };
        assert_eq!(packet.data(), [7; 100]);
    }

    #[test]
    fn a_datagram_is_dropped_and_counted_when_no_buffer_is_free() {
        let mut link = Datagram::new(1500);
        let mut context = OwnedCx::default();
        link.receive(b"x", &mut Pool::new(0, 100), &mut context.cx());
        assert!(link.event().is_none());
        assert_eq!(context.counted(Counter::PacketsRefused), 1);
    }

    #[test]
    fn full_queues_reject_and_count_packets() {
        let mut link = Datagram::with_queue_limit(1500, 1);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(8, 100);
        link.receive(b"x", &mut pool, &mut context.cx());
        link.receive(b"y", &mut pool, &mut context.cx());
        assert_eq!((pool.lent(), context.counted(Counter::LinkPacketsRefused)), (1, 1));
        link.send(Packet::from_slice(b"x"), &mut context.cx()).unwrap();
        assert!(link.send(Packet::from_slice(b"y"), &mut context.cx()).is_err());
        assert_eq!(context.counted(Counter::LinkPacketsDropped), 1);
    }

    #[test]
    fn a_packet_longer_than_the_mtu_is_returned() {
        let mut link = Datagram::new(4);
        let mut context = OwnedCx::default();
        let refused = link.send(Packet::from_slice(b"12345"), &mut context.cx()).unwrap_err();
        assert_eq!(refused.data(), b"12345");
        assert_eq!(context.counted(Counter::LinkPacketsTooLong), 1);
    }

    #[test]
    fn a_super_segment_may_be_longer_than_the_mtu() {
        let mut link = Datagram::new(4);
        let mut context = OwnedCx::default();
        let mut packet = Packet::from_slice(b"12345");
        packet.offload.segment_size = 2;
        link.send(packet, &mut context.cx()).unwrap();
        assert_eq!(link.take_waiting().unwrap().offload.segment_size, 2);
    }

    #[test]
    fn the_account_entered_before_a_call_is_entered_again_after_it() {
        let mut link = Datagram::new(1500);
        let mut context = OwnedCx::default();
        context.meter.enter(Account::Internet);
        link.send(Packet::from_slice(b"x"), &mut context.cx()).unwrap();
        assert_eq!(context.meter.enter(Account::Outside), Account::Internet);
    }

    #[test]
    fn reset_returns_every_buffer() {
        let mut link = Datagram::new(1500);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(8, 100);
        link.receive(b"x", &mut pool, &mut context.cx());
        link.send(pool.take(&mut context.meter).unwrap(), &mut context.cx()).unwrap();
        link.send(pool.take(&mut context.meter).unwrap(), &mut context.cx()).unwrap();
        link.transmit_into(&mut Vec::new(), 1, &mut context.cx());
        link.reset(&mut pool);
        assert_eq!(pool.lent(), 0);
        assert!(link.event().is_none());
    }
}
