//! The six transfers of RFC 594, and the same six on this machine today.
//!
//! Today's figures come from records of transfers. Each figure is the median of the records. CPU
//! time is the CPU time of the client, as in 1973.

use super::tables::TRANSFERS;
use crate::paragraph::paragraph;
use crate::table::Origin;
use records::statistics::median;
use records::store::{Filter, Store, StoreError};
use records::transfer::{Command, Outcome, Role, Transfer, Type};
use report::table::Table;
use serde_json::{Value, json};

/// Today's figures for each row of RFC 594's table, in the order of the table.
#[derive(Debug)]
pub struct Today {
    rows: Vec<Figures>,
}

/// Medians of one table row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    files: usize,
    rate_bps: Option<u64>,
    cpu_fs_per_bit: Option<u64>,
}

impl Today {
    /// Reads the matching transfers from `store`; returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn from_store(store: &Store) -> Result<Option<Self>, StoreError> {
        let mut samples = vec![(Vec::new(), Vec::new(), 0); TRANSFERS.len()];
        store.for_each(&Filter::default(), |_, transfer| -> Result<(), StoreError> {
            if let Some((rates, costs, files)) =
                row_of(&transfer).and_then(|row| samples.get_mut(row))
            {
                rates.extend(transfer.rate_bps());
                costs.extend(transfer.cpu_fs_per_bit());
                *files += 1;
            }
            Ok(())
        })?;
        let figures = |(rates, costs, files): &(Vec<u64>, Vec<u64>, usize)| Figures {
            files: *files,
            rate_bps: median(rates),
            cpu_fs_per_bit: median(costs),
        };
        let rows: Vec<_> = samples.iter().map(figures).collect();
        Ok(rows.iter().any(|row| row.files > 0).then_some(Self { rows }))
    }

    /// Returns the table as text, at most `width` columns wide.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut table = Table::new()
            .text("")
            .text("origin")
            .number("1973 kbit/s")
            .number("today Mbit/s")
            .number("times as fast")
            .number("1973 CPU s/Mbit")
            .number("today CPU us/Mbit")
            .number("times as cheap");
        for (then, now) in TRANSFERS.iter().zip(&self.rows) {
            let format_value = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
            };
            let rate = now.rate_bps.map(|bps| bps as f64);
            let cost = now.cost_s_per_megabit();
            table.row([
                then.what.to_owned(),
                Origin::Output.name().to_owned(),
                format!("{:.0}", then.kbps),
                format_value(rate.map(|bps| bps / 1e6), 0),
                format_value(rate.map(|bps| bps / 1e3 / then.kbps), 0),
                format!("{:.2}", then.user_cpu),
                format_value(cost.map(|cost| cost * 1e6), 1),
                format_value(cost.map(|cost| then.user_cpu / cost), 0),
            ]);
        }
        let origins = format!(
            "This table has {} rows in addition to those counted above; all are outputs. The values \
             of today are measured, and those of 1973 are constants. The table compares two \
             machines, not a model with its paper.",
            self.rows.len()
        );
        format!(
            "{}{}\n{}\n{}",
            paragraph("Table 5: the same transfers on this machine today, the user's side", width),
            paragraph(&origins, width),
            table.render(width),
            paragraph(&self.ratios(), width),
        )
    }

    /// Returns the ratios of the costs of a bit in 8, 32 and 36 bits, in 1973 and today.
    fn ratios(&self) -> String {
        let mut text =
            "CPU time per bit of 8-bit, 32-bit and 36-bit words, relative to 36-bit words:"
                .to_owned();
        for (direction, start) in [("get", 0), ("send", 1)] {
            let costs_1973: Vec<_> =
                TRANSFERS.iter().skip(start).step_by(2).map(|row| Some(row.user_cpu)).collect();
            let costs_today: Vec<_> = self
                .rows
                .iter()
                .skip(start)
                .step_by(2)
                .map(|row| row.cost_s_per_megabit())
                .collect();
            text.push_str(&format!(
                " {direction} {} in 1973, {} today;",
                shares(&costs_1973),
                shares(&costs_today)
            ));
        }
        text.trim_end_matches(';').to_owned() + "."
    }

    /// Returns the rows as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows = TRANSFERS.iter().zip(&self.rows).map(|(then, now)| {
            json!({
                "what": then.what,
                "origin": Origin::Output.name(),
                "files": now.files,
                "rate_bps_1973": then.kbps * 1e3,
                "rate_bps": now.rate_bps,
                "cpu_s_per_megabit_1973": then.user_cpu,
                "cpu_s_per_megabit": now.cost_s_per_megabit(),
            })
        });
        rows.collect()
    }
}

impl Figures {
    fn cost_s_per_megabit(self) -> Option<f64> {
        // A megabit is 10^6 bits, and an fs is 10^-15 s.
        self.cpu_fs_per_bit.map(|femtoseconds| femtoseconds as f64 / 1e9)
    }
}

/// Returns the costs as fractions of the last cost.
fn shares(costs: &[Option<f64>]) -> String {
    let last_cost = costs.last().copied().flatten();
    let share = |cost: &Option<f64>| match (cost, last_cost) {
        (Some(cost), Some(last_cost)) => format!("{:.1}", cost / last_cost),
        _ => "-".to_owned(),
    };
    costs.iter().map(share).collect::<Vec<_>>().join(" : ")
}

/// Returns the row of RFC 594 that a transfer belongs to.
fn row_of(transfer: &Transfer) -> Option<usize> {
    let is_user = transfer.identity.role == Some(Role::User);
    if !is_user || transfer.result.outcome != Some(Outcome::Complete) {
        return None;
    }
    let is_put = match transfer.request.command? {
        Command::Retr => 0,
        Command::Stor => 1,
        _ => return None,
    };
    let row = match (transfer.request.representation?, transfer.request.byte_size?) {
        (Type::Ascii, 8) => 0,
        (Type::Local, 32) => 2,
        (Type::Local, 36) => 4,
        _ => return None,
    };
    Some(row + is_put)
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;

    fn transfer(command: Command, representation: Type, byte_size: u64) -> Transfer {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::User);
        transfer.result.outcome = Some(Outcome::Complete);
        transfer.request.command = Some(command);
        transfer.request.representation = Some(representation);
        transfer.request.byte_size = Some(byte_size);
        transfer
    }

    #[test]
    fn a_transfer_belongs_to_the_row_of_its_direction_and_byte_size() {
        assert_eq!(row_of(&transfer(Command::Retr, Type::Ascii, 8)), Some(0));
        assert_eq!(row_of(&transfer(Command::Stor, Type::Local, 32)), Some(3));
        assert_eq!(row_of(&transfer(Command::Stor, Type::Local, 36)), Some(5));
        assert_eq!(row_of(&transfer(Command::Retr, Type::Image, 8)), None);
        let mut failed_transfer = transfer(Command::Retr, Type::Ascii, 8);
        failed_transfer.result.outcome = Some(Outcome::Timeout);
        assert_eq!(row_of(&failed_transfer), None);
    }

    #[test]
    fn an_unknown_value_of_today_is_printed_as_a_dash() {
        let mut rows = vec![Figures::default(); 6];
        rows[4] = Figures { files: 1, rate_bps: Some(79_000_000), cpu_fs_per_bit: Some(1_850) };
        let text = Today { rows }.text(120);
        assert!(text.contains("1000000"), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let ratios = "get 4.3 : 1.0 : 1.0 in 1973, - : - : 1.0 today";
        assert!(words.join(" ").contains(ratios), "{text}");
    }

    #[test]
    fn every_row_of_today_is_marked_as_an_output_and_counted() {
        let today = Today { rows: vec![Figures::default(); 6] };
        let text = today.text(120);
        assert!(text.contains("This table has 6 rows"), "{text}");
        for row in &TRANSFERS {
            let line = text.lines().find(|line| line.starts_with(row.what)).unwrap();
            assert!(line[row.what.len()..].trim_start().starts_with("output"), "{line}");
        }
        let json = today.json();
        let origins = json.as_array().unwrap().iter().map(|row| row["origin"].as_str());
        assert_eq!(origins.collect::<Vec<_>>(), [Some("output"); 6]);
    }
}
