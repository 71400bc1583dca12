//! What the window does to a screenful between two personal computers (TM-233 §5.6, §6.3.3).

use super::super::experiments::{Equipment, WINDOW, screenful_by};
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};
use crate::world::Stuck;

/// Returns a screenful with each window, in lock-step and answering early.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for window in &scenario.windows_bytes {
        for answers_early in [false, true] {
            let equipment = Equipment { answers_early, ..scenario.equipment() };
            let shown = screenful_by(equipment, scenario.rate_bps, *window, scenario.seed)?;
            let is_theirs = *window == WINDOW && !answers_early && scenario.rate_bps == 9_600;
            let measured = is_theirs.then_some(2.82);
            let how = if answers_early { ", early" } else { "" };
            let ours = shown.first_to_last.as_secs_f64();
            let what = format!("{window} bytes{how}");
            rows.push(Row { digits: 2, ..row(what, None, measured, ours) });
        }
    }
    Ok(Table {
        number: "D",
        title: "a screenful between two personal computers by the window (§5.6), 9,600 bit/s",
        unit: "s",
        rows,
        why: "The thesis has measured 2,500 bytes alone. A screenful is 1,966: from there on the \
              window is no limit. With a smaller one the line stands still while a window is \
              printed, in lock-step; to answer early helps where more than one packet fits into \
              the window.",
    })
}
