//! Benchmarks. Most of them measure plumb and a peer alternately in one run, and report a ratio.
//!
//! A single figure depends on the machine and its load. A ratio of two figures that are measured
//! alternately depends on them less. Every benchmark reports for each goal whether it is met. A
//! missed goal is a result, not a failure; only a measurement that cannot be made is a failure.

mod conditions;
mod driver;
mod echo;
mod files;
mod goodput;
mod in_process_echo;
mod login;
mod meter;
mod predict;
mod records;
mod rounds;
mod served;
mod sessions;
mod split;
mod stack;
mod steps;
mod telnetd;
mod terminal;
mod typing;
mod verdict;

use ::report::table::Table;
use anyhow::{Context, Result, bail};
use conditions::{Conditions, ProgramSet};
use serde_json::Value;
use sessions::SessionLoad;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use typing::Amount;

/// Usage of `cargo xtask bench`.
pub(crate) const USAGE: &str = "\
usage: ./x bench NAME [--rounds N] [--keys N] [--two-cores] [--json]

  echo     a key and its echo, and a screenful: inetutils telnet, plumb login, plumb login on a TUN
  predict  a key and a screenful 100 ms away: inetutils telnet, plumb login, and with prediction
  meter    cost of the meter: plumb login with and without it, and both ends in one process
  stack    plumb's TCP/IP, the kernel's and other user-space stacks; has options of its own
  goodput  goodput of plumb's TCP over lossy paths, in virtual time, with smoltcp's figures
  steps    processor time of a station between read and write, in one process
  terminal plumb's terminal and alacritty's on the same stream of bytes
  login    whole logins, client and server: plumb, other Telnet programs, ssh, mosh, socat
  flood    ^C while a program floods a slow display: inetutils telnet and plumb login
  sessions many concurrent sessions at plumb's login server, on one processor
  files    file transfers by FTP and TFTP: clients and servers of plumb and of other projects
  records  cost of a transfer's record, and cost of queries to the store
  split    delays of known length, and the accounts in which plumb measure reports them
  verdict  how often the first sentence of plumb measure names the cause; has its own options

  --rounds N     number of rounds, over which medians are taken (default 7, files 5; at least 1)
  --keys N       keys in each round (default 200, from 10 to 3000)
  --megabytes N  login: length of the long text (default 100, from 1 to 1000)
  --path WORD    login, flood: only the paths with WORD in their name; may be repeated
  --slowest KB   flood: only displays of at least this many KB/s (default 50); at 50 KB/s each
                 interrupt takes 15 to 80 s
  --sessions N   sessions: number of concurrent sessions (default 1000, at most 4000)
  --seconds N    sessions: duration of typing, one key per second and session (default 10)
  --records N    records: number of transfers in the store (default 10000000, at least 1000)
  --rows NAMES   files: only these rows, separated by commas: retr, stor, retr-tls, stor-tls,
                 many-retr, many-stor, one-retr, one-stor, one-retr-tls, one-stor-tls, words, tun,
                 records, idle, tftp
  --size MIB     files: size of the large file (default 1024; a quarter in TLS, words and tun)
  --files N      files: number of small files over 8 connections (default 4000; a fifth over one
                 connection, an eightieth over one in TLS)
  --logins N     files: number of idle logins (default 10000)
  --two-cores    run the servers on a processor other than that of driver and clients
  --json         print all data as JSON instead of tables";

/// Width of the tables in columns.
const WIDTH: usize = 110;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    amount: Amount,
    /// Substrings of the labels of the paths to measure; all paths if empty.
    paths: Vec<String>,
    /// Lowest display rate of a flood, in bytes per second.
    min_display_rate: u64,
    session_load: SessionLoad,
    /// Number of transfers in the store.
    records: usize,
    files: files::Amount,
    two_cores: bool,
    as_json: bool,
}

/// Runs the benchmark that `arguments` name, and prints its report.
///
/// # Errors
///
/// Returns an error if the arguments are wrong or something could not be measured, but not for a
/// missed goal.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let (name, rest) = arguments.split_first().context(USAGE)?;
    // Servers and shells would inherit an ignored SIGINT from the benchmark, and would not react to
    // ^C.
    os::process::reset_interrupts();
    match *name {
        "echo" | "meter" | "predict" if rest.contains(&"--help") => return print_text(USAGE),
        "goodput" if rest.contains(&"--help") => return print_text(goodput::USAGE),
        "goodput" => return goodput::run(rest),
        "stack" if rest.contains(&"--help") => return print_text(stack::USAGE),
        "stack" => return stack::run(root, rest),
        "steps" if rest.contains(&"--help") => return print_text(steps::USAGE),
        "steps" => return steps::run(rest),
        "stack-server" => return stack::serve(rest),
        "verdict" => return verdict::run(rest),
        _ => {}
    }
    let options = parse(rest)?;
    let benchmark: Benchmark = match *name {
        "echo" => |conditions, options| echo::run(conditions, options.amount),
        "meter" => |conditions, options| meter::run(conditions, options.amount),
        "predict" => |conditions, options| predict::run(conditions, options.amount),
        "split" => |conditions, options| split::run(conditions, options.amount),
        "terminal" => |conditions, options| terminal::run(conditions, options.amount),
        "login" => |conditions, options| login::run(conditions, options.amount, &options.paths),
        "flood" => |conditions, options| {
            let Options { amount, paths, min_display_rate, .. } = options;
            login::flood::run(conditions, *amount, paths, *min_display_rate)
        },
        "files" => |conditions, options| files::run(conditions, &options.files),
        "sessions" => |conditions, options| sessions::run(conditions, options.session_load),
        "records" => |conditions, options| {
            let Options { amount: Amount { rounds, .. }, records, .. } = *options;
            records::run(conditions, records::Archive { rounds, records })
        },
        _ => bail!("there is no benchmark '{}'\n{USAGE}", name.escape_debug()),
    };
    // The simulated users must not use the server's processor.
    let mut conditions = Conditions::set(options.two_cores || *name == "sessions")?;
    if *name == "split" {
        conditions = conditions.without_real_time()?;
    }
    let report = benchmark(&conditions, &options)?;
    report.print(&conditions, options.as_json)
}

type Benchmark = fn(&Conditions, &Options) -> Result<Report>;

fn print_text(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("the text cannot be written")
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let amount = Amount { rounds: 7, keys: 200, screenfuls: 5, megabytes: 100 };
    let session_load = SessionLoad { sessions: 1000, seconds: 10 };
    let mut options = Options {
        amount,
        paths: Vec::new(),
        min_display_rate: 0,
        session_load,
        records: 10_000_000,
        files: files::Amount::default(),
        two_cores: false,
        as_json: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--rounds" => {
                options.amount.rounds = number(words.next(), 1..=1000)?;
                options.files.rounds = options.amount.rounds;
            }
            // The line buffer of a terminal holds 4095 characters.
            "--keys" => options.amount.keys = number(words.next(), 10..=3000)?,
            "--megabytes" => options.amount.megabytes = number(words.next(), 1..=1000)?,
            "--path" => options.paths.push((*words.next().context(USAGE)?).to_owned()),
            "--slowest" => {
                options.min_display_rate = 1000 * number(words.next(), 1..=30_000)? as u64;
            }
            "--sessions" => options.session_load.sessions = number(words.next(), 1..=4000)?,
            "--seconds" => options.session_load.seconds = number(words.next(), 1..=1000)?,
            "--records" => options.records = number(words.next(), 1_000..=1_000_000_000)?,
            "--rows" => {
                let names = words.next().context(USAGE)?.split(',').map(str::to_owned);
                options.files.rows.extend(names);
            }
            "--size" => options.files.size_mib = number(words.next(), 4..=8192)?.try_into()?,
            "--files" => options.files.files = number(words.next(), 20..=99_999)?.try_into()?,
            "--logins" => options.files.logins = number(words.next(), 2..=19_000)?,
            "--two-cores" => options.two_cores = true,
            "--json" => options.as_json = true,
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    Ok(options)
}

fn number(word: Option<&&str>, allowed: std::ops::RangeInclusive<usize>) -> Result<usize> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| allowed.contains(number));
    number.with_context(|| {
        format!("expected a number from {} to {}\n{USAGE}", allowed.start(), allowed.end())
    })
}

/// Result of a benchmark.
#[derive(Debug)]
struct Report {
    title: String,
    program_set: ProgramSet,
    sections: Vec<Section>,
    verdicts: Vec<Verdict>,
    /// Congestion control of the connections.
    congestion: String,
    notes: Vec<String>,
}

/// One table of a report with its data.
#[derive(Debug)]
struct Section {
    heading: String,
    table: Table,
    data: Value,
}

/// Comparison of a figure with its goal.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    what: String,
    /// Largest accepted value.
    goal: f64,
    actual: Option<f64>,
    unit: &'static str,
}

impl Verdict {
    fn is_met(&self) -> Option<bool> {
        self.actual.map(|actual| actual <= self.goal)
    }

    fn text(&self) -> String {
        let Self { what, goal, unit, .. } = self;
        let (actual, verdict) = match (self.actual, self.is_met()) {
            (Some(actual), Some(true)) => (format!("{actual:.3}{unit}"), "met"),
            (Some(actual), _) => (format!("{actual:.3}{unit}"), "missed"),
            (None, _) => ("-".to_owned(), "not known"),
        };
        format!("{what}: {actual}, goal at most {goal:.2}{unit}: {verdict}")
    }
}

impl Report {
    fn print(&self, conditions: &Conditions, as_json: bool) -> Result<()> {
        let text = if as_json {
            format!("{:#}\n", self.to_json(conditions))
        } else {
            self.text(conditions)
        };
        std::io::stdout().write_all(text.as_bytes()).context("the report cannot be written")
    }

    fn text(&self, conditions: &Conditions) -> String {
        let mut text =
            format!("{}\n\n{}", self.title, conditions.text(self.program_set, &self.congestion));
        for section in &self.sections {
            // Writing to a String cannot fail.
            _ = write!(text, "\n{}\n\n{}", section.heading, section.table.render(WIDTH));
        }
        text.push('\n');
        for line in self.notes.iter().flat_map(|note| ::report::table::wrap(note, WIDTH)) {
            text.push_str(&line);
            text.push('\n');
        }
        for verdict in &self.verdicts {
            text.push_str(&verdict.text());
            text.push('\n');
        }
        text
    }

    fn to_json(&self, conditions: &Conditions) -> Value {
        let sections = self
            .sections
            .iter()
            .map(|section| serde_json::json!({ "heading": section.heading, "data": section.data }));
        let verdicts = self.verdicts.iter().map(|verdict| {
            serde_json::json!({
                "what": verdict.what,
                "goal_at_most": verdict.goal,
                "found": verdict.actual,
                "is_met": verdict.is_met(),
            })
        });
        serde_json::json!({
            "title": self.title,
            "conditions": conditions.to_json(&self.congestion),
            "sections": sections.collect::<Vec<_>>(),
            "verdicts": verdicts.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let options = parse(&["--json", "--keys", "50", "--rounds", "9", "--two-cores"]).unwrap();
        assert_eq!((options.amount.keys, options.amount.rounds), (50, 9));
        assert!(options.as_json && options.two_cores);
    }

    #[test]
    fn unknown_options_and_invalid_numbers_are_rejected() {
        for wrong in [&["--fast"][..], &["--keys"], &["--keys", "x"], &["--keys", "9"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_benchmark_is_rejected_before_any_setup() {
        assert!(run(Path::new("."), &["speed"]).unwrap_err().to_string().contains("usage"));
        assert!(run(Path::new("."), &[]).is_err());
    }

    #[test]
    fn a_goal_is_met_up_to_its_limit_and_unknown_is_neither() {
        let verdict = |actual| Verdict { what: "echo".into(), goal: 0.95, actual, unit: "" };
        assert_eq!(verdict(Some(0.95)).is_met(), Some(true));
        assert_eq!(verdict(Some(0.951)).text(), "echo: 0.951, goal at most 0.95: missed");
        assert_eq!(verdict(None).is_met(), None);
    }
}
