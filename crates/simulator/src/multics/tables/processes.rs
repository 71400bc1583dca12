//! The server processes as the memo found them.

use super::super::daemon::bill;
use super::super::scenario::Scenario;
use super::super::switches::Switches;
use super::row;
use crate::table::{Row, Table};

/// Returns where the time of the processes goes.
pub(super) fn table(scenario: &Scenario) -> Table {
    let bill = bill(scenario, Switches::default());
    let costs = &scenario.costs;
    let seconds = |ms: f64| ms / 1_000.0 * 60.0 / scenario.minutes as f64;
    let io = bill.transactions as f64 * costs.io_ms;
    let wakeups = (bill.process_ms - io).max(0.0) - bill.canonical_ms;
    let an_io = bill.process_ms / bill.transactions.max(1) as f64;
    // The write call of a directly connected terminal, by the memo's own ratio.
    let local = costs.io_ms / 4.5;
    Table {
        number: "5",
        title: "where the time of the server processes goes",
        unit: "s of each hour; ms",
        rows: vec![
            Row {
                measured: Some(85.0),
                ..row("a read or write, its call, ms", None, costs.io_ms, 0)
            },
            row("the same with its wakeup, ms", None, an_io, 0),
            row("at a terminal that is directly connected, ms", None, local, 0),
            row("reads and writes, s", None, seconds(io), 0),
            row("wakeups and character codes, s", None, seconds(wakeups), 0),
            row("canonical form, s", None, seconds(bill.canonical_ms), 2),
            row("the daemon for them, s", None, seconds(bill.daemon_ms), 0),
        ],
        why: "80 to 90 ms of a read or write are the memo's. The canonical form, which it plans to \
              spare, is next to nothing beside one wakeup: a line of 20 characters is 20 ms, once \
              a line. Page faults, 3 to 1, are not in the model, nor are the pauses of a process \
              that has used up its quantum.",
    }
}
