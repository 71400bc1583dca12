//! What `scenarios/rfc573.toml` says of the survey and of the hosts.

use serde::Deserialize;

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
    /// The hosts at the other end.
    pub remotes: Vec<Remote>,
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
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::rfc573) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }
}
