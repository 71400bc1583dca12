//! COM-PORT-OPTION (RFC 2217): a serial port at the other end of a Telnet connection.
//!
//! The user (the access client of the RFC) performs the option. It sends commands for rate, data
//! bits, parity, stop bits, flow control, DTR, RTS and BREAK. The server answers each command with
//! a code that is 100 higher and the value now in effect; a value that differs from the requested
//! one is a refusal. A value of 0 asks for the current value. The server reports changes of the
//! line state and of the modem signals, as selected by the user's masks. Either end can ask the
//! other to suspend data. The data should be sent as BINARY, which is negotiated separately.

mod command;

pub use command::{ComPortCommand, ComPortEvent, Control};

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;
use command::SERVER_CODE_OFFSET;
use core::fmt;

/// Maximum number of unanswered commands that are remembered (our choice).
const UNANSWERED_MAX: usize = 32;

impl OptionCode {
    /// COM-PORT-OPTION (RFC 2217).
    pub const COM_PORT: Self = Self(44);
}

pub(in crate::telnet::option) const DEFINITION: Definition = Definition {
    // RFC 2217: the user offers the option. Some users interpret a DO as the answer to an offer, and
    // then never send WILL.
    initiator: Role::User,
    content_max_bytes: 256,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::COM_PORT, Role::User)
};

/// A subnegotiation of COM-PORT-OPTION.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    is_from_server: bool,
    command: ComPortCommand,
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        let (&code, value) = content.split_first()?;
        let is_from_server = code >= SERVER_CODE_OFFSET;
        let code = if is_from_server { code - SERVER_CODE_OFFSET } else { code };
        let command = ComPortCommand::parse(code, value)?;
        Some(Self { is_from_server, command })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_from_server { "server: " } else { "" };
        write!(f, "{prefix}{}", self.command)
    }
}

/// State of the serial port at one end.
#[derive(Debug)]
pub(in crate::telnet) struct ComPort {
    is_user: bool,
    /// The user's unanswered commands.
    unanswered: VecDeque<ComPortCommand>,
    is_suspended: bool,
}

impl Handler for ComPort {
    fn from_settings(settings: Settings<'_>) -> Self {
        Self::new(settings.is_user())
    }

    fn on_disabled(&mut self, _side: Side, _context: &mut Context<'_, '_>) {
        *self = Self::new(self.is_user);
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let message = Message::parse(content).filter(|_| context.row.is_in_use());
        let event = message.and_then(|message| self.on_message(message)).ok_or(Invalid)?;
        Ok(Some(Event::ComPort(Box::new(event))))
    }
}

impl ComPort {
    fn new(is_user: bool) -> Self {
        Self { is_user, unanswered: VecDeque::new(), is_suspended: false }
    }

    /// Returns whether the peer asks the local end to stop sending data.
    pub(in crate::telnet) fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Records a command that is sent to the peer as unanswered. Returns the content of its
    /// subnegotiation, or `None` if too many commands are unanswered.
    pub(in crate::telnet) fn request(&mut self, command: &ComPortCommand) -> Option<Vec<u8>> {
        let expects_answer = !matches!(command, ComPortCommand::Suspend | ComPortCommand::Resume);
        if self.is_user && expects_answer {
            if self.unanswered.len() >= UNANSWERED_MAX {
                return None;
            }
            self.unanswered.push_back(command.clone());
        }
        Some(command.content(!self.is_user))
    }

    /// Processes a message of the peer. Returns `None` if only the local role may send this
    /// message.
    fn on_message(&mut self, message: Message) -> Option<ComPortEvent> {
        if message.is_from_server != self.is_user {
            return None;
        }
        match message.command {
            ComPortCommand::Suspend | ComPortCommand::Resume => {
                self.is_suspended = message.command == ComPortCommand::Suspend;
                Some(ComPortEvent::Suspended(self.is_suspended))
            }
            command if !self.is_user => Some(ComPortEvent::Command(command)),
            notice @ (ComPortCommand::LineState(_) | ComPortCommand::ModemState(_)) => {
                Some(ComPortEvent::Notice(notice))
            }
            answer => Some(self.on_answer(answer)),
        }
    }

    fn on_answer(&mut self, current: ComPortCommand) -> ComPortEvent {
        let index = self.unanswered.iter().position(|requested| requested.is_answered_by(&current));
        // Some servers do not answer every command; this answer belongs to the newer command.
        let requested = index.and_then(|index| self.unanswered.remove(index));
        // After two commands for one setting, ser2net answers twice with the value of the second.
        let is_superseded = self.unanswered.contains(&current);
        match requested {
            Some(requested) if requested != current && !requested.is_query() && !is_superseded => {
                ComPortEvent::Refused { requested, current }
            }
            _ => ComPortEvent::Answer(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::SIGNATURE_MAX_BYTES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parsed_values_are_written_back_equal(code in 0..=112_u8, value in prop::collection::vec(any::<u8>(), 0..5)) {
            let content = [&[code][..], &value].concat();
            if let Some(message) = Message::parse(&content) {
                let is_text = matches!(message.command, ComPortCommand::Signature(_));
                prop_assert!(is_text || message.command.content(message.is_from_server) == content);
            }
        }
    }

    fn receive(end: &mut ComPort, content: &[u8]) -> Option<ComPortEvent> {
        end.on_message(Message::parse(content)?)
    }

    #[test]
    fn an_answer_with_another_value_is_a_refusal() {
        let mut user = ComPort::new(true);
        let requested = ComPortCommand::BaudRate(115_200);
        assert_eq!(user.request(&requested).unwrap(), [1, 0, 1, 0xc2, 0]);
        let current = ComPortCommand::BaudRate(9600);
        let refusal = ComPortEvent::Refused { requested, current: current.clone() };
        assert_eq!(receive(&mut user, &[101, 0, 0, 0x25, 0x80]), Some(refusal));
        user.request(&ComPortCommand::BaudRate(0));
        let answer = Some(ComPortEvent::Answer(current));
        assert_eq!(receive(&mut user, &[101, 0, 0, 0x25, 0x80]), answer);
    }

    #[test]
    fn a_setting_replaced_by_a_later_one_is_not_refused() {
        let mut user = ComPort::new(true);
        let first = ComPortCommand::DataSize(7);
        let second = ComPortCommand::DataSize(8);
        user.request(&first);
        user.request(&second);
        let answer = Some(ComPortEvent::Answer(second));
        assert_eq!(receive(&mut user, &[102, 8]), answer);
        assert_eq!(receive(&mut user, &[102, 8]), answer);
    }

    #[test]
    fn answers_about_one_signal_are_not_taken_for_another() {
        let mut user = ComPort::new(true);
        user.request(&ComPortCommand::Control(Control::DTR_ON));
        user.request(&ComPortCommand::Control(Control::RTS_OFF));
        let rts = ComPortEvent::Answer(ComPortCommand::Control(Control::RTS_OFF));
        assert_eq!(receive(&mut user, &[105, 12]), Some(rts));
        let requested = ComPortCommand::Control(Control::DTR_ON);
        let current = ComPortCommand::Control(Control::DTR_OFF);
        assert_eq!(
            receive(&mut user, &[105, 9]),
            Some(ComPortEvent::Refused { requested, current })
        );
    }

    #[test]
    fn each_end_accepts_only_messages_of_the_other_role() {
        assert_eq!(receive(&mut ComPort::new(true), &[2, 8]), None);
        assert_eq!(receive(&mut ComPort::new(false), &[102, 8]), None);
        let event = ComPortEvent::Command(ComPortCommand::DataSize(8));
        assert_eq!(receive(&mut ComPort::new(false), &[2, 8]), Some(event));
    }

    #[test]
    fn either_end_can_be_suspended_and_resumed() {
        for (mut end, suspend, resume) in
            [(ComPort::new(true), 108, 109), (ComPort::new(false), 8, 9)]
        {
            assert_eq!(receive(&mut end, &[suspend]), Some(ComPortEvent::Suspended(true)));
            assert!(end.is_suspended());
            assert_eq!(receive(&mut end, &[resume]), Some(ComPortEvent::Suspended(false)));
            assert!(!end.is_suspended());
        }
    }

    #[test]
    fn unanswered_commands_have_a_limit() {
        let mut user = ComPort::new(true);
        let accepted = (0..100).filter(|_| user.request(&ComPortCommand::Purge(1)).is_some());
        assert_eq!(accepted.count(), UNANSWERED_MAX);
    }

    #[test]
    fn the_first_code_of_a_server_is_that_of_its_signature() {
        let message = Message::parse(&[100, b'p']).unwrap();
        assert!(message.is_from_server);
        assert_eq!(message.command, ComPortCommand::Signature("p".into()));
        let longest = [&[0][..], &[b'p'; SIGNATURE_MAX_BYTES]].concat();
        assert!(Message::parse(&longest).is_some());
        assert_eq!(Message::parse(&[longest, alloc::vec![b'p']].concat()), None);
    }

    #[test]
    fn break_dtr_rts_and_the_two_kinds_of_flow_control_are_five_groups() {
        let groups = [0, 4, 7, 10, 13].map(|value| Control(value).group());
        assert_eq!(groups, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_answer_to_the_query_of_a_control_setting_is_not_a_refusal() {
        let pairs = [
            (Control::ASK_FLOW, Control::XON_XOFF),
            (Control::ASK_BREAK, Control::BREAK_OFF),
            (Control::ASK_DTR, Control::DTR_ON),
            (Control::ASK_RTS, Control::RTS_OFF),
            (Control(13), Control(14)),
        ];
        for (query, current) in pairs {
            let mut user = ComPort::new(true);
            user.request(&ComPortCommand::Control(query));
            let answer = ComPortEvent::Answer(ComPortCommand::Control(current));
            assert_eq!(receive(&mut user, &[105, current.0]), Some(answer));
        }
    }
}
