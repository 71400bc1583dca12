//! Input: arbitrary fragments of one datagram. Checked: the reassembler completes or discards the
//! datagram at the same fragment as a reference model (a byte map), and keeps no data after that.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use net::internet::reassembly::{FRAGMENTS_MAX, Fragment, Key, Outcome, Reassembler};
use std::net::Ipv4Addr;

/// Script bytes per fragment: offset, length, and the more-fragments flag.
const STEP_BYTES: usize = 5;
const HEADER_BYTES: [u8; 20] = [0x45; 20];
const MAX_DATAGRAM_LEN: usize = 65_535;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut bench = Bench::default();
    let mut reassembler = Reassembler::default();
    let mut map = Map::default();
    for step in input.chunks_exact(STEP_BYTES) {
        let [o0, o1, l0, l1, flags] = *step else { return };
        let offset = usize::from(u16::from_be_bytes([o0, o1])) % 8192 * 8;
        let data = content(offset, usize::from(u16::from_be_bytes([l0, l1])) % 2048, flags);
        let more = flags & 1 != 0;
        let fragment = Fragment {
            key: key(),
            offset,
            more,
            headers: &HEADER_BYTES,
            counted_len: HEADER_BYTES.len(),
            ecn: 0,
            data: &data,
        };
        let outcome = reassembler.receive(&fragment, &mut bench.cx());
        match map.receive(offset, &data, more) {
            Verdict::Kept => assert!(matches!(outcome, Outcome::Stored)),
            Verdict::Dropped => assert!(matches!(outcome, Outcome::Dropped(_))),
            Verdict::Whole(expected) => {
                let Outcome::ReassembledDatagram(whole) = outcome else { panic!("{outcome:?}, although the datagram is incomplete") };
                let data: Vec<u8> = whole.pieces().flatten().copied().collect();
                assert_eq!((data.len(), data), (whole.len(), expected));
                assert_eq!((reassembler.bytes(), reassembler.len()), (0, 0));
                return;
            }
        }
        assert_eq!(map.is_invalid, reassembler.bytes() == 0 && !reassembler.is_empty());
    }
});

fn seeds() -> Vec<Vec<u8>> {
    let script = |steps: &[(u16, u16, u8)]| {
        let bytes = steps.iter().flat_map(|(unit, len, flags)| {
            let [u0, u1] = unit.to_be_bytes();
            let [l0, l1] = len.to_be_bytes();
            [u0, u1, l0, l1, *flags]
        });
        bytes.collect()
    };
    vec![
        script(&[(0, 16, 1), (2, 16, 1), (4, 5, 0)]),
        script(&[(4, 5, 0), (2, 16, 1), (2, 16, 1), (0, 16, 1)]),
        script(&[(0, 16, 1), (1, 16, 1), (3, 5, 0)]),
        script(&[(0, 16, 1), (0, 16, 3)]),
        script(&[(8191, 16, 0)]),
        script(&[(0, 7, 1), (0, 0, 1)]),
    ]
}

fn key() -> Key {
    let [source, destination] = [1, 2].map(|n| Ipv4Addr::from_bits(n).into());
    Key { source, destination, identification: 7, protocol: 17 }
}

/// Returns the data of a fragment; different `flags` give different data for the same offset.
fn content(offset: usize, len: usize, flags: u8) -> Vec<u8> {
    (offset..offset + len).map(|place| (place % 251) as u8 ^ (flags >> 1)).collect()
}

enum Verdict {
    Kept,
    Dropped,
    Whole(Vec<u8>),
}

/// Reference model: the received bytes of the datagram.
#[derive(Default)]
struct Map {
    bytes: Vec<Option<u8>>,
    /// Received fragments, to recognize repetitions: offset, data, and the more-fragments flag.
    seen: Vec<(usize, Vec<u8>, bool)>,
    end: Option<usize>,
    is_invalid: bool,
}

impl Map {
    fn receive(&mut self, start: usize, data: &[u8], more: bool) -> Verdict {
        let end = start + data.len();
        if data.is_empty() || more && data.len() % 8 != 0 {
            return Verdict::Dropped;
        }
        if end + HEADER_BYTES.len() > MAX_DATAGRAM_LEN {
            self.is_invalid = true;
        }
        if self.is_invalid || self.seen.contains(&(start, data.to_vec(), more)) {
            return Verdict::Dropped;
        }
        self.bytes.resize(MAX_DATAGRAM_LEN, None);
        let overlaps = self.bytes[start..end].iter().any(Option::is_some);
        let highest = self.bytes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let disagrees = match (self.end, more) {
            (Some(known), true) => end > known,
            (Some(_), false) => true,
            (None, true) => false,
            (None, false) => highest > end,
        };
        if overlaps || disagrees || self.seen.len() == FRAGMENTS_MAX {
            self.is_invalid = true;
            return Verdict::Dropped;
        }
        for (to, from) in self.bytes[start..end].iter_mut().zip(data) {
            *to = Some(*from);
        }
        if !more {
            self.end = Some(end);
        }
        self.seen.push((start, data.to_vec(), more));
        let whole = self.end.and_then(|end| self.bytes[..end].iter().copied().collect());
        whole.map_or(Verdict::Kept, Verdict::Whole)
    }
}
