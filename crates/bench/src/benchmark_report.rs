//! The report of a benchmark: tables, comparisons with goals, and notes, as text and as JSON.

use crate::conditions::{Conditions, ProgramSet};
use anyhow::{Context, Result};
use report::table::{self, Table};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

/// Width of the tables in columns.
pub(crate) const WIDTH: usize = 110;

/// Result of a benchmark.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) program_set: ProgramSet,
    pub(crate) sections: Vec<Section>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Congestion control of the connections.
    pub(crate) congestion: String,
    pub(crate) notes: Vec<String>,
}

/// One table of a report with its data.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) table: Table,
    pub(crate) data: Value,
}

/// Comparison of a figure with its goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    /// Largest accepted value.
    pub(crate) goal: f64,
    pub(crate) actual: Option<f64>,
    pub(crate) unit: &'static str,
}

impl Verdict {
    /// Returns whether the value is within the goal; `None` if it is not known.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.actual.map(|actual| actual <= self.goal)
    }

    /// Returns the comparison as a line of text.
    pub(crate) fn text(&self) -> String {
        let Self { what, goal, unit, .. } = self;
        let (actual, verdict) = match (self.actual, self.is_met()) {
            (Some(actual), Some(true)) => (format!("{actual:.3}{unit}"), "met"),
            (Some(actual), _) => (format!("{actual:.3}{unit}"), "missed"),
            (None, _) => ("-".to_owned(), "not known"),
        };
        format!("{what}: {actual}, goal at most {goal:.2}{unit}: {verdict}")
    }
}

impl Report {
    /// Prints the report as text or as JSON.
    pub(crate) fn print(&self, conditions: &Conditions, as_json: bool) -> Result<()> {
        let text = if as_json {
            format!("{:#}\n", self.to_json(conditions))
        } else {
            self.text(conditions)
        };
        std::io::stdout().write_all(text.as_bytes()).context("the report cannot be written")
    }

    fn text(&self, conditions: &Conditions) -> String {
        let mut text =
            format!("{}\n\n{}", self.title, conditions.text(self.program_set, &self.congestion));
        for section in &self.sections {
            // Writing to a String cannot fail.
            _ = write!(text, "\n{}\n\n{}", section.heading, section.table.render(WIDTH));
        }
        text.push('\n');
        for line in self.notes.iter().flat_map(|note| table::wrap(note, WIDTH)) {
            text.push_str(&line);
            text.push('\n');
        }
        for verdict in &self.verdicts {
            text.push_str(&verdict.text());
            text.push('\n');
        }
        text
    }

    fn to_json(&self, conditions: &Conditions) -> Value {
        let sections = self
            .sections
            .iter()
            .map(|section| json!({ "heading": section.heading, "data": section.data }));
        let verdicts = self.verdicts.iter().map(|verdict| {
            json!({
                "what": verdict.what,
                "goal_at_most": verdict.goal,
                "found": verdict.actual,
                "is_met": verdict.is_met(),
            })
        });
        json!({
            "title": self.title,
            "conditions": conditions.to_json(&self.congestion),
            "sections": sections.collect::<Vec<_>>(),
            "verdicts": verdicts.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_up_to_its_limit_and_unknown_is_neither() {
        let verdict = |actual| Verdict { what: "echo".into(), goal: 0.95, actual, unit: "" };
        assert_eq!(verdict(Some(0.95)).is_met(), Some(true));
        assert_eq!(verdict(Some(0.951)).text(), "echo: 0.951, goal at most 0.95: missed");
        assert_eq!(verdict(None).is_met(), None);
    }
}
