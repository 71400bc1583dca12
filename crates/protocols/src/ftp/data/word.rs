//! Logical bytes of 1 to 64 bits: packed on the wire, and stored in a file of octets in one of the
//! word formats.
//!
//! On the wire the most significant bit comes first, words are adjacent, and the last octet is
//! padded with zeros (RFC 959 §3.1.1.4). If words have fewer than eight bits, the padding cannot be
//! distinguished from further words and is decoded as words. The bits of a 36-bit word are numbered
//! from B0, the most significant, to B35.

use super::data_error::DataError;
use super::pair;
use crate::ftp::representation::{ByteSize, WordFormat};
use alloc::vec::Vec;

/// Packs words into octets.
#[derive(Debug)]
pub(super) struct Packer {
    bits: u32,
    buffer: u128,
    buffered_bits: u32,
}

impl Packer {
    pub(super) fn new(size: ByteSize) -> Self {
        Self { bits: u32::from(size.bits()), buffer: 0, buffered_bits: 0 }
    }

    pub(super) fn put(&mut self, word: u64, out: &mut Vec<u8>) {
        self.buffer = self.buffer << self.bits | u128::from(word);
        self.buffered_bits += self.bits;
        if self.buffered_bits <= 64 {
            // Emits all whole octets at once.
            let left_aligned = low_word(self.buffer) << (64 - self.buffered_bits);
            let whole_octets = (self.buffered_bits / 8) as usize;
            out.extend_from_slice(
                left_aligned.to_be_bytes().get(..whole_octets).unwrap_or_default(),
            );
            self.buffered_bits %= 8;
            self.buffer &= (1 << self.buffered_bits) - 1;
            return;
        }
        while self.buffered_bits >= 8 {
            self.buffered_bits -= 8;
            out.push(low_octet(self.buffer >> self.buffered_bits));
        }
        self.buffer &= (1 << self.buffered_bits) - 1;
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.buffered_bits > 0 {
            out.push(low_octet(self.buffer << (8 - self.buffered_bits)));
            self.buffered_bits = 0;
        }
    }
}

fn low_octet(value: u128) -> u8 {
    u8::try_from(value & 0xFF).unwrap_or(0)
}

fn low_word(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or(0)
}

/// Unpacks octets into words.
#[derive(Debug)]
pub(super) struct Unpacker {
    bits: u32,
    buffer: u128,
    buffered_bits: u32,
}

impl Unpacker {
    pub(super) fn new(size: ByteSize) -> Self {
        Self { bits: u32::from(size.bits()), buffer: 0, buffered_bits: 0 }
    }

    pub(super) fn put(&mut self, octets: &[u8], mut word: impl FnMut(u64)) {
        let (eights, rest) = octets.as_chunks();
        for eight in eights {
            // At most 63 bits are buffered, so 64 more bits fit.
            self.buffer = self.buffer << 64 | u128::from(u64::from_be_bytes(*eight));
            self.buffered_bits += 64;
            self.emit_complete_words(&mut word);
        }
        for &octet in rest {
            self.put_one(octet, &mut word);
        }
    }

    fn put_one(&mut self, octet: u8, word: &mut impl FnMut(u64)) {
        self.buffer = self.buffer << 8 | u128::from(octet);
        self.buffered_bits += 8;
        self.emit_complete_words(word);
    }

    /// Emits the words that are complete.
    fn emit_complete_words(&mut self, word: &mut impl FnMut(u64)) {
        while self.buffered_bits >= self.bits {
            self.buffered_bits -= self.bits;
            word(low_word(self.buffer >> self.buffered_bits));
            self.buffer &= (1 << self.buffered_bits) - 1;
        }
    }

    /// Unpacks octets and stores their words in `out`.
    pub(super) fn put_into(&mut self, octets: &[u8], store: &mut ToStore, out: &mut Vec<u8>) {
        let mut octets = octets;
        if self.bits == 36 {
            // Processes single octets up to a pair boundary.
            while self.buffered_bits > 0
                && let Some((first, rest)) = octets.split_first()
            {
                self.put_one(*first, &mut |word| store.put(word, out));
                octets = rest;
            }
            let (pairs, rest) = octets.as_chunks::<{ pair::WIRE_LEN }>();
            if pair::words_to_file(store.format, pairs, out) {
                octets = rest;
            }
        }
        self.put(octets, |word| store.put(word, out));
    }

    /// Ends the input. Returns an error if more than the padding of an octet is left.
    pub(super) fn finish(&self) -> Result<(), DataError> {
        if self.buffered_bits < 8 { Ok(()) } else { Err(DataError::Truncated) }
    }
}

/// Converts words to the local file.
#[derive(Debug)]
pub(super) struct ToStore {
    format: WordFormat,
    packer: Packer,
    digits: usize,
    /// Pending character of the u36 or text format: its output depends on the next character.
    pending: Option<u8>,
    pending_nuls: u8,
    /// Whether text conversion has lost information.
    has_lost: bool,
}

const CR: u8 = 0o15;
const LF: u8 = 0o12;
const RUBOUT: u8 = 0o177;

impl ToStore {
    pub(super) fn new(format: WordFormat, size: ByteSize) -> Self {
        let digits = usize::from(size.bits()).div_ceil(3);
        Self {
            format,
            packer: Packer::new(size),
            digits,
            pending: None,
            pending_nuls: 0,
            has_lost: false,
        }
    }

    pub(super) fn put(&mut self, word: u64, out: &mut Vec<u8>) {
        match self.format {
            WordFormat::Packed => self.packer.put(word, out),
            WordFormat::Data8 => out.extend_from_slice(&word.to_le_bytes()),
            WordFormat::C36 => {
                out.extend(five_octets([
                    word >> 28,
                    word >> 20,
                    word >> 12,
                    word >> 4,
                    word & 0xF,
                ]));
            }
            WordFormat::A36 => {
                let [a, b, c, d, e] = characters(word);
                out.extend([a, b, c, d, e | if word & 1 == 1 { 0x80 } else { 0 }]);
            }
            WordFormat::Oct => {
                for place in (0..self.digits).rev() {
                    out.push(b'0' + low_octet(u128::from(word >> (3 * place) & 7)));
                }
                out.push(b'\n');
            }
            WordFormat::Text => {
                self.has_lost |= word & 1 == 1;
                for character in characters(word) {
                    self.put_text_character(character, out);
                }
            }
            WordFormat::U36 if word & 1 == 0 => {
                for character in characters(word) {
                    self.put_u36_character(character, out);
                }
            }
            WordFormat::U36 => {
                self.emit_pending(out);
                let first_octet = 0xF0 | word >> 32;
                out.extend(five_octets([first_octet, word >> 24, word >> 16, word >> 8, word]));
            }
        }
    }

    /// Converts CR LF to LF and drops the NULs that pad the last word.
    fn put_text_character(&mut self, character: u8, out: &mut Vec<u8>) {
        if character == 0 && self.pending.is_none() {
            if self.pending_nuls == 4 {
                out.push(0);
            } else {
                self.pending_nuls += 1;
            }
            return;
        }
        (0..core::mem::take(&mut self.pending_nuls)).for_each(|_| out.push(0));
        let follows_cr = self.pending.take().is_some();
        self.has_lost |= !follows_cr && character == LF;
        if follows_cr && character != LF {
            out.push(CR);
        }
        match character {
            CR => self.pending = Some(CR),
            0 => self.pending_nuls = 1,
            _ => out.push(character),
        }
    }

    fn put_u36_character(&mut self, character: u8, out: &mut Vec<u8>) {
        match (self.pending.take(), character) {
            (Some(CR), LF) => return out.push(LF),
            (Some(CR), _) => out.push(0o356),
            (Some(_), 0o7) => return out.push(RUBOUT),
            (Some(_), RUBOUT) => return out.push(0o207),
            (Some(_), CR) => return out.push(0o212),
            (Some(_), LF) => return out.push(0o215),
            (Some(_), 0..=0o155) => return out.push(0o200 + character),
            (Some(_), _) => out.push(0o357),
            (None, _) => {}
        }
        match character {
            CR | RUBOUT => self.pending = Some(character),
            LF => out.push(CR),
            _ => out.push(character),
        }
    }

    fn emit_pending(&mut self, out: &mut Vec<u8>) {
        match self.pending.take() {
            Some(CR) => out.push(0o356),
            Some(_) => out.push(0o357),
            None => {}
        }
    }

    /// Returns whether the conversion lost information, so that the words cannot be restored from
    /// the file. The text format represents neither bit B35 nor an LF without a CR.
    pub(super) const fn has_lost(&self) -> bool {
        self.has_lost
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        match self.format {
            WordFormat::Packed => self.packer.finish(out),
            WordFormat::U36 => self.emit_pending(out),
            WordFormat::Text if self.pending.take().is_some() => out.push(CR),
            _ => {}
        }
    }
}

fn five_octets(parts: [u64; 5]) -> [u8; 5] {
    parts.map(|part| low_octet(u128::from(part)))
}

/// Returns the five 7-bit characters of a word, without bit B35.
fn characters(word: u64) -> [u8; 5] {
    [29, 22, 15, 8, 1].map(|shift| low_octet(u128::from(word >> shift & 0x7F)))
}

/// Converts the local file to words.
#[derive(Debug)]
pub(super) struct FromStore {
    format: WordFormat,
    unpacker: Unpacker,
    bits: u32,
    digits: usize,
    /// The octets of an incomplete unit, or the characters of an incomplete word.
    buffer: [u8; 8],
    buffered_len: usize,
    /// Number of octal digits read so far, and their value.
    octal: (usize, u64),
}

impl FromStore {
    pub(super) fn new(format: WordFormat, size: ByteSize) -> Self {
        let bits = u32::from(size.bits());
        Self {
            format,
            unpacker: Unpacker::new(size),
            bits,
            digits: usize::from(size.bits()).div_ceil(3),
            buffer: [0; 8],
            buffered_len: 0,
            octal: (0, 0),
        }
    }

    pub(super) fn put(
        &mut self,
        octets: &[u8],
        mut word: impl FnMut(u64),
    ) -> Result<(), DataError> {
        match self.format {
            WordFormat::Packed => {
                self.unpacker.put(octets, word);
                Ok(())
            }
            WordFormat::Oct => {
                octets.iter().try_for_each(|&octet| self.collect_octal_digit(octet, &mut word))
            }
            WordFormat::Text => octets.iter().try_for_each(|&octet| match octet {
                LF => {
                    self.collect_character(CR, &mut word);
                    self.collect_character(LF, &mut word);
                    Ok(())
                }
                0x80.. => Err(DataError::Malformed),
                _ => {
                    self.collect_character(octet, &mut word);
                    Ok(())
                }
            }),
            WordFormat::U36 => {
                octets.iter().try_for_each(|&octet| self.take_u36_octet(octet, &mut word))
            }
            WordFormat::Data8 if self.buffered_len == 0 => {
                let (units, rest) = octets.as_chunks::<8>();
                for unit in units {
                    word(self.right_aligned(*unit)?);
                }
                rest.iter().try_for_each(|&octet| self.collect_unit(octet, &mut word))
            }
            WordFormat::Data8 | WordFormat::C36 | WordFormat::A36 => {
                octets.iter().try_for_each(|&octet| self.collect_unit(octet, &mut word))
            }
        }
    }

    /// Reads octets of the local file and packs their words.
    pub(super) fn put_into(
        &mut self,
        octets: &[u8],
        packer: &mut Packer,
        out: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        let mut octets = octets;
        if self.bits == 36 {
            // Processes single octets up to a pair boundary.
            while (self.buffered_len > 0 || packer.buffered_bits > 0)
                && let Some((first, rest)) = octets.split_at_checked(1)
            {
                self.put(first, |word| packer.put(word, out))?;
                octets = rest;
            }
            octets = pair::words_from_file(self.format, octets, out)?;
        }
        self.put(octets, |word| packer.put(word, out))
    }

    /// Returns the right-aligned word of a little-endian 64-bit word.
    fn right_aligned(&self, unit: [u8; 8]) -> Result<u64, DataError> {
        let value = u64::from_le_bytes(unit);
        let fits_in_word = self.bits == 64 || value >> self.bits == 0;
        if fits_in_word { Ok(value) } else { Err(DataError::Malformed) }
    }

    /// Collects the octets of one unit, eight or five.
    fn collect_unit(&mut self, octet: u8, word: &mut impl FnMut(u64)) -> Result<(), DataError> {
        if let Some(place) = self.buffer.get_mut(self.buffered_len) {
            *place = octet;
            self.buffered_len += 1;
        }
        let [a, b, c, d, e, ..] = self.buffer;
        let value = match self.format {
            WordFormat::Data8 if self.buffered_len == 8 => self.right_aligned(self.buffer)?,
            WordFormat::C36 if self.buffered_len == 5 => {
                if e > 0xF {
                    return Err(DataError::Malformed);
                }
                u64::from(u32::from_be_bytes([a, b, c, d])) << 4 | u64::from(e)
            }
            WordFormat::A36 if self.buffered_len == 5 => {
                if (a | b | c | d) & 0x80 != 0 {
                    return Err(DataError::Malformed);
                }
                word_of([a, b, c, d, e & 0x7F]) | u64::from(e >> 7)
            }
            _ => return Ok(()),
        };
        self.buffered_len = 0;
        word(value);
        Ok(())
    }

    fn collect_octal_digit(
        &mut self,
        octet: u8,
        word: &mut impl FnMut(u64),
    ) -> Result<(), DataError> {
        let (digits, value) = self.octal;
        match octet {
            b'0'..=b'7' if digits < self.digits => {
                let value = u128::from(value) << 3 | u128::from(octet - b'0');
                if value >> self.bits != 0 {
                    return Err(DataError::Malformed);
                }
                self.octal = (digits + 1, low_word(value));
            }
            b'\n' if digits > 0 => {
                word(value);
                self.octal = (0, 0);
            }
            b'\n' | b'\r' => {}
            _ => return Err(DataError::Malformed),
        }
        Ok(())
    }

    /// Collects one 7-bit character.
    fn collect_character(&mut self, character: u8, word: &mut impl FnMut(u64)) {
        if let Some(place) = self.buffer.get_mut(self.buffered_len) {
            *place = character;
            self.buffered_len += 1;
        }
        if self.buffered_len == 5 {
            let [a, b, c, d, e, ..] = self.buffer;
            word(word_of([a, b, c, d, e]));
            self.buffered_len = 0;
        }
    }

    fn take_u36_octet(&mut self, octet: u8, word: &mut impl FnMut(u64)) -> Result<(), DataError> {
        // In u36 format, `octal` is the number of octets that are still missing in a word other
        // than text, and the value of the word so far.
        let (left, value) = self.octal;
        if left > 0 {
            let value = value << 8 | u64::from(octet);
            self.octal = (left - 1, if left == 1 { 0 } else { value });
            if left == 1 {
                word(value);
            }
            return Ok(());
        }
        let pair = match octet {
            LF => (CR, Some(LF)),
            CR => (LF, None),
            RUBOUT => (RUBOUT, Some(0o7)),
            0o207 => (RUBOUT, Some(RUBOUT)),
            0o212 => (RUBOUT, Some(CR)),
            0o215 => (RUBOUT, Some(LF)),
            0o200..=0o355 => (RUBOUT, Some(octet - 0o200)),
            0o356 => (CR, None),
            0o357 => (RUBOUT, None),
            0o360.. if self.buffered_len == 0 => {
                self.octal = (4, u64::from(octet & 0xF));
                return Ok(());
            }
            0o360.. => return Err(DataError::Malformed),
            _ => (octet, None),
        };
        self.collect_character(pair.0, word);
        if let Some(second) = pair.1 {
            self.collect_character(second, word);
        }
        Ok(())
    }

    /// Ends the file, and emits the remaining text, padded with NULs to a whole word.
    pub(super) fn finish(&mut self, mut word: impl FnMut(u64)) -> Result<(), DataError> {
        match self.format {
            WordFormat::Packed => self.unpacker.finish(),
            WordFormat::Oct => {
                if self.octal.0 > 0 {
                    word(self.octal.1);
                }
                Ok(())
            }
            WordFormat::U36 if self.octal.0 > 0 => Err(DataError::Truncated),
            WordFormat::Text | WordFormat::U36 => {
                while self.buffered_len > 0 {
                    self.collect_character(0, &mut word);
                }
                Ok(())
            }
            _ if self.buffered_len > 0 => Err(DataError::Truncated),
            _ => Ok(()),
        }
    }
}

fn word_of(characters: [u8; 5]) -> u64 {
    characters.iter().fold(0, |word, &character| word << 7 | u64::from(character)) << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn size(bits: u8) -> ByteSize {
        ByteSize::new(bits).unwrap()
    }

    fn store_words(format: WordFormat, bits: u8, words: &[u64]) -> Vec<u8> {
        let mut store = ToStore::new(format, size(bits));
        let mut out = Vec::new();
        words.iter().for_each(|word| store.put(*word, &mut out));
        store.finish(&mut out);
        out
    }

    fn load_words(
        format: WordFormat,
        bits: u8,
        octets: &[u8],
        cut: usize,
    ) -> Result<Vec<u64>, DataError> {
        let mut store = FromStore::new(format, size(bits));
        let mut words = Vec::new();
        for piece in octets.chunks(cut) {
            store.put(piece, |word| words.push(word))?;
        }
        store.finish(|word| words.push(word))?;
        Ok(words)
    }

    #[test]
    fn two_words_of_36_bits_are_nine_octets_and_a_single_word_is_padded() {
        let words = [0o123_456_701_234, 0o765_432_107_654];
        let packed = store_words(WordFormat::Packed, 36, &words);
        let [a, b] = words.map(u128::from);
        assert_eq!(packed, (a << 36 | b).to_be_bytes()[7..]);
        assert_eq!(store_words(WordFormat::Packed, 36, &words[..1]).len(), 5);
    }

    #[test]
    fn each_word_format_has_its_documented_layout() {
        let word = 0xABC_DEF_125;
        assert_eq!(store_words(WordFormat::C36, 36, &[word]), [0xAB, 0xCD, 0xEF, 0x12, 0x05]);
        assert_eq!(
            store_words(WordFormat::Data8, 36, &[word]),
            [0x25, 0xF1, 0xDE, 0xBC, 0x0A, 0, 0, 0]
        );
        assert_eq!(store_words(WordFormat::Oct, 36, &[0o123_456_701_234]), b"123456701234\n");
        assert_eq!(store_words(WordFormat::U36, 36, &[word]), [0xFA, 0xBC, 0xDE, 0xF1, 0x25]);
        let text_word = word_of(*b"Hi\r\nx");
        assert_eq!(store_words(WordFormat::A36, 36, &[text_word | 1]), b"Hi\r\n\xf8");
        assert_eq!(store_words(WordFormat::U36, 36, &[text_word]), b"Hi\nx");
        assert_eq!(
            store_words(WordFormat::Text, 36, &[text_word, word_of(*b"y\0\0\0\0")]),
            b"Hi\nxy"
        );
    }

    #[test]
    fn an_unknown_format_is_refused() {
        for (format, octets) in [
            (WordFormat::C36, vec![0, 0, 0, 0, 0x10]),
            (WordFormat::A36, vec![0x80, 0, 0, 0, 0]),
            (WordFormat::U36, vec![b'x', 0xF0, 0, 0, 0, 0]),
            (WordFormat::Data8, vec![0, 0, 0, 0, 0x10, 0, 0, 0]),
            (WordFormat::Oct, b"8\n".to_vec()),
            (WordFormat::Oct, b"1234567012345\n".to_vec()),
            (WordFormat::Text, vec![0x80]),
        ] {
            assert_eq!(load_words(format, 36, &octets, 9), Err(DataError::Malformed), "{format:?}");
        }
        for (format, octets) in [
            (WordFormat::C36, vec![0]),
            (WordFormat::U36, vec![0xF0]),
            (WordFormat::Data8, vec![0; 9]),
            (WordFormat::Packed, vec![0; 4]),
        ] {
            assert_eq!(load_words(format, 36, &octets, 9), Err(DataError::Truncated), "{format:?}");
        }
    }

    proptest! {
        #[test]
        fn words_of_36_bits_round_trip_in_every_format(
            words in prop::collection::vec(prop_oneof![
                any::<u64>(),
                // Words of text, including the characters that u36 encodes specially.
                prop::array::uniform5(prop_oneof![
                    Just(CR), Just(LF), Just(RUBOUT), Just(0o7), Just(0), Just(0o156), any::<u8>()
                ]).prop_map(|text| word_of(text.map(|c| c & 0x7F))),
            ], 0..40),
            cut in 1..20_usize,
        ) {
            let words: Vec<u64> = words.iter().map(|word| word & 0xF_FFFF_FFFF).collect();
            for (format, _) in WordFormat::ALL.iter().filter(|(f, _)| *f != WordFormat::Text) {
                let octets = store_words(*format, 36, &words);
                let restored_words = load_words(*format, 36, &octets, cut);
                prop_assert_eq!(restored_words.as_ref(), Ok(&words));
            }
        }

        #[test]
        fn words_of_any_size_round_trip(
            bits in 1..=64_u8, words in prop::collection::vec(any::<u64>(), 0..40), cut in 1..20_usize
        ) {
            let words: Vec<u64> = words.iter().map(|word| word >> (64 - bits)).collect();
            for format in [WordFormat::Packed, WordFormat::Data8, WordFormat::Oct] {
                let octets = store_words(format, bits, &words);
                let mut restored_words = load_words(format, bits, &octets, cut).unwrap();
                // With words of fewer than eight bits, the padding of the last octet is decoded as
                // further words.
                prop_assert!(restored_words.len() - words.len() <= usize::from(7 / bits));
                prop_assert!(restored_words.split_off(words.len()).iter().all(|word| *word == 0));
                prop_assert_eq!(&restored_words, &words);
            }
        }

        #[test]
        fn pairs_are_converted_like_single_words(
            octets in prop::collection::vec(any::<u8>(), 0..200),
            is_zeroed in any::<bool>(),
            cut in 1..60_usize,
        ) {
            // Random octets are rarely a valid file, so some inputs are all zeros.
            let file: Vec<u8> = match is_zeroed {
                true => octets.iter().map(|octet| octet & 0x0F).collect(),
                false => octets.clone(),
            };
            for (format, _) in WordFormat::ALL {
                let mut word_unpacker = Unpacker::new(size(36));
                let mut pair_unpacker = Unpacker::new(size(36));
                let mut stores = [ToStore::new(format, size(36)), ToStore::new(format, size(36))];
                let [one, two] = &mut stores;
                let mut file_from_words = Vec::new();
                let mut file_from_pairs = Vec::new();
                word_unpacker.put(&octets, |word| one.put(word, &mut file_from_words));
                for piece in octets.chunks(cut) {
                    pair_unpacker.put_into(piece, two, &mut file_from_pairs);
                }
                prop_assert_eq!(&file_from_pairs, &file_from_words);
                for file in [&file_from_words, &file] {
                    let words = load_words(format, 36, file, 200);
                    let mut store = FromStore::new(format, size(36));
                    let mut wire = Vec::new();
                    let mut packer = Packer::new(size(36));
                    let mut pieces = file.chunks(cut);
                    let packed =
                        pieces.try_for_each(|piece| store.put_into(piece, &mut packer, &mut wire));
                    let packed = packed.and_then(|()| {
                        store.finish(|word| packer.put(word, &mut wire))?;
                        packer.finish(&mut wire);
                        Ok(wire)
                    });
                    let expected = words.map(|words| store_words(WordFormat::Packed, 36, &words));
                    prop_assert_eq!(packed, expected);
                }
            }
        }

        #[test]
        fn words_are_restored_from_text_or_reported_as_lost(
            words in prop::collection::vec(
                prop::array::uniform5(prop_oneof![
                    Just(CR), Just(LF), Just(0), Just(b'x'), 0..0x80_u8
                ]),
                0..20,
            ),
            is_odd in prop::bool::weighted(0.1),
        ) {
            let words: Vec<u64> =
                words.into_iter().map(|text| word_of(text) | u64::from(is_odd)).collect();
            let mut store = ToStore::new(WordFormat::Text, size(36));
            let mut out = Vec::new();
            words.iter().for_each(|word| store.put(*word, &mut out));
            store.finish(&mut out);
            let restored_words = load_words(WordFormat::Text, 36, &out, 7).unwrap();
            prop_assert_eq!(store.has_lost(), restored_words != words);
        }

        #[test]
        fn text_round_trips(text in "[\\x01-\\x7f]{0,60}", cut in 1..20_usize) {
            let words = load_words(WordFormat::Text, 36, text.as_bytes(), cut).unwrap();
            prop_assert_eq!(store_words(WordFormat::Text, 36, &words), text.as_bytes());
        }

        #[test]
        fn any_octets_are_converted_or_refused(
            octets in prop::collection::vec(any::<u8>(), 0..80), cut in 1..20_usize
        ) {
            for (format, _) in WordFormat::ALL {
                let unsplit_result = load_words(format, 36, &octets, 80);
                prop_assert_eq!(load_words(format, 36, &octets, cut), unsplit_result.clone());
            }
        }
    }

    #[test]
    fn an_empty_line_of_octal_digits_is_no_word() {
        let octal = WordFormat::ALL.iter().find(|(_, name)| name.contains("oct")).unwrap().0;
        let [full, with_empty_lines] = [b"12\n34\n".as_slice(), b"\n12\r\n\n34\n\n"]
            .map(|text| load_words(octal, 36, text, 3).unwrap());
        assert_eq!(full.len(), 2);
        assert_eq!(with_empty_lines, full);
    }

    #[test]
    fn the_nuls_of_text_are_stored_except_those_that_pad_the_last_word() {
        let nuls = word_of([0; 5]);
        let words = [nuls, nuls, word_of(*b"x\0\0\0\0")];
        assert_eq!(store_words(WordFormat::Text, 36, &words), [&[0; 10][..], b"x"].concat());
        assert_eq!(store_words(WordFormat::Text, 36, &words[..2]), [0; 6]);
    }
}
