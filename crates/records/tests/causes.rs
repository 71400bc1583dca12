//! The causes that follow from an observation: what is unknown is none, gains are parts of wholes.

use proptest::prelude::*;
use records::verdict::{
    Arrival, Direction, Echoes, Flow, FlowCounts, Kind, Observation, Path, Steps, Whole, causes,
    conclusion,
};

const MS: u64 = 1_000_000;

/// Forty echoes of `echo_ns` over a network of `trip_ns`.
fn echoing(echo_ns: u64, trip_ns: Option<u64>) -> Observation {
    Observation {
        echo: Some(Echoes { samples_ns: vec![echo_ns; 40], layers: Vec::new() }),
        path: Path { min_rtt_ns: trip_ns, mss_bytes: Some(1_448), ..Path::default() },
        ..Observation::default()
    }
}

fn flow(arrivals: &[(u64, u64)]) -> Flow {
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|&(at_ns, bytes)| Arrival { at_ns, bytes }).collect();
    Flow {
        direction: Direction::Incoming,
        bytes: arrivals.iter().map(|arrival| arrival.bytes).sum(),
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        ..Flow::default()
    }
}

#[test]
fn of_nothing_that_is_known_nothing_stands_out() {
    let causes = causes(&Observation::default());
    assert_eq!(conclusion(&causes), "Nothing stands out.");
}

#[test]
fn without_a_round_trip_neither_the_far_host_nor_the_network_is_accused() {
    assert_eq!(causes(&echoing(400 * MS, None)), []);
}

#[test]
fn what_the_far_host_takes_of_an_echo_is_what_is_left_of_it() {
    let found = causes(&echoing(120 * MS, Some(20 * MS)));
    let [cause] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((cause.kind, cause.of, cause.gain_ns), (Kind::FarHost, Whole::Echo, 100 * MS));
}

#[test]
fn the_sentence_says_what_of_how_much_and_what_to_do() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.screenful = Some(flow(&[(300_000, 1_448), (500_000, 520)]));
    observed.unhurried = Some(flow(&[(41_300_000, 1_448), (41_500_000, 520)]));
    assert_eq!(
        conclusion(&causes(&observed)),
        "The far side's Nagle algorithm costs 41.0 ms of the 41.5 ms of a screenful (99 %): it waits \
         for an acknowledgment that most programs put off, and that this one gives at once: set \
         TCP_NODELAY there."
    );
}

#[test]
fn a_side_that_acknowledges_at_once_has_no_wait_for_its_acknowledgments() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.path.own_ack_delay_ns = Some(0);
    observed.screenful = Some(flow(&[(300_000, 2), (41_300_000, 1_448), (43_500_000, 520)]));
    assert!(causes(&observed).iter().all(|cause| cause.kind != Kind::Nagle));
}

#[test]
fn a_quick_lookup_and_a_quick_login_are_no_causes() {
    let mut observed = echoing(10 * MS, Some(9 * MS));
    observed.steps = Steps {
        resolve_ns: Some(3 * MS),
        connect_ns: Some(9 * MS),
        prompt_ns: Some(20 * MS),
        login_ns: Some(100 * MS),
        ..Steps::default()
    };
    assert_eq!(causes(&observed), []);
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let arrivals = proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 24), 0..60);
    let count = || proptest::option::of(0..1_u64 << 20);
    let counts = (count(), count(), count(), count(), count());
    (arrivals, any::<bool>(), counts).prop_map(|(mut arrivals, is_incoming, counts)| {
        arrivals.sort_unstable();
        let (again, disordered, twice, window, mss) = counts;
        Flow {
            direction: if is_incoming { Direction::Incoming } else { Direction::Outgoing },
            counts: FlowCounts {
                retransmissions: again,
                out_of_order_in: disordered,
                duplicate_reports: twice,
                limited_by_window_ns: window,
                mss_bytes: mss.map(|mss| [mss, mss / 2]),
                ..FlowCounts::default()
            },
            ..flow(&arrivals)
        }
    })
}

proptest! {
    #[test]
    fn whatever_was_seen_a_gain_is_a_part_of_its_whole(
        samples in proptest::collection::vec(0..1_u64 << 40, 0..40),
        train in proptest::collection::vec(0..1_u64 << 40, 0..40),
        trip_ns in proptest::option::of(0..1_u64 << 36),
        mss_bytes in proptest::option::of(0..9_000_u64),
        screenful in proptest::option::of(any_flow()),
        transfers in proptest::collection::vec(any_flow(), 0..3),
    ) {
        let echoes = |samples_ns| Some(Echoes { samples_ns, layers: Vec::new() });
        let observed = Observation {
            echo: echoes(samples),
            echo_train: echoes(train),
            screenful,
            transfers,
            path: Path { min_rtt_ns: trip_ns, mss_bytes, ..Path::default() },
            ..Observation::default()
        };
        for cause in causes(&observed) {
            prop_assert!(cause.gain_ns <= cause.total_ns, "{}", cause.sentence());
        }
    }
}
