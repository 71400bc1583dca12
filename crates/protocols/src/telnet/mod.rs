//! Telnet (RFC 854), user and server, over any stream of bytes.
//!
//! Telnet lets two different systems communicate as two *network virtual terminals* (NVT): a
//! keyboard and a printer that use ASCII and end a line with CR LF. Data and commands share one
//! stream; IAC (255) begins a command and is doubled as data. A CR that does not end a line is
//! followed by NUL, which the receiver removes. Everything else is an *option*. Either side may
//! perform an option, and either side may request it with WILL, WONT, DO or DONT (`negotiation`).
//! Each option exists once per side (us and him in RFC 1143). Its state follows the Q method
//! (`q_method`), so neither crossing requests nor a misbehaving peer cause a loop. The parameters
//! of an enabled option are sent between SB and SE (`subnegotiation`). Each option with parameters
//! has its own file (`option`).
//!
//! ```text
//!               input ──► decode ──► Data, in runs borrowed from the input ──► user
//!                           │  ├───► Command, DM ends a Synch (`synch`)
//!                           │  └───► negotiation, subnegotiation ──► options
//!   output ◄── queue ◄──────┴──────────── answers ◄────────────────────┘
//!                ▲ send: IAC doubled, ends of line
//! ```
//!
//! Call [`Telnet::start`] once when the connection is established. For received data, call
//! [`Telnet::urgent`] if the transport reports urgent data, [`Telnet::receive`] until it returns
//! `None`, and [`Telnet::urgent_ended`] if the urgent data has been read. Then pass
//! [`Telnet::output`] to the transport in one piece, so that answers and echoed data share a
//! segment, and report the accepted bytes with [`Telnet::sent`]. A server that acknowledges echoes
//! calls [`Telnet::timeout`] at [`Telnet::deadline`]. A new connection needs a new `Telnet`: no
//! earlier agreement persists.
//!
//! Information about the user's machine is not disclosed: the engine agrees only to options that
//! the settings allow. The options that are allowed by default do not identify the user.
//! AUTHENTICATION, ENCRYPT and all unknown options are refused, and their subnegotiations are
//! skipped. If START_TLS or MCCP is allowed, the engine reports the byte at which TLS or
//! compression begins. TLS and compression themselves are outside the engine
//! (`option/start_tls.rs`, `option/compression.rs`).

mod ask_error;
mod command;
mod decode;
mod inspector;
mod negotiation;
mod option;
mod output;
mod q_method;
mod requests;
mod search;
mod settings_and_events;
mod subnegotiation;
mod synch;

#[cfg(test)]
mod option_tests;
#[cfg(test)]
mod requirements;
#[cfg(test)]
mod subnegotiation_tests;
#[cfg(test)]
mod telnet_attacks;
#[cfg(test)]
mod tests;

pub use ask_error::AskError;
pub use command::{Command, OptionCode, OptionSet, Side, Verb};
pub use inspector::{Direction, InspectionRecord, RecordContent};
pub use option::OptionRow;
pub use option::com_port::{ComPortCommand, ComPortEvent, Control};
pub use option::compression::{Compressor, DecompressError, Decompressor};
pub use option::linemode::{Linemode, LinemodeMode};
pub use option::linemode::{SlcFunction, SlcLevel, SlcTable, SpecialCharacter};
pub use q_method::OptionState;
pub use settings_and_events::{CharsetOutcome, EndOfLine, EnvironmentVariable, Event, FlowControl};
pub use settings_and_events::{LinemodeEvent, Mtts, ServerSettings, UserSettings};

use command::IAC;
use decode::{Decoder, Item};
use inspector::Inspector;
use net::Cx;
use net::meter::{Account, Counter, Work};
use net::time::Instant;
use option::Options;
use option::start_tls::Progress;
use output::Output;
use settings_and_events::Settings;
use synch::Synch;

/// Maximum number of refusals sent in one session (our choice).
///
/// Every option can be offered and requested twice within this limit. The Q method ends every loop
/// except one: a peer may repeat a refused request indefinitely. After this number of refusals,
/// such requests are not answered.
const REFUSALS_MAX: u16 = 1024;

/// Maximum number of answers sent in one session, including refusals (our choice).
///
/// If two ends disagree about the state of an option while their commands cross, they can enable
/// and disable the option indefinitely. Two ends that use the Q method never disagree, but not all
/// peers use it.
const ANSWERS_MAX: u32 = 1 << 16;

/// One end of a Telnet connection.
#[derive(Debug)]
pub struct Telnet {
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
}

impl Telnet {
    /// Creates the user's end, which has the terminal.
    #[must_use]
    pub fn user(settings: &UserSettings) -> Self {
        Self {
            end_of_line: settings.end_of_line,
            starts_negotiation: settings.starts_negotiation,
            output: Output::new(settings.output_limit_bytes),
            ..Self::new(Settings::User(settings), false)
        }
    }

    /// Creates the server's end, which echoes and runs the processes.
    #[must_use]
    pub fn server(settings: &ServerSettings) -> Self {
        Self {
            end_of_line: settings.end_of_line,
            starts_negotiation: settings.starts_negotiation,
            output: Output::new(settings.output_limit_bytes),
            ..Self::new(Settings::Server(settings), settings.newline_to_cr)
        }
    }

    fn new(settings: Settings<'_>, decodes_cr_lf_as_cr: bool) -> Self {
        let options = Options::new(settings);
        Self {
            end_of_line: EndOfLine::default(),
            starts_negotiation: true,
            decoder: Decoder::new(options.allowed(), decodes_cr_lf_as_cr),
            synch: Synch::default(),
            options,
            timing_marks_awaited: 0,
            refusals_left: REFUSALS_MAX,
            answers_left: ANSWERS_MAX,
            output: Output::new(0),
            inspector: Inspector::default(),
        }
    }

    /// Processes the next piece of `input` and advances `input` past it; call until `None`.
    ///
    /// `None` means that all of `input` is consumed. The input may be split at any position between
    /// two calls. After [`Event::StartTls`] the engine reads nothing more, and the rest is not
    /// Telnet; after [`Event::CompressionStarted`] the rest is compressed.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        // TLS data cannot be parsed here.
        if self.tls() == Progress::Started {
            return None;
        }
        let previous_account = cx.meter.enter(Account::Telnet);
        let event = self.next_event(input, cx);
        cx.meter.enter(previous_account);
        event
    }

    fn next_event<'a>(&mut self, input: &mut &'a [u8], cx: &mut Cx<'_>) -> Option<Event<'a>> {
        loop {
            // The peer sends BINARY until it has sent WONT, even if the local end has already sent
            // DONT.
            let is_binary = self.is_enabled(Side::Remote, OptionCode::BINARY);
            let item = self.decoder.next(input, is_binary);
            let omitted_lfs = self.decoder.take_omitted_lfs();
            if omitted_lfs > 0 {
                self.options.handlers.echo_acknowledgment.record_passed(omitted_lfs, cx.now);
            }
            let item = item?;
            if self.tls() == Progress::FollowsSent && item != Item::Subnegotiation {
                cx.meter.count(Counter::TelnetItemsBeforeTls);
                continue;
            }
            let event = match item {
                // Most input is data and takes the shortest path.
                Item::Data(run) => match self.on_data(run, cx) {
                    Some(run) => return Some(Event::Data(run)),
                    None => continue,
                },
                Item::NulAfterCr if self.synch.is_discarding() => None,
                Item::NulAfterCr => Some(Event::NulAfterCr),
                Item::Command(code) => self.on_command(code, cx),
                Item::Negotiation(verb, option) => self.on_negotiation(verb, option, cx),
                Item::Subnegotiation => self.on_subnegotiation(cx),
                Item::SubnegotiationTooLong => {
                    cx.meter.count(Counter::TelnetSubnegotiationsTooLong);
                    if let Some((option, _)) = self.decoder.subnegotiation() {
                        self.inspect(Direction::Received, || RecordContent::Skipped(option), cx);
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

    /// Reports that the transport has announced urgent data: the peer sends a Synch.
    ///
    /// Call it before passing the data to [`Telnet::receive`], and again if the transport still
    /// announces urgent data after the data mark. Repeated calls before the same data mark have no
    /// effect.
    pub fn urgent(&mut self) {
        self.synch.urgent();
    }

    /// Reports that all urgent data has been read.
    pub fn urgent_ended(&mut self) {
        self.synch.urgent_ended();
    }

    /// Encodes and queues `data` from the user. Returns the number of accepted bytes, counted from
    /// the start of `data`.
    ///
    /// In NVT a CR is sent as specified by [`EndOfLine`], but CR LF is unchanged; in BINARY both
    /// are unchanged. Rejected bytes are counted; offer them again when the transport has accepted
    /// some output.
    pub fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) -> usize {
        if self.output.is_closed() {
            cx.meter.add(Counter::TelnetOutputRefused, data.len() as u64);
            return 0;
        }
        let previous_account = cx.meter.enter(Account::Telnet);
        // RFC 854: an option that the local end disables is in effect until its WONT in the stream.
        let is_binary = self.is_in_force(Side::Local, OptionCode::BINARY);
        let accepted_len = self.output.put_data(data, (!is_binary).then_some(self.end_of_line));
        cx.meter.work(Work::TelnetByte, accepted_len);
        cx.meter.add(Counter::TelnetOutputRefused, (data.len() - accepted_len) as u64);
        cx.meter.enter(previous_account);
        accepted_len
    }

    /// Selects whether the data is the content of files instead of text. This matters only without
    /// BINARY: each CR is then sent as CR NUL, also before LF, no write ends with NUL, and a received
    /// NUL after CR is reported as [`Event::NulAfterCr`].
    pub fn set_file_content(&mut self, is_on: bool) {
        self.output.set_file_content(is_on);
        self.decoder.report_nul_after_cr(is_on);
    }

    /// Queues a command. Returns whether the command fit into the queue.
    ///
    /// [`Command::DataMark`] is sent as a Synch: all queued bytes up to and including the data mark
    /// become urgent data.
    pub fn command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        let has_room = self.put(&[IAC, command.code()], Counter::TelnetCommandsOut, cx);
        if has_room {
            self.inspect(Direction::Sent, || RecordContent::Command(command), cx);
        }
        if has_room && command == Command::DataMark {
            self.output.mark_urgent();
        }
        has_room
    }

    /// Queues a command followed by a Synch, whose data mark ends the urgent data (RFC 1123
    /// §3.2.4): the peer acts on the command without reading the data that precedes it. Returns
    /// whether both fit into the queue.
    pub fn urgent_command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        let mark = Command::DataMark;
        let bytes = [IAC, command.code(), IAC, mark.code()];
        let has_room = self.put(&bytes, Counter::TelnetCommandsOut, cx);
        if has_room {
            self.inspect(Direction::Sent, || RecordContent::Command(command), cx);
            self.inspect(Direction::Sent, || RecordContent::Command(mark), cx);
            self.output.mark_urgent();
        }
        has_room
    }

    /// Returns the bytes that are queued for the transport. The content of files without BINARY is
    /// divided into several outputs.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.next_write()
    }

    /// Returns the number of bytes that are queued for the transport.
    #[must_use]
    pub fn queued_len(&self) -> usize {
        self.output.queued().len()
    }

    /// Returns how many bytes from the start of [`Telnet::output`] are sent as urgent data.
    ///
    /// The last urgent byte is the data mark, to which the urgent pointer points.
    #[must_use]
    pub fn urgent_mark(&self) -> Option<usize> {
        self.output.urgent()
    }

    /// Returns whether the first [`Telnet::compression_boundary`] bytes of the output must be
    /// compressed.
    #[must_use]
    pub fn output_is_compressed(&self) -> bool {
        self.output.is_compressed()
    }

    /// Returns how many bytes of [`Telnet::output`] precede the next position at which compression
    /// starts or ends.
    ///
    /// At the end of compression, finish the compressor's stream before sending more.
    #[must_use]
    pub fn compression_boundary(&self) -> Option<usize> {
        self.output.compression_boundary()
    }

    /// Removes `count` bytes that the transport has accepted from the start of [`Telnet::output`].
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// Returns whether `side` currently performs `option`.
    #[must_use]
    pub fn is_enabled(&self, side: Side, option: OptionCode) -> bool {
        self.options.state(side, option).is_enabled()
    }

    /// Returns whether typed characters are to be echoed locally, because the peer does not echo.
    #[must_use]
    pub fn echoes_locally(&self) -> bool {
        !self.is_enabled(Side::Remote, OptionCode::ECHO)
    }

    /// Returns whether all requests have been answered, except requests for timing marks and
    /// status.
    #[must_use]
    pub fn negotiation_is_quiet(&self) -> bool {
        self.options.is_settled()
    }

    /// Returns whether data is being discarded because of a Synch.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.synch.is_discarding()
    }

    /// Returns the state of every known option.
    pub fn options(&self) -> impl Iterator<Item = OptionRow> {
        self.options.rows().iter().copied()
    }

    /// Returns the agreed parameters of line editing, if LINEMODE is enabled (RFC 1184).
    #[must_use]
    pub fn linemode(&self) -> Option<&Linemode> {
        let is_enabled = self.is_enabled(self.users_side(), OptionCode::LINEMODE);
        is_enabled.then_some(&self.options.handlers.linemode)
    }

    /// Returns whether the peer has asked the local end to stop sending data (RFC 2217).
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.options.handlers.com_port.is_suspended()
    }

    /// Returns the number of data bytes sent, which is comparable with [`Event::EchoAcknowledged`].
    #[must_use]
    pub fn sent_position(&self) -> u64 {
        self.output.data_position()
    }

    /// Returns when [`Telnet::timeout`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.options.handlers.echo_acknowledgment.deadline()
    }

    /// Handles expired timers: acknowledges data whose echo is complete.
    ///
    /// Call it after passing all output of the application to [`Telnet::send`].
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let option = &mut self.options.handlers.echo_acknowledgment;
        let Some(content) = option.take_due(cx.now) else { return };
        if self.is_in_force(Side::Local, OptionCode::ECHO_ACKNOWLEDGMENT) {
            self.send_subnegotiation(OptionCode::ECHO_ACKNOWLEDGMENT, &content, cx);
        }
    }

    /// Lets runs of data continue after a line end, for a caller that only displays text.
    pub fn run_over_lines(&mut self) {
        self.decoder.run_over_lines();
    }

    /// Turns the recording of negotiations on or off.
    pub fn set_inspection(&mut self, is_on: bool) {
        self.inspector.set_on(is_on);
    }

    /// Returns the oldest record that was not read yet; call until `None`.
    pub fn take_record(&mut self) -> Option<InspectionRecord> {
        self.inspector.take()
    }

    fn on_data<'a>(&mut self, run: &'a [u8], cx: &mut Cx<'_>) -> Option<&'a [u8]> {
        cx.meter.work(Work::TelnetByte, run.len());
        self.options.handlers.echo_acknowledgment.record_passed(run.len(), cx.now);
        let discarded_len = self.synch.count_discarded(run.len());
        cx.meter.add(Counter::TelnetBytesDiscarded, discarded_len as u64);
        let run = run.get(discarded_len..).unwrap_or_default();
        (!run.is_empty()).then_some(run)
    }

    fn on_command(&mut self, code: u8, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let Some(command) = Command::from_code(code) else {
            cx.meter.count(Counter::TelnetCommandsUnknown);
            self.inspect(Direction::Received, || RecordContent::UnknownCommand(code), cx);
            return None;
        };
        cx.meter.count(Counter::TelnetCommandsIn);
        self.inspect(Direction::Received, || RecordContent::Command(command), cx);
        match command {
            Command::DataMark => self.synch.data_mark(),
            // RFC 854: EC and EL edit the data, so they are discarded together with the data.
            Command::EraseCharacter | Command::EraseLine if self.is_discarding() => return None,
            // RFC 858: with SUPPRESS-GO-AHEAD in effect, GA is no operation.
            Command::GoAhead if self.is_enabled(Side::Remote, OptionCode::SUPPRESS_GO_AHEAD) => {
                return None;
            }
            // RFC 1123 §3.2.4: a server answers AO with a Synch, which discards the output in
            // transit to the user.
            Command::AbortOutput if !self.is_user() => {
                self.command(Command::DataMark, cx);
            }
            _ => {}
        }
        Some(Event::Command(command))
    }

    fn is_user(&self) -> bool {
        self.options.is_user()
    }

    fn users_side(&self) -> Side {
        if self.is_user() { Side::Local } else { Side::Remote }
    }

    /// Returns the progress of the switch to TLS.
    fn tls(&self) -> Progress {
        self.options.handlers.start_tls.progress()
    }

    /// Queues `bytes` completely and counts them once; if they do not fit, counts them as rejected.
    fn put(&mut self, bytes: &[u8], counter: Counter, cx: &mut Cx<'_>) -> bool {
        self.output.put_counted(bytes, counter, cx)
    }

    /// Adds a record if the inspector is on.
    fn inspect(
        &mut self,
        direction: Direction,
        content: impl FnOnce() -> RecordContent,
        cx: &mut Cx<'_>,
    ) {
        self.inspector.record(direction, content, cx);
    }
}
