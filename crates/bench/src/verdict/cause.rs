//! The causes that the first case generator (`super::generate`) injects, with their magnitudes and
//! the classes of verdict that count as correct.

use super::rule::Class;
use super::second::Fault;
use super::service::Service::{self, FtpGet, FtpPut, Login, LoginOwnTcp, TftpGet};
use super::user_wait::UserWait;

/// Kind of an injected cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    SlowResolver,
    LostSyn,
    SlowGreeting,
    SlowPrompt,
    SlowLogin,
    SlowReplies,
    Stalls,
    SlowFirstByte,
    SlowCommand,
    SlowDisk,
    LateLastReply,
    SlowReader,
    ServerProcessor,
    OwnProcessor,
    Distance,
    Rate,
    DeepQueue,
    ShortQueue,
    Loss,
    BurstLoss,
    Reordering,
    Shaper,
    Policer,
    BlackHole,
    HalfDuplex,
    Nagle,
    ReceiveWindow,
    ServerWindow,
    SendBuffer,
    SmallSegments,
    /// A cause that only the second case generator (`super::second`) injects.
    Second(Fault),
}

/// One parameter of a cause, drawn so that its logarithm is uniformly distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) min: u64,
    pub(super) max: u64,
}

/// Properties of a kind of cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) services: &'static [Service],
    /// Classes that count as correct for this cause.
    pub(super) classes: &'static [Class],
    pub(super) size: Option<Quantity>,
    pub(super) second: Option<Quantity>,
    /// Two causes with the same resource are never combined.
    pub(super) resource: Resource,
}

/// The resource that a cause acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The steps before the first byte of the session.
    Opening,
    /// The server's programs, from the login on.
    Server,
    /// Rate, queue and token buckets of the path, and limits on the data in flight.
    Flow,
    /// Loss, reordering and lengths of packets.
    Packets,
    /// Delay of packets.
    Delay,
    /// A processor; cases with such a cause run alone.
    Processor,
}

pub(super) const fn quantity(
    name: &'static str,
    unit: &'static str,
    min: u64,
    max: u64,
) -> Option<Quantity> {
    Some(Quantity { name, unit, min, max })
}

pub(super) const fn row(
    kind: Kind,
    name: &'static str,
    services: &'static [Service],
    classes: &'static [Class],
    resource: Resource,
) -> Row {
    Row { kind, name, services, classes, size: None, second: None, resource }
}

impl Row {
    pub(super) const fn with_quantities(
        self,
        size: Option<Quantity>,
        second: Option<Quantity>,
    ) -> Self {
        Self { size, second, ..self }
    }
}

const ALL_SERVICES: &[Service] = &[Login, LoginOwnTcp, FtpGet, FtpPut, TftpGet];
const LOGINS: &[Service] = &[Login, LoginOwnTcp];

/// Every cause that the first case generator (`super::generate`) injects.
pub(super) const ROWS: [Row; 30] = [
    row(Kind::SlowResolver, "slow resolver", ALL_SERVICES, &[Class::Resolver], Resource::Opening)
        .with_quantities(quantity("answer after", "ms", 400, 3_000), None),
    row(
        Kind::LostSyn,
        "lost SYN",
        &[Login, LoginOwnTcp, FtpGet],
        &[Class::ConnectionSetup],
        Resource::Opening,
    ),
    row(
        Kind::SlowGreeting,
        "slow greeting",
        &[Login, LoginOwnTcp, FtpGet, FtpPut],
        &[Class::ServerGreeting],
        Resource::Opening,
    )
    .with_quantities(quantity("silent for", "ms", 500, 4_000), None),
    row(Kind::SlowPrompt, "slow prompt", LOGINS, &[Class::ServerGreeting], Resource::Opening)
        .with_quantities(quantity("prompt after", "ms", 500, 4_000), None),
    row(
        Kind::SlowLogin,
        "slow login",
        &[Login, LoginOwnTcp, FtpGet, FtpPut],
        &[Class::ServerLogin],
        Resource::Server,
    )
    .with_quantities(quantity("login takes", "ms", 500, 4_000), None),
    row(Kind::SlowReplies, "slow server", LOGINS, &[Class::ServerProcessing], Resource::Server)
        .with_quantities(quantity("each reply after", "ms", 40, 400), None),
    row(Kind::Stalls, "stalling server", LOGINS, &[Class::ServerProcessing], Resource::Server)
        .with_quantities(quantity("stall", "ms", 400, 1_500), quantity("one reply in", "", 6, 20)),
    row(
        Kind::SlowFirstByte,
        "slow first byte",
        &[FtpGet, TftpGet],
        &[Class::ServerProcessing],
        Resource::Server,
    )
    .with_quantities(quantity("first byte after", "ms", 300, 3_000), None),
    row(
        Kind::SlowCommand,
        "slow data command",
        &[FtpGet],
        &[Class::ServerProcessing],
        Resource::Server,
    )
    .with_quantities(quantity("EPSV reply after", "ms", 300, 2_000), None),
    row(
        Kind::SlowDisk,
        "slow disk, reading",
        &[FtpGet, TftpGet],
        &[Class::ServerProcessing],
        Resource::Server,
    )
    .with_quantities(quantity("each block of 16 KiB after", "ms", 15, 80), None),
    row(
        Kind::LateLastReply,
        "late last reply",
        &[FtpGet, FtpPut],
        &[Class::ServerLastReply],
        Resource::Server,
    )
    .with_quantities(quantity("226 after", "ms", 300, 3_000), None),
    row(
        Kind::SlowReader,
        "slow disk, writing",
        &[FtpPut],
        &[Class::ServerReader, Class::ServerProcessing],
        Resource::Server,
    )
    .with_quantities(quantity("each 16 KiB read after", "ms", 20, 80), None),
    row(
        Kind::ServerProcessor,
        "starved server",
        &[Login],
        &[Class::ServerProcessing],
        Resource::Processor,
    )
    .with_quantities(quantity("busy for", "ms", 100, 400), None),
    row(
        Kind::OwnProcessor,
        "starved client",
        &[Login, LoginOwnTcp, FtpGet],
        &[Class::LocalProcessor],
        Resource::Processor,
    )
    .with_quantities(quantity("busy for", "ms", 100, 400), None),
    row(
        Kind::Distance,
        "distance",
        ALL_SERVICES,
        &[Class::PathDelay, Class::LockStep],
        Resource::Delay,
    )
    .with_quantities(quantity("added round trip", "ms", 120, 400), None),
    row(Kind::Rate, "low rate", ALL_SERVICES, &[Class::PathRate], Resource::Flow)
        .with_quantities(quantity("rate", "kbit/s", 300, 4_000), None),
    row(Kind::DeepQueue, "deep queue", LOGINS, &[Class::PathQueue], Resource::Flow)
        .with_quantities(
            quantity("rate", "kbit/s", 1_000, 6_000),
            quantity("queue", "ms", 300, 1_500),
        ),
    row(
        Kind::ShortQueue,
        "short queue",
        &[FtpGet],
        &[Class::ShortQueue, Class::PathLoss],
        Resource::Flow,
    )
    .with_quantities(quantity("rate", "kbit/s", 4_000, 20_000), quantity("queue", "packets", 3, 8)),
    row(
        Kind::Loss,
        "random loss",
        ALL_SERVICES,
        &[Class::PathLoss, Class::ConnectionSetup],
        Resource::Packets,
    )
    .with_quantities(quantity("loss", "per mille", 15, 80), None),
    row(
        Kind::BurstLoss,
        "burst loss",
        &[Login, LoginOwnTcp, FtpGet, TftpGet],
        &[Class::PathLoss, Class::ConnectionSetup],
        Resource::Packets,
    )
    .with_quantities(quantity("loss", "per mille", 15, 60), quantity("burst", "packets", 3, 8)),
    row(
        Kind::Reordering,
        "reordering",
        &[FtpGet, FtpPut],
        &[Class::PathReordering],
        Resource::Packets,
    )
    .with_quantities(
        quantity("late packets", "per mille", 20, 200),
        quantity("late by", "ms", 30, 120),
    ),
    row(
        Kind::Shaper,
        "token bucket, shaper",
        &[Login, LoginOwnTcp, FtpGet, FtpPut],
        &[Class::RateLimiter],
        Resource::Flow,
    )
    .with_quantities(quantity("rate", "kbit/s", 500, 4_000), quantity("bucket", "kB", 20, 150)),
    row(
        Kind::Policer,
        "token bucket, policer",
        &[FtpGet, FtpPut],
        &[Class::RateLimiter],
        Resource::Flow,
    )
    .with_quantities(quantity("rate", "kbit/s", 1_000, 8_000), quantity("bucket", "kB", 15, 100)),
    row(
        Kind::BlackHole,
        "MTU black hole",
        &[Login, LoginOwnTcp, FtpGet],
        &[Class::PathMtu],
        Resource::Packets,
    )
    .with_quantities(quantity("longest packet", "bytes", 600, 1_400), None),
    row(Kind::HalfDuplex, "half duplex", LOGINS, &[Class::HalfDuplex], Resource::Flow)
        .with_quantities(
            quantity("turnaround", "ms", 20, 100),
            quantity("rate", "kbit/s", 64, 512),
        ),
    row(Kind::Nagle, "Nagle", LOGINS, &[Class::Nagle], Resource::Flow),
    row(
        Kind::ReceiveWindow,
        "small receive buffer, client",
        &[Login, FtpGet],
        &[Class::LocalWindow],
        Resource::Flow,
    )
    .with_quantities(quantity("buffer", "bytes", 4_096, 16_384), None),
    row(
        Kind::ServerWindow,
        "small receive buffer, server",
        &[FtpPut],
        &[Class::ServerWindow],
        Resource::Flow,
    )
    .with_quantities(quantity("buffer", "bytes", 4_096, 16_384), None),
    row(
        Kind::SendBuffer,
        "small send buffer, server",
        &[Login, FtpGet],
        &[Class::SendBuffer],
        Resource::Flow,
    )
    .with_quantities(quantity("buffer", "bytes", 4_096, 16_384), None),
    row(
        Kind::SmallSegments,
        "small segments",
        &[Login, FtpGet],
        &[Class::SmallSegments],
        Resource::Flow,
    )
    .with_quantities(
        quantity("MTU of the server's route", "bytes", 128, 240),
        quantity("rate", "kbit/s", 128, 600),
    ),
];

impl Kind {
    /// Returns whether the cause affects only some packets or replies, so that a mean is more
    /// meaningful than a median, and runs differ.
    pub(super) const fn is_random(self) -> bool {
        if let Self::Second(fault) = self {
            return fault.is_random();
        }
        matches!(
            self,
            Self::Loss
                | Self::BurstLoss
                | Self::Reordering
                | Self::Stalls
                | Self::OwnProcessor
                | Self::ServerProcessor
                | Self::ShortQueue
                | Self::Policer
        )
    }

    /// Returns the table row of this kind.
    pub(super) fn row(self) -> &'static Row {
        if let Self::Second(fault) = self {
            return fault.row();
        }
        // A test checks that every kind has a row.
        ROWS.iter().find(|row| row.kind == self).unwrap_or(&ROWS[0])
    }

    pub(super) fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the waiting times that the cause can lengthen.
    pub(super) const fn acts_on(self) -> &'static [UserWait] {
        use UserWait::{Answer, Echo, EchoUnderLoad, Login, Screenful, Transfer};
        match self {
            Self::Second(fault) => fault.acts_on(),
            Self::SlowResolver
            | Self::LostSyn
            | Self::SlowGreeting
            | Self::SlowPrompt
            | Self::SlowLogin => &[Login],
            Self::SlowFirstByte
            | Self::SlowCommand
            | Self::SlowDisk
            | Self::LateLastReply
            | Self::SlowReader
            | Self::ShortQueue
            | Self::Reordering
            | Self::Policer
            | Self::ServerWindow => &[Transfer],
            Self::SlowReplies | Self::Stalls | Self::Nagle => {
                &[Echo, EchoUnderLoad, Answer, Screenful]
            }
            Self::DeepQueue => &[EchoUnderLoad],
            Self::Rate | Self::Shaper | Self::HalfDuplex | Self::SmallSegments => {
                &[Echo, EchoUnderLoad, Answer, Screenful, Transfer]
            }
            Self::ReceiveWindow | Self::SendBuffer => &[Screenful, Transfer],
            Self::BlackHole => &[Answer, Screenful, Transfer],
            Self::ServerProcessor | Self::OwnProcessor => {
                &[Echo, EchoUnderLoad, Answer, Screenful, Transfer]
            }
            Self::Distance | Self::Loss | Self::BurstLoss => {
                &[Login, Echo, EchoUnderLoad, Answer, Screenful, Transfer]
            }
        }
    }
}

/// A cause with its magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) second: u64,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let row = self.kind.row();
        write!(f, "{}", row.name)?;
        let numbers = [(row.size, self.size), (row.second, self.second)];
        let parts = numbers.iter().filter_map(|(quantity, number)| {
            let Quantity { name, unit, .. } = (*quantity)?;
            Some(format!("{name} {number} {unit}").trim_end().to_owned())
        });
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() { Ok(()) } else { write!(f, " ({})", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_row_and_every_row_a_service_and_a_class() {
        for (at, row) in ROWS.iter().enumerate() {
            let first = ROWS.iter().position(|other| other.kind == row.kind);
            assert_eq!(first, Some(at), "{:?}", row.kind);
            assert!(!row.services.is_empty() && !row.classes.is_empty());
        }
        assert!(ROWS.is_sorted_by_key(|row| row.kind));
    }

    #[test]
    fn a_magnitude_is_printed_with_its_units() {
        let cause = Cause { kind: Kind::Stalls, size: 900, second: 12 };
        assert_eq!(cause.to_string(), "stalling server (stall 900 ms, one reply in 12)");
        let nagle = Cause { kind: Kind::Nagle, size: 0, second: 0 };
        assert_eq!(nagle.to_string(), "Nagle");
    }
}
