//! Parameters of enabled options, exchanged between SB and SE, and the functions that send them.

use super::command::{Command, IAC};
use super::inspector::{self, Direction};
use super::option::charset::Charsets;
use super::option::com_port::ComPortCommand;
use super::option::environment::Message as Environment;
use super::option::linemode::{LinemodeMode, SlcFunction, SpecialCharacter};
use super::option::start_tls;
use super::option::terminal_speed::Message as Speed;
use super::option::terminal_type::Message as TerminalType;
use super::option::{self, OptionRow, display, naws, status};
use super::option::{terminal_speed, terminal_type};
use super::settings_and_events::FlowControl;
use super::{AskError, Event, OptionCode, OptionState, Role, Side, Telnet, output};
use alloc::boxed::Box;
use alloc::vec::Vec;
use net::Cx;
use net::meter::Counter;

/// The contents to send in answer to a subnegotiation, and the event to report; `None` if the
/// subnegotiation is ignored.
type SubnegotiationResult = Option<(Vec<Vec<u8>>, Option<Event<'static>>)>;

/// Returns a result with only an event.
fn event_only(event: Event<'static>) -> SubnegotiationResult {
    Some((Vec::new(), Some(event)))
}

/// Returns a result with only an answer.
fn reply(content: &[u8]) -> SubnegotiationResult {
    Some((Vec::from([content.to_vec()]), None))
}

impl Telnet {
    pub(super) fn on_subnegotiation(&mut self, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let (option, message) = self
            .decoder
            .subnegotiation()
            .map(|(option, content)| (option, option::Message::parse(option, content)))?;
        if self.inspector.is_on()
            && let Some((_, content)) = self.decoder.subnegotiation()
        {
            let record = inspector::subnegotiation(self.row(option), content);
            self.inspect(Direction::Received, || record, cx);
        }
        if self.tls == start_tls::Progress::FollowsSent && option != OptionCode::START_TLS {
            cx.meter.count(Counter::TelnetItemsBeforeTls);
            return None;
        }
        let message_result = message.filter(|message| self.is_valid_now(option, message));
        let message_result =
            message_result.and_then(|message| self.process_message(option, message, cx));
        let Some((answers, event)) = message_result else {
            cx.meter.count(Counter::TelnetSubnegotiationsWrong);
            return None;
        };
        for content in answers {
            self.send_subnegotiation(option, &content, cx);
        }
        event
    }

    /// Returns whether the message is valid in the current state. Messages before an option is
    /// enabled, or after it is disabled, are not answered.
    fn is_valid_now(&self, option: OptionCode, message: &option::Message) -> bool {
        let is_local_enabled = self.is_in_force(Side::Local, option);
        let is_remote_enabled = self.is_enabled(Side::Remote, option);
        // Some peers send a request right after the local end's offer, and never send DO.
        let is_offered = self.options.state(Side::Local, option) == OptionState::OFFERED;
        match message {
            option::Message::TerminalType(TerminalType::Send)
            | option::Message::TerminalSpeed(Speed::Send)
            | option::Message::Display(display::Message::Send)
            | option::Message::Environment(Environment::Send(_)) => is_local_enabled || is_offered,
            option::Message::Status(status::Message::Send) | option::Message::FlowControl(_) => {
                is_local_enabled
            }
            option::Message::TerminalType(TerminalType::Is(_) | TerminalType::Mtts(_))
            | option::Message::Status(status::Message::Is(_))
            | option::Message::TerminalSpeed(Speed::Is { .. })
            | option::Message::Display(display::Message::Is(_))
            | option::Message::Naws(_)
            | option::Message::Environment(Environment::Is(_) | Environment::Info(_))
            | option::Message::EchoAcknowledgment(_) => is_remote_enabled,
            option::Message::Linemode(_)
            | option::Message::Charset(_)
            | option::Message::ComPort(_)
            | option::Message::StartTls => is_local_enabled || is_remote_enabled,
            // The peer may still start an announced compressed stream after the local end has
            // requested the end of compression.
            option::Message::Compress => is_remote_enabled || self.is_enabled(Side::Local, option),
        }
    }

    fn process_message(
        &mut self,
        option: OptionCode,
        message: option::Message,
        cx: &mut Cx<'_>,
    ) -> SubnegotiationResult {
        match message {
            option::Message::Status(status::Message::Send) => {
                reply(&status::build_is(self.options.rows()))
            }
            option::Message::Status(status::Message::Is(list)) => event_only(Event::Status(list)),
            option::Message::Linemode(message) => self.linemode.receive(&message),
            option::Message::Charset(message) => {
                let (answer, event) = self.charsets.receive(&message)?;
                Some((answer.into_iter().collect(), event))
            }
            option::Message::ComPort(message) => {
                let event = self.com_port.receive(message)?;
                event_only(Event::ComPort(Box::new(event)))
            }
            option::Message::StartTls if self.tls == start_tls::Progress::FollowsSent => {
                self.tls = start_tls::Progress::Started;
                event_only(Event::StartTls)
            }
            option::Message::StartTls => None,
            option::Message::EchoAcknowledgment(count) => {
                // More bytes than were sent cannot have been echoed.
                (count <= self.output.data_position())
                    .then_some(Event::EchoAcknowledged(count))
                    .and_then(event_only)
            }
            option::Message::Compress => {
                let is_peers_option = (option == OptionCode::COMPRESS2) == self.is_user();
                if !is_peers_option || !core::mem::take(&mut self.awaits_compression) {
                    return None;
                }
                event_only(Event::CompressionStarted)
            }
            message => match self.role {
                Role::User(_) => self.process_as_user(message),
                Role::Server(_) => self.process_as_server(message, cx),
            },
        }
    }

    fn process_as_user(&mut self, message: option::Message) -> SubnegotiationResult {
        let Role::User(user) = &mut self.role else { return None };
        match message {
            option::Message::TerminalType(TerminalType::Send) => reply(&user.names.answer()),
            option::Message::TerminalSpeed(Speed::Send) => {
                reply(&terminal_speed::build_is(user.speed))
            }
            option::Message::Display(display::Message::Send) => {
                reply(&display::build_is(&user.display))
            }
            option::Message::Environment(Environment::Send(wanted)) => {
                reply(&user.environment.answer(&wanted))
            }
            option::Message::FlowControl(flow) => event_only(Event::FlowControl(flow)),
            _ => None,
        }
    }

    fn process_as_server(
        &mut self,
        message: option::Message,
        cx: &mut Cx<'_>,
    ) -> SubnegotiationResult {
        let Role::Server(server) = &mut self.role else { return None };
        match message {
            option::Message::TerminalType(TerminalType::Is(name)) => {
                let (asks_again, event) = server.terminal_types.on_name(name);
                let answer = asks_again.then(|| terminal_type::build_send().to_vec());
                Some((answer.into_iter().collect(), event))
            }
            option::Message::TerminalType(TerminalType::Mtts(bits)) => {
                event_only(server.terminal_types.on_mtts(bits))
            }
            option::Message::Naws(naws::Message { columns, rows }) => {
                event_only(Event::WindowSize { columns, rows })
            }
            option::Message::TerminalSpeed(Speed::Is { transmit, receive }) => {
                event_only(Event::TerminalSpeed { transmit, receive })
            }
            option::Message::Display(display::Message::Is(location)) => {
                event_only(Event::XDisplayLocation(location))
            }
            option::Message::Environment(
                Environment::Is(variables) | Environment::Info(variables),
            ) => {
                let (accepted, refused) = server.environment.filter_requested(variables);
                cx.meter.add(Counter::TelnetVariablesRefused, refused as u64);
                let event = (!accepted.is_empty()).then_some(Event::Environment(accepted));
                Some((Vec::new(), event))
            }
            _ => None,
        }
    }

    /// Requests the list of options that the peer considers enabled. The answer arrives as
    /// [`Event::Status`].
    ///
    /// # Errors
    ///
    /// Returns [`AskError::NotEnabled`] if the peer does not perform STATUS; request the option
    /// first.
    pub fn ask_status(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.send_in_force(Side::Remote, OptionCode::STATUS, &status::build_send(), cx)
    }

    /// Sets the size of the user's window in characters, and reports it to the peer if NAWS is
    /// enabled (RFC 1073).
    pub fn resize(&mut self, columns: u16, rows: u16, cx: &mut Cx<'_>) {
        let Role::User(user) = &mut self.role else { return };
        let has_changed = core::mem::replace(&mut user.window, (columns, rows)) != (columns, rows);
        if has_changed {
            // If NAWS is disabled, the size is not sent.
            _ = self.send_in_force(
                Side::Local,
                OptionCode::NAWS,
                &naws::build_is((columns, rows)),
                cx,
            );
        }
    }

    /// Sends GA to signal that input is expected (RFC 858). Sends nothing if the suppression of GA
    /// was negotiated.
    ///
    /// Returns whether GA was sent.
    pub fn go_ahead(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_suppressed = self.is_enabled(Side::Local, OptionCode::SUPPRESS_GO_AHEAD);
        !is_suppressed && self.command(Command::GoAhead, cx)
    }

    /// Sends EOR to mark the end of a record, if END-OF-RECORD is in effect (RFC 885).
    ///
    /// Returns whether EOR was sent.
    pub fn end_of_record(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_enabled = self.is_in_force(Side::Local, OptionCode::END_OF_RECORD);
        is_enabled && self.command(Command::EndOfRecord, cx)
    }

    /// For a server: sets whether the user's terminal acts on XOFF and XON (RFC 1372).
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform TOGGLE-FLOW-CONTROL, or if the output
    /// queue is full.
    pub fn flow_control(&mut self, flow: FlowControl, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.send_in_force(Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, &flow.content(), cx)
    }

    /// Requests one of the character sets in the settings. The answer arrives as
    /// [`Event::Charset`].
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the local end does not perform CHARSET, if a request is outstanding,
    /// if no character set is configured, or if the output queue is full.
    pub fn ask_charset(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        if !self.is_in_force(Side::Local, OptionCode::CHARSET) {
            return Err(AskError::NotEnabled);
        }
        let content = self.charsets.request().ok_or(AskError::AlreadyRequested)?;
        self.send_in_force(Side::Local, OptionCode::CHARSET, &content, cx)
            .inspect_err(|_| Charsets::discard_request(&mut self.charsets))
    }

    /// For a server: requests a line editing mode from the user. The answer arrives as an event
    /// (RFC 1184).
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform LINEMODE, or if the output queue is full.
    pub fn ask_linemode(&mut self, mode: LinemodeMode, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.linemode.ask_mode(mode);
        self.send_in_force(Side::Remote, OptionCode::LINEMODE, &content, cx)
    }

    /// For a server: requests that the user's end send its pending input whenever one of these
    /// characters is typed. The mask has one bit per character; character 0 is the most significant
    /// bit of the first byte.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform LINEMODE, or if the output queue is full.
    pub fn ask_forward_mask(&mut self, mask: &[u8; 32], cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.linemode.ask_forward_mask(mask);
        self.send_in_force(Side::Remote, OptionCode::LINEMODE, &content, cx)
    }

    /// Assigns another character to a line editing function, and reports it to the peer.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if LINEMODE is not enabled, or if the output queue is full.
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
        self.send_in_force(side, OptionCode::LINEMODE, &content, cx)
    }

    /// Sends a COM-PORT-OPTION message (RFC 2217). A user sends a command to the serial port of the
    /// peer; a server sends an answer or a notification.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if COM-PORT-OPTION is not enabled, if too many commands are unanswered,
    /// or if the output queue is full.
    pub fn com_port(&mut self, command: &ComPortCommand, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let side = self.users_side();
        if !self.is_in_force(side, OptionCode::COM_PORT) {
            return Err(AskError::NotEnabled);
        }
        let content = self.com_port.request(command).ok_or(AskError::AlreadyRequested)?;
        self.send_in_force(side, OptionCode::COM_PORT, &content, cx)
    }

    fn users_side(&self) -> Side {
        if self.is_user() { Side::Local } else { Side::Remote }
    }

    /// Sends a subnegotiation about an option that `side` performs.
    fn send_in_force(
        &mut self,
        side: Side,
        option: OptionCode,
        content: &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        if !self.is_in_force(side, option) {
            return Err(AskError::NotEnabled);
        }
        let has_room = self.send_subnegotiation(option, content, cx);
        if has_room { Ok(()) } else { Err(AskError::OutputFull) }
    }

    pub(super) fn send_subnegotiation(
        &mut self,
        option: OptionCode,
        content: &[u8],
        cx: &mut Cx<'_>,
    ) -> bool {
        debug_assert!(option.0 != IAC, "option 255 (EXTENDED-OPTIONS-LIST) is never enabled");
        let bytes = output::subnegotiation(option, content);
        let has_room = self.put(&bytes, Counter::TelnetNegotiationsOut, cx);
        if has_room && self.inspector.is_on() {
            let record = inspector::subnegotiation(self.row(option), content);
            self.inspect(Direction::Sent, || record, cx);
        }
        has_room
    }

    fn row(&self, option: OptionCode) -> OptionRow {
        let [us, him] = [Side::Local, Side::Remote].map(|side| self.options.state(side, option));
        OptionRow { option, us, him }
    }
}
