//! Tests of packet queues: fairness, order, limits and the fault of 1982.

use super::testing::udp4;
use super::*;
use net::OwnedCx;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MTU: usize = 1_500;
/// Transmission time of a maximum packet at 10 Mbit/s.
const PACKET_TIME: Duration = Duration::from_micros(1_200);

struct Fixture {
    queue: PacketQueue,
    pool: Pool,
    context: OwnedCx,
}

impl Fixture {
    fn new(settings: QueueSettings) -> Self {
        let mut context = OwnedCx::default();
        let queue = PacketQueue::new(settings, &mut context.cx());
        Self { queue, pool: Pool::new(100_000, MTU), context }
    }

    fn fair() -> Self {
        Self::new(QueueSettings::fair(MTU, PACKET_TIME))
    }

    /// Enqueues a packet of `len` bytes of the flow `port` of the sharer `sharer`. Its
    /// identification field is `number`.
    fn enqueue(&mut self, sharer: u8, port: u16, number: u16, len: usize) {
        let mut bytes = udp4(sharer, 1, port, len.saturating_sub(20));
        bytes[4..6].copy_from_slice(&number.to_be_bytes());
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(&bytes);
        let Self { queue, pool, context } = self;
        queue.enqueue(SharerId(sharer.into()), packet, pool, &mut context.cx());
    }

    /// Returns the sharer, port, number and length of the next packet.
    fn dequeue(&mut self) -> Option<(u8, u16, u16, usize)> {
        let Self { queue, pool, context } = self;
        let packet = queue.dequeue(pool, &mut context.cx())?;
        let data = packet.data();
        let word = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
        let result = (data[15], word(20), word(4), data.len());
        self.pool.put(packet);
        self.assert_counters_balance();
        Some(result)
    }

    fn assert_counters_balance(&self) {
        let counters = self.queue.counters();
        let queued = self.queue.packets() as u64;
        assert_eq!(counters.packets_in, counters.packets_out + counters.dropped() + queued);
        assert_eq!(self.pool.lent(), self.queue.packets());
    }
}

fn jain(shares: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = shares.clone().count() as f64;
    let sum: f64 = shares.clone().sum();
    sum * sum / (count * shares.map(|share| share * share).sum::<f64>())
}

#[test]
fn twenty_guests_with_fifty_flows_each_share_the_output_equally() {
    let mut fixture = Fixture::fair();
    let mut sent: BTreeMap<u8, f64> = BTreeMap::new();
    let mut sent_by_flow: BTreeMap<(u8, u16), f64> = BTreeMap::new();
    // Each guest offers twice the rate of the output; half of the guests use small packets.
    for turn in 0..8_000_u32 {
        fixture.context.advance(PACKET_TIME);
        for sharer in 1..=20 {
            let port = u16::try_from((turn * 7 + u32::from(sharer)) % 50).unwrap();
            for _ in 0..if sharer % 2 == 0 { 1 } else { 4 } {
                fixture.enqueue(sharer, port, 0, if sharer % 2 == 0 { 1_400 } else { 200 });
            }
        }
        let mut budget = MTU;
        while let Some((sharer, port, _, len)) = fixture.dequeue() {
            *sent.entry(sharer).or_default() += len as f64;
            *sent_by_flow.entry((sharer, port)).or_default() += len as f64;
            budget = budget.saturating_sub(len);
            if budget == 0 {
                break;
            }
        }
    }
    let guests = jain(sent.values().copied());
    assert_eq!(sent.len(), 20);
    assert!(guests >= 0.98, "{guests} {sent:?}");
}

#[test]
fn the_flows_of_one_guest_share_its_part_equally() {
    let mut fixture = Fixture::fair();
    let mut sent: BTreeMap<u16, f64> = BTreeMap::new();
    for turn in 0..20_000_u16 {
        fixture.context.advance(PACKET_TIME);
        // The first flow sends ten times as many packets as each of the others.
        for port in [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4] {
            if turn % 2 == 0 {
                fixture.enqueue(1, port, turn, 1_000);
            }
        }
        if let Some((_, port, _, len)) = fixture.dequeue() {
            *sent.entry(port).or_default() += len as f64;
        }
    }
    let flows = jain(sent.values().copied());
    assert!(sent.len() == 5 && flows >= 0.98, "{flows} {sent:?}");
}

#[test]
fn a_packet_of_a_sparse_flow_waits_at_most_one_packet_of_each_active_guest() {
    let mut fixture = Fixture::fair();
    for number in 0..40 {
        for guest in 1..=10 {
            fixture.enqueue(guest, 7, number, MTU);
        }
    }
    // All guests have had a turn, so none of them is new.
    (0..15).for_each(|_| assert!(fixture.dequeue().is_some()));
    // Guest 3 is among the busy ones, and guest 11 is new.
    for guest in [3, 11] {
        fixture.enqueue(guest, 99, 0, 60);
        let before: Vec<_> = std::iter::from_fn(|| fixture.dequeue())
            .take_while(|(sharer, port, ..)| (*sharer, *port) != (guest, 99))
            .collect();
        let mut by_guest: BTreeMap<u8, usize> = BTreeMap::new();
        before.iter().for_each(|(sharer, ..)| *by_guest.entry(*sharer).or_default() += 1);
        assert!(by_guest.values().all(|count| *count <= 1), "guest {guest}: {before:?}");
        assert_eq!(guest == 11, before.is_empty(), "guest {guest}: {before:?}");
    }
}

#[test]
fn on_a_slow_line_a_packet_waits_for_one_packet_of_each_guest_and_flow_however_short() {
    let mut fixture = Fixture::new(QueueSettings::fair(MTU, Duration::from_millis(500)));
    for number in 0..40 {
        for (guest, flow) in [(1, 7), (2, 7), (3, 7), (3, 8)] {
            fixture.enqueue(guest, flow, number, 122);
        }
    }
    (0..20).for_each(|_| assert!(fixture.dequeue().is_some()));
    for number in 0..3 {
        fixture.enqueue(3, 99, number, 41);
        let before: Vec<_> = std::iter::from_fn(|| fixture.dequeue())
            .take_while(|(_, port, ..)| *port != 99)
            .map(|(guest, ..)| guest)
            .collect();
        let of = |guest| before.iter().filter(|other| **other == guest).count();
        assert!(of(1) <= 1 && of(2) <= 1 && of(3) <= 2, "{before:?}");
    }
}

#[test]
fn a_guest_that_floods_the_queue_loses_only_its_own_packets() {
    let mut fixture =
        Fixture::new(QueueSettings { packets_max: 20, ..QueueSettings::fair(MTU, PACKET_TIME) });
    fixture.enqueue(1, 1, 1, 500);
    for number in 0..200 {
        fixture.enqueue(2, number, number, 500);
    }
    fixture.enqueue(3, 1, 1, 500);
    let sent: Vec<_> = std::iter::from_fn(|| fixture.dequeue()).collect();
    let of = |guest| sent.iter().filter(|(sharer, ..)| *sharer == guest).count();
    assert_eq!((of(1), of(2), of(3)), (1, 18, 1));
    assert_eq!(fixture.queue.counters().dropped_when_full, 182);
}

#[test]
fn the_byte_limit_drops_the_oldest_packets_and_permits_one_long_packet() {
    let mut fixture =
        Fixture::new(QueueSettings { bytes_max: 1_000, ..QueueSettings::fair(MTU, PACKET_TIME) });
    for number in 0..5 {
        fixture.enqueue(1, 1, number, 400);
    }
    fixture.enqueue(1, 1, 5, 1_400);
    let sent: Vec<_> = std::iter::from_fn(|| fixture.dequeue()).map(|sent| sent.2).collect();
    assert_eq!((sent, fixture.queue.counters().dropped_when_full), (vec![5], 5));
}

#[test]
fn a_permanent_delay_is_signalled_by_marks_if_the_transport_supports_them() {
    for marks_ecn in [true, false] {
        let mut fixture =
            Fixture::new(QueueSettings { marks_ecn, ..QueueSettings::fair(MTU, PACKET_TIME) });
        for turn in 0..1_000 {
            fixture.context.advance(PACKET_TIME);
            let bytes = {
                let mut bytes = udp4(1, 1, 1, 1_400);
                let field = u16::from_be_bytes([bytes[0], bytes[1]]) | 1;
                crate::incremental_checksum::replace_word(&mut bytes, 0, field, 10).unwrap();
                bytes
            };
            for _ in 0..if turn < 30 { 3 } else { 1 } {
                let mut packet = fixture.pool.take(&mut fixture.context.meter).unwrap();
                packet.extend(&bytes);
                let Fixture { queue, pool, context } = &mut fixture;
                queue.enqueue(SharerId(1), packet, pool, &mut context.cx());
            }
            assert!(fixture.dequeue().is_some());
        }
        let counters = fixture.queue.counters();
        assert_eq!(counters.marked > 5, marks_ecn, "{counters:?}");
        assert_eq!(counters.dropped_for_delay > 5, !marks_ecn, "{counters:?}");
    }
}

#[test]
fn a_flow_whose_queue_became_empty_is_new_again_only_after_a_round() {
    let mut fixture = Fixture::fair();
    for flow in 1..=5 {
        (0..10).for_each(|number| fixture.enqueue(1, flow, number, MTU));
    }
    // All five flows have had a turn.
    (0..5).for_each(|_| assert!(fixture.dequeue().is_some()));
    let next_flow = |fixture: &mut Fixture| fixture.dequeue().map(|sent| sent.1);
    fixture.enqueue(1, 8, 0, 100);
    assert_eq!(next_flow(&mut fixture), Some(8));
    assert!(next_flow(&mut fixture).is_some_and(|flow| flow < 8));
    fixture.enqueue(1, 8, 1, 100);
    let order: Vec<_> = (0..5).filter_map(|_| next_flow(&mut fixture)).collect();
    assert_eq!(order.iter().position(|flow| *flow == 8), Some(4), "{order:?}");
}

#[test]
fn an_empty_queue_ends_the_dropping_of_its_flow() {
    let settings = QueueSettings { marks_ecn: false, ..QueueSettings::fair(MTU, PACKET_TIME) };
    let mut fixture = Fixture::new(settings);
    // The flow is above the target for an interval, then its queue becomes empty.
    for number in 0..200 {
        fixture.enqueue(1, 7, number, 1_000);
    }
    fixture.context.advance_millis(10);
    assert!(fixture.dequeue().is_some());
    fixture.context.advance_millis(200);
    while fixture.dequeue().is_some() {}
    let dropped = fixture.queue.counters().dropped_for_delay;
    assert!(dropped > 0);
    for number in 0..5 {
        fixture.enqueue(1, 7, number, 1_000);
    }
    fixture.context.advance_millis(10);
    while fixture.dequeue().is_some() {}
    assert_eq!(fixture.queue.counters().dropped_for_delay, dropped);
}

#[test]
fn a_removed_sharer_leaves_no_packet() {
    let mut fixture = Fixture::fair();
    for sharer in [1, 2, 1, 1] {
        fixture.enqueue(sharer, 1, 1, 100);
    }
    fixture.queue.remove_sharer(SharerId(1), &mut fixture.pool);
    assert_eq!((fixture.queue.packets(), fixture.queue.counters().dropped_with_sharer), (1, 3));
    fixture.assert_counters_balance();
    assert_eq!(fixture.dequeue().map(|sent| sent.0), Some(2));
    fixture.enqueue(1, 1, 1, 100);
    fixture.queue.clear(&mut fixture.pool);
    fixture.assert_counters_balance();
    assert_eq!((fixture.queue.bytes(), fixture.dequeue()), (0, None));
}

fn of_1982(parameters: Concentrator1982) -> Fixture {
    let discipline = Discipline::Of1982(parameters);
    Fixture::new(QueueSettings { discipline, ..QueueSettings::fair(MTU, PACKET_TIME) })
}

#[test]
fn the_concentrator_of_1982_keeps_the_first_packet_of_a_burst() {
    let always = Concentrator1982 { loss_ppm: 1_000_000, ..Concentrator1982::default() };
    let mut fixture = of_1982(always);
    for burst in 0..3 {
        fixture.context.advance_millis(100);
        (0..4).for_each(|number| fixture.enqueue(1, 1, burst * 4 + number, 100));
    }
    let sent: Vec<_> = std::iter::from_fn(|| fixture.dequeue()).map(|sent| sent.2).collect();
    assert_eq!((sent, fixture.queue.counters().dropped_in_burst), (vec![0, 4, 8], 9));
}

#[test]
fn the_concentrator_of_1982_drops_packets_beyond_its_buffers() {
    let mut fixture = of_1982(Concentrator1982 { loss_ppm: 0, ..Concentrator1982::default() });
    (0..24).for_each(|number| fixture.enqueue(1, 1, number, 122));
    assert_eq!(fixture.queue.counters().dropped_when_full, 8);
    let sent: Vec<_> = std::iter::from_fn(|| fixture.dequeue()).map(|sent| sent.2).collect();
    assert_eq!(sent, (0..16).collect::<Vec<_>>());
}

/// A step of a random schedule.
#[derive(Clone, Copy, Debug)]
enum Action {
    Enqueue { sharer: u8, port: u16, len: usize },
    Dequeue,
    Advance { ms: u64 },
    Remove { sharer: u8 },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1..5_u8, 0..4_u16, 40..MTU)
            .prop_map(|(sharer, port, len)| Action::Enqueue { sharer, port, len }),
        4 => Just(Action::Dequeue),
        1 => (0..300_u64).prop_map(|ms| Action::Advance { ms }),
        1 => (1..5_u8).prop_map(|sharer| Action::Remove { sharer }),
    ]
}

fn run(actions: &[Action], settings: QueueSettings) -> (Vec<(u8, u16, u16, usize)>, u64) {
    let mut fixture = Fixture::new(settings);
    let mut sent = Vec::new();
    let mut number = 0;
    for action in actions {
        match *action {
            Action::Enqueue { sharer, port, len } => {
                number += 1;
                fixture.enqueue(sharer, port, number, len);
            }
            Action::Dequeue => sent.extend(fixture.dequeue()),
            Action::Advance { ms } => fixture.context.advance_millis(ms),
            Action::Remove { sharer } => {
                fixture.queue.remove_sharer(SharerId(sharer.into()), &mut fixture.pool);
            }
        }
        fixture.assert_counters_balance();
        assert!(fixture.queue.packets() <= settings.packets_max);
        assert!(fixture.queue.packets() == 1 || fixture.queue.bytes() <= settings.bytes_max);
    }
    while let Some(packet) = fixture.dequeue() {
        sent.push(packet);
    }
    assert_eq!(fixture.pool.lent(), 0);
    (sent, fixture.queue.counters().dropped())
}

proptest! {
    #[test]
    fn packets_are_sent_once_and_in_the_order_of_their_flow(
        actions in prop::collection::vec(action(), 0..300),
        packets_max in 1..40_usize,
        bytes_max in 1_500..40_000_usize,
        is_of_1982: bool,
    ) {
        let fair = QueueSettings::fair(MTU, PACKET_TIME);
        let parameters = Concentrator1982 { buffers: packets_max, ..Concentrator1982::default() };
        let settings = QueueSettings { packets_max, bytes_max, ..fair };
        let discipline = Discipline::Of1982(parameters);
        let of_1982 = QueueSettings { discipline, packets_max, bytes_max: usize::MAX, ..fair };
        let settings = if is_of_1982 { of_1982 } else { settings };
        let (sent, dropped) = run(&actions, settings);
        let offered = actions.iter().filter(|action| matches!(action, Action::Enqueue { .. }));
        prop_assert_eq!(offered.count() as u64, sent.len() as u64 + dropped);
        let mut last: BTreeMap<(u8, u16), u16> = BTreeMap::new();
        for (sharer, port, number, _) in &sent {
            let previous = last.insert((*sharer, *port), *number);
            prop_assert!(previous.is_none_or(|previous| previous < *number), "{:?}", sent);
        }
        prop_assert_eq!(run(&actions, settings), (sent, dropped));
    }
}
