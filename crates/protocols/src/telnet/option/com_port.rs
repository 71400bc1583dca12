//! COM-PORT-OPTION (RFC 2217): a serial port at the other end of a Telnet connection.
//!
//! The user (the access client of the RFC) performs the option. It sends commands for rate, data
//! bits, parity, stop bits, flow control, DTR, RTS and BREAK. The server answers each command with
//! a code that is 100 higher and the value now in effect; a value that differs from the requested
//! one is a refusal. A value of 0 asks for the current value. The server reports changes of the
//! line state and of the modem signals, as selected by the user's masks. Either end can ask the
//! other to suspend data. The data should be sent as BINARY, which is negotiated separately.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Difference between the code of the server's answer and the code of the user's command.
const SERVER_CODE_OFFSET: u8 = 100;

/// Maximum length of a signature in bytes (our choice).
const SIGNATURE_MAX_BYTES: usize = 255;

/// Maximum number of unanswered commands that are remembered (our choice).
const UNANSWERED_MAX: usize = 32;

/// A command to a serial port, the answer to a command, or a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComPortCommand {
    /// Signature of the sender in printable ASCII. An empty string requests the signature of the
    /// peer.
    Signature(String),
    /// Bit rate in bits per second; 0 asks for the current value.
    BaudRate(u32),
    /// Number of data bits, 5 to 8; 0 asks for the current value.
    DataSize(u8),
    /// Parity: 1 none, 2 odd, 3 even, 4 mark, 5 space; 0 asks for the current value.
    Parity(u8),
    /// Stop bits: 1 one, 2 two, 3 one and a half; 0 asks for the current value.
    StopSize(u8),
    /// Flow control, BREAK, DTR or RTS.
    Control(Control),
    /// State of the serial line, from the server: the bits of the line status register of a 16550
    /// UART.
    LineState(u8),
    /// State of the modem signals, from the server: the bits of the modem status register of a
    /// 16550 UART.
    ModemState(u8),
    /// Suspend sending.
    Suspend,
    /// Resume sending.
    Resume,
    /// Mask of the line state bits that are reported.
    LineStateMask(u8),
    /// Mask of the modem state bits that are reported.
    ModemStateMask(u8),
    /// Purge buffers: 1 the receive buffer, 2 the transmit buffer, 3 both.
    Purge(u8),
}

/// Value of SET-CONTROL, which sets or queries a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control(pub u8);

impl Control {
    /// Queries the flow control for the data that the user sends.
    pub const ASK_FLOW: Self = Self(0);
    /// No flow control.
    pub const NO_FLOW: Self = Self(1);
    /// XON and XOFF.
    pub const XON_XOFF: Self = Self(2);
    /// RTS and CTS.
    pub const HARDWARE: Self = Self(3);
    /// Queries whether BREAK is active.
    pub const ASK_BREAK: Self = Self(4);
    /// Activates BREAK.
    pub const BREAK_ON: Self = Self(5);
    /// Deactivates BREAK.
    pub const BREAK_OFF: Self = Self(6);
    /// Queries DTR.
    pub const ASK_DTR: Self = Self(7);
    /// Raises DTR.
    pub const DTR_ON: Self = Self(8);
    /// Lowers DTR.
    pub const DTR_OFF: Self = Self(9);
    /// Queries RTS.
    pub const ASK_RTS: Self = Self(10);
    /// Raises RTS.
    pub const RTS_ON: Self = Self(11);
    /// Lowers RTS.
    pub const RTS_OFF: Self = Self(12);

    /// The highest value that RFC 2217 defines.
    const VALUE_MAX: u8 = 19;

    /// Returns the group of settings that this value belongs to. A command and its answer belong to
    /// the same group.
    fn group(self) -> u8 {
        match self.0 {
            0..=3 | 17 | 19 => 0,
            4..=6 => 1,
            7..=9 => 2,
            10..=12 => 3,
            _ => 4,
        }
    }

    fn is_query(self) -> bool {
        matches!(self.0, 0 | 4 | 7 | 10 | 13)
    }
}

/// An event of a serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComPortEvent {
    /// For a server: a command of the user. Execute it, and answer with the value now in effect.
    Command(ComPortCommand),
    /// For a user: the command took effect, or its query was answered.
    Answer(ComPortCommand),
    /// For a user: the command did not take effect.
    Refused {
        /// The command that the user sent.
        requested: ComPortCommand,
        /// The value in effect.
        current: ComPortCommand,
    },
    /// For a user: the state of the serial line or of the modem signals has changed.
    Notice(ComPortCommand),
    /// Whether the peer asks the local end to stop sending data.
    Suspended(bool),
}

/// A subnegotiation of COM-PORT-OPTION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::telnet) struct Message {
    pub(in crate::telnet) is_from_server: bool,
    pub(in crate::telnet) command: ComPortCommand,
}

impl Message {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let (&code, value) = content.split_first()?;
        let is_from_server = code >= SERVER_CODE_OFFSET;
        let code = if is_from_server { code - SERVER_CODE_OFFSET } else { code };
        let command = ComPortCommand::parse(code, value)?;
        Some(Self { is_from_server, command })
    }
}

impl ComPortCommand {
    fn parse(code: u8, value: &[u8]) -> Option<Self> {
        Some(match (code, value) {
            (0, text) if text.len() <= SIGNATURE_MAX_BYTES => Self::Signature(printable(text)),
            (1, &[a, b, c, d]) => Self::BaudRate(u32::from_be_bytes([a, b, c, d])),
            (2, &[bits @ (0 | 5..=8)]) => Self::DataSize(bits),
            (3, &[parity @ 0..=5]) => Self::Parity(parity),
            (4, &[stop @ 0..=3]) => Self::StopSize(stop),
            (5, &[control @ 0..=Control::VALUE_MAX]) => Self::Control(Control(control)),
            (6, &[state]) => Self::LineState(state),
            (7, &[state]) => Self::ModemState(state),
            (8, []) => Self::Suspend,
            (9, []) => Self::Resume,
            (10, &[mask]) => Self::LineStateMask(mask),
            (11, &[mask]) => Self::ModemStateMask(mask),
            (12, &[buffers @ 1..=3]) => Self::Purge(buffers),
            _ => return None,
        })
    }

    /// Returns the content of the subnegotiation that a server (or a user) sends for this command.
    pub(in crate::telnet) fn content(&self, is_from_server: bool) -> Vec<u8> {
        let mut content =
            Vec::from([self.code() + if is_from_server { SERVER_CODE_OFFSET } else { 0 }]);
        match self {
            Self::Signature(text) => {
                content.extend_from_slice(printable(text.as_bytes()).as_bytes());
            }
            Self::BaudRate(rate) => content.extend_from_slice(&rate.to_be_bytes()),
            Self::Control(Control(value))
            | Self::DataSize(value)
            | Self::Parity(value)
            | Self::StopSize(value)
            | Self::LineState(value)
            | Self::ModemState(value)
            | Self::LineStateMask(value)
            | Self::ModemStateMask(value)
            | Self::Purge(value) => content.push(*value),
            Self::Suspend | Self::Resume => {}
        }
        content
    }

    const fn code(&self) -> u8 {
        match self {
            Self::Signature(_) => 0,
            Self::BaudRate(_) => 1,
            Self::DataSize(_) => 2,
            Self::Parity(_) => 3,
            Self::StopSize(_) => 4,
            Self::Control(_) => 5,
            Self::LineState(_) => 6,
            Self::ModemState(_) => 7,
            Self::Suspend => 8,
            Self::Resume => 9,
            Self::LineStateMask(_) => 10,
            Self::ModemStateMask(_) => 11,
            Self::Purge(_) => 12,
        }
    }

    /// Returns whether the command only queries a value.
    fn is_query(&self) -> bool {
        match self {
            Self::Signature(text) => text.is_empty(),
            Self::BaudRate(0) | Self::DataSize(0) | Self::Parity(0) | Self::StopSize(0) => true,
            Self::Control(control) => control.is_query(),
            _ => false,
        }
    }

    /// Returns whether `other` can be the answer to this command.
    fn is_answered_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Control(requested), Self::Control(answer)) => {
                requested.group() == answer.group()
            }
            _ => self.code() == other.code(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_from_server { "server: " } else { "" };
        write!(f, "{prefix}{}", self.command)
    }
}

impl fmt::Display for ComPortCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature(text) => write!(f, "SIGNATURE \"{text}\""),
            Self::BaudRate(rate) => write!(f, "SET-BAUDRATE {rate}"),
            Self::DataSize(bits) => write!(f, "SET-DATASIZE {bits}"),
            Self::Parity(parity) => {
                let names = ["?", "NONE", "ODD", "EVEN", "MARK", "SPACE"];
                write!(f, "SET-PARITY {}", names.get(usize::from(*parity)).unwrap_or(&"?"))
            }
            Self::StopSize(stop) => {
                let names = ["?", "1", "2", "1.5"];
                write!(f, "SET-STOPSIZE {}", names.get(usize::from(*stop)).unwrap_or(&"?"))
            }
            Self::Control(Control(control)) => write!(f, "SET-CONTROL {control}"),
            Self::LineState(state) => write!(f, "NOTIFY-LINESTATE {state:#04x}"),
            Self::ModemState(state) => write!(f, "NOTIFY-MODEMSTATE {state:#04x}"),
            Self::Suspend => f.write_str("FLOWCONTROL-SUSPEND"),
            Self::Resume => f.write_str("FLOWCONTROL-RESUME"),
            Self::LineStateMask(mask) => write!(f, "SET-LINESTATE-MASK {mask:#04x}"),
            Self::ModemStateMask(mask) => write!(f, "SET-MODEMSTATE-MASK {mask:#04x}"),
            Self::Purge(buffers) => write!(f, "PURGE-DATA {buffers}"),
        }
    }
}

/// Returns the printable ASCII of `text`, truncated to the maximum length of a signature.
fn printable(text: &[u8]) -> String {
    let printable = text.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ');
    printable.take(SIGNATURE_MAX_BYTES).copied().map(char::from).collect()
}

/// State of the serial port at one end.
#[derive(Debug)]
pub(in crate::telnet) struct ComPort {
    is_user: bool,
    /// The user's unanswered commands.
    unanswered: VecDeque<ComPortCommand>,
    is_suspended: bool,
}

impl ComPort {
    pub(in crate::telnet) fn new(is_user: bool) -> Self {
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
    pub(in crate::telnet) fn receive(&mut self, message: Message) -> Option<ComPortEvent> {
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
        end.receive(Message::parse(content)?)
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
