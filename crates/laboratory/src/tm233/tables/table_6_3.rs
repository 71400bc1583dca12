//! Table 6-3: the minimum time of a screenful, which is its processor time.

use super::super::experiments::{Screenful, WINDOW, screenful_with, text_with};
use super::super::scenario::Scenario;
use crate::table::{Figure, Origin, Row, Table};
use net::meter::Account;
use simulator::Stuck;

/// A row of the thesis's table: the data bytes of a packet, and its costs CRO, PCO, half of OOF,
/// half of OOV, INT, and their sum.
const PACKETS: [(usize, [f64; 6]); 2] = [
    (500, [0.1959, 0.3460, 0.0050, 0.0384, 0.1264, 0.7117]),
    (466, [0.1825, 0.3225, 0.0050, 0.0357, 0.1185, 0.6642]),
];
const NAMES: [&str; 6] = ["CRO", "PCO", "1/2 OOF", "1/2 OOV", "INT", "total"];
/// Number of bits in a screenful, sent as three packets of 500 bytes and one of 466.
const TOTAL_BITS: f64 = 3.0 * 5_470.0 + 5_130.0;
const DATA_BITS: f64 = 1_966.0 * 8.0;

/// Returns the times of each packet and of the screenful, and the data rates derived from them.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for (len, paper) in PACKETS {
        let result =
            text_with(scenario.equipment(), scenario.rate_bps, WINDOW, scenario.seed, len)?;
        let ours = parts(scenario, &result);
        for ((name, paper), ours) in NAMES.iter().zip(paper).zip(ours) {
            // The cost of a carriage return is fitted to this table.
            let is_fitted = matches!(*name, "CRO" | "total");
            let origin = if is_fitted { Origin::Fit } else { Origin::Input };
            let what = format!("packet of {len}, {name}");
            rows.push(Row::new(what, origin, ours, 4).predicted(paper));
        }
    }
    let screenful = screenful_with(scenario.equipment(), scenario.rate_bps, WINDOW, scenario.seed)?;
    let [carriage_return_s, printing, fixed, by_byte, interrupts, total] =
        parts(scenario, &screenful);
    let screen = carriage_return_s + printing;
    rows.extend([
        Row::fit("screenful, CRO and PCO", screen, 4).predicted(Figure::derived(2.1307)),
        Row::input("screenful, 1/2 OOF", fixed, 4).predicted(Figure::derived(0.0200)),
        Row::input("screenful, 1/2 OOV", by_byte, 4).predicted(Figure::derived(0.1509)),
        Row::input("screenful, INT", interrupts, 4).predicted(Figure::derived(0.4977)),
        Row::fit("screenful, total", total, 4).predicted(2.7993),
    ]);
    let rate = |what: &str, paper: f64, bits: f64, seconds: f64| {
        Row::fit(what, bits / seconds, 0).predicted(paper)
    };
    rows.extend([
        rate("headers and data, bit/s", 7_700.0, TOTAL_BITS, total),
        rate("data, bit/s", 5_600.0, DATA_BITS, total),
        rate("data, screen time only, bit/s", 7_400.0, DATA_BITS, screen),
    ]);
    Ok(Table {
        number: "6-3",
        title: "minimum time of a screenful of 1966 characters",
        unit: "s; bit/s",
        rows,
        why: "The values are sums of the costs. The agreement shows that plumbline does the work \
              that the thesis counts. The thesis states the costs of one packet of each size; its \
              total is three packets of one size and one of the other. It states the first of the \
              screenful's four parts, 2.13 s, in its text and verified it with a program that only \
              prints. The other three parts are computed here from its figures. One cost is taken \
              from this table and not from table 6-1: a carriage return is 33.5 ms, one 23rd of the \
              screen time beyond 692 us per byte. With the slope of table 6-1, 392 us times the 82 \
              bytes of a line, a carriage return would be 32.1 ms, and the total 2.769 s. A single \
              packet has a whole number of carriage returns, six in 500 bytes and five in 466.",
    })
}

/// Returns the processor time of a text: CRO, PCO, OOF and OOV of one side, INT, and the total.
fn parts(scenario: &Scenario, result: &Screenful) -> [f64; 6] {
    let seconds = |account: Account| result.charged(account).as_secs_f64();
    let carriage_return_s = result.new_lines as f64 * scenario.costs.new_line_ns as f64 / 1e9;
    [
        carriage_return_s,
        seconds(Account::Terminal) - carriage_return_s,
        seconds(Account::TcpFixed),
        seconds(Account::TcpByte) + seconds(Account::Telnet),
        seconds(Account::Interrupt),
        result.busy().as_secs_f64(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn the_screenful_of_table_6_3_and_its_rates_are_within_one_percent() {
        let rows = table(&built_in()).unwrap().rows;
        for row in &rows[2 * NAMES.len()..] {
            assert_within(row.predicted, 0.01, row);
        }
    }

    #[test]
    fn a_single_packet_differs_from_table_6_3_only_by_its_carriage_returns() {
        let rows = table(&built_in()).unwrap().rows;
        for row in rows[..2 * NAMES.len()].iter().filter(|row| !row.what.ends_with("CRO")) {
            let limit = if row.what.ends_with("total") { 0.025 } else { 0.01 };
            assert_within(row.predicted, limit, row);
        }
    }

    #[test]
    fn the_accounts_of_a_screenful_add_up_to_its_time() {
        let rows = table(&built_in()).unwrap().rows;
        let screenful = &rows[2 * NAMES.len()..];
        let parts: f64 = screenful[..4].iter().map(|row| row.ours).sum();
        assert!((parts - screenful[4].ours).abs() < 1e-9);
    }
}
