//! The daemon as described by the memo.

use super::super::daemon::{Cause, bill, transaction_ms};
use super::super::login;
use super::super::scenario::Scenario;
use crate::table::{Extent, Row, Table};

/// Returns the wakeups of the daemon by reason, and their cost.
pub(super) fn table(scenario: &Scenario) -> Table {
    let bill = bill(scenario, scenario.switches);
    let all = bill.all_wakeups().max(1) as f64;
    let seconds = scenario.minutes as f64 * 60.0;
    let costs = &scenario.costs;
    let block = if scenario.switches.wait { costs.wait_ms } else { costs.block_ms };
    let transaction_ms = transaction_ms(costs, scenario.switches);
    let block_share = block * 100.0 / transaction_ms;
    let login_s = login::seconds(scenario, scenario.switches);
    let busy = bill.while_busy as f64 * 100.0 / all;
    let share = |cause| bill.woken_by(cause) as f64 * 100.0 / all;
    Table {
        number: "1",
        title: "what wakes the Network Daemon, and what that costs",
        unit: "as named",
        rows: vec![
            Row::fit("seconds between wakeups", seconds / all, 1).measured(Extent::About(20.0)),
            Row::input("a transaction, ms", transaction_ms, 0).measured(Extent::About(250.0)),
            Row::input("block and wakeup, % of it", block_share, 0).measured(Extent::About(40.0)),
            Row::output("woken while still busy, %", busy, 0),
            Row::output("RFNMs, % of wakeups", share(Cause::Rfnm), 0)
                .measured(Extent::MoreThan(50.0)),
            Row::output("allocates, %", share(Cause::Allocate), 0),
            Row::output("data for a process, %", share(Cause::Data), 0),
            Row::output("surveys and echoes, %", share(Cause::Asked), 0),
            Row::output("wakeups for a message of data", all / bill.messages.max(1) as f64, 2),
            Row::output("initial connection protocol, s", login_s, 1)
                .measured(Extent::Between(5.0, 6.0)),
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
