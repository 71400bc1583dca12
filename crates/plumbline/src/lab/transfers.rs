//! RFC 573's transfers: table II from records of our own, in a store of our own.

use records::population::rfc573;
use records::store::{Axis, Filter, Key, Source, Store, StoreError, Subset};
use records::tally::Tally;
use records::transfer::{Role, Type};
use simulator::table::{Row, Table};
use std::path::Path;

/// What table II says of a subset.
struct Printed {
    name: &'static str,
    files: f64,
    megabits: f64,
    kilobits_a_file: f64,
    kbps: f64,
    cpu_s_per_megabit: f64,
}

const fn printed(name: &'static str, figures: [f64; 5]) -> Printed {
    let [files, megabits, kilobits_a_file, kbps, cpu_s_per_megabit] = figures;
    Printed { name, files, megabits, kilobits_a_file, kbps, cpu_s_per_megabit }
}

const TABLE_II: [Printed; 7] = [
    printed("total", [304.0, 57.6, 189.0, 7.56, 4.0]),
    printed("image, 36 bits", [223.0, 53.6, 240.0, 9.35, 3.0]),
    printed("ASCII, 8 bits", [81.0, 4.0, 49.0, 2.09, 19.0]),
    printed("server sends", [62.0, 3.8, 61.0, 7.50, 2.0]),
    printed("server receives", [110.0, 19.8, 180.0, 7.44, 1.0]),
    printed("user receives", [83.0, 22.8, 276.0, 7.92, 6.0]),
    printed("user sends", [49.0, 11.1, 225.0, 7.09, 4.0]),
];

/// Replays the 304 transfers into a store and returns its tables, with a minute of CPU time at
/// `cpu_minute_dollars`.
///
/// # Errors
///
/// If the store, which is in memory, cannot be used.
pub(super) fn tables(cpu_minute_dollars: f64) -> Result<Vec<Table>, StoreError> {
    let mut store = Store::open(Path::new(":memory:"))?;
    store.append(&rfc573::transfers())?;
    let axes = [Axis::All, Axis::Type, Axis::Program];
    let subsets = store.subsets(&Filter::default(), &axes, Source::Fastest)?;
    let subsets: Vec<Subset> = subsets.into_iter().flatten().collect();
    Ok(vec![table_ii(&subsets), told(&subsets, cpu_minute_dollars)])
}

fn name(key: &Key) -> Option<&'static str> {
    Some(match key {
        Key::All => "total",
        Key::Type(Some(Type::Image), Some(36)) => "image, 36 bits",
        Key::Type(Some(Type::Ascii), Some(8)) => "ASCII, 8 bits",
        Key::Program(Some(Role::Server), Some(true)) => "server sends",
        Key::Program(Some(Role::Server), Some(false)) => "server receives",
        Key::Program(Some(Role::User), Some(false)) => "user receives",
        Key::Program(Some(Role::User), Some(true)) => "user sends",
        _ => return None,
    })
}

fn tally<'a>(subsets: &'a [Subset], wanted: &str) -> Option<&'a Tally> {
    let subset = subsets.iter().find(|subset| name(&subset.key) == Some(wanted));
    subset.map(|subset| &subset.tally)
}

fn row(what: String, measured: f64, ours: f64, digits: usize) -> Row {
    Row { what, predicted: None, measured: Some(measured), ours, digits }
}

fn table_ii(subsets: &[Subset]) -> Table {
    let mut rows = Vec::new();
    for printed in &TABLE_II {
        let Some(tally) = tally(subsets, printed.name) else { continue };
        let megabits = tally.size.bits as f64 / 1e6;
        let name = printed.name;
        let mut figure = |what: &str, theirs, ours, digits| {
            rows.push(row(format!("{name}, {what}"), theirs, ours, digits));
        };
        figure("files", printed.files, tally.files as f64, 0);
        figure("Mbit", printed.megabits, megabits, 1);
        figure("kbit a file", printed.kilobits_a_file, megabits * 1e3 / tally.files as f64, 0);
        figure("kbit/s", printed.kbps, tally.rate.bits_per_s().unwrap_or(f64::NAN) / 1e3, 2);
        let cost = tally.cost.s_per_megabit().unwrap_or(f64::NAN);
        figure("CPU s/Mbit", printed.cpu_s_per_megabit, cost, 0);
    }
    Table {
        number: "II",
        title: "subsets of the 304 transfers, from our records",
        unit: "as named",
        rows,
        why: "The transfers are those that the paper names, and others that bring the subsets to \
              its sums; so this shows that our records and our store keep what the paper's kept, \
              and that its own table adds up. Two of its averages do not follow from its sums: \
              22.8 Mbit in 83 files are 275 kbit each, 11.1 in 49 are 226 or 227. Rates and costs \
              are sums divided by sums.",
    }
}

/// What the text tells beside the table.
fn told(subsets: &[Subset], cpu_minute_dollars: f64) -> Table {
    let total = tally(subsets, "total");
    let extreme = |of: fn(&Tally) -> Option<u64>| total.and_then(of).map_or(f64::NAN, |v| v as f64);
    let dollars = |name: &str| {
        let cost = tally(subsets, name).and_then(|tally| tally.cost.s_per_megabit());
        cost.unwrap_or(f64::NAN) * cpu_minute_dollars / 60.0
    };
    let largest = extreme(|tally| tally.largest.map(|it| it.value)) / 1e6;
    let smallest = extreme(|tally| tally.smallest.map(|it| it.value));
    let fastest = extreme(|tally| tally.fastest.map(|it| it.value)) / 1e3;
    let slowest = extreme(|tally| tally.slowest.map(|it| it.value));
    Table {
        number: "II, text",
        title: "what the text tells beside table II",
        unit: "as named",
        rows: vec![
            row(String::from("largest file, Mbit"), 5.03, largest, 2),
            row(String::from("smallest file, bits"), 80.0, smallest, 0),
            row(String::from("highest rate, kbit/s"), 27.8, fastest, 1),
            row(String::from("lowest rate, bit/s"), 11.0, slowest, 0),
            row(String::from("a megabit in ASCII, dollars"), 1.90, dollars("ASCII, 8 bits"), 2),
            row(String::from("a megabit as image, dollars"), 0.30, dollars("image, 36 bits"), 2),
        ],
        why: "The dollars are those of a minute of CPU time, 6.00 in the paper, with CPU seconds \
              that it rounds to 19 and 3.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subset_of_table_ii_comes_out_of_our_records_as_it_is_printed() {
        let table = table_ii(&subsets());
        assert_eq!(table.rows.len(), 7 * 5);
        for row in &table.rows {
            let half = 0.5 / 10_f64.powi(i32::try_from(row.digits).unwrap());
            let apart = (row.ours - row.measured.unwrap()).abs();
            // Its own averages of two subsets are one and two kbit beside its sums.
            assert!(
                apart <= half + 1e-9 + 1.6 * f64::from(row.what.contains("kbit a file")),
                "{row:?}"
            );
        }
    }

    fn subsets() -> Vec<Subset> {
        let mut store = Store::open(Path::new(":memory:")).unwrap();
        store.append(&rfc573::transfers()).unwrap();
        let axes = [Axis::All, Axis::Type, Axis::Program];
        let subsets = store.subsets(&Filter::default(), &axes, Source::Records).unwrap();
        subsets.into_iter().flatten().collect()
    }
}
