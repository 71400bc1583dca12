//! `bench login`: whole logins with client and server: a key, a screenful, and a long text.
//!
//! Each path has a client and a server from one project or from two; all run a shell. For
//! comparison there are ssh, mosh, and socat, which only relays bytes between two terminals. The
//! goals are ratios within a round to the best third-party Telnet.

mod desk;
pub(super) mod flood;
mod folder;
mod path;
mod report;

pub(super) use desk::start_server;

use super::Report;
use super::conditions::Conditions;
use super::driver::Transfer;
use super::rounds::{Round, Rounds};
use super::typing::{Amount, SEED, Screen, Typist, show_by_turns, type_by_turns};
use anyhow::{Context, Result, ensure};
use desk::Desk;
use path::Path;
use protocols::chance::Chance;
use records::figures::UNKNOWN;
use std::io::{self, Write};

/// Measures all paths whose label contains one of `words`, or all.
pub(super) fn run(conditions: &Conditions, amount: Amount, words: &[String]) -> Result<Report> {
    let mut desk = Desk::new(conditions.pinning())?;
    let (mut paths, mut notes) = (Vec::new(), Vec::new());
    for path in Path::all() {
        let is_wanted = words.iter().any(|word| path.label.contains(word.as_str()));
        if !words.is_empty() && !is_wanted {
            continue;
        }
        match desk.prepare(&path) {
            Ok(()) => paths.push(path),
            Err(error) => notes.push(format!("Left out: {}: {error:#}.", path.label)),
        }
    }
    ensure!(!paths.is_empty(), "no way to log in is left: {}", notes.join(" "));
    let measured = measure(&desk, &paths, amount, conditions)?;
    Ok(report::of(&paths, &measured, amount, notes))
}

/// The congestion control of the bench's network.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn congestion() -> String {
    let control = std::fs::read_to_string(CONGESTION);
    format!(
        "{} (kernel's sockets); our own TCP on the TUN has its profile for a keyboard",
        control.map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
    )
}

fn measure(
    desk: &Desk,
    paths: &[Path],
    amount: Amount,
    conditions: &Conditions,
) -> Result<Vec<Rounds>> {
    let (long, characters) = desk.folder.write_long_text(amount.megabytes)?;
    let screen = Screen::new()?;
    let mut chance = Chance::from_seed(SEED);
    let mut results: Vec<Rounds> = paths.iter().map(|path| Rounds::new(path.label)).collect();
    for number in 1..=amount.rounds {
        conditions.run_in_real_time()?;
        let echoes = type_by_turns(open(desk, paths)?, amount.keys, &mut chance)?;
        conditions.run_as_ordinary()?;
        let whole: Vec<_> = paths.iter().filter(|path| path.shows_everything()).cloned().collect();
        let screens =
            show_by_turns(open(desk, &whole)?, amount.screenfuls, &screen.0, &mut chance)?;
        let mut screens = screens.into_iter();
        for ((path, result), echoes) in paths.iter().zip(&mut results).zip(echoes) {
            let shown = if path.shows_everything() { screens.next() } else { None };
            let Round { screenful_ns, key_to_screen_ns, .. } = shown.unwrap_or_default();
            let transfer = match path.shows_everything() {
                true => Some(transfer(desk, path, &long, characters)?),
                false => None,
            };
            result.rounds.push(Round { screenful_ns, key_to_screen_ns, transfer, ..echoes });
        }
        // Progress output; a closed stderr is ignored.
        _ = writeln!(io::stderr(), "round {number} of {} done", amount.rounds);
    }
    Ok(results)
}

fn open<'a>(desk: &Desk, paths: &'a [Path]) -> Result<Vec<Typist<'a>>> {
    let typist = |path: &'a Path| {
        let session = desk.open(path).with_context(|| format!("cannot log in: {}", path.label))?;
        Ok(Typist::new(path.label, session))
    };
    paths.iter().map(typist).collect()
}

fn transfer(
    desk: &Desk,
    path: &Path,
    long: &std::path::Path,
    characters: usize,
) -> Result<Transfer> {
    let transferred = desk.open(path).and_then(|mut session| session.transfer(long, characters));
    transferred.with_context(|| format!("no long text: {}", path.label))
}
