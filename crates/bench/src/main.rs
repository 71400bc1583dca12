//! Benchmarks of plumb and its peers: `./x bench NAME`; also `./x soak`.
//!
//! Most benchmarks measure plumb and a peer alternately in one run, and report a ratio. A single
//! figure depends on the machine and its load. A ratio of two figures that are measured alternately
//! depends on them less. Every benchmark reports for each goal whether it is met. A missed goal is
//! a result, not a failure; only a measurement that cannot be made is a failure.

mod conditions;
mod driver;
mod echo;
mod files;
mod gateway;
mod goodput;
mod in_process_echo;
mod login;
mod meter;

mod benchmark_report;
mod predict;
mod records;
mod rounds;
mod served;
mod sessions;
mod shared_options;
mod soak;
mod split;
mod stack;
mod steps;
mod telnetd;
mod terminal;
mod typing;
mod usage;
mod verdict;

use anyhow::{Context, Result, bail};
use benchmark_report::Report;
use conditions::Conditions;
use shared_options::Options;
use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use typing::Amount;
use usage::USAGE;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Cargo sets this variable at run time, so it is correct even after the directory has been
    // moved. Without cargo, `./x` starts the program in the root directory.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "crates/bench".into());
    let root = Path::new(&package).join("../..");
    let result = match arguments.as_slice() {
        ["soak", rest @ ..] => soak::run(rest),
        arguments => run(&root, arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmark that `arguments` name, and prints its report.
///
/// # Errors
///
/// Returns an error if the arguments are wrong or something could not be measured, but not for a
/// missed goal.
fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let (name, rest) = arguments.split_first().context(USAGE)?;
    // Servers and shells would inherit an ignored SIGINT from the benchmark, and would not react to
    // ^C.
    os::process::reset_interrupts();
    match *name {
        "echo" | "meter" | "predict" if rest.contains(&"--help") => return print_text(USAGE),
        "gateway" if rest.contains(&"--help") => return print_text(gateway::USAGE),
        "gateway" => return gateway::run(rest),
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
    let options = shared_options::parse(rest)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_benchmark_is_rejected_before_any_setup() {
        let error = |arguments: &[&str]| run(Path::new("."), arguments).unwrap_err().to_string();
        assert_eq!(error(&["speed"]), format!("there is no benchmark 'speed'\n{USAGE}"));
        assert_eq!(error(&[]), USAGE);
    }
}
