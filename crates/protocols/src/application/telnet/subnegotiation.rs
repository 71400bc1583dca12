//! SB to SE: what is said about an option that is on, and the calls by which a user says it.

use super::command::{Command, IAC};
use super::inspector::{self, Direction};
use super::option::charset::Charsets;
use super::option::com_port::ComPortCommand;
use super::option::environment::Message as Environment;
use super::option::flow_control::FlowControl;
use super::option::gmcp::Gmcp;
use super::option::linemode::{LinemodeMode, SlcFunction, SpecialCharacter};
use super::option::msdp::MsdpVariable;
use super::option::mssp::MsspVariable;
use super::option::start_tls::Progress;
use super::option::terminal_speed::Message as Speed;
use super::option::terminal_type::Message as TerminalType;
use super::option::{Message, OptionRow, display, msdp, mssp, naws, status};
use super::option::{terminal_speed, terminal_type};
use super::{AskError, Event, OptionCode, OptionState, Role, Side, Telnet, output};
use crate::Cx;
use crate::meter::Counter;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a subnegotiation of the other came to.
type Heard = Option<(Vec<Vec<u8>>, Option<Event<'static>>)>;

/// Makes what is heard of an event alone.
fn news(event: Event<'static>) -> Heard {
    Some((Vec::new(), Some(event)))
}

/// Makes what is heard of an answer alone.
fn reply(content: &[u8]) -> Heard {
    Some((Vec::from([content.to_vec()]), None))
}

impl Telnet {
    pub(super) fn on_subnegotiation(&mut self, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let (option, message) = self
            .decoder
            .subnegotiation()
            .map(|(option, content)| (option, Message::parse(option, content)))?;
        if self.inspector.is_on()
            && let Some((_, content)) = self.decoder.subnegotiation()
        {
            let record = inspector::subnegotiation(self.row(option), content);
            self.inspect(Direction::Received, || record, cx);
        }
        if self.tls == Progress::WeFollow && option != OptionCode::START_TLS {
            cx.meter.count(Counter::TelnetItemsBeforeTls);
            return None;
        }
        let heard = message.filter(|message| self.is_due(option, message));
        let heard = heard.and_then(|message| self.hear(option, message, cx));
        let Some((answers, event)) = heard else {
            cx.meter.count(Counter::TelnetSubnegotiationsWrong);
            return None;
        };
        for content in answers {
            self.say_more(option, &content, cx);
        }
        event
    }

    /// Returns whether it may be said now: before the option is agreed to, or after its end, it is
    /// not to be answered.
    fn is_due(&self, option: OptionCode, message: &Message) -> bool {
        let (ours, his) = (self.is_in_force(Side::Us, option), self.is_enabled(Side::Him, option));
        // Some ask at once where we offer, and never say DO.
        let is_offered = self.options.state(Side::Us, option) == OptionState::OFFERED;
        match message {
            Message::TerminalType(TerminalType::Send)
            | Message::TerminalSpeed(Speed::Send)
            | Message::Display(display::Message::Send)
            | Message::Environment(Environment::Send(_)) => ours || is_offered,
            Message::Status(status::Message::Send) | Message::FlowControl(_) => ours,
            Message::TerminalType(TerminalType::Is(_) | TerminalType::Mtts(_))
            | Message::Status(status::Message::Is(_))
            | Message::TerminalSpeed(Speed::Is { .. })
            | Message::Display(display::Message::Is(_))
            | Message::Naws(_)
            | Message::Environment(Environment::Is(_) | Environment::Info(_))
            | Message::Mssp(_)
            | Message::EchoAcknowledgment(_) => his,
            Message::Linemode(_)
            | Message::Charset(_)
            | Message::ComPort(_)
            | Message::StartTls
            | Message::Msdp(_)
            | Message::Gmcp(_) => ours || his,
            // A stream that was said to begin may begin after we asked for its end.
            Message::Compress => his || self.is_enabled(Side::Us, option),
        }
    }

    fn hear(&mut self, option: OptionCode, message: Message, cx: &mut Cx<'_>) -> Heard {
        match message {
            Message::Status(status::Message::Send) => reply(&status::is(self.options.rows())),
            Message::Status(status::Message::Is(list)) => news(Event::Status(list)),
            Message::Linemode(message) => self.linemode.receive(&message),
            Message::Charset(message) => {
                let (answer, event) = self.charsets.receive(&message)?;
                Some((answer.into_iter().collect(), event))
            }
            Message::ComPort(message) => {
                let event = self.com_port.receive(message)?;
                news(Event::ComPort(Box::new(event)))
            }
            Message::StartTls if self.tls == Progress::WeFollow => {
                self.tls = Progress::Started;
                news(Event::StartTls)
            }
            Message::StartTls => None,
            Message::Msdp(variables) => news(Event::Msdp(variables)),
            Message::Mssp(variables) => news(Event::Mssp(variables)),
            Message::Gmcp(message) => news(Event::Gmcp(Box::new(message))),
            Message::EchoAcknowledgment(count) => {
                // More than we sent cannot have been echoed.
                (count <= self.output.data_position())
                    .then_some(Event::EchoAcknowledged(count))
                    .and_then(news)
            }
            Message::Compress => {
                let is_theirs = (option == OptionCode::COMPRESS2) == self.is_user();
                if !is_theirs || !core::mem::take(&mut self.awaits_compression) {
                    return None;
                }
                news(Event::CompressionStarted)
            }
            message => match self.role {
                Role::User(_) => self.hear_as_user(message),
                Role::Server(_) => self.hear_as_server(message, cx),
            },
        }
    }

    fn hear_as_user(&mut self, message: Message) -> Heard {
        let Role::User(user) = &mut self.role else { return None };
        match message {
            Message::TerminalType(TerminalType::Send) => reply(&user.names.answer()),
            Message::TerminalSpeed(Speed::Send) => reply(&terminal_speed::is(user.speed)),
            Message::Display(display::Message::Send) => reply(&display::is(&user.display)),
            Message::Environment(Environment::Send(wanted)) => {
                reply(&user.environment.answer(&wanted))
            }
            Message::FlowControl(flow) => news(Event::FlowControl(flow)),
            _ => None,
        }
    }

    fn hear_as_server(&mut self, message: Message, cx: &mut Cx<'_>) -> Heard {
        let Role::Server(server) = &mut self.role else { return None };
        match message {
            Message::TerminalType(TerminalType::Is(name)) => {
                let (asks_again, event) = server.terminal_types.on_name(name);
                let answer = asks_again.then(|| terminal_type::send().to_vec());
                Some((answer.into_iter().collect(), event))
            }
            Message::TerminalType(TerminalType::Mtts(bits)) => {
                news(server.terminal_types.on_bits(bits))
            }
            Message::Naws(naws::Message { columns, rows }) => {
                news(Event::WindowSize { columns, rows })
            }
            Message::TerminalSpeed(Speed::Is { transmit, receive }) => {
                news(Event::TerminalSpeed { transmit, receive })
            }
            Message::Display(display::Message::Is(location)) => {
                news(Event::XDisplayLocation(location))
            }
            Message::Environment(Environment::Is(variables) | Environment::Info(variables)) => {
                let (sifted, refused) = server.environment.sift(variables);
                cx.meter.add(Counter::TelnetVariablesRefused, refused as u64);
                let event = (!sifted.is_empty()).then_some(Event::Environment(sifted));
                Some((Vec::new(), event))
            }
            _ => None,
        }
    }

    /// Asks which options the other believes to be on. The answer comes as [`Event::Status`].
    ///
    /// # Errors
    ///
    /// [`AskError::NotEnabled`] if the other does not perform STATUS; ask for that first.
    pub fn ask_status(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.tell(Side::Him, OptionCode::STATUS, &status::send(), cx)
    }

    /// Takes the new size of the user's window, and tells the other if NAWS is on (RFC 1073).
    pub fn resize(&mut self, columns: u16, rows: u16, cx: &mut Cx<'_>) {
        let Role::User(user) = &mut self.role else { return };
        let is_new = core::mem::replace(&mut user.window, (columns, rows)) != (columns, rows);
        if is_new {
            // Where NAWS is off, nobody is to know.
            _ = self.tell(Side::Us, OptionCode::NAWS, &naws::is((columns, rows)), cx);
        }
    }

    /// Sends GA, because input is waited for, unless it was agreed to suppress it (RFC 858).
    ///
    /// Returns whether it was sent.
    pub fn go_ahead(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_suppressed = self.is_enabled(Side::Us, OptionCode::SUPPRESS_GO_AHEAD);
        !is_suppressed && self.command(Command::GoAhead, cx)
    }

    /// Sends EOR, because a record ends here, if the other wants to know (RFC 885).
    ///
    /// Returns whether it was sent.
    pub fn end_of_record(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_wanted = self.is_in_force(Side::Us, OptionCode::END_OF_RECORD);
        is_wanted && self.command(Command::EndOfRecord, cx)
    }

    /// Tells the user's terminal what to do with XOFF and XON, from a server (RFC 1372).
    ///
    /// # Errors
    ///
    /// When the user does not perform TOGGLE-FLOW-CONTROL, or there is no room.
    pub fn flow_control(&mut self, flow: FlowControl, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.tell(Side::Him, OptionCode::TOGGLE_FLOW_CONTROL, &flow.content(), cx)
    }

    /// Asks for a character set of the settings. The answer comes as [`Event::Charset`].
    ///
    /// # Errors
    ///
    /// When CHARSET is not on for us, when it was asked before, or when there is no room.
    pub fn ask_charset(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        if !self.is_in_force(Side::Us, OptionCode::CHARSET) {
            return Err(AskError::NotEnabled);
        }
        let content = self.charsets.request().ok_or(AskError::AlreadyAsked)?;
        self.tell(Side::Us, OptionCode::CHARSET, &content, cx)
            .inspect_err(|_| Charsets::forget(&mut self.charsets))
    }

    /// Asks the user to edit lines so, from a server. The answer comes as an event (RFC 1184).
    ///
    /// # Errors
    ///
    /// When the user does not perform LINEMODE, or there is no room.
    pub fn ask_linemode(&mut self, mode: LinemodeMode, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.linemode.ask_mode(mode);
        self.tell(Side::Him, OptionCode::LINEMODE, &content, cx)
    }

    /// Asks the user to send what was typed at these characters too, from a server: a bit for each
    /// character, that of character 0 the highest of the first byte.
    ///
    /// # Errors
    ///
    /// When the user does not perform LINEMODE, or there is no room.
    pub fn ask_forward_mask(&mut self, mask: &[u8; 32], cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.linemode.ask_forward_mask(mask);
        self.tell(Side::Him, OptionCode::LINEMODE, &content, cx)
    }

    /// Gives a function of the line's editing another character, and tells the other.
    ///
    /// # Errors
    ///
    /// When LINEMODE is not on, or there is no room.
    pub fn set_special_character(
        &mut self,
        function: SlcFunction,
        character: SpecialCharacter,
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        let side = self.users_side();
        if !self.is_in_force(side, OptionCode::LINEMODE) {
            return Err(AskError::NotEnabled);
        }
        let content = self.linemode.ask_character(function, character);
        self.tell(side, OptionCode::LINEMODE, &content, cx)
    }

    /// Commands the serial port at the other end, from a user; from a server, answers a command or
    /// gives notice (RFC 2217).
    ///
    /// # Errors
    ///
    /// When COM-PORT-OPTION is not on, when too many commands have no answer, or there is no room.
    pub fn com_port(&mut self, command: &ComPortCommand, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let side = self.users_side();
        if !self.is_in_force(side, OptionCode::COM_PORT) {
            return Err(AskError::NotEnabled);
        }
        let content = self.com_port.say(command).ok_or(AskError::AlreadyAsked)?;
        self.tell(side, OptionCode::COM_PORT, &content, cx)
    }

    /// Sends a message of GMCP.
    ///
    /// # Errors
    ///
    /// When GMCP is not on, when the name is none, or there is no room.
    pub fn gmcp(&mut self, message: &Gmcp, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = message.content().ok_or(AskError::NotSupported)?;
        self.tell(self.servers_side(), OptionCode::GMCP, &content, cx)
    }

    /// Sends variables of MSDP.
    ///
    /// # Errors
    ///
    /// When MSDP is not on, when a text has one of its markers in it, or there is no room.
    pub fn msdp(&mut self, variables: &[MsdpVariable], cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = msdp::content(variables).ok_or(AskError::NotSupported)?;
        self.tell(self.servers_side(), OptionCode::MSDP, &content, cx)
    }

    /// Sends what a MUD says about itself, from a server.
    ///
    /// # Errors
    ///
    /// When MSSP is not on, when a text has one of its markers in it, or there is no room.
    pub fn mssp(&mut self, variables: &[MsspVariable], cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = mssp::content(variables).ok_or(AskError::NotSupported)?;
        self.tell(Side::Us, OptionCode::MSSP, &content, cx)
    }

    fn users_side(&self) -> Side {
        if self.is_user() { Side::Us } else { Side::Him }
    }

    fn servers_side(&self) -> Side {
        if self.is_user() { Side::Him } else { Side::Us }
    }

    /// Says more about an option that `side` performs.
    fn tell(
        &mut self,
        side: Side,
        option: OptionCode,
        content: &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        if !self.is_in_force(side, option) {
            return Err(AskError::NotEnabled);
        }
        let has_room = self.say_more(option, content, cx);
        if has_room { Ok(()) } else { Err(AskError::OutputFull) }
    }

    pub(super) fn say_more(&mut self, option: OptionCode, content: &[u8], cx: &mut Cx<'_>) -> bool {
        debug_assert!(option.0 != IAC, "the option that extends the list is never on");
        let bytes = output::subnegotiation(option, content);
        let has_room = self.put(&bytes, Counter::TelnetNegotiationsOut, cx);
        if has_room && self.inspector.is_on() {
            let record = inspector::subnegotiation(self.row(option), content);
            self.inspect(Direction::Sent, || record, cx);
        }
        has_room
    }

    fn row(&self, option: OptionCode) -> OptionRow {
        let [us, him] = [Side::Us, Side::Him].map(|side| self.options.state(side, option));
        OptionRow { option, us, him }
    }
}
