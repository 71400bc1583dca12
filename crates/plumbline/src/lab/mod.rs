//! `plumb lab`: the experiments of the papers in virtual time; control structures also in real
//! time.

mod control;
mod live_tables;
mod today;
mod tun_session;

use crate::exit::{self, Failure};
use crate::heading;
use crate::manual::ManualPage;
use crate::manual::entries::{COLUMNS, HOME, JOURNAL, STATE, STORE};
use crate::measure::status_display;
use crate::output_style;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use laboratory::comparison_tables;
use laboratory::experiment::Experiment;
use laboratory::paper_scenario::{self, Paper, Scenario};
use laboratory::rfc594::Today;
use laboratory::table::Table;
use laboratory::tm233;
use measure::ProgressLine;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use transfer::recorder::records_directory;

/// File of the running program.
const PROGRAM: &str = "/proc/self/exe";

/// Manual page of `plumb lab`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "lab",
    examples: &[
        "plumb lab tm233",
        "plumb lab tm233 --print-scenario > mine.toml",
        "plumb lab tm233 --scenario mine.toml --json",
        "plumb lab tm233 --live",
        "plumb lab rfc573 --print-scenario | grep -A 3 strata",
    ],
    notes: &[],
    exit_status: &[
        (0, "Success"),
        (2, "Invalid arguments or scenario"),
        (3, "An experiment stalled"),
        (4, "The scenario cannot be read"),
    ],
    environment: &[&[COLUMNS, STATE, HOME]],
    files: &[JOURNAL, STORE],
    see_also: &["demo", "stats"],
};

/// Arguments of `plumb lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Experiment to run
    #[arg(value_enum, value_name = "tm233|rfc573|rfc594|multics|control")]
    name: Name,
    /// Read the scenario from this TOML file instead of the built-in one; the figures quoted from
    /// the papers do not change
    #[arg(long, value_name = "file")]
    scenario: Option<PathBuf>,
    /// Print the scenario without running the experiment
    #[arg(long, conflicts_with = "json")]
    print_scenario: bool,
    /// RFC 594: first repeat the transfers on this machine, over loopback, without recording them
    /// for plumb stats
    #[arg(long)]
    today: bool,
    /// TM-233: also run the experiments at the concentrator on this machine, with the gateway of
    /// this program, in about three minutes; requires root and a Telnet server
    #[arg(long)]
    live: bool,
    /// Print the figures as JSON
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Two personal computers on a serial line, and foreign hosts, with the costs of 1982 (TM-233,
    /// chapter 6).
    Tm233,
    /// A survey of the availability of hosts during a year, and 304 file transfers of 1973 (RFC
    /// 573).
    Rfc573,
    /// The speedup of a host-IMP interface, and the resulting gain for file transfers (RFC 594).
    Rfc594,
    /// The cost of a message to the Network Daemon of Multics, and the savings of each proposal.
    Multics,
    /// Procedures, tasks and futures as control structures: on this machine, and with the costs of
    /// 1982 (TM-233, chapter 4).
    Control,
}

impl Name {
    /// Returns the paper that the tables reproduce; `None` for experiments on this machine only.
    const fn paper(self) -> Option<Paper> {
        Some(match self {
            Self::Tm233 => Paper::Tm233,
            Self::Rfc573 => Paper::Rfc573,
            Self::Rfc594 => Paper::Rfc594,
            Self::Multics => Paper::Multics,
            Self::Control => return None,
        })
    }
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let Some(paper) = arguments.name.paper() else {
        if arguments.scenario.is_some() || arguments.print_scenario {
            exit::print_error(&anyhow!(
                "control runs on this machine and has no scenario: omit --scenario and \
                 --print-scenario"
            ));
            return Err(Failure::WrongArguments);
        }
        return control::run(arguments.json);
    };
    if arguments.today && !matches!(paper, Paper::Rfc594) {
        exit::print_error(&anyhow!("--today is valid only for rfc594"));
        return Err(Failure::WrongArguments);
    }
    if arguments.live && !matches!(paper, Paper::Tm233) {
        exit::print_error(&anyhow!("--live is valid only for tm233"));
        return Err(Failure::WrongArguments);
    }
    let text = scenario_text(paper, arguments.scenario.as_deref())?;
    if arguments.print_scenario {
        print(&text);
        return Ok(());
    }
    let mut experiment = experiment(paper, arguments, &text)?;
    if matches!(paper, Paper::Tm233) {
        experiment.tables.push(tm233::data_table());
        // Without symbols, only the other tables are printed.
        experiment.tables.extend(code_sizes(Path::new(PROGRAM)));
    }
    if arguments.live {
        experiment.tables.extend(live_tables::tables(&text, Path::new(PROGRAM)));
    }
    let today_figures = today(paper, arguments).map_err(|error| {
        exit::print_error(&error);
        Failure::ThisMachine
    })?;
    print(&if arguments.json {
        comparison_tables::json(&experiment, today_figures.as_ref())
    } else {
        let width = output_style::stdout_columns();
        let today_text = today_figures.map(|figures| format!("\n{}", figures.text(width)));
        comparison_tables::text(&experiment, width) + &today_text.unwrap_or_default()
    });
    Ok(())
}

/// Returns the table of code sizes, from the symbols of `program` or of its debug file.
///
/// A package strips `plumb` and installs the symbols in a debug file: `plumb.debug` beside the
/// program, or the same path below `/usr/lib/debug`, which are the names where gdb looks for one.
fn code_sizes(program: &Path) -> Option<Table> {
    let table = |path: &Path| tm233::code_size_table(&File::open(path).ok()?).ok();
    table(program).or_else(|| {
        let mut name = fs::canonicalize(program).ok()?.into_os_string();
        name.push(".debug");
        let beside = PathBuf::from(name);
        let below = Path::new("/usr/lib/debug").join(beside.strip_prefix("/").ok()?);
        table(&beside).or_else(|| table(&below))
    })
}

fn scenario_text(paper: Paper, file: Option<&Path>) -> Result<String, Failure> {
    let Some(file) = file else { return Ok(paper_scenario::built_in(paper).to_owned()) };
    fs::read_to_string(file).map_err(|error| {
        let name = file.display().to_string();
        let is_forbidden = error.kind() == ErrorKind::PermissionDenied;
        exit::print_error(&anyhow!(error).context(format!("cannot read the scenario {name}")));
        if is_forbidden { Failure::ThisMachine } else { Failure::WrongArguments }
    })
}

/// Returns the current measurements for RFC 594: new transfers with `--today`, or the recorded
/// transfers, if any.
fn today(paper: Paper, arguments: &Arguments) -> Result<Option<Today>> {
    match (paper, arguments.today) {
        (Paper::Rfc594, true) => today::measure_now().map(Some),
        // Without records the paper's figures are printed alone.
        (Paper::Rfc594, false) => Ok(today::recorded_in(&records_directory()).ok().flatten()),
        _ => Ok(None),
    }
}

fn print(text: &str) {
    // Ignored: the reader has closed the pipe.
    _ = std::io::stdout().write_all(text.as_bytes());
}

fn experiment(paper: Paper, arguments: &Arguments, text: &str) -> Result<Experiment, Failure> {
    let scenario_result = Scenario::read(paper, text);
    let file =
        || arguments.scenario.as_ref().map_or("built-in".into(), |path| path.display().to_string());
    let scenario = scenario_result.map_err(|why| {
        exit::print_error(&anyhow!(why).context(format!("invalid scenario {}", file())));
        Failure::WrongArguments
    })?;
    let mut progress = ProgressLine::new(status_display());
    progress.show("simulating in virtual time");
    progress.paint();
    let run = scenario.run();
    progress.clear();
    run.map_err(|error| {
        exit::print_error(&anyhow!(error).context("the experiment stalled"));
        Failure::NothingMeasured
    })
}

#[cfg(test)]
mod tests;
