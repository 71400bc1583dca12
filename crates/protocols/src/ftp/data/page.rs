//! Page structure: files with holes, as on TENEX (RFC 959 §3.1.2.3).
//!
//! Each page has a header of logical bytes: the length of the header, the index of the page, the
//! number of data bytes that follow, and the kind of the page. Kind 0 is the last page, which has
//! no data; kind 1 is a simple page, kind 2 a descriptor of the file, and kind 3 a page with access
//! control. Since an index is one logical byte, byte sizes below 16 bits are rejected. Pages are in
//! ascending order of their indices. The decoder fills holes between pages with zeros, up to a
//! limit, and skips descriptors.

use super::data_error::DataError;
use alloc::vec::Vec;

/// Number of words of a TENEX page.
pub(super) const PAGE_WORDS: u64 = 512;
/// Maximum total number of zero words that are inserted for missing pages (our choice).
const HOLES_MAX_WORDS: u64 = 1 << 22;

/// Splits the words of a file into pages.
#[derive(Debug, Default)]
pub(super) struct Pager {
    page: Vec<u64>,
    index: u64,
}

impl Pager {
    pub(super) fn put(&mut self, value: u64, mut word: impl FnMut(u64)) {
        self.page.push(value);
        if self.page.len() as u64 == PAGE_WORDS {
            self.end_page(&mut word);
        }
    }

    fn end_page(&mut self, word: &mut impl FnMut(u64)) {
        // A page that contains only zeros is sent like any other page, not omitted as a hole.
        [4, self.index, self.page.len() as u64, 1].into_iter().for_each(&mut *word);
        self.page.drain(..).for_each(word);
        self.index += 1;
    }

    /// Returns whether every page index so far fits a word of `bits` bits.
    pub(super) fn fits(&self, bits: u32) -> bool {
        bits >= 64 || self.index >> bits == 0
    }

    pub(super) fn finish(&mut self, mut word: impl FnMut(u64)) {
        if !self.page.is_empty() {
            self.end_page(&mut word);
        }
        [4, self.index, 0, 0].into_iter().for_each(word);
    }
}

/// Reassembles the words of a file from pages.
#[derive(Debug, Default)]
pub(super) struct Unpager {
    header: Vec<u64>,
    /// Number of optional header words that are still to be skipped.
    optional_header_words: u64,
    data: u64,
    is_skipped: bool,
    position: u64,
    holes: u64,
    is_over: bool,
}

impl Unpager {
    pub(super) fn put(&mut self, value: u64, word: &mut impl FnMut(u64)) -> Result<(), DataError> {
        if self.is_over {
            // After the last page, only zero padding may follow.
            return if value == 0 { Ok(()) } else { Err(DataError::Malformed) };
        }
        if self.header.len() < 4 {
            self.header.push(value);
            return if self.header.len() == 4 { self.begin_page(word) } else { Ok(()) };
        }
        if self.optional_header_words > 0 {
            self.optional_header_words -= 1;
        } else {
            self.data -= 1;
            if !self.is_skipped {
                word(value);
                self.position += 1;
            }
        }
        self.clear_finished_header();
        Ok(())
    }

    fn begin_page(&mut self, word: &mut impl FnMut(u64)) -> Result<(), DataError> {
        let [length, index, data, kind] = *self.header.as_slice() else { return Ok(()) };
        if !(4..=16).contains(&length) || data > PAGE_WORDS || kind > 3 {
            return Err(DataError::Malformed);
        }
        self.optional_header_words = length - 4;
        self.data = data;
        self.is_skipped = kind == 2;
        if kind == 0 {
            self.is_over = data == 0;
            return if self.is_over { Ok(()) } else { Err(DataError::Malformed) };
        }
        if kind != 2 {
            let start = index.checked_mul(PAGE_WORDS).ok_or(DataError::Malformed)?;
            let hole_words = start.checked_sub(self.position).ok_or(DataError::Malformed)?;
            self.holes = self.holes.saturating_add(hole_words);
            if self.holes > HOLES_MAX_WORDS {
                return Err(DataError::Malformed);
            }
            (0..hole_words).for_each(|_| word(0));
            self.position = start;
        }
        self.clear_finished_header();
        Ok(())
    }

    fn clear_finished_header(&mut self) {
        if self.optional_header_words == 0 && self.data == 0 {
            self.header.clear();
        }
    }

    pub(super) fn finish(&self) -> Result<(), DataError> {
        if self.is_over { Ok(()) } else { Err(DataError::Truncated) }
    }
}
