//! Van Jacobson's compression of TCP/IPv4 headers for slow serial lines (RFC 1144).
//!
//! Theory of operation. Most of the 40 header bytes of a segment are the same as in the previous
//! segment of the connection, and most of the others change by little. For a few connections, each
//! end of the line stores the headers of the connection's last segment in a numbered slot. The
//! compressor converts a datagram to one of three kinds. The link below marks the kind on the line:
//!
//! - [`Kind::Ip`]: the unchanged datagram. Used for fragments, for segments with SYN, FIN or RST,
//!   and for all protocols except TCP.
//! - [`Kind::UncompressedTcp`]: the unchanged segment, except that the protocol field contains a
//!   slot number. Both ends store its headers in that slot.
//! - [`Kind::CompressedTcp`]: the differences from the headers in the slot, and the data (§3.2.2):
//!
//! ```text
//! mask     flags of the following fields: C I P S A W U (P is the segment's PSH bit, not a field)
//! [C]      number of the slot, if it differs from that of the previous segment
//! checksum TCP's own, two bytes: it detects that the two ends disagree
//! [U] [W] [A] [S] [I]   urgent pointer, then the differences of window, acknowledgment, sequence
//!          number and IP identification: one byte from 1 to 255, or 0 and two bytes
//! data
//! ```
//!
//! A difference of 1 in the identification needs no byte. Two masks that can hardly occur represent
//! the two most frequent segments. SWU is the echo of a character: sequence number and
//! acknowledgment both advance by the length of the previous segment's data. SAWU is bulk data:
//! only the sequence number advances by that length. A segment whose real changes have one of these
//! two masks is sent uncompressed. A segment without changes is sent uncompressed too, because it
//! is a retransmission and the peer may lack the previous segment.
//!
//! After a loss the slot of the decompressor is outdated. The segments decompressed with it have a
//! wrong TCP checksum until the retransmission arrives uncompressed (§4.1). If the link has
//! detected the loss, the decompressor may also not know the current slot. It then drops ("tosses")
//! all segments until one contains its slot number (§4.2). After an undetected loss, the
//! decompressor may apply the changes of one connection to the slot of another connection. Only
//! TCP's checksum can detect this error. It does not detect the error if the lost changes have the
//! same sum on both connections. The slot number may be omitted only if the link reports its errors
//! (RFC 1332 §4); SLIP reports those that it can detect.
//!
//! A loss may also cause an error in the slot of the same connection that no checksum detects: two
//! fields are wrong by amounts whose one's complement sum is zero. This happens if the window of
//! the lost segment shrinks by exactly the length of the data before it. It can also happen in the
//! special case of an echo, if the lost segment and the previous one have data of different
//! lengths. RFC 1144 accepts this; a link with a checksum of its own, such as PPP, does not help,
//! because nothing is damaged. The IP identification is not covered by any checksum that is sent,
//! and is wrong after a loss.
//!
//! An atomic datagram (with DF, not fragmented) may have any identification (RFC 6864 §4.1). If it
//! has none, the compressor assigns the identification that follows the one in its slot. An
//! identification that does not increase would cost three bytes in every segment.
//!
//! Two rules are stricter here than in the RFC's sample code. First, the ECN bits, which the sample
//! code ignores, are compared with those in the slot. If they differ, the segment is sent
//! uncompressed. Second, the receiver of the sample code does not change URG in the two special
//! cases. This receiver clears URG, and this sender uses no special case if URG is set in the slot.
//! Both kinds of peers therefore reconstruct the right segment.

use crate::checksum::Sum;
use crate::meter::{Counter, Meter};
use crate::packet::{HEADROOM, Packet};
use alloc::vec::Vec;

/// Maximum number of slots, and the number of slots of both ends if it is not negotiated (RFC 1144
/// §3.2.3).
pub const SLOTS_MAX: u8 = 16;

/// Maximum total length of the IPv4 and the TCP header, in bytes.
const HEADERS_LEN_MAX: usize = 120;
const _: () = assert!(HEADERS_LEN_MAX <= HEADROOM, "the headroom must hold decompressed headers");

/// The kinds of packets on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unchanged datagram.
    Ip,
    /// A datagram with the number of its slot in the protocol field.
    UncompressedTcp,
    /// The changes of the headers, and the data.
    CompressedTcp,
}

/// Reasons why a received packet cannot be converted into a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The packet is truncated, or refers to a slot that is empty or does not exist.
    Damaged,
    /// The packet contains no slot number, and after a loss the current slot is unknown.
    Tossed,
}

/// The mask's bits (RFC 1144 appendix A.1).
mod mask {
    pub(super) const CONNECTION: u8 = 0x40;
    pub(super) const IDENTIFICATION: u8 = 0x20;
    pub(super) const PUSH: u8 = 0x10;
    pub(super) const SEQUENCE: u8 = 0x08;
    pub(super) const ACKNOWLEDGMENT: u8 = 0x04;
    pub(super) const WINDOW: u8 = 0x02;
    pub(super) const URGENT: u8 = 0x01;
    pub(super) const SPECIALS: u8 = SEQUENCE | ACKNOWLEDGMENT | WINDOW | URGENT;
    /// Special mask for an echoed character: sequence number and acknowledgment both advance by the
    /// length of the previous segment's data.
    pub(super) const ECHO: u8 = SEQUENCE | WINDOW | URGENT;
    /// Special mask for bulk data: only the sequence number advances, by the length of the previous
    /// segment's data.
    pub(super) const BULK: u8 = SPECIALS;
}

const PROTOCOL_AT: usize = 9;
const PROTOCOL_TCP: u8 = 6;
const FRAGMENT: u16 = 0x3FFF;
/// The DF bit in byte 6 of the IPv4 header.
const DONT_FRAGMENT: u8 = 0x40;
const FIN_SYN_RST: u8 = 0x07;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;

/// The header compressor of the sending end.
#[derive(Debug)]
pub struct Compressor {
    slots: Vec<Slot>,
    slots_max: u8,
    /// The slot of the last segment. If the next segment uses the same slot, it may omit the slot
    /// number.
    last_slot: Option<u8>,
    may_omit_slot: bool,
    /// Number of segments compressed so far, to find the least recently used slot.
    clock: u64,
}

/// The header decompressor of the receiving end.
#[derive(Debug)]
pub struct Decompressor {
    slots: Vec<Option<Slot>>,
    last_slot: Option<u8>,
    is_tossing: bool,
}

/// The headers of the last segment of a connection.
#[derive(Clone, Debug)]
struct Slot {
    ip: [u8; 20],
    ip_options: Vec<u8>,
    tcp: [u8; 20],
    tcp_options: Vec<u8>,
    data_len: u16,
    used_at: u64,
}

/// The headers of an unfragmented TCP segment.
#[derive(Clone, Copy, Debug)]
struct Headers<'a> {
    ip: &'a [u8; 20],
    ip_options: &'a [u8],
    tcp: &'a [u8; 20],
    tcp_options: &'a [u8],
    data_len: u16,
}

impl Compressor {
    /// Returns a compressor for a peer with `slots` slots, 1 to [`SLOTS_MAX`]. If `may_omit_slot`
    /// is true, a segment contains its slot number only if it differs from that of the previous
    /// segment.
    #[must_use]
    pub fn new(slots: u8, may_omit_slot: bool) -> Self {
        let slots_max = slots.clamp(1, SLOTS_MAX);
        Self { slots: Vec::new(), slots_max, last_slot: None, may_omit_slot, clock: 0 }
    }

    /// Converts a whole datagram into its form on the line, and returns its kind.
    pub fn compress(&mut self, packet: &mut Packet, meter: &mut Meter) -> Kind {
        self.set_identification(packet);
        let Some(headers) = Headers::read(packet.data()) else { return Kind::Ip };
        // RFC 1144 §3.2.3: a segment that opens or closes a connection is sent unchanged.
        if headers.tcp[13] & (FIN_SYN_RST | ACK) != ACK {
            return Kind::Ip;
        }
        self.clock += 1;
        let (number, changes) = self.store_headers(&headers);
        let headers_len = headers.len();
        let checksum = [headers.tcp[16], headers.tcp[17]];
        let has_slot_number = !self.may_omit_slot || self.last_slot != Some(number);
        self.last_slot = Some(number);
        let Some(changes) = changes else {
            if let Some(protocol) = packet.data_mut().get_mut(PROTOCOL_AT) {
                *protocol = number;
            }
            meter.count(Counter::VjUncompressedOut);
            return Kind::UncompressedTcp;
        };
        packet.pull(headers_len);
        packet.push(changes.deltas());
        packet.push(&checksum);
        if has_slot_number {
            packet.push(&[changes.mask | mask::CONNECTION, number]);
        } else {
            packet.push(&[changes.mask]);
        }
        meter.count(Counter::VjCompressedOut);
        Kind::CompressedTcp
    }

    /// If a datagram is atomic and has no identification, assigns the identification that needs no
    /// byte when compressed.
    fn set_identification(&self, packet: &mut Packet) {
        let Some(headers) = Headers::read(packet.data()) else { return };
        let is_atomic = headers.ip[6] & DONT_FRAGMENT != 0 && headers.ip[4..6] == [0, 0];
        let slot = self.slots.iter().find(|slot| slot.is_same_connection(&headers));
        let (true, Some(slot)) = (is_atomic, slot) else { return };
        let mut ip = *headers.ip;
        [ip[4], ip[5]] = slot.ip_identification().wrapping_add(1).to_be_bytes();
        [ip[10], ip[11]] = [0, 0];
        let sum = Sum::default().bytes(&ip).bytes(headers.ip_options);
        [ip[10], ip[11]] = sum.finish().to_be_bytes();
        if let Some(old) = packet.data_mut().first_chunk_mut() {
            *old = ip;
        }
    }

    /// Stores `headers` in the slot of their connection. Returns the slot number, and the changes
    /// if they can be sent compressed.
    fn store_headers(&mut self, headers: &Headers<'_>) -> (u8, Option<Changes>) {
        let mut numbered = (0..).zip(&mut self.slots);
        if let Some((number, slot)) = numbered.find(|(_, slot)| slot.is_same_connection(headers)) {
            let changes = slot.changes(headers);
            slot.store(headers, self.clock);
            return (number, changes);
        }
        let mut slot = Slot::empty();
        slot.store(headers, self.clock);
        if let Ok(number) = u8::try_from(self.slots.len())
            && number < self.slots_max
        {
            self.slots.push(slot);
            return (number, None);
        }
        let oldest = (0..).zip(&mut self.slots).min_by_key(|(_, slot)| slot.used_at);
        let number = oldest.map_or(0, |(number, oldest)| {
            *oldest = slot;
            number
        });
        (number, None)
    }

    /// Clears all slots, because a segment was compressed but not sent. The next segment of each
    /// connection is then sent uncompressed.
    pub fn clear_slots(&mut self) {
        self.slots.clear();
        self.last_slot = None;
    }
}

impl Decompressor {
    /// Returns a decompressor with `slots` slots, 1 to [`SLOTS_MAX`].
    #[must_use]
    pub fn new(slots: u8) -> Self {
        let slots = usize::from(slots.clamp(1, SLOTS_MAX));
        Self { slots: (0..slots).map(|_| None).collect(), last_slot: None, is_tossing: false }
    }

    /// Converts a received packet into a whole datagram in place.
    ///
    /// The headroom of the packet may be in use up to the length of a link header.
    ///
    /// # Errors
    ///
    /// Returns an error, which is counted, if the packet cannot be converted.
    pub fn decompress(
        &mut self,
        kind: Kind,
        packet: &mut Packet,
        meter: &mut Meter,
    ) -> Result<(), Error> {
        let result = match kind {
            Kind::Ip => return Ok(()),
            Kind::UncompressedTcp => self.uncompressed(packet),
            Kind::CompressedTcp => self.compressed(packet),
        };
        match result {
            Ok(()) if kind == Kind::CompressedTcp => meter.count(Counter::VjCompressedIn),
            Ok(()) => meter.count(Counter::VjUncompressedIn),
            Err(Error::Tossed) => meter.count(Counter::VjTossed),
            Err(Error::Damaged) => {
                meter.count(Counter::VjErrorsIn);
                self.packet_lost();
            }
        }
        result
    }

    /// Records that the link has lost or damaged a packet.
    pub fn packet_lost(&mut self) {
        self.is_tossing = true;
    }

    fn uncompressed(&mut self, packet: &mut Packet) -> Result<(), Error> {
        let protocol = packet.data_mut().get_mut(PROTOCOL_AT).ok_or(Error::Damaged)?;
        let number = core::mem::replace(protocol, PROTOCOL_TCP);
        let headers = Headers::read(packet.data()).ok_or(Error::Damaged)?;
        let slot = self.slots.get_mut(usize::from(number)).ok_or(Error::Damaged)?;
        slot.get_or_insert_with(Slot::empty).store(&headers, 0);
        self.last_slot = Some(number);
        self.is_tossing = false;
        Ok(())
    }

    fn compressed(&mut self, packet: &mut Packet) -> Result<(), Error> {
        let mut cursor = Cursor(packet.data());
        let changes = cursor.byte()?;
        if changes & mask::CONNECTION != 0 {
            let number = cursor.byte()?;
            if usize::from(number) >= self.slots.len() {
                return Err(Error::Damaged);
            }
            self.last_slot = Some(number);
            self.is_tossing = false;
        } else if self.is_tossing {
            return Err(Error::Tossed);
        }
        let number = self.last_slot.ok_or(Error::Damaged)?;
        let slot = self.slots.get_mut(usize::from(number)).and_then(Option::as_mut);
        let slot = slot.ok_or(Error::Damaged)?;
        slot.apply(changes, &mut cursor)?;
        let data_len = cursor.0.len();
        let compressed_len = packet.len() - cursor.0.len();
        slot.set_data_len(data_len)?;
        packet.pull(compressed_len);
        for part in [&slot.tcp_options[..], &slot.tcp, &slot.ip_options, &slot.ip] {
            packet.push(part);
        }
        Ok(())
    }
}

impl<'a> Headers<'a> {
    /// Parses the headers of `datagram`. Returns `None` if the datagram could not be reconstructed
    /// from them: it is not TCP, or is a fragment, or has a wrong length or a wrong IP checksum.
    fn read(datagram: &'a [u8]) -> Option<Self> {
        let (ip, rest) = datagram.split_first_chunk::<20>()?;
        let ip_options_len = (usize::from(ip[0] & 0x0F) * 4).checked_sub(20)?;
        let (ip_options, rest) = rest.split_at_checked(ip_options_len)?;
        let (tcp, rest) = rest.split_first_chunk::<20>()?;
        let tcp_options_len = (usize::from(tcp[12] >> 4) * 4).checked_sub(20)?;
        let (tcp_options, data) = rest.split_at_checked(tcp_options_len)?;
        let is_ours = ip[0] >> 4 == 4
            && ip[PROTOCOL_AT] == PROTOCOL_TCP
            && u16::from_be_bytes([ip[6], ip[7]]) & FRAGMENT == 0
            && usize::from(u16::from_be_bytes([ip[2], ip[3]])) == datagram.len()
            && Sum::default().bytes(ip).bytes(ip_options).is_good();
        let data_len = u16::try_from(data.len()).ok()?;
        is_ours.then_some(Self { ip, ip_options, tcp, tcp_options, data_len })
    }

    fn len(&self) -> usize {
        40 + self.ip_options.len() + self.tcp_options.len()
    }
}

impl Slot {
    fn empty() -> Self {
        Self {
            ip: [0; 20],
            ip_options: Vec::new(),
            tcp: [0; 20],
            tcp_options: Vec::new(),
            data_len: 0,
            used_at: 0,
        }
    }

    fn store(&mut self, headers: &Headers<'_>, used_at: u64) {
        self.ip = *headers.ip;
        self.tcp = *headers.tcp;
        self.ip_options.clear();
        self.ip_options.extend_from_slice(headers.ip_options);
        self.tcp_options.clear();
        self.tcp_options.extend_from_slice(headers.tcp_options);
        self.data_len = headers.data_len;
        self.used_at = used_at;
    }

    fn ip_identification(&self) -> u16 {
        u16::from_be_bytes([self.ip[4], self.ip[5]])
    }

    /// Returns whether the slot and `headers` have the same addresses and ports.
    fn is_same_connection(&self, headers: &Headers<'_>) -> bool {
        self.ip.get(12..) == headers.ip.get(12..) && self.tcp.get(..4) == headers.tcp.get(..4)
    }

    /// Returns the changes to send, or `None` if the headers must be sent uncompressed.
    fn changes(&self, headers: &Headers<'_>) -> Option<Changes> {
        if !self.has_same_fixed_fields(headers) {
            return None;
        }
        let old = &self.tcp;
        let new = headers.tcp;
        let mut changes = Changes::default();
        if new[13] & URG != 0 {
            changes.put(mask::URGENT, u16::from_be_bytes([new[18], new[19]]));
        } else if old[18..] != new[18..] {
            // The urgent pointer has changed although URG is not set. This cannot be sent
            // compressed.
            return None;
        }
        let window = difference(&[new[14], new[15]], &[old[14], old[15]])?;
        let acknowledgment = difference(&new[8..12], &old[8..12])?;
        let sequence = difference(&new[4..8], &old[4..8])?;
        changes.put_unless_0(mask::WINDOW, window);
        changes.put_unless_0(mask::ACKNOWLEDGMENT, acknowledgment);
        changes.put_unless_0(mask::SEQUENCE, sequence);
        let is_next = sequence == self.data_len && old[13] & URG == 0;
        match changes.mask {
            // New data that follows an acknowledgment without data. Any other segment without
            // changes is a retransmission.
            0 if self.data_len == 0 && headers.data_len != 0 => {}
            0 | mask::ECHO | mask::BULK => return None,
            mask::SEQUENCE if is_next => changes = Changes::special(mask::BULK),
            0x0C if is_next && sequence == acknowledgment => {
                changes = Changes::special(mask::ECHO);
            }
            _ => {}
        }
        let identification = difference(&headers.ip[4..6], &self.ip[4..6])?;
        if identification != 1 {
            changes.put(mask::IDENTIFICATION, identification);
        }
        if new[13] & PSH != 0 {
            changes.mask |= mask::PUSH;
        }
        Some(changes)
    }

    /// Returns whether the slot and `headers` are equal in all fields that a compressed segment
    /// cannot change.
    fn has_same_fixed_fields(&self, headers: &Headers<'_>) -> bool {
        let flags = |tcp: &[u8; 20]| tcp[13] & !(PSH | URG);
        self.ip[..2] == headers.ip[..2]
            && self.ip[6..10] == headers.ip[6..10]
            && self.ip_options == headers.ip_options
            && self.tcp[12] == headers.tcp[12]
            && flags(&self.tcp) == flags(headers.tcp)
            && self.tcp_options == headers.tcp_options
    }

    /// Applies the changes of a segment to the slot.
    fn apply(&mut self, changes: u8, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let mut ip = self.ip;
        let mut tcp = self.tcp;
        tcp[16] = cursor.byte()?;
        tcp[17] = cursor.byte()?;
        tcp[13] &= !(PSH | URG);
        if changes & mask::PUSH != 0 {
            tcp[13] |= PSH;
        }
        match changes & mask::SPECIALS {
            mask::ECHO => {
                add(&mut tcp[8..12], self.data_len);
                add(&mut tcp[4..8], self.data_len);
            }
            mask::BULK => add(&mut tcp[4..8], self.data_len),
            changes => {
                if changes & mask::URGENT != 0 {
                    tcp[13] |= URG;
                    [tcp[18], tcp[19]] = cursor.delta()?.to_be_bytes();
                }
                if changes & mask::WINDOW != 0 {
                    add(&mut tcp[14..16], cursor.delta()?);
                }
                if changes & mask::ACKNOWLEDGMENT != 0 {
                    add(&mut tcp[8..12], cursor.delta()?);
                }
                if changes & mask::SEQUENCE != 0 {
                    add(&mut tcp[4..8], cursor.delta()?);
                }
            }
        }
        let increment = if changes & mask::IDENTIFICATION != 0 { cursor.delta()? } else { 1 };
        add(&mut ip[4..6], increment);
        self.ip = ip;
        self.tcp = tcp;
        Ok(())
    }

    /// Updates the length fields for `data_len` bytes of data, and the IP checksum.
    fn set_data_len(&mut self, data_len: usize) -> Result<(), Error> {
        let headers_len = 40 + self.ip_options.len() + self.tcp_options.len();
        let total_len = u16::try_from(headers_len + data_len).map_err(|_| Error::Damaged)?;
        self.data_len = u16::try_from(data_len).map_err(|_| Error::Damaged)?;
        [self.ip[2], self.ip[3]] = total_len.to_be_bytes();
        [self.ip[10], self.ip[11]] = [0, 0];
        let sum = Sum::default().bytes(&self.ip).bytes(&self.ip_options);
        [self.ip[10], self.ip[11]] = sum.finish().to_be_bytes();
        Ok(())
    }
}

/// Returns `new` - `old` of two big-endian fields of the same length, if it fits into 16 bits.
fn difference(new: &[u8], old: &[u8]) -> Option<u16> {
    let value =
        |field: &[u8]| field.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    let difference = value(new).wrapping_sub(value(old));
    // The difference of two-byte fields is computed modulo 2^16.
    if new.len() == 2 { Some((difference & 0xFFFF) as u16) } else { u16::try_from(difference).ok() }
}

/// Adds `by` to a big-endian field. The sum wraps.
fn add(field: &mut [u8], by: u16) {
    let mut carry = u32::from(by);
    for byte in field.iter_mut().rev() {
        let sum = u32::from(*byte) + (carry & 0xFF);
        *byte = (sum & 0xFF) as u8;
        carry = (carry >> 8) + (sum >> 8);
    }
}

/// The changes of a compressed segment: the mask, and the fields after the checksum.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    mask: u8,
    /// Space for five fields of at most three bytes.
    bytes: [u8; 15],
    len: usize,
}

impl Changes {
    fn special(mask: u8) -> Self {
        Self { mask, ..Self::default() }
    }

    fn put(&mut self, bit: u8, delta: u16) {
        self.mask |= bit;
        let [high, low] = delta.to_be_bytes();
        let long_code = [0, high, low];
        let code: &[u8] = if high == 0 && low != 0 { &long_code[2..] } else { &long_code };
        let room = self.bytes.iter_mut().skip(self.len);
        room.zip(code).for_each(|(to, from)| *to = *from);
        self.len += code.len();
    }

    fn put_unless_0(&mut self, bit: u8, delta: u16) {
        if delta != 0 {
            self.put(bit, delta);
        }
    }

    fn deltas(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A reader of the bytes of a compressed segment.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self.0.split_first().ok_or(Error::Damaged)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn delta(&mut self) -> Result<u16, Error> {
        match self.byte()? {
            0 => Ok(u16::from_be_bytes([self.byte()?, self.byte()?])),
            delta => Ok(u16::from(delta)),
        }
    }
}

/// Packets for the tests of the links.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Returns a segment with one byte of data. Its identification, sequence number and
    /// acknowledgment are `count`.
    pub(in crate::link) fn segment_with_byte(count: u8) -> Vec<u8> {
        #[rustfmt::skip]
        let mut datagram = [
            0x45, 0, 0, 41, 0, count, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            4, 0, 0, 23, 0, 0, 0, count, 0, 0, 0, count, 0x50, 0x10, 1, 0, 7, 7, 0, 0, b'x',
        ];
        let checksum = Sum::default().bytes(&datagram[..20]).finish();
        [datagram[10], datagram[11]] = checksum.to_be_bytes();
        datagram.to_vec()
    }
}

#[cfg(test)]
mod tests;
