//! Stations by every control structure, in virtual time.

use super::*;
use proptest::prelude::*;
use protocols::station::{Control, Scheduler};
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
        for structure in Structure::ALL {
            let traffic = soak::traffic(seed, &|| control(structure));
            prop_assert_eq!(&traffic, &expected, "{:?}, seed {}", structure, seed);
        }
    }
}
