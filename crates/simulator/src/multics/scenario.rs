//! What `scenarios/multics.toml` says.

use super::switches::Switches;
use crate::limits::{LIST_MAX, OutOfRange, within};
use serde::Deserialize;

/// Some hours on Multics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The same seed gives the same messages.
    pub seed: u64,
    /// How long is looked at, in minutes.
    pub minutes: u64,
    /// What things cost.
    pub costs: Costs,
    /// What the network does.
    pub network: Network,
    /// Which proposals are in force from the beginning.
    pub switches: Switches,
    /// Who is logged in.
    pub sessions: Vec<Session>,
}

/// Processor time, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A transaction of the daemon, all of it.
    pub transaction_ms: f64,
    /// Of that: to block and to be woken, where the processor is given up.
    pub block_ms: f64,
    /// The same by waiting in ring 0.
    pub wait_ms: f64,
    /// The part of a transaction that the third ring takes.
    pub third_ring_part: f64,
    /// A read or a write of a process.
    pub io_ms: f64,
    /// From ring 4 to ring 1.
    pub wall_to_ring_1_ms: f64,
    /// From ring 4 to ring 0.
    pub wall_to_ring_0_ms: f64,
    /// What is done at interrupt time in the place of a wakeup.
    pub interrupt_ms: f64,
    /// Characters a millisecond through `telnet_`.
    pub telnet_per_ms: f64,
    /// Characters a millisecond through `canonicalize_`.
    pub canonical_per_ms: f64,
    /// The part of the lines that need `canonicalize_`.
    pub needs_canonical_part: f64,
}

/// The network and the foreign hosts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// From a message to its RFNM, in milliseconds.
    pub rfnm_ms: u64,
    /// From a message to the allocate for it, in milliseconds.
    pub allocate_ms: u64,
    /// What a foreign host allocates, in characters.
    pub allocation_chars: usize,
    /// What the memo would have it allocate at least.
    pub minimum_allocation_chars: usize,
    /// Surveys, echoes and the like that foreign hosts ask for in an hour.
    pub asked_an_hour: u64,
}

/// Somebody who is logged in over the network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// What it is.
    pub name: String,
    /// How many of them there are.
    pub people: u64,
    /// Whether each character is a message of its own.
    pub is_a_character_at_a_time: bool,
    /// Characters of a line that is typed, its end among them.
    pub typed_chars: usize,
    /// Between two characters, in milliseconds.
    pub key_ms: u64,
    /// Between an answer and the next line, in seconds, on the average.
    pub think_s: u64,
    /// Lines of an answer.
    pub answer_lines: usize,
    /// Characters of each.
    pub answer_chars: usize,
}

impl Scenario {
    /// The scenario as TOML, as it comes with the program.
    pub const BUILT_IN: &str = include_str!("../../../../scenarios/multics.toml");

    /// Returns an error if there is no experiment with these figures.
    ///
    /// # Errors
    ///
    /// With the figure that is out of range, and its range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        within("minutes", self.minutes, 10..=100_000)?;
        self.costs.check()?;
        self.network.check()?;
        within("the number of sessions", self.sessions.len(), 1..=LIST_MAX)?;
        self.sessions.iter().try_for_each(Session::check)
    }
}

/// The longest time that anything is charged, or takes, in milliseconds.
const MS_MAX: f64 = 1e6;

impl Costs {
    fn check(&self) -> Result<(), OutOfRange> {
        within("third_ring_part", self.third_ring_part, 0.0..=0.9)?;
        within("transaction_ms", self.transaction_ms, 1.0..=MS_MAX)?;
        // What is left of a transaction is not less than nothing.
        let most_ms = self.transaction_ms * (1.0 - self.third_ring_part);
        within("block_ms", self.block_ms, 0.0..=most_ms)?;
        within("wait_ms", self.wait_ms, 0.0..=MS_MAX)?;
        within("io_ms", self.io_ms, 1.0..=MS_MAX)?;
        within("wall_to_ring_0_ms", self.wall_to_ring_0_ms, 0.0..=MS_MAX)?;
        let most_ms = self.wall_to_ring_0_ms + self.io_ms * (1.0 - self.third_ring_part);
        within("wall_to_ring_1_ms", self.wall_to_ring_1_ms, 0.0..=most_ms)?;
        within("interrupt_ms", self.interrupt_ms, 0.0..=MS_MAX)?;
        within("telnet_per_ms", self.telnet_per_ms, 1e-3..=1e6)?;
        within("canonical_per_ms", self.canonical_per_ms, 1e-3..=1e6)?;
        within("needs_canonical_part", self.needs_canonical_part, 0.0..=1.0)
    }
}

impl Network {
    fn check(&self) -> Result<(), OutOfRange> {
        within("rfnm_ms", self.rfnm_ms, 0..=1_000_000)?;
        within("allocate_ms", self.allocate_ms, 0..=1_000_000)?;
        within("allocation_chars", self.allocation_chars, 1..=1_000_000)?;
        within("minimum_allocation_chars", self.minimum_allocation_chars, 1..=1_000_000)?;
        within("asked_an_hour", self.asked_an_hour, 0..=3_600)
    }
}

impl Session {
    fn check(&self) -> Result<(), OutOfRange> {
        within("people", self.people, 0..=100)?;
        within("typed_chars", self.typed_chars, 1..=1_000)?;
        within("key_ms", self.key_ms, 1..=60_000)?;
        within("think_s", self.think_s, 10..=100_000)?;
        within("answer_lines", self.answer_lines, 0..=1_000)?;
        within("answer_chars", self.answer_chars, 0..=1_000)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::multics) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }
}
