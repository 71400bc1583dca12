//! The ARP packet for IPv4 on Ethernet (RFC 826): 28 bytes, parsed completely or rejected.

use crate::link::ethernet::MacAddress;
use core::net::Ipv4Addr;

/// Length of a packet, in bytes.
pub const PACKET_LEN: usize = 28;

/// First six bytes of every packet: hardware type Ethernet (1), protocol type IPv4 (0x0800), and
/// the lengths of both addresses.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// The operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// 1: a request for the hardware address of the target.
    Request,
    /// 2: a reply with the sender's hardware address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpPacket {
    /// The operation.
    pub operation: Operation,
    /// The Ethernet address of the sender.
    pub sender_mac: MacAddress,
    /// The Internet address of the sender; 0.0.0.0 in a probe (RFC 5227 §1.1).
    pub sender: Ipv4Addr,
    /// The Ethernet address of the target; undefined in a request.
    pub target_mac: MacAddress,
    /// The Internet address of the target.
    pub target: Ipv4Addr,
}

/// Reasons why bytes are not an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// There are fewer than 28 bytes.
    Truncated,
    /// The packet is not about IPv4 on Ethernet, or its address lengths are not 6 and 4.
    Kind,
    /// The packet is neither a request nor a reply.
    Operation,
    /// The sender of the packet is a group address, or not a valid Ethernet address.
    Sender,
}

impl ArpPacket {
    /// Parses a packet. Bytes after it are padding of the frame and are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the packet is truncated, or not an ARP packet for IPv4 on Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let packet = bytes.first_chunk::<PACKET_LEN>().ok_or(PacketError::Truncated)?;
        let (prefix, rest) = split(packet)?;
        // The lengths are compared and never used in arithmetic (row 22 of the attack table).
        if *prefix != PREFIX {
            return Err(PacketError::Kind);
        }
        let (operation, rest) = split(rest)?;
        let operation = match *operation {
            REQUEST => Operation::Request,
            REPLY => Operation::Reply,
            _ => return Err(PacketError::Operation),
        };
        let (sender_mac, rest) = split(rest)?;
        let (sender, rest) = split::<4>(rest)?;
        let (target_mac, rest) = split(rest)?;
        let (target, _) = split::<4>(rest)?;
        let sender_mac = MacAddress::new(*sender_mac);
        if !sender_mac.is_unicast() {
            return Err(PacketError::Sender);
        }
        Ok(Self {
            operation,
            sender_mac,
            sender: (*sender).into(),
            target_mac: MacAddress::new(*target_mac),
            target: (*target).into(),
        })
    }

    /// Returns the bytes of the packet.
    #[must_use]
    pub fn emit(&self) -> [u8; PACKET_LEN] {
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        let sender_mac = self.sender_mac.octets();
        let target_mac = self.target_mac.octets();
        let sender = self.sender.octets();
        let target = self.target.octets();
        let fields: [&[u8]; 6] = [&PREFIX, &operation, &sender_mac, &sender, &target_mac, &target];
        let mut bytes = [0; PACKET_LEN];
        let field_bytes = fields.into_iter().flatten();
        bytes.iter_mut().zip(field_bytes).for_each(|(to, byte)| *to = *byte);
        bytes
    }
}

fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: ArpPacket = ArpPacket {
        operation: Operation::Request,
        sender_mac: MacAddress::new([2, 0, 0, 0, 0, 2]),
        sender: Ipv4Addr::new(10, 0, 0, 2),
        target_mac: MacAddress::UNSPECIFIED,
        target: Ipv4Addr::new(10, 0, 0, 1),
    };

    // attack row 22
    #[test]
    fn row_22_a_packet_with_false_address_lengths_is_rejected() {
        let bytes = PACKET.emit();
        let failures = (0..=255).flat_map(|hlen| [0, 3, 4, 5, 6, 255].map(|plen| (hlen, plen)));
        let read = failures.filter(|(hlen, plen)| {
            let mut bytes = bytes;
            bytes[4] = *hlen;
            bytes[5] = *plen;
            ArpPacket::parse(&bytes).is_ok()
        });
        assert!(read.eq([(6, 4)]));
    }

    // attack row 22
    #[test]
    fn row_22_a_packet_cut_at_any_byte_is_rejected() {
        let bytes = PACKET.emit();
        let results = (0..PACKET_LEN).map(|len| ArpPacket::parse(&bytes[..len]));
        assert!(results.into_iter().all(|parsed| parsed == Err(PacketError::Truncated)));
    }

    #[test]
    fn a_packet_from_a_group_is_rejected() {
        let packet = ArpPacket { sender_mac: MacAddress::BROADCAST, ..PACKET };
        assert_eq!(ArpPacket::parse(&packet.emit()), Err(PacketError::Sender));
    }

    #[test]
    fn another_library_parses_an_emitted_packet() {
        let parsed = etherparse::ArpPacketSlice::from_slice(&PACKET.emit()).unwrap().to_packet();
        let parsed = parsed.try_eth_ipv4().unwrap();
        assert_eq!(parsed.operation, etherparse::ArpOperation::REQUEST);
        assert_eq!(parsed.sender_mac, PACKET.sender_mac.octets());
        assert_eq!(parsed.sender_ipv4, PACKET.sender.octets());
        assert_eq!(parsed.target_ipv4, PACKET.target.octets());
    }

    proptest! {
        #[test]
        fn an_emitted_packet_is_parsed_back(
            is_reply: bool, macs: [[u8; 6]; 2], addresses: [[u8; 4]; 2],
        ) {
            let [sender_mac, target_mac] = macs.map(MacAddress::new);
            let [sender, target] = addresses.map(Ipv4Addr::from);
            prop_assume!(sender_mac.is_unicast());
            let operation = if is_reply { Operation::Reply } else { Operation::Request };
            let packet = ArpPacket { operation, sender_mac, sender, target_mac, target };
            prop_assert_eq!(ArpPacket::parse(&packet.emit()), Ok(packet));
        }
    }
}
