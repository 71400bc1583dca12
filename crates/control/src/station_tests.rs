//! Tests of stations with every control structure, in virtual time.

use crate::*;
use net::station::{Control, Scheduler};
use proptest::prelude::*;
use simulator::soak;

fn control(structure: Structure) -> Box<dyn Control> {
    Box::new(StationControl::new(structure).unwrap())
}

fn scheduler() -> Box<dyn Control> {
    Box::new(Scheduler::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_structure_sends_the_same_bytes_at_the_same_time(seed in any::<u64>()) {
        let expected = soak::traffic(seed, &scheduler);
        for structure in Structure::ALL.into_iter().filter(|structure| !structure.sends_in_user) {
            let traffic = soak::traffic(seed, &|| control(structure));
            prop_assert_eq!(&traffic, &expected, "{:?}, seed {}", structure, seed);
        }
    }

    /// A structure that sends in the user step sends before it processes packets that arrive during
    /// that step; the other structures process these packets first. Therefore the bytes are
    /// compared only among structures that send in the user step.
    #[test]
    fn every_structure_that_sends_in_the_user_step_sends_the_same_bytes(seed in any::<u64>()) {
        let traffic = |kind| {
            soak::traffic(seed, &|| control(Structure { kind, sends_in_user: true }))
        };
        let expected = traffic(Kind::Procedures);
        prop_assert!(expected.is_ok(), "{expected:?}, seed {seed}");
        for kind in [Kind::Tasks(Switch::ByRing), Kind::Tasks(Switch::Direct), Kind::Futures] {
            prop_assert_eq!(&traffic(kind), &expected, "{:?}, seed {}", kind, seed);
        }
    }
}
