//! File name patterns in the last component of a path: `*`, `?` and `[a-z]`.
//!
//! A pattern is matched against one name at a time, in a number of steps that is at most the
//! product of the lengths of the pattern and the name. Neither patterns in directory components nor
//! braces are supported, so a listing examines each entry of one directory once.

use alloc::vec::Vec;

/// A pattern that file names are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    Any,
    Run,
    Set { is_negated: bool, ranges: Vec<(u8, u8)> },
}

impl Pattern {
    /// Parses a pattern; returns `None` if `text` is an ordinary name.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if !text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
            return None;
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let piece = match byte {
                b'*' => Piece::Run,
                b'?' => Piece::Any,
                b'[' => match parse_set(after) {
                    Some((set, after_set)) => {
                        rest = after_set;
                        set
                    }
                    None => Piece::Byte(b'['),
                },
                _ => Piece::Byte(byte),
            };
            // Adjacent `*` are merged into one.
            if !(piece == Piece::Run && pieces.last() == Some(&Piece::Run)) {
                pieces.push(piece);
            }
        }
        Some(Self(pieces))
    }

    /// Returns whether the pattern matches `name`. Only a dot in the pattern matches a leading dot.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let is_hidden = name.first() == Some(&b'.') && self.0.first() != Some(&Piece::Byte(b'.'));
        !is_hidden && self.matches_including_hidden(name)
    }

    /// Returns whether the pattern matches `name`. A leading dot is an ordinary character.
    #[must_use]
    pub fn matches_including_hidden(&self, name: &[u8]) -> bool {
        let mut name_index = 0;
        let mut piece_index = 0;
        let mut last_run: Option<(usize, usize)> = None;
        while let Some(&byte) = name.get(name_index) {
            match self.0.get(piece_index) {
                Some(Piece::Run) => {
                    last_run = Some((piece_index, name_index));
                    piece_index += 1;
                }
                Some(piece) if piece.matches_byte(byte) => {
                    name_index += 1;
                    piece_index += 1;
                }
                _ => {
                    // Extends the match of the last `*` by one byte. Extending an earlier `*`
                    // cannot lead to a match.
                    let Some((run, run_end)) = last_run else { return false };
                    last_run = Some((run, run_end + 1));
                    name_index = run_end + 1;
                    piece_index = run + 1;
                }
            }
        }
        self.0.get(piece_index..).unwrap_or_default().iter().all(|piece| *piece == Piece::Run)
    }
}

impl Piece {
    fn matches_byte(&self, byte: u8) -> bool {
        match self {
            Self::Byte(wanted) => *wanted == byte,
            Self::Any => true,
            Self::Run => false,
            Self::Set { is_negated, ranges } => {
                ranges.iter().any(|&(low, high)| (low..=high).contains(&byte)) != *is_negated
            }
        }
    }
}

fn parse_set(text: &[u8]) -> Option<(Piece, &[u8])> {
    let (is_negated, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        rest = match rest {
            // A closing bracket in the first position is an ordinary character.
            [b']', after_set @ ..] if !ranges.is_empty() => {
                return Some((Piece::Set { is_negated, ranges }, after_set));
            }
            [low, b'-', high, more @ ..] if *high != b']' => {
                ranges.push((*low, *high));
                more
            }
            [one, more @ ..] => {
                ranges.push((*one, *one));
                more
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_the_intended_names() {
        for (pattern, name, is_match) in [
            ("*", "abc", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("*.t?t", "x.txt", true),
            ("[a-c]*", "bob", true),
            ("[!a-c]*", "bob", false),
            ("[]x]", "]", true),
            ("[x", "[x", true),
        ] {
            let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
            assert_eq!(pattern.matches(name.as_bytes()), is_match, "{pattern:?} {name}");
        }
        assert_eq!(Pattern::parse(b"plain"), None);
    }

    #[test]
    fn a_leading_dot_is_ordinary_if_hidden_names_are_included() {
        let pattern = Pattern::parse(b"*.tmp").unwrap();
        assert!(pattern.matches_including_hidden(b".a.tmp") && !pattern.matches(b".a.tmp"));
    }

    // attack row 89
    #[test]
    fn row_89_the_worst_pattern_costs_the_product_of_the_lengths() {
        let pattern = Pattern::parse(&b"*a".repeat(2000)).unwrap();
        for _ in 0..10 {
            assert!(!pattern.matches(&[b'a'; 255]));
        }
        // A `*` or `..` in a directory component matches nothing, and braces are ordinary
        // characters.
        assert!(!Pattern::parse(b"*/../*").unwrap().matches(b"x"));
        assert!(Pattern::parse(b"{a,b}*").unwrap().matches(b"{a,b}c"));
    }

    /// Returns whether `pattern` matches `name`, by the set of all positions in the pattern that
    /// the bytes of the name can reach.
    fn matches_by_positions(pattern: &Pattern, name: &[u8]) -> bool {
        let pieces = &pattern.0;
        let skip_runs = |mut position: usize| {
            let first = position;
            while pieces.get(position) == Some(&Piece::Run) {
                position += 1;
            }
            first..=position
        };
        let mut reached: BTreeSet<usize> = skip_runs(0).collect();
        for byte in name {
            let next = reached.iter().flat_map(|&position| match pieces.get(position) {
                Some(Piece::Run) => Some(position),
                Some(piece) => piece.matches_byte(*byte).then_some(position + 1),
                None => None,
            });
            reached = next.flat_map(skip_runs).collect();
        }
        reached.contains(&pieces.len())
    }

    proptest! {
        // attack row 90
        #[test]
        fn row_90_any_pattern_matches_the_names_that_its_set_of_positions_accepts(
            pattern in prop::collection::vec(
                prop_oneof![
                    3 => Just(b'*'),
                    3 => prop::sample::select(b"?[]-"),
                    4 => b'a'..=b'c',
                    1 => any::<u8>(),
                ],
                0..100
            ),
            name in prop::collection::vec(prop_oneof![9 => b'a'..=b'c', 1 => any::<u8>()], 0..200)
        ) {
            if let Some(pattern) = Pattern::parse(&pattern) {
                let is_match = pattern.matches_including_hidden(&name);
                prop_assert_eq!(is_match, matches_by_positions(&pattern, &name));
            }
        }
    }
}
