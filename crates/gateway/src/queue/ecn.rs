//! Congestion marks in the Internet header (RFC 3168 §5).

use crate::incremental_checksum::{replace_word, word_at};

/// The two bits of the ECN field.
const ECN: u16 = 0b11;
const NOT_ECT: u16 = 0b00;
const CE: u16 = 0b11;
const IPV4_CHECKSUM_AT: usize = 10;
/// Offset of the ECN field of IPv6 in the first word of the header, in bits.
const IPV6_SHIFT: u32 = 4;

/// Sets Congestion Experienced if the transport of the packet supports ECN. Returns whether the
/// packet carries the mark now.
pub(super) fn mark(datagram: &mut [u8]) -> bool {
    let Some(word) = word_at(datagram, 0) else { return false };
    match word >> 12 {
        4 if word & ECN == NOT_ECT => false,
        4 => replace_word(datagram, 0, word | CE, IPV4_CHECKSUM_AT).is_some(),
        6 if (word >> IPV6_SHIFT) & ECN == NOT_ECT => false,
        6 => {
            let marked = (word | CE << IPV6_SHIFT).to_be_bytes();
            datagram.first_chunk_mut().map(|field| *field = marked).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{udp4, udp6};
    use super::*;
    use net::internet::{ipv4, ipv6};

    #[test]
    fn an_ipv4_packet_with_ect_is_marked_and_keeps_a_valid_checksum() {
        for ect in [1, 2, 3] {
            let mut packet = udp4(1, 2, 3, 10);
            replace_word(&mut packet, 0, 0x4500 | ect, 10).unwrap();
            assert!(mark(&mut packet));
            assert_eq!(ipv4::Header::parse(&packet).unwrap().header.dscp_ecn, 3);
        }
    }

    #[test]
    fn an_ipv6_packet_with_ect_is_marked_and_keeps_its_class_and_flow_label() {
        let mut packet = udp6(1, 2, 3, 10);
        packet[..4].copy_from_slice(&[0x6A, 0xAA, 0xBC, 0xDE]);
        assert!(mark(&mut packet));
        let header = ipv6::Header::parse(&packet).unwrap().header;
        assert_eq!((header.dscp_ecn, header.flow_label), (0xAB, 0xA_BCDE));
    }

    #[test]
    fn a_packet_without_ect_stays_unmarked() {
        for mut packet in [udp4(1, 2, 3, 10), udp6(1, 2, 3, 10), vec![], vec![0x45]] {
            let before = packet.clone();
            assert!(!mark(&mut packet));
            assert_eq!(packet, before);
        }
    }
}
