//! The lock-step of TM-233 §5.6, in which the sender waits for each window update, and the remedy
//! proposed in §7.1.

use super::super::experiments::{Equipment, maximum_transfer_with};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// Returns the results of the maximum data transfer test: in lock-step, and with acknowledgments
/// that are sent while one packet is still queued.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let time = scenario.transfer_time();
    let mut rows = Vec::new();
    let runs = [(false, "lock-step", Some(4_900.0)), (true, "early", None)];
    for (answers_early, what, measured) in runs {
        let equipment = Equipment { answers_early, ..scenario.equipment() };
        for rate_bps in [scenario.rate_bps, scenario.rate_bps * 2] {
            let transfer = maximum_transfer_with(equipment, rate_bps, time)?;
            let bps = transfer.data_bytes as f64 * 8.0 / time.as_secs_f64();
            let measured = measured.filter(|_| rate_bps == 9_600);
            let what =
                format!("{what}, {rate_bps} bit/s, {} acknowledgments", transfer.packets_out);
            rows.push(Row::output(what, bps, 0).measured_if(measured));
        }
    }
    Ok(Table {
        number: "A",
        title: "maximum data transfer in lock-step (§5.6), and with an acknowledgment when one \
                packet is left (§7.1)",
        unit: "data bit/s",
        rows,
        why: "The thesis proposes the remedy and has not built it. In lock-step the sender waits \
              while the last packet of a window is printed and the window update travels back. The \
              remedy opens the window when half of it is used and one packet is left to process. \
              The cost is more acknowledgments, of 5 ms each. The processor time of a packet of 500 \
              bytes (0.7117 s) does not change: without any other work 5,620 bit/s are the limit.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn early_answers_raise_the_rate_up_to_the_limit_of_the_processor() {
        let rows = table(&built_in()).unwrap().rows;
        let [slow, fast, slow_early, fast_early] = &rows[..] else { panic!("four rows") };
        assert!(slow_early.ours > slow.ours && fast_early.ours > fast.ours, "{rows:?}");
        assert!(fast_early.ours < 5_700.0, "{rows:?}");
    }
}
