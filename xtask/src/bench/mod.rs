//! Benchmarks: plumb and a peer, interleaved in one run, reported as a ratio.
//!
//! A single figure from one machine on one day means little; a ratio of two figures measured
//! alternately means more. So every benchmark also measures its peer, prints the spread of the
//! ratio and the conditions, and reports for each goal whether it is met. A missed goal is a
//! result, not a failure; only a measurement that cannot be made is a failure.

mod conditions;
mod driver;
mod echo;
mod files;
mod goodput;
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
mod wire;

use ::records::table::Table;
use anyhow::{Context, Result, bail};
use conditions::{Cast, Conditions};
use serde_json::Value;
use sessions::Crowd;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use typing::Amount;

/// Usage of `cargo xtask bench`.
pub(crate) const USAGE: &str = "\
usage: ./x bench NAME [--rounds N] [--keys N] [--two-cores] [--json]

  echo     a key and its echo, and a screenful: inetutils telnet, plumb login, plumb login on a TUN
  predict  a key and a screenful 100 ms away: inetutils telnet, plumb login, and with prediction
  meter    what the meter costs: plumb login with and without it, and both ends in one process
  stack    our TCP/IP, the kernel's, and other stacks in user space; it has options of its own
  goodput  what arrives over paths that lose packets, in virtual time, beside smoltcp's figures
  steps    what a station costs between read and write, in one process
  terminal our terminal on a stream of bytes, beside alacritty's
  login    whole logins, both ends: Telnet of others and ours, ssh, mosh, and bytes alone
  flood    ^C while a program floods a slow display: inetutils telnet and plumb login
  sessions many sessions at once at our login server, on one processor
  files    files by FTP and TFTP, both ends, of ours and of others
  records  what the record of a transfer costs, and what questions to the store cost
  split    delays of known length, and the accounts of an echo in which measure finds them
  verdict  whether the first sentence of plumb measure names the cause; it has options of its own

  --rounds N     rounds, of which medians are taken (default 7, of files 5; at least 1)
  --keys N       keys in each round (default 200, from 10 to 3000)
  --megabytes N  the long text of login (default 100, from 1 to 1000)
  --path WORD    of login only the ways with this word in their name; may be repeated
  --slowest KB   of flood only displays of at least so many KB/s (default 50); at 50 KB/s each
                 interrupt takes 15 to 80 s
  --sessions N   how many sessions at once (default 1000, at most 4000)
  --seconds N    for how long each of them gets a key in every second (default 10)
  --records N    how many transfers are in the store (default 10000000, at least 1000)
  --rows NAMES   of files only these rows, with commas in between: retr, stor, retr-tls, stor-tls,
                 many-retr, many-stor, one-retr, one-stor, one-retr-tls, one-stor-tls, words, tun,
                 records, idle, tftp
  --size MIB     the large file of files (default 1024; a quarter of it in TLS, words and tun)
  --files N      the small files of files over 8 connections (default 4000; a fifth of it over
                 one, an eightieth over one in TLS)
  --logins N     the idle logins of files (default 10000)
  --two-cores    the servers on another processor than driver and clients
  --json         all data as JSON instead of tables";

/// Width of the tables, columns.
const WIDTH: usize = 110;

/// Options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    amount: Amount,
    /// Parts of the labels of the paths to measure; all if empty.
    paths: Vec<String>,
    /// Lowest display rate of a flood, in bytes per second.
    slowest: u64,
    crowd: Crowd,
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
        "echo" | "meter" | "predict" if rest.contains(&"--help") => return say(USAGE),
        "goodput" if rest.contains(&"--help") => return say(goodput::USAGE),
        "goodput" => return goodput::run(rest),
        "stack" if rest.contains(&"--help") => return say(stack::USAGE),
        "stack" => return stack::run(root, rest),
        "steps" if rest.contains(&"--help") => return say(steps::USAGE),
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
            let Options { amount, paths, slowest, .. } = options;
            login::flood::run(conditions, *amount, paths, *slowest)
        },
        "files" => |conditions, options| files::run(conditions, &options.files),
        "sessions" => |conditions, options| sessions::run(conditions, options.crowd),
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

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("the text cannot be written")
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let amount = Amount { rounds: 7, keys: 200, screenfuls: 5, megabytes: 100 };
    let crowd = Crowd { sessions: 1000, seconds: 10 };
    let mut options = Options {
        amount,
        paths: Vec::new(),
        slowest: 0,
        crowd,
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
            "--slowest" => options.slowest = 1000 * number(words.next(), 1..=30_000)? as u64,
            "--sessions" => options.crowd.sessions = number(words.next(), 1..=4000)?,
            "--seconds" => options.crowd.seconds = number(words.next(), 1..=1000)?,
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
            _ => bail!("'{}' is not understood\n{USAGE}", word.escape_debug()),
        }
    }
    Ok(options)
}

fn number(word: Option<&&str>, allowed: std::ops::RangeInclusive<usize>) -> Result<usize> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| allowed.contains(number));
    number.with_context(|| {
        format!("a number from {} to {} is wanted\n{USAGE}", allowed.start(), allowed.end())
    })
}

/// Result of a benchmark.
#[derive(Debug)]
struct Report {
    title: String,
    cast: Cast,
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
    found: Option<f64>,
    unit: &'static str,
}

impl Verdict {
    fn is_met(&self) -> Option<bool> {
        self.found.map(|found| found <= self.goal)
    }

    fn text(&self) -> String {
        let Self { what, goal, unit, .. } = self;
        let (found, verdict) = match (self.found, self.is_met()) {
            (Some(found), Some(true)) => (format!("{found:.3}{unit}"), "met"),
            (Some(found), _) => (format!("{found:.3}{unit}"), "missed"),
            (None, _) => ("-".to_owned(), "not known"),
        };
        format!("{what}: {found}, goal at most {goal:.2}{unit}: {verdict}")
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
            format!("{}\n\n{}", self.title, conditions.text(self.cast, &self.congestion));
        for section in &self.sections {
            // Writing to a String cannot fail.
            _ = write!(text, "\n{}\n\n{}", section.heading, section.table.render(WIDTH));
        }
        text.push('\n');
        for line in self.notes.iter().flat_map(|note| ::records::table::wrap(note, WIDTH)) {
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
                "found": verdict.found,
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
    fn what_is_no_option_or_no_number_is_refused() {
        for wrong in [&["--fast"][..], &["--keys"], &["--keys", "x"], &["--keys", "9"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_benchmark_that_does_not_exist_is_refused_before_anything_is_set() {
        assert!(run(Path::new("."), &["speed"]).unwrap_err().to_string().contains("usage"));
        assert!(run(Path::new("."), &[]).is_err());
    }

    #[test]
    fn a_goal_is_met_up_to_its_limit_and_unknown_is_neither() {
        let verdict = |found| Verdict { what: "echo".into(), goal: 0.95, found, unit: "" };
        assert_eq!(verdict(Some(0.95)).is_met(), Some(true));
        assert_eq!(verdict(Some(0.951)).text(), "echo: 0.951, goal at most 0.95: missed");
        assert_eq!(verdict(None).is_met(), None);
    }
}
