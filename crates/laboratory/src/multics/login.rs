//! Duration of the initial connection protocol between two Multics systems (RFC 165 over the NCP).
//!
//! The messages are sequential: each message wakes the daemon, the daemon wakes the process, and a
//! call of the process sends the next message. The RFNM of each message wakes the daemon of the
//! sender. If the daemon is eliminated, the Answering Service opens connections at the same cost.

use super::daemon::{io_ms, transaction_ms};
use super::session_scenario::Scenario;
use super::switches::Switches;

/// Sender of each message, in order: RTS and STR, the allocation, the socket number, CLS in both
/// directions, and STR and RTS of each of the two resulting connections.
const SENDERS: [usize; 10] = [USER, SERVER, USER, SERVER, SERVER, USER, USER, SERVER, USER, SERVER];
const USER: usize = 0;
const SERVER: usize = 1;

/// Returns the time from the first message to the last one, in seconds.
pub(super) fn login_seconds(scenario: &Scenario, switches: Switches) -> f64 {
    let transaction = transaction_ms(&scenario.costs, switches);
    let process = scenario.costs.block_ms + io_ms(&scenario.costs, switches);
    let rfnm = scenario.network.rfnm_ms as f64;
    let mut busy_until = [0.0_f64; 2];
    let mut now = 0.0_f64;
    for from in SENDERS {
        let [user, server] = &mut busy_until;
        let (sender, receiver) = if from == USER { (user, server) } else { (server, user) };
        let processed_at = receiver.max(now + rfnm / 2.0) + transaction;
        *receiver = processed_at;
        if !switches.processes_rfnms_at_interrupt() {
            *sender = sender.max(now + rfnm) + transaction;
        }
        now = processed_at + process;
    }
    now / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::super::session_scenario::tests::built_in;
    use super::*;

    #[test]
    fn ten_messages_without_rfnm_waits_take_ten_times_as_long_as_one() {
        let mut scenario = built_in();
        scenario.network.rfnm_ms = 0;
        let switches = Switches { rfnm_at_interrupt: true, ..Switches::default() };
        let costs = scenario.costs;
        let message_ms = costs.transaction_ms + costs.block_ms + costs.io_ms;
        assert!((login_seconds(&scenario, switches) - message_ms / 100.0).abs() < 1e-9);
    }

    #[test]
    fn daemons_that_wait_and_do_not_block_log_in_sooner() {
        let waiting_daemon = Switches { wait: true, ..Switches::default() };
        let scenario = built_in();
        assert!(
            login_seconds(&scenario, waiting_daemon)
                < login_seconds(&scenario, Switches::default())
        );
    }
}
