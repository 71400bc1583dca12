//! The application of the campaign: it sends a file and checks the one that it receives.

use protocols::Cx;
use protocols::application::Stream;
use protocols::chance::Chance;
use protocols::time::{Duration, Instant};

/// Sends a file, and compares what it receives with the one that it expects.
#[derive(Debug)]
pub(super) struct Bulk {
    file: Vec<u8>,
    sent: usize,
    /// How much of the file there is to send, and when there is more: small segments that are
    /// lost go again in one large one.
    ready: usize,
    more_at: Instant,
    pace: Pace,
    chance: Chance,
    pub(super) expected: Vec<u8>,
    pub(super) received: usize,
    /// Where what came first differs from what was expected.
    pub(super) differs_at: Option<usize>,
    /// What was received less what was expected, as 16-bit words add up.
    pub(super) excess: i64,
    /// It closes when the peer has, and not as soon as the file has gone.
    closes_second: bool,
    peer_has_closed: bool,
}

/// How a file comes to be ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The most bytes at a time.
    pub(super) piece_max: u64,
    /// The longest time between two pieces, in milliseconds.
    pub(super) pause_max_ms: u64,
}

impl Bulk {
    pub(super) fn new(file: Vec<u8>, expected: Vec<u8>, pace: Pace, closes_second: bool) -> Self {
        Self {
            chance: Chance::from_seed(file.len() as u64),
            file,
            sent: 0,
            ready: 0,
            more_at: Instant::ZERO,
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
            let same = expected.iter().zip(data).take_while(|(a, b)| a == b).count();
            self.differs_at.get_or_insert(self.received + same);
            for (place, (got, wanted)) in (self.received..).zip(data.iter().zip(expected)) {
                let weight = if place % 2 == 0 { 256 } else { 1 };
                self.excess += weight * (i64::from(*got) - i64::from(*wanted));
            }
        }
        self.received += data.len();
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.file.get(self.sent..self.ready).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.ready == self.file.len() && (self.peer_has_closed || !self.closes_second)
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_some_and(|more_at| more_at <= cx.now) {
            let piece = self.chance.below(self.pace.piece_max) + 1;
            let piece = usize::try_from(piece).unwrap_or(usize::MAX);
            self.ready = self.file.len().min(self.ready + piece);
            let pause_ms = self.chance.below(self.pace.pause_max_ms) + 1;
            self.more_at = cx.now + Duration::from_millis(pause_ms);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        (self.ready < self.file.len()).then_some(self.more_at)
    }
}
