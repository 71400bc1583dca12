//! Tests whether the campaign finds injected bugs, and how soon. The bugs are compiled in by a
//! configuration flag, so `./x check --long` runs this test with a separate target directory:
//! `RUSTFLAGS='--cfg planted' cargo test --release -p simulator --test planted --target-dir
//! target/planted -- --nocapture`.
#![cfg(planted)]

use protocols::planted::{Bug, plant};
use simulator::soak;
use std::panic;

/// Number of seeds within which each bug must be found.
const SEEDS: u64 = 1_000;

/// Returns the first seed whose run fails, and the first line of the reason.
fn finder() -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| match panic::catch_unwind(|| soak::run(seed)) {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) => Some((seed, failure.what.lines().next().unwrap_or_default().into())),
        Err(_) => Some((seed, "a panic".to_owned())),
    })
}

#[test]
fn every_planted_bug_is_found_and_where_there_is_none_none_is() {
    panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        plant(Some(bug));
        match finder() {
            Some((seed, what)) => println!("{bug:?}: found by seed {seed}: {what}"),
            None => missed.push(bug),
        }
    }
    plant(None);
    _ = panic::take_hook();
    assert_eq!(missed, [], "not found within {SEEDS} seeds");
    assert_eq!((0..20).find(|seed| soak::run(*seed).is_err()), None);
}
