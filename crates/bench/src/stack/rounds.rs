//! Results of the rounds for each contender. A figure is `None` if it was not measured or its
//! measurement failed.

use super::client::{Bulk, Echo, IdleConnections};
use crate::rounds::Ratio;
use records::statistics::median;
use serde_json::{Value, json};

/// One round of one contender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// Bulk stream to the server.
    pub(super) to_server: Option<Bulk>,
    /// Bulk stream from the server.
    pub(super) from_server: Option<Bulk>,
    /// Echo of one byte.
    pub(super) echo: Option<Echo>,
    /// Echo of one byte on two processors, while client and server poll instead of sleeping.
    pub(super) spun: Option<Echo>,
}

/// All measurements of one contender.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// The rounds, in order.
    pub(super) rounds: Vec<Round>,
    /// Measurements with growing numbers of idle connections.
    pub(super) idle_connections: Vec<IdleConnections>,
    /// Failed measurements with their errors.
    pub(super) failures: Vec<String>,
}

impl Results {
    /// Returns the median of one figure over the rounds.
    pub(super) fn median_of(&self, figure: impl Fn(&Round) -> Option<u64>) -> Option<u64> {
        median(&self.rounds.iter().filter_map(figure).collect::<Vec<_>>())
    }

    /// Returns a figure as a ratio to the same figure in `other`, round by round.
    pub(super) fn ratio_to(
        &self,
        other: &Self,
        figure: impl Fn(&Round) -> Option<u64>,
    ) -> Option<Ratio> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        let pairs: Vec<_> = pairs.filter_map(|(a, b)| Some((figure(a)?, figure(b)?))).collect();
        Ratio::from_pairs(&pairs)
    }

    /// Returns the ratio of the median echo time on changing connections at the last step to that
    /// at the first step.
    pub(super) fn growth(&self) -> Option<f64> {
        let first = self.idle_connections.first()?;
        let last = self.idle_connections.last()?;
        Some(last.each_p50_ns as f64 / first.each_p50_ns as f64)
    }

    /// Returns the ratio of the median echo time on a single connection at the last step to that at
    /// the first step.
    pub(super) fn growth_of_same(&self) -> Option<f64> {
        let first = self.idle_connections.first()?;
        let last = self.idle_connections.last()?;
        Some(last.same_p50_ns as f64 / first.same_p50_ns as f64)
    }

    /// Returns the server memory per additional idle connection, in bytes.
    pub(super) fn bytes_per_connection(&self) -> Option<f64> {
        let first = self.idle_connections.first()?;
        let last = self.idle_connections.last()?;
        let connections = last.connections.checked_sub(first.connections).filter(|n| *n > 0)?;
        let bytes = last.resident_bytes as f64 - first.resident_bytes as f64;
        Some(bytes / connections as f64)
    }

    /// Returns the medians, the figures of every round, and the measurements with idle connections.
    pub(super) fn to_json(&self, name: &str) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "in": round.to_server.map(bulk_to_json),
                "out": round.from_server.map(bulk_to_json),
                "echo": round.echo.map(echo_to_json),
                "echo_spinning": round.spun.map(echo_to_json),
            })
        });
        let idle_connections = self.idle_connections.iter().map(|step| {
            json!({
                "connections": step.connections,
                "resident_bytes": step.resident_bytes,
                "connect_ns": step.connect_ns,
                "echo_each_p50_ns": step.each_p50_ns,
                "echo_same_p50_ns": step.same_p50_ns,
            })
        });
        json!({
            "server": name,
            "rounds": rounds.collect::<Vec<_>>(),
            "crowds": idle_connections.collect::<Vec<_>>(),
            "bytes_per_connection": self.bytes_per_connection(),
            "failures": self.failures,
        })
    }
}

/// Returns the bits per second to the server.
pub(super) fn rate_in(round: &Round) -> Option<u64> {
    Some(round.to_server?.bits_per_second)
}

/// Returns the bits per second from the server.
pub(super) fn rate_out(round: &Round) -> Option<u64> {
    Some(round.from_server?.bits_per_second)
}

/// Returns both ends' processor time per gigabit to the server.
pub(super) fn cost_in(round: &Round) -> Option<u64> {
    Some(round.to_server?.processor_ns_per_gbit)
}

/// Returns both ends' processor time per gigabit from the server.
pub(super) fn cost_out(round: &Round) -> Option<u64> {
    Some(round.from_server?.processor_ns_per_gbit)
}

/// Returns the median echo.
pub(super) fn echo_p50(round: &Round) -> Option<u64> {
    Some(round.echo?.p50_ns)
}

/// Returns the 99th percentile of the echo.
pub(super) fn echo_p99(round: &Round) -> Option<u64> {
    Some(round.echo?.p99_ns)
}

/// Returns the median echo on two processors.
pub(super) fn spun_p50(round: &Round) -> Option<u64> {
    Some(round.spun?.p50_ns)
}

fn bulk_to_json(bulk: Bulk) -> Value {
    json!({
        "bits_per_second": bulk.bits_per_second,
        "processor_ns_per_gbit": bulk.processor_ns_per_gbit,
        "client_retransmissions": bulk.retransmissions,
    })
}

fn echo_to_json(echo: Echo) -> Value {
    json!({
        "least_ns": echo.min_ns,
        "p50_ns": echo.p50_ns,
        "p90_ns": echo.p90_ns,
        "p99_ns": echo.p99_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(connections: usize, resident_bytes: u64, each_p50_ns: u64) -> IdleConnections {
        IdleConnections { connections, resident_bytes, connect_ns: 1, each_p50_ns, same_p50_ns: 1 }
    }

    #[test]
    fn the_cost_of_a_connection_is_the_growth_of_memory() {
        let idle_connections = vec![step(1, 1_000_000, 10), step(1_001, 1_512_000, 15)];
        let results = Results { idle_connections, ..Results::default() };
        assert_eq!(results.bytes_per_connection(), Some(512.0));
        assert_eq!(results.growth(), Some(1.5));
    }

    #[test]
    fn a_single_step_gives_no_cost_per_connection() {
        let results = Results { idle_connections: vec![step(1, 1, 1)], ..Results::default() };
        assert_eq!(results.bytes_per_connection(), None);
        assert_eq!(Results::default().growth(), None);
    }

    #[test]
    fn failed_rounds_are_excluded_from_ratios() {
        let echo = |ns| Some(Echo { min_ns: 1, p50_ns: ns, p90_ns: ns, p99_ns: ns });
        let results = |echoes: [Option<Echo>; 2]| Results {
            rounds: echoes.map(|echo| Round { echo, ..Round::default() }).into(),
            ..Results::default()
        };
        let ours = results([echo(5), None]);
        let peer = results([echo(10), echo(10)]);
        assert_eq!(ours.ratio_to(&peer, echo_p50).unwrap().median, 0.5);
    }
}
