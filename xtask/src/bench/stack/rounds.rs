//! Results of the rounds for each contender. A figure that was not measured or failed is `None`.

use super::client::{Bulk, Crowd, Echo};
use crate::bench::rounds::Ratio;
use records::statistics::median;
use serde_json::{Value, json};

/// One round of one contender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// Bulk stream to the server.
    pub(super) into: Option<Bulk>,
    /// Bulk stream from the server.
    pub(super) out: Option<Bulk>,
    /// Echo of one byte.
    pub(super) echo: Option<Echo>,
    /// Echo of one byte on two processors, with both ends spinning.
    pub(super) spun: Option<Echo>,
}

/// All measurements of one contender.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// The rounds, in order.
    pub(super) rounds: Vec<Round>,
    /// Measurements with growing numbers of idle connections.
    pub(super) crowds: Vec<Crowd>,
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
        Ratio::of(&pairs)
    }

    /// Returns the ratio of the median echo on changing connections at the last step to the first.
    pub(super) fn growth(&self) -> Option<f64> {
        let (first, last) = (self.crowds.first()?, self.crowds.last()?);
        Some(last.each_p50_ns as f64 / first.each_p50_ns as f64)
    }

    /// Returns the ratio of the median echo on a single connection at the last step to the first.
    pub(super) fn growth_of_same(&self) -> Option<f64> {
        let (first, last) = (self.crowds.first()?, self.crowds.last()?);
        Some(last.same_p50_ns as f64 / first.same_p50_ns as f64)
    }

    /// Returns the server memory per additional idle connection, in bytes.
    pub(super) fn bytes_per_connection(&self) -> Option<f64> {
        let (first, last) = (self.crowds.first()?, self.crowds.last()?);
        let connections = last.connections.checked_sub(first.connections).filter(|n| *n > 0)?;
        let bytes = last.resident_bytes as f64 - first.resident_bytes as f64;
        Some(bytes / connections as f64)
    }

    /// Returns the medians, the figures of every round, and the measurements with idle connections.
    pub(super) fn to_json(&self, name: &str) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "in": round.into.map(bulk_to_json),
                "out": round.out.map(bulk_to_json),
                "echo": round.echo.map(echo_to_json),
                "echo_spinning": round.spun.map(echo_to_json),
            })
        });
        let crowds = self.crowds.iter().map(|crowd| {
            json!({
                "connections": crowd.connections,
                "resident_bytes": crowd.resident_bytes,
                "connect_ns": crowd.connect_ns,
                "echo_each_p50_ns": crowd.each_p50_ns,
                "echo_same_p50_ns": crowd.same_p50_ns,
            })
        });
        json!({
            "server": name,
            "rounds": rounds.collect::<Vec<_>>(),
            "crowds": crowds.collect::<Vec<_>>(),
            "bytes_per_connection": self.bytes_per_connection(),
            "failures": self.failures,
        })
    }
}

/// Returns the bits per second to the server.
pub(super) fn rate_in(round: &Round) -> Option<u64> {
    Some(round.into?.bits_per_second)
}

/// Returns the bits per second from the server.
pub(super) fn rate_out(round: &Round) -> Option<u64> {
    Some(round.out?.bits_per_second)
}

/// Returns both ends' processor time per gigabit to the server.
pub(super) fn cost_in(round: &Round) -> Option<u64> {
    Some(round.into?.processor_ns_per_gbit)
}

/// Returns both ends' processor time per gigabit from the server.
pub(super) fn cost_out(round: &Round) -> Option<u64> {
    Some(round.out?.processor_ns_per_gbit)
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
        "least_ns": echo.least_ns,
        "p50_ns": echo.p50_ns,
        "p90_ns": echo.p90_ns,
        "p99_ns": echo.p99_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(connections: usize, resident_bytes: u64, each_p50_ns: u64) -> Crowd {
        Crowd { connections, resident_bytes, connect_ns: 1, each_p50_ns, same_p50_ns: 1 }
    }

    #[test]
    fn a_connection_costs_what_the_memory_grows_by() {
        let crowds = vec![crowd(1, 1_000_000, 10), crowd(1_001, 1_512_000, 15)];
        let results = Results { crowds, ..Results::default() };
        assert_eq!(results.bytes_per_connection(), Some(512.0));
        assert_eq!(results.growth(), Some(1.5));
    }

    #[test]
    fn a_single_step_tells_nothing_of_a_connection() {
        let results = Results { crowds: vec![crowd(1, 1, 1)], ..Results::default() };
        assert_eq!(results.bytes_per_connection(), None);
        assert_eq!(Results::default().growth(), None);
    }

    #[test]
    fn a_round_that_failed_has_no_part_in_a_ratio() {
        let echo = |ns| Some(Echo { least_ns: 1, p50_ns: ns, p90_ns: ns, p99_ns: ns });
        let results = |echoes: [Option<Echo>; 2]| Results {
            rounds: echoes.map(|echo| Round { echo, ..Round::default() }).into(),
            ..Results::default()
        };
        let (ours, peer) = (results([echo(5), None]), results([echo(10), echo(10)]));
        assert_eq!(ours.ratio_to(&peer, echo_p50).unwrap().median, 0.5);
    }
}
