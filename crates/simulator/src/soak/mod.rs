//! Randomized fault campaign: two hosts send each other files over a network or a serial line with
//! random faults. Then the faults end (the calm phase), and the connection must terminate by
//! itself.
//!
//! The seed determines all parameters of a run, to the nanosecond, so a failure report contains the
//! seed. `soak_scenario` draws the parameters, `network` applies the faults, `packet_injection`
//! generates router messages, and `invariants` checks the following:
//!
//! - every byte arrives once and in order, and both ends close; an end may report a reset only if
//!   the TIME-WAIT of the other end is over;
//! - a peer that has lost the connection by a restart resets it;
//! - after the faults end, data is acknowledged within three retransmission timeouts, or within
//!   seven if the path silently drops long datagrams, because TCP must then search for the path
//!   MTU;
//! - no host leaks a packet buffer, and the layer accounts of each meter add up to the elapsed
//!   time;
//! - the number of events is bounded, and at least one event is pending until the end.

mod bulk;
mod invariants;
mod network;
mod packet_injection;
mod soak_scenario;

use net::station::Control;
use net::time::Duration;
pub use network::Traffic;
use std::fmt;

/// A run that violated an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Description of the violated invariant, and the state of both ends.
    pub violation: String,
    /// All parameters of the run, as debug output.
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

/// Runs the scenario that `seed` determines, and returns its duration in virtual time.
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

/// Runs the scenario that `seed` determines, with a control structure created by `control` on each
/// host, and returns size and digest of the sent data.
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
