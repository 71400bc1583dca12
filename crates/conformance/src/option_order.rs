//! Order of the options in a SYN, which differs between systems.
//!
//! Scripts compare options byte by byte, including padding. RFC 9293 §3.1 specifies no order. To
//! match a script for another system, this file rewrites the options in that system's order: the
//! same options with the same values, but different padding. Only SYNs are rewritten.

use crate::device;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SynOptions {
    mss: Option<[u8; 2]>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<[u8; 8]>,
    /// Whether the SYN has an option without a field in this struct, which rewriting would lose.
    has_other: bool,
}

const SYN: u8 = 0x02;
const PROTOCOL_TCP: u8 = 6;

impl SynOptions {
    fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        while let [kind, rest @ ..] = bytes {
            match (kind, rest) {
                (0, _) => return options,
                (1, _) => bytes = rest,
                (_, [len, ..]) if *len >= 2 && usize::from(*len) <= bytes.len() => {
                    let (option, rest) = bytes.split_at(usize::from(*len));
                    options.add(option);
                    bytes = rest;
                }
                _ => return Self { has_other: true, ..options },
            }
        }
        options
    }

    fn add(&mut self, option: &[u8]) {
        match option {
            [2, 4, high, low] => self.mss = Some([*high, *low]),
            [3, 3, shift] => self.window_scale = Some(*shift),
            [4, 2] => self.sack_permitted = true,
            [8, 10, rest @ ..] => self.timestamps = <[u8; 8]>::try_from(rest).ok(),
            _ => self.has_other = true,
        }
    }

    /// Encodes the options like FreeBSD, in the order MSS, window scale, SACK permitted,
    /// timestamps. Each is aligned by leading no-operation options, and the list is padded with
    /// zeros.
    fn encode_freebsd(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        if let Some([high, low]) = self.mss {
            out.extend([2, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            out.extend([1, 3, 3, shift]);
        }
        if self.sack_permitted {
            out.extend([4, 2]);
        }
        if let Some(stamps) = self.timestamps {
            while out.len() % 4 != 2 {
                out.push(1);
            }
            out.extend([8, 10]);
            out.extend(stamps);
        }
        while !out.len().is_multiple_of(4) {
            out.push(0);
        }
        out
    }
}

/// Rewrites the options of a SYN in an IPv4 datagram in FreeBSD's order; returns any other datagram
/// unchanged.
pub(crate) fn as_freebsd(datagram: Vec<u8>) -> Vec<u8> {
    rewritten(&datagram).unwrap_or(datagram)
}

fn rewritten(datagram: &[u8]) -> Option<Vec<u8>> {
    let header_len = usize::from(datagram.first()? & 0x0F) * 4;
    if *datagram.get(9)? != PROTOCOL_TCP {
        return None;
    }
    let (ip, segment) = datagram.split_at_checked(header_len)?;
    let data_offset = usize::from(*segment.get(12)? >> 4) * 4;
    if segment.get(13)? & SYN == 0 {
        return None;
    }
    let options = SynOptions::parse(segment.get(20..data_offset)?);
    let encoded = options.encode_freebsd();
    if options.has_other {
        return None;
    }
    let mut tcp = segment.get(..20)?.to_vec();
    let words = u8::try_from((20 + encoded.len()) / 4).ok()?;
    *tcp.get_mut(12)? = words << 4;
    tcp.extend(encoded);
    tcp.extend(segment.get(data_offset..)?);
    device::with_ip_header(ip, tcp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::checksum::Sum;
    use proptest::prelude::*;

    const LINUX: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 6];
    const FREEBSD: [u8; 20] = [2, 4, 5, 180, 1, 3, 3, 6, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0];

    #[test]
    fn options_are_encoded_in_the_order_of_freebsd() {
        assert_eq!(SynOptions::parse(&LINUX).encode_freebsd(), FREEBSD);
    }

    #[test]
    fn the_options_are_padded_with_zeros() {
        let options = SynOptions::parse(&[2, 4, 5, 180, 1, 1, 4, 2]);
        assert_eq!(options.encode_freebsd(), [2, 4, 5, 180, 4, 2, 0, 0]);
    }

    #[test]
    fn a_rewritten_datagram_has_good_checksums_and_is_stable() {
        let mut datagram =
            vec![0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        datagram.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0xA0, SYN, 255, 255, 0, 0, 0, 0]);
        datagram.extend(LINUX);
        let rewritten_once = as_freebsd(datagram);
        assert!(Sum::default().bytes(&rewritten_once[..20]).is_good());
        let pseudo = Sum::default().bytes(&rewritten_once[12..20]).word(6).word(40);
        assert!(pseudo.bytes(&rewritten_once[20..]).is_good());
        assert_eq!(rewritten_once[40..], FREEBSD);
        assert_eq!(as_freebsd(rewritten_once.clone()), rewritten_once);
    }

    #[test]
    fn a_segment_without_syn_is_unchanged() {
        let mut datagram =
            vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        datagram.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 255, 255, 0, 0, 0, 0]);
        assert_eq!(as_freebsd(datagram.clone()), datagram);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = as_freebsd(bytes);
        }
    }
}
