//! `bench predict`: a key and a screenful at a server with a round trip of 100 ms, with and without
//! prediction.
//!
//! The client in the last row connects to `plumb serve`, which acknowledges echoes; the other
//! clients connect to inetutils telnetd. The program compared with plumb is the Telnet client of
//! inetutils, which displays a key when its echo arrives. A relay between client and server delays
//! everything by 50 ms in each direction. The time of a key ends when its character is read from
//! the client's terminal, whether it was predicted or echoed; the client's own status reports at
//! the end of a round how many predictions were correct.

mod relay;

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::driver::{Session, screen_text};
use super::login::start_server;
use super::rounds::{Round, Rounds, micros, millis};
use super::telnetd::{Kind, Listener, on_server_processor, program, set_environment, shell};
use super::typing::{Amount, plumb};
use anyhow::{Context, Result};
use net::time::Duration;
use os::clock::Monotonic;
use os::readiness::wait;
use records::format::{UNKNOWN, share};
use records::statistics::median;
use relay::LoopbackRelay;
use report::table::Table;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Command;

/// One-way delay.
const ONE_WAY_DELAY: Duration = Duration::from_millis(50);
/// Time from one key to the next, if the client displays keys at once: ten keys per second.
const KEY_INTERVAL: Duration = Duration::from_millis(100);
/// A key displayed in less than this time was predicted, not echoed.
const PREDICTED_MAX_NS: u64 = 50_000_000;
const KEY_GOAL_MS: f64 = 1.0;
const SCREENFUL_GOAL_MS: f64 = 105.0;
/// Number of keys that fit after the prompt in a line of 80 columns.
const LINE_KEYS: usize = 60;
/// Keys to type. They do not include m, which ends SGR sequences.
const KEYS: &[u8] = b"abcdefghijklnopqrstuvwxyz";
const SCREENFULS_MAX: usize = 2;

/// Client program and its prediction mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Inetutils,
    Plumb(&'static str),
    /// plumb with `plumb serve`, which acknowledges echoes.
    PlumbServed,
}

const CLIENTS: [(&str, Client); 4] = [
    ("inetutils telnet", Client::Inetutils),
    ("plumb login --predict never", Client::Plumb("never")),
    ("plumb login --predict auto", Client::Plumb("auto")),
    ("plumb login --predict auto > plumb serve", Client::PlumbServed),
];
const PREDICTED: usize = 2;

#[derive(Debug, Default)]
struct Measured {
    rounds: Vec<Round>,
    keys: u64,
    predicted_keys: u64,
    wrong: u64,
    displayed_wrong: u64,
}

/// Measures all clients.
pub(super) fn run(conditions: &Conditions, amount: Amount) -> Result<Report> {
    let listener = Listener::open(Kind::Inetutils, conditions.pinning())?;
    let relay = LoopbackRelay::open(listener.port()?, ONE_WAY_DELAY)?;
    let mut serve = Command::new(plumb()?);
    serve.args(["serve", "--json", "--listen", "127.0.0.1:0", "--exec"]).arg(shell()).arg("-i");
    set_environment(&mut serve);
    let started = on_server_processor(conditions.pinning(), || start_server(serve));
    let (_server, port) = started?;
    let plumb_relay = LoopbackRelay::open(port, ONE_WAY_DELAY)?;
    let place = |client: Client| match client {
        Client::PlumbServed => (plumb_relay.port, None),
        _ => (relay.port, Some(&listener)),
    };
    let mut measured = CLIENTS.map(|_| Measured::default());
    let keys = amount.keys.min(LINE_KEYS);
    for number in 1..=amount.rounds {
        for ((_, client), measured) in CLIENTS.iter().zip(&mut measured) {
            conditions.run_in_real_time()?;
            let (port, called) = place(*client);
            let mut session = Session::open(client.command(port)?, called)?;
            measured.type_keys(&mut session, keys)?;
            if *client != Client::Inetutils {
                measured.read_status(&mut session)?;
            }
            drop(session);
            conditions.run_as_ordinary()?;
            let mut session = Session::open(client.command(port)?, called)?;
            measured.measure_screenfuls(&mut session, amount.screenfuls.min(SCREENFULS_MAX))?;
        }
        // Progress output; a closed stderr is ignored.
        _ = writeln!(std::io::stderr(), "round {number} of {} done", amount.rounds);
    }
    let labeled_measurements = CLIENTS.iter().zip(measured);
    let paths: Vec<_> = labeled_measurements
        .map(|((label, _), measured)| {
            let rounds = Rounds { label: (*label).to_owned(), rounds: measured.rounds.clone() };
            (rounds, measured)
        })
        .collect();
    let kernel = listener.congestion_control().unwrap_or_else(|| UNKNOWN.to_owned());
    Ok(Report {
        program_set: ProgramSet::Login,
        title: "bench predict: from a key to its display, 100 ms from the server".to_owned(),
        sections: vec![section(&paths, amount.rounds, keys)],
        verdicts: verdicts(&paths),
        congestion: format!("{kernel} (kernel's sockets)"),
        notes: vec![format!(
            "A relay delays all bytes by {} ms in each direction; the next key follows {} ms \
             after the previous one was displayed.",
            ONE_WAY_DELAY.as_millis(),
            KEY_INTERVAL.as_millis()
        )],
    })
}

impl Client {
    fn command(self, port: u16) -> Result<Command> {
        let port = port.to_string();
        let mut command = match self {
            Self::Inetutils => {
                let own = program("inetutils-telnet", "inetutils-telnet");
                let path = own.or_else(|_| program("telnet", "inetutils-telnet"))?;
                let mut command = Command::new(path);
                command.args(["127.0.0.1", &port]);
                command
            }
            Self::Plumb(_) | Self::PlumbServed => {
                let predict = if let Self::Plumb(predict) = self { predict } else { "auto" };
                let mut command = Command::new(plumb()?);
                command.args(["login", "127.0.0.1", &port, "--predict", predict]);
                command
            }
        };
        set_environment(&mut command);
        Ok(command)
    }
}

impl Measured {
    fn type_keys(&mut self, session: &mut Session, keys: usize) -> Result<()> {
        let mut round = Round::default();
        for key in KEYS.iter().cycle().take(keys) {
            let display_ns = session.echo(*key)?;
            self.keys += 1;
            self.predicted_keys += u64::from(display_ns < PREDICTED_MAX_NS);
            round.echo_ns.push(display_ns);
            rest(KEY_INTERVAL)?;
        }
        self.rounds.push(round);
        Ok(())
    }

    fn read_status(&mut self, session: &mut Session) -> Result<()> {
        rest(KEY_INTERVAL * 2)?;
        let status = session.ask(b"\x1dstatus\r", "CPU time")?;
        if let Some((wrong, displayed_wrong)) = wrong_counts(&status) {
            self.wrong += wrong;
            self.displayed_wrong += displayed_wrong;
        }
        Ok(())
    }

    fn measure_screenfuls(&mut self, session: &mut Session, screenfuls: usize) -> Result<()> {
        let file = std::env::temp_dir().join(format!("plumb-bench-{}", std::process::id()));
        std::fs::write(&file, screen_text()).with_context(|| format!("cannot write {file:?}"))?;
        for _ in 0..screenfuls {
            let screenful_times = session.screenful(&file, || KEY_INTERVAL)?;
            if let Some(round) = self.rounds.last_mut() {
                round.screenful_ns.push(screenful_times.first_to_last_ns);
                round.key_to_screen_ns.push(screenful_times.key_to_last_ns);
            }
        }
        std::fs::remove_file(&file).context("the file of the screen cannot be removed")
    }
}

fn rest(time: Duration) -> Result<()> {
    let clock = Monotonic::start();
    wait(&mut [], &clock, Some(clock.now() + time))?;
    Ok(())
}

/// Parses the number of wrong predictions, and the number of displayed wrong predictions, from
/// `status`.
fn wrong_counts(status: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let at = words.windows(2).position(|two| matches!(two, ["was" | "were", "wrong"]))?;
    let displayed = words.get(at + 2)?.strip_prefix('(')?;
    Some((words.get(at.checked_sub(1)?)?.parse().ok()?, displayed.parse().ok()?))
}

fn section(paths: &[(Rounds, Measured)], rounds: usize, keys: usize) -> Section {
    let mut table = Table::new()
        .text("path")
        .number("key p50 (µs)")
        .number("p90 (µs)")
        .number("p99 (µs)")
        .number("at once")
        .number("wrong")
        .number("wrong, displayed")
        .number("screenful, from Enter (ms)");
    for (path, measured) in paths {
        let is_plumb = path.label.starts_with("plumb");
        let known = |count: u64| if is_plumb { count.to_string() } else { UNKNOWN.to_owned() };
        table.row([
            path.label.clone(),
            micros(path.median_of(|round| round.echo(50))),
            micros(path.median_of(|round| round.echo(90))),
            micros(path.median_of(|round| round.echo(99))),
            share(measured.predicted_keys, measured.keys),
            known(measured.wrong),
            known(measured.displayed_wrong),
            millis(path.median_of(|round| median(&round.key_to_screen_ns))),
        ]);
    }
    let data: Vec<Value> = paths.iter().map(|(path, measured)| data(path, measured)).collect();
    let heading = format!(
        "server: inetutils telnetd, or plumb serve, behind 100 ms; {rounds} rounds of {keys} keys, medians of the \
         rounds"
    );
    Section { heading, table, data: json!({ "paths": data }) }
}

fn data(path: &Rounds, measured: &Measured) -> Value {
    let mut data = path.to_json();
    if let Some(data) = data.as_object_mut() {
        data.insert("keys".to_owned(), measured.keys.into());
        data.insert("keys_at_once".to_owned(), measured.predicted_keys.into());
        data.insert("wrong".to_owned(), measured.wrong.into());
        data.insert("wrong_seen".to_owned(), measured.displayed_wrong.into());
    }
    data
}

fn verdicts(paths: &[(Rounds, Measured)]) -> Vec<Verdict> {
    let predicted = paths.get(PREDICTED).map(|(path, _)| path);
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    let key = predicted.and_then(|path| path.median_of(|round| round.echo(50)));
    let screen = predicted.and_then(|path| path.median_of(|round| median(&round.key_to_screen_ns)));
    let verdict =
        |what: &str, goal, actual| Verdict { what: what.into(), goal, actual, unit: " ms" };
    vec![
        verdict("a predicted key, p50", KEY_GOAL_MS, ms(key)),
        verdict("a screenful, from Enter", SCREENFUL_GOAL_MS, ms(screen)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_predictions_are_read_from_the_status() {
        let status = "Of 20 predictions, 12 were confirmed, 3 were\r\nwrong (1 of them displayed), and 5 were \
                      dropped untested.";
        assert_eq!(wrong_counts(status), Some((3, 1)));
        assert_eq!(wrong_counts("Echo is not predicted."), None);
    }

    #[test]
    fn the_goals_are_those_of_the_predicting_client() {
        let round =
            |ns| Round { echo_ns: vec![ns], key_to_screen_ns: vec![ns], ..Round::default() };
        let path =
            |ns| (Rounds { label: "a".into(), rounds: vec![round(ns)] }, Measured::default());
        let verdicts = verdicts(&[path(1), path(1), path(2_000_000)]);
        let met: Vec<_> = verdicts.iter().map(Verdict::is_met).collect();
        assert_eq!(met, [Some(false), Some(true)]);
    }
}
