//! `bench sessions`: many users of one login server on one processor.
//!
//! Each user has a connection to `plumb serve` with a shell, and types one key per second, in
//! random order. The bench speaks Telnet on kernel sockets in one thread on another processor. The
//! memory per session is the growth of the server's resident set divided by the number of sessions;
//! the shells' own memory is not included.

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::login::start_server;
use super::rounds::micros;
use super::telnetd::{on_server_processor, set_environment, shell};
use super::typing::{SEED, plumb};
use anyhow::{Context, Result, bail, ensure};
use net::meter::Meter;
use net::rng::Rng;
use net::time::Duration;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::readiness::{PollFd, PollFlags, wait};
use os::schedule::processor_time;
use os::socket;
use protocols::telnet::{Event, Telnet, UserSettings};
use records::statistics::percentile;
use report::table::Table;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{self, Command};
use std::{env, fs};

/// Largest accepted 99th percentile of the echo, in milliseconds.
const ECHO_GOAL_MS: f64 = 25.0;
/// Largest accepted server memory per session, in KB of 1000 bytes.
const MEMORY_GOAL_KB: f64 = 100.0;
/// Number of connections opened before waiting for their shells.
const LOGIN_BATCH: usize = 50;
/// Longest wait for the shells of a batch.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// Number of sessions, and duration of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionLoad {
    /// Number of concurrent sessions.
    pub(super) sessions: usize,
    /// Duration of typing, seconds.
    pub(super) seconds: usize,
}

/// Result of the measurement.
#[derive(Debug, Default)]
struct Results {
    echo_ns: Vec<u64>,
    /// Keys not typed because the previous echo was outstanding, and keys whose echo was still
    /// outstanding at the end of the measurement.
    keys_without_echo: usize,
    server_ns: Option<u64>,
    server_kilobytes_before: Option<u64>,
    server_kilobytes_after: Option<u64>,
}

/// Runs the measurement.
pub(super) fn run(conditions: &Conditions, session_load: SessionLoad) -> Result<Report> {
    os::process::allow_descriptors(u64::try_from(session_load.sessions)? + 100)?;
    let file = env::temp_dir().join(format!("plumb-sessions-{}.toml", process::id()));
    let limit = session_load.sessions + 10;
    let text = format!(
        "[login]\nlisten = [\"127.0.0.1:0\"]\nexec = [\"{}\", \"-i\"]\nsessions-max = {limit}\n\
         sessions-per-source-max = {limit}\n",
        shell().display()
    );
    fs::write(&file, text)?;
    let mut command = Command::new(plumb()?);
    command.args(["serve", "--json", "--config"]).arg(&file);
    set_environment(&mut command);
    let started = on_server_processor(conditions.pinning(), || start_server(command));
    fs::remove_file(&file)?;
    let (server, port) = started?;
    let server_kilobytes_before = resident_kilobytes(server.id());
    let mut users = Users::new();
    users.log_in(port, session_load.sessions)?;
    let before = processor_time(server.id());
    let mut results = users.type_keys(session_load.seconds)?;
    let after = processor_time(server.id());
    results.server_ns = after.zip(before).and_then(|(after, before)| {
        u64::try_from(after.as_nanos().checked_sub(before.as_nanos())?).ok()
    });
    results.server_kilobytes_before = server_kilobytes_before;
    results.server_kilobytes_after = resident_kilobytes(server.id());
    let congestion =
        users.all.first().and_then(|user| socket::congestion_control(&user.stream).ok());
    Ok(report(session_load, &results, congestion.unwrap_or_default()))
}

fn report(session_load: SessionLoad, results: &Results, congestion: String) -> Report {
    let keys =
        u64::try_from(session_load.sessions * session_load.seconds).unwrap_or(u64::MAX).max(1);
    let echo = |percent| percentile(&results.echo_ns, percent);
    let memory_growth = results.server_kilobytes_after.zip(results.server_kilobytes_before);
    let memory_growth =
        memory_growth.map(|(after, before)| after.saturating_sub(before) as f64 * 1.024);
    let memory = memory_growth.map(|memory_growth| memory_growth / session_load.sessions as f64);
    let mut table = Table::new()
        .number("sessions")
        .number("echo p50 (µs)")
        .number("p99 (µs)")
        .number("greatest (µs)")
        .number("server CPU (µs/key)")
        .number("server (KB/session)")
        .number("keys without echo");
    table.row([
        session_load.sessions.to_string(),
        micros(echo(50)),
        micros(echo(99)),
        micros(results.echo_ns.iter().max().copied()),
        micros(results.server_ns.map(|ns| ns / keys)),
        memory.map_or_else(|| records::format::UNKNOWN.to_owned(), |kb| format!("{kb:.1}")),
        results.keys_without_echo.to_string(),
    ]);
    let data = json!({
        "sessions": session_load.sessions,
        "seconds": session_load.seconds,
        "echo_ns": results.echo_ns,
        "keys_without_echo": results.keys_without_echo,
        "server_cpu_ns": results.server_ns,
        "server_kilobytes_before": results.server_kilobytes_before,
        "server_kilobytes_after": results.server_kilobytes_after,
    });
    let what = |what: &str| format!("{} concurrent sessions, {what}", session_load.sessions);
    let is_complete = results.keys_without_echo == 0;
    let p99 = echo(99).filter(|_| is_complete).map(|ns| ns as f64 / 1e6);
    Report {
        program_set: ProgramSet::Login,
        title: "bench sessions: many sessions with one key per second each".to_owned(),
        sections: vec![Section {
            heading: format!("plumb serve on one processor, {} seconds", session_load.seconds),
            table,
            data,
        }],
        verdicts: vec![
            Verdict { what: what("echo p99"), goal: ECHO_GOAL_MS, actual: p99, unit: " ms" },
            Verdict {
                what: what("server memory per session"),
                goal: MEMORY_GOAL_KB,
                actual: memory,
                unit: " KB",
            },
        ],
        congestion,
        notes: Vec::new(),
    }
}

/// Returns the resident set of the process `id`, in KB of 1024 bytes.
pub(super) fn resident_kilobytes(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A simulated user with a session.
struct SimulatedUser {
    stream: TcpStream,
    telnet: Telnet,
    has_prompt: bool,
    /// Time at which the key with the outstanding echo was typed.
    typed_at: Option<Instant>,
}

/// All simulated users.
struct Users {
    all: Vec<SimulatedUser>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
    echo_ns: Vec<u64>,
}

const KEY: u8 = b'x';

impl Users {
    fn new() -> Self {
        Self {
            all: Vec::new(),
            clock: Monotonic::start(),
            rng: Rng::from_seed(SEED),
            meter: Meter::off(),
            echo_ns: Vec::new(),
        }
    }

    /// Opens `count` sessions, and waits for the prompt of each.
    fn log_in(&mut self, port: u16, count: usize) -> Result<()> {
        while self.all.len() < count {
            for _ in 0..LOGIN_BATCH.min(count - self.all.len()) {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let telnet = Telnet::user(&UserSettings::default());
                self.all.push(SimulatedUser { stream, telnet, has_prompt: false, typed_at: None });
            }
            let until = self.clock.now() + SESSION_TIMEOUT;
            while !self.all.iter().all(|user| user.has_prompt) {
                ensure!(self.clock.now() < until, "no shell prompt within 20 s");
                self.process_input(until)?;
            }
        }
        Ok(())
    }

    /// Types one key per second into each session.
    fn type_keys(&mut self, seconds: usize) -> Result<Results> {
        let count = self.all.len();
        let gap = SECOND / u32::try_from(count)?.max(1);
        let mut next_key_at = self.clock.now();
        let mut keys_without_echo = 0;
        for _ in 0..seconds {
            for at in super::typing::shuffled(count, &mut self.rng) {
                while self.clock.now() < next_key_at {
                    self.process_input(next_key_at)?;
                }
                next_key_at = next_key_at + gap;
                keys_without_echo += usize::from(!self.type_key(at)?);
            }
        }
        let until = self.clock.now() + SECOND;
        while self.clock.now() < until && self.all.iter().any(|user| user.typed_at.is_some()) {
            self.process_input(until)?;
        }
        keys_without_echo += self.all.iter().filter(|user| user.typed_at.is_some()).count();
        Ok(Results {
            echo_ns: std::mem::take(&mut self.echo_ns),
            keys_without_echo,
            ..Results::default()
        })
    }

    /// Types a key and returns `true`. If the echo of the previous key is outstanding, types
    /// nothing and returns `false`.
    fn type_key(&mut self, at: usize) -> Result<bool> {
        let now = self.clock.now();
        let user = self.all.get_mut(at).context("no such session")?;
        if user.typed_at.is_some() {
            return Ok(false);
        }
        user.typed_at = Some(now);
        user.stream.write_all(&[KEY])?;
        Ok(true)
    }

    /// Waits until data arrives or the time is `until`, and processes the data.
    fn process_input(&mut self, until: Instant) -> Result<()> {
        let flags = PollFlags::IN;
        let mut descriptors: Vec<_> =
            self.all.iter().map(|user| PollFd::new(&user.stream, flags)).collect();
        wait(&mut descriptors, &self.clock, Some(until))?;
        let ready: Vec<usize> = descriptors
            .iter()
            .enumerate()
            .filter_map(|(at, descriptor)| (!descriptor.revents().is_empty()).then_some(at))
            .collect();
        drop(descriptors);
        for at in ready {
            self.receive(at)?;
        }
        Ok(())
    }

    fn receive(&mut self, at: usize) -> Result<()> {
        let user = self.all.get_mut(at).context("no such session")?;
        let mut buffer = [0; 4096];
        let count = match user.stream.read(&mut buffer) {
            Ok(0) => bail!("the server has closed session {at}"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("a session failed"),
        };
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let mut data = buffer.get(..count).unwrap_or_default();
        while let Some(event) = user.telnet.receive(&mut data, &mut cx) {
            let Event::Data(run) = event else { continue };
            user.has_prompt |= run.ends_with(b"# ") || run.ends_with(b"$ ");
            if run.contains(&KEY)
                && let Some(typed_at) = user.typed_at.take()
            {
                self.echo_ns.push(super::driver::nanos(now - typed_at));
            }
        }
        let output = user.telnet.output();
        if !output.is_empty() {
            let count = output.len();
            user.stream.write_all(output)?;
            user.telnet.sent(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_echo_leaves_the_echo_unknown() {
        let session_load = SessionLoad { sessions: 10, seconds: 1 };
        let results =
            Results { echo_ns: vec![1_000_000], keys_without_echo: 1, ..Results::default() };
        assert_eq!(report(session_load, &results, String::new()).verdicts[0].is_met(), None);
    }

    #[test]
    fn memory_is_the_growth_of_the_server_per_session() {
        let before = Some(10_000);
        let after = Some(11_000);
        let results = Results {
            server_kilobytes_before: before,
            server_kilobytes_after: after,
            ..Results::default()
        };
        let report = report(SessionLoad { sessions: 10, seconds: 1 }, &results, String::new());
        assert_eq!(report.verdicts[1].actual, Some(102.4));
        assert_eq!(report.verdicts[1].is_met(), Some(false));
    }

    #[test]
    fn this_process_has_a_resident_set() {
        assert!(resident_kilobytes(process::id()).is_some_and(|kilobytes| kilobytes > 0));
        assert_eq!(resident_kilobytes(u32::MAX), None);
    }
}
