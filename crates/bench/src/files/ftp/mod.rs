//! FTP file transfers: every server with every client program.
//!
//! The first round of a row measures all pairs of server and client. Later rounds measure only the
//! pairs whose figures the row's verdicts need: plumb's own pair, the three fastest third-party
//! pairs, and, for the processor time of plumb's server, the fastest third-party server with
//! plumb's client. A pair that fails, or does not finish within 30 s, is left out and listed.

mod contest;
mod directories;
mod ftp_servers;
mod idle;
mod job;
mod run_client;

use super::amount::Amount;
use crate::benchmark_report::{Report, Verdict, WIDTH};
use crate::conditions::Conditions;
use crate::rounds::Ratio;
use anyhow::Result;
use contest::{Contest, Pair};
use ftp_servers::ServerProgram;
use job::{FtpClientProgram, Job, Load, Words};
use run_client::{ClientRunner, Measured};
use std::io::{self, Write};

/// A row of the report with its goals.
struct Row {
    name: &'static str,
    heading: &'static str,
    is_upload: bool,
    in_tls: bool,
    size: Size,
    goals: Goals,
}

/// Amount of data in a row.
#[derive(Clone, Copy)]
enum Size {
    /// The large file, with its size divided by `divisor`.
    Large { divisor: u64 },
    /// The small files, with their number divided by `divisor`.
    Small { divisor: u32, connections: u32 },
}

/// The goals of a row.
#[derive(Clone, Copy, Default)]
struct Goals {
    /// Lowest ratio of the rate to that of the fastest third-party pair.
    min_speedup: f64,
    /// Largest ratio of the server's processor time to that of vsftpd.
    max_server_cpu_ratio: Option<f64>,
    /// Largest processor time of the client, seconds per GB.
    user_s_per_gb: Option<f64>,
    server_s_per_gb: Option<f64>,
    /// Largest processor time of both ends, milliseconds per file.
    both_ms_per_file: Option<f64>,
}

const DEFAULT_GOALS: Goals = Goals {
    min_speedup: 1.0,
    max_server_cpu_ratio: None,
    user_s_per_gb: None,
    server_s_per_gb: None,
    both_ms_per_file: None,
};
const BOTH_IN_TLS: Goals = Goals {
    min_speedup: 1.3,
    user_s_per_gb: Some(0.6),
    server_s_per_gb: Some(0.6),
    ..DEFAULT_GOALS
};
const LARGE: Size = Size::Large { divisor: 1 };
/// Amount for the large file in TLS: a quarter of the size is sufficient.
const LARGE_IN_TLS: Size = Size::Large { divisor: 4 };
const MANY_PARALLEL: Size = Size::Small { divisor: 1, connections: 8 };
const ONE_CONNECTION: Size = Size::Small { divisor: 5, connections: 1 };
/// Amount for small files over one connection in TLS: fewer files, because some programs take a
/// tenth of a second per file.
const ONE_CONNECTION_IN_TLS: Size = Size::Small { divisor: 80, connections: 1 };

const fn row(
    name: &'static str,
    heading: &'static str,
    (is_upload, in_tls): (bool, bool),
    size: Size,
    goals: Goals,
) -> Row {
    Row { name, heading, is_upload, in_tls, size, goals }
}

const ROWS: [Row; 10] = [
    row(
        "retr",
        "RETR of one file",
        (false, false),
        LARGE,
        Goals {
            min_speedup: 1.10,
            max_server_cpu_ratio: Some(1.0),
            user_s_per_gb: Some(0.2),
            ..DEFAULT_GOALS
        },
    ),
    row(
        "stor",
        "STOR of one file",
        (true, false),
        LARGE,
        Goals { min_speedup: 1.05, server_s_per_gb: Some(0.55), ..DEFAULT_GOALS },
    ),
    row("retr-tls", "RETR of one file in TLS", (false, true), LARGE_IN_TLS, BOTH_IN_TLS),
    row("stor-tls", "STOR of one file in TLS", (true, true), LARGE_IN_TLS, BOTH_IN_TLS),
    row(
        "many-retr",
        "RETR of many small files",
        (false, false),
        MANY_PARALLEL,
        Goals { min_speedup: 1.5, both_ms_per_file: Some(0.35), ..DEFAULT_GOALS },
    ),
    row(
        "many-stor",
        "STOR of many small files",
        (true, false),
        MANY_PARALLEL,
        Goals { min_speedup: 1.2, ..DEFAULT_GOALS },
    ),
    row(
        "one-retr",
        "RETR of small files",
        (false, false),
        ONE_CONNECTION,
        Goals { min_speedup: 1.5, ..DEFAULT_GOALS },
    ),
    row(
        "one-stor",
        "STOR of small files",
        (true, false),
        ONE_CONNECTION,
        Goals { min_speedup: 1.5, ..DEFAULT_GOALS },
    ),
    row(
        "one-retr-tls",
        "RETR of small files in TLS",
        (false, true),
        ONE_CONNECTION_IN_TLS,
        Goals { min_speedup: 3.0, ..DEFAULT_GOALS },
    ),
    row(
        "one-stor-tls",
        "STOR of small files in TLS",
        (true, true),
        ONE_CONNECTION_IN_TLS,
        Goals { min_speedup: 1.5, ..DEFAULT_GOALS },
    ),
];
/// Names of the rows that are not in `ROWS`.
const IDLE: &str = "idle";
const WORDS: &str = "words";
const TUN: &str = "tun";
const RECORDS: &str = "records";
/// Lowest ratio of the transfer rate of TYPE L 36 to that of TYPE I.
const WORDS_GOAL: f64 = 0.8;
/// Lowest ratio of the transfer rate over plumb's own TCP to the rate over the kernel's TCP.
const TUN_GOAL: f64 = 0.5;
/// Largest ratio of the transfer time with records to the time without.
const RECORDS_GOAL: f64 = 1.01;
/// Factor by which the number of rounds is multiplied for transfers with and without records: a
/// difference of one percent needs more rounds.
const RECORDS_ROUNDS: usize = 6;

/// Returns the names of the rows.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name).chain([WORDS, TUN, RECORDS, IDLE])
}

/// Runs the measurements of all wanted rows, and adds them to `report`.
pub(super) fn run(conditions: &Conditions, amount: &Amount, report: &mut Report) -> Result<()> {
    let (mut runner, missing) = ClientRunner::open(conditions)?;
    report.notes.extend(missing);
    report.congestion = format!("{} at loopback, by its route", runner.congestion()?);
    runner.directories.write_large(amount.size_mib)?;
    let rounds = amount.rounds;
    for row in ROWS.iter().filter(|row| amount.wants(row.name)) {
        print_progress(row.name);
        let contest = contest_of(row, &runner, amount)?;
        let notes = report.notes.len();
        let verdicts = report.verdicts.len();
        let results = contest.run(&mut runner, rounds, report)?;
        add_verdicts(row, &contest, &results, report);
        print_result(report, notes, verdicts);
    }
    if amount.wants(WORDS) {
        print_progress(WORDS);
        measure_words(&mut runner, amount, report)?;
    }
    if amount.wants(TUN) {
        print_progress(TUN);
        measure_tun(&mut runner, amount, report)?;
    }
    if amount.wants(RECORDS) {
        print_progress(RECORDS);
        runner.add(ServerProgram::Unrecorded)?;
        let measured = measure_records(&mut runner, amount, report);
        runner.end(ServerProgram::Unrecorded);
        measured?;
    }
    if amount.wants(IDLE) {
        print_progress(IDLE);
        idle::run(&runner.directories, conditions, amount, report)?;
    }
    Ok(())
}

/// Prints progress to stderr; a closed stderr is ignored.
fn print_progress(row: &str) {
    _ = writeln!(io::stderr(), "measuring {row}");
}

/// Prints the result of a row to stderr as soon as it is available.
fn print_result(report: &Report, notes: usize, verdicts: usize) {
    let mut text = String::new();
    if let Some(section) = report.sections.last() {
        text = format!("\n{}\n\n{}", section.heading, section.table.render(WIDTH));
    }
    for note in report.notes.iter().skip(notes) {
        text += &format!("{note}\n");
    }
    for verdict in report.verdicts.iter().skip(verdicts) {
        text += &format!("{}\n", verdict.text());
    }
    _ = writeln!(io::stderr(), "{text}");
}

/// Prepares the files for a row of the report, and returns its pairs of server and client.
fn contest_of(row: &Row, runner: &ClientRunner<'_>, amount: &Amount) -> Result<Contest> {
    let (load, heading) = match row.size {
        Size::Large { divisor } => {
            let mebibytes = (amount.size_mib / divisor).max(1);
            if mebibytes != runner.directories.large_mib()? {
                runner.directories.write_large(mebibytes)?;
            }
            (Load::Large(mebibytes), format!("{}: {mebibytes} MiB", row.heading))
        }
        Size::Small { divisor, connections } => {
            let files = (amount.files / divisor).max(1);
            runner.directories.write_small(files)?;
            let over = match connections {
                1 => "one connection".to_owned(),
                count => format!("{count} connections"),
            };
            let heading = format!("{}: {files} of 4 KiB over {over}", row.heading);
            (Load::Small { files, connections }, heading)
        }
    };
    let job = Job {
        is_upload: row.is_upload,
        in_tls: row.in_tls,
        load,
        words: Words::Image,
        on_tun: false,
    };
    let mut pairs = Vec::new();
    for server in &runner.servers {
        for user in FtpClientProgram::ALL.into_iter().filter(|user| user.path().is_ok()) {
            pairs.push(Pair::new(server.server_program, user, job));
        }
    }
    Ok(Contest { name: row.name, heading: format!("{}: {heading}", row.name), pairs })
}

fn add_verdicts(row: &Row, contest: &Contest, results: &[Vec<Measured>], report: &mut Report) {
    let name = row.name;
    let results_of = |server_program, user| contest.results(results, server_program, user);
    let ours = results_of(ServerProgram::Plumb, FtpClientProgram::Plumb);
    let best = contest.best_third_party(results);
    let ratio = best.and_then(|(_, best)| ratio(ours, best, |one| one.wall_ns));
    let best_label = best.map_or_else(|| "no pair".to_owned(), |(pair, _)| pair.label());
    if let Some(both) = best.and_then(|(_, best)| {
        self::ratio(ours, best, |one| one.user_ns.saturating_add(one.server_ns))
    }) {
        let text = both.text();
        report
            .notes
            .push(format!("{name}: CPU of plumb at both ends relative to {best_label}: {text}"));
    }
    let mut verdict = |what: String, goal, actual| {
        report.verdicts.push(Verdict { what: format!("{name}: {what}"), goal, actual, unit: "" });
    };
    let spread =
        ratio.map_or_else(String::new, |ratio| format!(" ({:.2}-{:.2})", ratio.min, ratio.max));
    verdict(
        format!(
            "time relative to {best_label}{spread}, goal {:.2} times as fast",
            row.goals.min_speedup
        ),
        1.0 / row.goals.min_speedup,
        ratio.map(|ratio| ratio.median),
    );
    if let Some(goal) = row.goals.max_server_cpu_ratio {
        let peer = results_of(ServerProgram::Vsftpd, FtpClientProgram::Plumb);
        let ratio = self::ratio(ours, peer, |one| one.server_ns);
        verdict(
            "CPU of plumb serve relative to vsftpd, client plumb".to_owned(),
            goal,
            ratio.map(|ratio| ratio.median),
        );
    }
    let unit = contest.unit();
    let user = contest::median_figure(ours, |one| one.user_ns).map(|ns| unit.cpu(ns));
    let server = contest::median_figure(ours, |one| one.server_ns).map(|ns| unit.cpu(ns));
    if let Some(goal) = row.goals.user_s_per_gb {
        verdict("CPU of the client plumb (s/GB)".to_owned(), goal, user);
    }
    if let Some(goal) = row.goals.server_s_per_gb {
        verdict("CPU of plumb serve (s/GB)".to_owned(), goal, server);
    }
    if let Some(goal) = row.goals.both_ms_per_file {
        let both = user.zip(server).map(|(user, server)| user + server);
        verdict("CPU of both ends (ms/file)".to_owned(), goal, both);
    }
}

/// Returns one figure as a ratio to the same figure of another pair, round by round.
fn ratio(ours: &[Measured], theirs: &[Measured], of: fn(&Measured) -> u64) -> Option<Ratio> {
    let rounds = ours.iter().zip(theirs).map(|(ours, theirs)| (of(ours), of(theirs)));
    Ratio::from_pairs(&rounds.collect::<Vec<_>>())
}

/// Returns plumb's own pair with variants of one job; the first variant is the reference.
fn variants(name: &'static str, heading: String, jobs: &[(&'static str, Job)]) -> Contest {
    let pair = |(label, job): &(&'static str, Job)| Pair {
        variant: Some(*label),
        ..Pair::new(ServerProgram::Plumb, FtpClientProgram::Plumb, *job)
    };
    Contest { name, heading, pairs: jobs.iter().map(pair).collect() }
}

fn measure_words(
    runner: &mut ClientRunner<'_>,
    amount: &Amount,
    report: &mut Report,
) -> Result<()> {
    // Nine octets hold two words, so this size has no half word at the end.
    let mebibytes = (amount.size_mib / 36).max(1) * 9;
    runner.directories.write_large(mebibytes)?;
    let job = |words| Job {
        is_upload: false,
        in_tls: false,
        load: Load::Saved(mebibytes),
        words,
        on_tun: false,
    };
    let jobs = [
        ("TYPE I", job(Words::Image)),
        ("L 36, stored as received", job(Words::L36)),
        ("L 36, into c36", job(Words::L36InFive)),
    ];
    let heading = format!("words: RETR of {mebibytes} MiB into a file, plumb to plumb");
    let contest = variants(WORDS, heading, &jobs);
    let results = contest.run(runner, amount.rounds, report)?;
    for (variant, what) in [(1, "L 36"), (2, "L 36 into c36")] {
        let ratio = match (results.get(variant), results.first()) {
            (Some(one), Some(first)) => ratio(one, first, |one| one.wall_ns),
            _ => None,
        };
        report.verdicts.push(Verdict {
            what: format!("words: time of {what} relative to I, goal {WORDS_GOAL} times as fast"),
            goal: 1.0 / WORDS_GOAL,
            actual: ratio.map(|ratio| ratio.median),
            unit: "",
        });
    }
    Ok(())
}

fn measure_tun(runner: &mut ClientRunner<'_>, amount: &Amount, report: &mut Report) -> Result<()> {
    let mebibytes = (amount.size_mib / 4).max(1);
    runner.directories.write_large(mebibytes)?;
    for (is_upload, what) in [(false, "RETR"), (true, "STOR")] {
        let job = |on_tun| Job {
            is_upload,
            in_tls: false,
            load: Load::Large(mebibytes),
            words: Words::Image,
            on_tun,
        };
        let jobs = [("the kernel's TCP", job(false)), ("our own TCP on a TUN", job(true))];
        let heading = format!("tun: {what} of {mebibytes} MiB, plumb to plumb");
        let contest = variants(TUN, heading, &jobs);
        let results = contest.run(runner, amount.rounds, report)?;
        let ratio = match results.as_slice() {
            [kernel, tun] => ratio(tun, kernel, |one| one.wall_ns),
            _ => None,
        };
        report.verdicts.push(Verdict {
            what: format!(
                "tun: time of {what} relative to the kernel's TCP, goal {TUN_GOAL} times as fast"
            ),
            goal: 1.0 / TUN_GOAL,
            actual: ratio.map(|ratio| ratio.median),
            unit: "",
        });
    }
    Ok(())
}

/// Transfers small files over one connection, with and without records at both ends.
fn measure_records(
    runner: &mut ClientRunner<'_>,
    amount: &Amount,
    report: &mut Report,
) -> Result<()> {
    let files = (amount.files / 5).max(1);
    runner.directories.write_small(files)?;
    for (is_upload, what) in [(false, "RETR"), (true, "STOR")] {
        let load = Load::Small { files, connections: 1 };
        let job = Job { is_upload, in_tls: false, load, words: Words::Image, on_tun: false };
        let pair = |server_program: ServerProgram, label| Pair {
            variant: Some(label),
            ..Pair::new(server_program, FtpClientProgram::Plumb, job)
        };
        let contest = Contest {
            name: RECORDS,
            heading: format!(
                "records: {what} of {files} of 4 KiB over one connection, plumb to plumb"
            ),
            pairs: vec![
                pair(ServerProgram::Unrecorded, "without records"),
                pair(ServerProgram::Plumb, "with a record at both ends"),
            ],
        };
        let results = contest.run(runner, amount.rounds * RECORDS_ROUNDS, report)?;
        let ratio_of = |of: fn(&Measured) -> u64| match results.as_slice() {
            [without, with] => ratio(with, without, of),
            _ => None,
        };
        if let Some(cpu) = ratio_of(|one| one.user_ns.saturating_add(one.server_ns)) {
            let text = cpu.text();
            report
                .notes
                .push(format!("records: CPU of {what} with records, relative to without: {text}"));
        }
        let ratio = ratio_of(|one| one.wall_ns);
        let spread =
            ratio.map_or_else(String::new, |one| format!(" ({:.2}-{:.2})", one.min, one.max));
        report.verdicts.push(Verdict {
            what: format!("records: time of {what} with records, relative to without{spread}"),
            goal: RECORDS_GOAL,
            actual: ratio.map(|ratio| ratio.median),
            unit: "",
        });
    }
    Ok(())
}
