//! Incremental parsing of a listing, within limits that hold for any input.
//!
//! The limits are [`LISTING_MAX_BYTES`] for the listing, [`LINE_MAX_BYTES`] for a line, and the
//! number of entries that the caller specifies. A listing with too many bytes or entries ends with
//! an error. An overlong line is counted like a line that matches no dialect.

use super::dialects::example_of;
use super::facts::parse_facts;
use super::{Entry, Kind, ListReader};
use crate::ftp::name::Name;
use crate::ftp::timestamp::Timestamp;
use alloc::vec::Vec;
use core::fmt;

/// Maximum length of a listing in bytes; our own choice: about a million lines.
pub const LISTING_MAX_BYTES: u64 = 64 << 20;
/// Maximum length of a line in bytes; our own choice: far more than a name and its facts need.
pub const LINE_MAX_BYTES: usize = 64 << 10;

/// The command that produced a listing, which determines its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MLSD: lines of facts (RFC 3659).
    Facts,
    /// LIST: lines in any of the known formats.
    Long,
    /// NLST: one name per line.
    Names,
}

/// Reason why the rest of a listing was not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingError {
    /// There are more entries than the caller accepts.
    TooManyEntries {
        /// The number of entries that the caller accepts.
        max: usize,
    },
    /// The listing is longer than [`LISTING_MAX_BYTES`].
    TooLong,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyEntries { max } => write!(f, "the listing has more than {max} entries"),
            Self::TooLong => {
                write!(f, "the listing is longer than {} MiB", LISTING_MAX_BYTES >> 20)
            }
        }
    }
}

/// Lines of listings that match no known format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownLines {
    /// Number of these lines.
    pub lines: u64,
    /// The first of these lines, truncated to [`EXAMPLE_MAX_BYTES`](super::EXAMPLE_MAX_BYTES).
    pub first: Option<Vec<u8>>,
}

impl UnknownLines {
    fn count_line(&mut self, line: &[u8]) {
        self.lines = self.lines.saturating_add(1);
        self.first.get_or_insert_with(|| example_of(line));
    }

    /// Adds the unknown lines of another listing.
    pub fn merge(&mut self, other: Self) {
        self.lines = self.lines.saturating_add(other.lines);
        self.first = self.first.take().or(other.first);
    }
}

/// Parses one listing and collects its entries.
#[derive(Clone, Debug)]
pub struct Collector {
    dialect: Dialect,
    reader: ListReader,
    entries: Vec<Entry>,
    entries_max: usize,
    /// The beginning of a line whose line end has not arrived.
    partial_line: Vec<u8>,
    /// Whether the partial line has already exceeded [`LINE_MAX_BYTES`].
    is_overlong: bool,
    received_bytes: u64,
    /// Number of nonempty lines; `facts` counts the lines with facts (RFC 3659 §7).
    lines: u64,
    facts: u64,
    unknown: UnknownLines,
}

impl Collector {
    /// Creates a collector of at most `entries_max` entries. `now` is the calendar time, used for
    /// dates without a year.
    #[must_use]
    pub const fn new(dialect: Dialect, now: Timestamp, entries_max: usize) -> Self {
        Self {
            dialect,
            reader: ListReader::new(now),
            entries: Vec::new(),
            entries_max,
            partial_line: Vec::new(),
            is_overlong: false,
            received_bytes: 0,
            lines: 0,
            facts: 0,
            unknown: UnknownLines { lines: 0, first: None },
        }
    }

    /// Parses the next bytes of the listing.
    ///
    /// # Errors
    ///
    /// Returns [`ListingError`] if the listing exceeds a limit. Entries that are already parsed are
    /// kept.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ListingError> {
        self.received_bytes = self.received_bytes.saturating_add(bytes.len() as u64);
        if self.received_bytes > LISTING_MAX_BYTES {
            return Err(ListingError::TooLong);
        }
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, from_line_end) = rest.split_at_checked(at).unwrap_or((rest, &[]));
            rest = from_line_end.get(1..).unwrap_or_default();
            if self.partial_line.is_empty() {
                self.line(line)?;
            } else {
                self.append_partial(line);
                let mut whole_line = core::mem::take(&mut self.partial_line);
                let result = self.line(&whole_line);
                // The buffer is reused for the next partial line.
                whole_line.clear();
                self.partial_line = whole_line;
                result?;
            }
        }
        self.append_partial(rest);
        Ok(())
    }

    /// Ends the listing, and parses a last line without a line end.
    ///
    /// # Errors
    ///
    /// Returns [`ListingError`] if the listing exceeds a limit, like [`Self::push`].
    pub fn finish(&mut self) -> Result<(), ListingError> {
        let line = core::mem::take(&mut self.partial_line);
        if line.is_empty() { Ok(()) } else { self.line(&line) }
    }

    /// Returns whether at least one line contains facts (RFC 3659 §7), or the listing is empty.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        self.lines == 0 || self.facts > 0
    }

    /// Returns the entries and the unknown lines. The names are single components other than `.`
    /// and `..`.
    #[must_use]
    pub fn into_entries(self) -> (Vec<Entry>, UnknownLines) {
        let mut unknown_lines = self.unknown;
        if self.dialect == Dialect::Long {
            let first = self.reader.first_unknown().map(<[u8]>::to_vec);
            unknown_lines.merge(UnknownLines { lines: self.reader.unknown_lines(), first });
        }
        (self.entries, unknown_lines)
    }

    /// Returns the number of buffered bytes of an incomplete line.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.partial_line.len()
    }

    /// Returns the number of entries parsed so far.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    fn append_partial(&mut self, piece: &[u8]) {
        let room = LINE_MAX_BYTES.saturating_sub(self.partial_line.len());
        self.is_overlong |= piece.len() > room;
        self.partial_line.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ListingError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        self.lines += 1;
        if core::mem::take(&mut self.is_overlong) || line.len() > LINE_MAX_BYTES {
            self.unknown.count_line(line);
            return Ok(());
        }
        let entry = match self.dialect {
            Dialect::Facts => {
                let entry = parse_facts(line);
                if entry.is_none() {
                    self.unknown.count_line(line);
                }
                entry
            }
            // The list reader itself counts the lines in unknown formats.
            Dialect::Long => self.reader.line(line),
            Dialect::Names => {
                let name = line.rsplit(|&byte| byte == b'/').next().unwrap_or(line);
                Some(Entry { name: name.to_vec(), ..Entry::default() })
            }
        };
        let Some(entry) = entry else { return Ok(()) };
        self.facts += u64::from(self.dialect == Dialect::Facts);
        if matches!(entry.kind, Kind::Current | Kind::Parent)
            || matches!(entry.name.as_slice(), b"." | b"..")
        {
            return Ok(());
        }
        if !is_component(&entry.name) {
            self.unknown.count_line(line);
            return Ok(());
        }
        if self.entries.len() >= self.entries_max {
            return Err(ListingError::TooManyEntries { max: self.entries_max });
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Returns whether `name` is a single component within a directory.
fn is_component(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && Name::new(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const NOW: Timestamp = Timestamp { seconds: 1_709_251_200, nanos: 0 };
    const MAX: usize = 1000;

    fn collect(dialect: Dialect, listing: &[u8], piece: usize) -> (Vec<Entry>, UnknownLines) {
        let mut collector = Collector::new(dialect, NOW, MAX);
        for piece in listing.chunks(piece) {
            collector.push(piece).unwrap();
        }
        collector.finish().unwrap();
        collector.into_entries()
    }

    fn names(entries: &[Entry]) -> Vec<&[u8]> {
        entries.iter().map(|entry| entry.name.as_slice()).collect()
    }

    // attack row 81
    #[test]
    fn a_listed_name_outside_the_directory_is_omitted_and_counted() {
        let listing = b"type=file;size=1; ../../x\r\ntype=file;size=1; a/b\r\n\
            type=cdir; .\r\ntype=file;size=2; good\r\ntype=file;size=2; -odd\r\n";
        let (entries, unknown) = collect(Dialect::Facts, listing, 1000);
        assert_eq!(names(&entries), [&b"good"[..], b"-odd"]);
        assert_eq!(unknown.lines, 2);
        assert_eq!(unknown.first.unwrap(), b"type=file;size=1; ../../x");
    }

    #[test]
    fn lines_in_unknown_formats_are_counted_and_the_first_is_stored() {
        let listing = b"total 3\r\n-rw-r--r-- 1 u g 9 Jan 02 2020 a\r\n\r\nwhat is this?\r\n\
            nor this\r\n";
        let (entries, unknown) = collect(Dialect::Long, listing, 7);
        assert_eq!(names(&entries), [b"a"]);
        assert_eq!(unknown, UnknownLines { lines: 2, first: Some(b"what is this?".to_vec()) });
        let (entries, unknown) = collect(Dialect::Facts, b"type=file; a\nwhat\n", 3);
        assert_eq!((names(&entries), unknown.lines), (vec![&b"a"[..]], 1));
    }

    #[test]
    fn a_listing_without_facts_is_recognized() {
        let has_facts = |listing: &[u8]| {
            let mut collector = Collector::new(Dialect::Facts, NOW, MAX);
            collector.push(listing).unwrap();
            collector.finish().unwrap();
            collector.has_facts()
        };
        assert!(has_facts(b"") && has_facts(b"\r\n") && has_facts(b"type=dir; a"));
        assert!(!has_facts(b"-rw-r--r--\n"));
    }

    // attack row 143
    #[test]
    fn an_endless_line_is_buffered_up_to_its_limit_and_counted_once() {
        let mut collector = Collector::new(Dialect::Facts, NOW, MAX);
        for _ in 0..100 {
            collector.push(&[b'x'; 4096]).unwrap();
            assert!(collector.held_bytes() <= LINE_MAX_BYTES);
        }
        collector.push(b"\r\ntype=file; a\r\n").unwrap();
        let (entries, unknown) = collector.into_entries();
        assert_eq!((names(&entries), unknown.lines), (vec![&b"a"[..]], 1));
        assert_eq!(unknown.first.unwrap().len(), super::super::EXAMPLE_MAX_BYTES);
    }

    // attack row 143
    #[test]
    fn an_endless_listing_ends_after_the_maximum_number_of_entries() {
        let mut collector = Collector::new(Dialect::Names, NOW, MAX);
        let error = (0..).find_map(|_| collector.push(b"a\nb\nc\n").err());
        assert_eq!(error, Some(ListingError::TooManyEntries { max: MAX }));
        assert_eq!(collector.entries(), MAX);
    }

    // attack row 143
    #[test]
    fn a_listing_without_entries_ends_at_the_byte_limit() {
        let mut collector = Collector::new(Dialect::Long, NOW, MAX);
        let piece = vec![b'\n'; 1 << 20];
        let accepted_pieces = (0..).find(|_| collector.push(&piece).is_err());
        assert_eq!(accepted_pieces, Some(64));
    }

    proptest! {
        #[test]
        fn a_listing_is_parsed_the_same_at_any_split(
            lines in prop::collection::vec(prop_oneof![
                Just("-rw-r--r-- 1 u g 9 Jan 02 2020 a"), Just("A_LONG_NAME.TXT;12"), Just("x/y"),
                Just("  2/8  4-OCT-1993 13:23 [G,O] (R,R,,)"), Just("total 4"), Just(""),
                Just("type=file;size=3; b"), Just("type=cdir; ."), Just("?"),
                Just("févr. 24 2020"), Just("drwx------ 2 u g 9 févr. 24 2020 d"),
            ], 0..8),
            piece in 1..40_usize, is_facts: bool
        ) {
            let listing = lines.join("\r\n").into_bytes();
            let dialect = if is_facts { Dialect::Facts } else { Dialect::Long };
            let unsplit_result = collect(dialect, &listing, listing.len().max(1));
            prop_assert_eq!(collect(dialect, &listing, piece), unsplit_result);
        }

        #[test]
        fn any_bytes_are_parsed_within_the_limits(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
            dialect in prop_oneof![
                Just(Dialect::Facts), Just(Dialect::Long), Just(Dialect::Names)
            ]
        ) {
            let mut collector = Collector::new(dialect, NOW, 5);
            for piece in pieces {
                if collector.push(&piece).is_err() {
                    break;
                }
            }
            prop_assert!(collector.entries() <= 5 && collector.held_bytes() <= LINE_MAX_BYTES);
            for entry in collector.into_entries().0 {
                prop_assert!(is_component(&entry.name) && entry.name != b"..");
            }
        }
    }
}
