//! Tests of the meter in virtual time: an injected delay is charged to the layer in which it
//! occurs, to the nanosecond, and clock readings of different hosts are never compared.

use super::costs::ibm_pc;
use super::experiments::{Equipment, SEED, UserWorld, WINDOW, open, personal_computer, world};
use super::workload::ScriptedUser;
use net::meter::{Account, Costs, Meter, Quantity, Work};
use net::time::{Duration, Instant};
use proptest::prelude::*;
use simulator::Side;
use simulator::clock::LocalClock;
use simulator::transmission_line::Line;

const KEYS: usize = 20;
/// Injected delays in nanoseconds, each added to the cost of one kind of work. All other costs are
/// those of TM-233.
const INJECTED_NS: [u64; 2] = [100_000, 1_000_000];

fn create_world(costs: Costs) -> UserWorld {
    let users = [ScriptedUser::typist(b"x\r\n".to_vec(), KEYS, true), ScriptedUser::echoer(true)];
    let equipment = Equipment { costs, ..Equipment::of_1982() };
    world(users, equipment, Line::serial(9_600), personal_computer(WINDOW), SEED)
}

fn run(costs: Costs) -> UserWorld {
    let mut world = create_world(costs);
    world.drive(|world| world.user.application.stream.is_done()).unwrap();
    world
}

fn charge_error(work: Work, costs: &Costs, meter: &Meter) -> u64 {
    let others = Work::ALL.iter().filter(|other| other.account() == work.account());
    let expected: u64 = others.map(|other| costs.unit_ns(*other) * meter.units(*other)).sum();
    meter.charged(work.account()).abs_diff(expected)
}

#[test]
fn a_delay_injected_into_one_activity_is_charged_to_its_layer_only() {
    // A session moves no file; `rfc573::replay` injects delays there.
    let work_kinds = Work::ALL.iter().filter(|work| **work != Work::FileByte);
    for (work, injected_ns) in work_kinds.flat_map(|work| INJECTED_NS.map(|ns| (*work, ns))) {
        let costs = ibm_pc().with(work, ibm_pc().unit_ns(work) + injected_ns);
        let world = run(costs);
        for meter in [&world.user.meter, &world.server.meter] {
            let injected = injected_ns * meter.units(work);
            assert!(injected > 0, "no step does {work:?}");
            for other in Work::ALL {
                // The goal for the error is a twentieth of the delay; in virtual time the error is
                // zero.
                assert_eq!(charge_error(*other, &costs, meter), 0, "{work:?} in {other:?}");
            }
            assert!(meter.charged(work.account()) >= injected);
            assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
        }
    }
}

#[test]
fn the_accounts_add_up_to_the_elapsed_time() {
    let mut world = create_world(ibm_pc());
    open(&mut world).unwrap();
    for _ in 0..100 {
        let at = world.now() + Duration::from_millis(7);
        world.run_until(at);
        for meter in [&world.user.meter, &world.server.meter] {
            assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
            let idle = world.now() - meter.busy_until();
            let elapsed = meter.busy_until() - Instant::ZERO;
            assert_eq!(u128::from(meter.total()), elapsed.as_nanos(), "idle for {idle:?}");
        }
    }
}

/// Returns the times that both hosts have measured, and the number of measurements: round trips
/// measured by the user and by TCP, the wait for the link's acknowledgment, and the charges to each
/// account except waiting.
fn measurements(server_is_ahead_by: Duration) -> (Vec<u64>, Vec<u64>) {
    let mut world = create_world(ibm_pc());
    let clock = LocalClock { jump: server_is_ahead_by, ..LocalClock::default() };
    world.set_clock(Side::Server, clock);
    world.drive(|world| world.user.application.stream.is_done()).unwrap();
    let round_trip = world.user.application.stream.round_trip();
    let mut times = vec![u64::try_from(round_trip.as_nanos()).unwrap()];
    let mut counts = Vec::new();
    for meter in [&world.user.meter, &world.server.meter] {
        let busy = Account::ALL.iter().filter(|account| **account != Account::Outside);
        times.extend(busy.map(|account| meter.charged(*account)));
        for quantity in Quantity::ALL {
            let distribution = meter.distribution(*quantity);
            counts.push(distribution.count());
            times.extend([distribution.percentile(50), distribution.max()].into_iter().flatten());
        }
    }
    (times, counts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_clock_offset_of_years_does_not_change_measurements(
        ahead_s in 10..100_000_000_u64,
    ) {
        // If a timestamp of one host were subtracted from one of the other, the times would differ
        // by the whole offset, or be zero. The initial sequence number depends on the clock (RFC
        // 6528 §3). LLP may have to escape one of its bytes, which takes some milliseconds.
        let (times, counts) = measurements(Duration::from_secs(ahead_s));
        let (expected, expected_counts) = measurements(Duration::ZERO);
        prop_assert_eq!(counts, expected_counts);
        prop_assert_eq!(times.len(), expected.len());
        for (time, expected) in times.iter().zip(&expected) {
            prop_assert!(time.abs_diff(*expected) <= expected / 20, "{} and {}", time, expected);
        }
    }
}
