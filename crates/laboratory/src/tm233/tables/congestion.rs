//! Tables I and J: measures against congestion at the junction of a fast network and a slow line, the
//! first of the thesis's topics for further research (TM-233 §6.3.3, §7.2).

use super::super::routed_experiments::{
    CometResult, CometSession, LongTransfer, Remedy, screenfuls_with_the_fault,
};
use super::super::scenario::Scenario;
use crate::table::{Extent, Figure, Origin, Row, Table};
use net::time::Duration;
use simulator::Stuck;
use std::collections::BTreeMap;

/// The least time of a screenful (table 6-3), in seconds.
pub(in super::super) const LEAST_TIME: f64 = 2.7993;
/// Times of the clumps of figure 6-3, in seconds.
const CLUMPS: [f64; 3] = [3.0, 7.0, 11.0];

/// Returns the results of each measure.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for rate_bps in scenario.router.lines_bps.iter().copied() {
        for remedy in Remedy::ALL {
            rows.extend(comet_rows(scenario, rate_bps, remedy)?);
        }
        if let Some(result) = comet_with_short_headers(scenario, rate_bps)? {
            let what = format!("Comet {rate_bps}, limited windows, short headers");
            let least = Figure::new(Extent::AtLeast(LEAST_TIME));
            rows.push(Row::output(what, result.time.as_secs_f64(), 2).predicted(least));
        }
    }
    for remedy in Remedy::ALL {
        rows.extend(transfer_rows(scenario, remedy)?);
    }
    Ok(Table {
        number: "I",
        title: "measures against congestion at plumbline's concentrator (§6.3.3, §7.2)",
        unit: "s; rates in bit/s",
        rows,
        why: WHY,
    })
}

/// Returns the clumps of screenfuls through the router with the fault of 1982.
pub(super) fn faulty_table(scenario: &Scenario) -> Result<Table, Stuck> {
    Ok(Table {
        number: "J",
        title: "screenfuls from CSR through plumbline's concentrator with the fault of 1982",
        unit: "s, mean of each clump",
        rows: clump_rows(scenario)?,
        why: "The router of crates/gateway has the discipline of 1982: few buffers, and a packet of \
              a burst is dropped with a probability of 35 %, as in figure 6-3. The number of \
              screenfuls is twice that of figure 6-3, because the third clump is rare.",
    })
}

const WHY: &str = "\
    The thesis gives no times. It states: \"A way to prevent congestion at the junction of low \
    speed and high speed networks is of particular importance to us and is a topic for future \
    research.\" Each measure is one change of the router of crates/gateway: 16 buffers as in 1982; \
    fair queueing with CoDel (RFC 8290); hosts with ECN in addition; or windows that the router \
    limits to its queue. Comet sends its screenful in 24 packets of 82 bytes at once, which need \
    3.07 s on a line of 9,600 bit/s: more than the least time of table 6-3, 2.80 s, which is that \
    of the processor and of four packets. Short headers (RFC 1144) remove this limit. Every \
    measure except 16 buffers keeps all packets. Keys at the other line have a queue of their own. \
    Keys at the same line share it with the screenful; there the computer has no processing time, \
    because the computer of 1982 processes the packets of both sessions in the order of their \
    arrival. A key then waits at most for one packet of Comet and one acknowledgment of its own \
    host. The long transfer is to a host of today with a window of 60,000 bytes; the first value \
    is the 99th percentile of the queue delay, and the percentage is data per rate of the line. 16 \
    buffers delay each key by a full queue and lose packets. Fair queueing alone must drop packets \
    to control the sender, ECN marks them instead, and limited windows do neither.";

fn comet(
    scenario: &Scenario,
    rate_bps: u64,
    remedy: Remedy,
    is_same_line: bool,
) -> Result<Option<CometResult>, Stuck> {
    let compresses_headers = false;
    CometSession { scenario, rate_bps, remedy, is_same_line, compresses_headers }.run()
}

fn comet_with_short_headers(
    scenario: &Scenario,
    rate_bps: u64,
) -> Result<Option<CometResult>, Stuck> {
    let remedy = Remedy::LimitedWindows;
    let is_same_line = false;
    CometSession { scenario, rate_bps, remedy, is_same_line, compresses_headers: true }.run()
}

fn comet_rows(scenario: &Scenario, rate_bps: u64, remedy: Remedy) -> Result<Vec<Row>, Stuck> {
    let name = format!("Comet {rate_bps}, {}", remedy.name());
    let other_line = comet(scenario, rate_bps, remedy, false)?;
    let same_line = comet(scenario, rate_bps, remedy, true)?;
    let (Some(other_line), Some(same_line)) = (other_line, same_line) else {
        return Ok(Vec::new());
    };
    let CometResult { lost, timeouts, .. } = other_line;
    let what = format!("{name}: {lost} lost, {timeouts} timeouts");
    let least = Figure::new(Extent::AtLeast(LEAST_TIME));
    Ok(vec![
        Row::output(what, other_line.time.as_secs_f64(), 2).predicted(least),
        Row::output(format!("{name}, key, other line"), other_line.key.as_secs_f64(), 3),
        Row::output(format!("{name}, key, same line"), same_line.key.as_secs_f64(), 3),
    ])
}

fn transfer_rows(scenario: &Scenario, remedy: Remedy) -> Result<Vec<Row>, Stuck> {
    let rate_bps = scenario.rate_bps * 2;
    let result = LongTransfer { scenario, rate_bps, remedy }.run()?;
    let used = result.utilization * 100.0;
    let name = format!("long {rate_bps}, {}", remedy.name());
    let what = format!("{name}: {} lost, {} marked, {used:.0} %", result.lost, result.marked);
    let [mean, longest] = result.key.map(|key| key.as_secs_f64());
    Ok(vec![
        Row::output(what, result.delay_p99.as_secs_f64(), 2),
        Row::output(format!("{name}, mean key"), mean, 3),
        Row::output(format!("{name}, longest key"), longest, 3),
    ])
}

fn clump_rows(scenario: &Scenario) -> Result<Vec<Row>, Stuck> {
    let trials = scenario.clumps.trials * 2;
    Ok(rows_of_clumps(screenfuls_with_the_fault(scenario, scenario.rate_bps, trials)?))
}

/// Returns a row for each clump of screenfuls, given by their times and numbers of timeouts.
pub(in super::super) fn rows_of_clumps(results: Vec<(Duration, u64)>) -> Vec<Row> {
    let trials = results.len().max(1) as f64;
    let mut clumps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (time, timeouts) in results {
        clumps.entry(timeouts).or_default().push(time.as_secs_f64());
    }
    let row = |(timeouts, times): (u64, Vec<f64>)| {
        let clump = usize::try_from(timeouts).ok().and_then(|at| CLUMPS.get(at));
        let share = times.len() as f64 * 100.0 / trials;
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        // The timeout of CSR is derived from the second clump, and its fixed timer from the third.
        let origin = if timeouts == 0 { Origin::Output } else { Origin::Fit };
        let what = format!("{timeouts} timeouts, {share:.0} %");
        let measured = clump.map(|clump| Figure::new(Extent::About(*clump)));
        Row { measured, ..Row::new(what, origin, mean, 1) }
    };
    clumps.into_iter().map(row).collect()
}
