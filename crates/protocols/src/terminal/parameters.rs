//! The parameters of a control sequence (ECMA-48 §5.4), and a fast parser for complete sequences of
//! the usual form.
//!
//! Nearly all control sequences consist of CSI, an optional private mark, numbers, and a final
//! byte. If a sequence contains any other byte, or is incomplete in the available input, the
//! general parser processes it from its beginning.

/// Maximum number of parameter values in one sequence; the general parser processes longer
/// sequences.
pub(super) const NUMBERS_MAX: usize = 32;

/// The numbers of a control sequence; omitted ones are 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    numbers: [u16; NUMBERS_MAX],
    count: usize,
    /// Bit n is set if a colon joins number n to the number before it.
    joined_bits: u32,
}

impl Parameters {
    /// No parameters.
    pub(super) const NONE: Self = Self { numbers: [0; NUMBERS_MAX], count: 0, joined_bits: 0 };

    /// Copies the parameters of the parser.
    pub(super) fn from_vte(parameters: &vte::Params) -> Self {
        let mut copy = Self::NONE;
        for parameter in parameters {
            for (index, number) in parameter.iter().enumerate() {
                copy.push(*number, index > 0);
            }
        }
        copy
    }

    fn push(&mut self, number: u16, is_joined: bool) {
        if let Some(index) = self.numbers.get_mut(self.count) {
            *index = number;
            self.joined_bits |= u32::from(is_joined) << self.count;
            self.count += 1;
        }
    }

    /// Returns the number at `index`, or 0 if there is none.
    pub(super) fn get(&self, index: usize) -> usize {
        match self.joined_bits {
            0 if index < self.count => self.numbers.get(index).copied().unwrap_or(0).into(),
            0 => 0,
            _ => self.all().nth(index).unwrap_or(0),
        }
    }

    /// Returns the number at `index` as a count: 0 or an omitted number means 1.
    pub(super) fn count(&self, index: usize) -> usize {
        self.get(index).max(1)
    }

    /// Returns the number of parameters.
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns the first number of each parameter.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.iter().map(|parameter| parameter.first().copied().unwrap_or(0).into())
    }

    /// Returns each parameter with the numbers that are joined to it.
    pub(super) fn iter(&self) -> Iter<'_> {
        Iter {
            rest: self.numbers.get(..self.count).unwrap_or_default(),
            joined_bits: self.joined_bits,
        }
    }
}

/// Iterator over the parameters.
#[derive(Clone, Debug)]
pub(super) struct Iter<'a> {
    rest: &'a [u16],
    /// Bit n is set if a colon joins number n of `rest` to the number before it.
    joined_bits: u32,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u16];

    fn next(&mut self) -> Option<&'a [u16]> {
        let count = 1 + (self.joined_bits >> 1).trailing_ones();
        let (parameter, rest) = self.rest.split_at_checked(count as usize)?;
        self.rest = rest;
        self.joined_bits = self.joined_bits.checked_shr(count).unwrap_or(0);
        Some(parameter)
    }
}

/// A control sequence of the usual form; its numbers are in [`Parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The private mark, one of `<=>?`.
    pub(super) private: Option<u8>,
    pub(super) last: u8,
    /// Length in bytes, including ESC and final.
    pub(super) bytes: usize,
}

impl Sequence {
    /// Parses the sequence at the front of `bytes`, or returns `None` if it is incomplete or has an
    /// unusual form.
    ///
    /// `parameters` must be empty. It is an argument instead of part of the result, because moving
    /// the parameters costs more than parsing them.
    #[inline]
    pub(super) fn parse(bytes: &[u8], parameters: &mut Parameters) -> Option<Self> {
        let [0x1b, b'[', rest @ ..] = bytes else { return None };
        let private = rest.first().copied().filter(|byte| matches!(byte, b'<'..=b'?'));
        let start = 2 + usize::from(private.is_some());
        let mut number = 0_u16;
        let mut is_joined = false;
        for (index, byte) in bytes.iter().enumerate().skip(start) {
            match byte {
                b'0'..=b'9' => {
                    number = number.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                }
                b';' | b':' => {
                    // The last number needs an entry too.
                    if parameters.count + 1 >= NUMBERS_MAX {
                        return None;
                    }
                    parameters.push(number, is_joined);
                    number = 0;
                    is_joined = *byte == b':';
                }
                b'@'..=b'~' => {
                    parameters.push(number, is_joined);
                    return Some(Self { private, last: *byte, bytes: index + 1 });
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The parameters with their joined numbers, the private mark, the final byte, and the length
    /// of a parsed sequence.
    type ParsedSequence = (Vec<Vec<u16>>, Option<u8>, u8, usize);

    fn parse_sequence(bytes: &[u8]) -> Option<ParsedSequence> {
        let mut parameters = Parameters::NONE;
        let Sequence { private, last, bytes } = Sequence::parse(bytes, &mut parameters)?;
        Some((parameters.iter().map(<[u16]>::to_vec).collect(), private, last, bytes))
    }

    /// The control sequences that the general parser has dispatched.
    #[derive(Default)]
    struct DispatchedSequences(Vec<FoundSequence>);

    type FoundSequence = (Vec<Vec<u16>>, Vec<u8>, bool, char);

    impl vte::Perform for DispatchedSequences {
        fn csi_dispatch(&mut self, p: &vte::Params, i: &[u8], is_truncated: bool, last: char) {
            let parameters = Parameters::from_vte(p).iter().map(<[u16]>::to_vec).collect();
            self.0.push((parameters, i.to_vec(), is_truncated, last));
        }
    }

    #[test]
    fn numbers_are_listed_or_joined() {
        let expected = std::vec![std::vec![0], std::vec![38, 2, 0, 65_535], std::vec![7]];
        assert_eq!(parse_sequence(b"\x1b[;38:2::99999;7mx"), Some((expected, None, b'm', 17)));
        assert_eq!(
            parse_sequence(b"\x1b[?H"),
            Some((std::vec![std::vec![0]], Some(b'?'), b'H', 4))
        );
    }

    #[test]
    fn incomplete_or_unusual_input_is_not_parsed() {
        for bytes in [&b"\x1b["[..], b"\x1b[1;2", b"\x1b[1 q", b"\x1b[1\n2H", b"\x1b[1?h", b"\x1bM"]
        {
            assert_eq!(parse_sequence(bytes), None);
        }
        assert!(parse_sequence(&[b"\x1b[", &[b';'; 31][..], b"m"].concat()).is_some());
        assert!(parse_sequence(&[b"\x1b[", &[b';'; 32][..], b"m"].concat()).is_none());
    }

    proptest! {
        #[test]
        fn the_reader_agrees_with_the_parser(bytes in "\x1b\\[[?>]?[0-9;:]{0,40}[@-~]") {
            let mut dispatched = DispatchedSequences::default();
            vte::Parser::<512>::default().advance(&mut dispatched, bytes.as_bytes());
            if let Some((parameters, private, last, length)) = parse_sequence(bytes.as_bytes()) {
                prop_assert_eq!(length, bytes.len());
                let private: Vec<_> = private.into_iter().collect();
                let expected = std::vec![(parameters, private, false, char::from(last))];
                prop_assert_eq!(dispatched.0, expected);
            }
        }
    }
}
