//! Telnet (RFC 854), user and server, over any stream of bytes.
//!
//! Telnet makes two unlike ends talk as two *network virtual terminals*: a keyboard and a printer
//! that know ASCII and end a line by CR LF. Data and commands share one stream; IAC (255) begins
//! a command and is doubled where it is data. A line ends by CR LF, and a CR that ends no line is
//! followed by NUL, which is taken away again. More than that is an *option*, which either side
//! may perform and either may ask for, by WILL, WONT, DO and DONT (`negotiation`). An option exists
//! twice, for us and for him, and each has a state of the Q method (RFC 1143, `q_method`), so that
//! neither crossing requests nor a stubborn peer make a loop. What more is to be said about an
//! option that is on goes between SB and SE (`subnegotiation`), and each option has its own file
//! for that (`option`).
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
//! [`Telnet::sent`] what it took. A server that acknowledges echoes calls [`Telnet::timeout`] at
//! [`Telnet::deadline`]. A session that is opened again begins with a new `Telnet`: nothing that
//! was agreed before holds.
//!
//! What the user's machine holds stays there: only what the settings allow is ever agreed to, and
//! as they are, that is nothing which tells who the user is. AUTHENTICATION, ENCRYPT and all
//! others that are not known are refused, and their subnegotiations skipped unread. Where the
//! option START_TLS is allowed, the engine says when TLS begins, and where MCCP is, at which byte
//! compression does; both lie outside of it (`option/start_tls.rs`, `option/compression.rs`).

mod command;
mod decode;
mod event;
mod inspector;
mod negotiation;
mod option;
mod output;
mod q_method;
mod search;
mod settings;
mod subnegotiation;
mod synch;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod option_tests;
#[cfg(test)]
mod requirements;
#[cfg(test)]
mod tests;

pub use command::{Command, OptionCode, OptionSet, Side, Verb};
pub use event::Event;
pub use inspector::{Direction, Negotiated, Said};
pub use option::OptionRow;
pub use option::charset::CharsetOutcome;
pub use option::com_port::{ComPortCommand, ComPortEvent, Control};
pub use option::compression::{Compressor, DecompressError, Decompressor};
pub use option::environment::EnvironmentVariable;
pub use option::flow_control::FlowControl;
pub use option::gmcp::Gmcp;
pub use option::linemode::{Linemode, LinemodeEvent, LinemodeMode};
pub use option::linemode::{SlcFunction, SlcLevel, SlcTable, SpecialCharacter};
pub use option::msdp::{MsdpValue, MsdpVariable};
pub use option::mssp::MsspVariable;
pub use option::terminal_type::Mtts;
pub use q_method::OptionState;
pub use settings::{EndOfLine, ServerSettings, UserSettings};

use crate::Cx;
use crate::meter::{Account, Counter, Work};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::string::String;
use command::IAC;
use decode::{Decoder, Item};
use inspector::Inspector;
use negotiation::{ANSWERS_MAX, REFUSALS_MAX};
use option::Options;
use option::charset::Charsets;
use option::com_port::ComPort;
use option::echo_acknowledgment::Acknowledger;
use option::environment::{Asked, Told};
use option::start_tls::Progress;
use option::terminal_type::{Asker, Names};
use output::Output;
use synch::Synch;

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
    answers_left: u32,
    output: Output,
    inspector: Inspector,
    // What is remembered of an option lies in its own file.
    charsets: Charsets,
    linemode: Linemode,
    com_port: ComPort,
    tls: Progress,
    /// The option by which we compress.
    compresses_by: Option<OptionCode>,
    /// Whether the other may say that he compresses.
    awaits_compression: bool,
    acknowledger: Acknowledger,
}

#[derive(Debug)]
enum Role {
    User(Box<User>),
    Server(Box<Server>),
}

/// What a user has to tell.
#[derive(Debug)]
struct User {
    names: Names,
    window: (u16, u16),
    speed: (u32, u32),
    display: String,
    environment: Told,
}

/// What a server asks for.
#[derive(Debug)]
struct Server {
    terminal_types: Asker,
    environment: Asked,
}

impl Telnet {
    /// Makes the end of a user, who sits at a terminal.
    #[must_use]
    pub fn user(settings: &UserSettings) -> Self {
        let UserSettings { terminal_type, other_terminal_types: others, mtts, .. } = settings;
        let in_upper_case = settings.uppercases_terminal_type;
        let user = User {
            names: Names::new(terminal_type, others, in_upper_case, mtts.as_ref()),
            window: settings.window,
            speed: settings.terminal_speed,
            display: settings.display.clone(),
            environment: Told::new(&settings.environment),
        };
        let charsets = Charsets::new(&settings.charsets, false);
        // An empty display is nothing to tell.
        let allows = match settings.display.as_str() {
            "" => settings.allows.without(OptionCode::X_DISPLAY_LOCATION),
            _ => settings.allows,
        };
        Self {
            end_of_line: settings.end_of_line,
            starts_negotiation: settings.starts_negotiation,
            output: Output::new(settings.output_limit_bytes),
            ..Self::new(Role::User(Box::new(user)), allows, charsets)
        }
    }

    /// Makes the end of a server, which echoes and holds the processes.
    #[must_use]
    pub fn server(settings: &ServerSettings) -> Self {
        let server = Server {
            terminal_types: Asker::new(settings.terminal_types_max),
            environment: Asked::new(&settings.environment),
        };
        let charsets = Charsets::new(&settings.charsets, true);
        Self {
            end_of_line: settings.end_of_line,
            starts_negotiation: settings.starts_negotiation,
            output: Output::new(settings.output_limit_bytes),
            decoder: Decoder::new(settings.allows, settings.hears_lines_as_cr),
            ..Self::new(Role::Server(Box::new(server)), settings.allows, charsets)
        }
    }

    fn new(role: Role, allows: OptionSet, charsets: Charsets) -> Self {
        let is_user = matches!(role, Role::User(_));
        Self {
            role,
            end_of_line: EndOfLine::default(),
            starts_negotiation: true,
            decoder: Decoder::new(allows, false),
            synch: Synch::default(),
            options: Options::new(is_user, allows),
            timing_marks_awaited: 0,
            refusals_left: REFUSALS_MAX,
            answers_left: ANSWERS_MAX,
            output: Output::new(0),
            inspector: Inspector::default(),
            charsets,
            linemode: Linemode::new(is_user),
            com_port: ComPort::new(is_user),
            tls: Progress::Clear,
            compresses_by: None,
            awaits_compression: false,
            acknowledger: Acknowledger::default(),
        }
    }

    /// Reads the next piece of `input` and moves `input` past it; call until `None`.
    ///
    /// `None` means that all of `input` is read. The input may be cut anywhere between two calls.
    /// Behind [`Event::StartTls`] nothing is read any more, and what is left is not Telnet; behind
    /// [`Event::CompressionStarted`] what is left is compressed.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        // TLS is nothing that could be read here.
        if self.tls == Progress::Started {
            return None;
        }
        let left = cx.meter.enter(Account::Telnet);
        let event = self.next_event(input, cx);
        cx.meter.enter(left);
        event
    }

    fn next_event<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        loop {
            // He writes as BINARY until he has said WONT himself, whatever we asked.
            let is_binary = self.is_enabled(Side::Him, OptionCode::BINARY);
            let item = self.decoder.next(input, is_binary);
            let joined = self.decoder.take_joined();
            if joined > 0 {
                self.acknowledger.hand(joined, cx.now);
            }
            let item = item?;
            if self.tls == Progress::WeFollow && item != Item::Subnegotiation {
                cx.meter.count(Counter::TelnetItemsBeforeTls);
                continue;
            }
            let event = match item {
                // Most of what comes is data, and goes out by the shortest way.
                Item::Data(run) => match self.on_data(run, cx) {
                    Some(run) => return Some(Event::Data(run)),
                    None => continue,
                },
                Item::Command(code) => self.on_command(code, cx),
                Item::Negotiation(verb, option) => self.on_negotiation(verb, option, cx),
                Item::Subnegotiation => self.on_subnegotiation(cx),
                Item::SubnegotiationTooLong => {
                    cx.meter.count(Counter::TelnetSubnegotiationsTooLong);
                    if let Some((option, _)) = self.decoder.subnegotiation() {
                        self.inspect(Direction::Received, || Said::Skipped(option), cx);
                    }
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
        if self.tls != Progress::Clear {
            cx.meter.add(Counter::TelnetOutputRefused, data.len() as u64);
            return 0;
        }
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
        if has_room {
            self.inspect(Direction::Sent, || Said::Command(command), cx);
        }
        if has_room && command == Command::DataMark {
            self.output.mark_urgent();
        }
        has_room
    }

    /// Queues a command followed by a Synch, whose data mark ends the urgent data (RFC 1123
    /// §3.2.4): the peer acts on the command without reading the data that precedes it. Returns
    /// whether there was room for both.
    pub fn urgent_command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        let mark = Command::DataMark;
        let bytes = [IAC, command.code(), IAC, mark.code()];
        let has_room = self.put(&bytes, Counter::TelnetCommandsOut, cx);
        if has_room {
            self.inspect(Direction::Sent, || Said::Command(command), cx);
            self.inspect(Direction::Sent, || Said::Command(mark), cx);
            self.output.mark_urgent();
        }
        has_room
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

    /// Returns whether the output, up to [`Telnet::output_turn`], is to go through a compressor.
    #[must_use]
    pub fn output_is_compressed(&self) -> bool {
        self.output.is_compressed()
    }

    /// Returns how many bytes of [`Telnet::output`] there are until compression begins or ends.
    ///
    /// Where it ends, the compressor's stream is to be finished before more is sent.
    #[must_use]
    pub fn output_turn(&self) -> Option<usize> {
        self.output.turn()
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

    /// Returns what is agreed about the editing of lines, if LINEMODE is on (RFC 1184).
    #[must_use]
    pub fn linemode(&self) -> Option<&Linemode> {
        let side = if self.is_user() { Side::Us } else { Side::Him };
        self.is_enabled(side, OptionCode::LINEMODE).then_some(&self.linemode)
    }

    /// Returns whether the other wants us to send no data for now (RFC 2217).
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.com_port.is_suspended()
    }

    /// Returns how many bytes of data were sent, as [`Event::EchoAcknowledged`] counts them.
    #[must_use]
    pub fn sent_position(&self) -> u64 {
        self.output.data_position()
    }

    /// Returns when [`Telnet::timeout`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.acknowledger.deadline()
    }

    /// Takes note that time has passed: acknowledges what had time to be echoed.
    ///
    /// Call it when all that the application has to say is given to [`Telnet::send`].
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(content) = self.acknowledger.due(cx.now) else { return };
        if self.is_in_force(Side::Us, OptionCode::ECHO_ACKNOWLEDGMENT) {
            self.say_more(OptionCode::ECHO_ACKNOWLEDGMENT, &content, cx);
        }
    }

    /// Has runs of data go on behind the end of a line, for who does no more than show them.
    pub fn run_over_lines(&mut self) {
        self.decoder.run_over_lines();
    }

    /// Begins or ends to keep records of what is negotiated.
    pub fn set_inspection(&mut self, is_on: bool) {
        self.inspector.set(is_on);
    }

    /// Returns the oldest record that was not taken; call until `None`.
    pub fn inspected(&mut self) -> Option<Negotiated> {
        self.inspector.take()
    }

    fn on_data<'a>(&mut self, run: &'a [u8], cx: &mut Cx<'_>) -> Option<&'a [u8]> {
        cx.meter.work(Work::TelnetByte, run.len());
        self.acknowledger.hand(run.len(), cx.now);
        let discarded = self.synch.discards(run.len());
        cx.meter.add(Counter::TelnetBytesDiscarded, discarded as u64);
        let run = run.get(discarded..).unwrap_or_default();
        (!run.is_empty()).then_some(run)
    }

    fn on_command(&mut self, code: u8, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let Some(command) = Command::from_code(code) else {
            cx.meter.count(Counter::TelnetCommandsUnknown);
            self.inspect(Direction::Received, || Said::UnknownCommand(code), cx);
            return None;
        };
        cx.meter.count(Counter::TelnetCommandsIn);
        self.inspect(Direction::Received, || Said::Command(command), cx);
        match command {
            Command::DataMark => self.synch.data_mark(),
            // RFC 854: these two edit the data, and go the way of the data.
            Command::EraseCharacter | Command::EraseLine if self.is_discarding() => return None,
            // RFC 858: once it was agreed to suppress it, GA is no operation.
            Command::GoAhead if self.is_enabled(Side::Him, OptionCode::SUPPRESS_GO_AHEAD) => {
                return None;
            }
            // RFC 1123 §3.2.4: a server answers AO by Synch, to empty the path to the user.
            Command::AbortOutput if !self.is_user() => {
                self.command(Command::DataMark, cx);
            }
            _ => {}
        }
        Some(Event::Command(command))
    }

    fn is_user(&self) -> bool {
        matches!(self.role, Role::User(_))
    }

    /// Queues `bytes` whole and counts them once; without room, counts what was refused.
    fn put(&mut self, bytes: &[u8], counter: Counter, cx: &mut Cx<'_>) -> bool {
        // What we said last in clear was that TLS follows.
        let has_room = self.tls == Progress::Clear && self.output.put(bytes);
        if has_room {
            cx.meter.count(counter);
        } else {
            cx.meter.add(Counter::TelnetOutputRefused, bytes.len() as u64);
        }
        has_room
    }

    /// Keeps a record, if anybody wants one.
    fn inspect(&mut self, direction: Direction, said: impl FnOnce() -> Said, cx: &mut Cx<'_>) {
        if self.inspector.is_on() && self.inspector.record(direction, said()) {
            cx.meter.count(Counter::TelnetRecordsDropped);
        }
    }
}
