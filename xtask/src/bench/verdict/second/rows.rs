//! The table of the second generator: services, magnitudes and right classes of verdict of every
//! cause.
//!
//! A cause may have several right classes. For competing traffic it is right to name the full
//! queue, the lower rate on the slowest link, or the other traffic.

use super::super::case::Service::{self, FtpGet, FtpPut, Login, LoginOwnTcp, TftpGet};
use super::super::cause::{Kind, Quantity, Resource, Row, quantity, row};
use super::super::rule::Class;
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

const fn of(
    fault: Fault,
    name: &'static str,
    services: &'static [Service],
    classes: &'static [Class],
    resource: Resource,
) -> Row {
    row(Kind::Second(fault), name, services, classes, resource)
}

const fn ms(name: &'static str, least: u64, most: u64) -> Option<Quantity> {
    quantity(name, "ms", least, most)
}

const fn kbps(least: u64, most: u64) -> Option<Quantity> {
    quantity("rate", "kbit/s", least, most)
}

const fn per_mille(name: &'static str, least: u64, most: u64) -> Option<Quantity> {
    quantity(name, "per mille", least, most)
}

/// Every cause: those of the hosts, then those of the path.
pub(in super::super) const ROWS: [Row; 28] = [
    of(Fault::LostQuery, "lost DNS question", ALL_SERVICES, &[Class::Resolver], Resource::Opening)
        .of(quantity("asked again after", "s", 1, 4), None),
    of(
        Fault::ReverseLookup,
        "slow reverse lookup",
        TCP,
        &[Class::ServerGreeting],
        Resource::Opening,
    )
    .of(ms("name server of the server answers after", 1_200, 4_500), None),
    of(Fault::IdentLookup, "late ident answer", FTP, &[Class::ServerGreeting], Resource::Opening)
        .of(ms("rejected after", 900, 4_500), None),
    of(
        Fault::SlowProfile,
        "slow login profile",
        LOGINS,
        &[Class::ServerLogin, Class::ServerGreeting],
        Resource::Server,
    )
    .of(ms("shell starts after", 700, 6_000), None),
    of(
        Fault::ChattyOutput,
        "chatty program",
        LOGINS,
        &[Class::ServerProcessing, Class::SmallSegments],
        Resource::Server,
    )
    .of(ms("pause after each piece", 2, 12), quantity("piece", "bytes", 6, 40)),
    of(
        Fault::BusyLoops,
        "busy programs on the server",
        &[Login],
        &[Class::ServerProcessing],
        Resource::Processor,
    )
    .of(quantity("busy programs", "", 6, 14), quantity("server's nice value", "", 10, 19)),
    of(
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
    .of(ms("each reply after", 60, 350), None),
    of(
        Fault::DiskPauses,
        "pausing disk, reading",
        &[FtpGet],
        &[Class::ServerProcessing],
        Resource::Server,
    )
    .of(ms("pause", 250, 900), quantity("after every", "kB", 96, 400)),
    of(
        Fault::PeriodicSync,
        "periodic fsync, writing",
        &[FtpPut],
        &[Class::ServerReader, Class::ServerProcessing, Class::ServerLastReply],
        Resource::Server,
    )
    .of(ms("fsync takes", 120, 600), quantity("after every", "kB", 96, 400)),
    of(
        Fault::ClientWindow,
        "receive buffer of the client, far path",
        &[FtpGet],
        &[Class::LocalWindow],
        Resource::Flow,
    )
    .of(quantity("buffer", "bytes", 18_000, 48_000), None),
    of(
        Fault::ServerWindow,
        "receive buffer of the server, far path",
        &[FtpPut],
        &[Class::ServerWindow],
        Resource::Flow,
    )
    .of(quantity("buffer", "bytes", 18_000, 48_000), None),
    of(
        Fault::PlainTftp,
        "TFTP without options",
        &[TftpGet],
        &[Class::TftpOptions, Class::LockStep, Class::PathDelay],
        Resource::Flow,
    ),
    of(
        Fault::Satellite,
        "satellite",
        ALL_SERVICES,
        &[Class::PathDelay, Class::LockStep, Class::SlowStart],
        Resource::Delay,
    )
    .of(ms("added round trip", 520, 680), None),
    of(Fault::RouteFlap, "route that alternates", ALL_SERVICES, VARIABLE_DELAY, Resource::Delay)
        .of(ms("longer by", 80, 280), ms("changes every", 700, 2_500)),
    of(Fault::WifiPauses, "Wi-Fi that pauses", ALL_SERVICES, VARIABLE_DELAY, Resource::Delay)
        .of(ms("pause", 140, 350), ms("every", 400, 900)),
    of(Fault::RadioWake, "radio that wakes up", TCP, VARIABLE_DELAY, Resource::Delay)
        .of(ms("wakes up within", 350, 1_300), ms("after an idle time of", 200, 700)),
    of(
        Fault::Outages,
        "outages",
        ALL_SERVICES,
        &[Class::Outage, Class::PathLoss, Class::ConnectionSetup],
        Resource::Packets,
    )
    .of(ms("outage", 900, 2_400), ms("every", 3_500, 5_500)),
    of(Fault::LossToServer, "loss towards the server", TO_SERVER, LOSS, Resource::Packets)
        .of(per_mille("loss", 25, 120), None),
    of(Fault::LossToClient, "loss towards the client", TO_CLIENT, LOSS, Resource::Packets)
        .of(per_mille("loss", 25, 120), None),
    of(Fault::LossOfLarge, "loss of large packets", TCP, &[Class::PathLoss], Resource::Packets)
        .of(per_mille("loss", 40, 160), quantity("longer than", "bytes", 400, 1_000)),
    of(
        Fault::AlternatingRate,
        "rate that alternates",
        &[FtpGet, FtpPut, TftpGet],
        &[Class::PathRate],
        Resource::Flow,
    )
    .of(
        quantity("lower rate, an eighth of the other", "kbit/s", 200, 900),
        ms("changes every", 800, 2_500),
    ),
    of(
        Fault::EarlyDetection,
        "random early detection",
        FTP,
        &[Class::ShortQueue, Class::PathLoss],
        Resource::Flow,
    )
    .of(kbps(3_000, 15_000), per_mille("drops", 60, 250)),
    of(
        Fault::SmallPolicer,
        "policer with a small bucket",
        FTP,
        &[Class::RateLimiter, Class::PathLoss],
        Resource::Flow,
    )
    .of(kbps(700, 5_000), quantity("bucket", "kB", 4, 12)),
    of(
        Fault::LargeShaper,
        "shaper with a large bucket",
        FTP,
        &[Class::RateLimiter, Class::PathRate],
        Resource::Flow,
    )
    .of(kbps(600, 3_000), quantity("bucket", "kB", 200, 600)),
    of(Fault::SaturatedUplink, "saturated uplink", TCP, SHARED, Resource::Flow)
        .of(quantity("rate of the uplink", "kbit/s", 300, 1_200), ms("queue", 250, 1_200)),
    of(Fault::BusyDownlink, "busy downlink", TO_CLIENT, SHARED, Resource::Flow)
        .of(kbps(1_500, 8_000), ms("queue", 120, 500)),
    of(
        Fault::ClampedSegments,
        "clamped segments on a slow radio",
        &[Login, FtpGet],
        &[Class::SmallSegments],
        Resource::Flow,
    )
    .of(quantity("longest packet", "bytes", 250, 560), ms("each packet", 1, 5)),
    of(
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
    fn every_cause_has_one_row_with_a_service_a_class_and_a_whole() {
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
