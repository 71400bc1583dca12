//! What `scenarios/rfc573.toml` says of the survey and of the hosts.

use super::strata::Strata;
use crate::limits::{LIST_MAX, OutOfRange, within};
use protocols::transport::tcp::WindowUpdate;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// The survey.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The same seed gives the same year.
    pub seed: u64,
    /// How long the survey runs, in days.
    pub days: u64,
    /// The day of the paper's week, from the first of the survey.
    pub week_begins_day: u64,
    /// Days of the paper's table I.
    pub week_days: u64,
    /// Time between two tries of a host, in seconds.
    pub every_s: u64,
    /// How long a try waits for a connection, in seconds.
    pub timeout_s: u64,
    /// What every answer takes at least, in seconds.
    pub least_response_s: f64,
    /// Dollars of a minute of CPU time.
    pub cpu_minute_dollars: f64,
    /// The three hosts of table I.
    pub hosts: Vec<Rates>,
    /// All the hosts of the survey.
    pub crowd: Crowd,
    /// What the transfers add up to.
    pub strata: Strata,
    /// What the transfers are sent over again.
    pub network: Network,
}

/// The hosts and lines of the transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The lines between IMPs, in bits per second.
    pub line_bps: u64,
    /// A host's interface, in bits per second.
    pub interface_bps: u64,
    /// What an IMP takes for a packet, in microseconds.
    pub imp_us: u64,
    /// Bits of the longest message.
    pub message_bits: u64,
    /// Bits that a sending program may give its host ahead of the network.
    pub buffer_bits: u64,
    /// How long a program waits for its turn at the processor, on the average, in milliseconds.
    pub turn_ms: u64,
    /// What our own host allocates to a connection, in bits.
    pub allocation_bits: u64,
    /// When any host allocates again.
    pub allocates: Allocates,
    /// The hosts at the other end.
    pub remotes: Vec<Remote>,
}

/// When a host allocates again what a program has read.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Allocates {
    /// When the allocation has become zero, as the NCPs of section IV.
    WhenUsedUp,
    /// When half of it is used (TM-233 §5.6).
    WhenHalfUsed,
    /// As soon as data is read, as section IV proposes.
    AsRead,
}

impl Allocates {
    /// Returns the rule of TCP's window.
    pub(super) const fn rule(self) -> WindowUpdate {
        match self {
            Self::WhenUsedUp => WindowUpdate::UsedUp,
            Self::WhenHalfUsed => WindowUpdate::HalfUsed,
            Self::AsRead => WindowUpdate::AsRead,
        }
    }
}

/// A host at the other end of transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Its name, as records have it.
    pub name: String,
    /// Lines between our IMP and its own; 0 if it is the same one.
    pub hops: u64,
    /// What it allocates to a connection, in bits.
    pub allocation_bits: u64,
    /// How long it takes to convert a bit of the text that is got from it, in nanoseconds.
    #[serde(default)]
    pub conversion_ns_per_bit: u64,
}

/// What table I says of one host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Its name.
    pub name: String,
    /// Average response, in seconds.
    pub response_s: f64,
    /// Per cent of the time in which the host is not dead.
    pub host_availability: f64,
    /// Per cent of the time in which the logger answers.
    pub logger_availability: f64,
    /// Hours between failures of the host.
    pub host_failure_hours: f64,
    /// Hours between failures to connect, whatever failed.
    pub logger_failure_hours: f64,
}

/// Hosts of which only averages are told.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// How many.
    pub hosts: u32,
    /// Average response, in seconds.
    pub response_s: f64,
    /// Per cent of the time in which the logger answers.
    pub availability: f64,
    /// Hours between failures to connect.
    pub failure_hours: f64,
    /// The times of a host are up to so many times those of another.
    pub spread: f64,
}

impl Scenario {
    /// The scenario as TOML, as it comes with the program.
    pub const BUILT_IN: &str = include_str!("../../../../scenarios/rfc573.toml");

    /// Returns an error if there is no experiment with these figures. [`Strata`] are not checked:
    /// their least sums are those of the transfers that the paper names.
    ///
    /// # Errors
    ///
    /// With the figure that is out of range, and its range.
    pub fn check(&self) -> Result<(), OutOfRange> {
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

/// Per cent of the time: a host that never fails, or never answers, has no rate of failures.
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

/// A window of TCP without its scale has no more.
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
