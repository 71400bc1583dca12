//! The codes of commands (RFC 854) by RFC name, and sets of option codes.

use core::fmt;

/// SE: ends a subnegotiation.
pub(super) const SE: u8 = 240;
/// SB: begins a subnegotiation.
pub(super) const SB: u8 = 250;
/// IAC, Interpret As Command: begins every command. A data byte of this value is doubled.
pub(super) const IAC: u8 = 255;

/// A single-byte command of RFC 854: every command except negotiation and subnegotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// EOF, end of file (RFC 1184).
    EndOfFile,
    /// SUSP, suspend the process (RFC 1184).
    Suspend,
    /// ABORT, abort the process (RFC 1184).
    Abort,
    /// EOR, end of record (RFC 885).
    EndOfRecord,
    /// NOP, no operation.
    NoOperation,
    /// DM, the data mark. It is always sent as a complete Synch, with the data mark as urgent data.
    DataMark,
    /// BRK, the break or attention key.
    Break,
    /// IP, interrupt the process.
    InterruptProcess,
    /// AO, abort output: the process continues, but its output is discarded.
    AbortOutput,
    /// AYT, are you there.
    AreYouThere,
    /// EC, erase the last character.
    EraseCharacter,
    /// EL, erase the line.
    EraseLine,
    /// GA, go ahead.
    GoAhead,
}

impl Command {
    /// Every command, in the order of the codes.
    pub const ALL: &'static [Self] = &[
        Self::EndOfFile,
        Self::Suspend,
        Self::Abort,
        Self::EndOfRecord,
        Self::NoOperation,
        Self::DataMark,
        Self::Break,
        Self::InterruptProcess,
        Self::AbortOutput,
        Self::AreYouThere,
        Self::EraseCharacter,
        Self::EraseLine,
        Self::GoAhead,
    ];

    /// Returns the byte that follows IAC.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::EndOfFile => 236,
            Self::Suspend => 237,
            Self::Abort => 238,
            Self::EndOfRecord => 239,
            Self::NoOperation => 241,
            Self::DataMark => 242,
            Self::Break => 243,
            Self::InterruptProcess => 244,
            Self::AbortOutput => 245,
            Self::AreYouThere => 246,
            Self::EraseCharacter => 247,
            Self::EraseLine => 248,
            Self::GoAhead => 249,
        }
    }

    /// Returns the command with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|command| command.code() == code)
    }

    /// Returns the abbreviation of the command in its RFC, such as `AYT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndOfFile => "EOF",
            Self::Suspend => "SUSP",
            Self::Abort => "ABORT",
            Self::EndOfRecord => "EOR",
            Self::NoOperation => "NOP",
            Self::DataMark => "DM",
            Self::Break => "BRK",
            Self::InterruptProcess => "IP",
            Self::AbortOutput => "AO",
            Self::AreYouThere => "AYT",
            Self::EraseCharacter => "EC",
            Self::EraseLine => "EL",
            Self::GoAhead => "GA",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One end of the connection. Every option exists once for each end. RFC 1143 calls the local side
/// "us" and the remote side "him"; the displayed text uses these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The local end performs the option: it sends WILL and WONT, the peer sends DO and DONT.
    Local,
    /// The peer performs the option: it sends WILL and WONT, the local end sends DO and DONT.
    Remote,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "us",
            Self::Remote => "him",
        })
    }
}

/// One of the four negotiation commands: WILL, WONT, DO and DONT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The sender performs the option, or offers to.
    Will,
    /// The sender does not perform the option.
    Wont,
    /// The receiver is asked or permitted to perform the option.
    Do,
    /// The receiver is asked not to perform the option.
    Dont,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Will => "WILL",
            Self::Wont => "WONT",
            Self::Do => "DO",
            Self::Dont => "DONT",
        })
    }
}

impl Verb {
    /// Returns the verb that the local end sends to enable or disable an option of `side`.
    pub(super) const fn outgoing(side: Side, enable: bool) -> Self {
        match (side, enable) {
            (Side::Local, true) => Self::Will,
            (Side::Local, false) => Self::Wont,
            (Side::Remote, true) => Self::Do,
            (Side::Remote, false) => Self::Dont,
        }
    }

    /// Returns the side that a received verb refers to, and whether the option is to be enabled.
    pub(super) const fn side_and_enable(self) -> (Side, bool) {
        match self {
            Self::Will => (Side::Remote, true),
            Self::Wont => (Side::Remote, false),
            Self::Do => (Side::Local, true),
            Self::Dont => (Side::Local, false),
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Will => 251,
            Self::Wont => 252,
            Self::Do => 253,
            Self::Dont => 254,
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            251 => Some(Self::Will),
            252 => Some(Self::Wont),
            253 => Some(Self::Do),
            254 => Some(Self::Dont),
            _ => None,
        }
    }
}

/// The code of an option. Any value is valid, including codes of unknown options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionCode(pub u8);

/// A set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionSet([u128; 2]);

impl OptionSet {
    /// The empty set.
    pub const NONE: Self = Self([0; 2]);

    /// Returns the set of `options`.
    #[must_use]
    pub const fn of(mut options: &[OptionCode]) -> Self {
        let mut set = Self::NONE;
        while let Some((first, rest)) = options.split_first() {
            set = set.with(*first);
            options = rest;
        }
        set
    }

    /// Returns the set with `option` added.
    #[must_use]
    pub const fn with(self, option: OptionCode) -> Self {
        let Self([low, high]) = self;
        let (low_bit, high_bit) = Self::bits(option);
        Self([low | low_bit, high | high_bit])
    }

    /// Returns the set with `option` removed.
    #[must_use]
    pub const fn without(self, option: OptionCode) -> Self {
        let Self([low, high]) = self;
        let (low_bit, high_bit) = Self::bits(option);
        Self([low & !low_bit, high & !high_bit])
    }

    /// Returns whether the set contains `option`.
    #[must_use]
    pub const fn contains(self, option: OptionCode) -> bool {
        let Self([low, high]) = self;
        let (low_bit, high_bit) = Self::bits(option);
        low & low_bit != 0 || high & high_bit != 0
    }

    const fn bits(option: OptionCode) -> (u128, u128) {
        let bit = 1 << (option.0 & 127);
        if option.0 < 128 { (bit, 0) } else { (0, bit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_code_is_a_command_or_a_verb_or_neither_and_converts_both_ways(code: u8) {
            let command = Command::from_code(code);
            let verb = Verb::from_code(code);
            prop_assert!(command.is_none() || verb.is_none());
            prop_assert!(command.is_none_or(|command| command.code() == code));
            prop_assert!(verb.is_none_or(|verb| verb.code() == code));
        }
    }

    proptest! {
        #[test]
        fn a_set_contains_the_added_options_that_were_not_removed(put: u8, taken: u8, other: u8) {
            let set = OptionSet::of(&[OptionCode(put), OptionCode(taken)]);
            let set = set.without(OptionCode(taken));
            prop_assert_eq!(set.contains(OptionCode(put)), put != taken);
            prop_assert!(!set.contains(OptionCode(other)) || other == put);
        }
    }

    #[test]
    fn an_option_without_a_name_is_displayed_as_its_number() {
        let displayed =
            (std::format!("{:>6}|", OptionCode(199)), std::format!("{}", OptionCode::NAWS));
        assert_eq!(displayed, ("   199|".into(), "NAWS".into()));
    }
}
