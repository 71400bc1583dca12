//! Evaluation of measurement rounds: the median of the medians of the rounds, and ratios within
//! each round.

use super::driver::Transfer;
use records::statistics::{median, percentile};
use serde_json::{Value, json};

/// One round of one path. Unknown figures are `None` or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// Times from each key to its echo.
    pub(super) echo_ns: Vec<u64>,
    /// Processor time of the client per key.
    pub(super) client_ns_per_key: Option<u64>,
    /// Processor time of the server per key.
    pub(super) server_ns_per_key: Option<u64>,
    /// Times from the first byte of each screenful to its last.
    pub(super) screenful_ns: Vec<u64>,
    /// Times from the key that requested each screenful to its last byte.
    pub(super) key_to_screen_ns: Vec<u64>,
    /// Cost of a long text.
    pub(super) transfer: Option<Transfer>,
}

impl Round {
    /// Returns a percentile of the echo times.
    pub(super) fn echo(&self, percent: u8) -> Option<u64> {
        percentile(&self.echo_ns, percent)
    }

    /// Returns the median time of a screenful.
    pub(super) fn screenful(&self) -> Option<u64> {
        median(&self.screenful_ns)
    }

    /// Returns the processor time of client and server together per key.
    pub(super) fn both_ns_per_key(&self) -> Option<u64> {
        self.client_ns_per_key?.checked_add(self.server_ns_per_key?)
    }

    /// Returns the duration of the long text.
    pub(super) fn transfer_wall(&self) -> Option<u64> {
        Some(self.transfer?.wall_ns)
    }

    /// Returns the processor time of client and server together for the long text.
    pub(super) fn transfer_both(&self) -> Option<u64> {
        self.transfer?.client_ns?.checked_add(self.transfer?.server_ns?)
    }
}

/// All rounds of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rounds {
    /// Label in the table.
    pub(super) label: String,
    /// The rounds, in order.
    pub(super) rounds: Vec<Round>,
}

/// Ratios within rounds: the median, the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Median ratio of the rounds.
    pub(super) median: f64,
    /// Least ratio of the rounds.
    pub(super) min: f64,
    /// Greatest ratio of the rounds.
    pub(super) max: f64,
}

impl Rounds {
    /// Returns an empty series of rounds with this label.
    pub(super) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), rounds: Vec::new() }
    }

    /// Returns the median over the rounds of one figure.
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

    /// Returns the medians and the figures of every round.
    pub(super) fn to_json(&self) -> Value {
        let rounds: Vec<Value> = self.rounds.iter().map(round_to_json).collect();
        json!({
            "path": self.label,
            "echo_p50_ns": self.median_of(|round| round.echo(50)),
            "echo_p90_ns": self.median_of(|round| round.echo(90)),
            "echo_p99_ns": self.median_of(|round| round.echo(99)),
            "client_cpu_ns_per_key": self.median_of(|round| round.client_ns_per_key),
            "server_cpu_ns_per_key": self.median_of(|round| round.server_ns_per_key),
            "screenful_p50_ns": self.median_of(Round::screenful),
            "key_to_screen_p50_ns": self.median_of(|round| median(&round.key_to_screen_ns)),
            "rounds": rounds,
        })
    }
}

fn round_to_json(round: &Round) -> Value {
    json!({
        "echo_ns": round.echo_ns,
        "client_cpu_ns_per_key": round.client_ns_per_key,
        "server_cpu_ns_per_key": round.server_ns_per_key,
        "screenful_ns": round.screenful_ns,
        "key_to_screen_ns": round.key_to_screen_ns,
        "transfer_wall_ns": round.transfer_wall(),
        "transfer_client_cpu_ns": round.transfer.and_then(|transfer| transfer.client_ns),
        "transfer_server_cpu_ns": round.transfer.and_then(|transfer| transfer.server_ns),
    })
}

impl Ratio {
    /// Returns the ratios of pairs of figures, or `None` if no pair has a nonzero divisor.
    pub(super) fn from_pairs(pairs: &[(u64, u64)]) -> Option<Self> {
        let divided = pairs.iter().filter(|(_, divisor)| *divisor > 0);
        let mut ratios: Vec<f64> =
            divided.map(|(part, total)| *part as f64 / *total as f64).collect();
        ratios.sort_by(f64::total_cmp);
        Some(Self {
            median: *records::statistics::nearest_rank(&ratios, 50)?,
            min: *ratios.first()?,
            max: *ratios.last()?,
        })
    }

    /// Returns the ratio with its spread, `0.93 (0.90-0.97)`.
    pub(super) fn text(self) -> String {
        format!("{:.2} ({:.2}-{:.2})", self.median, self.min, self.max)
    }

    /// Returns the median, the least and the greatest.
    pub(super) fn to_json(self) -> Value {
        json!({ "median": self.median, "least": self.min, "greatest": self.max })
    }
}

/// Formats a time in microseconds with one decimal, for a column headed (µs).
pub(super) fn micros(ns: Option<u64>) -> String {
    in_unit(ns, 1_000.0, 1)
}

/// Formats a time in milliseconds with two decimals, for a column headed (ms).
pub(super) fn millis(ns: Option<u64>) -> String {
    in_unit(ns, 1_000_000.0, 2)
}

/// Formats a time in seconds with two decimals, for a column headed (s).
pub(super) fn seconds(ns: Option<u64>) -> String {
    in_unit(ns, 1_000_000_000.0, 2)
}

fn in_unit(ns: Option<u64>, unit_ns: f64, places: usize) -> String {
    let Some(ns) = ns else { return records::format::UNKNOWN.to_owned() };
    format!("{:.places$}", ns as f64 / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(label: &str, echoes: &[&[u64]]) -> Rounds {
        let round = |echo: &&[u64]| Round { echo_ns: echo.to_vec(), ..Round::default() };
        Rounds { label: label.into(), rounds: echoes.iter().map(round).collect() }
    }

    #[test]
    fn the_figure_of_a_path_is_the_median_of_its_rounds() {
        let path = rounds("a", &[&[10, 20, 30], &[1, 2, 3], &[100, 200, 300]]);
        assert_eq!(path.median_of(|round| round.echo(50)), Some(20));
    }

    #[test]
    fn ratios_are_computed_within_each_round() {
        let ours = rounds("a", &[&[90], &[50], &[95]]);
        let peer = rounds("b", &[&[100], &[100], &[100]]);
        let ratio = ours.ratio_to(&peer, |round| round.echo(50)).unwrap();
        assert_eq!(ratio, Ratio { median: 0.90, min: 0.50, max: 0.95 });
        assert_eq!(ratio.text(), "0.90 (0.50-0.95)");
    }

    #[test]
    fn a_figure_missing_in_all_rounds_has_no_ratio() {
        let path = rounds("a", &[&[1]]);
        assert_eq!(path.ratio_to(&path, |round| round.server_ns_per_key), None);
        assert_eq!(path.ratio_to(&path, |_| Some(0)), None);
    }

    #[test]
    fn unknown_values_are_null_and_a_dash() {
        let json = rounds("a", &[&[1]]).to_json();
        assert!(json["client_cpu_ns_per_key"].is_null());
        assert_eq!(json["echo_p50_ns"], 1);
        assert_eq!(micros(None), "-");
    }

    #[test]
    fn times_are_in_the_unit_of_their_column() {
        assert_eq!(
            (micros(Some(12_345)), millis(Some(43_512_345))),
            ("12.3".into(), "43.51".into())
        );
    }

    proptest! {
        #[test]
        fn the_median_of_ratios_lies_between_the_least_and_the_greatest(
            pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20)
        ) {
            if let Some(ratio) = Ratio::from_pairs(&pairs) {
                prop_assert!(ratio.min <= ratio.median && ratio.median <= ratio.max);
            }
        }
    }
}
