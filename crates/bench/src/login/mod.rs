//! `bench login`: whole logins with client and server: a key, a screenful, and a long text.
//!
//! Each path has a client and a server from one project or from two; all run a shell. For
//! comparison the bench also measures ssh, mosh, and socat, which only relays bytes between two
//! terminals. The goals are ratios, within a round, to the best third-party Telnet pair.

mod arguments;
mod congestion;
pub(super) mod flood;
mod harness;
mod login_report;
mod path;
mod temporary_directory;

pub(super) use harness::start_server;

use super::benchmark_report::Report;
use super::conditions::Conditions;
use super::driver::Transfer;
use super::rounds::{Round, Rounds};
use super::typing::{Amount, SEED, Screen, TypedSession, show_interleaved, type_interleaved};
use anyhow::{Context, Result, ensure};
use harness::Harness;
use net::rng::Rng;
use path::Path;
use std::io::{self, Write};

/// Measures the paths whose label contains one of `filters`, or all paths if `filters` is empty.
pub(super) fn run(conditions: &Conditions, amount: Amount, filters: &[String]) -> Result<Report> {
    let mut harness = Harness::new(conditions.pinning())?;
    let mut paths = Vec::new();
    let mut notes = Vec::new();
    for path in Path::all() {
        let is_wanted = filters.iter().any(|filter| path.label.contains(filter.as_str()));
        if !filters.is_empty() && !is_wanted {
            continue;
        }
        match harness.prepare(&path) {
            Ok(()) => paths.push(path),
            Err(error) => notes.push(format!("Left out: {}: {error:#}.", path.label)),
        }
    }
    ensure!(!paths.is_empty(), "no path can be measured: {}", notes.join(" "));
    let measured = measure(&harness, &paths, amount, conditions)?;
    Ok(login_report::create(&paths, &measured, amount, notes))
}

fn measure(
    harness: &Harness,
    paths: &[Path],
    amount: Amount,
    conditions: &Conditions,
) -> Result<Vec<Rounds>> {
    let (long_text, characters) = harness.directory.write_long_text(amount.megabytes)?;
    let screen = Screen::new()?;
    let mut rng = Rng::from_seed(SEED);
    let mut results: Vec<Rounds> = paths.iter().map(|path| Rounds::new(path.label)).collect();
    for number in 1..=amount.rounds {
        conditions.run_in_real_time()?;
        let echoes = type_interleaved(open(harness, paths)?, amount.keys, &mut rng)?;
        conditions.run_as_ordinary()?;
        let complete_paths: Vec<_> =
            paths.iter().filter(|path| path.displays_all_output()).cloned().collect();
        let screens = show_interleaved(
            open(harness, &complete_paths)?,
            amount.screenfuls,
            &screen.0,
            &mut rng,
        )?;
        let mut screens = screens.into_iter();
        for ((path, result), echoes) in paths.iter().zip(&mut results).zip(echoes) {
            let screenful = if path.displays_all_output() { screens.next() } else { None };
            let Round { screenful_ns, key_to_screen_ns, .. } = screenful.unwrap_or_default();
            let transfer = match path.displays_all_output() {
                true => Some(transfer(harness, path, &long_text, characters)?),
                false => None,
            };
            result.rounds.push(Round { screenful_ns, key_to_screen_ns, transfer, ..echoes });
        }
        // Progress output; a closed stderr is ignored.
        _ = writeln!(io::stderr(), "round {number} of {} done", amount.rounds);
    }
    Ok(results)
}

fn open<'a>(harness: &Harness, paths: &'a [Path]) -> Result<Vec<TypedSession<'a>>> {
    let typed_session = |path: &'a Path| {
        let session =
            harness.open(path).with_context(|| format!("cannot log in: {}", path.label))?;
        Ok(TypedSession::new(path.label, session))
    };
    paths.iter().map(typed_session).collect()
}

fn transfer(
    harness: &Harness,
    path: &Path,
    long_text: &std::path::Path,
    characters: usize,
) -> Result<Transfer> {
    let transferred =
        harness.open(path).and_then(|mut session| session.transfer(long_text, characters));
    transferred.with_context(|| format!("cannot transfer the long text: {}", path.label))
}
