//! Reassembly of fragments, for IPv4 (RFC 791, RFC 815) and IPv6 (RFC 8200 §4.5) alike.
//!
//! The fragments of a datagram are kept as they came, in the order of their offsets, until there
//! is no hole. Offsets in fragments that do not overlap can have only one order, so the datagram
//! is the same in whatever order they come.
//!
//! # What is refused
//!
//! A datagram is *spoilt* when fragments overlap, when they disagree about where it ends, when it
//! would exceed 65,535 bytes, or when it has more than [`FRAGMENTS_MAX`] fragments. Nothing but an
//! attack makes overlaps (RFC 5722), and what follows for IPv6 is done for IPv4 too. A spoilt
//! datagram gives its memory back at once and is remembered until its time is over, because its
//! fragments that are still to come have to be dropped as well. A fragment that is not a multiple
//! of eight bytes long and not the last, or that is empty, spoils nothing: it is dropped alone.
//!
//! An exact duplicate, the same bytes at the same place, is dropped alone too. Networks duplicate
//! packets, and to send again what was sent already gives an attacker nothing (RFC 8200 §4.5
//! permits this).
//!
//! # Bounds
//!
//! | what | limit | when it is reached |
//! |---|---|---|
//! | datagrams unfinished | [`DATAGRAMS_MAX`] | the oldest is dropped |
//! | ... of one source | [`SOURCE_MAX`] | the oldest of that source is dropped |
//! | bytes held, with an allowance for what holds them | [`BYTES_MAX`] | the oldest is dropped |
//! | fragments of one datagram | [`FRAGMENTS_MAX`] | it is spoilt |
//! | time from its first fragment to its last | [`TIMEOUT`] | it is dropped and told |
//!
//! The oldest goes, because the fragments of an honest datagram come one after the other: it is
//! among the youngest for as long as it takes. A fragment costs a search in trees whose size has
//! a limit, and a copy of itself, whatever came before it.

use crate::cx::Cx;
use crate::meter::Counter;
use crate::probes::Probed;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

/// The most unfinished datagrams.
pub const DATAGRAMS_MAX: usize = 256;
/// The most unfinished datagrams of one source.
pub const SOURCE_MAX: usize = 32;
/// The most bytes held for unfinished datagrams.
pub const BYTES_MAX: usize = 2 << 20;
/// The most fragments of one datagram: enough for the longest over links of 296 bytes.
pub const FRAGMENTS_MAX: usize = 256;
/// How long a datagram may take from its first fragment to its last (RFC 1122 §3.3.2 SHOULD,
/// RFC 8200 §4.5).
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes of a datagram.
const LEN_MAX: usize = 65_535;
/// What a datagram and a fragment cost beside their bytes: nodes of trees and the allocator's
/// headers, rounded up.
const DATAGRAM_OVERHEAD: usize = 512;
const FRAGMENT_OVERHEAD: usize = 96;

/// What tells the fragments of one datagram from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The source.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The identification.
    pub identification: u32,
    /// The protocol of an IPv4 datagram; 0 for IPv6, where only the first fragment's next header
    /// counts.
    pub protocol: u8,
}

/// A fragment, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Of which datagram.
    pub key: Key,
    /// Where its data lie in the datagram's, in bytes.
    pub offset: usize,
    /// Whether another one follows.
    pub more: bool,
    /// The headers in front of its data, the fragment header of IPv6 not among them. Those of
    /// the first fragment become the datagram's.
    pub headers: &'a [u8],
    /// How many bytes of `headers` count towards the 65,535 of a datagram: all of them for IPv4,
    /// those behind the fixed header for IPv6.
    pub counted_len: usize,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its data.
    pub data: &'a [u8],
}

/// What became of a fragment.
#[derive(Debug)]
pub enum Outcome {
    /// It is kept until the others come.
    Kept,
    /// It was the last to come.
    Whole(Whole),
    /// It was dropped.
    Dropped(Refusal),
}

/// Why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It holds nothing.
    Empty,
    /// Another one follows, and its length is no multiple of eight.
    Misaligned,
    /// Its end lies beyond the 65,535 bytes of the longest datagram.
    TooLong,
    /// It came before.
    Duplicate,
    /// It contradicts another one, or there are too many, or another one did and there were.
    Spoilt,
}

/// A datagram of which no fragment is missing.
#[derive(Debug)]
pub struct Whole {
    /// The headers of the first fragment.
    pub headers: Box<[u8]>,
    /// The two bits of ECN for the whole: congestion marked on any is marked (RFC 3168 §5.3).
    pub ecn: u8,
    pieces: BTreeMap<Probed<usize>, Box<[u8]>>,
    len: usize,
}

impl Whole {
    /// Returns the data of the fragments in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.values().map(AsRef::as_ref)
    }

    /// Returns how many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none, which no datagram of fragments comes to.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A datagram whose time was over, and whose source is to be told, because its first fragment
/// came (RFC 792, RFC 8200 §4.5).
#[derive(Debug)]
pub struct Expired {
    /// Which.
    pub key: Key,
    /// The headers of its first fragment.
    pub headers: Box<[u8]>,
    /// The data of its first fragment.
    pub data: Box<[u8]>,
}

/// All datagrams that are unfinished.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// By the number that they get in the order of their first fragments.
    datagrams: BTreeMap<Number, Datagram>,
    numbers: BTreeMap<Probed<Key>, Number>,
    by_source: BTreeSet<(IpAddr, Number)>,
    bytes: usize,
    next_number: u64,
}

/// The number of a datagram.
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
    Spoilt,
}

/// What has come of a datagram.
#[derive(Debug, Default)]
struct Parts {
    headers: Option<Box<[u8]>>,
    counted_len: usize,
    pieces: BTreeMap<Probed<usize>, Box<[u8]>>,
    /// Data bytes in all pieces.
    received: usize,
    /// Where the data end, when the last fragment has come.
    end: Option<usize>,
    /// A bit for each value of ECN that has come.
    ecn: u8,
}

impl Reassembler {
    /// Takes a fragment.
    ///
    /// One that is all there is of its datagram must not be brought here (RFC 6946).
    pub fn receive(&mut self, fragment: &Fragment<'_>, cx: &mut Cx<'_>) -> Outcome {
        cx.meter.count(Counter::IpFragmentsIn);
        if let Err(refusal) = check(fragment) {
            cx.meter.count(Counter::IpFragmentsDropped);
            if refusal == Refusal::TooLong {
                self.spoil(fragment.key, cx);
            }
            return Outcome::Dropped(refusal);
        }
        let number = self.number_of(fragment.key, cx);
        let Some(Datagram { state: State::Unfinished(parts), .. }) =
            self.datagrams.get_mut(&number)
        else {
            cx.meter.count(Counter::IpFragmentsDropped);
            return Outcome::Dropped(Refusal::Spoilt);
        };
        let before = parts.cost();
        let added = parts.add(fragment);
        self.bytes += parts.cost() - before;
        match added {
            Ok(false) => {
                self.make_room_for(number, cx);
                Outcome::Kept
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

    /// Returns when the oldest datagram's time is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.datagrams.values().next().map(|datagram| datagram.expires_at)
    }

    /// Drops the oldest datagram whose time is over; call until [`Self::deadline`] is later than
    /// now. Returns it if its source is to be told.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) -> Option<Expired> {
        let (number, oldest) = self.datagrams.first_key_value()?;
        if oldest.expires_at > cx.now {
            return None;
        }
        let Datagram { key, state, .. } = self.remove(*number)?;
        let State::Unfinished(mut parts) = state else { return None };
        cx.meter.count(Counter::IpReassemblyTimeouts);
        let (headers, data) = (parts.headers?, parts.pieces.remove(&Probed(0))?);
        Some(Expired { key, headers, data })
    }

    /// Returns how many datagrams are unfinished or spoilt.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Returns the bytes that unfinished datagrams hold, with an allowance for what holds them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of a datagram, which it gets now if this is its first fragment.
    fn number_of(&mut self, key: Key, cx: &mut Cx<'_>) -> Number {
        if let Some(number) = self.numbers.get(&Probed(key)) {
            return *number;
        }
        let mine = (key.source, Probed(0))..=(key.source, Probed(u64::MAX));
        if self.by_source.range(mine.clone()).count() >= SOURCE_MAX
            && let Some((_, oldest)) = self.by_source.range(mine).next().copied()
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

    /// Drops the oldest datagrams until the bytes are within their limit; if that takes datagram
    /// `number` itself, it was the only one.
    fn make_room_for(&mut self, number: Number, cx: &mut Cx<'_>) {
        while self.bytes > BYTES_MAX {
            let others = self.datagrams.keys().find(|other| **other != number).copied();
            self.evict(others.unwrap_or(number), cx);
        }
    }

    fn finish(&mut self, number: Number, cx: &mut Cx<'_>) -> Outcome {
        let removed = self.remove(number).map(|datagram| datagram.state);
        let Some(State::Unfinished(parts)) = removed else {
            return Outcome::Dropped(Refusal::Spoilt);
        };
        let Some((headers, ecn)) = parts.headers.zip(combine_ecn(parts.ecn)) else {
            cx.meter.count(Counter::IpReassemblyErrors);
            return Outcome::Dropped(Refusal::Spoilt);
        };
        cx.meter.count(Counter::IpReassembled);
        Outcome::Whole(Whole { headers, ecn, pieces: parts.pieces, len: parts.received })
    }

    /// Frees what has come of a datagram and remembers that the rest is to be dropped.
    fn spoil(&mut self, key: Key, cx: &mut Cx<'_>) {
        let number = self.number_of(key, cx);
        let Some(datagram) = self.datagrams.get_mut(&number) else { return };
        if let State::Unfinished(_) = datagram.state {
            cx.meter.count(Counter::IpReassemblyErrors);
        }
        self.bytes -= datagram.state.cost();
        datagram.state = State::Spoilt;
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
    /// What it counts towards [`BYTES_MAX`]. What is spoilt holds nothing but its name, and how
    /// many of those there are is limited.
    fn cost(&self) -> usize {
        match self {
            Self::Unfinished(parts) => parts.cost(),
            Self::Spoilt => 0,
        }
    }
}

impl Parts {
    fn cost(&self) -> usize {
        let headers_len = self.headers.as_ref().map_or(0, |headers| headers.len());
        let fragments = self.pieces.len() * FRAGMENT_OVERHEAD;
        DATAGRAM_OVERHEAD + headers_len + fragments + self.received
    }

    /// Adds a fragment, and returns whether it was the last that was missing.
    fn add(&mut self, fragment: &Fragment<'_>) -> Result<bool, Refusal> {
        let (start, end) = (fragment.offset, fragment.offset + fragment.data.len());
        // The pieces on either side are all that it can touch: none of them overlap.
        let before = self.pieces.range(..=Probed(start)).next_back();
        if let Some((Probed(place), piece)) = before {
            let is_same = *place == start && piece.as_ref() == fragment.data;
            let is_last = self.end == Some(place + piece.len());
            if is_same && is_last != fragment.more {
                return Err(Refusal::Duplicate);
            }
            if place + piece.len() > start {
                return Err(Refusal::Spoilt);
            }
        }
        if self.pieces.range(Probed(start)..Probed(end)).next().is_some() {
            return Err(Refusal::Spoilt);
        }
        if !fragment.more {
            let last_end = self.pieces.last_key_value().map(|(place, piece)| place.0 + piece.len());
            // Another last one, with its place elsewhere, or data behind this one.
            if self.end.is_some() || last_end > Some(end) {
                return Err(Refusal::Spoilt);
            }
            self.end = Some(end);
        }
        let is_beyond = self.end.is_some_and(|last| end > last);
        if is_beyond || self.pieces.len() == FRAGMENTS_MAX {
            return Err(Refusal::Spoilt);
        }
        if start == 0 {
            self.headers = Some(fragment.headers.into());
            self.counted_len = fragment.counted_len;
        }
        self.pieces.insert(Probed(start), fragment.data.into());
        self.received += fragment.data.len();
        self.ecn |= 1 << (fragment.ecn & 3);
        // RFC 791: headers and data together have to fit. Other fragments' headers may have been
        // shorter than those that the datagram gets.
        if self.end.unwrap_or(0).max(end) + self.counted_len > LEN_MAX {
            return Err(Refusal::Spoilt);
        }
        Ok(self.end == Some(self.received))
    }
}

/// The tests that a fragment must pass alone.
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

/// Returns the ECN of a datagram from a bit for each value that its fragments had, or nothing if
/// they are of no one datagram (RFC 3168 §5.3).
fn combine_ecn(seen: u8) -> Option<u8> {
    let has = |ecn: u8| seen & 1 << ecn != 0;
    match (has(CE), has(NOT_ECT)) {
        (true, true) => None,
        (true, false) => Some(CE),
        (false, true) => Some(NOT_ECT),
        // ECT(0) wins where both kinds came.
        (false, false) => [2, 1].into_iter().find(|ecn| has(*ecn)),
    }
}

#[cfg(test)]
mod tests;
