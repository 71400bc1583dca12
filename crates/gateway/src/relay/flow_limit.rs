//! The limit of the rate of a TCP flow.
//!
//! # Theory of operation
//!
//! After each copy between the guest's connection and the host's socket, a flow is in one of three
//! states. Data of the guest waits because the socket accepts no more ([`Waiting::ForHost`]); the
//! gateway does not read from the socket because the send buffer of the guest's connection is full
//! ([`Waiting::ForGuest`]); or neither ([`Waiting::Nothing`]). The state holds until the next copy,
//! so the time between two copies is charged to it.
//!
//! The time of a full send buffer is divided further. If the connection waits for its turn at a slow
//! output, the output is the limit. Otherwise it is the guest while its window is full, as the TCP of
//! the connection has measured it, and the network of the guest for the rest of the time.
//!
//! The limit is the cause with the longest time in the last one to two seconds: those of the current
//! period of a second and of the one before. A flow without a copy for a second is judged by the
//! time since its last copy alone.

use net::Instant;
use net::time::Duration;

/// Duration of a period. Shorter ones would show the alternation of a flow between two causes, such
/// as one round trip to the remote host.
const PERIOD: Duration = Duration::from_secs(1);

/// The limit of the rate of a flow in the last one to two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The connection is not established yet.
    Opening,
    /// The host's socket did not accept the guest's data: the remote host or the path to it.
    RemoteHost,
    /// The guest's window did not accept the remote host's data: its program did not read.
    Guest,
    /// The remote host's data waited for acknowledgments of the guest: the network between the
    /// gateway and the guest.
    Network,
    /// The remote host's data waited for its turn at a slow output.
    Queue,
    /// No data waited in the gateway.
    Application,
}

impl Limit {
    /// The limits of an open flow. For equal times, the last one applies.
    const OF_OPEN_FLOW: [Self; 5] =
        [Self::RemoteHost, Self::Guest, Self::Network, Self::Queue, Self::Application];
}

/// The state of a flow after a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Both sides have accepted all data.
    Nothing,
    /// Data of the guest waits for the socket.
    ForHost,
    /// Data of the remote host waits for the guest.
    ForGuest,
}

/// The state of the guest's connection at the time of a copy or of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) now: Instant,
    /// Total time during which the guest's window was full.
    pub(super) full_window: Duration,
    /// Whether the connection waits for its turn at a slow output.
    pub(super) waits_for_turn: bool,
}

/// Microseconds of a period by cause, in the order of [`Limit::OF_OPEN_FLOW`].
#[derive(Clone, Copy, Debug, Default)]
struct Period([u32; Limit::OF_OPEN_FLOW.len()]);

impl Period {
    fn add(&mut self, limit: Limit, time: Duration) {
        let causes = Limit::OF_OPEN_FLOW.iter().zip(&mut self.0);
        for (_, micros) in causes.filter(|(cause, _)| **cause == limit) {
            let time = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            *micros = micros.saturating_add(time);
        }
    }
}

/// The causes that have limited a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitHistory {
    waiting: Waiting,
    /// Time of the last copy.
    since: Instant,
    /// Total time of a full window at the last copy.
    full_window: Duration,
    /// Beginning of the current period.
    began_at: Instant,
    current: Period,
    last: Period,
}

impl LimitHistory {
    /// Returns the history of a flow that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: Waiting::Nothing,
            since: now,
            full_window: Duration::ZERO,
            began_at: now,
            current: Period::default(),
            last: Period::default(),
        }
    }

    /// Records the state after a copy.
    pub(super) fn record(&mut self, waiting: Waiting, observation: Observation) {
        self.charge(observation);
        self.waiting = waiting;
    }

    /// Returns the limit at the time of the observation.
    pub(super) fn limit(&self, observation: Observation) -> Limit {
        let mut until_now = *self;
        until_now.charge(observation);
        let [current, last] = [until_now.current.0, until_now.last.0];
        let sums =
            current.into_iter().zip(last).map(|(current, last)| current.saturating_add(last));
        let longest = sums.zip(Limit::OF_OPEN_FLOW).max_by_key(|(micros, _)| *micros);
        longest.map_or(Limit::Application, |(_, limit)| limit)
    }

    /// Charges the time since the last copy to its cause.
    fn charge(&mut self, observation: Observation) {
        let Observation { now, full_window, waits_for_turn } = observation;
        let time = now.since(self.since);
        if time >= PERIOD {
            self.current = Period::default();
            self.last = Period::default();
        }
        match self.waiting {
            Waiting::Nothing => self.current.add(Limit::Application, time),
            Waiting::ForHost => self.current.add(Limit::RemoteHost, time),
            Waiting::ForGuest if waits_for_turn => self.current.add(Limit::Queue, time),
            Waiting::ForGuest => {
                let of_guest = full_window.saturating_sub(self.full_window).min(time);
                self.current.add(Limit::Guest, of_guest);
                self.current.add(Limit::Network, time.saturating_sub(of_guest));
            }
        }
        if now.since(self.began_at) >= PERIOD {
            self.last = std::mem::take(&mut self.current);
            self.began_at = now;
        }
        self.since = now;
        self.full_window = full_window;
    }
}
