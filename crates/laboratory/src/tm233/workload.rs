//! Workloads of the two personal computers: typing, displaying text, and echoing.

use net::Cx;
use net::application::Stream;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::{Duration, Instant};
use protocols::telnet::{Event, ServerSettings, Telnet, UserSettings};
use protocols::terminal::Terminal;
use std::collections::VecDeque;

/// A Telnet connection, and the screen on which received data is printed. In every test of the
/// thesis, both ends have a console.
#[derive(Debug)]
pub(super) struct Console {
    telnet: Telnet,
    terminal: Option<Terminal>,
    /// Time at which printing the first character began, not counting control characters.
    pub(super) first_cell_at: Option<Instant>,
    /// Time at which printing the last character so far ended.
    pub(super) last_cell_at: Instant,
    /// Data bytes received.
    pub(super) bytes: usize,
}

impl Console {
    fn new(telnet: Telnet, prints: bool) -> Self {
        Self {
            telnet,
            terminal: prints.then(screen_that_discards_at_end_of_line),
            first_cell_at: None,
            last_cell_at: Instant::ZERO,
            bytes: 0,
        }
    }

    /// Prints received data, and appends each printed run to `answer`.
    fn receive(&mut self, mut data: &[u8], answer: &mut Vec<u8>, cx: &mut Cx<'_>) {
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            // A Telnet server may begin a session with line ends.
            if run.iter().any(u8::is_ascii_graphic) {
                self.first_cell_at.get_or_insert(cx.meter.busy_until());
            }
            if let Some(terminal) = &mut self.terminal {
                terminal.receive(run, cx);
            }
            self.last_cell_at = cx.meter.busy_until();
            self.bytes += run.len();
            answer.extend_from_slice(run);
        }
    }
}

/// Returns a Heath-19 in its power-on state, in which characters beyond the last column overwrite
/// that column.
fn screen_that_discards_at_end_of_line() -> Terminal {
    let mut terminal = Terminal::new(80, 24);
    let mut meter = Meter::new(Clock::None);
    let mut rng = Rng::from_seed(0);
    let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
    terminal.receive(b"\x1b[?7l", &mut cx);
    terminal
}

fn user_telnet() -> Telnet {
    Telnet::user(&UserSettings { starts_negotiation: false, ..UserSettings::default() })
}

fn server_telnet() -> Telnet {
    Telnet::server(&ServerSettings { starts_negotiation: false, ..ServerSettings::default() })
}

/// Activity at one of the computers.
#[derive(Debug)]
enum Activity {
    /// Sends a packet, waits until all of it was echoed and printed, and sends the next one.
    Type { payload: Vec<u8>, wanted: usize, typed_at: Instant, echoed: usize },
    /// Echoes printed data.
    Echo,
    /// Reads and prints data without typing.
    Read,
    /// Sends text, once or (if `repeats`) repeatedly.
    Write { text: Vec<u8>, repeats: bool },
    /// Sends pieces of text, each in a separate packet if the window permits it.
    WritePieces { pieces: VecDeque<Vec<u8>>, is_open: bool, has_just_opened: bool },
}

/// The application on one of the computers.
#[derive(Debug)]
pub(super) struct ScriptedUser {
    pub(super) console: Console,
    activity: Activity,
    /// Time from each typed packet to its echo.
    round_trips: Vec<Duration>,
}

impl ScriptedUser {
    fn new(telnet: Telnet, prints: bool, activity: Activity) -> Self {
        Self { console: Console::new(telnet, prints), activity, round_trips: Vec::new() }
    }

    pub(super) fn typist(payload: Vec<u8>, wanted: usize, prints: bool) -> Self {
        let activity = Activity::Type { payload, wanted, typed_at: Instant::ZERO, echoed: 0 };
        Self::new(user_telnet(), prints, activity)
    }

    pub(super) fn echoer(prints: bool) -> Self {
        Self::new(server_telnet(), prints, Activity::Echo)
    }

    pub(super) fn reader() -> Self {
        Self::new(user_telnet(), true, Activity::Read)
    }

    pub(super) fn writer(text: Vec<u8>, repeats: bool) -> Self {
        Self::new(server_telnet(), false, Activity::Write { text, repeats })
    }

    /// Creates a sender that splits `text` into packets of `packet_bytes`, regardless of the MSS.
    pub(super) fn writer_of_pieces(text: &[u8], packet_bytes: usize) -> Self {
        let pieces = text.chunks(packet_bytes.max(1)).map(<[u8]>::to_vec).collect();
        Self::new(
            server_telnet(),
            false,
            Activity::WritePieces { pieces, is_open: false, has_just_opened: false },
        )
    }

    /// Returns the time from each typed packet to its echo.
    pub(super) fn round_trips(&self) -> &[Duration] {
        &self.round_trips
    }

    /// Returns whether all typed data was echoed.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.activity, Activity::Type { wanted, .. } if self.round_trips.len() == *wanted)
    }

    /// Returns the mean time from a typed packet to its echo.
    pub(super) fn round_trip(&self) -> Duration {
        let count = u32::try_from(self.round_trips.len()).unwrap_or(u32::MAX);
        let total: Duration = self.round_trips.iter().sum();
        total.checked_div(count).unwrap_or_default()
    }

    fn type_packet(&mut self, cx: &mut Cx<'_>) {
        if let Activity::Type { payload, typed_at, .. } = &mut self.activity {
            *typed_at = cx.meter.busy_until().max(cx.now);
            self.console.telnet.send(payload, cx);
        }
    }
}

impl Stream for ScriptedUser {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.type_packet(cx);
        self.run(cx);
        if let Activity::WritePieces { is_open, has_just_opened, .. } = &mut self.activity {
            *is_open = true;
            *has_just_opened = true;
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut printed = Vec::new();
        self.console.receive(data, &mut printed, cx);
        match &mut self.activity {
            Activity::Echo => {
                self.console.telnet.send(&printed, cx);
            }
            Activity::Type { payload, typed_at, echoed, .. } => {
                // Other bytes are not echoes, such as the line ends at the beginning of a session.
                *echoed += printed.iter().filter(|byte| payload.contains(byte)).count();
                if *echoed == payload.len() * (self.round_trips.len() + 1) {
                    self.round_trips.push(self.console.last_cell_at - *typed_at);
                    if !self.is_done() {
                        self.type_packet(cx);
                    }
                }
            }
            Activity::Read | Activity::Write { .. } | Activity::WritePieces { .. } => {}
        }
    }

    fn urgent(&mut self, is_ahead: bool) {
        let telnet = &mut self.console.telnet;
        if is_ahead { telnet.urgent() } else { telnet.urgent_ended() }
    }

    fn output(&self) -> &[u8] {
        self.console.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.console.telnet.sent(count);
        if let Activity::Write { repeats: false, text } = &mut self.activity {
            text.clear();
        }
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if let Activity::Write { text, .. } = &self.activity
            && self.console.telnet.output().is_empty()
        {
            self.console.telnet.send(text, cx);
        }
        if let Activity::WritePieces { pieces, is_open: true, has_just_opened } = &mut self.activity
            // The first piece waits for a separate step. Otherwise it would be sent together with
            // the second piece.
            && !std::mem::take(has_just_opened)
            && self.console.telnet.output().is_empty()
            && let Some(piece) = pieces.pop_front()
        {
            self.console.telnet.send(&piece, cx);
        }
    }

    fn wants_to_run(&self) -> bool {
        // Each piece is sent before the next one is passed to TCP.
        matches!(&self.activity, Activity::WritePieces { pieces, is_open: true, .. }
            if !pieces.is_empty() && self.console.telnet.output().is_empty())
    }
}
