//! What can be the reason that a person waits, and which comes first.

use crate::figures::{duration, share};

/// Why a person waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The lookup of the name.
    NameServer,
    /// The far side's first question comes late.
    SlowPrompt,
    /// The far side is silent after the connection.
    SlowGreeting,
    /// The far side takes long to let somebody in.
    SlowLogin,
    /// The far host computes before it answers.
    FarHost,
    /// The far side's program pauses now and then.
    Pauses,
    /// The network is long.
    Distance,
    /// The bits on the line.
    LineRate,
    /// Others' data stands in a queue in front of ours.
    Queue,
    /// A token bucket: fast at first, and slow when it is empty.
    RateLimiter,
    /// Nagle's algorithm on the far side against a delayed acknowledgment here.
    Nagle,
    /// The far side puts off its acknowledgments.
    DelayedAck,
    /// The receiver's window is smaller than what the way holds.
    SmallWindow,
    /// The receiver has closed its window.
    ZeroWindow,
    /// The far side sends small packets.
    SmallPackets,
    /// Packets are lost, and sent again soon.
    Loss,
    /// Packets are lost, and sent again when a timer has run out.
    RetransmissionTimeouts,
    /// Packets overtake each other.
    Reordering,
    /// Long packets vanish, and nobody says so (RFC 2923).
    PathMtuBlackHole,
    /// The way carries one direction at a time.
    HalfDuplex,
    /// Painting on this side's terminal.
    Terminal,
    /// TLS on this side's processor.
    Tls,
    /// All else of this side's software, and its wait for a processor.
    OwnProcessor,
    /// The first packet of a connection was lost.
    LostSyn,
    /// The server answers a command late.
    SlowCommand,
    /// The server sends the first byte of a file late.
    SlowFirstByte,
    /// The server pauses while it reads a file.
    SlowDisk,
    /// The server reads slowly what is sent to it.
    SlowReader,
    /// The server confirms the end of a transfer late.
    LateLastReply,
    /// One block or one window in each round trip.
    LockStep,
    /// The sender keeps less in flight than the path and the receiver take.
    SmallSendBuffer,
    /// The queue in front of the slowest link overflows.
    ShortQueue,
    /// A wait that no rule explains.
    Unknown,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 33] = [
        Self::NameServer,
        Self::SlowGreeting,
        Self::SlowPrompt,
        Self::SlowLogin,
        Self::FarHost,
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
        Self::OwnProcessor,
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

    /// Returns its name in a table.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NameServer => "name server",
            Self::SlowGreeting => "slow greeting",
            Self::SlowPrompt => "slow prompt",
            Self::SlowLogin => "slow login",
            Self::FarHost => "far host",
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
            Self::OwnProcessor => "own processor",
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

    /// Returns whether packets are lost.
    pub(super) const fn is_loss(self) -> bool {
        matches!(self, Self::Loss | Self::RetransmissionTimeouts)
    }

    /// Returns whether nobody can mend it at a keyboard: another line or another place would help.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Distance | Self::LineRate)
    }
}

/// What a person waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whole {
    /// All the steps until there is something to work with.
    Login,
    /// The echo of a key.
    Echo,
    /// The echo of a key that was typed at a steady pace with others, before their echoes came.
    EchoTrain,
    /// The echo of a key while other data comes.
    EchoUnderLoad,
    /// A short answer to a command.
    Answer,
    /// A screenful.
    Screenful,
    /// A longer flow.
    Transfer,
    /// The steps of a file server's session before its first transfer.
    Session,
}

impl Whole {
    /// Returns its name in a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
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

    /// Returns what nobody notices, ns: less is never a cause, and twice as much counts as half of
    /// all that can be gained. For an echo it is TM-233's (section 3.1).
    const fn unnoticed_ns(self) -> u64 {
        match self {
            Self::Echo | Self::EchoTrain => 25_000_000,
            Self::Screenful | Self::Answer => 20_000_000,
            Self::EchoUnderLoad => 50_000_000,
            Self::Transfer => 100_000_000,
            Self::Login | Self::Session => 150_000_000,
        }
    }
}

/// One reason, with what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What it is.
    pub kind: Kind,
    /// Of what it is a part.
    pub of: Whole,
    /// For how long it is waited for, ns.
    pub cost_ns: u64,
    /// What would be gained if it were gone, ns: no more than it costs, and less where something
    /// else would be waited for instead.
    pub gain_ns: u64,
    /// How long all of that takes, ns.
    pub total_ns: u64,
    /// Who or what costs it, as a sentence begins.
    pub subject: String,
    /// What helps, or what it means: a clause without its end.
    pub advice: String,
}

/// Less than one part in so many of the whole stands out from nothing.
const STANDS_OUT_ONE_IN: u64 = 10;
/// What is no fault counts so many times less: it is said first only where nothing can be mended.
const LIMIT_DISCOUNT: u64 = 4;

/// A gain that is smaller than its cost by less than one part in so many is the same.
const HIDDEN_ONE_IN: u64 = 20;

/// A network that is shorter than this is near: 5,000 km of fibre there and back.
const FAR_AWAY_NS: u64 = 50_000_000;

impl Cause {
    /// Returns whether it is more than what nobody notices, and a good part of its whole.
    pub(super) fn stands_out(&self) -> bool {
        let least_ns =
            if self.kind == Kind::Distance { FAR_AWAY_NS } else { self.of.unnoticed_ns() };
        self.gain_ns >= least_ns && self.gain_ns.saturating_mul(STANDS_OUT_ONE_IN) >= self.total_ns
    }

    /// Returns what it counts beside others, of a million: its share of the whole, by how far it
    /// is above what is not noticed.
    pub(super) fn weight(&self) -> u64 {
        let (gain, total) = (u128::from(self.gain_ns), u128::from(self.total_ns.max(1)));
        let share = (gain * 1_000_000 / total).min(1_000_000);
        let noticed = share * gain / (gain + u128::from(self.of.unnoticed_ns()));
        let noticed = u64::try_from(noticed).unwrap_or(u64::MAX);
        if self.kind.is_limit() { noticed / LIMIT_DISCOUNT } else { noticed }
    }

    /// Returns a whole sentence: what, how much of how much, what would be gained without it if that
    /// is less, and what to do.
    #[must_use]
    pub fn sentence(&self) -> String {
        let hidden = match self.hides() {
            false => String::new(),
            true => format!(
                ", and without it {} would be gained, as something else would be waited for then",
                duration(self.gain_ns)
            ),
        };
        format!(
            "{} costs {} of the {} of {} ({}){hidden}: {}.",
            self.subject,
            duration(self.cost_ns),
            duration(self.total_ns),
            self.of.text(),
            share(self.cost_ns, self.total_ns),
            self.advice
        )
    }

    /// Returns whether something else stands behind it, so that its gain is less than its cost.
    fn hides(&self) -> bool {
        self.cost_ns.saturating_sub(self.gain_ns) > self.cost_ns / HIDDEN_ONE_IN
    }
}

/// Returns those that stand out, the one that costs most first, and each kind once.
pub(super) fn ranked(found: Vec<Cause>) -> Vec<Cause> {
    let mut out: Vec<Cause> = found.into_iter().filter(Cause::stands_out).collect();
    out.sort_by_key(|cause| std::cmp::Reverse(cause.weight()));
    // The headers of small segments are what can be removed of the time on a line.
    let place = |kind| out.iter().position(|cause: &Cause| cause.kind == kind);
    if let (Some(line), Some(small)) = (place(Kind::LineRate), place(Kind::SmallPackets))
        && line < small
    {
        let small = out.remove(small);
        out.insert(line, small);
    }
    let mut kinds = Vec::new();
    out.retain(|cause| {
        let is_new = !kinds.contains(&cause.kind);
        kinds.push(cause.kind);
        is_new
    });
    out
}
