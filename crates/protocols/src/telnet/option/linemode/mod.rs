//! LINEMODE (RFC 1184): the user's end edits lines, so that the server receives whole lines.
//!
//! The server requests the option and sets the MODE: whether lines are edited (EDIT), whether
//! signal characters become commands (TRAPSIG), and how tabs (SOFT_TAB) and control characters
//! (LIT_ECHO) are displayed. The user answers a new mode by repeating it with MODE_ACK. SLC (`slc`)
//! negotiates the character of each function. With FORWARDMASK the server may specify characters
//! besides line ends at which pending input is sent; the user may refuse this request.
//!
//! This module negotiates and stores the mode, the characters and the mask. The caller does the
//! editing.

mod mode;
pub(in crate::telnet) mod slc;

pub use mode::LinemodeMode;
pub use slc::{SlcFunction, SlcLevel, SlcTable, SpecialCharacter};

use crate::telnet::command::{Command, OptionCode, Side, Verb};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, LinemodeEvent, Settings};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use slc::{SLC, Triplet};

const MODE: u8 = 1;
const FORWARDMASK: u8 = 2;

/// Length in bytes of a mask with one bit for every character.
const MASK_BYTES: usize = 32;

impl OptionCode {
    /// LINEMODE (RFC 1184): the user's side edits lines.
    pub const LINEMODE: Self = Self(34);
}

pub(in crate::telnet::option) const DEFINITION: Definition = Definition {
    // RFC 1184: only a server that wants the user to edit lines requests the option.
    initiator: Role::Server,
    // The maximum is one triplet for every possible function code.
    content_max_bytes: 1 + 3 * 256,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::LINEMODE, Role::User)
};

/// A subnegotiation of LINEMODE.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Mode { mode: LinemodeMode, is_answer: bool },
    ForwardMask(Verb, Vec<u8>),
    Slc(Vec<Triplet>),
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [MODE, bits] => {
                let mode = LinemodeMode(bits & LinemodeMode::KNOWN);
                Some(Self::Mode { mode, is_answer: bits & LinemodeMode::ACK != 0 })
            }
            [SLC, triplets @ ..] => slc::parse(triplets).map(Self::Slc),
            [verb, FORWARDMASK, mask @ ..] if mask.len() <= MASK_BYTES => {
                let verb = Verb::from_code(*verb)?;
                (mask.is_empty() || verb == Verb::Do)
                    .then(|| Self::ForwardMask(verb, mask.to_vec()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode { mode, is_answer: false } => write!(f, "MODE {mode}"),
            Self::Mode { mode, is_answer: true } => write!(f, "MODE {mode}|MODE_ACK"),
            Self::ForwardMask(verb, mask) if mask.is_empty() => write!(f, "{verb} FORWARDMASK"),
            Self::ForwardMask(verb, mask) => {
                let bits: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                write!(f, "{verb} FORWARDMASK of {bits} characters")
            }
            Self::Slc(triplets) => {
                f.write_str("SLC")?;
                triplets.iter().try_for_each(|triplet| write!(f, " {triplet}"))
            }
        }
    }
}

/// The negotiated parameters of line editing.
#[derive(Debug)]
pub struct Linemode {
    is_user: bool,
    mode: LinemodeMode,
    /// The mode that a server has requested and that is not answered yet.
    asked_mode: Option<LinemodeMode>,
    forward_mask: Option<[u8; MASK_BYTES]>,
    characters: SlcTable,
}

/// The contents of the subnegotiations to send, and the event for the caller.
type Reply = (Vec<Vec<u8>>, Option<Event<'static>>);

const NOTHING: Reply = (Vec::new(), None);

impl Handler for Linemode {
    fn from_settings(settings: Settings<'_>) -> Self {
        Self::new(settings.is_user())
    }

    fn on_enabled(&mut self, _side: Side, context: &mut Context<'_, '_>) {
        if let Some(content) = self.begin() {
            context.send(&content);
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let message = Message::parse(content).filter(|_| context.row.is_in_use());
        let (answers, event) = message.and_then(|it| self.on_message(&it)).ok_or(Invalid)?;
        answers.iter().for_each(|answer| _ = context.send(answer));
        Ok(event)
    }
}

impl Linemode {
    fn new(is_user: bool) -> Self {
        let characters = SlcTable::default();
        let mode = LinemodeMode::NONE;
        Self { is_user, mode, asked_mode: None, forward_mask: None, characters }
    }

    /// Returns the current line editing mode.
    #[must_use]
    pub fn mode(&self) -> LinemodeMode {
        self.mode
    }

    /// Returns the characters of the editing functions.
    #[must_use]
    pub fn characters(&self) -> &SlcTable {
        &self.characters
    }

    /// Returns whether pending input is sent at `character`, even if the line has not ended.
    #[must_use]
    pub fn forwards(&self, character: u8) -> bool {
        let is_forward = |function| self.characters.get(function).character() == Some(character);
        let mask_byte =
            self.forward_mask.as_ref().and_then(|mask| mask.get(usize::from(character / 8)));
        mask_byte.is_some_and(|bits| bits & (0x80 >> (character % 8)) != 0)
            || is_forward(SlcFunction::FORW1)
            || is_forward(SlcFunction::FORW2)
    }

    /// Returns the command to send instead of `character`, if signals are trapped.
    #[must_use]
    pub fn signal(&self, character: u8) -> Option<Command> {
        if !self.mode.has(LinemodeMode::TRAP_SIGNALS) {
            return None;
        }
        let signals = [
            (SlcFunction::SYNCH, Command::DataMark),
            (SlcFunction::BRK, Command::Break),
            (SlcFunction::IP, Command::InterruptProcess),
            (SlcFunction::AO, Command::AbortOutput),
            (SlcFunction::AYT, Command::AreYouThere),
            (SlcFunction::ABORT, Command::Abort),
            (SlcFunction::EOF, Command::EndOfFile),
            (SlcFunction::SUSP, Command::Suspend),
        ];
        let has_character = |function| self.characters.get(function).character() == Some(character);
        signals.iter().find(|(function, _)| has_character(*function)).map(|(_, command)| *command)
    }

    /// Returns the content of the SLC subnegotiation that a user sends when the option is enabled;
    /// a server sends none.
    fn begin(&mut self) -> Option<Vec<u8>> {
        *self = Self::new(self.is_user);
        self.is_user.then(|| slc::content(&self.characters.all_triplets()))
    }

    /// Returns the content of the subnegotiation by which a server requests a mode.
    pub(in crate::telnet) fn ask_mode(&mut self, mode: LinemodeMode) -> [u8; 2] {
        self.asked_mode = Some(mode);
        [MODE, mode.0]
    }

    /// Returns the content of the subnegotiation by which a server requests that lines are also
    /// sent at these characters.
    pub(in crate::telnet) fn ask_forward_mask(&self, mask: &[u8; 32]) -> Vec<u8> {
        let mut content = Vec::from([Verb::Do.code(), FORWARDMASK]);
        content.extend_from_slice(mask);
        content
    }

    /// Returns the content of the subnegotiation by which one end requests another special
    /// character.
    pub(in crate::telnet) fn ask_character(
        &mut self,
        function: SlcFunction,
        character: SpecialCharacter,
    ) -> Vec<u8> {
        slc::content(&[self.characters.set(function, character)])
    }

    fn on_message(&mut self, message: &Message) -> Option<Reply> {
        match message {
            Message::Mode { mode, is_answer } => Some(self.on_mode(*mode, *is_answer)),
            Message::Slc(triplets) => Some(self.on_slc(triplets)),
            Message::ForwardMask(verb, mask) => self.on_forward_mask(*verb, mask),
        }
    }

    fn on_mode(&mut self, mode: LinemodeMode, is_answer: bool) -> Reply {
        match (self.is_user, is_answer) {
            // A mode that is already in effect is not answered, to avoid an endless exchange.
            (true, false) if mode == self.mode => NOTHING,
            (true, false) => {
                self.mode = mode;
                let answer = Vec::from([MODE, mode.0 | LinemodeMode::ACK]);
                (Vec::from([answer]), Some(Event::Linemode(LinemodeEvent::Mode(mode))))
            }
            (true, true) => NOTHING,
            // RFC 1184 §2.2: an answer that does not match the last request is ignored; a user may
            // clear bits that it does not support.
            (false, true) => match self.asked_mode {
                Some(asked) if asked.has(mode) => {
                    self.mode = mode;
                    self.asked_mode = None;
                    (Vec::new(), Some(Event::Linemode(LinemodeEvent::Mode(mode))))
                }
                _ => NOTHING,
            },
            (false, false) => NOTHING,
        }
    }

    fn on_slc(&mut self, triplets: &[Triplet]) -> Reply {
        let (answers, has_changed) = self.characters.receive(triplets);
        let event = has_changed.then_some(Event::Linemode(LinemodeEvent::Characters));
        let answers = if answers.is_empty() { None } else { Some(slc::content(&answers)) };
        (answers.into_iter().collect(), event)
    }

    fn on_forward_mask(&mut self, verb: Verb, mask: &[u8]) -> Option<Reply> {
        let event = Some(Event::Linemode(LinemodeEvent::ForwardMask));
        match (self.is_user, verb) {
            (true, Verb::Do) => {
                let mut full_mask = [0; MASK_BYTES];
                for (place, byte) in full_mask.iter_mut().zip(mask) {
                    *place = *byte;
                }
                self.forward_mask = Some(full_mask);
                Some((Vec::from([Vec::from([Verb::Will.code(), FORWARDMASK])]), event))
            }
            (true, Verb::Dont) => {
                self.forward_mask.take()?;
                Some((Vec::from([Vec::from([Verb::Wont.code(), FORWARDMASK])]), event))
            }
            (false, Verb::Will) => Some((Vec::new(), event)),
            (false, Verb::Wont) => {
                let event = Event::Linemode(LinemodeEvent::ForwardMaskRefused);
                Some((Vec::new(), Some(event)))
            }
            (true, Verb::Will | Verb::Wont) | (false, Verb::Do | Verb::Dont) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive(end: &mut Linemode, content: &[u8]) -> Option<Reply> {
        end.on_message(&Message::parse(content)?)
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..99), 0..9),
            is_user: bool
        ) {
            let mut end = Linemode::new(is_user);
            for content in contents {
                if let Some((answers, _)) = receive(&mut end, &content) {
                    prop_assert!(answers.iter().map(Vec::len).sum::<usize>() <= content.len() + 93);
                }
            }
        }
    }

    #[test]
    fn a_mode_is_answered_only_if_it_differs_from_the_current_mode() {
        let mut user = Linemode::new(true);
        let mode = LinemodeMode::EDIT.with(LinemodeMode::TRAP_SIGNALS);
        let (answers, event) = receive(&mut user, &[MODE, 3]).unwrap();
        assert_eq!(answers, [[MODE, 7]]);
        assert_eq!(event, Some(Event::Linemode(LinemodeEvent::Mode(mode))));
        assert_eq!(receive(&mut user, &[MODE, 3]), Some(NOTHING));
        assert_eq!(receive(&mut user, &[MODE, 7]), Some(NOTHING));
    }

    #[test]
    fn a_server_accepts_only_requested_bits_of_an_answer() {
        let mut server = Linemode::new(false);
        assert_eq!(receive(&mut server, &[MODE, 7]), Some(NOTHING));
        server.ask_mode(LinemodeMode::EDIT);
        assert_eq!(receive(&mut server, &[MODE, 7]), Some(NOTHING));
        let event = Event::Linemode(LinemodeEvent::Mode(LinemodeMode::EDIT));
        assert_eq!(receive(&mut server, &[MODE, 5]), Some((Vec::new(), Some(event))));
        assert_eq!(server.mode(), LinemodeMode::EDIT);
    }

    #[test]
    fn a_forward_mask_is_agreed_to_and_removed() {
        let mut user = Linemode::new(true);
        let (answers, _) = receive(&mut user, &[253, FORWARDMASK, 0, 0x40]).unwrap();
        assert_eq!(answers, [[251, FORWARDMASK]]);
        assert!(user.forwards(9) && !user.forwards(8) && !user.forwards(255));
        let (answers, _) = receive(&mut user, &[254, FORWARDMASK]).unwrap();
        assert_eq!(answers, [[252, FORWARDMASK]]);
        assert!(!user.forwards(9));
    }

    #[test]
    fn a_signal_character_is_a_command_only_if_signals_are_trapped() {
        let mut user = Linemode::new(true);
        assert_eq!(user.signal(3), None);
        receive(&mut user, &[MODE, 3]).unwrap();
        assert_eq!(user.signal(3), Some(Command::InterruptProcess));
        assert_eq!(user.signal(b'a'), None);
    }

    #[test]
    fn the_forward_mask_has_one_bit_per_character() {
        let mut user = Linemode::new(true);
        let mut mask = [0; MASK_BYTES];
        mask[usize::from(b'M' / 8)] = 0x80 >> (b'M' % 8);
        let content = [&[Verb::Do.code(), FORWARDMASK][..], &mask].concat();
        receive(&mut user, &content).unwrap();
        assert!((0..=255).filter(|character| user.forwards(*character)).eq([b'M']));
    }

    #[test]
    fn a_forward_mask_longer_than_all_characters_is_invalid() {
        let request = [&[Verb::Do.code(), FORWARDMASK][..], &[0; MASK_BYTES]].concat();
        assert!(Message::parse(&request).is_some());
        assert_eq!(Message::parse(&[request, Vec::from([0])].concat()), None);
    }

    #[test]
    fn only_a_request_for_a_forward_mask_has_a_mask() {
        for verb in [Verb::Will, Verb::Wont, Verb::Dont] {
            assert!(Message::parse(&[verb.code(), FORWARDMASK]).is_some());
            assert_eq!(Message::parse(&[verb.code(), FORWARDMASK, 1]), None);
        }
        assert_eq!(Message::parse(&[250, FORWARDMASK]), None);
    }

    #[test]
    fn each_end_processes_only_the_forward_mask_messages_of_the_other_role() {
        let verbs = [Verb::Do, Verb::Dont, Verb::Will, Verb::Wont];
        let mut server = Linemode::new(false);
        let events = verbs.map(|verb| receive(&mut server, &[verb.code(), FORWARDMASK]));
        let event = |event| Some((Vec::new(), Some(Event::Linemode(event))));
        let expected = [
            None,
            None,
            event(LinemodeEvent::ForwardMask),
            event(LinemodeEvent::ForwardMaskRefused),
        ];
        assert_eq!(events, expected);
        let mut user = Linemode::new(true);
        let is_processed =
            verbs.map(|verb| receive(&mut user, &[verb.code(), FORWARDMASK]).is_some());
        assert_eq!(is_processed, [true, true, false, false]);
        // No mask is left to remove.
        assert_eq!(receive(&mut user, &[Verb::Dont.code(), FORWARDMASK]), None);
    }

    #[test]
    fn pending_input_is_also_forwarded_at_the_two_forward_characters() {
        for function in [SlcFunction::FORW1, SlcFunction::FORW2] {
            let mut user = Linemode::new(true);
            user.ask_character(function, SpecialCharacter::variable(b';'));
            assert!((0..=255).filter(|character| user.forwards(*character)).eq([b';']));
        }
    }

    #[test]
    fn each_signal_character_has_its_command() {
        let mut user = Linemode::new(true);
        receive(&mut user, &[MODE, LinemodeMode::TRAP_SIGNALS.0]).unwrap();
        let signals = [
            (SlcFunction::SYNCH, Command::DataMark),
            (SlcFunction::BRK, Command::Break),
            (SlcFunction::IP, Command::InterruptProcess),
            (SlcFunction::AO, Command::AbortOutput),
            (SlcFunction::AYT, Command::AreYouThere),
            (SlcFunction::ABORT, Command::Abort),
            (SlcFunction::EOF, Command::EndOfFile),
            (SlcFunction::SUSP, Command::Suspend),
        ];
        for (character, (function, command)) in (b'a'..).zip(signals) {
            user.ask_character(function, SpecialCharacter::variable(character));
            assert_eq!(user.signal(character), Some(command));
        }
    }

    #[test]
    fn messages_are_displayed_with_their_names() {
        let shown = |content: &[u8]| alloc::format!("{}", Message::parse(content).unwrap());
        assert_eq!(shown(&[Verb::Wont.code(), FORWARDMASK]), "WONT FORWARDMASK");
        assert_eq!(shown(&[Verb::Do.code(), FORWARDMASK, 3, 1]), "DO FORWARDMASK of 3 characters");
        assert_eq!(shown(&[MODE, 1]), "MODE EDIT");
        assert_eq!(
            shown(&[MODE, 0x1b | LinemodeMode::ACK]),
            "MODE EDIT|TRAPSIG|SOFT_TAB|LIT_ECHO|MODE_ACK"
        );
    }
}
