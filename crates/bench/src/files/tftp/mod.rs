//! TFTP file transfers.
//!
//! A round runs every pair of client and server once. Each client downloads the same file to
//! `/dev/null`, so the measurement includes the protocol and its two programs, but no disk. Each
//! measured time runs from the start of the client to its end. Then plumb's own pair transfers
//! files with every combination of block size and window; no combination may lose time to timeouts.

mod pairs;

use crate::benchmark_report::{Report, Section, Verdict};
use crate::conditions::Conditions;
use crate::rounds::{Ratio, seconds};
use anyhow::Result;
use pairs::{Measured, Pair, Row, TftpHarness};
use records::format::{UNKNOWN, count};
use records::statistics::median;
use report::table::Table;
use serde_json::{Value, json};

/// Rows of the report: block size, window size, file size, and the largest accepted ratio of
/// plumb's transfer time to that of the fastest third-party pair.
const ROWS: [(Row, f64); 2] = [
    (Row { block_size: 512, window: 1, megabytes: 16 }, 1.0),
    (Row { block_size: 1428, window: 64, megabytes: 128 }, 1.0 / 3.0),
];
const BLOCK_SIZES: [u16; 6] = [8, 512, 1428, 8192, 32_768, 65_464];
const WINDOWS: [u16; 6] = [1, 2, 16, 64, 256, 4096];

/// Runs the measurements, and adds them to `report`.
pub(super) fn run(conditions: &Conditions, rounds: usize, report: &mut Report) -> Result<()> {
    let harness = TftpHarness::open(conditions)?;
    report.notes.extend(harness.missing().iter().cloned());
    for (row, goal) in ROWS {
        measure_row(&harness, row, goal, rounds, report)?;
    }
    measure_sizes(&harness, report)
}

/// Measures all pairs in turn, and returns the rounds of each pair.
fn measure_rounds(
    harness: &TftpHarness,
    pairs: &[Pair],
    row: Row,
    rounds: usize,
) -> Result<Vec<Vec<Measured>>> {
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); pairs.len()];
    for _ in 0..rounds {
        for (pair, measured) in pairs.iter().zip(&mut measured) {
            measured.push(harness.measure(*pair, row)?);
        }
    }
    Ok(measured)
}

fn measure_row(
    harness: &TftpHarness,
    row: Row,
    goal: f64,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    harness.write_file(row.megabytes)?;
    let pairs: Vec<Pair> = harness.pairs(row).collect();
    let results = measure_rounds(harness, &pairs, row, rounds)?;
    let mut table = Table::new()
        .text("client and server")
        .number("time (s)")
        .number("MB/s")
        .number("client CPU (s/GB)")
        .number("server CPU (s/GB)");
    let ours = results.first().cloned().unwrap_or_default();
    let mut data = Vec::new();
    let mut best: Option<(u64, &[Measured], Pair)> = None;
    for (pair, results) in pairs.iter().zip(&results) {
        let wall = median_figure(results, |one| one.wall_ns);
        let per_gigabyte = |ns: Option<u64>| ns.map(|ns| ns * 1000 / row.megabytes);
        let rate = wall.map(|ns| row.megabytes * 1_000_000_000 / ns.max(1));
        table.row([
            pair.name().to_owned(),
            seconds(wall),
            rate.map_or_else(|| UNKNOWN.to_owned(), count),
            seconds(per_gigabyte(median_figure(results, |one| one.user_ns))),
            seconds(per_gigabyte(median_figure(results, |one| one.server_ns))),
        ]);
        let all: Vec<Value> = results.iter().map(Measured::json).collect();
        data.push(json!({ "pair": pair.name(), "rounds": all }));
        if let Some(wall) = wall.filter(|_| *pair != Pair::Ours)
            && best.is_none_or(|(min_wall, ..)| wall < min_wall)
        {
            best = Some((wall, results, *pair));
        }
    }
    let ratio = best.and_then(|(_, best, _)| {
        let pairs = ours.iter().zip(best).map(|(ours, best)| (ours.wall_ns, best.wall_ns));
        Ratio::from_pairs(&pairs.collect::<Vec<_>>())
    });
    let best_name = best.map_or("no peer", |(_, _, pair)| pair.name());
    let Row { block_size, window, megabytes } = row;
    report.sections.push(Section {
        heading: format!("TFTP, blocks of {block_size} bytes, windows of {window}, {megabytes} MB"),
        table,
        data: json!({
            "block_size": block_size,
            "window": window,
            "pairs": data,
            "ratio": ratio.map(Ratio::to_json),
        }),
    });
    let sizes = format!("TFTP {block_size}/{window}");
    report.notes.extend(
        ratio.map(|ratio| {
            format!("{sizes}: time of plumb relative to {best_name}: {}", ratio.text())
        }),
    );
    report.verdicts.push(Verdict {
        what: format!("{sizes}, time relative to the fastest other pair"),
        goal,
        actual: ratio.map(|ratio| ratio.median),
        unit: "",
    });
    Ok(())
}

fn median_figure(results: &[Measured], figure: impl Fn(&Measured) -> u64) -> Option<u64> {
    median(&results.iter().map(figure).collect::<Vec<_>>())
}

/// Measures every combination of block size and window with plumb's own pair.
fn measure_sizes(harness: &TftpHarness, report: &mut Report) -> Result<()> {
    let mut table = Table::new().number("block (bytes)").number("window").number("MB/s");
    let mut table_rows = Vec::new();
    let mut sizes_with_timeouts = 0_u32;
    for block_size in BLOCK_SIZES {
        harness.write_file(if block_size < 512 { 1 } else { 16 })?;
        for window in WINDOWS {
            let (bytes, nanos, timeouts) = harness.transfer_with_plumb(block_size, window)?;
            let rate = u128::from(bytes) * 1000 / u128::from(nanos.max(1));
            sizes_with_timeouts += u32::from(timeouts > 0);
            table.row([block_size.to_string(), window.to_string(), rate.to_string()]);
            table_rows.push(json!({ "block_size": block_size, "window": window,
                "ns": nanos, "bytes": bytes, "timeouts": timeouts }));
        }
    }
    report.sections.push(Section {
        heading: "TFTP, every block size with every window, plumb to plumb".to_owned(),
        table,
        data: Value::Array(table_rows),
    });
    report.verdicts.push(Verdict {
        what: "TFTP, sizes with a timeout".to_owned(),
        goal: 0.0,
        actual: Some(sizes_with_timeouts.into()),
        unit: "",
    });
    Ok(())
}
