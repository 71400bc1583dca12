//! The format of `scenarios/tm233.toml`: the computers, the lines, and the foreign hosts.

use super::experiments::Equipment;
use crate::limits::{LIST_MAX, OutOfRange, each_within, within};
use net::meter::{Costs, Work};
use net::time::Duration;
use net::transport::tcp::Retransmission;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Parameters of the experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Seed that determines ports and initial sequence numbers, and thereby the bytes that LLP must
    /// escape. With the default seed no constant byte of an echo at 9,600 bit/s is escaped. With
    /// one of five seeds, a constant header byte is escaped, and the echo takes two or four
    /// milliseconds longer.
    pub seed: u64,
    /// Number of consecutive echoes over which an echo time is averaged.
    pub keys: usize,
    /// Duration of the maximum data transfer test, in seconds.
    pub transfer_s: u64,
    /// Line rate of most tables, in bits per second.
    pub rate_bps: u64,
    /// Line rates of tables 6-4 and 6-5, in bits per second.
    pub lines_bps: Vec<u64>,
    /// Receive windows of the screenful tests, in bytes.
    pub windows_bytes: Vec<usize>,
    /// Costs of work.
    pub costs: Prices,
    /// The interrupt routine.
    pub interrupt: Interrupt,
    /// The packet concentrator.
    pub concentrator: Buffers,
    /// The tests of the router, the concentrator for several computers.
    pub router: RouterTests,
    /// Numbers of trials for figures 6-2 and 6-3.
    pub clumps: Trials,
    /// Whether a foreign host increases its retransmission timeout when its timer expires
    /// repeatedly.
    pub retransmission_timer: Timer,
    /// The foreign hosts.
    pub hosts: Vec<ForeignHost>,
}

/// Costs of work on a personal computer, in nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// A byte received or sent at interrupt level.
    pub line_byte_ns: u64,
    /// A segment sent or received.
    pub segment_ns: u64,
    /// Processing of a data byte by TCP or by Telnet (one touch).
    pub touch_ns: u64,
    /// A byte sent to the screen.
    pub terminal_byte_ns: u64,
    /// Additional cost of a carriage return.
    pub new_line_ns: u64,
}

/// Parameters of the interrupt routine, and of the test that measures its losses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Line rates of the test, in bits per second.
    pub lines_bps: Vec<u64>,
    /// Number of packets sent at each rate.
    pub packets: usize,
    /// Data bytes per packet.
    pub data_bytes: usize,
    /// Fraction of bytes that take longer than `line_byte_ns`, in parts per million.
    pub long_ppm: u32,
    /// Mean additional time of these bytes, in microseconds; the time is exponentially distributed.
    pub long_mean_us: u64,
}

/// The packet concentrator.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    /// Number of packet buffers.
    pub buffers: usize,
    /// Time after a packet within which the next packet may be dropped, in milliseconds.
    pub burst_ms: u64,
    /// Probability that a packet within `burst_ms` of the previous one is dropped, in parts per
    /// million.
    pub burst_loss_ppm: u32,
}

/// Tests of the router of `crates/gateway`, which replaces the concentrator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterTests {
    /// Line rates, in bits per second.
    pub lines_bps: Vec<u64>,
    /// Number of echoes per test.
    pub keys: usize,
    /// Duration of the long transfer, in seconds.
    pub transfer_s: u64,
    /// Round-trip time between the router and the host of the long transfer, in microseconds.
    pub path_us: u64,
}

/// Change of the retransmission timeout when the timer expires repeatedly.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// The timeout stays the same, as figure 6-3 states for CSR.
    Fixed,
    /// The timeout doubles (RFC 6298 §5.5).
    BacksOff,
}

impl Timer {
    /// All rules, in the order of the tables.
    pub(super) const ALL: [Self; 2] = [Self::Fixed, Self::BacksOff];

    /// Returns the name of the rule in tables.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::BacksOff => "backs off",
        }
    }

    /// Returns the corresponding rule of TCP.
    pub(super) const fn rule(self) -> Retransmission {
        match self {
            Self::Fixed => Retransmission::Fixed,
            Self::BacksOff => Retransmission::BacksOff,
        }
    }
}

/// Number of trials of the tests with individual results (figures 6-2 and 6-3).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    /// Number of screenfuls.
    pub trials: u32,
    /// Number of echoes.
    pub keys: u32,
}

/// A foreign host, which is connected through the concentrator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignHost {
    /// Name of the host.
    pub name: String,
    /// Data bytes per packet of a screenful that the host sends.
    pub packet_bytes: usize,
    /// Part of the echo time caused by the host and its networks, in microseconds.
    pub echo_us: u64,
    /// Retransmission timeout minus the round-trip time, in milliseconds.
    pub retransmits_after_ms: u64,
}

impl Scenario {
    /// The default scenario, in TOML.
    pub(crate) const BUILT_IN: &str = include_str!("../../../../scenarios/tm233.toml");

    /// Returns an error if a value is out of its permitted range.
    ///
    /// # Errors
    ///
    /// Returns the value that is out of range, and its range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
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
        self.router.check()?;
        within("trials", self.clumps.trials, 1..=100_000)?;
        within("clumps.keys", self.clumps.keys, 1..=100_000)?;
        within("the number of hosts", self.hosts.len(), 1..=LIST_MAX)?;
        self.hosts.iter().try_for_each(ForeignHost::check)
    }

    /// Returns the equipment with the costs of the scenario.
    #[must_use]
    pub(crate) fn equipment(&self) -> Equipment {
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

    /// Returns the duration of the maximum data transfer test.
    #[must_use]
    pub(crate) const fn transfer_time(&self) -> Duration {
        Duration::from_secs(self.transfer_s)
    }
}

/// Permitted rates of serial lines, in bits per second.
const LINE_BPS: RangeInclusive<u64> = 300..=10_000_000;
const MILLION: u32 = 1_000_000;
/// Permitted costs, in nanoseconds per unit of work; at most one second.
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

impl RouterTests {
    fn check(&self) -> Result<(), OutOfRange> {
        each_within("router.lines_bps", &self.lines_bps, &LINE_BPS)?;
        within("router.keys", self.keys, 1..=100_000)?;
        within("router.transfer_s", self.transfer_s, 10..=100_000)?;
        within("path_us", self.path_us, 0..=10_000_000)
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
    use super::super::costs::ibm_pc;
    use super::*;

    pub(in crate::tm233) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }

    #[test]
    fn the_built_in_scenario_has_the_prices_of_the_thesis() {
        assert_eq!(built_in().equipment().costs, ibm_pc());
    }
}
