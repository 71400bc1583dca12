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

use super::Amount;
use crate::bench::conditions::Conditions;
use crate::bench::rounds::Ratio;
use crate::bench::{Report, Verdict, WIDTH};
use anyhow::Result;
use contest::{Contest, Pair};
use ftp_servers::ServerProgram;
use job::{Job, Load, User, Words};
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
    times: f64,
    /// Largest ratio of the server's processor time to that of vsftpd.
    server_beside: Option<f64>,
    /// Largest processor time of the client, seconds per GB.
    user_s_per_gb: Option<f64>,
    server_s_per_gb: Option<f64>,
    /// Largest processor time of both ends, milliseconds per file.
    both_ms_per_file: Option<f64>,
}

const NO_GOALS: Goals = Goals {
    times: 1.0,
    server_beside: None,
    user_s_per_gb: None,
    server_s_per_gb: None,
    both_ms_per_file: None,
};
const BOTH_IN_TLS: Goals =
    Goals { times: 1.3, user_s_per_gb: Some(0.6), server_s_per_gb: Some(0.6), ..NO_GOALS };
const LARGE: Size = Size::Large { divisor: 1 };
/// A quarter of the size is sufficient in TLS.
const LARGE_IN_TLS: Size = Size::Large { divisor: 4 };
const MANY: Size = Size::Small { divisor: 1, connections: 8 };
const ONE: Size = Size::Small { divisor: 5, connections: 1 };
/// In TLS some programs take a tenth of a second per file.
const ONE_IN_TLS: Size = Size::Small { divisor: 80, connections: 1 };

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
        Goals { times: 1.10, server_beside: Some(1.0), user_s_per_gb: Some(0.2), ..NO_GOALS },
    ),
    row(
        "stor",
        "STOR of one file",
        (true, false),
        LARGE,
        Goals { times: 1.05, server_s_per_gb: Some(0.55), ..NO_GOALS },
    ),
    row("retr-tls", "RETR of one file in TLS", (false, true), LARGE_IN_TLS, BOTH_IN_TLS),
    row("stor-tls", "STOR of one file in TLS", (true, true), LARGE_IN_TLS, BOTH_IN_TLS),
    row(
        "many-retr",
        "RETR of many small files",
        (false, false),
        MANY,
        Goals { times: 1.5, both_ms_per_file: Some(0.35), ..NO_GOALS },
    ),
    row(
        "many-stor",
        "STOR of many small files",
        (true, false),
        MANY,
        Goals { times: 1.2, ..NO_GOALS },
    ),
    row("one-retr", "RETR of small files", (false, false), ONE, Goals { times: 1.5, ..NO_GOALS }),
    row("one-stor", "STOR of small files", (true, false), ONE, Goals { times: 1.5, ..NO_GOALS }),
    row(
        "one-retr-tls",
        "RETR of small files in TLS",
        (false, true),
        ONE_IN_TLS,
        Goals { times: 3.0, ..NO_GOALS },
    ),
    row(
        "one-stor-tls",
        "STOR of small files in TLS",
        (true, true),
        ONE_IN_TLS,
        Goals { times: 1.5, ..NO_GOALS },
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
/// Factor on the number of rounds: a difference of one percent needs more rounds.
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
        tell(row.name);
        let contest = contest_of(row, &runner, amount)?;
        let notes = report.notes.len();
        let verdicts = report.verdicts.len();
        let found = contest.run(&mut runner, rounds, report)?;
        judge(row, &contest, &found, report);
        show(report, notes, verdicts);
    }
    if amount.wants(WORDS) {
        tell(WORDS);
        measure_words(&mut runner, amount, report)?;
    }
    if amount.wants(TUN) {
        tell(TUN);
        measure_tun(&mut runner, amount, report)?;
    }
    if amount.wants(RECORDS) {
        tell(RECORDS);
        runner.add(ServerProgram::Unrecorded)?;
        let measured = measure_records(&mut runner, amount, report);
        runner.end(ServerProgram::Unrecorded);
        measured?;
    }
    if amount.wants(IDLE) {
        tell(IDLE);
        idle::run(&runner.directories, conditions, amount, report)?;
    }
    Ok(())
}

/// Prints progress to stderr; a closed stderr is ignored.
fn tell(row: &str) {
    _ = writeln!(io::stderr(), "measuring {row}");
}

/// Prints the result of a row to stderr as soon as it is available.
fn show(report: &Report, notes: usize, verdicts: usize) {
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

/// Prepares the files of a row, and returns its pairs.
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
        for user in User::ALL.into_iter().filter(|user| user.path().is_ok()) {
            pairs.push(Pair::new(server.server_program, user, job));
        }
    }
    Ok(Contest { name: row.name, heading: format!("{}: {heading}", row.name), pairs })
}

fn judge(row: &Row, contest: &Contest, found: &[Vec<Measured>], report: &mut Report) {
    let name = row.name;
    let of = |server_program, user| contest.results(found, server_program, user);
    let ours = of(ServerProgram::Plumb, User::Plumb);
    let best = contest.best_third_party(found);
    let ratio = best.and_then(|(_, best)| ratio(ours, best, |one| one.wall_ns));
    let beside = best.map_or_else(|| "no pair".to_owned(), |(pair, _)| pair.label());
    if let Some(both) = best.and_then(|(_, best)| {
        self::ratio(ours, best, |one| one.user_ns.saturating_add(one.server_ns))
    }) {
        let text = both.text();
        report.notes.push(format!("{name}: our CPU of both ends beside that of {beside}: {text}"));
    }
    let mut verdict = |what: String, goal, found| {
        report.verdicts.push(Verdict { what: format!("{name}: {what}"), goal, found, unit: "" });
    };
    let spread = ratio
        .map_or_else(String::new, |ratio| format!(" ({:.2}-{:.2})", ratio.least, ratio.greatest));
    verdict(
        format!("time beside {beside}{spread}, to be {:.2} times as fast", row.goals.times),
        1.0 / row.goals.times,
        ratio.map(|ratio| ratio.median),
    );
    if let Some(goal) = row.goals.server_beside {
        let peer = of(ServerProgram::Vsftpd, User::Plumb);
        let ratio = self::ratio(ours, peer, |one| one.server_ns);
        verdict(
            "our server's CPU beside vsftpd's, our user".to_owned(),
            goal,
            ratio.map(|ratio| ratio.median),
        );
    }
    let unit = contest.unit();
    let user = contest::middle(ours, |one| one.user_ns).map(|ns| unit.cpu(ns));
    let server = contest::middle(ours, |one| one.server_ns).map(|ns| unit.cpu(ns));
    if let Some(goal) = row.goals.user_s_per_gb {
        verdict("our user's CPU (s/GB)".to_owned(), goal, user);
    }
    if let Some(goal) = row.goals.server_s_per_gb {
        verdict("our server's CPU (s/GB)".to_owned(), goal, server);
    }
    if let Some(goal) = row.goals.both_ms_per_file {
        let both = user.zip(server).map(|(user, server)| user + server);
        verdict("CPU of both ends (ms/file)".to_owned(), goal, both);
    }
}

/// Returns one figure as a ratio to the same figure of another pair, round by round.
fn ratio(ours: &[Measured], theirs: &[Measured], of: fn(&Measured) -> u64) -> Option<Ratio> {
    let rounds = ours.iter().zip(theirs).map(|(ours, theirs)| (of(ours), of(theirs)));
    Ratio::of(&rounds.collect::<Vec<_>>())
}

/// Returns plumb's own pair with variants of one job; the first variant is the reference.
fn variants(name: &'static str, heading: String, jobs: &[(&'static str, Job)]) -> Contest {
    let pair = |(label, job): &(&'static str, Job)| Pair {
        variant: Some(*label),
        ..Pair::new(ServerProgram::Plumb, User::Plumb, *job)
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
        ("L 36, as it is", job(Words::L36)),
        ("L 36, into c36", job(Words::L36InFive)),
    ];
    let heading = format!("words: RETR of {mebibytes} MiB into a file, ours to ours");
    let contest = variants(WORDS, heading, &jobs);
    let found = contest.run(runner, amount.rounds, report)?;
    for (variant, what) in [(1, "L 36"), (2, "L 36 into c36")] {
        let ratio = match (found.get(variant), found.first()) {
            (Some(one), Some(first)) => ratio(one, first, |one| one.wall_ns),
            _ => None,
        };
        report.verdicts.push(Verdict {
            what: format!("words: time of {what} beside I, to be {WORDS_GOAL} times as fast"),
            goal: 1.0 / WORDS_GOAL,
            found: ratio.map(|ratio| ratio.median),
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
        let heading = format!("tun: {what} of {mebibytes} MiB, ours to ours");
        let contest = variants(TUN, heading, &jobs);
        let found = contest.run(runner, amount.rounds, report)?;
        let ratio = match found.as_slice() {
            [kernel, tun] => ratio(tun, kernel, |one| one.wall_ns),
            _ => None,
        };
        report.verdicts.push(Verdict {
            what: format!(
                "tun: time of {what} beside the kernel's, to be {TUN_GOAL} times as fast"
            ),
            goal: 1.0 / TUN_GOAL,
            found: ratio.map(|ratio| ratio.median),
            unit: "",
        });
    }
    Ok(())
}

/// Transfers small files over one connection, with records at both ends and without.
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
            ..Pair::new(server_program, User::Plumb, job)
        };
        let contest = Contest {
            name: RECORDS,
            heading: format!(
                "records: {what} of {files} of 4 KiB over one connection, ours to ours"
            ),
            pairs: vec![
                pair(ServerProgram::Unrecorded, "without records"),
                pair(ServerProgram::Plumb, "with a record at both ends"),
            ],
        };
        let found = contest.run(runner, amount.rounds * RECORDS_ROUNDS, report)?;
        let beside = |of: fn(&Measured) -> u64| match found.as_slice() {
            [without, with] => ratio(with, without, of),
            _ => None,
        };
        if let Some(cpu) = beside(|one| one.user_ns.saturating_add(one.server_ns)) {
            let text = cpu.text();
            report.notes.push(format!("records: CPU of {what} with them beside without: {text}"));
        }
        let ratio = beside(|one| one.wall_ns);
        let spread = ratio
            .map_or_else(String::new, |one| format!(" ({:.2}-{:.2})", one.least, one.greatest));
        report.verdicts.push(Verdict {
            what: format!("records: time of {what} with them beside without{spread}"),
            goal: RECORDS_GOAL,
            found: ratio.map(|ratio| ratio.median),
            unit: "",
        });
    }
    Ok(())
}
