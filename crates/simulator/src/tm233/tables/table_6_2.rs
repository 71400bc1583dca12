//! Table 6-2: the maximum data transfer test.

use super::super::experiments::maximum_transfer_by;
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};
use crate::world::Stuck;

pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let transfer =
        maximum_transfer_by(scenario.equipment(), scenario.rate_bps, scenario.transfer_time())?;
    let count = |what: &str, predicted, measured, ours| Row {
        digits: 0,
        ..row(what, predicted, Some(measured), ours)
    };
    let whole = |value: u64| value as f64;
    let bits_per_second = whole(transfer.data_bytes * 8) / scenario.transfer_time().as_secs_f64();
    // Its prediction is the time for the packets that it counted, 572.5 s of the 600.
    let predicted = |counted: f64| Some(counted * 600.0 / 572.5);
    Ok(Table {
        number: "6-2",
        title: "maximum data transfer, 600 s at 9,600 bit/s",
        unit: "packets; bit/s",
        rows: vec![
            count("packets received", predicted(734.0), 734.0, whole(transfer.packets_in)),
            count("acknowledgments sent", predicted(92.0), 92.0, whole(transfer.packets_out)),
            count("data rate, bit/s", None, 4_900.0, bits_per_second),
        ],
        why: "The thesis computed 572.5 s for what took 600 s and did not find the rest; its \
              column is 734 and 92 packets in 572.5 s brought to 600 s. Ours spends the rest in \
              its own way, so that it comes near what was measured proves little: our sender makes \
              all eight packets of a window before the line has the first, 0.30 s, where the \
              thesis's makes one; and a carriage return costs 33.5 ms instead of 32.1 (see table \
              6-3), 0.07 s a window. Of the 92 packets one is for a group of six; ours has whole \
              groups of eight.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn table_6_2_comes_out_within_two_percent_of_what_was_measured() {
        let table = table(&built_in()).unwrap();
        for row in &table.rows[..2] {
            assert_within(row.from_measured(), 0.02, row);
        }
    }
}
