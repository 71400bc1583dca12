//! A network device that segments super-segments, like one with TCP segmentation offload.
//!
//! The stack passes super-segments to this device as to an adapter with segmentation offload. The
//! scripts see the packets after segmentation: no segment exceeds the MSS, and only the last
//! segment of a super-segment has PSH.
//!
//! Scripts also check which segments have PSH. RFC 9293 §3.9.1.2 requires PSH with the last byte
//! that the user has written, and leaves the other segments to the sender. On a slow path, as in
//! the scripts, Linux builds two segments at a time, and sets PSH on the second segment at its
//! first transmission. For a script written for Linux the device does the same. The device never
//! clears PSH.

use net::checksum::Sum;
use net::transport::tcp::seq::Seq;
use std::collections::BTreeMap;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const PROTOCOL_TCP: u8 = 6;

/// A device with TCP segmentation.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// End of the data sent so far on each connection, by its two ports; `None` if the device does
    /// not set PSH on every second segment.
    sent_ends: Option<BTreeMap<[u8; 4], Seq>>,
}

impl Device {
    /// Creates a device that sets PSH on every second segment of new data.
    pub(crate) fn with_push_on_second_segments() -> Self {
        Self { sent_ends: Some(BTreeMap::new()) }
    }

    /// Cuts an IPv4 datagram into segments of `segment_size` data bytes. If `segment_size` is 0 or
    /// the data is not longer, returns the datagram uncut.
    pub(crate) fn cut(&mut self, datagram: Vec<u8>, segment_size: u16) -> Vec<Vec<u8>> {
        self.segments(&datagram, usize::from(segment_size)).unwrap_or_else(|| vec![datagram])
    }

    fn segments(&mut self, datagram: &[u8], segment_size: usize) -> Option<Vec<Vec<u8>>> {
        let ip_len = usize::from(datagram.first()? & 0x0F) * 4;
        let (ip, segment) = datagram.split_at_checked(ip_len)?;
        let tcp_len = usize::from(*segment.get(12)? >> 4) * 4;
        let (tcp, data) = segment.split_at_checked(tcp_len)?;
        if data.is_empty() {
            return None;
        }
        let segment_size = if segment_size == 0 { data.len() } else { segment_size };
        let flags = *tcp.get(13)?;
        let seq = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
        let count = data.len().div_ceil(segment_size);
        let mut all = Vec::with_capacity(count);
        for (number, part) in data.chunks(segment_size).enumerate() {
            let is_first = number == 0;
            let is_last = number + 1 == count;
            let mut tcp = tcp.to_vec();
            let seq = seq.wrapping_add(u32::try_from(number * segment_size).ok()?);
            tcp.get_mut(4..8)?.copy_from_slice(&seq.to_be_bytes());
            let kept_flags = if is_first { flags } else { flags & !CWR };
            let kept_flags = if is_last { kept_flags } else { kept_flags & !(FIN | PSH) };
            let end = seq.wrapping_add(u32::try_from(part.len()).ok()?);
            let is_new = self.is_new(tcp.get(..4)?.try_into().ok()?, Seq(end));
            let pushes = is_new && number % 2 == 1;
            *tcp.get_mut(13)? = if pushes { kept_flags | PSH } else { kept_flags };
            tcp.extend_from_slice(part);
            all.push(with_ip_header(ip, tcp)?);
        }
        Some(all)
    }

    /// Records that data up to `end` was sent, and returns whether it was not sent before. Always
    /// false for a device that does not set PSH.
    fn is_new(&mut self, ports: [u8; 4], end: Seq) -> bool {
        let Some(sent_ends) = &mut self.sent_ends else { return false };
        let sent = sent_ends.get(&ports).copied();
        let is_new = sent.is_none_or(|sent| end.is_after(sent));
        if is_new {
            sent_ends.insert(ports, end);
        }
        is_new
    }
}

/// Prepends the IP header `ip` to a segment, and computes both checksums.
pub(crate) fn with_ip_header(ip: &[u8], mut tcp: Vec<u8>) -> Option<Vec<u8>> {
    let len = u16::try_from(tcp.len()).ok()?;
    let pseudo = Sum::default().bytes(ip.get(12..20)?).word(PROTOCOL_TCP.into()).word(len);
    let field = tcp.get_mut(16..18)?;
    field.fill(0);
    let checksum = pseudo.bytes(&tcp).finish().to_be_bytes();
    tcp.get_mut(16..18)?.copy_from_slice(&checksum);
    let mut datagram = ip.to_vec();
    let total_len = u16::try_from(ip.len()).ok()?.checked_add(len)?;
    datagram.get_mut(2..4)?.copy_from_slice(&total_len.to_be_bytes());
    datagram.get_mut(10..12)?.fill(0);
    let checksum = Sum::default().bytes(&datagram).finish().to_be_bytes();
    datagram.get_mut(10..12)?.copy_from_slice(&checksum);
    datagram.extend(tcp);
    Some(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::{ACK, datagram};

    #[test]
    fn a_super_segment_becomes_segments_with_good_checksums() {
        let data: Vec<u8> = (0..25).collect();
        let all =
            Device::default().cut(datagram(80, ACK | PSH | FIN | CWR, 0xFFFF_FFFA, 7, &data), 10);
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
    fn a_short_segment_is_not_divided() {
        let datagram = datagram(80, ACK, 1, 1, b"ten bytes.");
        for segment_size in [10, 0] {
            assert_eq!(
                Device::default().cut(datagram.clone(), segment_size),
                std::slice::from_ref(&datagram)
            );
        }
    }

    #[test]
    fn a_pushing_device_sets_psh_on_every_second_new_segment() {
        let mut device = Device::with_push_on_second_segments();
        let flags = |all: Vec<Vec<u8>>| all.iter().map(|s| s[33]).collect::<Vec<_>>();
        let all = device.cut(datagram(80, ACK, 0, 7, &[0; 50]), 10);
        assert_eq!(flags(all), [ACK, ACK | PSH, ACK, ACK | PSH, ACK]);
        let retransmitted = device.cut(datagram(80, ACK, 10, 7, &[0; 20]), 10);
        assert_eq!(flags(retransmitted), [ACK, ACK]);
    }
}
