//! The daemon as the memo found it.

use super::super::daemon::{Cause, bill};
use super::super::login;
use super::super::scenario::Scenario;
use crate::table::{Row, Table};

/// Returns what wakes the daemon, and what that costs.
pub(super) fn table(scenario: &Scenario) -> Table {
    let bill = bill(scenario, scenario.switches);
    let all = bill.all_wakeups().max(1) as f64;
    let seconds = scenario.minutes as f64 * 60.0;
    let row = |what: &str, measured, ours, digits| Row {
        what: what.to_owned(),
        predicted: None,
        measured,
        ours,
        digits,
    };
    let costs = &scenario.costs;
    let block = if scenario.switches.wait { costs.wait_ms } else { costs.block_ms };
    let block_share = block * all * 100.0 / bill.daemon_ms;
    let login_s = login::seconds(scenario, scenario.switches);
    let share = |cause| bill.woken_by(cause) as f64 * 100.0 / all;
    Table {
        number: "1",
        title: "what wakes the Network Daemon, and what that costs",
        unit: "as named",
        rows: vec![
            row("seconds between wakeups", Some(20.0), seconds / all, 1),
            row("a transaction, ms", Some(250.0), bill.daemon_ms / all, 0),
            row("block and wakeup, % of it", Some(40.0), block_share, 0),
            row("woken while still busy, %", None, bill.while_busy as f64 * 100.0 / all, 0),
            row("RFNMs, % of wakeups", Some(50.0), share(Cause::Rfnm), 0),
            row("allocates, %", None, share(Cause::Allocate), 0),
            row("data for a process, %", None, share(Cause::Data), 0),
            row("surveys and echoes, %", None, share(Cause::Asked), 0),
            row("wakeups for a message of data", None, all / bill.messages.max(1) as f64, 2),
            row("initial connection protocol, s", Some(5.5), login_s, 1),
        ],
        why: "The memo says that more than half of the wakeups are for RFNMs, by indirect \
              evidence. Each message out has one, and so has each control message; every one of \
              them answers either an allocate or a message that came. So half of the wakeups is \
              what they come to, whatever the sessions are, and not more. How many are logged in \
              is chosen so that the time between wakeups comes near the memo's. A transaction is \
              the memo's price, 250 ms; many come while the daemon is at another one, so that an \
              answer of some lines waits for it. Block and wakeup are prices too, 100 ms of 250. \
              The memo's \"say 5-6 seconds\" for the initial connection protocol were between two \
              Multics: ours is ten messages one after another, for each of which a daemon and a \
              process wake, and nothing is fitted to it. A network that is further, or connections \
              that open at the same time, change it.",
    }
}
