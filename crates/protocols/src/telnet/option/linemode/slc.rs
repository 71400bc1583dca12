//! SLC, Set Local Characters (RFC 1184 §2.4): the mapping of characters to functions.
//!
//! Each end has a level and a value for each function. The level is NOSUPPORT (no such function),
//! CANTCHANGE (this value and no other), VALUE (this value, which may be changed) or DEFAULT (the
//! default of the other end). Levels and values are sent as triplets of function, modifiers and
//! value. An end that receives a triplet which differs from its own either accepts it and repeats
//! it with ACK, or sends its own choice instead. A triplet that is already in effect, or that is an
//! acknowledgment at the current level, is not answered, so the exchange terminates (§5.5).
//!
//! Long lists have crashed Telnet implementations, because the answer is as long as the list. This
//! implementation answers each function at most once per reply, so no reply has more triplets than
//! the number of function codes.

use alloc::vec::Vec;
use core::fmt;

/// Code of an SLC subnegotiation.
pub(super) const SLC: u8 = 3;

/// A function that can be assigned to a character, such as erasing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlcFunction(u8);

/// Declares the functions by the names of the RFC.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)+) => {
        impl SlcFunction {
            $($(#[$doc])* pub const $name: Self = Self($code);)+

            /// Returns the name in the RFC without the prefix `SLC_`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($code => Some($text),)+ _ => None }
            }
        }
    };
}

functions! {
    /// Send a Synch.
    SYNCH = 1, "SYNCH";
    /// Send BRK.
    BRK = 2, "BRK";
    /// Send IP.
    IP = 3, "IP";
    /// Send AO.
    AO = 4, "AO";
    /// Send AYT.
    AYT = 5, "AYT";
    /// Send EOR.
    EOR = 6, "EOR";
    /// Send ABORT.
    ABORT = 7, "ABORT";
    /// Send EOF.
    EOF = 8, "EOF";
    /// Send SUSP.
    SUSP = 9, "SUSP";
    /// Erase the last character.
    EC = 10, "EC";
    /// Erase the line.
    EL = 11, "EL";
    /// Erase the last word.
    EW = 12, "EW";
    /// Display the line again.
    RP = 13, "RP";
    /// Insert the next character literally.
    LNEXT = 14, "LNEXT";
    /// Resume the output.
    XON = 15, "XON";
    /// Stop the output.
    XOFF = 16, "XOFF";
    /// Send the pending input.
    FORW1 = 17, "FORW1";
    /// Send the pending input.
    FORW2 = 18, "FORW2";
    /// Move one character to the left.
    MCL = 19, "MCL";
    /// Move one character to the right.
    MCR = 20, "MCR";
    /// Move one word to the left.
    MCWL = 21, "MCWL";
    /// Move one word to the right.
    MCWR = 22, "MCWR";
    /// Move to the start of the line.
    MCBOL = 23, "MCBOL";
    /// Move to the end of the line.
    MCEOL = 24, "MCEOL";
    /// Insert typed characters.
    INSRT = 25, "INSRT";
    /// Overwrite existing characters with typed characters.
    OVER = 26, "OVER";
    /// Erase the character to the right.
    ECR = 27, "ECR";
    /// Erase the word to the right.
    EWR = 28, "EWR";
    /// Erase to the start of the line.
    EBOL = 29, "EBOL";
    /// Erase to the end of the line.
    EEOL = 30, "EEOL";
}

/// Function 0, whose triplet applies to all functions.
const ALL: SlcFunction = SlcFunction(0);

/// Number of functions.
const FUNCTIONS: usize = 30;

impl SlcFunction {
    fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1).filter(|&index| index < FUNCTIONS)
    }

    fn from_index(index: usize) -> Self {
        Self(u8::try_from(index + 1).unwrap_or(u8::MAX))
    }
}

impl fmt::Display for SlcFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

/// Level of support for a function, and whether its character can be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlcLevel {
    /// NOSUPPORT: the function is not available.
    #[default]
    NoSupport,
    /// CANTCHANGE: the character is fixed.
    CantChange,
    /// VALUE: the character may be changed.
    Value,
    /// DEFAULT: the other end uses its own default.
    Default,
}

/// The character assigned to a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialCharacter {
    /// Level of support for the function.
    pub level: SlcLevel,
    /// Whether the character discards unread input.
    pub flushes_input: bool,
    /// Whether the character discards output that was not displayed yet.
    pub flushes_output: bool,
    /// The character; 255 disables the function.
    pub value: u8,
}

/// Value that assigns no character to the function (`_POSIX_VDISABLE`).
const DISABLED: u8 = 255;

impl SpecialCharacter {
    /// Creates a character that may be changed.
    #[must_use]
    pub const fn variable(value: u8) -> Self {
        Self { level: SlcLevel::Value, flushes_input: false, flushes_output: false, value }
    }

    /// Returns the character, if the function has one.
    #[must_use]
    pub fn character(self) -> Option<u8> {
        let has_character = self.level != SlcLevel::NoSupport && self.value != DISABLED;
        has_character.then_some(self.value)
    }
}

const LEVEL: u8 = 3;
const ACK: u8 = 128;
const FLUSH_IN: u8 = 64;
const FLUSH_OUT: u8 = 32;

/// One triplet of an SLC list: function, modifiers and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::telnet) struct Triplet {
    function: SlcFunction,
    is_answer: bool,
    character: SpecialCharacter,
}

impl Triplet {
    fn parse([function, modifiers, value]: [u8; 3]) -> Self {
        let level = match modifiers & LEVEL {
            0 => SlcLevel::NoSupport,
            1 => SlcLevel::CantChange,
            2 => SlcLevel::Value,
            _ => SlcLevel::Default,
        };
        let character = SpecialCharacter {
            level,
            flushes_input: modifiers & FLUSH_IN != 0,
            flushes_output: modifiers & FLUSH_OUT != 0,
            value,
        };
        Self { function: SlcFunction(function), is_answer: modifiers & ACK != 0, character }
    }

    fn bytes(self) -> [u8; 3] {
        let character = self.character;
        let level = match character.level {
            SlcLevel::NoSupport => 0,
            SlcLevel::CantChange => 1,
            SlcLevel::Value => 2,
            SlcLevel::Default => 3,
        };
        let modifiers = level
            | if self.is_answer { ACK } else { 0 }
            | if character.flushes_input { FLUSH_IN } else { 0 }
            | if character.flushes_output { FLUSH_OUT } else { 0 };
        [self.function.0, modifiers, character.value]
    }
}

impl fmt::Display for Triplet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.character.level {
            SlcLevel::NoSupport => "NOSUPPORT",
            SlcLevel::CantChange => "CANTCHANGE",
            SlcLevel::Value => "VALUE",
            SlcLevel::Default => "DEFAULT",
        };
        let ack = if self.is_answer { "|ACK" } else { "" };
        write!(f, "{} {level}{ack} {};", self.function, self.character.value)
    }
}

pub(super) fn parse(list: &[u8]) -> Option<Vec<Triplet>> {
    let (triplets, rest) = list.as_chunks::<3>();
    rest.is_empty().then(|| triplets.iter().copied().map(Triplet::parse).collect())
}

/// Returns the content of an SLC subnegotiation.
pub(super) fn content(triplets: &[Triplet]) -> Vec<u8> {
    let bytes = triplets.iter().flat_map(|triplet| triplet.bytes());
    core::iter::once(SLC).chain(bytes).collect()
}

/// The table of special characters in effect.
#[derive(Clone, Debug)]
pub struct SlcTable {
    current: [SpecialCharacter; FUNCTIONS],
    defaults: [SpecialCharacter; FUNCTIONS],
}

/// Default characters of the functions, as on a Unix terminal.
const DEFAULT_CHARACTERS: [(SlcFunction, u8); 11] = [
    (SlcFunction::IP, 0x03),
    (SlcFunction::AO, 0x0f),
    (SlcFunction::ABORT, 0x1c),
    (SlcFunction::EOF, 0x04),
    (SlcFunction::SUSP, 0x1a),
    (SlcFunction::EC, 0x7f),
    (SlcFunction::EL, 0x15),
    (SlcFunction::EW, 0x17),
    (SlcFunction::RP, 0x12),
    (SlcFunction::LNEXT, 0x16),
    (SlcFunction::XON, 0x11),
];

impl Default for SlcTable {
    fn default() -> Self {
        let mut defaults = [SpecialCharacter::default(); FUNCTIONS];
        let values = DEFAULT_CHARACTERS.iter().copied().chain([(SlcFunction::XOFF, 0x13)]);
        // These functions are supported but have no default character.
        let functions_without_default =
            [SlcFunction::SYNCH, SlcFunction::BRK, SlcFunction::AYT, SlcFunction::EOR];
        let functions_without_default =
            functions_without_default.into_iter().chain([SlcFunction::FORW1, SlcFunction::FORW2]);
        for (function, value) in
            values.chain(functions_without_default.map(|function| (function, DISABLED)))
        {
            if let Some(place) = function.index().and_then(|index| defaults.get_mut(index)) {
                *place = SpecialCharacter::variable(value);
                place.flushes_input = matches!(function, SlcFunction::IP | SlcFunction::ABORT);
                place.flushes_output = place.flushes_input || function == SlcFunction::AO;
            }
        }
        Self { current: defaults, defaults }
    }
}

impl SlcTable {
    /// Returns the character of a function.
    #[must_use]
    pub fn get(&self, function: SlcFunction) -> SpecialCharacter {
        let character = function.index().and_then(|index| self.current.get(index));
        character.copied().unwrap_or_default()
    }

    /// Returns the triplets of all functions.
    pub(super) fn all_triplets(&self) -> Vec<Triplet> {
        let triplet = |(index, character): (usize, &SpecialCharacter)| {
            let function = SlcFunction::from_index(index);
            Triplet { function, is_answer: false, character: *character }
        };
        self.current.iter().enumerate().map(triplet).collect()
    }

    /// Changes the character of a function, and returns the triplet to send to the other end.
    pub(super) fn set(&mut self, function: SlcFunction, character: SpecialCharacter) -> Triplet {
        let entries = function
            .index()
            .and_then(|index| self.current.get_mut(index).zip(self.defaults.get_mut(index)));
        // DEFAULT requests the default of the other end, so the local table does not change yet.
        if let Some((current, defaults)) = entries
            && character.level != SlcLevel::Default
        {
            *current = character;
            *defaults = character;
        }
        Triplet { function, is_answer: false, character }
    }

    /// Processes a list. Returns the answer, and whether anything has changed.
    pub(super) fn receive(&mut self, triplets: &[Triplet]) -> (Vec<Triplet>, bool) {
        let mut answers = Vec::<Triplet>::new();
        let mut has_changed = false;
        for triplet in triplets {
            let is_answered = |function| answers.iter().any(|it| it.function == function);
            if is_answered(triplet.function) {
                continue;
            }
            let character_before = self.get(triplet.function);
            if triplet.function == ALL {
                let list = self.on_request(triplet.character.level);
                has_changed |= triplet.character.level == SlcLevel::Default;
                let list: Vec<_> =
                    list.into_iter().filter(|it| !is_answered(it.function)).collect();
                answers.extend(list);
            } else if let Some(answer) = self.on_triplet(*triplet) {
                answers.push(answer);
            }
            has_changed |= self.get(triplet.function) != character_before;
        }
        (answers, has_changed)
    }

    /// Function 0 requests the whole table (RFC 1184 §2.4); at level DEFAULT it first resets the
    /// table.
    fn on_request(&mut self, level: SlcLevel) -> Vec<Triplet> {
        match level {
            SlcLevel::Default => self.current = self.defaults,
            SlcLevel::Value => {}
            SlcLevel::NoSupport | SlcLevel::CantChange => return Vec::new(),
        }
        self.all_triplets()
    }

    /// Processes one triplet. Returns the answer, if one is due.
    fn on_triplet(&mut self, theirs: Triplet) -> Option<Triplet> {
        let Triplet { function, is_answer, character } = theirs;
        let unsupported = SpecialCharacter::default();
        let entries = function
            .index()
            .and_then(|index| self.current.get_mut(index).zip(self.defaults.get(index).copied()));
        let Some((current, defaults)) = entries else {
            // RFC 1184 §2.4: a triplet of an unknown function is answered with NOSUPPORT, unless
            // the triplet itself is NOSUPPORT.
            let needs_answer = character.level != SlcLevel::NoSupport && !is_answer;
            return needs_answer.then_some(Triplet {
                function,
                is_answer: false,
                character: unsupported,
            });
        };
        let is_same_level = character.level == current.level;
        if is_same_level && (is_answer || character.value == current.value) {
            return None;
        }
        let accept = |current: &mut SpecialCharacter| {
            *current = character;
            Some(Triplet { function, is_answer: true, character })
        };
        match (character.level, defaults.level) {
            // The other end requests the default of the local end.
            (SlcLevel::Default, _) => {
                *current = defaults;
                Some(Triplet { function, is_answer: false, character: defaults })
            }
            (SlcLevel::NoSupport, _) => accept(current),
            // The ends have different fixed values, or the local end does not support the function.
            (SlcLevel::CantChange, SlcLevel::CantChange) | (_, SlcLevel::NoSupport) => {
                if is_answer {
                    return None;
                }
                *current = unsupported;
                Some(Triplet { function, is_answer: false, character: unsupported })
            }
            (SlcLevel::Value, SlcLevel::CantChange) if is_answer => None,
            (SlcLevel::Value, SlcLevel::CantChange) => {
                *current = defaults;
                Some(Triplet { function, is_answer: false, character: defaults })
            }
            (SlcLevel::CantChange | SlcLevel::Value, _) => accept(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use proptest::prelude::*;

    fn triplet(function: SlcFunction, level: SlcLevel, value: u8) -> Triplet {
        let character = SpecialCharacter { level, ..SpecialCharacter::variable(value) };
        Triplet { function, is_answer: false, character }
    }

    fn any_triplet() -> impl Strategy<Value = Triplet> {
        any::<[u8; 3]>().prop_map(|[function, modifiers, value]| {
            Triplet::parse([function % 40, modifiers, value % 4])
        })
    }

    proptest! {
        #[test]
        fn emitted_triplets_are_parsed_back_equal(
            bytes in prop::collection::vec(any::<[u8; 3]>(), 0..60)
        ) {
            let bytes: Vec<u8> = bytes.iter().flatten().map(|byte| byte & !0x1c).collect();
            prop_assert_eq!(&content(&parse(&bytes).unwrap())[1..], bytes);
        }

        #[test]
        fn two_tables_with_any_requests_reach_a_stable_state(
            changes in prop::collection::vec((any::<bool>(), any_triplet()), 0..40)
        ) {
            let mut ends = [SlcTable::default(), SlcTable::default()];
            for (is_first, wish) in changes {
                let (ours, theirs) = if is_first { (0, 1) } else { (1, 0) };
                let change = ends[ours].set(wish.function, wish.character);
                let mut message = Vec::from([change]);
                let mut receiver = theirs;
                for round in 0.. {
                    message = ends[receiver].receive(&message).0;
                    if message.is_empty() {
                        break;
                    }
                    prop_assert!(round < 6, "{:?} without end", message);
                    receiver = 1 - receiver;
                }
            }
        }

        #[test]
        fn a_reply_has_each_function_at_most_once(
            triplets in prop::collection::vec(any_triplet(), 0..200)
        ) {
            let (answers, _) = SlcTable::default().receive(&triplets);
            let mut codes: Vec<_> = answers.iter().map(|answer| answer.function).collect();
            codes.sort();
            prop_assert!(codes.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }

    #[test]
    fn an_acceptable_value_is_accepted_and_acknowledged() {
        let mut table = SlcTable::default();
        let theirs = triplet(SlcFunction::EC, SlcLevel::Value, 8);
        let (answers, has_changed) = table.receive(&[theirs]);
        assert_eq!(
            (answers, has_changed),
            (Vec::from([Triplet { is_answer: true, ..theirs }]), true)
        );
        assert_eq!(table.get(SlcFunction::EC).character(), Some(8));
        assert_eq!(table.receive(&[theirs]), (Vec::new(), false));
    }

    #[test]
    fn an_unknown_function_is_reported_as_unsupported_once() {
        let mut table = SlcTable::default();
        let unknown_request = triplet(SlcFunction(200), SlcLevel::Value, 8);
        let unsupported_reply = triplet(SlcFunction(200), SlcLevel::NoSupport, 0);
        assert_eq!(table.receive(&[unknown_request, unknown_request]).0, [unsupported_reply]);
        assert_eq!(table.receive(&[unsupported_reply]).0, []);
    }

    #[test]
    fn the_whole_table_is_sent_on_request_and_can_be_reset() {
        let mut table = SlcTable::default();
        table.receive(&[triplet(SlcFunction::EC, SlcLevel::Value, 8)]);
        let (answers, has_changed) = table.receive(&[triplet(ALL, SlcLevel::Value, 0)]);
        assert!(answers.iter().map(|answer| answer.function.0).eq(1..=30));
        assert!(!has_changed);
        table.receive(&[triplet(ALL, SlcLevel::Default, 0)]);
        assert_eq!(table.get(SlcFunction::EC).character(), Some(0x7f));
    }

    #[test]
    fn a_function_that_neither_end_can_change_is_unsupported() {
        let mut table = SlcTable::default();
        let ours =
            SpecialCharacter { level: SlcLevel::CantChange, ..SpecialCharacter::variable(1) };
        table.set(SlcFunction::EC, ours);
        let (answers, _) = table.receive(&[triplet(SlcFunction::EC, SlcLevel::CantChange, 2)]);
        assert_eq!(answers, [triplet(SlcFunction::EC, SlcLevel::NoSupport, 0)]);
    }

    #[test]
    fn an_answer_is_displayed_with_ack() {
        let request = triplet(SlcFunction::XON, SlcLevel::Value, 17);
        let answer = Triplet { is_answer: true, ..request };
        let [request, answer] = [request, answer].map(|it| alloc::format!("{it}"));
        assert!(request.contains(" VALUE 17;"), "{request}");
        assert!(answer.contains(" VALUE|ACK 17;"), "{answer}");
    }

    #[test]
    fn flow_is_controlled_by_dc1_and_dc3() {
        let table = SlcTable::default();
        let characters = [SlcFunction::XON, SlcFunction::XOFF].map(|it| table.get(it).value);
        assert_eq!(characters, [0x11, 0x13]);
    }

    #[test]
    fn the_request_for_the_defaults_changes_the_table_and_that_for_the_values_does_not() {
        let has_changed = |level| SlcTable::default().receive(&[triplet(ALL, level, 0)]).1;
        assert!(has_changed(SlcLevel::Default) && !has_changed(SlcLevel::Value));
    }

    #[test]
    fn by_default_an_interrupt_flushes_both_directions_and_abort_output_only_the_output() {
        let flushes = [SlcFunction::IP, SlcFunction::ABORT, SlcFunction::AO, SlcFunction::EC]
            .map(|function| SlcTable::default().get(function))
            .map(|character| (character.flushes_input, character.flushes_output));
        assert_eq!(flushes, [(true, true), (true, true), (false, true), (false, false)]);
    }

    /// Receives a triplet of value 1 or 2 while the character has the value 1, and returns the
    /// answer and the character in effect.
    fn step(ours: SlcLevel, theirs: Triplet) -> String {
        let mut table = SlcTable::default();
        let character = SpecialCharacter { level: ours, ..SpecialCharacter::variable(1) };
        table.set(SlcFunction::EC, character);
        let (answers, has_changed) = table.receive(&[theirs]);
        let answer = answers.first().map_or("-".into(), |answer| format!("{answer}"));
        let after = table.get(SlcFunction::EC);
        assert_eq!(has_changed, after != character);
        format!("{ours:?} {theirs} -> {answer} now {:?} {}", after.level, after.value)
    }

    #[test]
    fn the_answer_to_a_triplet_is_that_of_the_table() {
        let levels =
            [SlcLevel::NoSupport, SlcLevel::CantChange, SlcLevel::Value, SlcLevel::Default];
        let theirs = levels.into_iter().flat_map(|level| {
            [(1, false), (2, false), (2, true)].map(|(value, is_answer)| Triplet {
                is_answer,
                ..triplet(SlcFunction::EC, level, value)
            })
        });
        let lines: Vec<_> = levels[..3]
            .iter()
            .flat_map(|ours| theirs.clone().map(|theirs| step(*ours, theirs)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        NoSupport EC NOSUPPORT 1; -> - now NoSupport 1
        NoSupport EC NOSUPPORT 2; -> EC NOSUPPORT|ACK 2; now NoSupport 2
        NoSupport EC NOSUPPORT|ACK 2; -> - now NoSupport 1
        NoSupport EC CANTCHANGE 1; -> EC NOSUPPORT 0; now NoSupport 0
        NoSupport EC CANTCHANGE 2; -> EC NOSUPPORT 0; now NoSupport 0
        NoSupport EC CANTCHANGE|ACK 2; -> - now NoSupport 1
        NoSupport EC VALUE 1; -> EC NOSUPPORT 0; now NoSupport 0
        NoSupport EC VALUE 2; -> EC NOSUPPORT 0; now NoSupport 0
        NoSupport EC VALUE|ACK 2; -> - now NoSupport 1
        NoSupport EC DEFAULT 1; -> EC NOSUPPORT 1; now NoSupport 1
        NoSupport EC DEFAULT 2; -> EC NOSUPPORT 1; now NoSupport 1
        NoSupport EC DEFAULT|ACK 2; -> EC NOSUPPORT 1; now NoSupport 1
        CantChange EC NOSUPPORT 1; -> EC NOSUPPORT|ACK 1; now NoSupport 1
        CantChange EC NOSUPPORT 2; -> EC NOSUPPORT|ACK 2; now NoSupport 2
        CantChange EC NOSUPPORT|ACK 2; -> EC NOSUPPORT|ACK 2; now NoSupport 2
        CantChange EC CANTCHANGE 1; -> - now CantChange 1
        CantChange EC CANTCHANGE 2; -> EC NOSUPPORT 0; now NoSupport 0
        CantChange EC CANTCHANGE|ACK 2; -> - now CantChange 1
        CantChange EC VALUE 1; -> EC CANTCHANGE 1; now CantChange 1
        CantChange EC VALUE 2; -> EC CANTCHANGE 1; now CantChange 1
        CantChange EC VALUE|ACK 2; -> - now CantChange 1
        CantChange EC DEFAULT 1; -> EC CANTCHANGE 1; now CantChange 1
        CantChange EC DEFAULT 2; -> EC CANTCHANGE 1; now CantChange 1
        CantChange EC DEFAULT|ACK 2; -> EC CANTCHANGE 1; now CantChange 1
        Value EC NOSUPPORT 1; -> EC NOSUPPORT|ACK 1; now NoSupport 1
        Value EC NOSUPPORT 2; -> EC NOSUPPORT|ACK 2; now NoSupport 2
        Value EC NOSUPPORT|ACK 2; -> EC NOSUPPORT|ACK 2; now NoSupport 2
        Value EC CANTCHANGE 1; -> EC CANTCHANGE|ACK 1; now CantChange 1
        Value EC CANTCHANGE 2; -> EC CANTCHANGE|ACK 2; now CantChange 2
        Value EC CANTCHANGE|ACK 2; -> EC CANTCHANGE|ACK 2; now CantChange 2
        Value EC VALUE 1; -> - now Value 1
        Value EC VALUE 2; -> EC VALUE|ACK 2; now Value 2
        Value EC VALUE|ACK 2; -> - now Value 1
        Value EC DEFAULT 1; -> EC VALUE 1; now Value 1
        Value EC DEFAULT 2; -> EC VALUE 1; now Value 1
        Value EC DEFAULT|ACK 2; -> EC VALUE 1; now Value 1
        ");
    }
}
