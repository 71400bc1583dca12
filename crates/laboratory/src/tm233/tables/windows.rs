//! Effect of the window on a screenful between two personal computers (TM-233 §5.6, §6.3.3).

use super::super::experiments::{Equipment, SCREENFUL, screenful_with};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// Returns the time of a screenful for each window size, in lock-step and with early
/// acknowledgments.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for window in &scenario.windows_bytes {
        for answers_early in [false, true] {
            let equipment = Equipment { answers_early, ..scenario.equipment() };
            let result = screenful_with(equipment, scenario.rate_bps, *window, scenario.seed)?;
            // §6.2.5 does not state the window of its test; §5.6 requires a window that holds a
            // screenful.
            let may_be_theirs = *window >= SCREENFUL && !answers_early;
            let measured = (may_be_theirs && scenario.rate_bps == 9_600).then_some(2.82);
            let how = if answers_early { ", early" } else { "" };
            let ours = result.first_to_last.as_secs_f64();
            let what = format!("{window} bytes{how}");
            rows.push(Row::output(what, ours, 2).measured_if(measured));
        }
    }
    Ok(Table {
        number: "D",
        title: "screenful between two personal computers by window (§5.6), 9,600 bit/s",
        unit: "s",
        rows,
        why: "The thesis measured 2.82 s and does not state the window (§6.2.5). §5.6 requires at \
              least 2,500 bytes, and the test of §6.2.2 had 4,000. The measured 2.82 s is shown \
              with every window that holds a screenful, 1,966 bytes, because such a window does not \
              limit the transfer. With a smaller window the line is idle while a window of data is \
              printed, in lock-step. Early acknowledgments help if more than one packet fits into \
              the window.",
    })
}
