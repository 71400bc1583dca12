//! Telnet (RFC 854), user and server, over any stream of bytes.
//!
//! Telnet makes two unlike ends talk as two *network virtual terminals*: a keyboard and a printer
//! that know ASCII and end a line by CR LF. Data and commands share one stream; IAC (255) begins
//! a command and is doubled where it is data. A line ends by CR LF, and a CR that ends no line is
//! followed by NUL, which is taken away again. More than that is an *option*, which either side
//! may perform and either may ask for, by WILL, WONT, DO and DONT. An option exists twice, for us
//! and for him, and each has a state of the Q method (RFC 1143, `q_method`), so that neither
//! crossing requests nor a stubborn peer make a loop.
//!
//! ```text
//!               input ──► decode ──► Data, in runs borrowed from the input ──► user
//!                           │  ├───► Command, DM ends a Synch (`synch`)
//!                           │  └───► negotiation, subnegotiation ──► options
//!   output ◄── queue ◄──────┴──────────── answers ◄────────────────────┘
//!                ▲ send: IAC doubled, ends of line
//! ```
//!
//! Order of the calls: [`Telnet::start`] once when the connection stands. Then, for what came,
//! [`Telnet::urgent`] if the transport says so, [`Telnet::receive`] until `None`, and
//! [`Telnet::urgent_ended`] if the urgent data is now read. Then hand [`Telnet::output`] to the
//! transport in one piece, so that answers and echoed data share a segment, and report by
//! [`Telnet::sent`] what it took.
//!
//! What the user's machine holds stays there: only the options BINARY, ECHO, SUPPRESS-GO-AHEAD,
//! STATUS, TIMING-MARK, TERMINAL-TYPE and NAWS are ever agreed to. NEW-ENVIRON,
//! X-DISPLAY-LOCATION, AUTHENTICATION, ENCRYPT, LINEMODE and all others are refused, and their
//! subnegotiations skipped unread.

mod command;
mod decode;
mod options;
mod output;
mod q_method;
mod synch;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;

pub use command::{Command, OptionCode, Side};
pub use options::OptionRow;
pub use q_method::OptionState;

use crate::Cx;
use crate::meter::{Account, Counter, Work};
use alloc::string::String;
use alloc::vec::Vec;
use command::{IAC, Verb};
use decode::{Decoder, Item};
use options::{Options, Said};
use output::Output;
use q_method::Outcome;
use synch::Synch;

/// The most refusals sent in one session; ours.
///
/// Every option can be offered and asked for twice. The Q method ends every loop but that of a
/// peer who asks again whenever he is refused; this ends that one, by silence.
const REFUSALS_LIMIT: u16 = 1024;

/// What is sent for a CR that ends no line in the data, which is the key at the end of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndOfLine {
    /// CR LF: the default of a user (RFC 1123 §3.3.1).
    #[default]
    CrLf,
    /// CR NUL: the CR itself, which is what hosts with remote echo take for the key.
    CrNul,
    /// LF alone.
    Lf,
}

impl EndOfLine {
    const fn bytes(self) -> &'static [u8] {
        match self {
            Self::CrLf => b"\r\n",
            Self::CrNul => b"\r\0",
            Self::Lf => b"\n",
        }
    }
}

/// What a user wants of a session.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// The name of the terminal. Only its graphic ASCII goes out, at most 40 characters.
    pub terminal_type: String,
    /// Whether the name goes out in upper case, as the registry has it.
    pub uppercases_terminal_type: bool,
    /// Columns and rows; 0 says that it is not known (RFC 1073).
    pub window: (u16, u16),
    /// What is sent for CR.
    pub end_of_line: EndOfLine,
    /// Whether [`Telnet::start`] offers and asks, or waits for the other to.
    pub starts_negotiation: bool,
    /// The most bytes of data, as encoded, that wait for the transport.
    pub output_limit_bytes: usize,
}

impl Default for UserSettings {
    fn default() -> Self {
        Self {
            terminal_type: String::from("UNKNOWN"),
            uppercases_terminal_type: false,
            window: (80, 24),
            end_of_line: EndOfLine::CrLf,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// What a server wants of a session.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// What is sent for a CR that no LF follows.
    pub end_of_line: EndOfLine,
    /// Whether [`Telnet::start`] offers and asks, or waits for the other to.
    pub starts_negotiation: bool,
    /// The most bytes of data, as encoded, that wait for the transport.
    pub output_limit_bytes: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            end_of_line: EndOfLine::CrNul,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// The output limit unless the settings say otherwise; ours: a few screenfuls.
const OUTPUT_LIMIT_BYTES: usize = 16 * 1024;

/// What came from the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A run of data, never empty; in NVT it ends at the latest with the line.
    Data(&'a [u8]),
    /// A command.
    Command(Command),
    /// An option was agreed to, or its end was.
    Option {
        /// Who performs it.
        side: Side,
        /// The option.
        option: OptionCode,
        /// Whether it is on now.
        enabled: bool,
    },
    /// The other refused an option that we asked for.
    Refused {
        /// Who would have performed it.
        side: Side,
        /// The option.
        option: OptionCode,
    },
    /// The answer to a timing mark of ours: all that we sent before it has been read (RFC 860).
    TimingMark {
        /// Whether it was WILL. A WONT keeps its place in the stream just as well.
        agreed: bool,
    },
    /// The size of the user's window, for a server. 0 says that it is not known.
    WindowSize {
        /// Characters in a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
    /// The name of the user's terminal, for a server: 1 to 40 graphic ASCII characters.
    TerminalType(String),
    /// The options that the other believes to be on, each with who performs it (RFC 859).
    Status(Vec<(Side, OptionCode)>),
}

/// Why an option was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// This side of this role cannot perform the option.
    NotSupported,
    /// It is as asked already.
    AlreadySo,
    /// The same was asked before and is not answered yet.
    AlreadyAsked,
    /// It must be enabled first.
    NotEnabled,
    /// The output queue is full.
    OutputFull,
}

/// One end of a Telnet connection.
#[derive(Debug)]
pub struct Telnet {
    role: Role,
    end_of_line: EndOfLine,
    starts_negotiation: bool,
    decoder: Decoder,
    synch: Synch,
    options: Options,
    timing_marks_awaited: u16,
    refusals_left: u16,
    output: Output,
}

#[derive(Debug)]
enum Role {
    User { terminal_type: String, window: (u16, u16) },
    Server,
}

impl Telnet {
    /// Makes the end of a user, who sits at a terminal.
    #[must_use]
    pub fn user(settings: &UserSettings) -> Self {
        let in_upper_case = settings.uppercases_terminal_type;
        let terminal_type = options::terminal_name(&settings.terminal_type, in_upper_case);
        let role = Role::User { terminal_type, window: settings.window };
        Self {
            starts_negotiation: settings.starts_negotiation,
            ..Self::new(role, settings.end_of_line, settings.output_limit_bytes)
        }
    }

    /// Makes the end of a server, which echoes and holds the processes.
    #[must_use]
    pub fn server(settings: &ServerSettings) -> Self {
        Self {
            starts_negotiation: settings.starts_negotiation,
            ..Self::new(Role::Server, settings.end_of_line, settings.output_limit_bytes)
        }
    }

    fn new(role: Role, end_of_line: EndOfLine, output_limit_bytes: usize) -> Self {
        Self {
            role,
            end_of_line,
            starts_negotiation: true,
            decoder: Decoder::default(),
            synch: Synch::default(),
            options: Options::default(),
            timing_marks_awaited: 0,
            refusals_left: REFUSALS_LIMIT,
            output: Output::new(output_limit_bytes),
        }
    }

    /// Begins: offers and asks for what the role wants, if the settings say so.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        let wanted = match self.role {
            _ if !self.starts_negotiation => return,
            Role::User { .. } => [
                (Side::Us, OptionCode::TERMINAL_TYPE),
                (Side::Us, OptionCode::NAWS),
                (Side::Him, OptionCode::SUPPRESS_GO_AHEAD),
                (Side::Us, OptionCode::SUPPRESS_GO_AHEAD),
            ],
            Role::Server => [
                (Side::Us, OptionCode::ECHO),
                (Side::Us, OptionCode::SUPPRESS_GO_AHEAD),
                (Side::Him, OptionCode::TERMINAL_TYPE),
                (Side::Him, OptionCode::NAWS),
            ],
        };
        for (side, option) in wanted {
            // What the other was faster to ask for is agreed already.
            _ = self.ask(side, option, true, cx);
        }
    }

    /// Reads the next piece of `input` and moves `input` past it; call until `None`.
    ///
    /// `None` means that all of `input` is read. The input may be cut anywhere between two calls.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        let left = cx.meter.enter(Account::Telnet);
        let event = self.next_event(input, cx);
        cx.meter.enter(left);
        event
    }

    fn next_event<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        loop {
            // He writes as BINARY until he has said WONT himself, whatever we asked.
            let is_binary = self.is_enabled(Side::Him, OptionCode::BINARY);
            let event = match self.decoder.next(input, is_binary)? {
                Item::Data(run) => self.on_data(run, cx),
                Item::Command(code) => self.on_command(code, cx),
                Item::Negotiation(verb, option) => self.on_negotiation(verb, option, cx),
                Item::Subnegotiation => self.on_subnegotiation(cx),
                Item::SubnegotiationTooLong => {
                    cx.meter.count(Counter::TelnetSubnegotiationsTooLong);
                    None
                }
                Item::SubnegotiationWrong => {
                    cx.meter.count(Counter::TelnetSubnegotiationsWrong);
                    None
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Takes the transport's notice that urgent data is ahead: the other sends a Synch.
    ///
    /// Call it before the data is given to [`Telnet::receive`], and again if the transport still
    /// has urgent data ahead after the data mark. Twice before the same data mark is read does no harm.
    pub fn urgent(&mut self) {
        self.synch.urgent();
    }

    /// Takes the transport's word that the urgent data has been read to its end.
    pub fn urgent_ended(&mut self) {
        self.synch.urgent_ended();
    }

    /// Queues `data` from the user, encoded. Returns how many bytes were taken, from the start.
    ///
    /// In NVT a CR becomes what [`EndOfLine`] says, but CR LF stays as it is; in BINARY both do.
    /// What is not taken is counted; offer it again when the transport has taken some output.
    pub fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) -> usize {
        let left = cx.meter.enter(Account::Telnet);
        // RFC 854: what we asked to end has ended in the stream behind our WONT.
        let is_binary = self.is_in_force(Side::Us, OptionCode::BINARY);
        let taken = self.output.put_data(data, (!is_binary).then_some(self.end_of_line));
        cx.meter.work(Work::TelnetByte, taken);
        cx.meter.add(Counter::TelnetOutputRefused, (data.len() - taken) as u64);
        cx.meter.enter(left);
        taken
    }

    /// Queues a command. Returns whether there was room for it.
    ///
    /// [`Command::DataMark`] is a Synch: all that waits, up to itself, becomes urgent data.
    pub fn command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        let has_room = self.put(&[IAC, command.code()], Counter::TelnetCommandsOut, cx);
        if has_room && command == Command::DataMark {
            self.output.mark_urgent();
        }
        has_room
    }

    /// Asks that `side` begin (or end) to perform `option`. The answer comes as an event.
    ///
    /// A timing mark is asked of the other; it is the only option that may be asked for again.
    ///
    /// # Errors
    ///
    /// When there is nothing to ask, and when there is no room for it.
    pub fn ask(
        &mut self,
        side: Side,
        option: OptionCode,
        enable: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        if (side, option, enable) == (Side::Him, OptionCode::TIMING_MARK, true) {
            return self.ask_timing_mark(cx);
        }
        if !self.can_perform(side, option) {
            return Err(AskError::NotSupported);
        }
        let mut state = self.options.state(side, option);
        if let Some(said) = state.ask(enable)?
            && !self.say(side, option, said, cx)
        {
            return Err(AskError::OutputFull);
        }
        self.set_state(side, option, state);
        Ok(())
    }

    /// Asks which options the other believes to be on. The answer comes as [`Event::Status`].
    ///
    /// # Errors
    ///
    /// [`AskError::NotEnabled`] if the other does not perform STATUS; ask for that first.
    pub fn ask_status(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        if !self.is_in_force(Side::Him, OptionCode::STATUS) {
            return Err(AskError::NotEnabled);
        }
        let has_room = self.say_more(OptionCode::STATUS, &options::status_send(), cx);
        if has_room { Ok(()) } else { Err(AskError::OutputFull) }
    }

    /// Takes the new size of the user's window, and tells the other if NAWS is on (RFC 1073).
    pub fn resize(&mut self, columns: u16, rows: u16, cx: &mut Cx<'_>) {
        let Role::User { window, .. } = &mut self.role else { return };
        let is_new = core::mem::replace(window, (columns, rows)) != (columns, rows);
        if is_new && self.is_in_force(Side::Us, OptionCode::NAWS) {
            self.say_more(OptionCode::NAWS, &options::window_size((columns, rows)), cx);
        }
    }

    /// Returns the bytes that wait for the transport.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Returns how many bytes of [`Telnet::output`], from its start, go out as urgent data.
    ///
    /// The last of them is the data mark, which is where the urgent pointer points.
    #[must_use]
    pub fn urgent_mark(&self) -> Option<usize> {
        self.output.urgent()
    }

    /// Takes note that the transport has taken the first `count` bytes of [`Telnet::output`].
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// Returns whether `side` performs `option` now.
    #[must_use]
    pub fn is_enabled(&self, side: Side, option: OptionCode) -> bool {
        self.options.state(side, option).is_enabled()
    }

    /// Returns whether what the user types is to be shown here, because the other will not.
    #[must_use]
    pub fn echoes_locally(&self) -> bool {
        !self.is_enabled(Side::Him, OptionCode::ECHO)
    }

    /// Returns whether all that we asked is answered, but for timing marks and status.
    #[must_use]
    pub fn negotiation_is_quiet(&self) -> bool {
        self.options.is_settled()
    }

    /// Returns whether data is thrown away now, because a Synch is under way.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.synch.is_discarding()
    }

    /// Returns how every known option stands.
    pub fn options(&self) -> impl Iterator<Item = OptionRow> {
        self.options.rows().iter().copied()
    }

    fn on_data<'a>(&mut self, run: &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        cx.meter.work(Work::TelnetByte, run.len());
        let discarded = self.synch.discards(run.len());
        cx.meter.add(Counter::TelnetBytesDiscarded, discarded as u64);
        let run = run.get(discarded..).unwrap_or_default();
        (!run.is_empty()).then_some(Event::Data(run))
    }

    fn on_command(&mut self, code: u8, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let Some(command) = Command::from_code(code) else {
            cx.meter.count(Counter::TelnetCommandsUnknown);
            return None;
        };
        cx.meter.count(Counter::TelnetCommandsIn);
        match command {
            Command::DataMark => self.synch.data_mark(),
            // RFC 854: these two edit the data, and go the way of the data.
            Command::EraseCharacter | Command::EraseLine if self.is_discarding() => return None,
            // RFC 1123 §3.2.4: a server answers AO by Synch, to empty the path to the user.
            Command::AbortOutput if matches!(self.role, Role::Server) => {
                self.command(Command::DataMark, cx);
            }
            _ => {}
        }
        Some(Event::Command(command))
    }

    fn on_negotiation(
        &mut self,
        verb: Verb,
        option: OptionCode,
        cx: &mut Cx<'_>,
    ) -> Option<Event<'static>> {
        cx.meter.count(Counter::TelnetNegotiationsIn);
        if option == OptionCode::TIMING_MARK {
            return self.on_timing_mark(verb, cx);
        }
        let (side, enable) = verb.about();
        let mut state = self.options.state(side, option);
        let step = state.receive(enable, self.can_perform(side, option));
        if step.outcome == Outcome::RefusedByUs {
            self.refuse(side, option, cx);
            return None;
        }
        if let Some(answer) = step.answer
            && !self.say(side, option, answer, cx)
        {
            // No room to answer one who asks and does not read: he was not heard.
            return None;
        }
        self.set_state(side, option, state);
        match step.outcome {
            Outcome::Unchanged | Outcome::RefusedByUs => None,
            Outcome::RefusedByHim => Some(Event::Refused { side, option }),
            Outcome::Disabled => Some(Event::Option { side, option, enabled: false }),
            Outcome::Enabled => {
                self.on_enabled(side, option, cx);
                Some(Event::Option { side, option, enabled: true })
            }
        }
    }

    /// Says what is due as soon as an option is on.
    fn on_enabled(&mut self, side: Side, option: OptionCode, cx: &mut Cx<'_>) {
        if !self.is_in_force(side, option) {
            return;
        }
        match (&self.role, side, option) {
            (Role::User { window, .. }, Side::Us, OptionCode::NAWS) => {
                let content = options::window_size(*window);
                self.say_more(OptionCode::NAWS, &content, cx);
            }
            (Role::Server, Side::Him, OptionCode::TERMINAL_TYPE) => {
                let content = options::terminal_type_send();
                self.say_more(OptionCode::TERMINAL_TYPE, &content, cx);
            }
            _ => {}
        }
    }

    fn refuse(&mut self, side: Side, option: OptionCode, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TelnetOptionsRefused);
        if let Some(left) = self.refusals_left.checked_sub(1) {
            self.refusals_left = left;
            self.say(side, option, false, cx);
        }
    }

    /// Sends DO TIMING-MARK (RFC 860).
    fn ask_timing_mark(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let awaited = self.timing_marks_awaited.checked_add(1).ok_or(AskError::AlreadyAsked)?;
        if !self.say(Side::Him, OptionCode::TIMING_MARK, true, cx) {
            return Err(AskError::OutputFull);
        }
        self.timing_marks_awaited = awaited;
        Ok(())
    }

    /// Takes a word about TIMING-MARK, which marks a place and has no state (RFC 860).
    fn on_timing_mark(&mut self, verb: Verb, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        match verb {
            // All before it has been handed to the caller, whose answers wait before ours.
            Verb::Do => {
                self.say(Side::Us, OptionCode::TIMING_MARK, true, cx);
                None
            }
            Verb::Will | Verb::Wont => {
                // One that nobody asked for means nothing, and an answer could begin a loop.
                self.timing_marks_awaited = self.timing_marks_awaited.checked_sub(1)?;
                Some(Event::TimingMark { agreed: verb == Verb::Will })
            }
            Verb::Dont => None,
        }
    }

    fn on_subnegotiation(&mut self, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let said = self.decoder.subnegotiation().and_then(|(option, content)| {
            let said = Said::parse(option, content)?;
            // Said before the option is agreed to, or after its end, it is not to be answered.
            let is_due = match said.side() {
                Side::Us => self.is_in_force(Side::Us, option),
                Side::Him => self.is_enabled(Side::Him, option),
            };
            is_due.then_some(said)
        });
        match (said, &self.role) {
            (Some(Said::SendTerminalType), Role::User { terminal_type, .. }) => {
                // RFC 1091: with one name, the last one is repeated whenever it is asked for.
                let content = options::terminal_type_is(terminal_type);
                self.say_more(OptionCode::TERMINAL_TYPE, &content, cx);
                None
            }
            (Some(Said::SendStatus), _) => {
                let content = self.options.status();
                self.say_more(OptionCode::STATUS, &content, cx);
                None
            }
            (Some(Said::TerminalType(name)), _) => Some(Event::TerminalType(name)),
            (Some(Said::WindowSize { columns, rows }), _) => {
                Some(Event::WindowSize { columns, rows })
            }
            (Some(Said::Status(enabled)), _) => Some(Event::Status(enabled)),
            (Some(Said::SendTerminalType), Role::Server) | (None, _) => {
                cx.meter.count(Counter::TelnetSubnegotiationsWrong);
                None
            }
        }
    }

    fn can_perform(&self, side: Side, option: OptionCode) -> bool {
        let is_user = matches!(self.role, Role::User { .. });
        options::can_perform(is_user == (side == Side::Us), option)
    }

    /// Returns whether `option` is on and nobody has asked for its end.
    fn is_in_force(&self, side: Side, option: OptionCode) -> bool {
        self.options.state(side, option) == OptionState::Yes
    }

    fn set_state(&mut self, side: Side, option: OptionCode, state: OptionState) {
        if let Some(place) = self.options.state_mut(side, option) {
            *place = state;
        }
    }

    fn say(&mut self, side: Side, option: OptionCode, enable: bool, cx: &mut Cx<'_>) -> bool {
        let verb = Verb::ours(side, enable);
        self.put(&[IAC, verb.code(), option.0], Counter::TelnetNegotiationsOut, cx)
    }

    fn say_more(&mut self, option: OptionCode, content: &[u8], cx: &mut Cx<'_>) -> bool {
        let bytes = output::subnegotiation(option, content);
        self.put(&bytes, Counter::TelnetNegotiationsOut, cx)
    }

    /// Queues `bytes` whole and counts them once; without room, counts what was refused.
    fn put(&mut self, bytes: &[u8], counter: Counter, cx: &mut Cx<'_>) -> bool {
        let has_room = self.output.put(bytes);
        if has_room {
            cx.meter.count(counter);
        } else {
            cx.meter.add(Counter::TelnetOutputRefused, bytes.len() as u64);
        }
        has_room
    }
}
