//! Table of the wakeups per data message, by the allocation of the foreign hosts.

use super::super::daemon::simulate;
use super::super::session_scenario::Scenario;
use crate::table::{Row, Table};

/// Allocations of remote hosts in characters; the memo proposes 80 to 120.
const ALLOCATIONS: [usize; 6] = [10, 20, 40, 80, 120, 1_000];

/// Returns the number of wakeups for each allocation.
pub(super) fn table(scenario: &Scenario) -> Table {
    let mut rows = Vec::new();
    for allocation_chars in ALLOCATIONS {
        let mut scenario = scenario.clone();
        scenario.network.allocation_chars = allocation_chars;
        let usage = simulate(&scenario, scenario.switches);
        let messages = usage.messages.max(1) as f64;
        let daemon = usage.total_wakeups() as f64 / messages;
        let process = usage.woken_to_write as f64 / messages;
        rows.push(Row::output(format!("{allocation_chars} characters: daemon"), daemon, 2));
        rows.push(Row::output(format!("{allocation_chars} characters: processes"), process, 2));
    }
    Table {
        number: "6",
        title: "wakeups per data message, by the allocation of the foreign hosts",
        unit: "wakeups",
        rows,
        why: "The memo proposes 80 to 120 characters, so that a line is written at once, and gives \
              no figure. If the allocation is less than a line, each part of a line causes an RFNM, \
              an allocate and a wakeup of the process. If it is more than a line and the lines \
              follow each other slowly, the number of wakeups does not fall further. In a long \
              answer, a larger allocation lets the next line be sent before the allocate for the \
              previous line has arrived.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::session_scenario::tests::built_in;
    use super::*;

    #[test]
    fn larger_allocations_cause_fewer_wakeups() {
        let mut scenario = built_in();
        scenario.minutes = 60;
        let rows = table(&scenario).rows;
        let daemon: Vec<f64> = rows.iter().step_by(2).map(|row| row.ours).collect();
        assert!(daemon.is_sorted_by(|less, more| more <= less), "{daemon:?}");
    }
}
