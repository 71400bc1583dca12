//! `plumb meters`: the meters of a running plumb, and what a running plumb does to show them.
//!
//! A command that runs for long has a [`Board`] with the sheets of its meters and a [`Door`] where
//! they are told: a socket in a folder that only its user may enter. The sheets are written by the
//! threads that work, all the time, and read by the thread of the door, when somebody asks; nobody
//! is stopped, woken or asked for it.

mod board;
mod caller;
mod door;
mod live;
mod place;
mod report;
mod table;

pub(crate) use board::{Board, Shown};
pub(crate) use caller::ask_process;
pub(crate) use door::Door;
pub(crate) use report::Report;

use crate::exit::{self, Failure};
use anyhow::{Context, Result, anyhow};
use records::figures::duration;
use records::table::Table;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A run that is shorter than this is over before anybody could look.
const LONG: Duration = Duration::from_secs(1);

/// Opens the door to `board` when the run has become a long one, and keeps it open until it is
/// dropped.
pub(crate) async fn show_long_run(board: Arc<Board>) {
    tokio::time::sleep(LONG).await;
    // A machine that has no place for it is no reason to stop.
    let _door = Door::open(&board);
    std::future::pending::<()>().await;
}

/// What `plumb meters --help` says first.
pub(crate) const ABOUT: &str = "\
Shows the meters of a running plumb: of serve, login, get, put, mirror and ftp.

A row is a primitive: a layer, TLS as 'encryption', what a server does with its files, the system \
calls that move bytes, the wait, and as 'application' all else that serves and carries sessions. Its count is how often it was entered and left; mean and p99 \
are the time of such a visit, without what it called; busy is its part of all time that is not waited. \
A wakeup is a return from a wait, a transaction a key, a line or a command that was done. Times \
and shares are those of the clock: what other programs took of the processor meanwhile is in them, and not in \
the CPU time of the process.

On a terminal the table is kept up to date. Without a number of a process it is that of the only \
plumb that runs. A reading takes some 70 µs of CPU time of the running program, in a thread of its own, and the \
table prints what it took; the threads that work are neither stopped nor asked.";

const EXAMPLES: &str = "\
Examples:
  plumb meters
  plumb meters --list
  plumb meters 4711 --every 500ms
  plumb meters --json | jq .all.primitives

Exit codes: 0 done; 2 the arguments are wrong, or it is not clear which plumb is meant; 3 there is
no plumb that shows its meters.";

/// Arguments of `plumb meters`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The number of its process [default: the only one that runs]
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// List the plumbs of this user that show their meters
    #[arg(long, conflicts_with_all = ["pid", "every"])]
    list: bool,
    /// Write all of it as JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// How often it is read, as 1s or 500ms [default: once; on a terminal 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    every: Option<Duration>,
}

/// The shortest time between two readings.
const EVERY_MIN: Duration = Duration::from_millis(20);

fn parse_time(text: &str) -> Result<Duration, String> {
    let (digits, unit_ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000),
    };
    let time = digits.parse::<u32>().ok();
    let time = time.map(|count| Duration::from_millis(u64::from(count) * unit_ms));
    let time = time.filter(|time| *time >= EVERY_MIN);
    time.ok_or_else(|| "say a time as 1s or 500ms, of at least 20ms".to_owned())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let running = caller::running();
    if arguments.list {
        return list(&running, arguments.json).map_err(|error| complain(&error));
    }
    let path = choose(arguments.pid, &running, arguments.json)?;
    let first = caller::ask(&path).map_err(|error| {
        exit::complain(&error);
        Failure::NothingMeasured
    })?;
    let is_live = !arguments.json && std::io::stdout().is_terminal();
    let every = arguments.every.or(is_live.then_some(Duration::from_secs(1)));
    let shown = match every {
        Some(every) if is_live => live::show(&path, first, every),
        every => write_all(&path, first, every, arguments.json),
    };
    shown.map_err(|error| complain(&error))
}

fn complain(error: &anyhow::Error) -> Failure {
    exit::complain(error);
    Failure::ThisMachine
}

/// Returns the socket of the plumb that is meant.
fn choose(pid: Option<u32>, running: &[(u32, PathBuf)], is_json: bool) -> Result<PathBuf, Failure> {
    let found = match (pid, running) {
        (Some(pid), running) => running.iter().find(|(number, _)| *number == pid),
        (None, [one]) => Some(one),
        (None, []) => None,
        (None, _) => {
            // A program that reads JSON has no use for them.
            if !is_json {
                _ = list(running, false);
            }
            exit::complain(&anyhow!("there are several: say which, as plumb meters PID"));
            return Err(Failure::WrongArguments);
        }
    };
    found.map(|(_, path)| path.clone()).ok_or_else(|| {
        exit::complain(&match pid {
            Some(pid) => anyhow!("process {pid} is no plumb of yours that shows its meters"),
            None => anyhow!("no plumb of yours runs that shows its meters"),
        });
        Failure::NothingMeasured
    })
}

fn list(running: &[(u32, PathBuf)], is_json: bool) -> Result<()> {
    // One that ends meanwhile is not there any more.
    let reports: Vec<_> = running.iter().filter_map(|(pid, _)| ask_process(*pid).ok()).collect();
    let text = if is_json {
        let list = reports.iter().map(|report| {
            let Report { pid, command, uptime_ns, cpu_ns, .. } = report;
            serde_json::json!({
                "pid": pid, "command": command, "uptime_ns": uptime_ns, "cpu_ns": cpu_ns,
            })
        });
        format!("{}\n", serde_json::Value::Array(list.collect()))
    } else {
        let mut table = Table::new().number("process").text("plumb").number("for").number("CPU");
        for report in &reports {
            table.row([
                report.pid.to_string(),
                report.command.clone(),
                duration(report.uptime_ns),
                duration(report.cpu_ns),
            ]);
        }
        table.render(exit::stdout_columns())
    };
    write(&text)
}

/// Writes the meters, once or every so often, until the plumb ends.
fn write_all(
    path: &std::path::Path,
    first: Report,
    every: Option<Duration>,
    is_json: bool,
) -> Result<()> {
    let mut report = first;
    loop {
        let text = match is_json {
            true => format!("{}\n", serde_json::to_string(&report)?),
            false => table::text(&report, exit::stdout_columns()),
        };
        write(&text)?;
        let Some(every) = every else { return Ok(()) };
        std::thread::sleep(every);
        match caller::ask(path) {
            Ok(next) => report = next,
            Err(_) => return Ok(()),
        }
    }
}

fn write(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("the standard output takes no more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_unit_or_is_in_seconds() {
        let times = ["1s", "500ms", "2"].map(|text| parse_time(text).unwrap().as_millis());
        assert_eq!(times, [1_000, 500, 2_000]);
        assert!(["", "s", "1h", "-1s", "5ms", "0"].iter().all(|text| parse_time(text).is_err()));
    }

    #[test]
    fn the_only_one_need_not_be_named() {
        let one = (7, PathBuf::from("/seven"));
        assert_eq!(choose(None, std::slice::from_ref(&one), false), Ok(one.1.clone()));
        assert_eq!(choose(Some(8), &[one], false), Err(Failure::NothingMeasured));
        assert_eq!(choose(None, &[], false), Err(Failure::NothingMeasured));
    }
}
