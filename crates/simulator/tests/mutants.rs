//! Tests whether the campaign finds injected bugs, and how soon. The bugs are compiled in by a
//! configuration flag, so `./x check --long` runs this test with a separate target directory:
//! `RUSTFLAGS='--cfg mutants' cargo test --release -p simulator --test mutants --target-dir
//! target/mutants -- --nocapture`.
#![cfg(mutants)]

use net::mutants::{Mutant, enable};
use simulator::soak;
use std::panic;

/// Maximum number of seeds that the campaign may need to find each bug.
const SEEDS_MAX: u64 = 1_000;

/// Returns the first seed whose run fails, and the first line of the reason.
fn first_failing_seed() -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| match panic::catch_unwind(|| soak::run(seed)) {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) => {
            Some((seed, failure.violation.lines().next().unwrap_or_default().into()))
        }
        Err(_) => Some((seed, "a panic".to_owned())),
    })
}

#[test]
fn every_mutant_is_detected_and_the_unmodified_code_passes() {
    panic::set_hook(Box::new(|_| {}));
    let mut undetected = Vec::new();
    for mutant in Mutant::ALL {
        enable(Some(mutant));
        match first_failing_seed() {
            Some((seed, what)) => println!("{mutant:?}: found by seed {seed}: {what}"),
            None => undetected.push(mutant),
        }
    }
    enable(None);
    _ = panic::take_hook();
    assert_eq!(undetected, [], "not found within {SEEDS_MAX} seeds");
    assert_eq!((0..20).find(|seed| soak::run(*seed).is_err()), None);
}
