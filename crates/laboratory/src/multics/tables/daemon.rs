//! Table of the daemon's wakeups, compared with the memo.

use super::super::daemon::{Cause, simulate, transaction_ms};
use super::super::login;
use super::super::session_scenario::Scenario;
use crate::table::{Extent, Row, Table};

/// Returns the numbers of daemon wakeups by cause, and their cost.
pub(super) fn table(scenario: &Scenario) -> Table {
    let usage = simulate(scenario, scenario.switches);
    let all_wakeups = usage.total_wakeups().max(1) as f64;
    let seconds = scenario.minutes as f64 * 60.0;
    let costs = &scenario.costs;
    let block = if scenario.switches.wait { costs.wait_ms } else { costs.block_ms };
    let transaction_ms = transaction_ms(costs, scenario.switches);
    let block_share = block * 100.0 / transaction_ms;
    let login_s = login::login_seconds(scenario, scenario.switches);
    let busy_percent = usage.while_busy as f64 * 100.0 / all_wakeups;
    let percent_by_cause = |cause| usage.wakeups_by(cause) as f64 * 100.0 / all_wakeups;
    Table {
        number: "1",
        title: "causes of the wakeups of the Network Daemon, and their cost",
        unit: "as named",
        rows: vec![
            Row::fit("seconds between wakeups", seconds / all_wakeups, 1)
                .measured(Extent::About(20.0)),
            Row::input("transaction of the daemon, ms", transaction_ms, 0)
                .measured(Extent::About(250.0)),
            Row::input("block and wakeup, % of a transaction", block_share, 0)
                .measured(Extent::About(40.0)),
            Row::output("woken while busy, % of wakeups", busy_percent, 0),
            Row::output("RFNMs, % of wakeups", percent_by_cause(Cause::Rfnm), 0)
                .measured(Extent::MoreThan(50.0)),
            Row::output("allocates, % of wakeups", percent_by_cause(Cause::Allocate), 0),
            Row::output("data for a process, % of wakeups", percent_by_cause(Cause::Data), 0),
            Row::output("surveys and echoes, % of wakeups", percent_by_cause(Cause::Request), 0),
            Row::output("wakeups per data message", all_wakeups / usage.messages.max(1) as f64, 2),
            Row::output("initial connection protocol, s", login_s, 1)
                .measured(Extent::Between(5.0, 6.0)),
        ],
        why: "The memo concludes from indirect evidence that more than half of the wakeups are for \
              RFNMs. Each message sent has an RFNM, and so has each control message. Each control \
              message answers either an allocate or a received message. So the RFNMs are about half \
              of the wakeups, whatever the sessions are, and not more. The number of sessions is \
              chosen so that the time between wakeups is near the memo's. The cost of a transaction \
              is the memo's, 250 ms. Many transactions are requested while the daemon performs \
              another one, so that an answer of some lines waits for the daemon. The cost of block \
              and wakeup is also an input: 100 ms of the 250 ms. The memo's \"say 5-6 seconds\" for \
              the initial connection protocol were measured between two Multics systems. Plumbline \
              computes this time from ten consecutive messages, for each of which a daemon and a \
              process wake. No parameter is fitted to it. A longer network path, or connections \
              that open at the same time, would change it.",
    }
}
