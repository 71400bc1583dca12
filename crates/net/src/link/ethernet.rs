//! Ethernet frames: their headers, and the filter for received frames.
//!
//! Frames are DIX Ethernet II (RFC 894, RFC 2464): two addresses and a type. A frame with a length
//! in place of the type (802.3 with LLC, RFC 1042) is counted and dropped. An 802.1Q tag with VLAN
//! 0 only contains a priority and is skipped. A frame with any other VLAN belongs to a network that
//! this host is not part of, and is dropped. The device computes the frame check sequence. A frame
//! shorter than the minimum length is padded with zeros. The padding of a received frame is removed
//! according to the length field of its datagram.
//!
//! The neighbor cache is part of the layer above, which builds and parses the frames.

use super::Datagram;
use crate::meter::Counter;
use crate::packet::Packet;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Length of a header without a tag, in bytes.
pub const HEADER_LEN: usize = 14;
/// Length of the shortest frame in bytes, without its check sequence (IEEE 802.3 §4A.2.3.2.4).
pub const FRAME_MIN_LEN: usize = 60;
/// Length of the longest datagram in a frame, in bytes (RFC 894, RFC 2464 §2).
pub const MTU: usize = 1500;

/// Length of an 802.1Q tag, in bytes.
const TAG_LEN: usize = 4;
/// Length of a header with a tag, in bytes.
const HEADERS_MAX_LEN: usize = HEADER_LEN + TAG_LEN;
/// Type field value of a tag.
const TAG: u16 = 0x8100;
/// Minimum value of a type. Smaller values of the field are lengths (IEEE 802.3 §3.2.6).
const TYPE_MIN: u16 = 0x0600;
/// Maximum number of groups in a filter; with more groups the filter accepts every group.
const GROUPS_LIMIT: usize = 32;

/// A device that carries whole frames, such as a TAP or a packet socket.
///
/// Its input and output are frames. The layer above builds and parses them.
#[derive(Debug)]
pub struct Ethernet {
    pub(super) frames: Datagram,
}

impl Ethernet {
    /// Returns a link for frames with datagrams of at most `mtu` bytes.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self { frames: Datagram::new(mtu + HEADERS_MAX_LEN) }
    }

    /// Removes the first queued frame. If the device has no space for it, call [`Self::put_back`].
    pub fn take_waiting(&mut self) -> Option<Packet> {
        self.frames.take_waiting()
    }

    /// Puts a frame back at the front of the queue, because the device had no space for it.
    pub fn put_back(&mut self, packet: Packet) {
        self.frames.put_back(packet);
    }

    /// Returns the length of the longest datagram in a frame, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.frames.mtu() - HEADERS_MAX_LEN
    }
}

/// A 48-bit Ethernet address, of an interface or of a group of interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// All hosts on the segment.
    pub const BROADCAST: Self = Self([0xFF; 6]);
    /// The null address, for a field without an address.
    pub const UNSPECIFIED: Self = Self([0; 6]);

    /// Returns an address from its bytes in wire order.
    #[must_use]
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// Returns the bytes in wire order.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Returns whether this is a group address, such as the broadcast address.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether this is the address of a single interface.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::UNSPECIFIED
    }

    /// Returns the address of an IPv4 group: 01-00-5E and the group's low 23 bits (RFC 1112 §6.4).
    #[must_use]
    pub const fn of_group_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5E, b & 0x7F, c, d])
    }

    /// Returns the address of an IPv6 group: 33-33 and the group's low 32 bits (RFC 2464 §7).
    #[must_use]
    pub const fn of_group_v6(group: Ipv6Addr) -> Self {
        let [.., c, d, e, f] = group.octets();
        Self([0x33, 0x33, c, d, e, f])
    }

    /// Returns a locally administered address of a single interface from `bits`.
    #[must_use]
    pub const fn local_from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a & 0xFC | 0x02, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The error for a string that is not six hexadecimal bytes separated by colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddressError;

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(MacAddressError)?;
            let is_byte = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            let byte = u8::from_str_radix(part, 16).map_err(|_| MacAddressError)?;
            *octet = is_byte.then_some(byte).ok_or(MacAddressError)?;
        }
        parts.next().is_none().then_some(Self(octets)).ok_or(MacAddressError)
    }
}

/// The protocol of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherType {
    /// 0x0800: an IPv4 datagram.
    Ipv4,
    /// 0x0806: an ARP packet.
    Arp,
    /// 0x86DD: an IPv6 packet.
    Ipv6,
    /// Any other type.
    Other(u16),
}

impl From<u16> for EtherType {
    fn from(value: u16) -> Self {
        match value {
            0x0800 => Self::Ipv4,
            0x0806 => Self::Arp,
            0x86DD => Self::Ipv6,
            other => Self::Other(other),
        }
    }
}

impl From<EtherType> for u16 {
    fn from(ether_type: EtherType) -> Self {
        match ether_type {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86DD,
            EtherType::Other(other) => other,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// Protocol of the payload.
    pub ether_type: EtherType,
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The header.
    pub header: Header,
    /// Length of the header in bytes, including a tag if there is one.
    pub header_len: usize,
}

/// Reasons why a frame cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame ends inside its header.
    Truncated,
    /// The source of the frame is a group address, or the null address.
    Source,
    /// The frame has a length in place of a type.
    Length,
    /// The frame belongs to a VLAN, or has more than one tag.
    Vlan,
}

impl FrameError {
    /// Returns the counter of this error.
    #[must_use]
    pub const fn counter(self) -> Counter {
        match self {
            Self::Truncated | Self::Source => Counter::EthernetFrameErrors,
            Self::Length => Counter::EthernetTypesUnknown,
            Self::Vlan => Counter::EthernetFramesOfVlans,
        }
    }
}

impl Header {
    /// Parses the header at the start of a frame.
    ///
    /// # Errors
    ///
    /// Returns an error if the frame is truncated, if its source is a group, or if its type is not
    /// supported.
    pub fn parse(frame: &[u8]) -> Result<Parsed, FrameError> {
        let (destination, rest) = frame.split_first_chunk().ok_or(FrameError::Truncated)?;
        let (source, rest) = rest.split_first_chunk().ok_or(FrameError::Truncated)?;
        let (ether_type, rest) = rest.split_first_chunk().ok_or(FrameError::Truncated)?;
        let destination = MacAddress(*destination);
        let source = MacAddress(*source);
        if !source.is_unicast() {
            return Err(FrameError::Source);
        }
        let mut ether_type = u16::from_be_bytes(*ether_type);
        let mut header_len = HEADER_LEN;
        if ether_type == TAG {
            let tag = rest.first_chunk::<TAG_LEN>().ok_or(FrameError::Truncated)?;
            let [t0, t1, e0, e1] = *tag;
            // The low 12 bits are the VLAN; the upper ones are priority and drop eligibility.
            if u16::from_be_bytes([t0, t1]) & 0x0FFF != 0 {
                return Err(FrameError::Vlan);
            }
            ether_type = u16::from_be_bytes([e0, e1]);
            header_len += TAG_LEN;
        }
        match ether_type {
            TAG => Err(FrameError::Vlan),
            length if length < TYPE_MIN => Err(FrameError::Length),
            other => {
                let header = Self { destination, source, ether_type: other.into() };
                Ok(Parsed { header, header_len })
            }
        }
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let [d0, d1, d2, d3, d4, d5] = self.destination.0;
        let [s0, s1, s2, s3, s4, s5] = self.source.0;
        let [t0, t1] = u16::from(self.ether_type).to_be_bytes();
        [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1]
    }
}

/// Pads a frame with zeros to [`FRAME_MIN_LEN`].
pub fn pad(frame: &mut Packet) {
    if frame.len() < FRAME_MIN_LEN {
        frame.resize(FRAME_MIN_LEN);
    }
}

/// A filter that decides which frames are accepted, as in a hardware interface.
#[derive(Clone, Debug)]
pub struct Filter {
    ours: MacAddress,
    groups: Vec<MacAddress>,
    accepts_all_groups: bool,
}

impl Filter {
    /// Returns a filter that accepts frames to `ours` and broadcasts.
    #[must_use]
    pub fn new(ours: MacAddress) -> Self {
        Self { ours, groups: Vec::new(), accepts_all_groups: false }
    }

    /// Also accepts frames to `group`. If there are more than 32 groups, the filter accepts frames
    /// to every group, as hardware interfaces do. The layers above then drop unwanted frames.
    pub fn join(&mut self, group: MacAddress) {
        if self.groups.contains(&group) {
            return;
        }
        if self.groups.len() < GROUPS_LIMIT {
            self.groups.push(group);
        } else {
            self.accepts_all_groups = true;
        }
    }

    /// Removes all groups.
    pub fn leave_all(&mut self) {
        self.groups.clear();
        self.accepts_all_groups = false;
    }

    /// Returns whether a frame to `destination` is accepted.
    #[must_use]
    pub fn accepts(&self, destination: MacAddress) -> bool {
        destination == self.ours
            || destination == MacAddress::BROADCAST
            || destination.is_multicast()
                && (self.accepts_all_groups || self.groups.contains(&destination))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    const OURS: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
    const THEIRS: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);

    fn frame(behind_the_addresses: &[u8]) -> Vec<u8> {
        [&OURS.octets()[..], &THEIRS.octets(), behind_the_addresses].concat()
    }

    #[test]
    fn the_group_of_rfc_1112_maps_its_low_23_bits() {
        let group = MacAddress::of_group_v4(Ipv4Addr::new(224, 129, 2, 3));
        assert_eq!(group.to_string(), "01:00:5e:01:02:03");
    }

    #[test]
    fn the_group_of_rfc_2464_maps_its_low_32_bits() {
        let group = MacAddress::of_group_v6("ff02::1:ff28:9c5a".parse().unwrap());
        assert_eq!(group.to_string(), "33:33:ff:28:9c:5a");
    }

    #[test]
    fn an_address_of_local_administration_means_one_interface() {
        let address = MacAddress::local_from_bits(u64::MAX);
        assert_eq!(address.to_string(), "fe:ff:ff:ff:ff:ff");
        assert!(address.is_unicast());
    }

    #[test]
    fn an_invalid_address_string_is_rejected() {
        let invalid_strings =
            ["", "1", "02:00:00:00:00", "02:00:00:00:00:01:02", "02:00:00:00:00:+1"];
        assert!(invalid_strings.iter().all(|text| text.parse::<MacAddress>().is_err()));
        assert_eq!("02:00:00:00:00:01".parse(), Ok(OURS));
    }

    #[test]
    fn a_tag_with_a_priority_alone_is_skipped() {
        let parsed = Header::parse(&frame(&[0x81, 0x00, 0xE0, 0x00, 0x08, 0x00])).unwrap();
        assert_eq!((parsed.header.ether_type, parsed.header_len), (EtherType::Ipv4, 18));
    }

    #[test]
    fn a_frame_of_a_vlan_is_dropped() {
        let tagged = frame(&[0x81, 0x00, 0x00, 0x07, 0x08, 0x00]);
        assert_eq!(Header::parse(&tagged), Err(FrameError::Vlan));
        let double_tagged = frame(&[0x81, 0x00, 0x00, 0x00, 0x81, 0x00, 0, 0, 8, 0]);
        assert_eq!(Header::parse(&double_tagged), Err(FrameError::Vlan));
    }

    #[test]
    fn a_frame_with_a_length_in_place_of_a_type_is_dropped() {
        assert_eq!(Header::parse(&frame(&[0x05, 0xFF])), Err(FrameError::Length));
    }

    #[test]
    fn a_frame_from_a_group_is_dropped() {
        let mut group_frame = frame(&[8, 0]);
        group_frame[6] |= 1;
        assert_eq!(Header::parse(&group_frame), Err(FrameError::Source));
    }

    #[test]
    fn a_short_frame_is_filled_with_zeros() {
        let mut packet = Packet::from_slice(&[7; 42]);
        pad(&mut packet);
        assert_eq!(packet.data(), [[7; 42].as_slice(), &[0; 18]].concat());
    }

    #[test]
    fn a_filter_accepts_our_address_broadcasts_and_our_groups() {
        let group = MacAddress::of_group_v6("ff02::1".parse().unwrap());
        let mut filter = Filter::new(OURS);
        assert!(filter.accepts(OURS) && filter.accepts(MacAddress::BROADCAST));
        assert!(!filter.accepts(THEIRS) && !filter.accepts(group));
        filter.join(group);
        assert!(filter.accepts(group));
    }

    #[test]
    fn a_filter_with_too_many_groups_accepts_every_group() {
        let mut filter = Filter::new(OURS);
        (0..40).for_each(|i| filter.join(MacAddress::new([0x33, 0x33, 0, 0, 0, i])));
        assert_eq!(filter.groups.len(), GROUPS_LIMIT);
        assert!(filter.accepts(MacAddress::new([0x33, 0x33, 9, 9, 9, 9])));
        assert!(!filter.accepts(THEIRS));
    }

    proptest! {
        #[test]
        fn an_emitted_header_is_parsed_back(
            destination: [u8; 6], source: [u8; 6], ether_type in TYPE_MIN..,
        ) {
            let destination = MacAddress(destination);
            let source = MacAddress(source);
            prop_assume!(source.is_unicast() && ether_type != TAG);
            let header = Header { destination, source, ether_type: ether_type.into() };
            let parsed = Parsed { header, header_len: HEADER_LEN };
            prop_assert_eq!(Header::parse(&header.emit()), Ok(parsed));
        }

        #[test]
        fn no_bytes_are_read_beyond_their_end(bytes: Vec<u8>) {
            if let Ok(parsed) = Header::parse(&bytes) {
                prop_assert!(parsed.header_len <= bytes.len());
            }
        }

        #[test]
        fn an_emitted_address_is_parsed_back(octets: [u8; 6]) {
            let address = MacAddress(octets);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
