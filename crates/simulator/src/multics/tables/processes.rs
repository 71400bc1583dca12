//! The server processes as the memo found them.

use super::super::daemon::{bill, io_ms};
use super::super::scenario::{Costs, Scenario};
use super::super::switches::Switches;
use super::row;
use crate::table::{Row, Table};

/// A write call of a process of the network against that of a terminal.
const WRITE_RATIO: f64 = 4.5;
/// "Nearly twice as bad".
const CHARACTER_RATIO: f64 = 2.0;
/// The command that does nothing, as it is typed with the end of its line, and its short name.
const NOTHING: &str = "nothing\n";
const NOTHING_IN_SHORT: &str = "nt\n";
/// Characters of the ready message after it: ours.
const READY_CHARS: f64 = 40.0;

/// Processor time of one command that does nothing: a line is read and a ready message written.
#[derive(Clone, Copy, Debug)]
struct Nothing {
    /// One read or write.
    call_ms: f64,
    /// The wakeup for what was typed.
    wakeup_ms: f64,
    telnet_per_ms: f64,
    canonical_per_ms: f64,
}

impl Nothing {
    /// Over the network.
    fn network(costs: &Costs, switches: Switches) -> Self {
        Self {
            call_ms: io_ms(costs, switches),
            wakeup_ms: costs.block_ms,
            telnet_per_ms: costs.telnet_per_ms,
            canonical_per_ms: costs.canonical_per_ms,
        }
    }

    /// At a terminal that is directly connected, whose process knows no third ring.
    fn terminal(costs: &Costs) -> Self {
        Self {
            call_ms: costs.io_ms / WRITE_RATIO,
            wakeup_ms: costs.block_ms * (1.0 - costs.third_ring_part),
            telnet_per_ms: f64::INFINITY,
            ..Self::network(costs, Switches::default())
        }
    }

    /// Returns what it costs if `typed` comes in so many pieces, for each of which the process is
    /// woken and reads.
    fn ms(self, typed: &str, pieces: usize) -> f64 {
        let typed = typed.len() as f64;
        pieces as f64 * (self.wakeup_ms + self.call_ms)
            + self.call_ms
            + (typed + READY_CHARS) / self.telnet_per_ms
            + typed / self.canonical_per_ms
    }
}

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
    let network = Nothing::network(costs, scenario.switches);
    let terminal = Nothing::terminal(costs);
    let with_third_ring = Nothing { wakeup_ms: costs.block_ms, ..terminal };
    let ratio = |terminal: Nothing| network.ms(NOTHING, 1) / terminal.ms(NOTHING, 1);
    let by_characters = |typed: &str| network.ms(typed, typed.len()) / network.ms(typed, 1);
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
                ..row("CPU of a command that does nothing, times", None, ratio(terminal), 1)
            },
            row("the same, a third ring at either, times", None, ratio(with_third_ring), 1),
            Row {
                measured: Some(CHARACTER_RATIO),
                ..row("nt, a character at a time, times", None, by_characters(NOTHING_IN_SHORT), 1)
            },
            row("nothing, a character at a time, times", None, by_characters(NOTHING), 1),
            row("reads and writes, s", None, seconds(io), 0),
            row("wakeups and character codes, s", None, seconds(wakeups), 0),
            row("canonical form, s", None, seconds(bill.canonical_ms), 2),
            row("the daemon for them, s", None, seconds(bill.daemon_ms), 0),
        ],
        why: "80 to 90 ms of a read or write are the memo's. What a write costs at a terminal \
              follows from its 4.5 to 1, which is therefore met by construction. Its 2.5 to 1 for \
              a command that does nothing is not fitted: ours is a read, a write and one wakeup at \
              either, with the characters through telnet_ on the network alone. A process at a \
              terminal has no third ring, of which the memo says that it is quite significant in \
              those of the network too; so its wakeup costs a quarter less, the daemon's part. \
              Without that it is 2.0. A character at a time was nearly twice as bad for a friend \
              at SRI: each is a wakeup and a read, and so it is for the three characters of nt, \
              the command's short name; with its whole name it would have been worse, unless some \
              came together. Which he typed is not said. The canonical form, which the memo plans \
              to spare, is next to nothing beside one wakeup: a line of 20 characters is 20 ms, \
              once a line. Page faults, 3 to 1, are not in the model, nor are the pauses of a \
              process that has used up its quantum.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn a_command_that_does_nothing_comes_within_a_twentieth_of_the_memos_two_and_a_half() {
        let mut scenario = built_in();
        scenario.minutes = 30;
        let rows = table(&scenario).rows;
        let nothing = rows.iter().find(|row| row.what.contains("does nothing")).unwrap();
        assert!(nothing.from_measured().unwrap().abs() < 0.05, "{nothing:?}");
    }

    #[test]
    fn a_command_in_one_piece_is_two_calls_and_a_wakeup_and_its_characters() {
        let costs = built_in().costs;
        let ms = Nothing::network(&costs, Switches::default()).ms(NOTHING, 1);
        assert!((ms - (100.0 + 2.0 * 85.0 + 48.0 / 3.5 + 8.0)).abs() < 1e-9, "{ms}");
    }
}
