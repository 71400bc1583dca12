//! Input: arbitrary bytes as a TCP segment, unchanged or with a repaired checksum. Checked: a
//! parsed header can be written and parsed again, and the known options do not change.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER, US, repair_transport};
use libfuzzer_sys::fuzz_target;
use net::internet::ipv4::Protocol;
use net::internet::pseudo_header;
use net::transport::tcp::header::{HEADER_LEN, Header, MAX_HEADER_LEN};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut repaired = input.to_vec();
    repair_transport(Protocol::Tcp, PEER, US, &mut repaired);
    for segment in [input, &repaired] {
        let Some((header, len)) = read(segment) else { continue };
        assert!((HEADER_LEN..=MAX_HEADER_LEN).contains(&len) && len <= segment.len());
        // Some options are padded for alignment when written, so a parsed header may exceed the
        // maximum header length.
        if HEADER_LEN + header.options.len() > MAX_HEADER_LEN {
            continue;
        }
        let mut bytes = [0; MAX_HEADER_LEN];
        let written = header.emit(&mut bytes);
        let mut rewritten = bytes[..written].to_vec();
        repair_transport(Protocol::Tcp, PEER, US, &mut rewritten);
        assert_eq!(read(&rewritten), Some((header, written)));
    }
});

fn read(segment: &[u8]) -> Option<(Header, usize)> {
    let len = u16::try_from(segment.len()).ok()?;
    let pseudo = pseudo_header(PEER.into(), US.into(), Protocol::Tcp, len);
    Header::parse(segment, pseudo.bytes(segment), &mut Bench::default().meter).ok()
}

/// Returns segments without options, with the options of a SYN, and with options of invalid length.
fn seeds() -> Vec<Vec<u8>> {
    let of_a_syn = [2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    [&[][..], &of_a_syn, &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2], &[2, 40, 0, 0], &[8, 0, 0, 0]]
        .into_iter()
        .map(|options| {
            let words = u8::try_from(5 + options.len() / 4).expect("few options");
            let fixed =
                [0, 23, 4, 210, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x12, 16, 0, 0, 0, 0, 0];
            [&fixed, options, b"data"].concat()
        })
        .collect()
}
