//! `bench sessions`: many users of one login server on one processor.
//!
//! Each user has a connection to `plumb serve` with a shell, and types one key per second, in
//! random order. The bench speaks Telnet on kernel sockets in one thread on another processor. The
//! memory per session is the growth of the server's resident set divided by the number of sessions;
//! the shells' own memory is not included.

use super::conditions::{Cast, Conditions};
use super::login::start_server;
use super::rounds::micros;
use super::telnetd::{on_the_far_processor, set_environment, shell};
use super::typing::{SEED, plumb};
use super::{Report, Section, Verdict};
use anyhow::{Context, Result, bail, ensure};
use os::clock::Monotonic;
use os::readiness::{PollFd, PollFlags, wait};
use os::schedule::processor_time;
use os::socket;
use protocols::application::telnet::{Event, Telnet, UserSettings};
use protocols::chance::Chance;
use protocols::meter::Meter;
use protocols::time::Duration;
use protocols::{Cx, Instant};
use records::statistics::percentile;
use records::table::Table;
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
const TOGETHER: usize = 50;
/// Longest wait for the shells of a batch.
const PATIENCE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// Amount of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Number of concurrent sessions.
    pub(super) sessions: usize,
    /// Duration of typing, seconds.
    pub(super) seconds: usize,
}

/// Result of the measurement.
#[derive(Debug, Default)]
struct Found {
    echo_ns: Vec<u64>,
    /// Keys whose echo came after the end, or never.
    late: usize,
    server_ns: Option<u64>,
    kilobytes_before: Option<u64>,
    kilobytes_after: Option<u64>,
}

/// Runs the measurement.
pub(super) fn run(conditions: &Conditions, crowd: Crowd) -> Result<Report> {
    os::process::allow_descriptors(u64::try_from(crowd.sessions)? + 100)?;
    let file = env::temp_dir().join(format!("plumb-sessions-{}.toml", process::id()));
    let limit = crowd.sessions + 10;
    let text = format!(
        "[login]\nlisten = [\"127.0.0.1:0\"]\nexec = [\"{}\", \"-i\"]\nsessions-max = {limit}\n\
         sessions-per-source-max = {limit}\n",
        shell().display()
    );
    fs::write(&file, text)?;
    let mut command = Command::new(plumb()?);
    command.args(["serve", "--json", "--config"]).arg(&file);
    set_environment(&mut command);
    let started = on_the_far_processor(conditions.pinning(), || start_server(command));
    fs::remove_file(&file)?;
    let (server, port) = started?;
    let kilobytes_before = resident_kilobytes(server.id());
    let mut people = People::new();
    people.come(port, crowd.sessions)?;
    let before = processor_time(server.id());
    let mut found = people.type_keys(crowd.seconds)?;
    let after = processor_time(server.id());
    found.server_ns = after.zip(before).and_then(|(after, before)| {
        u64::try_from(after.as_nanos().checked_sub(before.as_nanos())?).ok()
    });
    found.kilobytes_before = kilobytes_before;
    found.kilobytes_after = resident_kilobytes(server.id());
    let congestion =
        people.all.first().and_then(|one| socket::congestion_control(&one.stream).ok());
    Ok(report(crowd, &found, congestion.unwrap_or_default()))
}

fn report(crowd: Crowd, found: &Found, congestion: String) -> Report {
    let keys = u64::try_from(crowd.sessions * crowd.seconds).unwrap_or(u64::MAX).max(1);
    let echo = |percent| percentile(&found.echo_ns, percent);
    let growth = found.kilobytes_after.zip(found.kilobytes_before);
    let growth = growth.map(|(after, before)| after.saturating_sub(before) as f64 * 1.024);
    let memory = growth.map(|growth| growth / crowd.sessions as f64);
    let mut table = Table::new()
        .number("sessions")
        .number("echo p50 (µs)")
        .number("p99 (µs)")
        .number("greatest (µs)")
        .number("server CPU (µs/key)")
        .number("server (KB/session)")
        .number("keys without echo");
    table.row([
        crowd.sessions.to_string(),
        micros(echo(50)),
        micros(echo(99)),
        micros(found.echo_ns.iter().max().copied()),
        micros(found.server_ns.map(|ns| ns / keys)),
        memory.map_or_else(|| records::figures::UNKNOWN.to_owned(), |kb| format!("{kb:.1}")),
        found.late.to_string(),
    ]);
    let data = json!({
        "sessions": crowd.sessions,
        "seconds": crowd.seconds,
        "echo_ns": found.echo_ns,
        "keys_without_echo": found.late,
        "server_cpu_ns": found.server_ns,
        "server_kilobytes_before": found.kilobytes_before,
        "server_kilobytes_after": found.kilobytes_after,
    });
    let what = |what: &str| format!("{} sessions at once, {what}", crowd.sessions);
    let is_whole = found.late == 0;
    let p99 = echo(99).filter(|_| is_whole).map(|ns| ns as f64 / 1e6);
    Report {
        cast: Cast::Login,
        title: "bench sessions: a key in every second in each of many sessions".to_owned(),
        sections: vec![Section {
            heading: format!("plumb serve on one processor, {} seconds", crowd.seconds),
            table,
            data,
        }],
        verdicts: vec![
            Verdict { what: what("echo p99"), goal: ECHO_GOAL_MS, found: p99, unit: " ms" },
            Verdict {
                what: what("memory of the server for each"),
                goal: MEMORY_GOAL_KB,
                found: memory,
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
struct Person {
    stream: TcpStream,
    telnet: Telnet,
    has_prompt: bool,
    /// Time of the key whose echo is outstanding.
    struck_at: Option<Instant>,
}

/// All simulated users.
struct People {
    all: Vec<Person>,
    clock: Monotonic,
    chance: Chance,
    meter: Meter,
    echo_ns: Vec<u64>,
}

const KEY: u8 = b'x';

impl People {
    fn new() -> Self {
        Self {
            all: Vec::new(),
            clock: Monotonic::start(),
            chance: Chance::from_seed(SEED),
            meter: Meter::off(),
            echo_ns: Vec::new(),
        }
    }

    /// Opens `count` sessions, and waits for the prompt of each.
    fn come(&mut self, port: u16, count: usize) -> Result<()> {
        while self.all.len() < count {
            for _ in 0..TOGETHER.min(count - self.all.len()) {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let telnet = Telnet::user(&UserSettings::default());
                self.all.push(Person { stream, telnet, has_prompt: false, struck_at: None });
            }
            let until = self.clock.now() + PATIENCE;
            while !self.all.iter().all(|person| person.has_prompt) {
                ensure!(self.clock.now() < until, "a shell does not come within 20 s");
                self.listen(until)?;
            }
        }
        Ok(())
    }

    /// Types one key per second into each session.
    fn type_keys(&mut self, seconds: usize) -> Result<Found> {
        let count = self.all.len();
        let gap = SECOND / u32::try_from(count)?.max(1);
        let mut due = self.clock.now();
        let mut late = 0;
        for _ in 0..seconds {
            for at in super::typing::shuffled(count, &mut self.chance) {
                while self.clock.now() < due {
                    self.listen(due)?;
                }
                due = due + gap;
                late += usize::from(!self.strike(at)?);
            }
        }
        let until = self.clock.now() + SECOND;
        while self.clock.now() < until && self.all.iter().any(|one| one.struck_at.is_some()) {
            self.listen(until)?;
        }
        late += self.all.iter().filter(|person| person.struck_at.is_some()).count();
        Ok(Found { echo_ns: std::mem::take(&mut self.echo_ns), late, ..Found::default() })
    }

    /// Types a key, unless the previous echo is outstanding; returns whether it did.
    fn strike(&mut self, at: usize) -> Result<bool> {
        let now = self.clock.now();
        let person = self.all.get_mut(at).context("there is nobody")?;
        if person.struck_at.is_some() {
            return Ok(false);
        }
        person.struck_at = Some(now);
        person.stream.write_all(&[KEY])?;
        Ok(true)
    }

    /// Waits until data arrives or the time is `until`, and processes the data.
    fn listen(&mut self, until: Instant) -> Result<()> {
        let flags = PollFlags::IN;
        let mut descriptors: Vec<_> =
            self.all.iter().map(|person| PollFd::new(&person.stream, flags)).collect();
        wait(&mut descriptors, &self.clock, Some(until))?;
        let ready: Vec<usize> = descriptors
            .iter()
            .enumerate()
            .filter_map(|(at, descriptor)| (!descriptor.revents().is_empty()).then_some(at))
            .collect();
        drop(descriptors);
        for at in ready {
            self.hear(at)?;
        }
        Ok(())
    }

    fn hear(&mut self, at: usize) -> Result<()> {
        let person = self.all.get_mut(at).context("there is nobody")?;
        let mut buffer = [0; 4096];
        let count = match person.stream.read(&mut buffer) {
            Ok(0) => bail!("the server has closed session {at}"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("a session fails"),
        };
        let now = self.clock.now();
        let mut cx = Cx { now, chance: &mut self.chance, meter: &mut self.meter };
        let mut data = buffer.get(..count).unwrap_or_default();
        while let Some(event) = person.telnet.receive(&mut data, &mut cx) {
            let Event::Data(run) = event else { continue };
            person.has_prompt |= run.ends_with(b"# ") || run.ends_with(b"$ ");
            if run.contains(&KEY)
                && let Some(struck_at) = person.struck_at.take()
            {
                self.echo_ns.push(super::driver::nanos(now - struck_at));
            }
        }
        let output = person.telnet.output();
        if !output.is_empty() {
            let count = output.len();
            person.stream.write_all(output)?;
            person.telnet.sent(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_echo_leaves_the_echo_unknown() {
        let crowd = Crowd { sessions: 10, seconds: 1 };
        let found = Found { echo_ns: vec![1_000_000], late: 1, ..Found::default() };
        assert_eq!(report(crowd, &found, String::new()).verdicts[0].is_met(), None);
    }

    #[test]
    fn memory_is_what_the_server_has_grown_by_for_each_session() {
        let (before, after) = (Some(10_000), Some(11_000));
        let found = Found { kilobytes_before: before, kilobytes_after: after, ..Found::default() };
        let report = report(Crowd { sessions: 10, seconds: 1 }, &found, String::new());
        assert_eq!(report.verdicts[1].found, Some(102.4));
        assert_eq!(report.verdicts[1].is_met(), Some(false));
    }

    #[test]
    fn this_process_has_a_resident_set() {
        assert!(resident_kilobytes(process::id()).is_some_and(|kilobytes| kilobytes > 0));
        assert_eq!(resident_kilobytes(u32::MAX), None);
    }
}
