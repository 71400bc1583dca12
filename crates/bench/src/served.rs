//! The cost of the meters of `plumb serve` for its sessions: off, on but not read, and on while
//! `plumb meters --every 1s` reads them.
//!
//! Each round starts a new server for each of the three modes, with one session of `plumb login`
//! whose own meter is off. The sessions receive keys in turn.

use super::benchmark_report::{Section, Verdict};
use super::conditions::Conditions;
use super::driver::{Server, Session};
use super::login::start_server;
use super::rounds::{Ratio, Rounds, micros};
use super::telnetd::{on_server_processor, set_environment, shell};
use super::typing::{Amount, SEED, TypedSession, plumb, type_interleaved};
use anyhow::{Context, Result};
use net::rng::Rng;
use os::process::Program;
use report::table::Table;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Largest ratio of the echo time with the meter on to the time with the meter off.
const GOAL: f64 = 1.03;
/// Largest ratio of the echo time while the meter is read to the time while it is not read: a
/// difference too small to be measured.
const READ_GOAL: f64 = 1.01;

/// Mode of a server's meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meter {
    Off,
    Unread,
    Read,
}

const METERS: [(Meter, &str); 3] = [
    (Meter::Off, "plumb serve, meter off"),
    (Meter::Unread, "plumb serve, meter on, unread"),
    (Meter::Read, "plumb serve, meter on, read every second"),
];

/// Rounds of each mode, in the order of [`METERS`].
pub(super) struct MeteredRounds([Rounds; 3]);

/// A session, and the process that reads the meters of the session's server and ends with the
/// session.
type SessionWithReader = (Session, Option<Program>);

fn open(meter: Meter, conditions: &Conditions) -> Result<SessionWithReader> {
    let start_server_process = || {
        let mut command = Command::new(plumb()?);
        command
            .args(["serve", "--json", "--tls", "off", "--listen", "127.0.0.1:0", "--exec"])
            .arg(shell())
            .arg("-i");
        set_environment(&mut command);
        if meter == Meter::Off {
            command.env("PLUMB_METER", "off");
        }
        start_server(command)
    };
    let (server, port) = on_server_processor(conditions.pinning(), start_server_process)?;
    let reader = (meter == Meter::Read).then(|| read(server.id())).transpose()?;
    let mut client = Command::new(plumb()?);
    client.args(["login", "127.0.0.1", &port.to_string(), "--via", "kernel"]);
    set_environment(&mut client);
    client.env("PLUMB_METER", "off");
    Ok((Session::open_to(client, Server::Program(server))?, reader))
}

fn read(server: u32) -> Result<Program> {
    let mut command = Command::new(plumb()?);
    command.args(["meters", &server.to_string(), "--every", "1s", "--json"]);
    set_environment(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Program::start(&mut command).context("cannot start plumb meters")
}

/// Measures all modes.
pub(super) fn measure(amount: Amount, conditions: &Conditions) -> Result<MeteredRounds> {
    let mut rng = Rng::from_seed(SEED);
    let mut served = METERS.map(|(_, label)| Rounds::new(label));
    for number in 1..=amount.rounds {
        conditions.run_in_real_time()?;
        let mut typed_sessions = Vec::new();
        let mut readers = Vec::new();
        for (meter, label) in METERS {
            let session_result = open(meter, conditions);
            let (session, reader) =
                session_result.with_context(|| format!("cannot open a session at {label}"))?;
            typed_sessions.push(TypedSession::new(label, session));
            readers.push(reader);
        }
        let rounds = type_interleaved(typed_sessions, amount.keys, &mut rng)?;
        for reader in readers.iter_mut().flatten() {
            // If `plumb meters` had ended, this round would have no reads to compare.
            anyhow::ensure!(reader.exit_status()?.is_none(), "plumb meters has ended too early");
        }
        for (served, round) in served.iter_mut().zip(rounds) {
            served.rounds.push(round);
        }
        // Progress output; a closed stderr is ignored.
        _ = writeln!(io::stderr(), "served, round {number} of {} done", amount.rounds);
    }
    Ok(MeteredRounds(served))
}

impl MeteredRounds {
    fn echo(&self) -> [Option<Ratio>; 2] {
        self.ratios(|round| round.echo(50))
    }

    fn server_time(&self) -> [Option<Ratio>; 2] {
        self.ratios(|round| round.server_ns_per_key)
    }

    /// Returns two ratios of a figure: meter on (unread) to off, and meter read to unread.
    fn ratios(&self, figure: fn(&super::rounds::Round) -> Option<u64>) -> [Option<Ratio>; 2] {
        let [off, unread, read] = &self.0;
        [unread.ratio_to(off, figure), read.ratio_to(unread, figure)]
    }

    pub(super) fn section(&self, amount: Amount) -> Section {
        let mut table = Table::new()
            .text("server")
            .number("echo p50 (µs)")
            .number("to the row above")
            .number("server CPU (µs/key)")
            .number("to the row above");
        let text = |ratio: Option<Ratio>| ratio.map_or_else(String::new, Ratio::text);
        let ratios_below_first = |ratios: [Option<Ratio>; 2]| [None].into_iter().chain(ratios);
        let ratios = ratios_below_first(self.echo()).zip(ratios_below_first(self.server_time()));
        for (rounds, (echo, server)) in self.0.iter().zip(ratios) {
            table.row([
                rounds.label.clone(),
                micros(rounds.median_of(|round| round.echo(50))),
                text(echo),
                micros(rounds.median_of(|round| round.server_ns_per_key)),
                text(server),
            ]);
        }
        let heading = format!(
            "one session of plumb serve, with the server's meter off, on, and read; {} rounds of \
             {} keys, medians of the rounds",
            amount.rounds, amount.keys
        );
        let data: Vec<Value> = self.0.iter().map(Rounds::to_json).collect();
        Section { heading, table, data: json!(data) }
    }

    /// Returns the verdicts on the goals.
    pub(super) fn verdicts(&self) -> [Verdict; 2] {
        let [on, read] = self.echo();
        let median_of = |ratio: Option<Ratio>| ratio.map(|ratio| ratio.median);
        let verdict = |what: &str, goal, ratio| {
            let what = what.to_owned();
            Verdict { what, goal, actual: median_of(ratio), unit: "" }
        };
        [
            verdict("plumb serve, echo p50 with the meter on, relative to off", GOAL, on),
            verdict(
                "plumb serve, echo p50 with the meter read, relative to unread",
                READ_GOAL,
                read,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Round;
    use super::*;

    fn served(echo_ns: [u64; 3]) -> MeteredRounds {
        MeteredRounds(echo_ns.map(|echo_ns| {
            let mut rounds = Rounds::new("server");
            rounds.rounds.push(Round { echo_ns: vec![echo_ns], ..Round::default() });
            rounds
        }))
    }

    #[test]
    fn meter_on_is_compared_with_meter_off_and_read_with_unread() {
        let met: Vec<_> = served([100, 102, 104]).verdicts().iter().map(Verdict::is_met).collect();
        assert_eq!(met, [Some(true), Some(false)]);
    }

    #[test]
    fn each_server_has_a_row() {
        let amount = Amount { rounds: 1, keys: 1, screenfuls: 0, megabytes: 0 };
        assert_eq!(served([1, 1, 1]).section(amount).table.rows().len(), 3);
    }
}
