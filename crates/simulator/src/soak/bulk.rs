//! The application of the campaign: it sends a file and verifies the one that it receives.

use protocols::Cx;
use protocols::application::Stream;
use protocols::chance::Chance;
use protocols::station::{Application, Carried, Layers};
use protocols::time::{Duration, Instant};

/// Sends a file, and compares received data with the expected file.
#[derive(Debug)]
pub(super) struct Bulk {
    file: Vec<u8>,
    sent: usize,
    /// Number of bytes of the file that are ready to be sent, and the time at which more are.
    /// Pausing exercises the coalescing of lost small segments into one large retransmission.
    ready: usize,
    more_at: Instant,
    pace: Pace,
    chance: Chance,
    pub(super) expected: Vec<u8>,
    pub(super) received: usize,
    /// Offset of the first byte that differs from the expected file.
    pub(super) differs_at: Option<usize>,
    /// Difference between the sums of received and expected data as 16-bit words.
    pub(super) excess: i64,
    /// Whether it closes only after the peer, instead of as soon as the file is sent.
    closes_second: bool,
    peer_has_closed: bool,
}

/// Rate at which a file becomes ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Maximum bytes at a time.
    pub(super) piece_max: u64,
    /// Maximum time between two pieces, in milliseconds.
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

/// The application on its connection, which sometimes stops reading, so that received data fills
/// the window.
#[derive(Debug)]
pub(super) struct Unhurried {
    pub(super) carried: Carried<Bulk>,
    /// Maximum duration of a pause, in milliseconds; 0 for no pauses.
    nap_max_ms: u64,
    wakes_at: Option<Instant>,
    chance: Chance,
}

/// A pause begins in one of this many runs of the application.
const NAPS_ARE_RARE: u64 = 8;

impl Unhurried {
    pub(super) fn new(carried: Carried<Bulk>, nap_max_ms: u64) -> Self {
        Self { carried, nap_max_ms, wakes_at: None, chance: Chance::from_seed(nap_max_ms) }
    }
}

impl Application for Unhurried {
    fn wants_to_run(&self) -> bool {
        self.wakes_at.is_none() && self.carried.wants_to_run()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if self.wakes_at.is_some_and(|wakes_at| cx.now < wakes_at) {
            return;
        }
        self.wakes_at = None;
        self.carried.run(layers, cx);
        let may_nap = self.nap_max_ms > 0 && self.carried.is_open() && !self.carried.is_over();
        if may_nap && self.chance.below(NAPS_ARE_RARE) == 0 {
            let nap_ms = self.chance.below(self.nap_max_ms) + 1;
            self.wakes_at = Some(cx.now + Duration::from_millis(nap_ms));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.wakes_at.or_else(|| self.carried.deadline())
    }
}
