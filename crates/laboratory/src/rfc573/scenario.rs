//! The format of `scenarios/rfc573.toml`: the survey and the hosts.

use super::strata::Strata;
use crate::limits::{LIST_MAX, OutOfRange, within};
use net::transport::tcp::WindowUpdate;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Parameters of the survey and of the transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Seed of the random number generator.
    pub seed: u64,
    /// Duration of the survey, in days.
    pub days: u64,
    /// First day of the paper's week, counted from the start of the survey.
    pub week_begins_day: u64,
    /// Number of days covered by the paper's table I.
    pub week_days: u64,
    /// Interval between two tries to connect to a host, in seconds.
    pub every_s: u64,
    /// Connection timeout of a try, in seconds.
    pub timeout_s: u64,
    /// Minimum response time, in seconds.
    pub least_response_s: f64,
    /// Price of a minute of CPU time, in dollars.
    pub cpu_minute_dollars: f64,
    /// The three hosts of table I.
    pub hosts: Vec<Rates>,
    /// All hosts of the survey.
    pub crowd: Crowd,
    /// Totals of the transfers, by program, direction and type.
    pub strata: Strata,
    /// Network over which the transfers are replayed.
    pub network: Network,
}

/// The hosts and lines of the transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Rate of the lines between IMPs, in bits per second.
    pub line_bps: u64,
    /// Rate of a host's interface, in bits per second.
    pub interface_bps: u64,
    /// Processing time of an IMP per packet, in microseconds.
    pub imp_us: u64,
    /// Maximum message length, in bits.
    pub message_bits: u64,
    /// Number of bits that a program may queue for sending.
    pub buffer_bits: u64,
    /// Mean time that a program waits for its turn on the processor, in milliseconds.
    pub turn_ms: u64,
    /// Allocation per connection of the local host, in bits.
    pub allocation_bits: u64,
    /// Condition on which a host renews an allocation.
    pub allocates: Allocates,
    /// The remote hosts.
    pub remotes: Vec<Remote>,
}

/// Condition on which a host renews an allocation after a program has read data.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Allocates {
    /// The allocation is used up, as in the NCPs described in section IV.
    WhenUsedUp,
    /// Half of the allocation is used up (TM-233 §5.6).
    WhenHalfUsed,
    /// Data has been read, as section IV proposes.
    AsRead,
}

impl Allocates {
    /// Returns the corresponding window update rule of TCP.
    pub(super) const fn rule(self) -> WindowUpdate {
        match self {
            Self::WhenUsedUp => WindowUpdate::UsedUp,
            Self::WhenHalfUsed => WindowUpdate::HalfUsed,
            Self::AsRead => WindowUpdate::AsRead,
        }
    }
}

/// A remote host of the transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Name of the host in the records.
    pub name: String,
    /// Number of lines between the local IMP and the IMP of the remote host; 0 if both hosts share
    /// one IMP.
    pub hops: u64,
    /// Allocation per connection of the host, in bits.
    pub allocation_bits: u64,
    /// Conversion time per bit of text retrieved from the host, in nanoseconds.
    #[serde(default)]
    pub conversion_ns_per_bit: u64,
}

/// Values of table I for one host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Name of the host.
    pub name: String,
    /// Mean response time, in seconds.
    pub response_s: f64,
    /// Percentage of the time in which the host is not dead.
    pub host_availability: f64,
    /// Percentage of the time in which the logger answers.
    pub logger_availability: f64,
    /// Mean hours between failures of the host.
    pub host_failure_hours: f64,
    /// Mean hours between failures to connect, including failures of the host.
    pub logger_failure_hours: f64,
}

/// Hosts of the survey for which the paper has only averages.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// Number of hosts.
    pub hosts: u32,
    /// Mean response time, in seconds.
    pub response_s: f64,
    /// Percentage of the time in which the logger answers.
    pub availability: f64,
    /// Mean hours between failures to connect.
    pub failure_hours: f64,
    /// Maximum ratio between the mean times of one host and the averages of all hosts.
    pub spread: f64,
}

impl Scenario {
    /// The default scenario, in TOML.
    pub(crate) const BUILT_IN: &str = include_str!("../../../../scenarios/rfc573.toml");

    /// Returns an error if a value is out of its permitted range. [`Strata`] are checked
    /// separately, because their minimum values depend on the transfers that the paper lists.
    ///
    /// # Errors
    ///
    /// Returns the value that is out of range, and its range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        within("days", self.days, 1..=10_000)?;
        within("week_days", self.week_days, 1..=self.days)?;
        within("week_begins_day", self.week_begins_day, 0..=self.days - self.week_days)?;
        within("every_s", self.every_s, 60..=86_400)?;
        within("timeout_s", self.timeout_s, 1..=self.every_s)?;
        within("least_response_s", self.least_response_s, 0.0..=self.timeout_s as f64)?;
        within("cpu_minute_dollars", self.cpu_minute_dollars, 0.0..=1e6)?;
        within("the number of hosts", self.hosts.len(), 1..=LIST_MAX)?;
        self.hosts.iter().try_for_each(|host| host.check(self))?;
        self.crowd.check(self)?;
        self.network.check()
    }
}

/// Permitted availability in percent of the time. The failure rate is undefined for a host that
/// never fails or never answers.
const AVAILABILITY: RangeInclusive<f64> = 1.0..=99.9;
const FAILURE_HOURS: RangeInclusive<f64> = 0.1..=10_000.0;

impl Rates {
    fn check(&self, of: &Scenario) -> Result<(), OutOfRange> {
        within("response_s", self.response_s, of.least_response_s..=of.timeout_s as f64)?;
        within("host_availability", self.host_availability, AVAILABILITY)?;
        let (least, _) = AVAILABILITY.into_inner();
        within("logger_availability", self.logger_availability, least..=self.host_availability)?;
        within("host_failure_hours", self.host_failure_hours, FAILURE_HOURS)?;
        let (least, _) = FAILURE_HOURS.into_inner();
        within("logger_failure_hours", self.logger_failure_hours, least..=self.host_failure_hours)
    }
}

impl Crowd {
    fn check(&self, of: &Scenario) -> Result<(), OutOfRange> {
        within("crowd.hosts", self.hosts, 1..=1_000)?;
        within("crowd.response_s", self.response_s, of.least_response_s..=of.timeout_s as f64)?;
        within("crowd.availability", self.availability, AVAILABILITY)?;
        within("crowd.failure_hours", self.failure_hours, FAILURE_HOURS)?;
        within("crowd.spread", self.spread, 1.0..=100.0)
    }
}

impl Network {
    fn check(&self) -> Result<(), OutOfRange> {
        within("network.line_bps", self.line_bps, 300..=1_000_000_000)?;
        within("interface_bps", self.interface_bps, 300..=1_000_000_000)?;
        within("imp_us", self.imp_us, 0..=1_000_000)?;
        within("message_bits", self.message_bits, 800..=11_000)?;
        within("buffer_bits", self.buffer_bits, 800..=100_000_000)?;
        within("turn_ms", self.turn_ms, 0..=60_000)?;
        within("allocation_bits", self.allocation_bits, ALLOCATION_BITS)?;
        within("the number of remotes", self.remotes.len(), 1..=LIST_MAX)?;
        self.remotes.iter().try_for_each(Remote::check)
    }
}

/// Permitted allocations in bits; the upper limit is the maximum TCP window without window scaling.
const ALLOCATION_BITS: RangeInclusive<u64> = 800..=524_280;

impl Remote {
    fn check(&self) -> Result<(), OutOfRange> {
        within("hops", self.hops, 0..=100)?;
        within("allocation_bits", self.allocation_bits, ALLOCATION_BITS)?;
        within("conversion_ns_per_bit", self.conversion_ns_per_bit, 0..=1_000_000_000)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::rfc573) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }
}
