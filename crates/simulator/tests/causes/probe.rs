//! The client: logs in, types keys, requests screenfuls and files, and records arrival times.

use net::Cx;
use net::application::Stream;
use net::meter::Work;
use net::time::{Duration, Instant};
use protocols::terminal::Terminal;
use records::verdict::Arrival;

/// A stage of the probe; the stages are executed in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Prompt,
    /// A TLS handshake; the value is the computing time of the client.
    Tls(Duration),
    Login,
    /// A number of keys, each typed after the echo of the previous one.
    Echo(usize),
    /// A number of keys, typed at a constant rate.
    Train(usize),
    Screenful,
    /// A file transfer during which keys are typed.
    Load {
        bytes: usize,
    },
    Download {
        bytes: usize,
    },
    Upload {
        bytes: usize,
    },
    Done,
}

/// Results of a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageResult {
    pub(crate) began: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    pub(crate) keys_ns: Vec<u64>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Probe {
    stages: Vec<Stage>,
    at: usize,
    pub(crate) results: Vec<StageResult>,
    output: Vec<u8>,
    terminal: Terminal,
    typed_at: Vec<Instant>,
    echoed: usize,
    next_at: Option<Instant>,
    is_open: bool,
    wants_to_run: bool,
}

/// Interval between two keys, so long that no packet of the first key is in flight any more.
const IDLE_KEY_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two keys of a fast typist.
pub(crate) const FAST_KEY_INTERVAL: Duration = Duration::from_millis(60);

impl Probe {
    pub(crate) fn new(stages: Vec<Stage>) -> Self {
        let results = vec![StageResult::default(); stages.len() + 1];
        Self {
            stages,
            at: 0,
            results,
            output: Vec::new(),
            terminal: Terminal::new(80, 24),
            typed_at: Vec::new(),
            echoed: 0,
            next_at: None,
            is_open: false,
            wants_to_run: false,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stages.get(self.at).copied().unwrap_or(Stage::Done)
    }

    pub(crate) fn index(&self) -> usize {
        self.at
    }

    pub(crate) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    fn current(&mut self) -> &mut StageResult {
        &mut self.results[self.at]
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        let now = cx.meter.busy_until().max(cx.now);
        self.current().began = Some(now);
        self.typed_at = Vec::new();
        self.echoed = 0;
        self.next_at = None;
        match self.stage() {
            Stage::Prompt | Stage::Done => {}
            Stage::Tls(_) => self.output.push(b'h'),
            Stage::Login => self.output.push(b'n'),
            Stage::Echo(_) | Stage::Train(_) => self.type_key(now),
            Stage::Screenful => self.output.push(b's'),
            Stage::Load { bytes } => {
                self.announce(b'd', bytes);
                self.next_at = Some(now + FAST_KEY_INTERVAL);
            }
            Stage::Download { bytes } => self.announce(b'd', bytes),
            Stage::Upload { bytes } => {
                self.announce(b'u', bytes);
                self.output.resize(5 + bytes, b'.');
            }
        }
        self.wants_to_run = true;
    }

    fn announce(&mut self, command: u8, bytes: usize) {
        self.output.push(command);
        self.output.extend(u32::try_from(bytes).unwrap().to_be_bytes());
    }

    fn type_key(&mut self, now: Instant) {
        self.output.push(b'x');
        self.typed_at.push(now);
        self.next_at = match self.stage() {
            Stage::Train(count) if self.typed_at.len() < count => Some(now + FAST_KEY_INTERVAL),
            _ => None,
        };
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        self.current().ended = Some(cx.meter.busy_until().max(cx.now));
        self.at += 1;
        // The server is idle before the next stage begins.
        self.next_at = Some(cx.now + IDLE_KEY_INTERVAL);
        if matches!(self.stage(), Stage::Done) {
            self.next_at = None;
        }
    }

    fn has_begun(&self) -> bool {
        self.results[self.at].began.is_some()
    }

    fn on_key(&mut self, displayed_at: Instant) {
        let typed_at = self.typed_at[self.echoed];
        self.echoed += 1;
        let ns = u64::try_from((displayed_at - typed_at).as_nanos()).unwrap();
        self.current().keys_ns.push(ns);
    }
}

impl Stream for Probe {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.is_open = true;
        self.begin(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        cx.meter.work(Work::TelnetByte, data.len());
        let arrived_at = cx.now;
        self.terminal.receive(data, cx);
        let displayed_at = cx.meter.busy_until().max(cx.now);
        let stage = self.stage();
        let Some(began) = self.current().began else { return };
        let keys = data.iter().filter(|byte| **byte == b'x').count();
        let others = data.len() - keys;
        if others > 0 {
            let at_ns = u64::try_from((arrived_at - began).as_nanos()).unwrap();
            let arrival = Arrival { at_ns, bytes: others as u64 };
            self.current().arrivals.push(arrival);
            self.current().bytes += others;
        }
        for _ in 0..keys {
            self.on_key(displayed_at);
        }
        let bytes = self.current().bytes;
        match stage {
            Stage::Prompt | Stage::Login | Stage::Upload { .. } => self.end(cx),
            Stage::Tls(own) if bytes >= 3_000 => self.next_at = Some(cx.now + own),
            Stage::Echo(count) | Stage::Train(count) if self.echoed >= count => self.end(cx),
            Stage::Echo(_) if keys > 0 => self.next_at = Some(cx.now + IDLE_KEY_INTERVAL),
            Stage::Screenful if bytes >= super::login_server::SCREEN_BYTES + 2 => self.end(cx),
            Stage::Download { bytes: wanted } if bytes >= wanted => self.end(cx),
            Stage::Load { bytes: wanted } => {
                if bytes >= wanted && self.echoed == self.typed_at.len() {
                    self.end(cx);
                } else if keys > 0 && bytes < wanted {
                    self.next_at = Some(cx.now + FAST_KEY_INTERVAL);
                }
            }
            _ => {}
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn wants_to_run(&self) -> bool {
        self.wants_to_run
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.wants_to_run = false;
        if self.next_at.is_none_or(|at| cx.now < at) {
            return;
        }
        self.next_at = None;
        if !self.has_begun() {
            return self.begin(cx);
        }
        match self.stage() {
            Stage::Tls(_) => self.end(cx),
            Stage::Echo(_) | Stage::Train(_) => self.type_key(cx.now),
            Stage::Load { bytes } if self.results[self.at].bytes < bytes => self.type_key(cx.now),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_at
    }
}
