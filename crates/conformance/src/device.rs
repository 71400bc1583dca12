//! A network device that cuts super-segments, as one with TCP segmentation offload does.
//!
//! The stack hands over what it would hand to such a device, so the scripts see what would be on a
//! wire: no segment is longer than its MSS, and only the last of a super-segment is pushed.

use protocols::checksum::Sum;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const PROTOCOL_TCP: u8 = 6;

/// Cuts an IPv4 datagram into segments of `segment_size` data bytes; one of no size, or one that
/// is short enough, stays whole.
pub(crate) fn cut(datagram: Vec<u8>, segment_size: u16) -> Vec<Vec<u8>> {
    segments(&datagram, usize::from(segment_size)).unwrap_or_else(|| vec![datagram])
}

fn segments(datagram: &[u8], segment_size: usize) -> Option<Vec<Vec<u8>>> {
    let ip_len = usize::from(datagram.first()? & 0x0F) * 4;
    let (ip, segment) = datagram.split_at_checked(ip_len)?;
    let tcp_len = usize::from(*segment.get(12)? >> 4) * 4;
    let (tcp, data) = segment.split_at_checked(tcp_len)?;
    if segment_size == 0 || data.len() <= segment_size {
        return None;
    }
    let flags = *tcp.get(13)?;
    let seq = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let count = data.len().div_ceil(segment_size);
    let mut all = Vec::with_capacity(count);
    for (number, part) in data.chunks(segment_size).enumerate() {
        let (is_first, is_last) = (number == 0, number + 1 == count);
        let mut tcp = tcp.to_vec();
        let offset = u32::try_from(number * segment_size).ok()?;
        tcp.get_mut(4..8)?.copy_from_slice(&seq.wrapping_add(offset).to_be_bytes());
        let kept = if is_first { flags } else { flags & !CWR };
        *tcp.get_mut(13)? = if is_last { kept } else { kept & !(FIN | PSH) };
        tcp.extend_from_slice(part);
        all.push(seal(ip, tcp)?);
    }
    Some(all)
}

/// Puts the header of a datagram in front of a segment, and makes both checksums.
pub(crate) fn seal(ip: &[u8], mut tcp: Vec<u8>) -> Option<Vec<u8>> {
    let len = u16::try_from(tcp.len()).ok()?;
    let pseudo = Sum::default().bytes(ip.get(12..20)?).word(PROTOCOL_TCP.into()).word(len);
    let field = tcp.get_mut(16..18)?;
    field.fill(0);
    let checksum = pseudo.bytes(&tcp).finish().to_be_bytes();
    tcp.get_mut(16..18)?.copy_from_slice(&checksum);
    let mut whole = ip.to_vec();
    let total_len = u16::try_from(ip.len()).ok()?.checked_add(len)?;
    whole.get_mut(2..4)?.copy_from_slice(&total_len.to_be_bytes());
    whole.get_mut(10..12)?.fill(0);
    let checksum = Sum::default().bytes(&whole).finish().to_be_bytes();
    whole.get_mut(10..12)?.copy_from_slice(&checksum);
    whole.extend(tcp);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ACK, datagram};

    #[test]
    fn a_super_segment_becomes_segments_with_good_checksums() {
        let data: Vec<u8> = (0..25).collect();
        let all = cut(datagram(80, ACK | PSH | FIN | CWR, 0xFFFF_FFFA, 7, &data), 10);
        assert_eq!(all.len(), 3);
        for segment in &all {
            assert!(Sum::default().bytes(&segment[..20]).is_good());
            let len = u16::try_from(segment.len() - 20).unwrap();
            let pseudo = Sum::default().bytes(&segment[12..20]).word(6).word(len);
            assert!(pseudo.bytes(&segment[20..]).is_good());
        }
        let numbers: Vec<_> = all.iter().map(|segment| segment[24..28].to_vec()).collect();
        assert_eq!(numbers, [[255, 255, 255, 250], [0, 0, 0, 4], [0, 0, 0, 14]]);
        let flags: Vec<_> = all.iter().map(|segment| segment[33]).collect();
        assert_eq!(flags, [ACK | CWR, ACK, ACK | PSH | FIN]);
        let parts: Vec<u8> = all.iter().flat_map(|segment| segment[40..].to_vec()).collect();
        assert_eq!(parts, data);
    }

    #[test]
    fn a_segment_that_is_short_enough_stays_whole() {
        let whole = datagram(80, ACK, 1, 1, b"ten bytes.");
        for segment_size in [10, 0] {
            assert_eq!(cut(whole.clone(), segment_size), std::slice::from_ref(&whole));
        }
    }
}
