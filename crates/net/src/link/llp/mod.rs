//! LLP, the low level protocol of TM-233 §5.3, between a personal computer and the packet
//! concentrator, with the codes and times of MIT's PC/IP (SLFP in Merit's description).
//!
//! Theory of operation. Four bytes of the line are special: REQ requests to send a packet, ACK
//! allows it, END ends it, and ESC precedes a data byte that would look like one of the four. One
//! packet is sent as
//!
//! ```text
//! sender    REQ                header, data (escaped)  END
//! receiver        ACK
//! ```
//!
//! and both directions do this at the same time, independently: an ACK may be between any two bytes
//! of a packet in the other direction, but never between ESC and its second byte. The protocol also
//! allows a REQ inside a packet. This sender never sends one, because it sends one packet at a
//! time. The receiver of a REQ inside a packet assumes that the END of the packet was lost.
//!
//! The receiver allocates a buffer when the REQ arrives. Without one it does not answer, and the
//! sender repeats the REQ: this is the flow control of the line. A REQ inside a packet drops the
//! bytes received so far and starts over in the same buffer. A packet with an undefined escape, or
//! longer than its buffer, is dropped at once, and the bytes until the next REQ are unexpected;
//! unexpected bytes are counted and dropped. There is no checksum: damage by the line to ordinary
//! bytes is only detected by the layers above.
//!
//! Times are in ticks of the personal computer's clock, 18.2 per second. A REQ without an ACK is
//! repeated after 9 ticks, 10 times, and then the packet has failed. The time limit of a packet is
//! 130 ticks. The receiver drops an incomplete packet 130 ticks after the REQ. The sender gives up
//! 130 ticks after the ACK, when the receiver has already dropped the packet. On a line that needs
//! longer for a packet of the MTU with every byte escaped, the MTU must be smaller.
//!
//! Each packet starts with a local header of four bytes, 2 1 0 0 for an Internet datagram and 2 3 0
//! 0 for an address. A personal computer that does not know its Internet address sends the header
//! alone, and the packet concentrator answers with the header and the address. The timeout of the
//! answer is six seconds. The request is not repeated automatically. After the timeout
//! [`Llp::is_address_request_pending`] returns false, and the owner decides whether to repeat the
//! request.
//!
//! Header compression (RFC 1144) is our extension, off unless both ends are configured for it. A
//! segment that fills a slot has the local header 2 112 0 0, after the 0x70 of SLIP. A compressed
//! segment has no local header: its first byte is the mask with the uppermost bit set, and no local
//! header begins with such a byte. An end without the extension counts both kinds of segments as
//! unknown headers. With compression a typed character takes seven bytes instead of 48, including
//! REQ, ACK and END.
//!
//! The files `receiver` and `sender` are the two directions. [`Llp`] splits the bytes of the line
//! and passes those of incoming packets to the receiver and the ACKs to the sender.

mod codes;
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use codes::{
    ACK, ACK_TIMEOUT, ADDRESS_HEADER, ADDRESS_TIMEOUT, COMPRESSED_TCP, END, ESC, IP_HEADER,
    PACKET_TIMEOUT, REQ, RETRIES, UNCOMPRESSED_TCP_HEADER, ticks,
};

use self::codes::ordinary_run;
use self::receiver::{Local, Receiver};
use self::sender::Sender;
use super::queue::{OutputQueue, UsedQueue};
use super::vj::{Compressor, Decompressor, SLOTS_MAX};
use super::{Event, QUEUE_LIMIT, charged};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::vec::Vec;

/// One end of a serial line with LLP.
#[derive(Debug)]
pub struct Llp {
    receiver: Receiver,
    sender: Sender,
    used: UsedQueue,
    output: OutputQueue,
    /// The address that this end assigns to the peer on request.
    peer_address: Option<[u8; 4]>,
    /// The local address that the peer has reported, until [`Self::event`] returns it.
    address: Option<[u8; 4]>,
}

impl Llp {
    /// Returns a link for datagrams of at most `mtu` bytes, with queues of [`QUEUE_LIMIT`] packets.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self::with_queue_limit(mtu, QUEUE_LIMIT)
    }

    /// Returns a link for datagrams of at most `mtu` bytes, with queues of `limit` packets.
    #[must_use]
    pub fn with_queue_limit(mtu: usize, limit: usize) -> Self {
        Self {
            receiver: Receiver::default(),
            sender: Sender::default(),
            used: UsedQueue::new(limit),
            output: OutputQueue::new(mtu, limit),
            peer_address: None,
            address: None,
        }
    }

    /// Enables the compression of TCP headers (RFC 1144), an extension of the protocol. The peer
    /// must enable it too.
    #[must_use]
    pub fn with_header_compression(mut self) -> Self {
        self.sender.compressor = Some(Compressor::new(SLOTS_MAX, true));
        self.receiver.decompressor = Some(Decompressor::new(SLOTS_MAX));
        self
    }

    /// Sets the address that this end assigns to the peer on request. With an address, this end is
    /// a packet concentrator. With `None`, requests are counted as unknown headers and not
    /// answered.
    pub fn set_peer_address(&mut self, address: Option<[u8; 4]>) {
        self.peer_address = address;
    }

    /// Requests the local Internet address from the peer, unless a request is pending.
    ///
    /// The answer is reported as [`Event::Address`].
    pub fn request_address(&mut self, cx: &mut Cx<'_>) {
        charged(cx, |_| self.sender.request_address());
    }

    /// Returns whether an address request is neither answered nor timed out.
    #[must_use]
    pub fn is_address_request_pending(&self) -> bool {
        self.sender.is_address_request_pending()
    }

    /// Processes bytes from the line, split anywhere.
    pub fn receive(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        charged(cx, |cx| {
            self.take_apart(bytes, pool, cx);
            self.receiver.return_spare(pool);
        });
    }

    fn take_apart(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (run, tail) = rest.split_at(ordinary_run(rest));
            if !run.is_empty() {
                self.receiver.data(run, self.output.mtu(), pool, cx);
            }
            let Some((special, after)) = tail.split_first() else { return };
            match *special {
                REQ => self.receiver.request(&self.used, pool, cx),
                ACK => {
                    self.receiver.check_acknowledgment(cx);
                    self.sender.acknowledged(cx);
                }
                END => self.packet_ends(pool, cx),
                _ => self.receiver.escape(pool, cx),
            }
            rest = after;
        }
    }

    fn packet_ends(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        match self.receiver.end(&mut self.used, self.output.mtu(), pool, cx) {
            None => {}
            Some(Local::Request) => match self.peer_address {
                Some(address) => self.sender.queue_reply(address),
                None => cx.meter.count(Counter::LinkHeadersUnknown),
            },
            Some(Local::Reply(address)) => {
                if self.sender.address_arrived() {
                    self.address = Some(address);
                } else {
                    cx.meter.count(Counter::LinkHeadersUnknown);
                }
            }
        }
    }

    /// Queues a datagram for output.
    ///
    /// # Errors
    ///
    /// Returns the packet, and counts it, if it is longer than the MTU or the queue is full.
    pub fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        charged(cx, |cx| self.output.accept(packet, cx))
    }

    /// Appends at most `limit` bytes for the line, and returns their number.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        charged(cx, |cx| self.fill(wire, limit, cx))
    }

    fn fill(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        let start = wire.len();
        let end = start.saturating_add(limit);
        // The second byte of an escape has precedence over an ACK, and an ACK over everything else.
        if wire.len() < end {
            self.sender.finish_escape(wire);
        }
        if wire.len() < end && self.receiver.take_pending_acknowledgment() {
            wire.push(ACK);
            cx.meter.count(Counter::LlpAcksOut);
        }
        while wire.len() < end {
            let before = wire.len();
            self.sender.transmit(&mut self.output, wire, end - before, cx);
            if wire.len() == before {
                break;
            }
        }
        wire.len() - start
    }

    /// Returns whether the output queue is full, so that [`Self::send`] would reject a packet.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        self.output
            .event()
            .or_else(|| self.address.take().map(Event::Address))
            .or_else(|| self.used.event())
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.receiver.deadline().into_iter().chain(self.sender.deadline()).min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        charged(cx, |cx| {
            self.receiver.timeout(cx);
            self.sender.timeout(&mut self.output, cx);
        });
    }

    /// Returns the length of the longest datagram that can be sent, in bytes, without the local
    /// header.
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
        self.receiver.must_acknowledge() || self.sender.has_output(&self.output)
    }

    /// Drops everything in progress and returns every buffer to the pool, because the line hung up.
    pub fn reset(&mut self, pool: &mut Pool) {
        self.receiver.reset(pool);
        self.sender.reset(pool);
        self.used.reset(pool);
        self.output.reset(pool);
        self.address = None;
    }
}
