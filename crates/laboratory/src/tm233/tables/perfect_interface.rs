//! Times with a network interface that takes no processor time (TM-233 §6.2.3, §6.2.4 and §7.1).

use super::super::experiments::{Equipment, WINDOW, echo_with, screenful_with};
use super::super::scenario::Scenario;
use crate::table::{Extent, Row, Table};
use net::meter::Work;
use simulator::Stuck;

/// A line rate so high that the line takes no time, in bit/s.
const RATE_BPS: u64 = 10_000_000_000;
/// Number of bits in a screenful, without headers.
const SCREENFUL_BITS: f64 = 1_966.0 * 8.0;

/// Returns the times of a screenful and of an echo with a perfect interface.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let costs = scenario.equipment().costs.with(Work::LineByte, 0);
    let equipment = Equipment { costs, ..scenario.equipment() };
    let screenful = screenful_with(equipment, RATE_BPS, WINDOW, scenario.seed)?;
    let busy = screenful.busy().as_secs_f64();
    let echo = echo_with(equipment, RATE_BPS, scenario.keys)?.time.as_secs_f64();
    let direct_echo_s = echo_with(scenario.equipment(), 23_040, scenario.keys)?.time.as_secs_f64();
    Ok(Table {
        number: "B",
        title: "a perfect network interface (§6.2.3)",
        unit: "s; bit/s; times",
        rows: vec![
            Row::fit("screenful, processor", busy, 4).predicted(2.30),
            Row::fit("screenful, data bit/s", SCREENFUL_BITS / busy, 0).predicted(6_800.0),
            Row::input("echo", echo, 4).predicted(0.0216),
            Row::output("times faster than 23,040 bit/s", direct_echo_s / echo, 1)
                .predicted(Extent::AtMost(3.0)),
        ],
        why: "The computed times are the costs without the interrupt routine. The thesis states \
              \"up to a factor of three\" for the echo; its own figures, 0.0638 and 0.0216 s, have \
              a ratio of 2.95.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn the_perfect_interface_displays_a_screenful_in_2_30_s() {
        for row in &table(&built_in()).unwrap().rows {
            assert_within(row.predicted, 0.02, row);
        }
    }
}
