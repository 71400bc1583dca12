//! The format of `scenarios/multics.toml`.

use super::switches::Switches;
use crate::limits::{LIST_MAX, OutOfRange, within};
use serde::Deserialize;

/// Parameters of a simulated period of operation on Multics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Seed of the random number generator.
    pub seed: u64,
    /// Duration of the simulation, in minutes.
    pub minutes: u64,
    /// Processor time of each operation.
    pub costs: Costs,
    /// Behavior of the network.
    pub network: Network,
    /// Proposals that are in force from the beginning.
    pub switches: Switches,
    /// The kinds of sessions that are logged in.
    pub sessions: Vec<Session>,
}

/// Processor time, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Total time of a transaction of the daemon.
    pub transaction_ms: f64,
    /// Part of a transaction for blocking and waking up, if the daemon blocks.
    pub block_ms: f64,
    /// Replacement for `block_ms` if the daemon waits in ring 0 instead of blocking.
    pub wait_ms: f64,
    /// Fraction of a transaction's time that is spent on the third ring.
    pub third_ring_part: f64,
    /// Total time of a read or write call of a process.
    pub io_ms: f64,
    /// Time of a crossing from ring 4 to ring 1.
    pub wall_to_ring_1_ms: f64,
    /// Time of a crossing from ring 4 to ring 0.
    pub wall_to_ring_0_ms: f64,
    /// Processor time at interrupt level that replaces a wakeup of the daemon.
    pub interrupt_ms: f64,
    /// Number of characters that `telnet_` processes per millisecond.
    pub telnet_per_ms: f64,
    /// Number of characters that `canonicalize_` processes per millisecond.
    pub canonical_per_ms: f64,
    /// Fraction of the lines that need `canonicalize_`.
    pub needs_canonical_part: f64,
}

/// The network and the remote hosts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Delay from a message to its RFNM, in milliseconds.
    pub rfnm_ms: u64,
    /// Delay from a message to the allocate for it, in milliseconds.
    pub allocate_ms: u64,
    /// Allocation of a remote host, in characters.
    pub allocation_chars: usize,
    /// Minimum allocation of a remote host according to the memo's proposal, in characters.
    pub minimum_allocation_chars: usize,
    /// Number of requests per hour from remote hosts to the daemon itself, such as surveys and
    /// echoes.
    pub asked_an_hour: u64,
}

/// A kind of session over the network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Name of this kind of session.
    pub name: String,
    /// Number of sessions of this kind.
    pub people: u64,
    /// Whether each typed character is sent as a separate message.
    pub is_a_character_at_a_time: bool,
    /// Number of characters of a typed line, including its line end.
    pub typed_chars: usize,
    /// Interval between two typed characters, in milliseconds.
    pub key_ms: u64,
    /// Mean time between an answer and the next line, in seconds.
    pub think_s: u64,
    /// Number of lines per answer.
    pub answer_lines: usize,
    /// Number of characters per line of an answer.
    pub answer_chars: usize,
}

impl Scenario {
    /// The default scenario, in TOML.
    pub(crate) const BUILT_IN: &str = include_str!("../../../../scenarios/multics.toml");

    /// Returns an error if a value is out of its permitted range.
    ///
    /// # Errors
    ///
    /// Returns the value that is out of range, and its range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        within("minutes", self.minutes, 10..=100_000)?;
        self.costs.check()?;
        self.network.check()?;
        within("the number of sessions", self.sessions.len(), 1..=LIST_MAX)?;
        self.sessions.iter().try_for_each(Session::check)
    }
}

/// Maximum of any cost or delay, in milliseconds.
const MS_MAX: f64 = 1e6;

impl Costs {
    fn check(&self) -> Result<(), OutOfRange> {
        within("third_ring_part", self.third_ring_part, 0.0..=0.9)?;
        within("transaction_ms", self.transaction_ms, 1.0..=MS_MAX)?;
        // The remainder of a transaction must not be negative.
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
