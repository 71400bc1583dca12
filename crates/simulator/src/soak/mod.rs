//! Randomized fault campaign: two hosts send each other files over a network, or a serial line,
//! with the faults that the seed draws; then the faults end, and the connection must terminate by
//! itself.
//!
//! The same seed gives the same run to the nanosecond, so a failure is reported as its seed.
//! `soak_scenario` draws a run, `network` applies its faults, `packet_injection` makes router
//! messages, and `invariants` checks the following:
//!
//! - every byte arrives once and in order, and both ends agree on the end; an end may report a
//!   reset only if the TIME-WAIT of the other end is over;
//! - a peer that has forgotten the connection resets it;
//! - after the faults end, data is acknowledged within three retransmission timeouts, or seven if
//!   overlong datagrams vanish silently: the search for the path MTU takes that many;
//! - no host leaks a packet buffer, and the layer accounts of each meter add up to the elapsed
//!   time;
//! - the number of events is bounded, and at least one event is pending until the end.

mod bulk;
mod invariants;
mod network;
mod packet_injection;
mod soak_scenario;

pub use network::Traffic;
use protocols::station::Control;
use protocols::time::Duration;
use std::fmt;

/// A run that violated an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// The violated invariant, and the state of both ends.
    pub violation: String,
    /// All parameters that the seed has drawn.
    pub scenario: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violation, scenario } = self;
        write!(
            f,
            "seed {seed}: {violation}\n  {scenario}\n  repeat: ./x soak --seed {seed} --seeds 1"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs the scenario drawn from `seed`, and returns its duration in virtual time.
///
/// # Errors
///
/// See [`Failure`].
pub fn run(seed: u64) -> Result<Duration, Failure> {
    let scenario = soak_scenario::Scenario::draw(seed);
    invariants::check(&scenario).map_err(|violation| Failure {
        seed,
        violation,
        scenario: format!("{scenario:?}"),
    })
}

/// Runs the scenario drawn from `seed` with control structures made by `control`, one per host, and
/// returns the data sent.
///
/// # Errors
///
/// See [`Failure`].
pub fn traffic(seed: u64, control: &dyn Fn() -> Box<dyn Control>) -> Result<Traffic, Failure> {
    let scenario = soak_scenario::Scenario::draw(seed);
    invariants::traffic(&scenario, control).map_err(|violation| Failure {
        seed,
        violation,
        scenario: format!("{scenario:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_includes_black_holes_and_recovers_from_them() {
        let found = (0..400)
            .map(soak_scenario::Scenario::draw)
            .find(|scenario| invariants::black_holes(scenario) > 0);
        assert!(found.is_some_and(|scenario| invariants::check(&scenario).is_ok()));
    }

    #[test]
    fn the_same_seed_gives_the_same_run_to_the_nanosecond() {
        let scenario = soak_scenario::Scenario::draw(3);
        assert_eq!(invariants::traces(&scenario), invariants::traces(&scenario));
    }
}
