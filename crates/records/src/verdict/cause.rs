//! Causes of the user's waiting time, and their ranking.

use crate::format::{duration, share};
use serde::{Deserialize, Serialize};

/// Kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseKind {
    /// Slow name resolution.
    NameServer,
    /// The server's first prompt is late.
    SlowPrompt,
    /// The server is silent after the connection is established.
    SlowGreeting,
    /// The server takes long to grant the login.
    SlowLogin,
    /// The remote host computes before it answers.
    RemoteHost,
    /// The remote program pauses occasionally.
    Pauses,
    /// The round-trip time of the network.
    Distance,
    /// Transmission time on the link.
    LineRate,
    /// Data of other flows is queued ahead.
    Queue,
    /// A token bucket: fast at first, and slow once it is empty.
    RateLimiter,
    /// Nagle's algorithm on the remote host combined with delayed acknowledgments on the local
    /// host.
    Nagle,
    /// The remote host delays its acknowledgments.
    DelayedAck,
    /// The receive window is smaller than the bandwidth-delay product of the path.
    SmallWindow,
    /// The receiver has closed its window.
    ZeroWindow,
    /// The remote host sends small packets.
    SmallPackets,
    /// Packets are lost, and repaired by fast retransmission.
    Loss,
    /// Packets are lost, and repaired only after a retransmission timeout.
    RetransmissionTimeouts,
    /// Packets are reordered.
    Reordering,
    /// Long packets are dropped silently (RFC 2923).
    PathMtuBlackHole,
    /// The path carries one direction at a time.
    HalfDuplex,
    /// Rendering on the local terminal.
    Terminal,
    /// TLS on the local processor.
    Tls,
    /// Other local software, and its wait for a processor.
    LocalProcessor,
    /// The first packet of a connection was lost.
    LostSyn,
    /// The server replies late to a command.
    SlowCommand,
    /// The server sends the first byte of a file late.
    SlowFirstByte,
    /// The server pauses while it reads a file.
    SlowDisk,
    /// The server is slow to read the data sent to it.
    SlowReader,
    /// The server is late to confirm the end of a transfer.
    LateLastReply,
    /// One block or one window per round trip.
    LockStep,
    /// The sender keeps fewer bytes in flight than the path and the receiver permit.
    SmallSendBuffer,
    /// The queue in front of the slowest link overflows.
    ShortQueue,
    /// A wait that no rule explains.
    Unknown,
}

impl CauseKind {
    /// Every kind.
    pub const ALL: [Self; 33] = [
        Self::NameServer,
        Self::SlowGreeting,
        Self::SlowPrompt,
        Self::SlowLogin,
        Self::RemoteHost,
        Self::Pauses,
        Self::Distance,
        Self::LineRate,
        Self::Queue,
        Self::RateLimiter,
        Self::Nagle,
        Self::DelayedAck,
        Self::SmallWindow,
        Self::ZeroWindow,
        Self::SmallPackets,
        Self::Loss,
        Self::RetransmissionTimeouts,
        Self::Reordering,
        Self::PathMtuBlackHole,
        Self::HalfDuplex,
        Self::Terminal,
        Self::Tls,
        Self::LocalProcessor,
        Self::LostSyn,
        Self::SlowCommand,
        Self::SlowFirstByte,
        Self::SlowDisk,
        Self::SlowReader,
        Self::LateLastReply,
        Self::LockStep,
        Self::SmallSendBuffer,
        Self::ShortQueue,
        Self::Unknown,
    ];

    /// Returns the name of the kind in records. Records with earlier names remain readable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NameServer => "name server",
            Self::SlowGreeting => "slow greeting",
            Self::SlowPrompt => "slow prompt",
            Self::SlowLogin => "slow login",
            Self::RemoteHost => "remote host",
            Self::Pauses => "pauses",
            Self::Distance => "distance",
            Self::LineRate => "line rate",
            Self::Queue => "queue",
            Self::RateLimiter => "rate limiter",
            Self::Nagle => "Nagle",
            Self::DelayedAck => "delayed ACK",
            Self::SmallWindow => "small window",
            Self::ZeroWindow => "zero window",
            Self::SmallPackets => "small packets",
            Self::Loss => "loss",
            Self::RetransmissionTimeouts => "retransmission timeouts",
            Self::Reordering => "reordering",
            Self::PathMtuBlackHole => "path MTU black hole",
            Self::HalfDuplex => "half duplex",
            Self::Terminal => "terminal",
            Self::Tls => "TLS here",
            Self::LocalProcessor => "own processor",
            Self::LostSyn => "lost SYN",
            Self::SlowCommand => "slow command",
            Self::SlowFirstByte => "slow first byte",
            Self::SlowDisk => "slow disk",
            Self::SlowReader => "slow reader",
            Self::LateLastReply => "late last reply",
            Self::LockStep => "lock-step",
            Self::SmallSendBuffer => "small send buffer",
            Self::ShortQueue => "short queue",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the name of the kind for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NameServer => "name resolution",
            Self::Pauses => "program pauses",
            Self::Distance => "round-trip time",
            Self::LineRate => "link rate",
            Self::Nagle => "Nagle's algorithm",
            Self::SmallWindow => "small receive window",
            Self::Loss => "packet loss",
            Self::Tls => "TLS on this host",
            Self::LocalProcessor => "local processor",
            kind => kind.name(),
        }
    }

    /// Returns the kind with the [`CauseKind::name`] `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        // Records of version 0.1 have this name.
        if name == "far host" {
            return Some(Self::RemoteHost);
        }
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the kind is a packet loss.
    pub(super) const fn is_loss(self) -> bool {
        matches!(self, Self::Loss | Self::RetransmissionTimeouts)
    }

    /// Returns whether the cause cannot be fixed on either host: only another link or location
    /// would help.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Distance | Self::LineRate)
    }
}

/// An operation that the user waits for. In JSON it has the name of [`Self::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// All steps until the session is usable.
    #[serde(rename = "session set-up")]
    Login,
    /// The echo of a key.
    #[serde(rename = "an echo")]
    Echo,
    /// The echo of a key in a train of keys typed at a steady pace, regardless of echoes.
    #[serde(rename = "an echo during steady typing")]
    EchoTrain,
    /// The echo of a key while other data arrives.
    #[serde(rename = "an echo during output")]
    EchoUnderLoad,
    /// A short answer to a command.
    #[serde(rename = "a short answer")]
    Answer,
    /// A screenful.
    #[serde(rename = "a screenful")]
    Screenful,
    /// A longer flow.
    #[serde(rename = "the transfer")]
    Transfer,
    /// The steps of a file server session before its first transfer.
    #[serde(rename = "connection set-up")]
    Session,
}

impl Operation {
    /// Every operation.
    pub(crate) const ALL: [Self; 8] = [
        Self::Login,
        Self::Echo,
        Self::EchoTrain,
        Self::EchoUnderLoad,
        Self::Answer,
        Self::Screenful,
        Self::Transfer,
        Self::Session,
    ];

    /// Returns the name of the operation in records; the name never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "the way to the prompt",
            Self::Echo => "an echo",
            Self::EchoTrain => "an echo of steady typing",
            Self::EchoUnderLoad => "an echo beside other data",
            Self::Answer => "a short answer",
            Self::Screenful => "a screenful",
            Self::Transfer => "the transfer",
            Self::Session => "connection set-up",
        }
    }

    /// Returns the name of the operation for sentences.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Login => "session set-up",
            Self::EchoTrain => "an echo during steady typing",
            Self::EchoUnderLoad => "an echo during output",
            operation => operation.name(),
        }
    }

    /// Returns the operation with the [`Operation::name`] `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the delay that users do not notice, ns. A smaller cause is not reported, and a cause
    /// of this size has half the weight of its share. The value for an echo is from TM-233 (section
    /// 3.1).
    const fn unnoticeable_delay_ns(self) -> u64 {
        match self {
            Self::Echo | Self::EchoTrain => 25_000_000,
            Self::Screenful | Self::Answer => 20_000_000,
            Self::EchoUnderLoad => 50_000_000,
            Self::Transfer => 100_000_000,
            Self::Login | Self::Session => 150_000_000,
        }
    }
}

/// One cause, with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Operation that the cause delays.
    pub operation: Operation,
    /// Waiting time due to the cause, ns.
    pub cost_ns: u64,
    /// Time saved if the cause were removed, ns. It is less than `cost_ns` if another wait would
    /// take the place of the removed one.
    pub gain_ns: u64,
    /// Total duration of the operation, ns.
    pub total_ns: u64,
    /// Subject of the sentence, in the singular: the component and the mechanism that cause the
    /// wait.
    pub subject: String,
    /// Evidence as a clause, and the remedy as a second sentence, without a final period.
    pub advice: String,
}

/// To stand out, a cause must account for at least the total divided by this number.
const MIN_SHARE_DIVISOR: u64 = 10;
/// Divisor of the weight of causes that cannot be fixed, so that they come first only if nothing
/// can be fixed.
const LIMIT_WEIGHT_DIVISOR: u64 = 4;

/// Two causes weigh about the same if their weights differ by at most this part of the larger one.
const SIMILAR_WEIGHT_DIVISOR: u64 = 10;
/// Of two causes that weigh about the same, the one with a gain of this many times the gain of the
/// other is first: users complain about the longer wait.
const MUCH_LONGER: u64 = 4;

/// A gain counts as equal to the cost if the difference is at most the cost divided by this number.
const GAIN_TOLERANCE_DIVISOR: u64 = 20;

/// Minimum round-trip time that is reported as a cause, ns: 5,000 km of fiber in each direction.
const MIN_DISTANT_TRIP_NS: u64 = 50_000_000;

impl Cause {
    /// Returns whether the cost exceeds the delay that users do not notice, and is a significant
    /// part of the total.
    pub(super) fn stands_out(&self) -> bool {
        let min_ns = if self.kind == CauseKind::Distance {
            MIN_DISTANT_TRIP_NS
        } else {
            self.operation.unnoticeable_delay_ns()
        };
        self.gain_ns >= min_ns && self.gain_ns.saturating_mul(MIN_SHARE_DIVISOR) >= self.total_ns
    }

    /// Returns the weight for ranking, in millionths: the share of the total, reduced if the gain
    /// is not much greater than the unnoticed delay.
    pub(super) fn weight(&self) -> u64 {
        let gain = u128::from(self.gain_ns);
        let total = u128::from(self.total_ns.max(1));
        let share = (gain * 1_000_000 / total).min(1_000_000);
        let unnoticeable_ns = u128::from(self.operation.unnoticeable_delay_ns());
        let noticeable_share = share * gain / (gain + unnoticeable_ns);
        let noticeable_share = u64::try_from(noticeable_share).unwrap_or(u64::MAX);
        match self.kind.is_limit() {
            true => noticeable_share / LIMIT_WEIGHT_DIVISOR,
            false => noticeable_share,
        }
    }

    /// Returns the cause in at most two sentences: the cause, its cost and the total, the gain if
    /// that is less than the cost, the evidence, and the remedy.
    #[must_use]
    pub fn sentence(&self) -> String {
        let gain_clause = match self.masks_another() {
            false => String::new(),
            true => format!(
                ", but removing it saves only {}, because other waits remain",
                duration(self.gain_ns)
            ),
        };
        format!(
            "{} costs {} of the {} of {} ({}){gain_clause}: {}.",
            self.subject,
            duration(self.cost_ns),
            duration(self.total_ns),
            self.operation.text(),
            share(self.cost_ns, self.total_ns),
            self.advice
        )
    }

    /// Returns whether the cause hides another cause, so that removing it gains less than its cost.
    fn masks_another(&self) -> bool {
        self.cost_ns.saturating_sub(self.gain_ns) > self.cost_ns / GAIN_TOLERANCE_DIVISOR
    }
}

/// Moves a cause of another kind that weighs about as much as the first one, but costs a much longer
/// wait, to the front.
fn put_the_longest_wait_first(ranking: &mut [Cause]) {
    let Some(first) = ranking.first() else { return };
    let min_weight = first.weight() - first.weight() / SIMILAR_WEIGHT_DIVISOR;
    let min_gain_ns = first.gain_ns.saturating_mul(MUCH_LONGER);
    let is_longer = |cause: &&Cause| {
        cause.kind != first.kind && cause.weight() >= min_weight && cause.gain_ns >= min_gain_ns
    };
    let longest = ranking.iter().filter(is_longer).max_by_key(|cause| cause.gain_ns);
    let at = longest.and_then(|longest| ranking.iter().position(|cause| cause == longest));
    if let Some(rotated) = at.and_then(|at| ranking.get_mut(..=at)) {
        rotated.rotate_right(1);
    }
}

/// Returns the causes that stand out, highest weight first.
pub(super) fn rank(candidates: Vec<Cause>) -> Vec<Cause> {
    let mut ranking: Vec<Cause> = candidates.into_iter().filter(Cause::stands_out).collect();
    ranking.sort_by_key(|cause| std::cmp::Reverse(cause.weight()));
    put_the_longest_wait_first(&mut ranking);
    // Small segments come before the line rate: the time of their headers on the line can be
    // removed.
    let rank_of = |kind| ranking.iter().position(|cause: &Cause| cause.kind == kind);
    let ranks = (rank_of(CauseKind::LineRate), rank_of(CauseKind::SmallPackets));
    if let (Some(line), Some(small)) = ranks
        && line < small
    {
        let small = ranking.remove(small);
        ranking.insert(line, small);
    }
    let mut kinds = Vec::new();
    ranking.retain(|cause| {
        let is_new = !kinds.contains(&cause.kind);
        kinds.push(cause.kind);
        is_new
    });
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn cause(kind: CauseKind, operation: Operation, [cost_ms, total_ms]: [u64; 2]) -> Cause {
        let [cost_ns, total_ns] = [cost_ms * MS, total_ms * MS];
        let subject = String::new();
        let advice = String::new();
        Cause { kind, operation, cost_ns, gain_ns: cost_ns, total_ns, subject, advice }
    }

    fn first(causes: &[Cause]) -> CauseKind {
        rank(causes.to_vec())[0].kind
    }

    #[test]
    fn a_much_longer_wait_precedes_one_of_a_similar_weight() {
        let screenful = cause(CauseKind::RemoteHost, Operation::Screenful, [181, 181]);
        let login = cause(CauseKind::SlowLogin, Operation::Login, [3_190, 3_450]);
        assert!(login.weight() < screenful.weight());
        assert_eq!(first(&[screenful.clone(), login.clone()]), CauseKind::SlowLogin);
        let shorter = cause(CauseKind::SlowLogin, Operation::Login, [600, 640]);
        assert_eq!(first(&[screenful.clone(), shorter]), CauseKind::RemoteHost);
        let smaller = cause(CauseKind::SlowLogin, Operation::Login, [2_000, 3_450]);
        assert_eq!(first(&[screenful, smaller]), CauseKind::RemoteHost);
        // A cause of several operations is reported for the one with the greatest weight.
        let echo = cause(CauseKind::Distance, Operation::Echo, [300, 300]);
        let steps = cause(CauseKind::Distance, Operation::Login, [1_500, 1_600]);
        assert_eq!(rank(vec![echo.clone(), steps]), [echo]);
    }

    #[test]
    fn records_with_the_earlier_name_of_a_kind_are_readable() {
        assert_eq!(CauseKind::from_name("far host"), Some(CauseKind::RemoteHost));
        for kind in CauseKind::ALL {
            assert_eq!(CauseKind::from_name(kind.name()), Some(kind));
        }
    }
}
