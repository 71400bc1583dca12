//! `bench records`: the cost of a transfer's record, and the cost of queries to the store.
//!
//! The journal is compared with the bare write of a preformatted line, alternately within each
//! round. The store is filled in batches. Then the same table is queried from the roll-ups and from
//! the records, and the two results must agree.

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use anyhow::{Context, Result, ensure};
use os::clock::{Monotonic, thread_cpu_time};
use records::format::UNKNOWN;
use records::journal::{Journal, Settings as JournalSettings};
use records::population::{Population, Settings};
use records::statistics::median;
use records::store::{DivisionAxis, Filter, Source, Store, Subset};
use records::transfer::Transfer;
use report::table::Table;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Number of rounds, and number of transfers in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Archive {
    pub(super) rounds: usize,
    /// Number of transfers in the store.
    pub(super) records: usize,
}

/// Number of transfers written to the journal in each round.
const PER_ROUND: usize = 5_000;
/// Number of transfers in each transaction of the store.
const BATCH: usize = 50_000;
/// Axes of table II of RFC 573: all transfers, by type, by program.
const TABLE_II: [DivisionAxis; 3] = [DivisionAxis::All, DivisionAxis::Type, DivisionAxis::Program];
/// All further axes that `plumb stats` shows in one view of the roll-ups.
const TABLE_WIDE: [DivisionAxis; 7] = [
    DivisionAxis::All,
    DivisionAxis::Type,
    DivisionAxis::Program,
    DivisionAxis::Operation,
    DivisionAxis::Day,
    DivisionAxis::Size,
    DivisionAxis::Outcome,
];

/// Cost of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    wall_ns: u64,
    cpu_ns: u64,
}

/// A row of a table: an operation, its repetitions per round, and its cost in each round.
struct Row {
    name: &'static str,
    times: usize,
    costs: Vec<Cost>,
}

/// The bench's temporary directory, removed on drop.
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures the journal, then the store.
pub(super) fn run(_: &Conditions, archive: Archive) -> Result<Report> {
    let directory = TemporaryDirectory(
        std::env::temp_dir().join(format!("plumb-records-{}", std::process::id())),
    );
    fs::create_dir_all(&directory.0).context("cannot create the directory of the bench")?;
    let journal = measure_journal(&directory.0, archive.rounds)?;
    let store = measure_store(&directory.0, archive)?;
    let per_transfer = |row: &Row| Some(row.wall_ns()? as f64 / row.times as f64 / 1_000.0);
    let verdict = |what: &str, row: Option<&Row>, goal| Verdict {
        what: what.to_owned(),
        goal,
        actual: row.and_then(per_transfer),
        unit: " µs",
    };
    let mut verdicts = vec![
        verdict("a transfer, written in batches", journal.get(1), 3.0),
        verdict("a transfer, written line by line", journal.get(2), 3.0),
        verdict("a record appended to the store", store.first(), 10.0),
    ];
    let table = store.get(1).and_then(Row::wall_ns);
    verdicts.push(Verdict {
        what: format!("table II of {} records", archive.records),
        goal: 1.0,
        actual: table.map(|ns| ns as f64 / 1e9),
        unit: " s",
    });
    let heading = |what: &str| format!("{what}; {} rounds, medians of the rounds", archive.rounds);
    Ok(Report {
        title: "bench records: the journal and the store of transfers".to_owned(),
        program_set: ProgramSet::Thread,
        sections: vec![
            section(heading("journal, per transfer"), &journal),
            section(format!("store of {} records", archive.records), &store),
        ],
        verdicts,
        congestion: "no connection".to_owned(),
        notes: vec![
            "The cost of a transfer in the journal is that of formatting its record and writing \
             the line, without the system calls that query TCP and the processor time."
                .to_owned(),
        ],
    })
}

fn generate_transfers(seed: u64, count: usize) -> Population {
    // The transfers are spread over thirty days and two thousand hosts.
    let every_ns = 30 * records::calendar::NS_PER_DAY / u64::try_from(count.max(1)).unwrap_or(1);
    Population::new(Settings { seed, hosts: 2_000, users: 50, every_ns })
}

fn measure(clock: &Monotonic, act: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let started_at = clock.now();
    let cpu_at_start = thread_cpu_time();
    act()?;
    let cpu = thread_cpu_time().saturating_sub(cpu_at_start);
    let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Ok(Cost { wall_ns: ns(clock.now() - started_at), cpu_ns: ns(cpu) })
}

/// Measures the write of a preformatted line, of lines in batches, and of lines one by one.
fn measure_journal(directory: &Path, rounds: usize) -> Result<Vec<Row>> {
    let clock = Monotonic::start();
    let names = ["write of a preformatted line", "in batches", "line by line"];
    let mut rows = names.map(|name| Row { name, times: PER_ROUND, costs: Vec::new() });
    let transfers: Vec<Transfer> = generate_transfers(1, PER_ROUND).take(PER_ROUND).collect();
    let line = transfers.first().map(Transfer::to_line).unwrap_or_default();
    let bare = directory.join("bare");
    let mut file = OpenOptions::new().create(true).append(true).open(&bare)?;
    let mut journal = Journal::open(&directory.join("journal"), JournalSettings::default())?;
    for _ in 0..=rounds {
        let [bare, batches, at_once] = &mut rows;
        bare.costs.push(measure(&clock, || {
            (0..PER_ROUND).try_for_each(|_| Ok(file.write_all(line.as_bytes())?))
        })?);
        batches.costs.push(measure(&clock, || {
            transfers.iter().for_each(|transfer| journal.append(transfer));
            journal.flush();
            Ok(())
        })?);
        at_once.costs.push(measure(&clock, || {
            for transfer in &transfers {
                journal.append(transfer);
                journal.flush();
            }
            Ok(())
        })?);
    }
    ensure!(journal.counts().lost == 0, "the journal lost records: {:?}", journal.event());
    // The first round runs with cold caches.
    rows.iter_mut().for_each(|row| _ = row.costs.remove(0));
    Ok(rows.into())
}

/// Fills a store, then queries it.
fn measure_store(directory: &Path, archive: Archive) -> Result<Vec<Row>> {
    let clock = Monotonic::start();
    let mut store = Store::open(&directory.join("store.sqlite"))?;
    let mut append = Row { name: "append, a record", times: BATCH, costs: Vec::new() };
    let mut population = generate_transfers(2, archive.records);
    let mut remaining_records = archive.records;
    while remaining_records > 0 {
        let batch: Vec<Transfer> = population.by_ref().take(BATCH.min(remaining_records)).collect();
        remaining_records -= batch.len();
        let cost = measure(&clock, || {
            store.append(&batch)?;
            Ok(())
        })?;
        // A partial batch does not represent the cost of a full one.
        if batch.len() == BATCH || append.costs.is_empty() {
            append.times = batch.len();
            append.costs.push(cost);
        }
    }
    let queries: [(&str, &[DivisionAxis], Source, usize); 4] = [
        ("table II, from roll-ups", &TABLE_II, Source::Fastest, archive.rounds),
        ("seven tables, from roll-ups", &TABLE_WIDE, Source::Fastest, archive.rounds),
        ("by host, from roll-ups", &[DivisionAxis::Host], Source::Fastest, archive.rounds),
        ("table II, from the records", &TABLE_II, Source::Records, 1),
    ];
    let mut rows = vec![append];
    let mut query_results: Vec<Vec<Vec<Subset>>> = Vec::new();
    for (name, axes, source, rounds) in queries {
        let mut row = Row { name, times: 1, costs: Vec::new() };
        let mut answer = Vec::new();
        for _ in 0..rounds {
            row.costs.push(measure(&clock, || {
                answer = store.subsets(&Filter::default(), axes, source)?;
                Ok(())
            })?);
        }
        query_results.push(answer);
        rows.push(row);
    }
    ensure!(
        query_results.first() == query_results.last(),
        "the roll-ups differ from the sums of the records"
    );
    Ok(rows)
}

impl Row {
    fn wall_ns(&self) -> Option<u64> {
        median(&self.costs.iter().map(|cost| cost.wall_ns).collect::<Vec<_>>())
    }

    fn cpu_ns(&self) -> Option<u64> {
        median(&self.costs.iter().map(|cost| cost.cpu_ns).collect::<Vec<_>>())
    }
}

fn section(heading: String, rows: &[Row]) -> Section {
    let mut table = Table::new()
        .text("what")
        .number("time (µs)")
        .number("CPU (µs)")
        .number("a second")
        .number("rounds");
    let mut data = Vec::new();
    for row in rows {
        let micros = |ns: Option<u64>| ns.map(|ns| ns as f64 / row.times as f64 / 1_000.0);
        let text = |micros: Option<f64>, decimals: usize| {
            micros.map_or_else(|| UNKNOWN.to_owned(), |micros| format!("{micros:.decimals$}"))
        };
        let wall = micros(row.wall_ns());
        table.row([
            row.name.to_owned(),
            text(wall, 2),
            text(micros(row.cpu_ns()), 2),
            text(wall.map(|micros| 1e6 / micros), 1),
            row.costs.len().to_string(),
        ]);
        data.push(json!({
            "what": row.name,
            "us": wall,
            "cpu_us": micros(row.cpu_ns()),
            "rounds": row.costs.len(),
        }));
    }
    Section { heading, table, data: data.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_archive_is_filled_and_both_methods_agree() {
        let directory = TemporaryDirectory(
            std::env::temp_dir().join(format!("plumb-archive-{}", std::process::id())),
        );
        fs::create_dir_all(&directory.0).unwrap();
        let rows = measure_store(&directory.0, Archive { rounds: 1, records: 300 }).unwrap();
        assert_eq!((rows.len(), rows[0].times), (5, 300));
    }
}
