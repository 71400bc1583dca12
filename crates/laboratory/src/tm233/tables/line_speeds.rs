//! Packets damaged by a slow interrupt routine, by line rate (TM-233 §6.2.3).

use super::super::overrun::damaged_fraction;
use super::super::scenario::Scenario;
use crate::table::{Origin, Row, Table};

/// Line rate in bit/s, and the percentage of packets received incorrectly in the thesis.
const PAPER: [(u64, f64); 3] = [(28_800, 3.0), (38_400, 50.0), (43_000, 100.0)];
/// Line rates to whose results the scenario's `long_ppm` and `long_mean_us` were fitted.
const FITTED_BPS: [u64; 2] = [28_800, 38_400];

/// Returns the percentage of packets received incorrectly at each rate.
pub(super) fn table(scenario: &Scenario) -> Table {
    let paper = |rate_bps: u64| PAPER.iter().find(|(line, _)| *line == rate_bps);
    let compared = |rate_bps: u64| {
        let measured = paper(rate_bps).map(|(_, share)| *share);
        let ours = damaged_fraction(scenario, rate_bps) * 100.0;
        let origin = if FITTED_BPS.contains(&rate_bps) { Origin::Fit } else { Origin::Output };
        Row::new(format!("{rate_bps} bit/s"), origin, ours, 1).measured_if(measured)
    };
    let rows = scenario.interrupt.lines_bps.iter().copied().map(compared).collect();
    Table {
        number: "C",
        title: "packets of 500 bytes that are not received correctly (§6.2.3)",
        unit: "%",
        rows,
        why: "A byte that arrives while the routine is busy waits for the routine. The byte is lost \
              if the next byte arrives before the routine takes it: the adapter holds one byte, and \
              the thesis describes every interrupt in this way (§1.1). The thesis concludes that \
              some bytes take longer than 231 us. That one byte in ten takes longer, by 60 us on \
              average, is fitted to the thesis's figures at 28,800 and 38,400 bit/s with packets of \
              500 bytes; the thesis does not state their size. The average byte then takes 237 us, \
              2.6 % more than the thesis counted in the processor's manual. According to the thesis \
              this count may be very inaccurate. At 43,000 bit/s no parameter is fitted: the line \
              sends a byte every 232.6 us, so that the routine falls behind in every packet.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn faster_lines_lose_more_packets_and_at_43000_bits_per_second_all_are_lost() {
        let rows = &table(&built_in()).rows;
        assert!(rows.is_sorted_by(|a, b| a.ours <= b.ours), "{rows:?}");
        assert!((rows[3].ours - 3.0).abs() < 1.0 && (rows[4].ours - 50.0).abs() < 4.0, "{rows:?}");
        assert_eq!(rows[5].ours, 100.0);
    }
}
