//! The packets of PPP's control protocols (RFC 1661 §5), and the options in them. A packet consists
//! of code, identifier, length and data. An option consists of kind, length and value.

use alloc::vec::Vec;

/// Length of code, identifier and length field, in bytes.
pub(super) const HEADER_LEN: usize = 4;
/// Length of kind and length field of an option, in bytes.
const OPTION_HEADER_LEN: usize = 2;

/// The packet codes: those of all control protocols, and those of LCP alone.
pub(super) struct Code;

impl Code {
    pub(super) const CONFIGURE_REQUEST: u8 = 1;
    pub(super) const CONFIGURE_ACK: u8 = 2;
    pub(super) const CONFIGURE_NAK: u8 = 3;
    pub(super) const CONFIGURE_REJECT: u8 = 4;
    pub(super) const TERMINATE_REQUEST: u8 = 5;
    pub(super) const TERMINATE_ACK: u8 = 6;
    pub(super) const CODE_REJECT: u8 = 7;
    pub(super) const PROTOCOL_REJECT: u8 = 8;
    pub(super) const ECHO_REQUEST: u8 = 9;
    pub(super) const ECHO_REPLY: u8 = 10;
    pub(super) const DISCARD_REQUEST: u8 = 11;
}

/// A packet with a valid length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'p> {
    pub(super) code: u8,
    /// The identifier. An answer has the identifier of its request.
    pub(super) identifier: u8,
    /// The data after the header.
    pub(super) data: &'p [u8],
    /// The whole packet.
    pub(super) bytes: &'p [u8],
}

impl<'p> Packet<'p> {
    /// Parses a packet; bytes after its length are padding.
    pub(super) fn read(bytes: &'p [u8]) -> Option<Self> {
        let (&[code, identifier, high, low], _) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let bytes = bytes.get(..usize::from(u16::from_be_bytes([high, low])))?;
        Some(Self { code, identifier, data: bytes.get(HEADER_LEN..)?, bytes })
    }
}

/// Returns the bytes of a packet.
pub(super) fn emit(code: u8, identifier: u8, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(HEADER_LEN + data.len()).unwrap_or(u16::MAX);
    let data = data.get(..usize::from(len) - HEADER_LEN).unwrap_or_default();
    let [high, low] = len.to_be_bytes();
    let mut packet = Vec::from([code, identifier, high, low]);
    packet.extend_from_slice(data);
    packet
}

/// Parses a list of options. Returns `None` if a length is invalid.
pub(super) fn options(mut bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut options = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        let len = usize::from(*rest.first()?);
        options.push((*kind, bytes.get(OPTION_HEADER_LEN..len)?));
        bytes = bytes.get(len..)?;
    }
    Some(options)
}

/// Appends an option. A value too long for the length field is truncated, but this host has no such
/// values.
pub(super) fn put_option(kind: u8, value: &[u8], options: &mut Vec<u8>) {
    let len = u8::try_from(OPTION_HEADER_LEN + value.len()).unwrap_or(u8::MAX);
    options.extend([kind, len]);
    let value_len = usize::from(len) - OPTION_HEADER_LEN;
    options.extend_from_slice(value.get(..value_len).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_parsed_up_to_its_length() {
        let packet = Packet::read(&[9, 7, 0, 6, 1, 2, 3, 4]).unwrap();
        assert_eq!((packet.code, packet.identifier, packet.data), (9, 7, &[1, 2][..]));
    }

    #[test]
    fn a_packet_with_an_invalid_length_is_rejected() {
        for bytes in [&[1, 1, 0][..], &[1, 1, 0, 3], &[1, 1, 0, 5], &[1, 1, 255, 255, 0]] {
            assert_eq!(Packet::read(bytes), None);
        }
    }

    #[test]
    fn an_option_with_an_invalid_length_invalidates_the_list() {
        for bytes in [&[1][..], &[1, 0], &[1, 1], &[1, 3], &[1, 2, 5, 4, 0]] {
            assert_eq!(options(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn any_packet_of_options_is_parsed_back(
            identifier: u8,
            made in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..253)), 0..9),
        ) {
            let mut list = Vec::new();
            made.iter().for_each(|(kind, value)| put_option(*kind, value, &mut list));
            let bytes = emit(1, identifier, &list);
            let packet = Packet::read(&bytes).unwrap();
            let read = options(packet.data).unwrap();
            prop_assert!(read.iter().map(|(kind, value)| (*kind, value.to_vec())).eq(made));
        }
    }
}
