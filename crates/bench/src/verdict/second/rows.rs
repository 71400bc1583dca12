//! The table of the second generator: services, magnitudes and right classes of verdict of every
//! cause.
//!
//! A cause may have several right classes. For competing traffic it is right to name the full
//! queue, the lower rate on the slowest link, or the other traffic.

use super::super::cause::{Kind, Quantity, Resource, Row, quantity, row};
use super::super::rule::Class;
use super::super::service::Service::{self, FtpGet, FtpPut, Login, LoginOwnTcp, TftpGet};
use super::cause::Fault;

const ALL_SERVICES: &[Service] = &[Login, LoginOwnTcp, FtpGet, FtpPut, TftpGet];
const LOGINS: &[Service] = &[Login, LoginOwnTcp];
const TCP: &[Service] = &[Login, LoginOwnTcp, FtpGet, FtpPut];
const FTP: &[Service] = &[FtpGet, FtpPut];
/// Services that transfer data to the client.
const TO_CLIENT: &[Service] = &[Login, LoginOwnTcp, FtpGet, TftpGet];
/// Services that send something to the server: keys, data or acknowledgments of blocks.
const TO_SERVER: &[Service] = &[Login, LoginOwnTcp, FtpPut, TftpGet];

const LOSS: &[Class] = &[Class::PathLoss, Class::ConnectionSetup];
const VARIABLE_DELAY: &[Class] = &[Class::VariableDelay, Class::PathDelay];
const SHARED: &[Class] = &[Class::CrossTraffic, Class::PathQueue, Class::PathRate];

const fn row_of(
    fault: Fault,
    name: &'static str,
    services: &'static [Service],
    classes: &'static [Class],
    resource: Resource,
) -> Row {
    row(Kind::Second(fault), name, services, classes, resource)
}

const fn ms(name: &'static str, min: u64, max: u64) -> Option<Quantity> {
    quantity(name, "ms", min, max)
}

const fn kbps(min: u64, max: u64) -> Option<Quantity> {
    quantity("rate", "kbit/s", min, max)
}

const fn per_mille(name: &'static str, min: u64, max: u64) -> Option<Quantity> {
    quantity(name, "per mille", min, max)
}

/// Every cause: those of the hosts, then those of the path.
pub(in super::super) const ROWS: [Row; 28] = [
    row_of(
        Fault::LostQuery,
        "lost DNS question",
        ALL_SERVICES,
        &[Class::Resolver],
        Resource::Opening,
    )
    .with_quantities(quantity("asked again after", "s", 1, 4), None),
    row_of(
        Fault::ReverseLookup,
        "slow reverse lookup",
        TCP,
        &[Class::ServerGreeting],
        Resource::Opening,
    )
    .with_quantities(ms("name server of the server answers after", 1_200, 4_500), None),
    row_of(
        Fault::IdentLookup,
        "late ident answer",
        FTP,
        &[Class::ServerGreeting],
        Resource::Opening,
    )
    .with_quantities(ms("rejected after", 900, 4_500), None),
    row_of(
        Fault::SlowProfile,
        "slow login profile",
        LOGINS,
        &[Class::ServerLogin, Class::ServerGreeting],
        Resource::Server,
    )
    .with_quantities(ms("shell starts after", 700, 6_000), None),
    row_of(
        Fault::ChattyOutput,
        "chatty program",
        LOGINS,
        &[Class::ServerProcessing, Class::SmallSegments],
        Resource::Server,
    )
    .with_quantities(ms("pause after each piece", 2, 12), quantity("piece", "bytes", 6, 40)),
    row_of(
        Fault::BusyLoops,
        "busy programs on the server",
        &[Login],
        &[Class::ServerProcessing],
        Resource::Processor,
    )
    .with_quantities(
        quantity("busy programs", "", 6, 14),
        quantity("server's nice value", "", 10, 19),
    ),
    row_of(
        Fault::SlowReplies,
        "slow FTP replies",
        FTP,
        &[
            Class::ServerProcessing,
            Class::ServerGreeting,
            Class::ServerLogin,
            Class::ServerLastReply,
        ],
        Resource::Server,
    )
    .with_quantities(ms("each reply after", 60, 350), None),
    row_of(
        Fault::DiskPauses,
        "pausing disk, reading",
        &[FtpGet],
        &[Class::ServerProcessing],
        Resource::Server,
    )
    .with_quantities(ms("pause", 250, 900), quantity("after every", "kB", 96, 400)),
    row_of(
        Fault::PeriodicSync,
        "periodic fsync, writing",
        &[FtpPut],
        &[Class::ServerReader, Class::ServerProcessing, Class::ServerLastReply],
        Resource::Server,
    )
    .with_quantities(ms("fsync takes", 120, 600), quantity("after every", "kB", 96, 400)),
    row_of(
        Fault::ClientWindow,
        "receive buffer of the client, far path",
        &[FtpGet],
        &[Class::LocalWindow],
        Resource::Flow,
    )
    .with_quantities(quantity("buffer", "bytes", 18_000, 48_000), None),
    row_of(
        Fault::ServerWindow,
        "receive buffer of the server, far path",
        &[FtpPut],
        &[Class::ServerWindow],
        Resource::Flow,
    )
    .with_quantities(quantity("buffer", "bytes", 18_000, 48_000), None),
    row_of(
        Fault::PlainTftp,
        "TFTP without options",
        &[TftpGet],
        &[Class::TftpOptions, Class::LockStep, Class::PathDelay],
        Resource::Flow,
    ),
    row_of(
        Fault::Satellite,
        "satellite",
        ALL_SERVICES,
        &[Class::PathDelay, Class::LockStep, Class::SlowStart],
        Resource::Delay,
    )
    .with_quantities(ms("added round trip", 520, 680), None),
    row_of(
        Fault::RouteFlap,
        "route that alternates",
        ALL_SERVICES,
        VARIABLE_DELAY,
        Resource::Delay,
    )
    .with_quantities(ms("longer by", 80, 280), ms("changes every", 700, 2_500)),
    row_of(Fault::WifiPauses, "Wi-Fi that pauses", ALL_SERVICES, VARIABLE_DELAY, Resource::Delay)
        .with_quantities(ms("pause", 140, 350), ms("every", 400, 900)),
    row_of(Fault::RadioWake, "radio that wakes up", TCP, VARIABLE_DELAY, Resource::Delay)
        .with_quantities(ms("wakes up within", 350, 1_300), ms("after an idle time of", 200, 700)),
    row_of(
        Fault::Outages,
        "outages",
        ALL_SERVICES,
        &[Class::Outage, Class::PathLoss, Class::ConnectionSetup],
        Resource::Packets,
    )
    .with_quantities(ms("outage", 900, 2_400), ms("every", 3_500, 5_500)),
    row_of(Fault::LossToServer, "loss towards the server", TO_SERVER, LOSS, Resource::Packets)
        .with_quantities(per_mille("loss", 25, 120), None),
    row_of(Fault::LossToClient, "loss towards the client", TO_CLIENT, LOSS, Resource::Packets)
        .with_quantities(per_mille("loss", 25, 120), None),
    row_of(Fault::LossOfLarge, "loss of large packets", TCP, &[Class::PathLoss], Resource::Packets)
        .with_quantities(per_mille("loss", 40, 160), quantity("longer than", "bytes", 400, 1_000)),
    row_of(
        Fault::AlternatingRate,
        "rate that alternates",
        &[FtpGet, FtpPut, TftpGet],
        &[Class::PathRate],
        Resource::Flow,
    )
    .with_quantities(
        quantity("lower rate, an eighth of the other", "kbit/s", 200, 900),
        ms("changes every", 800, 2_500),
    ),
    row_of(
        Fault::EarlyDetection,
        "random early detection",
        FTP,
        &[Class::ShortQueue, Class::PathLoss],
        Resource::Flow,
    )
    .with_quantities(kbps(3_000, 15_000), per_mille("drops", 60, 250)),
    row_of(
        Fault::SmallPolicer,
        "policer with a small bucket",
        FTP,
        &[Class::RateLimiter, Class::PathLoss],
        Resource::Flow,
    )
    .with_quantities(kbps(700, 5_000), quantity("bucket", "kB", 4, 12)),
    row_of(
        Fault::LargeShaper,
        "shaper with a large bucket",
        FTP,
        &[Class::RateLimiter, Class::PathRate],
        Resource::Flow,
    )
    .with_quantities(kbps(600, 3_000), quantity("bucket", "kB", 200, 600)),
    row_of(Fault::SaturatedUplink, "saturated uplink", TCP, SHARED, Resource::Flow)
        .with_quantities(
            quantity("rate of the uplink", "kbit/s", 300, 1_200),
            ms("queue", 250, 1_200),
        ),
    row_of(Fault::BusyDownlink, "busy downlink", TO_CLIENT, SHARED, Resource::Flow)
        .with_quantities(kbps(1_500, 8_000), ms("queue", 120, 500)),
    row_of(
        Fault::ClampedSegments,
        "clamped segments on a slow radio",
        &[Login, FtpGet],
        &[Class::SmallSegments],
        Resource::Flow,
    )
    .with_quantities(quantity("longest packet", "bytes", 250, 560), ms("each packet", 1, 5)),
    row_of(
        Fault::BlockedData,
        "first SYN of data connections dropped",
        FTP,
        &[Class::ConnectionSetup, Class::PathLoss],
        Resource::Opening,
    ),
];

impl Fault {
    /// Returns the table row of this cause.
    pub(in super::super) fn row(self) -> &'static Row {
        // A test checks that every cause has a row.
        ROWS.iter().find(|row| row.kind == Kind::Second(self)).unwrap_or(&ROWS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::cause;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_cause_has_one_row_with_a_service_a_class_and_a_waiting_time() {
        let faults = ROWS.iter().map(|row| match row.kind {
            Kind::Second(fault) => fault,
            kind => panic!("{kind:?} is a cause of the first generator"),
        });
        let faults: BTreeSet<Fault> = faults.collect();
        assert_eq!(faults.len(), ROWS.len());
        let last = Fault::PlainTftp as usize;
        assert_eq!(faults.len(), last + 1);
        for row in &ROWS {
            assert!(!row.services.is_empty() && !row.classes.is_empty(), "{}", row.name);
            assert!(!row.kind.acts_on().is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn no_cause_has_the_name_of_one_of_the_first_generator() {
        let first: BTreeSet<&str> = cause::ROWS.iter().map(|row| row.name).collect();
        let second: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(second.len(), ROWS.len());
        assert!(first.is_disjoint(&second));
    }
}
