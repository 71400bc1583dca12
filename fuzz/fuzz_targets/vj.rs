//! Input: arbitrary bytes into both ends of Van Jacobson header compression. Checked: a compressed
//! datagram is restored unchanged at the other end, and a decompressor that gets any other input
//! restores a whole datagram or rejects the input.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{datagram, repair_header};
use libfuzzer_sys::fuzz_target;
use net::internet::ipv4::{Header, Protocol};
use net::link::vj::{Compressor, Decompressor, Kind, SLOTS_MAX};
use net::packet::Packet;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let Some((settings, mut rest)) = input.split_first() else { return };
    let mut bench = Bench::default();
    let slots = settings % SLOTS_MAX + 1;
    let mut compressor = Compressor::new(slots, settings & 0x80 != 0);
    // One decompressor receives exactly the compressor's output; the other also receives fuzzed
    // bytes.
    let mut clean_decompressor = Decompressor::new(slots);
    let mut fuzzed_decompressor = Decompressor::new(slots);
    while let Some((&[kind, len], after)) = rest.split_first_chunk() {
        let (piece, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;
        let decompressed = match kind % 4 {
            0 => {
                let mut sent = piece.to_vec();
                repair_header(&mut sent);
                let mut packet = Packet::from_slice(&sent);
                let kind = compressor.compress(&mut packet, &mut bench.meter);
                assert!(packet.len() <= sent.len() + 1, "compression adds at most the slot number");
                let line = Packet::from_slice(packet.data());
                let result = clean_decompressor.decompress(kind, &mut packet, &mut bench.meter);
                assert!(result.is_ok(), "the output of the compressor can be decompressed");
                assert_same_but_for_identification(packet.data(), &sent);
                packet = line;
                fuzzed_decompressor.decompress(kind, &mut packet, &mut bench.meter).map(|()| (kind, packet))
            }
            1 => {
                let mut packet = Packet::from_slice(piece);
                let kind = Kind::UncompressedTcp;
                fuzzed_decompressor.decompress(kind, &mut packet, &mut bench.meter).map(|()| (kind, packet))
            }
            2 => {
                let mut packet = Packet::from_slice(piece);
                let kind = Kind::CompressedTcp;
                fuzzed_decompressor.decompress(kind, &mut packet, &mut bench.meter).map(|()| (kind, packet))
            }
            _ => {
                fuzzed_decompressor.packet_lost();
                continue;
            }
        };
        if let Ok((Kind::UncompressedTcp | Kind::CompressedTcp, packet)) = decompressed {
            let header = Header::parse(packet.data());
            assert!(header.is_ok_and(|parsed| parsed.header.protocol == Protocol::Tcp
                && parsed.total_len == packet.len()));
        }
    }
});

/// Compares two datagrams. The identification of an atomic datagram may change, and with it the
/// checksum.
fn assert_same_but_for_identification(restored: &[u8], sent: &[u8]) {
    let without_identification = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if bytes.len() >= 20 && bytes[6] & 0x40 != 0 {
            bytes[4..6].fill(0);
            bytes[10..12].fill(0);
        }
        bytes
    };
    assert_eq!(without_identification(restored), without_identification(sent));
}

fn seeds() -> Vec<Vec<u8>> {
    let typed = |count: u8| {
        let header = [4, 0, 0, 23, 0, 0, 0, count, 0, 0, 0, count];
        datagram(Protocol::Tcp, &[&header[..], &[0x50, 0x10, 1, 0, 7, 7, 0, 0, b'x']].concat())
    };
    let sent: Vec<u8> = (0..3).flat_map(|count| [&[0, 41][..], &typed(count)].concat()).collect();
    vec![
        [&[15][..], &sent].concat(),
        [&[0x8F][..], &sent, &[2, 4, 0x0B, 1, 2, 3], &[3, 0], &[2, 5, 0x4F, 0, 1, 2, 3]].concat(),
    ]
}
