//! The keys by which somebody without RFC 2217 speaks to the console itself: ^E, c and a letter, as
//! conserver has them. All else goes to the line.

/// The key that begins: ^E.
const CONTROL_E: u8 = 5;

/// What somebody wants of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To write, whoever does now.
    TakeOver,
    /// To watch.
    Watch,
    /// To know who is here.
    Who,
    /// To see what the line has said last.
    Replay,
    /// A BREAK.
    Break,
    /// To leave.
    Leave,
    /// To know the keys.
    Help,
}

/// What is said to who asks for the keys.
pub(super) const HELP: &str = "^E c and: f write, s watch, w who is here, r what was said last, \
                               b BREAK, . leave, ^E the key itself";

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// For the line.
    Line(&'a [u8]),
    /// The beginning of a wish, perhaps.
    Held,
    /// A wish.
    Wish(Wish),
}

/// Where the keys stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Escape {
    #[default]
    Plain,
    /// ^E has come.
    Begun,
    /// ^E c has come.
    Called,
}

impl Escape {
    /// Takes the first key of `keys`, or the run of those that mean nothing here; moves `keys` past
    /// it. `None` at their end.
    pub(super) fn take<'a>(&mut self, keys: &mut &'a [u8]) -> Option<Key<'a>> {
        let (&first, rest) = keys.split_first()?;
        let all = *keys;
        if *self == Self::Plain && first != CONTROL_E {
            let run = all.iter().position(|key| *key == CONTROL_E).unwrap_or(all.len());
            let (run, rest) = all.split_at_checked(run)?;
            *keys = rest;
            return Some(Key::Line(run));
        }
        *keys = rest;
        let (next, key) = match (*self, first) {
            (Self::Plain, _) => (Self::Begun, Key::Held),
            (Self::Begun, b'c') => (Self::Called, Key::Held),
            (Self::Begun | Self::Called, CONTROL_E) => (Self::Plain, Key::Line(&[CONTROL_E])),
            // No wish: both keys are for the line.
            (Self::Begun, _) => {
                *keys = all;
                (Self::Plain, Key::Line(&[CONTROL_E]))
            }
            (Self::Called, letter) => (Self::Plain, Key::Wish(wish(letter))),
        };
        *self = next;
        Some(key)
    }
}

fn wish(letter: u8) -> Wish {
    match letter {
        b'f' => Wish::TakeOver,
        b's' => Wish::Watch,
        b'w' => Wish::Who,
        b'r' => Wish::Replay,
        b'b' => Wish::Break,
        b'.' => Wish::Leave,
        _ => Wish::Help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(keys: &[u8]) -> (Vec<u8>, Vec<Wish>) {
        let (mut escape, mut keys, mut line, mut wishes) =
            (Escape::default(), keys, Vec::new(), Vec::new());
        while let Some(key) = escape.take(&mut keys) {
            match key {
                Key::Line(run) => line.extend_from_slice(run),
                Key::Wish(wish) => wishes.push(wish),
                Key::Held => {}
            }
        }
        (line, wishes)
    }

    #[test]
    fn a_wish_stands_among_keys_for_the_line() {
        assert_eq!(taken(b"ab\x05cfcd"), (b"abcd".to_vec(), vec![Wish::TakeOver]));
        assert_eq!(taken(b"\x05cw\x05c."), (Vec::new(), vec![Wish::Who, Wish::Leave]));
    }

    #[test]
    fn control_e_without_a_wish_goes_to_the_line() {
        assert_eq!(taken(b"a\x05b"), (b"a\x05b".to_vec(), vec![]));
        assert_eq!(taken(b"\x05c\x05b"), (b"\x05b".to_vec(), vec![]));
        assert_eq!(taken(b"\x05\x05b"), (b"\x05b".to_vec(), vec![]));
    }

    proptest! {
        #[test]
        fn keys_without_control_e_all_go_to_the_line(keys in "[^\u{5}]*") {
            prop_assert_eq!(taken(keys.as_bytes()).0, keys.as_bytes());
        }

        #[test]
        fn any_keys_are_taken_to_their_end(keys: Vec<u8>) {
            prop_assert!(taken(&keys).0.len() <= keys.len());
        }
    }
}
