//! The scripts, and how all of them are played.

use super::expected::{Expectation, Suite};
use super::play::{Outcome, PlayOptions, Player};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A script to play.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) suite: Suite,
    pub(super) path: String,
    pub(super) expectation: Option<Expectation>,
}

/// Plays every script `repeat` times, and returns the outcomes in the order of the scripts.
pub(super) fn play_all(
    player: &Player,
    scripts: &[Script],
    options: PlayOptions,
    repeat: usize,
) -> Vec<Vec<Outcome>> {
    let outcomes = Mutex::new(vec![Vec::new(); scripts.len()]);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(number % scripts.len()) else { return };
                    if number >= scripts.len() * repeat {
                        return;
                    }
                    let outcome = player.play(script.suite, &script.path, options, number);
                    if let Ok(mut outcomes) = outcomes.lock()
                        && let Some(of_script) = outcomes.get_mut(number % scripts.len())
                    {
                        of_script.push(outcome);
                    }
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_default()
}
