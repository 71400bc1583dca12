//! Cases of the second generator from a seed, without I/O.
//!
//! Six cases of twenty are healthy, three have two causes. As in `super::super::generate`, a case
//! depends only on the seed and its own number, and causes are taken in order from a permutation of
//! all pairs of service and cause.

use super::super::case::{Case, Control, Healthy, Path, Peer, Shell};
use super::super::cause::{Cause, Kind, Quantity, Resource, Row};
use super::super::generate::power_of_two;
use super::super::generator::Generator;
use super::super::rng::Rng;
use super::super::service::Service;
use super::cause::Fault;
use super::rows::ROWS;
use super::server_choice;

/// Number of the random stream that draws the permutation; every other stream draws one case.
const PERMUTATION: u64 = u64::MAX - 1;
/// Mask that makes the random streams differ from those of `super::super::generate` for the same
/// seed.
const SEED_MASK: u64 = 0x5EC0_4D5E_C04D_5EC0;
/// Number of healthy cases in twenty.
const HEALTHY_OF_20: u64 = 6;
/// Number of cases with two causes in twenty.
const PAIRS_OF_20: u64 = 3;

/// Returns the case `number` of `seed`.
pub(in super::super) fn case(seed: u64, number: u64) -> Case {
    let mut rng = Rng::new(seed ^ SEED_MASK, number);
    // Seven and twenty are coprime, so healthy cases are spread between the others.
    let turn = (number * 7 + seed % 20) % 20;
    if turn < HEALTHY_OF_20 {
        return healthy(seed, number, &mut rng);
    }
    // Number of this case among the cases with a cause.
    let rank = number / 20 * (20 - HEALTHY_OF_20) + turn - HEALTHY_OF_20;
    let (service, row) = pair(seed, rank);
    let mut causes = vec![draw_cause(row, service, &mut rng)];
    if turn < HEALTHY_OF_20 + PAIRS_OF_20 {
        let others: Vec<&Row> =
            ROWS.iter().filter(|other| can_combine(other, row, service)).collect();
        causes.extend(rng.pick(&others).map(|other| draw_cause(other, service, &mut rng)));
    }
    build(seed, number, service, causes, &mut rng)
}

/// Returns whether two causes can be measured together. Exactly one of them must act before the
/// first byte of the session, and neither may act on a processor.
fn can_combine(other: &Row, row: &Row, service: Service) -> bool {
    let is_opening = |row: &Row| row.resource == Resource::Opening;
    let is_processor = |row: &Row| row.resource == Resource::Processor;
    // With an interposer, the server would query the interposer's host instead of the client's.
    let is_server = |row: &Row| row.resource == Resource::Server;
    let has_server_lookup = |row: &Row| {
        let lookup_faults = [Fault::ReverseLookup, Fault::IdentLookup];
        lookup_faults.into_iter().any(|fault| row.kind == Kind::Second(fault))
    };
    other.services.contains(&service)
        && is_opening(other) != is_opening(row)
        && !is_processor(other)
        && !is_processor(row)
        && !(has_server_lookup(other) && is_server(row)
            || has_server_lookup(row) && is_server(other))
}

/// Returns the service and the cause of case number `rank`, counted without healthy cases, from a
/// permutation of all pairs of service and cause.
fn pair(seed: u64, rank: u64) -> (Service, &'static Row) {
    let pairs = ROWS.iter().flat_map(|row| row.services.iter().map(move |service| (*service, row)));
    let mut pairs: Vec<(Service, &'static Row)> = pairs.collect();
    let mut rng = Rng::new(seed ^ SEED_MASK, PERMUTATION);
    // Fisher-Yates shuffle.
    for last in (1..pairs.len()).rev() {
        let other = rng.next() % (last as u64 + 1);
        pairs.swap(last, usize::try_from(other).unwrap_or(0));
    }
    let at = usize::try_from(rank % pairs.len() as u64).unwrap_or(0);
    pairs.get(at).copied().unwrap_or((Service::Login, &ROWS[0]))
}

fn draw_cause(row: &Row, service: Service, rng: &mut Rng) -> Cause {
    let mut draw = |quantity: Option<Quantity>| {
        quantity.map_or(0, |quantity| rng.log_uniform(quantity.min, quantity.max))
    };
    let mut size = draw(row.size);
    let second = draw(row.second);
    // TFTP sends one block per round trip, so only a rate below that of its blocks delays it.
    if service == Service::TftpGet && row.kind == Kind::Second(Fault::AlternatingRate) {
        size = (size / 4).max(50);
    }
    Cause { kind: row.kind, size, second }
}

fn healthy(seed: u64, number: u64, rng: &mut Rng) -> Case {
    let service = *rng.pick(&Service::ALL).unwrap_or(&Service::Login);
    let mut case = build(seed, number, service, Vec::new(), rng);
    let kinds = [
        Healthy::Local,
        Healthy::ShortPath,
        Healthy::LongPath,
        Healthy::LowRate,
        Healthy::Asymmetric,
    ];
    let healthy = *rng.pick(&kinds).unwrap_or(&Healthy::Local);
    let path = &mut case.path;
    match healthy {
        Healthy::Local => {
            path.rtt_us = rng.log_uniform(100, 900);
            path.jitter_us = 0;
            path.rate_kbps = None;
        }
        Healthy::ShortPath => {}
        Healthy::LongPath => {
            path.rtt_us = 1_000 * rng.log_uniform(150, 350);
            path.jitter_us = path.jitter_us.min(path.rtt_us / 50);
            path.queue_ms = path.rtt_us / 1_000;
        }
        Healthy::LowRate => {
            let rate = rng.log_uniform(56, 512);
            path.rate_kbps = Some(rate);
            // The queue holds one bandwidth-delay product, and at least an initial window of ten
            // full packets and two more packets.
            path.queue_ms = (path.rtt_us / 1_000).max(12 * 12_000 / rate);
        }
        Healthy::Asymmetric => {
            let rate = rng.log_uniform(6_000, 50_000);
            let uplink = rate / rng.log_uniform(5, 16);
            path.rate_kbps = Some(rate);
            path.uplink_kbps = Some(uplink);
            path.queue_ms = (path.rtt_us / 1_000).max(40 * 12_000 / uplink);
        }
    }
    case.bytes = bytes_for(&case);
    Case { healthy: Some(healthy), ..case }
}

fn build(seed: u64, number: u64, service: Service, causes: Vec<Cause>, rng: &mut Rng) -> Case {
    let has = |fault| causes.iter().any(|cause| cause.kind == Kind::Second(fault));
    let supported_servers = server_choice::servers_for(service, &causes);
    let peer = *rng.pick(&supported_servers).unwrap_or(&Peer::PlumbLogin);
    let path = path(&causes, rng);
    let asks_password = service.is_login() && (has(Fault::SlowProfile) || rng.is(0.4));
    let by_name = has(Fault::LostQuery) || rng.is(0.2);
    let shell = match service.is_login() {
        true => *rng.pick(&Shell::ALL).unwrap_or(&Shell::Plain),
        false => Shell::Plain,
    };
    let mut case = Case {
        generator: Generator::Second,
        seed,
        number,
        service,
        peer,
        path,
        causes,
        healthy: None,
        by_name,
        asks_password,
        shell,
        bytes: 0,
    };
    case.bytes = bytes_for(&case);
    case
}

fn path(causes: &[Cause], rng: &mut Rng) -> Path {
    let has = |fault| causes.iter().any(|cause| cause.kind == Kind::Second(fault));
    let rtt_us = if has(Fault::ClientWindow) || has(Fault::ServerWindow) {
        rng.log_uniform(120_000, 260_000)
    } else if has(Fault::PlainTftp) {
        rng.log_uniform(15_000, 70_000)
    } else if has(Fault::EarlyDetection) {
        // On a short path a loss costs almost nothing.
        rng.log_uniform(40_000, 110_000)
    } else {
        rng.log_uniform(5_000, 75_000)
    };
    let jitter_us = if rng.is(0.25) { rng.log_uniform(200, rtt_us / 8 + 200) } else { 0 };
    // A limited rate in addition to a cause that limits it would be a second cause.
    let is_limited = causes.iter().any(|cause| cause.kind.row().resource == Resource::Flow);
    let has_rate = !is_limited && rng.is(0.4);
    // The rate is so low that a transfer lasts as long as the time between two outages or pauses.
    let rate_kbps = if has(Fault::Outages) {
        Some(rng.log_uniform(1_500, 3_000))
    } else if has(Fault::WifiPauses) {
        Some(rng.log_uniform(8_000, 30_000))
    } else {
        has_rate.then(|| rng.log_uniform(8_000, 200_000))
    };
    let is_lossy = has(Fault::SaturatedUplink)
        || has(Fault::BusyDownlink)
        || has(Fault::EarlyDetection)
        || has(Fault::SmallPolicer);
    let control = match is_lossy {
        // BBR is excluded: it keeps its rate if a queue drops packets, and does not fill queues.
        true => *rng.pick(&[Control::Cubic, Control::Reno]).unwrap_or(&Control::Cubic),
        false => *rng.pick(&Control::ALL).unwrap_or(&Control::Cubic),
    };
    let least_ms = rate_kbps.map_or(60, |rate| 60.max(20 * 12_000 / rate));
    let queue_ms = least_ms.max(rtt_us / 1_000);
    Path {
        rtt_us,
        jitter_us,
        rate_kbps,
        uplink_kbps: None,
        queue_ms,
        duplicates_per_mille: 0,
        control,
    }
}

/// Returns the approximate transfer rate of a file, bytes per second.
fn bytes_per_second(case: &Case) -> f64 {
    let mut rtt_s = case.path.rtt_us as f64 / 1e6;
    let is_put = case.service == Service::FtpPut;
    let rate = case.path.uplink_kbps.filter(|_| is_put).or(case.path.rate_kbps);
    let mut max_rate = rate.map_or(4e6, |rate| rate as f64 * 125.0);
    for Cause { kind, size, second } in &case.causes {
        let Kind::Second(fault) = kind else { continue };
        let size = *size as f64;
        let second = *second as f64;
        let limit = match fault {
            Fault::Satellite => {
                rtt_s += size / 1e3;
                14_480.0 * 4.0 / rtt_s
            }
            Fault::RouteFlap => 14_480.0 * 10.0 / (size / 1e3),
            // Mathis et al. (1997), reduced for timeouts.
            Fault::LossToServer | Fault::LossToClient | Fault::LossOfLarge => {
                1_300.0 / (rtt_s.max(0.01) * (size / 1e3).sqrt())
            }
            Fault::Outages => 250_000.0,
            Fault::AlternatingRate => size * 125.0 * 4.0,
            Fault::EarlyDetection => size * 60.0,
            Fault::SmallPolicer => size * 40.0,
            Fault::LargeShaper => size * 125.0,
            Fault::SaturatedUplink => {
                if is_put {
                    size * 50.0
                } else {
                    size * 250.0
                }
            }
            Fault::BusyDownlink => size * 50.0,
            // Half of a receive buffer is payload.
            Fault::ClientWindow | Fault::ServerWindow => size / 2.0 / rtt_s.max(0.001),
            Fault::ClampedSegments => (size - 40.0) * 1e3 / (size * 8.0 / 2_000.0 + second),
            Fault::DiskPauses | Fault::PeriodicSync => second * 1e6 / size,
            Fault::SlowReplies | Fault::BlockedData => 300_000.0,
            _ => 4e6,
        };
        max_rate = max_rate.min(limit);
    }
    max_rate
}

/// Returns the size of the largest file: a power of two of KiB that takes some seconds.
fn bytes_for(case: &Case) -> u64 {
    let per_second = bytes_per_second(case);
    let has = |fault| case.has(Kind::Second(fault));
    let is_rare = [Fault::Outages, Fault::DiskPauses, Fault::PeriodicSync].into_iter().any(has);
    let seconds_wanted = if is_rare { 4.0 } else { 2.5 };
    let bucket = case.causes.iter().find(|cause| cause.kind == Kind::Second(Fault::LargeShaper));
    match case.service {
        Service::Login | Service::LoginOwnTcp => 0,
        // The bucket's content, which passes at once, and some seconds at the limited rate.
        Service::FtpGet | Service::FtpPut if bucket.is_some() => {
            let bytes = bucket.map_or(0, |cause| cause.second * 1_000);
            power_of_two(bytes as f64 * 2.0 + per_second * 2.0, 512 << 10, 4 << 20)
        }
        Service::FtpGet | Service::FtpPut => {
            power_of_two(per_second * seconds_wanted, 16 << 10, 4 << 20)
        }
        Service::TftpGet => {
            let mut seconds = case.path.rtt_us as f64 / 1e6;
            // These servers accept windows of 16 blocks (RFC 7440).
            let has_windows = matches!(case.peer, Peer::PlumbTftp | Peer::Atftpd);
            let mut block = if has_windows { 8.0 * 1_428.0 } else { 1_428.0 };
            for Cause { kind, size, second } in &case.causes {
                match kind {
                    Kind::Second(Fault::BusyDownlink) => seconds += *second as f64 / 4e3,
                    Kind::Second(Fault::Satellite) => seconds += *size as f64 / 1e3,
                    Kind::Second(Fault::RouteFlap) => seconds += *size as f64 / 2e3,
                    Kind::Second(Fault::WifiPauses) => seconds += *size as f64 / 4e3,
                    Kind::Second(Fault::PlainTftp) => block = 512.0,
                    // Enough packets that about six of them are lost.
                    Kind::Second(Fault::LossToServer | Fault::LossToClient) => {
                        let bytes = 6.0e3 / *size as f64 * 1_428.0;
                        return power_of_two(bytes, 32 << 10, 512 << 10);
                    }
                    _ => {}
                }
            }
            let lock_step = block / seconds.max(0.001);
            power_of_two(lock_step.min(per_second) * seconds_wanted, 8 << 10, 512 << 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_case_is_determined_by_its_seed_and_differs_from_the_first_generators() {
        for number in 0..50 {
            assert_eq!(case(7, number), case(7, number));
        }
        assert_ne!(case(7, 1), case(8, 1));
        let first = super::super::super::generate::case(7, 1);
        assert_ne!(case(7, 1).path, first.path);
    }

    #[test]
    fn over_many_seeds_every_cause_occurs_with_each_of_its_services_and_every_peer_appears() {
        let mut pairs = BTreeSet::new();
        let mut peers = BTreeSet::new();
        let mut shells = BTreeSet::new();
        for seed in 0..20 {
            for number in 0..150 {
                let case = case(seed, number);
                peers.insert(case.peer);
                shells.insert(case.shell);
                pairs.extend(case.causes.iter().map(|cause| (cause.kind, case.service)));
            }
        }
        for row in &ROWS {
            for service in row.services {
                assert!(pairs.contains(&(row.kind, *service)), "{} {service:?}", row.name);
            }
        }
        assert!(peers.iter().eq(&Peer::SECOND.into_iter().collect::<BTreeSet<_>>()));
        assert_eq!(shells.len(), Shell::ALL.len());
    }

    #[test]
    fn a_run_of_120_cases_has_every_pair_of_service_and_cause() {
        let pairs: usize = ROWS.iter().map(|row| row.services.len()).sum();
        assert!(pairs <= 6 * 14, "{pairs}");
        let first = (0..120).map(|number| case(4, number)).filter_map(|case| {
            let cause = case.causes.first()?;
            Some((cause.kind, case.service))
        });
        assert_eq!(first.collect::<BTreeSet<_>>().len(), pairs);
    }

    #[test]
    fn of_twenty_cases_six_are_healthy_and_three_have_two_causes() {
        for seed in [3, 8, 21] {
            let cases: Vec<Case> = (0..200).map(|number| case(seed, number)).collect();
            let healthy = cases.iter().filter(|case| case.healthy.is_some()).count();
            let two = cases.iter().filter(|case| case.causes.len() == 2).count();
            assert_eq!(healthy, 60);
            // A cause that needs a processor is never combined.
            assert!((25..=30).contains(&two), "{two}");
            assert!(cases.iter().all(|case| case.healthy.is_some() == case.causes.is_empty()));
        }
    }

    #[test]
    fn magnitudes_lie_in_their_ranges_and_one_of_two_causes_delays_the_opening() {
        for number in 0..2_000 {
            let case = case(11, number);
            for cause in &case.causes {
                let row = cause.kind.row();
                assert!(row.services.contains(&case.service), "{case}");
                let is_in = |quantity: Option<Quantity>, number: u64| match quantity {
                    None => number == 0,
                    Some(_) if case.service == Service::TftpGet => number > 0,
                    Some(Quantity { min, max, .. }) => (min..=max).contains(&number),
                };
                assert!(is_in(row.size, cause.size) && is_in(row.second, cause.second), "{case}");
            }
            if let [one, other] = case.causes.as_slice() {
                let opening = [one, other].map(|cause| cause.kind.row().resource);
                assert_eq!(opening.iter().filter(|one| **one == Resource::Opening).count(), 1);
                assert!(!case.is_exclusive(), "{case}");
            }
            assert_eq!(case.bytes > 0, !case.service.is_login(), "{case}");
        }
    }

    #[test]
    fn healthy_paths_have_the_round_trips_and_rates_of_their_kind() {
        let mut kinds = Vec::new();
        for case in (0..2_000).map(|number| case(5, number)) {
            let Some(healthy) = case.healthy else { continue };
            kinds.push(healthy);
            let path = case.path;
            let rtt_us = path.rtt_us;
            let rate = path.rate_kbps.unwrap_or(u64::MAX);
            let is_right = match healthy {
                Healthy::Local => (100..=900).contains(&rtt_us) && path.rate_kbps.is_none(),
                Healthy::ShortPath => (5_000..=75_000).contains(&rtt_us),
                Healthy::LongPath => (150_000..=350_000).contains(&rtt_us),
                Healthy::LowRate => (56..=512).contains(&rate),
                Healthy::Asymmetric => path.uplink_kbps.is_some_and(|uplink| uplink * 4 < rate),
            };
            assert!(is_right, "{case}");
        }
        for kind in [Healthy::Local, Healthy::ShortPath, Healthy::LongPath, Healthy::LowRate] {
            assert!(kinds.iter().filter(|one| **one == kind).count() > 50, "{kind:?}");
        }
    }
}
