//! A table of servers with throughput and cost in both directions.

use super::client::Direction;
use crate::benchmark_report::Section;
use crate::rounds::Ratio;
use records::format::UNKNOWN;
use records::statistics::median;
use report::table::Table;
use serde_json::{Value, json};

/// Throughput and cost in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Number of units (datagrams or bits) per second.
    pub(super) rate: u64,
    /// Processor time of client and server, in nanoseconds, per unit of work that the table states.
    pub(super) cost_ns: u64,
    /// Number of lost datagrams.
    pub(super) lost: u64,
}

/// One server, measured alternately with the others; failed measurements are `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Label in the table.
    pub(super) label: &'static str,
    /// Results towards the server, one per round.
    pub(super) to_server: Vec<Option<Side>>,
    /// Results from the server, one per round.
    pub(super) from_server: Vec<Option<Side>>,
}

/// Units of the printed figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Unit of rates in the table, and the factor by which [`Side::rate`] is divided, for example
    /// `("M/s", 1e6)`.
    pub(super) rate: (&'static str, f64),
    /// Unit of costs in the table, and the factor by which [`Side::cost_ns`] is divided, for
    /// example `("µs each", 1e3)`.
    pub(super) cost: (&'static str, f64),
}

impl Row {
    /// Returns a row without rounds.
    pub(super) fn new(label: &'static str) -> Self {
        Self { label, ..Self::default() }
    }

    /// Adds the result of a round in one direction.
    pub(super) fn add(&mut self, direction: Direction, side: Option<Side>) {
        match direction {
            Direction::In => self.to_server.push(side),
            Direction::Out => self.from_server.push(side),
        }
    }
}

/// Creates the section for `rows`, with ratios to the first row in the same round.
pub(super) fn section(heading: String, units: Units, rows: &[Row]) -> Section {
    let mut table = Table::new().text("server");
    for direction in ["in", "out"] {
        table = table
            .number(&format!("{direction} ({})", units.rate.0))
            .number("x first")
            .number(&format!("CPU ({})", units.cost.0))
            .number("lost");
    }
    let first = rows.first().cloned().unwrap_or_default();
    for row in rows {
        let label = [row.label.to_owned()];
        let cells = label
            .into_iter()
            .chain(cells(&row.to_server, &first.to_server, units))
            .chain(cells(&row.from_server, &first.from_server, units));
        table.row(cells);
    }
    let data = rows.iter().map(|row| {
        let to_server = to_json(&row.to_server);
        let from_server = to_json(&row.from_server);
        json!({"server": row.label, "in": to_server, "out": from_server})
    });
    let data = Value::Array(data.collect());
    Section { heading, table, data }
}

fn cells(sides: &[Option<Side>], first: &[Option<Side>], units: Units) -> [String; 4] {
    let known: Vec<Side> = sides.iter().flatten().copied().collect();
    let median_of =
        |figure: fn(&Side) -> u64| median(&known.iter().map(figure).collect::<Vec<_>>());
    let pairs = sides.iter().zip(first).filter_map(|(a, b)| Some(((*a)?.rate, (*b)?.rate)));
    let ratio = Ratio::from_pairs(&pairs.collect::<Vec<_>>());
    let text = |figure: Option<u64>, one: f64, places: usize| {
        figure.map_or_else(unknown, |figure| format!("{:.places$}", figure as f64 / one))
    };
    [
        text(median_of(|side| side.rate), units.rate.1, 2),
        ratio.map_or_else(unknown, |ratio| format!("{:.2}", ratio.median)),
        text(median_of(|side| side.cost_ns), units.cost.1, 4),
        text(median_of(|side| side.lost), 1.0, 0),
    ]
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

fn to_json(sides: &[Option<Side>]) -> Value {
    let rounds = sides.iter().map(|side| {
        side.map(|side| json!({"rate": side.rate, "cost_ns": side.cost_ns, "lost": side.lost}))
    });
    json!(rounds.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_to_the_first_row_and_a_missing_figure_a_dash() {
        let side = |rate| Some(Side { rate, cost_ns: 2_000, lost: 0 });
        let mut rows = [Row::new("first"), Row::new("second")];
        rows[0].add(Direction::In, side(2_000));
        rows[1].add(Direction::In, side(5_000));
        rows[1].add(Direction::Out, None);
        let units = Units { rate: ("k/s", 1e3), cost: ("µs", 1e3) };
        let table = section(String::new(), units, &rows).table;
        assert_eq!(table.rows()[1][..5], ["second", "5.00", "2.50", "2.0000", "0"]);
        assert_eq!(table.rows()[1][5..], [UNKNOWN; 4]);
    }
}
