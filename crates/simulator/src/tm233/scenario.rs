//! What `scenarios/tm233.toml` says: the computers, the lines, and who is at the other end.

use super::experiments::Equipment;
use crate::limits::{LIST_MAX, OutOfRange, each_within, within};
use protocols::meter::{Costs, Work};
use protocols::time::Duration;
use protocols::transport::tcp::Retransmission;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// The laboratory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Decides ports and initial sequence numbers, and so which bytes LLP has to escape. With the
    /// built-in one an echo at 9,600 bit/s escapes none all through; one seed of five has a byte
    /// that stays the same in each header, and its echo takes two or four milliseconds more.
    pub seed: u64,
    /// Echoes in a row.
    pub keys: usize,
    /// How long the maximum data transfer test runs, in seconds.
    pub transfer_s: u64,
    /// The line of most tables, in bits per second.
    pub rate_bps: u64,
    /// The lines of tables 6-4 and 6-5, in bits per second.
    pub lines_bps: Vec<u64>,
    /// The windows with which a screenful is shown, in bytes.
    pub windows_bytes: Vec<usize>,
    /// What work costs.
    pub costs: Prices,
    /// The interrupt routine.
    pub interrupt: Interrupt,
    /// The packet concentrator.
    pub concentrator: Buffers,
    /// The tests of figures 6-2 and 6-3.
    pub clumps: Trials,
    /// What a foreign host's retransmission timer does when it runs out again.
    pub retransmission_timer: Timer,
    /// The foreign hosts.
    pub hosts: Vec<ForeignHost>,
}

/// What work costs on a personal computer, in nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// A byte that interrupt level takes or gives.
    pub line_byte_ns: u64,
    /// A segment sent or received.
    pub segment_ns: u64,
    /// One touch of a data byte, by TCP or by Telnet.
    pub touch_ns: u64,
    /// A byte given to the screen.
    pub terminal_byte_ns: u64,
    /// A carriage return beyond that.
    pub new_line_ns: u64,
}

/// How long the interrupt routine takes for one byte, and the test that shows what it loses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// The lines, in bits per second.
    pub lines_bps: Vec<u64>,
    /// Packets sent on each.
    pub packets: usize,
    /// Data bytes of a packet.
    pub data_bytes: usize,
    /// Bytes that take longer than the price of a byte, in parts of a million.
    pub long_ppm: u32,
    /// How much longer on the average, in microseconds; spread as a time without memory.
    pub long_mean_us: u64,
}

/// The packet concentrator.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    /// Its packet buffers.
    pub buffers: usize,
    /// Packets that follow another within this time are in danger, in milliseconds.
    pub burst_ms: u64,
    /// How many of these are dropped, in parts of a million.
    pub burst_loss_ppm: u32,
}

/// A rule for the timer of what was sent again in vain.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// It runs as long as before, as figure 6-3 says of CSR.
    Fixed,
    /// It runs twice as long (RFC 6298 §5.5).
    BacksOff,
}

impl Timer {
    /// Both rules.
    pub(super) const ALL: [Self; 2] = [Self::Fixed, Self::BacksOff];

    /// Returns its name in a table.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::BacksOff => "backs off",
        }
    }

    /// Returns what TCP calls it.
    pub(super) const fn rule(self) -> Retransmission {
        match self {
            Self::Fixed => Retransmission::Fixed,
            Self::BacksOff => Retransmission::BacksOff,
        }
    }
}

/// Tests that are looked at one by one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    /// Screenfuls.
    pub trials: u32,
    /// Echoes.
    pub keys: u32,
}

/// A host beyond the concentrator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignHost {
    /// Its name.
    pub name: String,
    /// Data bytes of the packets in which it sends a screenful.
    pub packet_bytes: usize,
    /// What its echo takes beyond the line and the personal computer, in microseconds.
    pub echo_us: u64,
    /// How long it waits for an acknowledgment, beyond the round trip, in milliseconds.
    pub retransmits_after_ms: u64,
}

impl Scenario {
    /// The scenario as TOML, as it comes with the program.
    pub const BUILT_IN: &str = include_str!("../../../../scenarios/tm233.toml");

    /// Returns an error if there is no experiment with these figures.
    ///
    /// # Errors
    ///
    /// With the figure that is out of range, and its range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        within("keys", self.keys, 1..=1_000_000)?;
        within("transfer_s", self.transfer_s, 10..=1_000_000)?;
        within("rate_bps", self.rate_bps, LINE_BPS)?;
        each_within("lines_bps", &self.lines_bps, &LINE_BPS)?;
        each_within("windows_bytes", &self.windows_bytes, &(82..=65_535))?;
        self.costs.check()?;
        self.interrupt.check()?;
        within("buffers", self.concentrator.buffers, 1..=100_000)?;
        within("burst_ms", self.concentrator.burst_ms, 0..=60_000)?;
        within("burst_loss_ppm", self.concentrator.burst_loss_ppm, 0..=MILLION)?;
        within("trials", self.clumps.trials, 1..=100_000)?;
        within("clumps.keys", self.clumps.keys, 1..=100_000)?;
        within("the number of hosts", self.hosts.len(), 1..=LIST_MAX)?;
        self.hosts.iter().try_for_each(ForeignHost::check)
    }

    /// Returns the computers.
    #[must_use]
    pub fn equipment(&self) -> Equipment {
        let Prices { line_byte_ns, segment_ns, touch_ns, terminal_byte_ns, new_line_ns } =
            self.costs;
        let costs = Costs::default()
            .with(Work::LineByte, line_byte_ns)
            .with(Work::Segment, segment_ns)
            .with(Work::SegmentByte, touch_ns)
            .with(Work::TelnetByte, touch_ns)
            .with(Work::TerminalByte, terminal_byte_ns)
            .with(Work::NewLine, new_line_ns);
        Equipment { costs, ..Equipment::of_1982() }
    }

    /// Returns how long the maximum data transfer test runs.
    #[must_use]
    pub const fn transfer_time(&self) -> Duration {
        Duration::from_secs(self.transfer_s)
    }
}

/// Serial lines, in bits per second.
const LINE_BPS: RangeInclusive<u64> = 300..=10_000_000;
const MILLION: u32 = 1_000_000;
/// A second for a byte.
const PRICE_NS: RangeInclusive<u64> = 0..=1_000_000_000;

impl Prices {
    fn check(&self) -> Result<(), OutOfRange> {
        within("line_byte_ns", self.line_byte_ns, PRICE_NS)?;
        within("segment_ns", self.segment_ns, PRICE_NS)?;
        within("touch_ns", self.touch_ns, PRICE_NS)?;
        within("terminal_byte_ns", self.terminal_byte_ns, PRICE_NS)?;
        within("new_line_ns", self.new_line_ns, PRICE_NS)
    }
}

impl Interrupt {
    fn check(&self) -> Result<(), OutOfRange> {
        each_within("interrupt.lines_bps", &self.lines_bps, &LINE_BPS)?;
        within("packets", self.packets, 1..=1_000_000)?;
        within("data_bytes", self.data_bytes, 1..=500)?;
        within("long_ppm", self.long_ppm, 0..=MILLION)?;
        within("long_mean_us", self.long_mean_us, 0..=1_000_000)
    }
}

impl ForeignHost {
    fn check(&self) -> Result<(), OutOfRange> {
        within("packet_bytes", self.packet_bytes, 1..=500)?;
        within("echo_us", self.echo_us, 0..=10_000_000)?;
        within("retransmits_after_ms", self.retransmits_after_ms, 1..=60_000)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tm233::ibm_pc;

    pub(in crate::tm233) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }

    #[test]
    fn the_built_in_scenario_has_the_prices_of_the_thesis() {
        assert_eq!(built_in().equipment().costs, ibm_pc());
    }
}
