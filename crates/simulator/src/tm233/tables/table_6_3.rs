//! Table 6-3: the least time for a screenful.

use super::super::experiments::{WINDOW, screenful_by};
use super::super::scenario::Scenario;
use super::row;
use crate::table::Table;
use crate::world::Stuck;
use protocols::meter::Account;

pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let screenful = screenful_by(scenario.equipment(), scenario.rate_bps, WINDOW, scenario.seed)?;
    let seconds = |account: Account| screenful.charged(account).as_secs_f64();
    let per_byte = seconds(Account::TcpByte) + seconds(Account::Telnet);
    let other = screenful.busy().as_secs_f64();
    Ok(Table {
        number: "6-3",
        title: "least time for a screenful of 1966 characters",
        unit: "s",
        rows: vec![
            row("screen: PCO and CRO", Some(2.1307), None, seconds(Account::Terminal)),
            row("other protocol, fixed", Some(0.0200), None, seconds(Account::TcpFixed)),
            row("other protocol, per byte", Some(0.1509), None, per_byte),
            row("interrupt level", Some(0.4977), None, seconds(Account::Interrupt)),
            row("total", Some(2.7993), None, other),
        ],
        why: "This is the prices added up: it shows that our engines do the work that the thesis \
              counts. One price is taken from here and not from table 6-1: a carriage return is \
              33.5 ms, a 23rd of what the screen takes beyond 692 us a byte; the thesis checked \
              these 2.13 s by a program that only prints. With the slope of table 6-1, 392 us \
              times the 82 bytes of a line, it is 32.1 ms, and the total 2.769 s.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn table_6_3_comes_out_within_one_percent() {
        for row in &table(&built_in()).unwrap().rows {
            assert_within(row.from_predicted(), 0.01, row);
        }
    }

    #[test]
    fn the_accounts_of_a_screenful_add_up_to_its_time() {
        let table = table(&built_in()).unwrap();
        let parts: f64 = table.rows[..4].iter().map(|row| row.ours).sum();
        assert!((parts - table.rows[4].ours).abs() < 1e-9);
    }
}
