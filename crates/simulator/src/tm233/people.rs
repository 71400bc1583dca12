//! Who uses the two personal computers: one who types, one who shows text, and those who answer.

use protocols::Cx;
use protocols::application::Stream;
use protocols::application::telnet::{Event, ServerSettings, Telnet, UserSettings};
use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::terminal::Terminal;
use protocols::time::Instant;

/// A Telnet with a screen: what every test of the thesis has at both ends.
#[derive(Debug)]
pub(super) struct Console {
    telnet: Telnet,
    terminal: Option<Terminal>,
    /// When the first byte began to be printed.
    pub(super) first_cell_at: Option<Instant>,
    /// When the last byte so far was printed.
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

    /// Prints what comes; gives each run to `answer` as well.
    fn receive(&mut self, mut data: &[u8], answer: &mut Vec<u8>, cx: &mut Cx<'_>) {
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            self.first_cell_at.get_or_insert(cx.meter.busy_until());
            if let Some(terminal) = &mut self.terminal {
                terminal.receive(run, cx);
            }
            self.last_cell_at = cx.meter.busy_until();
            self.bytes += run.len();
            answer.extend_from_slice(run);
        }
    }
}

/// A Heath-19 as it is switched on: what goes beyond the last column stays in it.
fn screen_that_discards_at_end_of_line() -> Terminal {
    let mut terminal = Terminal::new(80, 24);
    let (mut meter, mut chance) = (Meter::new(Clock::None), Chance::from_seed(0));
    let mut cx = Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter };
    terminal.receive(b"\x1b[?7l", &mut cx);
    terminal
}

fn user_telnet() -> Telnet {
    Telnet::user(&UserSettings { starts_negotiation: false, ..UserSettings::default() })
}

fn server_telnet() -> Telnet {
    Telnet::server(&ServerSettings { starts_negotiation: false, ..ServerSettings::default() })
}

/// Sends a packet, waits until all of it has come back and is printed, and sends the next.
#[derive(Debug)]
pub(super) struct Typist {
    console: Console,
    payload: Vec<u8>,
    wanted: usize,
    typed_at: Instant,
    /// Time from each packet to its echo, in nanoseconds.
    pub(super) round_trips_ns: Vec<u64>,
}

impl Typist {
    pub(super) fn new(payload: Vec<u8>, wanted: usize, prints: bool) -> Self {
        let console = Console::new(user_telnet(), prints);
        Self { console, payload, wanted, typed_at: Instant::ZERO, round_trips_ns: Vec::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.round_trips_ns.len() == self.wanted
    }

    fn strike(&mut self, cx: &mut Cx<'_>) {
        self.typed_at = cx.meter.busy_until().max(cx.now);
        self.console.telnet.send(&self.payload, cx);
    }
}

impl Stream for Typist {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.strike(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.console.receive(data, &mut Vec::new(), cx);
        if self.console.bytes < self.payload.len() * (self.round_trips_ns.len() + 1) {
            return;
        }
        let round_trip = self.console.last_cell_at - self.typed_at;
        self.round_trips_ns.push(u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX));
        if !self.is_done() {
            self.strike(cx);
        }
    }

    fn urgent(&mut self, is_ahead: bool) {
        told_of_urgent(&mut self.console.telnet, is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.console.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.console.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// Prints what comes and sends it back.
#[derive(Debug)]
pub(super) struct Echoer {
    console: Console,
}

impl Echoer {
    pub(super) fn new(prints: bool) -> Self {
        Self { console: Console::new(server_telnet(), prints) }
    }
}

impl Stream for Echoer {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut answer = Vec::new();
        self.console.receive(data, &mut answer, cx);
        self.console.telnet.send(&answer, cx);
    }

    fn urgent(&mut self, is_ahead: bool) {
        told_of_urgent(&mut self.console.telnet, is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.console.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.console.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// Prints what comes, and types nothing.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) console: Console,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { console: Console::new(user_telnet(), true) }
    }
}

impl Stream for Reader {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.console.receive(data, &mut Vec::new(), cx);
    }

    fn urgent(&mut self, is_ahead: bool) {
        told_of_urgent(&mut self.console.telnet, is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.console.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.console.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// Sends text: `text` once, or again whenever all of it has gone.
#[derive(Debug)]
pub(super) struct Writer {
    telnet: Telnet,
    text: Vec<u8>,
    repeats: bool,
}

impl Writer {
    pub(super) fn new(text: Vec<u8>, repeats: bool) -> Self {
        Self { telnet: server_telnet(), text, repeats }
    }
}

impl Stream for Writer {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.telnet.send(&self.text, cx);
    }

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        while self.telnet.receive(&mut data, cx).is_some() {}
    }

    fn urgent(&mut self, is_ahead: bool) {
        told_of_urgent(&mut self.telnet, is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.repeats && self.telnet.output().is_empty() {
            self.telnet.send(&self.text, cx);
        }
    }
}

fn told_of_urgent(telnet: &mut Telnet, is_ahead: bool) {
    if is_ahead { telnet.urgent() } else { telnet.urgent_ended() }
}
