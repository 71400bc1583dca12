//! Tests of reassembly: comparison with a map of received bytes, and attacks.

use super::*;
use crate::cx::OwnedCx;
use crate::probes;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const HEADERS: [u8; 20] = [0x45; 20];

fn key(identification: u32) -> Key {
    let destination = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    Key { source: THEIRS, destination, identification, protocol: 17 }
}

fn fragment(offset: usize, data: &[u8], more: bool) -> Fragment<'_> {
    Fragment { key: key(7), offset, more, headers: &HEADERS, counted_len: 20, ecn: 0, data }
}

/// A reassembler with its test environment.
#[derive(Debug, Default)]
struct Fixture {
    reassembler: Reassembler,
    context: OwnedCx,
}

impl Fixture {
    fn receive(&mut self, fragment: &Fragment<'_>) -> Outcome {
        self.reassembler.receive(fragment, &mut self.context.cx())
    }

    /// Feeds a fragment and returns the data of the datagram that it completes.
    fn whole(&mut self, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        match self.receive(fragment) {
            Outcome::ReassembledDatagram(whole) => {
                let data: Vec<u8> = whole.pieces().flatten().copied().collect();
                assert_eq!((data.len(), data.is_empty()), (whole.len(), whole.is_empty()));
                Some(data)
            }
            Outcome::Stored | Outcome::Dropped(_) => None,
        }
    }

    fn refusal(&mut self, fragment: &Fragment<'_>) -> Option<Refusal> {
        match self.receive(fragment) {
            Outcome::Dropped(refusal) => Some(refusal),
            Outcome::ReassembledDatagram(_) | Outcome::Stored => None,
        }
    }
}

/// A fragment of the model: its offset in units of 8 bytes, its length in bytes, and whether more
/// fragments follow.
type FragmentShape = (usize, usize, bool);

/// Returns the index of the fragment that completes the datagram according to a map of bytes, or
/// `None` if the datagram stays incomplete.
fn model(shapes: &[FragmentShape]) -> Option<usize> {
    let mut map = vec![false; LEN_MAX];
    let mut received: Vec<FragmentShape> = Vec::new();
    for (number, (unit, len, more)) in shapes.iter().copied().enumerate() {
        let start = unit * 8;
        let end = unit * 8 + len;
        if len == 0 || (more && len % 8 != 0) || received.contains(&(unit, len, more)) {
            continue;
        }
        let ends =
            received.iter().filter(|(_, _, more)| !more).map(|(unit, len, _)| unit * 8 + len);
        let ends: Vec<usize> = ends.chain((!more).then_some(end)).collect();
        let highest = map.iter().rposition(|came| *came).map_or(0, |last| last + 1).max(end);
        let overlaps = ends.len() > 1 || ends.iter().any(|end| *end < highest);
        if overlaps || map[start..end].contains(&true) {
            return None;
        }
        map[start..end].fill(true);
        received.push((unit, len, more));
        if ends.first().is_some_and(|end| map[..*end].iter().all(|came| *came)) {
            return Some(number);
        }
    }
    None
}

/// Returns the data of a generated fragment: each byte encodes its offset.
fn data_of((unit, len, _): FragmentShape) -> Vec<u8> {
    (unit * 8..unit * 8 + len).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

/// Splits a datagram of `len` bytes into fragments of `units` * 8 bytes each.
fn cut(len: usize, units: usize) -> Vec<FragmentShape> {
    let starts = (0..len.div_ceil(8)).step_by(units);
    starts
        .map(|unit| {
            let end = len.min((unit + units) * 8);
            (unit, end - unit * 8, end < len)
        })
        .collect()
}

proptest! {
    // req RFC1122:3.2.1.4-MUST-1, RFC1122:3.3.2-MUST-1, RFC1122:3.3.2-MUST-2
    #[test]
    fn a_datagram_is_reassembled_equally_in_any_order_of_its_fragments(
        (len, shapes) in (9_usize..2048, 1_usize..40).prop_flat_map(|(len, units)| {
            (Just(len), Just(cut(len, units)).prop_shuffle())
        }),
    ) {
        prop_assume!(shapes.len() > 1);
        let mut fixture = Fixture::default();
        let wholes: Vec<_> = shapes.iter().map(|one| {
            fixture.whole(&fragment(one.0 * 8, &data_of(*one), one.2))
        }).collect();
        let (last, others) = wholes.split_last().unwrap();
        prop_assert!(others.iter().all(Option::is_none));
        prop_assert_eq!(last, &Some(data_of((0, len, false))));
        prop_assert_eq!((fixture.reassembler.bytes(), fixture.reassembler.len()), (0, 0));
    }

    // attack row 5
    #[test]
    fn any_fragments_are_reassembled_as_in_a_map_of_bytes(
        shapes in prop::collection::vec((0_usize..8, 0_usize..33, any::<bool>()), 0..12),
        aligned: bool,
    ) {
        let align = |len: usize| if aligned { len / 8 * 8 } else { len };
        let shapes: Vec<FragmentShape> = shapes.iter().map(|one| (one.0, align(one.1), one.2)).collect();
        let expected = model(&shapes);
        let mut fixture = Fixture::default();
        let mut finished = None;
        for (number, one) in shapes.iter().enumerate() {
            if let Some(data) = fixture.whole(&fragment(one.0 * 8, &data_of(*one), one.2)) {
                finished = Some(number);
                prop_assert_eq!(&data, &data_of((0, data.len(), false)));
                break;
            }
        }
        prop_assert_eq!(finished, expected);
    }

    #[test]
    fn an_overlap_spoils_the_datagram_in_any_order_of_arrival(
        shapes in Just([(0, 16, true), (1, 16, true), (3, 16, true), (5, 8, false)]).prop_shuffle(),
    ) {
        let mut fixture = Fixture::default();
        for one in shapes {
            prop_assert!(fixture.whole(&fragment(one.0 * 8, &data_of(one), one.2)).is_none());
        }
        prop_assert_eq!(fixture.context.counted(Counter::IpReassemblyErrors), 1);
    }
}

// attack row 1
#[test]
fn every_overlap_of_two_of_eight_fragments_drops_the_datagram_and_frees_its_memory() {
    let bounds = (0..8_usize).flat_map(|start| (start + 1..=8).map(move |end| (start, end)));
    let pairs = bounds.clone().flat_map(|one| bounds.clone().map(move |two| (one, two)));
    let overlapping = pairs.filter(|(one, two)| one != two && one.0 < two.1 && two.0 < one.1);
    let mut count = 0;
    for ((start, end), (other_start, other_end)) in overlapping {
        let mut fixture = Fixture::default();
        let data = [7; 64];
        fixture.receive(&fragment(start * 8, &data[start * 8..end * 8], true));
        let other_data = &data[other_start * 8..other_end * 8];
        let refusal = fixture.refusal(&fragment(other_start * 8, other_data, true));
        assert_eq!((refusal, fixture.reassembler.bytes()), (Some(Refusal::Invalidated), 0));
        count += 1;
    }
    assert_eq!(count, 840);
}

// attack row 2
#[test]
fn a_fragment_that_ends_beyond_65535_bytes_drops_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(0, &[0; 8], true));
    let refusal = fixture.refusal(&fragment(65_512, &[0; 8], false));
    assert_eq!((refusal, fixture.reassembler.bytes()), (Some(Refusal::TooLong), 0));
    assert_eq!(fixture.refusal(&fragment(8, &[0; 8], true)), Some(Refusal::Invalidated));
}

// attack row 2
#[test]
fn a_first_fragment_whose_headers_leave_no_room_for_the_rest_drops_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(65_504, &[0; 8], false));
    let headers = [0x4F; 60];
    let first = Fragment { headers: &headers, counted_len: 60, ..fragment(0, &[0; 8], true) };
    assert_eq!(fixture.refusal(&first), Some(Refusal::Invalidated));
    assert_eq!(fixture.reassembler.bytes(), 0);
}

/// Maximum number of key comparisons for a fragment: a search in each of the four trees for the
/// fragment, and for each datagram dropped to make space for it. A linear scan of the 256
/// datagrams, or of the 256 fragments of one datagram, takes more comparisons.
const PROBES_MAX: u64 = 240;

// attack row 3
#[test]
fn a_million_tiny_fragments_cost_the_same_each_and_hold_less_than_two_mebibytes() {
    let mut fixture = Fixture::default();
    let mut highest = 0;
    let mut probes_max = 0;
    let mut first = 0;
    let mut last = 0;
    for number in 0..1_000_000 {
        let rng = &mut fixture.context.rng;
        let identification = u32::try_from(rng.below(64)).unwrap();
        let source = IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(rng.below(16)).unwrap()));
        let offset = usize::try_from(rng.below(8_000)).unwrap() * 8;
        let key = Key { source, ..key(identification) };
        let tiny = Fragment { key, ..fragment(offset, &[0; 8], true) };
        let (probes, _) = probes::count_probes_during(|| fixture.receive(&tiny));
        probes_max = probes_max.max(probes);
        match number {
            100_000..200_000 => first += probes,
            900_000.. => last += probes,
            _ => {}
        }
        highest = highest.max(fixture.reassembler.bytes());
        assert!(fixture.reassembler.len() <= DATAGRAMS_MAX);
    }
    assert!(highest <= BYTES_MAX, "{highest}");
    assert!(probes_max <= PROBES_MAX, "{probes_max}");
    assert!(last <= first + first / 10, "{first}, then {last}");
    assert_eq!(fixture.context.counted(Counter::IpFragmentsIn), 1_000_000);
}

// attack row 3
#[test]
fn a_fragment_costs_one_search_in_any_order_of_arrival() {
    let orders: [fn(usize) -> usize; 3] = [|n| n, |n| 254 - n, |n| n * 91 % 255];
    for order in orders {
        let mut fixture = Fixture::default();
        for number in 0..255 {
            let data = fragment(8 + order(number) * 16, &[0; 8], true);
            let (probes, refused) = probes::count_probes_during(|| fixture.refusal(&data));
            assert_eq!(refused, None);
            assert!(probes <= PROBES_MAX / 2, "{probes}");
        }
    }
    // The limit also applies to the maximum number of datagrams, each with one fragment.
    let mut fixture = Fixture::default();
    for number in 0..1000_u32 {
        let source = IpAddr::V4(Ipv4Addr::from_bits(number));
        let only_fragment =
            Fragment { key: Key { source, ..key(number) }, ..fragment(8, &[0; 8], true) };
        let (probes, _) = probes::count_probes_during(|| fixture.receive(&only_fragment));
        assert!(probes <= PROBES_MAX, "{probes}");
    }
}

// attack row 3
#[test]
fn a_datagram_of_more_than_256_fragments_is_dropped() {
    let mut fixture = Fixture::default();
    let stored_fragments =
        (0..300).filter(|n| fixture.refusal(&fragment(n * 16, &[0; 8], true)).is_none());
    assert_eq!(stored_fragments.count(), 256);
    assert_eq!(fixture.reassembler.bytes(), 0);
}

// attack row 4
#[test]
fn a_legitimate_datagram_is_reassembled_in_a_flood_of_unfinished_ones() {
    let mut fixture = Fixture::default();
    let key_from = |n: u32| Key { source: IpAddr::V4(Ipv4Addr::from_bits(n)), ..key(n) };
    let flood = |fixture: &mut Fixture, numbers: core::ops::Range<u32>| {
        for n in numbers {
            fixture.receive(&Fragment { key: key_from(n), ..fragment(0, &[0; 8], true) });
        }
    };
    flood(&mut fixture, 1..100_000);
    assert_eq!(fixture.reassembler.len(), DATAGRAMS_MAX);
    fixture.receive(&fragment(0, &[1; 8], true));
    flood(&mut fixture, 100_000..100_200);
    assert_eq!(fixture.whole(&fragment(8, &[2; 4], false)).unwrap().len(), 12);
}

// attack row 4
#[test]
fn one_source_holds_no_more_than_its_share() {
    let mut fixture = Fixture::default();
    for n in 0..100_000 {
        fixture.receive(&Fragment { key: key(n), ..fragment(0, &[0; 8], true) });
    }
    assert_eq!(fixture.reassembler.len(), SOURCE_MAX);
    assert_eq!(fixture.context.counted(Counter::IpReassemblyEvicted), 100_000 - SOURCE_MAX as u64);
}

#[test]
fn long_fragments_of_many_sources_hold_no_more_than_the_limit_of_bytes() {
    let mut fixture = Fixture::default();
    let data = vec![0; 60_000];
    for n in 0..100 {
        let key = Key { source: IpAddr::V6(Ipv6Addr::from_bits(n)), ..key(1) };
        fixture.receive(&Fragment { key, ..fragment(8, &data, true) });
        assert!(fixture.reassembler.bytes() <= BYTES_MAX);
    }
    assert_eq!(fixture.reassembler.len(), 34);
}

// attack row 16
#[test]
fn fragments_of_ipv6_that_overlap_are_all_dropped_with_those_that_follow() {
    let mut fixture = Fixture::default();
    let addresses = [2, 1].map(|n| IpAddr::V6(Ipv6Addr::from_bits(n)));
    let key =
        Key { source: addresses[0], destination: addresses[1], identification: 1, protocol: 0 };
    let feed = |fixture: &mut Fixture, offset, more| {
        fixture.refusal(&Fragment { key, counted_len: 0, ..fragment(offset, &[0; 16], more) })
    };
    assert_eq!(feed(&mut fixture, 0, true), None);
    assert_eq!(feed(&mut fixture, 8, true), Some(Refusal::Invalidated));
    assert_eq!(feed(&mut fixture, 16, false), Some(Refusal::Invalidated));
    assert_eq!(fixture.reassembler.bytes(), 0);
}

#[test]
fn an_exact_duplicate_does_not_spoil_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(0, b"12345678", true));
    assert_eq!(fixture.refusal(&fragment(0, b"12345678", true)), Some(Refusal::Duplicate));
    assert_eq!(fixture.whole(&fragment(8, b"9", false)).unwrap(), b"123456789");
    assert_eq!(fixture.context.counted(Counter::IpFragmentsDuplicate), 1);
}

#[test]
fn other_bytes_at_the_same_place_spoil_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(0, b"12345678", true));
    assert_eq!(fixture.refusal(&fragment(0, b"1234567X", true)), Some(Refusal::Invalidated));
}

#[test]
fn two_last_fragments_at_different_places_spoil_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(8, b"1234", false));
    assert_eq!(fixture.refusal(&fragment(16, b"1234", false)), Some(Refusal::Invalidated));
}

#[test]
fn a_misaligned_or_empty_fragment_does_not_spoil_the_datagram() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(0, b"12345678", true));
    assert_eq!(fixture.refusal(&fragment(8, b"1234567", true)), Some(Refusal::Misaligned));
    assert_eq!(fixture.refusal(&fragment(8, b"", false)), Some(Refusal::Empty));
    assert!(fixture.whole(&fragment(8, b"9", false)).is_some());
}

#[test]
fn the_headers_of_the_first_fragment_become_those_of_the_datagram() {
    let mut fixture = Fixture::default();
    let headers = [0x46; 24];
    fixture.receive(&fragment(8, b"9", false));
    let first = Fragment { headers: &headers, counted_len: 24, ..fragment(0, &[0; 8], true) };
    let Outcome::ReassembledDatagram(whole) = fixture.receive(&first) else { panic!("not whole") };
    assert_eq!(whole.headers.as_ref(), headers);
}

#[test]
fn congestion_marked_on_one_fragment_is_marked_on_the_datagram() {
    let reassembled = |first, second| {
        let mut fixture = Fixture::default();
        fixture.receive(&Fragment { ecn: first, ..fragment(0, &[0; 8], true) });
        match fixture.receive(&Fragment { ecn: second, ..fragment(8, &[0; 8], false) }) {
            Outcome::ReassembledDatagram(reassembled) => Some(reassembled.ecn),
            Outcome::Stored | Outcome::Dropped(_) => None,
        }
    };
    assert_eq!(
        [reassembled(2, 3), reassembled(2, 2), reassembled(1, 2)],
        [Some(3), Some(2), Some(2)]
    );
    assert_eq!([reassembled(0, 0), reassembled(0, 3)], [Some(0), None]);
}

#[test]
fn an_incomplete_datagram_with_its_first_fragment_is_reported_after_60_seconds() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(0, b"12345678", true));
    fixture.context.advance_millis(59_999);
    fixture.receive(&fragment(16, b"12345678", true));
    assert!(fixture.reassembler.timeout(&mut fixture.context.cx()).is_none());
    fixture.context.advance_millis(1);
    assert_eq!(fixture.reassembler.deadline(), Some(fixture.context.now));
    let expired = fixture.reassembler.timeout(&mut fixture.context.cx()).unwrap();
    assert_eq!((expired.key, expired.data.as_ref()), (key(7), b"12345678".as_slice()));
    assert_eq!((fixture.reassembler.bytes(), fixture.reassembler.deadline()), (0, None));
}

#[test]
fn a_datagram_without_its_first_fragment_is_dropped_silently() {
    let mut fixture = Fixture::default();
    fixture.receive(&fragment(8, b"12345678", true));
    fixture.context.advance_millis(60_000);
    assert!(fixture.reassembler.timeout(&mut fixture.context.cx()).is_none());
    assert_eq!(fixture.context.counted(Counter::IpReassemblyTimeouts), 1);
    assert!(fixture.reassembler.is_empty());
}

// attack row 3
// attack row 4
#[test]
fn fragments_are_stored_up_to_exactly_the_limit_of_bytes() {
    let mut fixture = Fixture::default();
    let data = vec![0; 60_000];
    let receive = |fixture: &mut Fixture, n: u128, len: usize| {
        let key = Key { source: IpAddr::V6(Ipv6Addr::from_bits(n)), ..key(1) };
        fixture.receive(&Fragment { key, ..fragment(8, &data[..len], true) });
    };
    let overhead = DATAGRAM_OVERHEAD + FRAGMENT_OVERHEAD;
    (0..34).for_each(|n| receive(&mut fixture, n, 60_000));
    let rest = BYTES_MAX - 34 * (overhead + 60_000) - overhead;
    receive(&mut fixture, 34, rest);
    assert_eq!((fixture.reassembler.bytes(), fixture.reassembler.len()), (BYTES_MAX, 35));
    receive(&mut fixture, 35, 8);
    assert_eq!(fixture.reassembler.len(), 35);
    assert_eq!(fixture.context.counted(Counter::IpReassemblyEvicted), 1);
}

// attack row 3
#[test]
fn each_fragment_counts_with_its_overhead() {
    let mut fixture = Fixture::default();
    (1..=5).for_each(|n| _ = fixture.receive(&fragment(n * 16, &[0; 8], true)));
    let expected = DATAGRAM_OVERHEAD + 5 * (FRAGMENT_OVERHEAD + 8);
    assert_eq!(fixture.reassembler.bytes(), expected);
}

// attack row 2
#[test]
fn a_datagram_of_65535_bytes_is_reassembled() {
    let mut fixture = Fixture::default();
    assert_eq!(fixture.whole(&fragment(0, &[1; 65_512], true)), None);
    let reassembled = fixture.whole(&fragment(65_512, &[2; 3], false)).unwrap();
    assert_eq!(reassembled.len() + 20, LEN_MAX);
}

// attack row 3
#[test]
fn the_headers_of_a_datagram_count_towards_the_limit() {
    let mut fixture = Fixture::default();
    assert!(matches!(fixture.receive(&fragment(0, &[0; 8], true)), Outcome::Stored));
    let expected = DATAGRAM_OVERHEAD + HEADERS.len() + FRAGMENT_OVERHEAD + 8;
    assert_eq!(fixture.reassembler.bytes(), expected);
}
