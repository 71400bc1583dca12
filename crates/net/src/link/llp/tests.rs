//! Tests of LLP with two directly connected ends, with and without noise on the line.

use super::codes::is_special;
use super::*;
use crate::cx::OwnedCx;
use crate::link::vj::testing::segment_with_byte;
use crate::meter::{Account, Quantity};
use crate::time::Duration;
use proptest::prelude::*;
use std::vec;

const MTU: usize = 40;

/// One end of the line: the link, its pool, its meter, and its events.
#[derive(Debug)]
struct End {
    llp: Llp,
    pool: Pool,
    context: OwnedCx,
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    failed: usize,
    address: Option<[u8; 4]>,
}

impl Default for End {
    fn default() -> Self {
        Self::with_buffers(8)
    }
}

impl End {
    fn with_buffers(buffers: usize) -> Self {
        Self {
            llp: Llp::new(MTU),
            pool: Pool::new(buffers, MTU),
            context: OwnedCx::default(),
            received: Vec::new(),
            sent: Vec::new(),
            failed: 0,
            address: None,
        }
    }

    /// Sends a copy of `data` in a packet of the pool, if one is free.
    fn send(&mut self, data: &[u8]) -> bool {
        let Some(mut packet) = self.pool.take(&mut self.context.meter) else { return false };
        packet.extend(data);
        self.llp
            .send(packet, &mut self.context.cx())
            .map_err(|packet| self.pool.put(packet))
            .is_ok()
    }

    fn transmit(&mut self, limit: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        let count = self.llp.transmit_into(&mut wire, limit, &mut self.context.cx());
        assert_eq!(count, wire.len());
        assert!(count <= limit);
        wire
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.llp.receive(bytes, &mut self.pool, &mut self.context.cx());
    }

    /// Collects all events, and returns their buffers to the pool.
    fn collect(&mut self) {
        while let Some(event) = self.llp.event() {
            match &event {
                Event::Received(packet) => self.received.push(packet.data().to_vec()),
                Event::Sent(packet) => self.sent.push(packet.data().to_vec()),
                Event::Failed(_) => self.failed += 1,
                Event::Address(address) => self.address = Some(*address),
                Event::InterfaceIdentifier(_) | Event::NetworkUp | Event::NetworkDown => {
                    panic!("{event:?} is not of LLP")
                }
            }
            if let Some(packet) = event.into_packet() {
                self.pool.put(packet);
            }
        }
    }

    fn timeout(&mut self) {
        self.llp.timeout(&mut self.context.cx());
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.context.counted(counter)
    }
}

/// Transfers all output in both directions, `limits` bytes at a time, until neither end has output.
fn drive(a: &mut End, b: &mut End, limits: (usize, usize)) {
    while a.llp.has_output() || b.llp.has_output() {
        let from_a = a.transmit(limits.0);
        let from_b = b.transmit(limits.1);
        a.receive(&from_b);
        b.receive(&from_a);
        a.collect();
        b.collect();
    }
}

/// Advances time from deadline to deadline, until there is no deadline.
fn run_until_idle(a: &mut End, b: &mut End) {
    loop {
        drive(a, b, (16, 16));
        let Some(deadline) = a.llp.deadline().into_iter().chain(b.llp.deadline()).min() else {
            return;
        };
        a.context.now = a.context.now.max(deadline);
        b.context.now = a.context.now;
        a.timeout();
        b.timeout();
        a.collect();
        b.collect();
    }
}

#[test]
fn a_packet_with_every_special_byte_is_sent_as_these_bytes() {
    let mut end = End::default();
    end.send(&[241, 242, 243, 244, 245, 246, 0]);
    assert_eq!(end.transmit(100), [243]);
    end.receive(&[244]);
    let wire = [2, 1, 0, 0, 241, 242, 0, 242, 1, 242, 2, 242, 3, 246, 0, 245];
    assert_eq!(end.transmit(100), wire);
    assert_eq!(end.counted(Counter::LinkEscapesOut), 4);
    end.collect();
    assert_eq!(end.sent, [[241, 242, 243, 244, 245, 246, 0]]);
}

#[test]
fn these_bytes_are_received_as_a_packet_with_every_special_byte() {
    let mut end = End::default();
    end.receive(&[243]);
    assert_eq!(end.transmit(100), [244]);
    end.receive(&[2, 1, 0, 0, 241, 242, 0, 242, 1, 242, 2, 242, 3, 246, 0, 245]);
    end.collect();
    assert_eq!(end.received, [[241, 242, 243, 244, 245, 246, 0]]);
    assert_eq!(end.counted(Counter::LinkEscapesIn), 4);
}

#[test]
fn the_smallest_telnet_packet_takes_47_bytes_of_both_directions() {
    let mut a = End::default();
    let mut b = End::default();
    a.send(&[0; 40]);
    let request = a.transmit(100);
    b.receive(&request);
    let ack = b.transmit(100);
    a.receive(&ack);
    assert_eq!(request.len() + ack.len() + a.transmit(100).len(), 47);
}

#[test]
fn no_byte_of_a_packet_is_sent_before_its_ack() {
    let mut end = End::default();
    end.send(b"data");
    assert_eq!(end.transmit(100), [REQ]);
    assert_eq!(end.transmit(100), []);
    assert!(!end.llp.has_output());
}

#[test]
fn an_ack_is_inserted_between_two_bytes_of_a_packet() {
    let mut end = End::default();
    end.send(b"data");
    end.transmit(1);
    end.receive(&[ACK]);
    assert_eq!(end.transmit(2), [2, 1]);
    end.receive(&[REQ]);
    assert_eq!(end.transmit(3), [ACK, 0, 0]);
}

#[test]
fn an_ack_waits_for_the_second_byte_of_an_escape() {
    let mut end = End::default();
    end.send(&[243, 7]);
    end.transmit(1);
    end.receive(&[ACK]);
    assert_eq!(end.transmit(5), [2, 1, 0, 0, ESC]);
    end.receive(&[REQ]);
    assert_eq!(end.transmit(1), [1]);
    assert_eq!(end.transmit(1), [ACK]);
    assert_eq!(end.transmit(9), [7, END]);
}

#[test]
fn an_escape_may_be_split_between_two_calls() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 1, 0, 0, ESC]);
    end.receive(&[3, END]);
    end.collect();
    assert_eq!(end.received, [[245]]);
}

#[test]
fn an_ack_inside_an_incoming_packet_is_removed() {
    let mut end = End::default();
    end.send(b"mine");
    end.transmit(1);
    end.receive(&[REQ, 2, 1, 0, 0, b'a', ACK, b'b', END]);
    end.collect();
    assert_eq!(end.received, [b"ab"]);
    assert_eq!((end.counted(Counter::LlpAcksIn), end.counted(Counter::LlpAcksUnexpected)), (1, 0));
}

#[test]
fn an_ack_after_esc_is_counted_and_does_not_change_the_packet() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 1, 0, 0, ESC, ACK, 0, END]);
    end.collect();
    assert_eq!(end.received, [[242]]);
    assert_eq!(end.counted(Counter::LinkEscapesWrong), 1);
}

#[test]
fn a_request_inside_a_packet_drops_it_and_starts_over_in_the_same_buffer() {
    let mut end = End::with_buffers(1);
    end.receive(&[REQ, 2, 1, 0, 0, b'x', REQ, 2, 1, 0, 0, b'y', END]);
    end.collect();
    assert_eq!(end.received, [b"y"]);
    assert_eq!(end.counted(Counter::LlpRequestsInPacket), 1);
}

#[test]
fn a_request_repeated_before_the_first_byte_drops_nothing_and_is_answered_again() {
    let mut end = End::default();
    end.receive(&[REQ]);
    assert_eq!(end.transmit(9), [ACK]);
    end.receive(&[REQ]);
    assert_eq!(end.transmit(9), [ACK]);
    assert_eq!(end.counted(Counter::LlpRequestsInPacket), 0);
}

#[test]
fn without_a_free_buffer_a_request_is_not_answered_but_counted() {
    let mut end = End::with_buffers(0);
    end.receive(&[REQ, 1, 2, 3, END]);
    assert_eq!(end.transmit(9), []);
    assert_eq!(end.counted(Counter::LlpRequestsRefused), 1);
    assert_eq!(end.counted(Counter::LinkBytesUnexpected), 4);
}

#[test]
fn a_full_used_queue_leaves_a_request_unanswered() {
    let mut end = End { llp: Llp::with_queue_limit(MTU, 1), ..End::default() };
    end.receive(&[REQ, 2, 1, 0, 0, END, REQ]);
    assert_eq!(end.transmit(9), []);
    assert_eq!(end.counted(Counter::LlpRequestsRefused), 1);
}

#[test]
fn a_refused_request_is_repeated_until_a_buffer_is_free() {
    let mut a = End::default();
    let mut b = End::with_buffers(1);
    let held_buffer = b.pool.take(&mut b.context.meter).unwrap();
    a.send(b"timeout");
    drive(&mut a, &mut b, (9, 9));
    b.pool.put(held_buffer);
    run_until_idle(&mut a, &mut b);
    assert_eq!(b.received, [b"timeout"]);
    assert_eq!(a.counted(Counter::LlpAckTimeouts), 1);
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped_and_its_buffer_returned() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 1, 0, 0]);
    end.receive(&[7; MTU + 1]);
    end.receive(&[END]);
    end.collect();
    assert!(end.received.is_empty());
    assert_eq!((end.pool.lent(), end.counted(Counter::LinkPacketsTooLong)), (0, 1));
}

#[test]
fn a_packet_as_long_as_the_buffers_is_received() {
    let mut a = End::default();
    let mut b = End::default();
    a.send(&[243; MTU]);
    drive(&mut a, &mut b, (1, 1));
    assert_eq!(b.received, [[243; MTU]]);
}

#[test]
fn an_escape_with_a_wrong_second_byte_drops_the_packet() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 1, 0, 0, ESC, 4, 5, END]);
    end.collect();
    assert!(end.received.is_empty());
    assert_eq!((end.pool.lent(), end.counted(Counter::LinkEscapesWrong)), (0, 1));
}

#[test]
fn an_end_after_esc_drops_the_packet() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 1, 0, 0, ESC, END]);
    end.collect();
    assert!(end.received.is_empty());
    assert_eq!((end.pool.lent(), end.counted(Counter::LinkEscapesWrong)), (0, 1));
}

#[test]
fn no_ack_is_sent_for_a_packet_that_is_dropped_already() {
    let mut end = End::default();
    end.receive(&[REQ, ESC, ESC]);
    assert_eq!(end.transmit(9), []);
}

#[test]
fn a_packet_with_an_unknown_header_is_counted_and_dropped() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 2, 0, 0, 9, END, REQ, 2, 1, END]);
    end.collect();
    assert!(end.received.is_empty());
    assert_eq!((end.pool.lent(), end.counted(Counter::LinkHeadersUnknown)), (0, 2));
}

#[test]
fn an_ack_that_answers_nothing_is_counted() {
    let mut end = End::default();
    end.receive(&[ACK]);
    end.send(b"data");
    end.receive(&[ACK]);
    assert_eq!(end.transmit(9), [REQ]);
    end.receive(&[ACK, ACK]);
    assert_eq!(end.counted(Counter::LlpAcksUnexpected), 3);
}

#[test]
fn the_ticks_are_those_of_a_clock_of_18_2_hertz() {
    assert_eq!(ticks(182), Duration::from_secs(10));
    assert_eq!(ACK_TIMEOUT, Duration::from_nanos(494_505_494));
    assert_eq!(PACKET_TIMEOUT, Duration::from_nanos(7_142_857_142));
}

#[test]
fn a_request_is_repeated_after_nine_ticks_and_not_before() {
    let mut end = End::default();
    end.send(b"data");
    end.transmit(9);
    assert_eq!(end.llp.deadline(), Some(Instant::ZERO + ACK_TIMEOUT));
    end.context.advance(ACK_TIMEOUT - Duration::from_nanos(1));
    end.timeout();
    assert_eq!(end.transmit(9), []);
    end.context.advance(Duration::from_nanos(1));
    end.timeout();
    assert_eq!(end.transmit(9), [REQ]);
}

#[test]
fn a_packet_fails_nine_ticks_after_the_tenth_repetition() {
    let mut a = End::default();
    let mut b = End::with_buffers(0);
    a.send(b"data");
    run_until_idle(&mut a, &mut b);
    assert_eq!(a.context.now, Instant::ZERO + ACK_TIMEOUT * 11);
    assert_eq!((a.failed, a.pool.lent()), (1, 0));
    assert_eq!(a.counted(Counter::LlpRequestsOut), 11);
    assert_eq!(a.counted(Counter::LlpAckTimeouts), 11);
    assert_eq!(a.counted(Counter::LlpPacketsGivenUp), 1);
}

#[test]
fn a_late_ack_cancels_the_pending_repetition() {
    let mut end = End::default();
    end.send(b"d");
    end.transmit(9);
    end.context.advance(ACK_TIMEOUT);
    end.timeout();
    end.receive(&[ACK]);
    assert_eq!(end.transmit(9), [2, 1, 0, 0, b'd', END]);
    assert_eq!(end.context.recorded(Quantity::LlpAckWait), 1);
}

#[test]
fn a_packet_that_stops_in_the_middle_is_dropped_130_ticks_after_its_request() {
    let mut end = End::with_buffers(1);
    end.receive(&[REQ, 2, 1, 0]);
    end.context.advance(PACKET_TIMEOUT - Duration::from_nanos(1));
    end.timeout();
    assert_eq!(end.counted(Counter::LlpPacketTimeouts), 0);
    end.context.advance(Duration::from_nanos(1));
    end.timeout();
    assert_eq!(end.counted(Counter::LlpPacketTimeouts), 1);
    end.receive(&[0, END, REQ, 2, 1, 0, 0, b'x', END]);
    end.collect();
    assert_eq!(end.received, [b"x"]);
    assert_eq!(end.pool.lent(), 0);
}

#[test]
fn the_buffer_of_a_timed_out_packet_returns_to_the_pool_with_the_next_byte() {
    let mut end = End::default();
    end.receive(&[REQ, 2]);
    end.context.advance(PACKET_TIMEOUT);
    end.timeout();
    end.receive(&[0]);
    assert_eq!(end.pool.lent(), 0);
}

#[test]
fn a_packet_that_cannot_be_sent_fails_130_ticks_after_its_ack() {
    let mut end = End::default();
    end.send(b"data");
    end.transmit(1);
    end.receive(&[ACK]);
    end.transmit(3);
    assert_eq!(end.llp.deadline(), Some(Instant::ZERO + PACKET_TIMEOUT));
    end.context.advance(PACKET_TIMEOUT);
    end.timeout();
    end.collect();
    assert_eq!((end.failed, end.pool.lent()), (1, 0));
    assert_eq!(end.counted(Counter::LlpPacketTimeouts), 1);
}

#[test]
fn a_silent_line_has_no_deadline() {
    let mut a = End::default();
    let mut b = End::default();
    a.send(b"data");
    drive(&mut a, &mut b, (4, 4));
    assert_eq!((a.llp.deadline(), b.llp.deadline()), (None, None));
}

#[test]
fn an_address_request_is_answered_by_the_packet_concentrator() {
    let mut a = End::default();
    let mut b = End::default();
    b.llp.set_peer_address(Some([18, 10, 0, 243]));
    a.llp.request_address(&mut a.context.cx());
    drive(&mut a, &mut b, (1, 1));
    assert_eq!(a.address, Some([18, 10, 0, 243]));
    assert!(!a.llp.is_address_request_pending());
    assert_eq!((a.llp.deadline(), a.pool.lent(), b.pool.lent()), (None, 0, 0));
    assert_eq!(a.counted(Counter::LlpAddressRequestsOut), 1);
    assert_eq!(b.counted(Counter::LlpAddressRequestsIn), 1);
}

#[test]
fn an_address_request_and_its_answer_are_these_bytes() {
    let mut a = End::default();
    let mut b = End::default();
    a.llp.request_address(&mut a.context.cx());
    assert_eq!(a.transmit(9), [243]);
    a.receive(&[ACK]);
    assert_eq!(a.transmit(9), [2, 3, 0, 0, 245]);
    b.llp.set_peer_address(Some([10, 0, 0, 1]));
    b.receive(&[243, 2, 3, 0, 0, 245]);
    assert_eq!(b.transmit(9), [243]);
    b.receive(&[ACK]);
    assert_eq!(b.transmit(9), [2, 3, 0, 0, 10, 0, 0, 1, 245]);
}

#[test]
fn an_address_request_is_given_up_after_six_seconds() {
    let mut end = End::default();
    end.llp.request_address(&mut end.context.cx());
    end.transmit(9);
    end.receive(&[ACK]);
    end.transmit(9);
    assert_eq!(end.llp.deadline(), Some(Instant::ZERO + Duration::from_secs(6)));
    end.context.advance(ADDRESS_TIMEOUT);
    end.timeout();
    assert!(!end.llp.is_address_request_pending());
    assert_eq!(end.counted(Counter::LlpAddressTimeouts), 1);
}

#[test]
fn a_late_answer_satisfies_the_repeated_request() {
    let mut end = End::default();
    end.llp.request_address(&mut end.context.cx());
    end.transmit(9);
    end.receive(&[REQ, 2, 3, 0, 0, 10, 0, 0, 1, END, ACK]);
    assert_eq!(end.transmit(9), [2, 3, 0, 0, END]);
    end.collect();
    assert_eq!(end.address, Some([10, 0, 0, 1]));
    assert!(!end.llp.is_address_request_pending());
    assert_eq!(end.llp.deadline(), None);
}

#[test]
fn an_address_request_without_acknowledgment_is_given_up() {
    let mut a = End::default();
    let mut b = End::with_buffers(0);
    a.llp.request_address(&mut a.context.cx());
    run_until_idle(&mut a, &mut b);
    assert!(!a.llp.is_address_request_pending());
    assert_eq!(a.counted(Counter::LlpPacketsGivenUp), 1);
}

#[test]
fn an_unsolicited_address_is_rejected() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 3, 0, 0, 10, 0, 0, 1, END]);
    end.collect();
    assert_eq!((end.address, end.pool.lent()), (None, 0));
    assert_eq!(end.counted(Counter::LinkHeadersUnknown), 1);
}

#[test]
fn a_personal_computer_does_not_answer_an_address_request() {
    let mut end = End::default();
    end.receive(&[REQ, 2, 3, 0, 0, END]);
    assert_eq!(end.transmit(9), []);
    assert_eq!(end.counted(Counter::LinkHeadersUnknown), 1);
}

#[test]
fn an_address_request_is_sent_before_queued_datagrams() {
    let mut end = End::default();
    end.send(b"later");
    end.llp.request_address(&mut end.context.cx());
    end.transmit(9);
    end.receive(&[ACK]);
    assert_eq!(end.transmit(9), [2, 3, 0, 0, END, REQ]);
}

#[test]
fn rejected_packets_are_returned_and_counted() {
    let mut end = End { llp: Llp::with_queue_limit(MTU, 1), ..End::default() };
    assert!(end.send(b"first"));
    assert!(!end.send(b"second"));
    assert!(!end.send(&[0; MTU + 1]));
    assert_eq!(end.pool.lent(), 1);
    assert_eq!(end.counted(Counter::LinkPacketsDropped), 1);
    assert_eq!(end.counted(Counter::LinkPacketsTooLong), 1);
}

#[test]
fn the_account_entered_before_a_call_is_entered_again_after_it() {
    let mut end = End::default();
    end.context.meter.enter(Account::Internet);
    end.send(b"data");
    end.transmit(9);
    end.receive(&[ACK, REQ]);
    end.timeout();
    assert_eq!(end.context.meter.enter(Account::Outside), Account::Internet);
}

#[test]
fn reset_returns_every_buffer_and_silences_the_line() {
    let mut end = End::default();
    end.send(b"in hand");
    end.send(b"waiting");
    end.transmit(1);
    end.receive(&[REQ, 2, 1, 0, 0, END, REQ, 2, 1]);
    assert_eq!(end.pool.lent(), 4);
    end.llp.reset(&mut end.pool);
    assert_eq!((end.pool.lent(), end.llp.deadline()), (0, None));
    assert!(!end.llp.has_output());
}

/// A fault of the line, applied to a chunk of its bytes.
#[derive(Clone, Debug)]
enum Fault {
    None,
    LoseByte(usize),
    FlipBits(usize, u8),
    Insert(usize, u8),
    LoseAll,
}

impl Fault {
    fn apply_to(&self, mut wire: Vec<u8>) -> Vec<u8> {
        let length = wire.len();
        match *self {
            Self::None => {}
            Self::LoseAll => wire.clear(),
            Self::Insert(at, byte) => wire.insert(at % (length + 1), byte),
            Self::LoseByte(at) if length > 0 => {
                wire.remove(at % length);
            }
            Self::FlipBits(at, bits) if length > 0 => wire[at % length] ^= bits,
            Self::LoseByte(_) | Self::FlipBits(..) => {}
        }
        wire
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, Vec<u8>),
    Carry(usize, usize, Fault),
    RequestAddress(usize),
    Collect(usize),
    Pass(u64),
}

fn line_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), ESC..=END, 0..4_u8]
}

fn datagram() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(line_byte(), 0..MTU)
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => any::<usize>().prop_map(Fault::LoseByte),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(at, bits)| Fault::FlipBits(at, bits)),
        1 => (any::<usize>(), line_byte()).prop_map(|(at, byte)| Fault::Insert(at, byte)),
        1 => Just(Fault::LoseAll),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2_usize, datagram()).prop_map(|(end, data)| Step::Send(end, data)),
        8 => (0..2_usize, 1..20_usize, fault())
            .prop_map(|(end, limit, fault)| Step::Carry(end, limit, fault)),
        1 => (0..2_usize).prop_map(Step::RequestAddress),
        2 => (0..2_usize).prop_map(Step::Collect),
        1 => (1..10_000_u64).prop_map(Step::Pass),
    ]
}

fn apply_step(ends: &mut [End; 2], step: Step) {
    match step {
        Step::Send(end, data) => {
            ends[end].send(&data);
        }
        Step::Carry(end, limit, fault) => {
            let wire = fault.apply_to(ends[end].transmit(limit));
            ends[1 - end].receive(&wire);
        }
        Step::RequestAddress(end) => {
            let End { llp, context, .. } = &mut ends[end];
            llp.request_address(&mut context.cx());
        }
        Step::Collect(end) => ends[end].collect(),
        Step::Pass(millis) => ends.iter_mut().for_each(|end| {
            end.context.advance_millis(millis);
            end.timeout();
        }),
    }
}

proptest! {
    #[test]
    fn packets_arrive_complete_and_in_order_for_any_split(
        from_a in prop::collection::vec(datagram(), 0..5),
        from_b in prop::collection::vec(datagram(), 0..5),
        chunks in prop::collection::vec((0..2_usize, 1..9_usize), 1..40),
    ) {
        let mut ends = [End::default(), End::default()];
        from_a.iter().for_each(|data| assert!(ends[0].send(data)));
        from_b.iter().for_each(|data| assert!(ends[1].send(data)));
        let mut wires = [vec![], vec![]];
        for (from, limit) in chunks.iter().cycle() {
            // The generated chunks may all belong to one direction, so one byte is transferred in
            // each direction after each chunk.
            for (from, limit) in [(*from, *limit), (0, 1), (1, 1)] {
                let wire = ends[from].transmit(limit);
                ends[1 - from].receive(&wire);
                ends[1 - from].collect();
                ends[from].collect();
                wires[from].extend(wire);
            }
            if !ends.iter().any(|end| end.llp.has_output()) {
                break;
            }
        }
        let [a, b] = ends;
        prop_assert_eq!((&b.received, &a.sent), (&from_a, &from_a));
        prop_assert_eq!((&a.received, &b.sent), (&from_b, &from_b));
        prop_assert_eq!((a.pool.lent(), b.pool.lent()), (0, 0));
        for wire in wires {
            prop_assert!(!wire.windows(2).any(|pair| pair[0] == ESC && is_special(pair[1])));
        }
    }

    #[test]
    fn a_noisy_line_loses_no_buffer_and_works_again_when_the_noise_stops(
        steps in prop::collection::vec(step(), 0..200),
        buffers in 2..6_usize,
    ) {
        let mut ends = [End::with_buffers(buffers), End::with_buffers(buffers)];
        ends[1].llp.set_peer_address(Some([10, 0, 0, 244]));
        steps.into_iter().for_each(|step| apply_step(&mut ends, step));
        let [mut a, mut b] = ends;
        a.collect();
        b.collect();
        run_until_idle(&mut a, &mut b);
        let failed = (a.failed, b.failed);
        prop_assert!(a.send(b"from a") && b.send(b"from b"));
        drive(&mut a, &mut b, (3, 5));
        prop_assert_eq!(b.received.last().map(Vec::as_slice), Some(&b"from a"[..]));
        prop_assert_eq!(a.received.last().map(Vec::as_slice), Some(&b"from b"[..]));
        prop_assert_eq!((a.failed, b.failed), failed);
        prop_assert_eq!((a.pool.lent(), b.pool.lent()), (0, 0));
        prop_assert_eq!((a.llp.deadline(), b.llp.deadline()), (None, None));
    }

    #[test]
    fn no_bytes_cause_a_panic_or_lose_a_buffer(
        bytes in prop::collection::vec(line_byte(), 0..500),
        pieces in 1..60_usize,
    ) {
        let mut end = End::with_buffers(2);
        bytes.chunks(pieces).for_each(|piece| {
            end.receive(piece);
            end.transmit(3);
            end.collect();
        });
        end.context.advance(PACKET_TIMEOUT);
        end.timeout();
        end.receive(&[0]);
        prop_assert_eq!(end.pool.lent(), 0);
    }

    #[test]
    fn a_run_ends_where_a_byte_by_byte_search_finds_the_first_special_byte(
        bytes in prop::collection::vec(prop_oneof![40 => 0..ESC, 1 => any::<u8>()], 0..200),
    ) {
        let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(bytes.len());
        prop_assert_eq!(ordinary_run(&bytes), expected);
    }
}

/// Returns an end with header compression, for datagrams of 60 bytes.
fn compressing() -> End {
    let llp = Llp::new(60).with_header_compression();
    End { llp, pool: Pool::new(8, 60), ..End::default() }
}

#[test]
fn with_header_compression_a_typed_character_takes_seven_bytes_of_both_directions() {
    let mut a = compressing();
    let mut b = compressing();
    a.send(&segment_with_byte(0));
    a.send(&segment_with_byte(1));
    drive(&mut a, &mut b, (16, 16));
    a.send(&segment_with_byte(2));
    assert_eq!(a.transmit(100), [REQ]);
    b.receive(&[REQ]);
    a.receive(&b.transmit(100));
    let wire = a.transmit(100);
    assert_eq!(wire, [0x8B, 7, 7, b'x', END]);
    b.receive(&wire);
    b.collect();
    assert_eq!(b.received, [segment_with_byte(0), segment_with_byte(1), segment_with_byte(2)]);
}

#[test]
fn an_end_without_header_compression_rejects_compressed_packets() {
    let mut a = compressing();
    let mut b = End::default();
    a.send(&segment_with_byte(0));
    a.send(&segment_with_byte(1));
    drive(&mut a, &mut b, (16, 16));
    assert_eq!((b.received.len(), b.counted(Counter::LinkHeadersUnknown)), (0, 1));
}

#[test]
fn after_a_failed_packet_the_next_one_fills_its_slot_again() {
    let mut a = compressing();
    let mut b = compressing();
    a.send(&segment_with_byte(0));
    drive(&mut a, &mut b, (16, 16));
    a.send(&segment_with_byte(1));
    for _ in 0..=RETRIES {
        a.transmit(16);
        a.context.advance(ACK_TIMEOUT);
        a.timeout();
    }
    a.collect();
    b.context.now = a.context.now;
    a.send(&segment_with_byte(2));
    drive(&mut a, &mut b, (16, 16));
    assert_eq!((a.failed, b.received.len()), (1, 2));
    assert_eq!(b.received[1], segment_with_byte(2));
    assert_eq!(b.counted(Counter::VjUncompressedIn), 2);
}

proptest! {
    #[test]
    fn any_noise_on_a_line_with_header_compression_loses_no_buffer(
        packets in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), Just(0x80), Just(2), Just(0x70)], 0..60),
            0..10),
    ) {
        let mut end = compressing();
        for packet in packets {
            end.receive(&[&[REQ][..], &packet, &[END]].concat());
            end.collect();
        }
        prop_assert!(end.received.iter().all(|datagram| datagram.len() <= 60));
        end.llp.reset(&mut end.pool);
        prop_assert_eq!(end.pool.lent(), 0);
    }
}
