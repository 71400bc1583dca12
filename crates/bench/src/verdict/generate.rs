//! The first generator of the verdict benchmark: cases from a seed, without I/O.
//!
//! One case in five is healthy, one in five has two causes. A case depends only on the seed and its
//! own number, so that `--seed N --case K` repeats it. Service and cause are taken in order from a
//! permutation of all pairs, so that a run of some sixty cases covers most of the pairs; everything
//! else is random. The size of a file depends on the cause and its magnitude, so that a transfer
//! takes seconds and not minutes. Whether a cause dominates is not assumed but measured
//! (`super::truth`).

use super::case::{Case, Control, Healthy, Path, Peer, Shell};
use super::cause::{Cause, Kind, ROWS, Resource, Row};
use super::generator::Generator;
use super::rng::{Rng, rounded};
use super::service::Service;

/// Number of the random stream that draws the permutation; every other stream draws one case.
const PERMUTATION: u64 = u64::MAX;

/// Returns the case `number` of `seed`.
pub(super) fn case(seed: u64, number: u64) -> Case {
    let mut rng = Rng::new(seed, number);
    match number % 5 {
        // The positions of the healthy case and of the case with two causes in each group of five
        // cases depend on the seed.
        turn if turn == seed % 5 => healthy(seed, number, &mut rng),
        turn if turn == (seed + 2) % 5 => case_with_two_causes(seed, number, &mut rng),
        _ => {
            let (service, row) = pair(seed, number);
            let causes = vec![draw_cause(row, service, &mut rng)];
            build(seed, number, service, causes, &mut rng)
        }
    }
}

/// Returns the service and the cause of the case `number`, from a permutation of all pairs of
/// service and cause.
fn pair(seed: u64, number: u64) -> (Service, &'static Row) {
    let pairs = ROWS.iter().flat_map(|row| row.services.iter().map(move |service| (*service, row)));
    let mut pairs: Vec<(Service, &'static Row)> = pairs.collect();
    let mut rng = Rng::new(seed, PERMUTATION);
    // Fisher-Yates shuffle.
    for last in (1..pairs.len()).rev() {
        let other = rng.next() % (last as u64 + 1);
        pairs.swap(last, usize::try_from(other).unwrap_or(0));
    }
    let at = usize::try_from(number % pairs.len() as u64).unwrap_or(0);
    pairs.get(at).copied().unwrap_or((Service::Login, &ROWS[0]))
}

fn draw_cause(row: &Row, service: Service, rng: &mut Rng) -> Cause {
    let mut draw = |quantity: Option<super::cause::Quantity>| {
        quantity.map_or(0, |quantity| rng.log_uniform(quantity.min, quantity.max))
    };
    let mut size = draw(row.size);
    let mut second = draw(row.second);
    // A login receives screens of 2 kB and not files of megabytes, so only lower rates slow it
    // down.
    if service.is_login() {
        match row.kind {
            Kind::Rate => size = (size / 12).max(24),
            Kind::Shaper => (size, second) = ((size / 3).max(150), second.min(60)),
            _ => {}
        }
    }
    if service == Service::TftpGet && row.kind == Kind::Rate {
        size = (size / 3).max(100);
    }
    Cause { kind: row.kind, size, second }
}

fn case_with_two_causes(seed: u64, number: u64, rng: &mut Rng) -> Case {
    let (service, first) = pair(seed, number);
    let can_follow = |row: &&Row| {
        row.services.contains(&service)
            && row.resource != first.resource
            && ![row.resource, first.resource].contains(&Resource::Processor)
            && !hides(row.kind, first.kind)
            && !hides(first.kind, row.kind)
    };
    let others: Vec<&Row> = ROWS.iter().filter(can_follow).collect();
    let mut causes = vec![draw_cause(first, service, rng)];
    if let Some(second) = rng.pick(&others) {
        causes.push(draw_cause(second, service, rng));
    }
    build(seed, number, service, causes, rng)
}

/// Returns whether `one` makes the effect of `other` unmeasurable, or changes that effect.
fn hides(one: Kind, other: Kind) -> bool {
    match one {
        // With a black hole no data arrives, so no other cause after the name lookup has an effect.
        Kind::BlackHole => other != Kind::SlowResolver,
        // These limits on the data in flight set a rate that depends on the round trip and on
        // losses.
        Kind::ReceiveWindow | Kind::ServerWindow | Kind::SendBuffer | Kind::ShortQueue => {
            matches!(
                other,
                Kind::Distance | Kind::Loss | Kind::BurstLoss | Kind::Reordering | Kind::SlowDisk
            )
        }
        Kind::Loss | Kind::BurstLoss => matches!(other, Kind::Distance | Kind::SlowReader),
        Kind::SlowDisk | Kind::SlowReader => {
            matches!(other, Kind::Rate | Kind::Shaper | Kind::Policer)
        }
        _ => false,
    }
}

fn healthy(seed: u64, number: u64, rng: &mut Rng) -> Case {
    let service = *rng.pick(&Service::ALL).unwrap_or(&Service::Login);
    let mut case = build(seed, number, service, Vec::new(), rng);
    let kinds = [Healthy::ShortPath, Healthy::LongPath, Healthy::LowRate];
    let healthy = *rng.pick(&kinds).unwrap_or(&Healthy::ShortPath);
    match healthy {
        // Only the second case generator (`super::second`) uses Local and Asymmetric.
        Healthy::ShortPath | Healthy::Local | Healthy::Asymmetric => {}
        Healthy::LongPath => {
            case.path.rtt_us = 1_000 * rng.log_uniform(50, 300);
            case.path.jitter_us = case.path.jitter_us.min(case.path.rtt_us / 20);
        }
        Healthy::LowRate => {
            let rate = rng.log_uniform(200, 2_000);
            case.path.rate_kbps = Some(rate);
            // The queue holds one bandwidth-delay product, and at least ten full packets.
            case.path.queue_ms = (case.path.rtt_us / 1_000).max(10 * 12_000 / rate);
        }
    }
    case.bytes = bytes_for(&case, bytes_per_second(&case.path, &[]));
    Case { healthy: Some(healthy), ..case }
}

fn build(seed: u64, number: u64, service: Service, causes: Vec<Cause>, rng: &mut Rng) -> Case {
    let kinds: Vec<Kind> = causes.iter().map(|cause| cause.kind).collect();
    let peers = Peer::for_service(service, &kinds);
    let peer = *rng.pick(&peers).unwrap_or(&Peer::PlumbLogin);
    let path = path(service, &kinds, rng);
    let asks_password = service.is_login() && (kinds.contains(&Kind::SlowLogin) || rng.is(0.3));
    let by_name = kinds.contains(&Kind::SlowResolver) || rng.is(0.25);
    let mut case = Case {
        generator: Generator::First,
        seed,
        number,
        service,
        peer,
        path,
        causes,
        healthy: None,
        by_name,
        asks_password,
        shell: Shell::Plain,
        bytes: 0,
    };
    case.bytes = bytes_for(&case, bytes_per_second(&case.path, &case.causes));
    case
}

fn path(service: Service, kinds: &[Kind], rng: &mut Rng) -> Path {
    let needs_rtt = kinds.iter().any(|kind| {
        matches!(
            kind,
            Kind::ReceiveWindow | Kind::ServerWindow | Kind::SendBuffer | Kind::ShortQueue
        )
    });
    let rtt_us = if needs_rtt {
        rng.log_uniform(30_000, 100_000)
    } else if kinds.contains(&Kind::Nagle) {
        rng.log_uniform(500, 15_000)
    } else {
        rng.log_uniform(2_000, 40_000)
    };
    // A limited rate in addition to an injected one would be a second cause.
    let has_rate = !kinds.iter().any(|kind| kind.row().resource == Resource::Flow) && rng.is(0.4);
    let rate_kbps = has_rate.then(|| rng.log_uniform(20_000, 100_000));
    let jitter_us = if rng.is(0.3) { rng.log_uniform(100, rtt_us / 10 + 100) } else { 0 };
    let duplicates_per_mille =
        if rng.is(0.1) && service.is_login() { rng.log_uniform(10, 300) } else { 0 };
    let control = match kinds.contains(&Kind::ShortQueue) || kinds.contains(&Kind::DeepQueue) {
        // BBR is excluded: it keeps its rate if a short queue drops packets, and does not fill a
        // deep queue.
        true => *rng.pick(&[Control::Cubic, Control::Reno]).unwrap_or(&Control::Cubic),
        false => *rng.pick(&Control::ALL).unwrap_or(&Control::Cubic),
    };
    Path {
        rtt_us,
        jitter_us,
        rate_kbps,
        uplink_kbps: None,
        queue_ms: 100,
        duplicates_per_mille,
        control,
    }
}

/// Returns the approximate transfer rate of a file, bytes per second.
fn bytes_per_second(path: &Path, causes: &[Cause]) -> f64 {
    let mut rtt_s = path.rtt_us as f64 / 1e6;
    let mut max_rate = path.rate_kbps.map_or(4e6, |rate| rate as f64 * 125.0);
    for cause in causes {
        if cause.kind == Kind::Distance {
            rtt_s += cause.size as f64 / 1e3;
        }
    }
    for Cause { kind, size, second } in causes {
        let limit = match kind {
            Kind::Rate | Kind::Shaper => *size as f64 * 125.0,
            Kind::Policer => *size as f64 * 60.0,
            Kind::ShortQueue => *size as f64 * 80.0,
            // Mathis et al. (1997), reduced for timeouts.
            Kind::Loss | Kind::BurstLoss => {
                1_300.0 / (rtt_s.max(0.01) * (*size as f64 / 1e3).sqrt())
            }
            Kind::Reordering => 200_000.0,
            // Half of a receive buffer is payload.
            Kind::ReceiveWindow | Kind::ServerWindow | Kind::SendBuffer => {
                *size as f64 / 2.0 / rtt_s.max(0.001)
            }
            Kind::SlowDisk | Kind::SlowReader => 16_384.0 * 1e3 / *size as f64,
            Kind::SmallSegments => *second as f64 * 75.0,
            Kind::Distance => 14_480.0 * 4.0 / rtt_s,
            _ => 4e6,
        };
        max_rate = max_rate.min(limit);
    }
    max_rate
}

/// Returns the size of the largest file: a power of two of KiB that takes some seconds.
fn bytes_for(case: &Case, bytes_per_second: f64) -> u64 {
    let (min, max, per_second) = match case.service {
        Service::Login | Service::LoginOwnTcp => return 0,
        Service::FtpGet | Service::FtpPut => (64_u64 << 10, 4 << 20, bytes_per_second),
        Service::TftpGet => {
            // One block of 1,428 bytes per round trip, and a timeout of one second per loss.
            let mut seconds = case.path.rtt_us as f64 / 1e6;
            for Cause { kind, size, .. } in &case.causes {
                seconds += match kind {
                    Kind::Distance => *size as f64 / 1e3,
                    Kind::SlowDisk => *size as f64 / 1e3 / 11.5,
                    _ => 0.0,
                };
            }
            let lock_step = 1_428.0 / seconds.max(0.001);
            let lossy =
                case.causes.iter().find(|cause| matches!(cause.kind, Kind::Loss | Kind::BurstLoss));
            if let Some(loss) = lossy {
                // Enough packets that about six of them are lost, in both directions together.
                return power_of_two(3.0e3 / loss.size as f64 * 1_428.0, 32 << 10, 512 << 10);
            }
            (16 << 10, 512 << 10, lock_step.min(bytes_per_second))
        }
    };
    power_of_two(per_second * 2.5, min, max)
}

/// Limits `wanted` to the range `min` to `max`, rounds it down to a power of two, and returns
/// it.
pub(super) fn power_of_two(wanted: f64, min: u64, max: u64) -> u64 {
    let wanted = rounded(wanted).clamp(min, max);
    1 << (u64::BITS - 1 - wanted.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_case_is_determined_by_its_seed_and_number() {
        for number in 0..50 {
            assert_eq!(case(7, number), case(7, number));
        }
        assert_ne!(case(7, 1), case(8, 1));
    }

    #[test]
    fn over_many_seeds_every_cause_occurs_with_each_of_its_services_and_every_peer_appears() {
        let mut pairs = BTreeSet::new();
        let mut peers = BTreeSet::new();
        let mut controls = Vec::new();
        for seed in 0..20 {
            for number in 0..150 {
                let case = case(seed, number);
                peers.insert(case.peer);
                controls.push(case.path.control);
                pairs.extend(case.causes.iter().map(|cause| (cause.kind, case.service)));
            }
        }
        for row in &ROWS {
            for service in row.services {
                assert!(pairs.contains(&(row.kind, *service)), "{} {service:?}", row.name);
            }
        }
        assert!(peers.iter().eq(&Peer::FIRST.into_iter().collect::<BTreeSet<_>>()));
        assert!(Control::ALL.iter().all(|control| controls.contains(control)));
    }

    #[test]
    fn a_fifth_is_healthy_and_a_fifth_has_two_causes() {
        let cases: Vec<Case> = (0..1_000).map(|number| case(3, number)).collect();
        let healthy = cases.iter().filter(|case| case.healthy.is_some()).count();
        let two = cases.iter().filter(|case| case.causes.len() == 2).count();
        assert_eq!(healthy, 200);
        assert!((170..=200).contains(&two), "{two}");
        assert!(cases.iter().all(|case| case.healthy.is_some() == case.causes.is_empty()));
    }

    #[test]
    fn magnitudes_lie_in_their_ranges_and_two_causes_act_on_two_resources() {
        for number in 0..2_000 {
            let case = case(11, number);
            for cause in &case.causes {
                let row = cause.kind.row();
                assert!(row.services.contains(&case.service), "{case}");
                let max = row.size.map_or(0, |size| size.max);
                assert!(cause.size <= max && (max == 0 || cause.size > 0), "{case}");
            }
            if let [one, other] = case.causes.as_slice() {
                assert_ne!(one.kind.row().resource, other.kind.row().resource, "{case}");
                assert!(!case.is_exclusive(), "{case}");
            }
            let has_file = !case.service.is_login();
            assert_eq!(case.bytes > 0, has_file, "{case}");
        }
    }

    #[test]
    fn healthy_long_paths_have_round_trips_of_50_to_300_ms() {
        let all = (0..2_000).map(|number| case(5, number));
        let long_paths: Vec<Case> =
            all.filter(|case| case.healthy == Some(Healthy::LongPath)).collect();
        assert!(long_paths.len() > 50);
        assert!(long_paths.iter().all(|case| (50_000..=300_000).contains(&case.path.rtt_us)));
    }
}
