//! The server processes as the memo found them.

use super::super::daemon::{bill, io_ms};
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};

/// A write call of a process of the network against that of a terminal.
const WRITE_RATIO: f64 = 4.5;
/// Characters of a command that does nothing, and of the ready message after it: ours.
const NOTHING_CHARS: f64 = 8.0;
const READY_CHARS: f64 = 40.0;

/// Returns where the time of the processes goes.
pub(super) fn table(scenario: &Scenario) -> Table {
    let bill = bill(scenario, scenario.switches);
    let costs = &scenario.costs;
    let seconds = |ms: f64| ms / 1_000.0 * 60.0 / scenario.minutes as f64;
    let call = io_ms(costs, scenario.switches);
    let io = bill.transactions as f64 * call;
    let wakeups = (bill.process_ms - io).max(0.0) - bill.canonical_ms;
    let an_io = bill.process_ms / bill.transactions.max(1) as f64;
    // The write call of a directly connected terminal, by the memo's own ratio.
    let local = costs.io_ms / WRITE_RATIO;
    // A line is read and a ready message written: the process wakes once.
    let typed = costs.block_ms + NOTHING_CHARS / costs.canonical_per_ms;
    let characters = (NOTHING_CHARS + READY_CHARS) / costs.telnet_per_ms;
    let network = typed + 2.0 * call + characters;
    let ratio = network / (typed + 2.0 * local);
    Table {
        number: "5",
        title: "where the time of the server processes goes",
        unit: "s of each hour; ms",
        rows: vec![
            Row { measured: Some(85.0), ..row("a read or write, its call, ms", None, call, 0) },
            row("the same with its wakeup, ms", None, an_io, 0),
            row("at a terminal that is directly connected, ms", None, local, 0),
            Row {
                measured: Some(WRITE_RATIO),
                ..row("a write, network to terminal, times", None, call / local, 1)
            },
            Row {
                measured: Some(2.5),
                ..row("CPU of a command that does nothing, times", None, ratio, 1)
            },
            row("reads and writes, s", None, seconds(io), 0),
            row("wakeups and character codes, s", None, seconds(wakeups), 0),
            row("canonical form, s", None, seconds(bill.canonical_ms), 2),
            row("the daemon for them, s", None, seconds(bill.daemon_ms), 0),
        ],
        why: "80 to 90 ms of a read or write are the memo's. What a write costs at a terminal \
              follows from its 4.5 to 1, which is therefore met by construction. Its 2.5 to 1 for \
              a command that does nothing is not: ours is a read, a write and one wakeup at \
              either, with the characters through telnet_ on the network alone, a fifth \
              less than the memo's: what paging costs has no price there. The canonical form, which it plans to \
              spare, is next to nothing beside one wakeup: a line of 20 characters is 20 ms, once \
              a line. Page faults, 3 to 1, are not in the model, nor are the pauses of a process \
              that has used up its quantum.",
    }
}
