//! Randomized fault campaign: two hosts send each other files over a network, or a serial line,
//! with the faults that the seed draws; then the faults end, and the connection must terminate by
//! itself.
//!
//! The same seed gives the same run to the nanosecond, so a failure is reported as its seed.
//! `scene` draws a run, `network` applies its faults, `forge` makes router messages, and `judge`
//! checks these invariants:
//!
//! - every byte arrives once and in order, and both ends agree on the end; an end may report a
//!   reset only if the other has answered for its whole TIME-WAIT;
//! - a peer that has forgotten the connection resets it;
//! - after the faults end, data is acknowledged within three retransmission timeouts, or seven if
//!   overlong datagrams vanish silently: the search for the path MTU takes that many;
//! - no host leaks a packet buffer, and the accounts of the meters add up;
//! - the number of events is bounded, and there is always one until the end.

mod bulk;
mod invariants;
mod network;
mod packet_injection;
mod scene;

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
    pub what: String,
    /// All parameters that the seed has drawn.
    pub scene: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, scene } = self;
        write!(f, "seed {seed}: {what}\n  {scene}\n  repeat: ./x soak --seed {seed} --seeds 1")
    }
}

impl std::error::Error for Failure {}

/// Runs the scene drawn from `seed`, and returns its duration in virtual time.
///
/// # Errors
///
/// See [`Failure`].
pub fn run(seed: u64) -> Result<Duration, Failure> {
    let scene = scene::Scene::draw(seed);
    invariants::judge(&scene).map_err(|what| Failure { seed, what, scene: format!("{scene:?}") })
}

/// Runs the scene drawn from `seed` with control structures made by `control`, one per host, and
/// returns the data sent.
///
/// # Errors
///
/// See [`Failure`].
pub fn traffic(seed: u64, control: &dyn Fn() -> Box<dyn Control>) -> Result<Traffic, Failure> {
    let scene = scene::Scene::draw(seed);
    invariants::traffic(&scene, control).map_err(|what| Failure {
        seed,
        what,
        scene: format!("{scene:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_meets_black_holes_and_finds_its_way_out() {
        let found =
            (0..400).map(scene::Scene::draw).find(|scene| invariants::black_holes(scene) > 0);
        assert!(found.is_some_and(|scene| invariants::judge(&scene).is_ok()));
    }

    #[test]
    fn the_same_seed_gives_the_same_run_to_the_nanosecond() {
        let scene = scene::Scene::draw(3);
        assert_eq!(invariants::traces(&scene), invariants::traces(&scene));
    }
}
