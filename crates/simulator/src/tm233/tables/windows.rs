//! Effect of the window on a screenful between two personal computers (TM-233 §5.6, §6.3.3).

use super::super::experiments::{Equipment, SCREENFUL, screenful_by};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use crate::world::Stuck;

/// Returns a screenful with each window, in lock-step and with early answers.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for window in &scenario.windows_bytes {
        for answers_early in [false, true] {
            let equipment = Equipment { answers_early, ..scenario.equipment() };
            let shown = screenful_by(equipment, scenario.rate_bps, *window, scenario.seed)?;
            // §6.2.5 does not specify its window; §5.6 asks for one that holds a screenful.
            let may_be_theirs = *window >= SCREENFUL && !answers_early;
            let measured = (may_be_theirs && scenario.rate_bps == 9_600).then_some(2.82);
            let how = if answers_early { ", early" } else { "" };
            let ours = shown.first_to_last.as_secs_f64();
            let what = format!("{window} bytes{how}");
            rows.push(Row::output(what, ours, 2).measured_if(measured));
        }
    }
    Ok(Table {
        number: "D",
        title: "a screenful between two personal computers by the window (§5.6), 9,600 bit/s",
        unit: "s",
        rows,
        why: "The thesis measured 2.82 s and does not name the window (§6.2.5): §5.6 asks for 2,500 \
              bytes at least, and the test of §6.2.2 had 4,000. The figure stands beside every \
              window that holds a screenful, 1,966 bytes: from there on the window is no limit. With a smaller one the line stands still while a window is \
              printed, in lock-step; to answer early helps where more than one packet fits into \
              the window.",
    })
}
