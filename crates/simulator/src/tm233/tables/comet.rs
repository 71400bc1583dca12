//! Comet's twenty packets and the concentrator's buffers, as a function of the window (TM-233
//! §6.3.3).

use super::super::foreign::{Additions, Visit};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use crate::world::Stuck;

/// Returns the time of a screenful from Comet for each window.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    let host = scenario.hosts.iter().find(|host| host.name == "Comet");
    for window in &scenario.windows_bytes {
        let Some(host) = host else { continue };
        let visit = Visit {
            scenario,
            host,
            rate_bps: scenario.rate_bps,
            window: *window,
            is_faulty: false,
            additions: Additions::default(),
            seed: scenario.seed,
        };
        let shown = visit.screenful()?;
        let what = format!(
            "{window} bytes: {} lost, {} time-outs, {} answers",
            shown.dropped.overflows, shown.timeouts, shown.answers
        );
        rows.push(Row::output(what, shown.time.as_secs_f64(), 2));
    }
    Ok(Table {
        number: "E",
        title: "a screenful from Comet in small packets through the concentrator's buffers (§6.3.3)",
        unit: "s",
        rows,
        why: "The thesis gives no times. It says that more than twenty packets at once are too \
              many for the concentrator, that a window of 240 bytes lets four go at once and needs \
              eight or nine updates, and that these cost less than a time-out. How many buffers \
              there were it does not say: the 16 of the scenario are a guess. Where the window is \
              smaller than a screenful, our Comet has a congestion window, of ten packets at \
              first, which the one of 1982 had not.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::experiments::SCREENFUL;
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn a_small_window_costs_less_than_the_time_outs_of_a_large_one() {
        let scenario = built_in();
        assert!(scenario.windows_bytes[0] < SCREENFUL);
        let rows = table(&scenario).unwrap().rows;
        assert!(rows[0].what.contains(" 0 lost, 0 time-outs"), "{rows:?}");
        assert!(rows[0].ours < rows[4].ours, "{rows:?}");
    }
}
