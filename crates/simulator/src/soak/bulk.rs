//! The application of the fault campaign, which sends a file and verifies the received file.

use net::Cx;
use net::application::Stream;
use net::rng::Rng;
use net::station::{Application, Layers, TcpStreamApp};
use net::time::{Duration, Instant};

/// Sends a file, and compares received data with the expected file.
#[derive(Debug)]
pub(super) struct Bulk {
    file: Vec<u8>,
    sent: usize,
    /// Number of bytes of the file that are available for sending. The file becomes available in
    /// pieces, so that several small lost segments may be retransmitted as one large segment.
    ready_len: usize,
    next_piece_at: Instant,
    pace: Pace,
    rng: Rng,
    pub(super) expected: Vec<u8>,
    pub(super) received: usize,
    /// Offset of the first byte that differs from the expected file.
    pub(super) differs_at: Option<usize>,
    /// Difference between the sum of the received and the sum of the expected data, as 16-bit
    /// words.
    pub(super) excess: i64,
    /// Whether the application closes only after the peer; otherwise it closes as soon as the file
    /// is sent.
    closes_second: bool,
    peer_has_closed: bool,
}

/// Rate at which a file becomes available for sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Maximum size of a piece, in bytes.
    pub(super) piece_max: u64,
    /// Maximum time between two pieces, in milliseconds.
    pub(super) pause_max_ms: u64,
}

impl Bulk {
    pub(super) fn new(file: Vec<u8>, expected: Vec<u8>, pace: Pace, closes_second: bool) -> Self {
        Self {
            rng: Rng::from_seed(file.len() as u64),
            file,
            sent: 0,
            ready_len: 0,
            next_piece_at: Instant::ZERO,
            pace,
            expected,
            received: 0,
            differs_at: None,
            excess: 0,
            closes_second,
            peer_has_closed: false,
        }
    }
}

impl Stream for Bulk {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        let expected = self.expected.get(self.received..).unwrap_or_default();
        if !expected.starts_with(data) {
            let same_len = expected.iter().zip(data).take_while(|(a, b)| a == b).count();
            self.differs_at.get_or_insert(self.received + same_len);
            for (offset, (got, wanted)) in (self.received..).zip(data.iter().zip(expected)) {
                let weight = if offset % 2 == 0 { 256 } else { 1 };
                self.excess += weight * (i64::from(*got) - i64::from(*wanted));
            }
        }
        self.received += data.len();
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.file.get(self.sent..self.ready_len).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.ready_len == self.file.len() && (self.peer_has_closed || !self.closes_second)
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_some_and(|next_piece_at| next_piece_at <= cx.now) {
            let piece = self.rng.below(self.pace.piece_max) + 1;
            let piece = usize::try_from(piece).unwrap_or(usize::MAX);
            self.ready_len = self.file.len().min(self.ready_len + piece);
            let pause_ms = self.rng.below(self.pace.pause_max_ms) + 1;
            self.next_piece_at = cx.now + Duration::from_millis(pause_ms);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        (self.ready_len < self.file.len()).then_some(self.next_piece_at)
    }
}

/// The application with its connection. It sometimes stops reading, so that received data fills the
/// window.
#[derive(Debug)]
pub(super) struct PausingReader {
    pub(super) tcp_app: TcpStreamApp<Bulk>,
    /// Maximum duration of a pause, in milliseconds; 0 for no pauses.
    read_pause_max_ms: u64,
    resumes_at: Option<Instant>,
    rng: Rng,
}

/// Each run of the application starts a pause with probability 1/`PAUSE_PROBABILITY_DIVISOR`.
const PAUSE_PROBABILITY_DIVISOR: u64 = 8;

impl PausingReader {
    pub(super) fn new(tcp_app: TcpStreamApp<Bulk>, read_pause_max_ms: u64) -> Self {
        Self {
            tcp_app,
            read_pause_max_ms,
            resumes_at: None,
            rng: Rng::from_seed(read_pause_max_ms),
        }
    }
}

impl Application for PausingReader {
    fn wants_to_run(&self) -> bool {
        self.resumes_at.is_none() && self.tcp_app.wants_to_run()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if self.resumes_at.is_some_and(|resumes_at| cx.now < resumes_at) {
            return;
        }
        self.resumes_at = None;
        self.tcp_app.run(layers, cx);
        let may_pause =
            self.read_pause_max_ms > 0 && self.tcp_app.is_open() && !self.tcp_app.is_over();
        if may_pause && self.rng.below(PAUSE_PROBABILITY_DIVISOR) == 0 {
            let pause_ms = self.rng.below(self.read_pause_max_ms) + 1;
            self.resumes_at = Some(cx.now + Duration::from_millis(pause_ms));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.resumes_at.or_else(|| self.tcp_app.deadline())
    }
}
