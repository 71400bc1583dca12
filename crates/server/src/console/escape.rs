//! Escape keys of console clients without RFC 2217: ^E, c and a letter, as in conserver. All other
//! keys go to the line.

/// First key of an escape sequence: ^E.
const CONTROL_E: u8 = 5;

/// Command given by an escape sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapeCommand {
    /// Take write access from the current holder.
    TakeOver,
    /// Watch only.
    Watch,
    /// List the attached clients.
    ListClients,
    /// Display recent output of the line.
    Replay,
    /// Send a BREAK.
    Break,
    /// End the session.
    Leave,
    /// List the escape keys.
    Help,
}

/// Reply to a request for the list of keys.
pub(super) const HELP: &str = "^E c, then: f take write access, s watch, w list clients, \
                               r replay output, b BREAK, . leave, ^E send ^E";

/// Interpretation of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConsoleKey<'a> {
    /// Input for the line.
    Line(&'a [u8]),
    /// Part of a possible escape sequence.
    Incomplete,
    /// Complete escape sequence.
    EscapeCommand(EscapeCommand),
}

/// State of the escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Escape {
    #[default]
    Plain,
    /// ^E was received.
    AfterControlE,
    /// ^E c was received.
    AfterControlEC,
}

impl Escape {
    /// Removes and interprets the next keys: one key of an escape sequence, or all keys before the
    /// next ^E. Returns `None` at the end of `keys`.
    pub(super) fn take<'a>(&mut self, keys: &mut &'a [u8]) -> Option<ConsoleKey<'a>> {
        let (&first, rest) = keys.split_first()?;
        let all = *keys;
        if *self == Self::Plain && first != CONTROL_E {
            let line_len = all.iter().position(|key| *key == CONTROL_E).unwrap_or(all.len());
            let (line_keys, rest) = all.split_at_checked(line_len)?;
            *keys = rest;
            return Some(ConsoleKey::Line(line_keys));
        }
        *keys = rest;
        let (next, key) = match (*self, first) {
            (Self::Plain, _) => (Self::AfterControlE, ConsoleKey::Incomplete),
            (Self::AfterControlE, b'c') => (Self::AfterControlEC, ConsoleKey::Incomplete),
            (Self::AfterControlE | Self::AfterControlEC, CONTROL_E) => {
                (Self::Plain, ConsoleKey::Line(&[CONTROL_E]))
            }
            // Not an escape sequence: ^E and the key after it are for the line.
            (Self::AfterControlE, _) => {
                *keys = all;
                (Self::Plain, ConsoleKey::Line(&[CONTROL_E]))
            }
            (Self::AfterControlEC, letter) => {
                (Self::Plain, ConsoleKey::EscapeCommand(escape_command(letter)))
            }
        };
        *self = next;
        Some(key)
    }
}

fn escape_command(letter: u8) -> EscapeCommand {
    match letter {
        b'f' => EscapeCommand::TakeOver,
        b's' => EscapeCommand::Watch,
        b'w' => EscapeCommand::ListClients,
        b'r' => EscapeCommand::Replay,
        b'b' => EscapeCommand::Break,
        b'.' => EscapeCommand::Leave,
        _ => EscapeCommand::Help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(keys: &[u8]) -> (Vec<u8>, Vec<EscapeCommand>) {
        let mut escape = Escape::default();
        let mut keys = keys;
        let mut line = Vec::new();
        let mut commands = Vec::new();
        while let Some(key) = escape.take(&mut keys) {
            match key {
                ConsoleKey::Line(keys) => line.extend_from_slice(keys),
                ConsoleKey::EscapeCommand(command) => commands.push(command),
                ConsoleKey::Incomplete => {}
            }
        }
        (line, commands)
    }

    #[test]
    fn escape_sequences_are_recognized_among_other_keys() {
        assert_eq!(parse(b"ab\x05cfcd"), (b"abcd".to_vec(), vec![EscapeCommand::TakeOver]));
        assert_eq!(
            parse(b"\x05cw\x05c."),
            (Vec::new(), vec![EscapeCommand::ListClients, EscapeCommand::Leave])
        );
    }

    #[test]
    fn control_e_without_a_command_goes_to_the_line() {
        assert_eq!(parse(b"a\x05b"), (b"a\x05b".to_vec(), vec![]));
        assert_eq!(parse(b"\x05c\x05b"), (b"\x05b".to_vec(), vec![]));
        assert_eq!(parse(b"\x05\x05b"), (b"\x05b".to_vec(), vec![]));
    }

    proptest! {
        #[test]
        fn all_keys_go_to_the_line_without_control_e(keys in "[^\u{5}]*") {
            prop_assert_eq!(parse(keys.as_bytes()).0, keys.as_bytes());
        }

        #[test]
        fn any_keys_are_consumed_to_their_end(keys: Vec<u8>) {
            prop_assert!(parse(&keys).0.len() <= keys.len());
        }
    }
}
