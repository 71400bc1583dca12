//! `plumb meters`, which displays the meters of a running plumb.

mod live;
mod meter_table;

pub(crate) use live::{is_quit_key, next_event};

use crate::exit::{self, Failure};
use crate::heading;
use crate::manual::ManualPage;
use crate::manual::entries::{COLUMNS, METERS, RUNTIME};
use crate::output_style;
use anyhow::{Context, Result, anyhow};
use carrier::meters::{MeterReport, request_process_report, request_report, running_processes};
use os::service_manager::unit_of;
use records::format::duration;
use report::table::Table;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Introduction of `plumb meters --help`.
pub(crate) const ABOUT: &str = "\
Display the meters of a running plumb serve, login, get, put, mirror or ftp.

Each row is a primitive. The primitives are the protocol layers, TLS (encryption), the file access \
of a server, the system calls that move bytes, the waits, and all other work for sessions \
(application). count is the number of calls. mean and p99 are the time per call, without nested \
components. busy is the row's share of the time not spent waiting. A wakeup is a return from a \
wait. A transaction is a completed key, line or command. Times and shares are clock time, so they \
include the time in which other programs used the processor. The CPU time of the process does not \
include that time.

On a terminal the table is updated continuously. Without a process ID, plumb reads the only \
running plumb process; if there are several, it lists them. A reading takes about 70 µs of CPU \
time of that process, in a separate thread; the table shows the actual cost. The working threads \
are not stopped.";

/// Manual page of `plumb meters`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "meters",
    examples: &[
        "plumb meters",
        "plumb meters --list",
        "plumb meters 4711 --every 500ms",
        "plumb meters --json | jq .all.primitives",
    ],
    notes: &[],
    exit_status: &[
        (0, "Success"),
        (2, "Invalid arguments, or several plumb processes match"),
        (3, "No plumb process publishes meters"),
        (4, "Local error, such as permission denied"),
    ],
    environment: &[&[RUNTIME, COLUMNS]],
    files: &[METERS],
    see_also: &["serve", "login", "measure"],
};

/// Arguments of `plumb meters`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Process ID [default: the only running plumb process]
    #[arg(value_name = "pid")]
    pid: Option<u32>,
    /// List this user's plumb processes that publish their meters; for root also the services
    #[arg(long, conflicts_with_all = ["pid", "every"])]
    list: bool,
    /// Print everything as JSON, with times in nanoseconds
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    /// Interval between readings, such as 1s or 500ms [default: once; on a terminal 1s]
    #[arg(long, value_name = "duration", value_parser = parse_time)]
    every: Option<Duration>,
}

/// Minimum interval between two readings.
const INTERVAL_MIN: Duration = Duration::from_millis(20);

fn parse_time(text: &str) -> Result<Duration, String> {
    let (digits, unit_ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000),
    };
    let time = digits.parse::<u32>().ok();
    let time = time.map(|count| Duration::from_millis(u64::from(count) * unit_ms));
    let time = time.filter(|time| *time >= INTERVAL_MIN);
    time.ok_or_else(|| "use a time such as 1s or 500ms, at least 20ms".to_owned())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let running = running_processes();
    if arguments.list {
        return list(&running, arguments.json).map_err(|error| exit::local_failure(&error));
    }
    let path = choose(arguments.pid, &running, arguments.json)?;
    let first_report = request_report(&path).map_err(|error| {
        exit::print_error(&error);
        Failure::NothingMeasured
    })?;
    let is_live = !arguments.json && std::io::stdout().is_terminal();
    let every = arguments.every.or(is_live.then_some(Duration::from_secs(1)));
    let result = match every {
        Some(every) if is_live => live::show(&path, first_report, every),
        every => write_all(&path, first_report, every, arguments.json),
    };
    result.map_err(|error| exit::local_failure(&error))
}

/// Returns the process and socket that the arguments select.
fn choose(pid: Option<u32>, running: &[(u32, PathBuf)], is_json: bool) -> Result<PathBuf, Failure> {
    let selected = match (pid, running) {
        (Some(pid), running) => running.iter().find(|(number, _)| *number == pid),
        (None, [only]) => Some(only),
        (None, []) => None,
        (None, _) => {
            // A consumer of JSON output has no use for the list.
            if !is_json {
                _ = list(running, false);
            }
            let example = running.first().map_or(0, |(pid, _)| *pid);
            exit::print_error(&anyhow!(
                "several plumb processes publish meters: select one by its process ID, such as \
                 plumb meters {example}; plumb meters --list lists them"
            ));
            return Err(Failure::WrongArguments);
        }
    };
    selected.map(|(_, path)| path.clone()).ok_or_else(|| {
        exit::print_error(&match pid {
            Some(pid) => anyhow!("no plumb process {pid} of this user publishes meters"),
            None => anyhow!("no plumb process of this user publishes meters"),
        });
        Failure::NothingMeasured
    })
}

fn list(running: &[(u32, PathBuf)], is_json: bool) -> Result<()> {
    // A process may end in the meantime.
    let reports: Vec<_> =
        running.iter().filter_map(|(pid, _)| request_process_report(*pid).ok()).collect();
    let text = if is_json {
        let list = reports.iter().map(|report| {
            let MeterReport { pid, command, uptime_ns, cpu_ns, .. } = report;
            serde_json::json!({
                "pid": pid, "command": command, "unit": unit_of(*pid), "uptime_ns": uptime_ns,
                "cpu_ns": cpu_ns,
            })
        });
        format!("{}\n", serde_json::Value::Array(list.collect()))
    } else {
        let processes = reports.iter().map(|report| (unit_of(report.pid), report));
        list_table(&processes.collect::<Vec<_>>()).render(output_style::stdout_columns_of_table())
    };
    write(&text)
}

/// Returns the table of processes, each with its unit of systemd if it has one.
fn list_table(processes: &[(Option<String>, &MeterReport)]) -> Table {
    let has_units = processes.iter().any(|(unit, _)| unit.is_some());
    let table = Table::new().number("process");
    let table = if has_units { table.text("unit") } else { table };
    let mut table = table.text("plumb").number("for").number("CPU");
    for (unit, report) in processes {
        let unit = has_units.then(|| unit.clone().unwrap_or_default());
        let rest = [report.command.clone(), duration(report.uptime_ns), duration(report.cpu_ns)];
        table.row(std::iter::once(report.pid.to_string()).chain(unit).chain(rest));
    }
    table
}

/// Writes the meters, once or periodically, until the process ends.
fn write_all(
    path: &std::path::Path,
    first: MeterReport,
    every: Option<Duration>,
    is_json: bool,
) -> Result<()> {
    let mut report = first;
    loop {
        let text = match is_json {
            true => format!("{}\n", serde_json::to_string(&report)?),
            false => meter_table::text(&report, output_style::stdout_columns()),
        };
        write(&text)?;
        let Some(every) = every else { return Ok(()) };
        std::thread::sleep(every);
        match request_report(path) {
            Ok(next) => report = next,
            Err(_) => return Ok(()),
        }
    }
}

fn write(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        let times = ["1s", "500ms", "2"].map(|text| parse_time(text).unwrap().as_millis());
        assert_eq!(times, [1_000, 500, 2_000]);
        assert!(["", "s", "1h", "-1s", "5ms", "0"].iter().all(|text| parse_time(text).is_err()));
    }

    #[test]
    fn the_only_process_is_the_default() {
        let only_process = (7, PathBuf::from("/seven"));
        assert_eq!(
            choose(None, std::slice::from_ref(&only_process), false),
            Ok(only_process.1.clone())
        );
        assert_eq!(choose(Some(8), &[only_process], false), Err(Failure::NothingMeasured));
        assert_eq!(choose(None, &[], false), Err(Failure::NothingMeasured));
    }
}
