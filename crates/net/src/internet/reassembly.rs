//! Reassembly of fragments, for IPv4 (RFC 791, RFC 815) and IPv6 (RFC 8200 §4.5) alike.
//!
//! The fragments of a datagram are kept as received, in the order of their offsets, until there is
//! no hole. Fragments that do not overlap have only one order by offset, so the datagram is
//! independent of the order of arrival.
//!
//! # Rejected fragments
//!
//! A datagram is *spoilt* when fragments overlap, when they contradict each other about its end,
//! when it would exceed 65,535 bytes, or when it has more than [`FRAGMENTS_MAX`] fragments. Only
//! attacks cause overlaps (RFC 5722), and the rule for IPv6 is applied to IPv4 too. A spoilt
//! datagram frees its memory immediately and is remembered until its timeout, because its later
//! fragments have to be dropped as well. Two kinds of invalid fragments are dropped without
//! spoiling their datagram: an empty fragment, and a fragment other than the last whose length is
//! not a multiple of eight bytes.
//!
//! An exact duplicate, with the same bytes at the same offset, is dropped without spoiling the
//! datagram, too. Networks duplicate packets, and a duplicate gives an attacker no advantage (RFC
//! 8200 §4.5 permits this).
//!
//! # Bounds
//!
//! | resource | limit | when it is reached |
//! |---|---|---|
//! | incomplete datagrams | [`DATAGRAMS_MAX`] | the oldest is dropped |
//! | ... of one source | [`SOURCE_MAX`] | the oldest of that source is dropped |
//! | bytes held, including overhead | [`BYTES_MAX`] | the oldest is dropped |
//! | fragments of one datagram | [`FRAGMENTS_MAX`] | it is spoilt |
//! | time from its first fragment to its last | [`TIMEOUT`] | it is dropped and reported |
//!
//! The oldest datagram is dropped for this reason: the fragments of a legitimate datagram arrive
//! one after the other, so the datagram is usually complete before it is the oldest. Processing a
//! fragment takes searches in trees of limited size, and one copy of the fragment.

use crate::cx::Cx;
use crate::meter::Counter;
use crate::probes::Probed;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

/// Maximum number of incomplete datagrams.
pub const DATAGRAMS_MAX: usize = 256;
/// Maximum number of incomplete datagrams of one source.
pub const SOURCE_MAX: usize = 32;
/// Maximum number of bytes held for incomplete datagrams.
pub const BYTES_MAX: usize = 2 << 20;
/// Maximum number of fragments of one datagram. The longest datagram over links with an MTU of 296
/// bytes has fewer.
pub const FRAGMENTS_MAX: usize = 256;
/// Maximum time from the first fragment of a datagram to its last (RFC 1122 §3.3.2 SHOULD, RFC 8200
/// §4.5).
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a datagram, in bytes.
const LEN_MAX: usize = 65_535;
/// Overhead of a datagram, in bytes: tree nodes and the allocator's headers, rounded up.
const DATAGRAM_OVERHEAD: usize = 512;
const FRAGMENT_OVERHEAD: usize = 96;

/// The key that identifies the fragments of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The identification.
    pub identification: u32,
    /// The protocol of an IPv4 datagram; 0 for IPv6, where only the first fragment's next header
    /// counts.
    pub protocol: u8,
}

/// A fragment as received.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// The key of the fragment's datagram.
    pub key: Key,
    /// Offset of the fragment's data in the datagram's data, in bytes.
    pub offset: usize,
    /// Whether another fragment follows.
    pub more: bool,
    /// The headers in front of the fragment's data, without the fragment header of IPv6. The
    /// datagram gets the headers of its first fragment.
    pub headers: &'a [u8],
    /// Number of bytes of `headers` that count towards the maximum length of 65,535: all of them
    /// for IPv4, those after the fixed header for IPv6.
    pub counted_len: usize,
    /// The two ECN bits (RFC 3168).
    pub ecn: u8,
    /// The data of the fragment.
    pub data: &'a [u8],
}

/// The result of processing a fragment.
#[derive(Debug)]
pub enum Outcome {
    /// The fragment is stored until the other fragments arrive.
    Stored,
    /// The fragment completes the datagram.
    ReassembledDatagram(ReassembledDatagram),
    /// The fragment was dropped.
    Dropped(Refusal),
}

/// Reasons why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The fragment has no data.
    Empty,
    /// The fragment is not the last one, and its length is not a multiple of eight bytes.
    Misaligned,
    /// The end of the fragment exceeds the 65,535 bytes of the longest datagram.
    TooLong,
    /// The fragment was received before.
    Duplicate,
    /// The fragment contradicts another fragment, or the datagram has too many fragments or is
    /// already spoilt.
    Invalidated,
}

/// A complete datagram.
#[derive(Debug)]
pub struct ReassembledDatagram {
    /// The headers of the first fragment.
    pub headers: Box<[u8]>,
    /// The ECN bits of the datagram: Congestion Experienced if any fragment has it (RFC 3168 §5.3).
    pub ecn: u8,
    pieces: BTreeMap<Probed<usize>, Box<[u8]>>,
    len: usize,
}

impl ReassembledDatagram {
    /// Returns the data of the fragments in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.values().map(AsRef::as_ref)
    }

    /// Returns the total number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no data bytes. This is never true for a fragmented datagram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A datagram that timed out after its fragment with offset 0 was received. The timeout must be
/// reported to its source (RFC 792, RFC 8200 §4.5).
#[derive(Debug)]
pub struct ExpiredDatagram {
    /// The key of the datagram.
    pub key: Key,
    /// The headers of the fragment with offset 0.
    pub headers: Box<[u8]>,
    /// The data of the fragment with offset 0.
    pub data: Box<[u8]>,
}

/// All incomplete datagrams.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// The datagrams by serial number, in the order in which their first fragments arrived.
    datagrams: BTreeMap<Number, Datagram>,
    numbers: BTreeMap<Probed<Key>, Number>,
    by_source: BTreeSet<(IpAddr, Number)>,
    bytes: usize,
    next_number: u64,
}

/// The serial number of a datagram.
type Number = Probed<u64>;

#[derive(Debug)]
struct Datagram {
    key: Key,
    expires_at: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Unfinished(Parts),
    Invalidated,
}

/// The received fragments of a datagram.
#[derive(Debug, Default)]
struct Parts {
    headers: Option<Box<[u8]>>,
    counted_len: usize,
    pieces: BTreeMap<Probed<usize>, Box<[u8]>>,
    /// Number of data bytes in all pieces.
    received: usize,
    /// End of the data, once the last fragment has been received.
    end: Option<usize>,
    /// One bit for each ECN value received.
    ecn: u8,
}

impl Reassembler {
    /// Processes a fragment.
    ///
    /// The caller must not pass a fragment that is the only one of its datagram (RFC 6946).
    pub fn receive(&mut self, fragment: &Fragment<'_>, cx: &mut Cx<'_>) -> Outcome {
        cx.meter.count(Counter::IpFragmentsIn);
        if let Err(refusal) = check(fragment) {
            cx.meter.count(Counter::IpFragmentsDropped);
            if refusal == Refusal::TooLong {
                self.spoil(fragment.key, cx);
            }
            return Outcome::Dropped(refusal);
        }
        let number = self.number_for(fragment.key, cx);
        let Some(Datagram { state: State::Unfinished(parts), .. }) =
            self.datagrams.get_mut(&number)
        else {
            cx.meter.count(Counter::IpFragmentsDropped);
            return Outcome::Dropped(Refusal::Invalidated);
        };
        let previous_cost = parts.cost();
        let add_result = parts.add(fragment);
        self.bytes += parts.cost() - previous_cost;
        match add_result {
            Ok(false) => {
                self.evict_for(number, cx);
                Outcome::Stored
            }
            Ok(true) => self.finish(number, cx),
            Err(Refusal::Duplicate) => {
                cx.meter.count(Counter::IpFragmentsDuplicate);
                Outcome::Dropped(Refusal::Duplicate)
            }
            Err(refusal) => {
                cx.meter.count(Counter::IpFragmentsDropped);
                self.spoil(fragment.key, cx);
                Outcome::Dropped(refusal)
            }
        }
    }

    /// Returns the time at which the oldest datagram times out.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.datagrams.values().next().map(|datagram| datagram.expires_at)
    }

    /// Drops the oldest datagram whose timeout has passed; call until [`Self::deadline`] is later
    /// than now. Returns it if the timeout must be reported to its source.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) -> Option<ExpiredDatagram> {
        let (number, oldest) = self.datagrams.first_key_value()?;
        if oldest.expires_at > cx.now {
            return None;
        }
        let Datagram { key, state, .. } = self.remove(*number)?;
        let State::Unfinished(mut parts) = state else { return None };
        cx.meter.count(Counter::IpReassemblyTimeouts);
        let headers = parts.headers?;
        let data = parts.pieces.remove(&Probed(0))?;
        Some(ExpiredDatagram { key, headers, data })
    }

    /// Returns the number of incomplete or spoilt datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns whether there are no incomplete or spoilt datagrams.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Returns the number of bytes that incomplete datagrams hold, including overhead.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the serial number of the datagram with this key. Assigns a new number for the first
    /// fragment of a datagram.
    fn number_for(&mut self, key: Key, cx: &mut Cx<'_>) -> Number {
        if let Some(number) = self.numbers.get(&Probed(key)) {
            return *number;
        }
        let same_source = (key.source, Probed(0))..=(key.source, Probed(u64::MAX));
        if self.by_source.range(same_source.clone()).count() >= SOURCE_MAX
            && let Some((_, oldest)) = self.by_source.range(same_source).next().copied()
        {
            self.evict(oldest, cx);
        }
        if self.datagrams.len() >= DATAGRAMS_MAX {
            self.evict_oldest(cx);
        }
        let number = Probed(self.next_number);
        self.next_number += 1;
        let state = State::Unfinished(Parts::default());
        let datagram = Datagram { key, expires_at: cx.now + TIMEOUT, state };
        self.bytes += datagram.state.cost();
        self.datagrams.insert(number, datagram);
        self.numbers.insert(Probed(key), number);
        self.by_source.insert((key.source, number));
        number
    }

    /// Drops the oldest datagrams until the total is at most [`BYTES_MAX`]. Datagram `number`
    /// itself is the last to be dropped.
    fn evict_for(&mut self, number: Number, cx: &mut Cx<'_>) {
        while self.bytes > BYTES_MAX {
            let oldest_other = self.datagrams.keys().find(|other| **other != number).copied();
            self.evict(oldest_other.unwrap_or(number), cx);
        }
    }

    fn finish(&mut self, number: Number, cx: &mut Cx<'_>) -> Outcome {
        let state = self.remove(number).map(|datagram| datagram.state);
        let Some(State::Unfinished(parts)) = state else {
            return Outcome::Dropped(Refusal::Invalidated);
        };
        let Some((headers, ecn)) = parts.headers.zip(combine_ecn(parts.ecn)) else {
            cx.meter.count(Counter::IpReassemblyErrors);
            return Outcome::Dropped(Refusal::Invalidated);
        };
        cx.meter.count(Counter::IpReassembled);
        Outcome::ReassembledDatagram(ReassembledDatagram {
            headers,
            ecn,
            pieces: parts.pieces,
            len: parts.received,
        })
    }

    /// Frees the fragments of a datagram, and records that its later fragments must be dropped.
    fn spoil(&mut self, key: Key, cx: &mut Cx<'_>) {
        let number = self.number_for(key, cx);
        let Some(datagram) = self.datagrams.get_mut(&number) else { return };
        if let State::Unfinished(_) = datagram.state {
            cx.meter.count(Counter::IpReassemblyErrors);
        }
        self.bytes -= datagram.state.cost();
        datagram.state = State::Invalidated;
    }

    fn evict_oldest(&mut self, cx: &mut Cx<'_>) {
        if let Some(oldest) = self.datagrams.keys().next().copied() {
            self.evict(oldest, cx);
        }
    }

    fn evict(&mut self, number: Number, cx: &mut Cx<'_>) {
        if self.remove(number).is_some() {
            cx.meter.count(Counter::IpReassemblyEvicted);
        }
    }

    fn remove(&mut self, number: Number) -> Option<Datagram> {
        let datagram = self.datagrams.remove(&number)?;
        self.numbers.remove(&Probed(datagram.key));
        self.by_source.remove(&(datagram.key.source, number));
        self.bytes -= datagram.state.cost();
        Some(datagram)
    }
}

impl State {
    /// Returns the number of bytes that count towards [`BYTES_MAX`]. A spoilt datagram counts as
    /// zero, because it only needs its key.
    fn cost(&self) -> usize {
        match self {
            Self::Unfinished(parts) => parts.cost(),
            Self::Invalidated => 0,
        }
    }
}

impl Parts {
    fn cost(&self) -> usize {
        let headers_len = self.headers.as_ref().map_or(0, |headers| headers.len());
        let fragments = self.pieces.len() * FRAGMENT_OVERHEAD;
        DATAGRAM_OVERHEAD + headers_len + fragments + self.received
    }

    /// Adds a fragment, and returns whether the datagram is complete.
    fn add(&mut self, fragment: &Fragment<'_>) -> Result<bool, Refusal> {
        let start = fragment.offset;
        let end = fragment.offset + fragment.data.len();
        // Stored pieces do not overlap each other, so the new fragment can only overlap with the
        // pieces next to it.
        let previous_piece = self.pieces.range(..=Probed(start)).next_back();
        if let Some((Probed(place), piece)) = previous_piece {
            let is_duplicate = *place == start && piece.as_ref() == fragment.data;
            let is_last = self.end == Some(place + piece.len());
            if is_duplicate && is_last != fragment.more {
                return Err(Refusal::Duplicate);
            }
            if place + piece.len() > start {
                return Err(Refusal::Invalidated);
            }
        }
        if self.pieces.range(Probed(start)..Probed(end)).next().is_some() {
            return Err(Refusal::Invalidated);
        }
        if !fragment.more {
            let last_end = self.pieces.last_key_value().map(|(place, piece)| place.0 + piece.len());
            // The new last fragment has a different end, or there is data after its end.
            if self.end.is_some() || last_end > Some(end) {
                return Err(Refusal::Invalidated);
            }
            self.end = Some(end);
        }
        let is_beyond_end = self.end.is_some_and(|last| end > last);
        if is_beyond_end || self.pieces.len() == FRAGMENTS_MAX {
            return Err(Refusal::Invalidated);
        }
        if start == 0 {
            self.headers = Some(fragment.headers.into());
            self.counted_len = fragment.counted_len;
        }
        self.pieces.insert(Probed(start), fragment.data.into());
        self.received += fragment.data.len();
        self.ecn |= 1 << (fragment.ecn & 3);
        // RFC 791: headers and data together must fit. The headers of other fragments may be
        // shorter than those of the first.
        if self.end.unwrap_or(0).max(end) + self.counted_len > LEN_MAX {
            return Err(Refusal::Invalidated);
        }
        Ok(self.end == Some(self.received))
    }
}

/// The checks that apply to a single fragment.
fn check(fragment: &Fragment<'_>) -> Result<(), Refusal> {
    let len = fragment.data.len();
    if len == 0 {
        return Err(Refusal::Empty);
    }
    if fragment.more && !len.is_multiple_of(8) {
        return Err(Refusal::Misaligned);
    }
    if fragment.offset + len + fragment.counted_len > LEN_MAX {
        return Err(Refusal::TooLong);
    }
    Ok(())
}

const NOT_ECT: u8 = 0;
const CE: u8 = 3;

/// Returns the ECN bits of a reassembled datagram, or `None` if its fragments have contradictory
/// values (RFC 3168 §5.3). Bit n of `seen` is set if a fragment has the ECN value n.
fn combine_ecn(seen: u8) -> Option<u8> {
    let has_seen = |ecn: u8| seen & 1 << ecn != 0;
    match (has_seen(CE), has_seen(NOT_ECT)) {
        (true, true) => None,
        (true, false) => Some(CE),
        (false, true) => Some(NOT_ECT),
        // ECT(0) is used if ECT(0) and ECT(1) were received.
        (false, false) => [2, 1].into_iter().find(|ecn| has_seen(*ecn)),
    }
}

#[cfg(test)]
mod tests;
