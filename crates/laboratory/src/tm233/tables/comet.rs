//! A screenful in twenty packets from the host Comet: effect of the window on losses in the
//! concentrator's buffers (TM-233 §6.3.3).

use super::super::foreign::{Additions, ForeignSession};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// Returns the time of a screenful from Comet for each window size.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    let host = scenario.hosts.iter().find(|host| host.name == "Comet");
    for window in &scenario.windows_bytes {
        let Some(host) = host else { continue };
        let foreign_session = ForeignSession {
            scenario,
            host,
            rate_bps: scenario.rate_bps,
            window: *window,
            is_faulty: false,
            additions: Additions::default(),
            seed: scenario.seed,
        };
        let result = foreign_session.screenful()?;
        let what = format!(
            "{window} bytes: {} lost, {} timeouts, {} acknowledgments",
            result.dropped.overflows, result.timeouts, result.answers
        );
        rows.push(Row::output(what, result.time.as_secs_f64(), 2));
    }
    Ok(Table {
        number: "E",
        title: "screenful from Comet in small packets through the concentrator's buffers (§6.3.3)",
        unit: "s",
        rows,
        why: "The thesis gives no times. It states that more than twenty packets at once are too \
              many for the concentrator. It also states that a window of 240 bytes lets four \
              packets be sent at once and needs eight or nine updates, and that these updates cost \
              less than a timeout. The thesis does not state how many buffers the concentrator had: \
              the 16 of the scenario are an assumption. If the window is smaller than a screenful, \
              the simulated Comet has a congestion window, initially of ten packets, which the \
              Comet of 1982 did not have.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::experiments::SCREENFUL;
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn a_small_window_costs_less_than_the_timeouts_of_a_large_window() {
        let scenario = built_in();
        assert!(scenario.windows_bytes[0] < SCREENFUL);
        let rows = table(&scenario).unwrap().rows;
        assert!(rows[0].what.contains(" 0 lost, 0 timeouts"), "{rows:?}");
        assert!(rows[0].ours < rows[4].ours, "{rows:?}");
    }
}
