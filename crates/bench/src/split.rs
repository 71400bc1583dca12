//! `bench split`: checks in which account of an echo a known delay appears.
//!
//! `plumb measure` runs against a shell behind `plumb serve` and a relay of TCP connections,
//! alternating between no delay, 100 µs and 1 ms. The delay is injected at one of two points:
//!
//! - in the relay, which runs on the server's processor and spins for that time before it forwards
//!   data from the client. The measured account of the server and the network must grow by that
//!   delay;
//! - before sendto(2), with which the client sends a key: strace(1) injects it. strace delays
//!   longer than requested, so the account of system calls is compared with the whole echo: both
//!   must grow by the same time. The runs without a delay are traced too.

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::login::start_server;
use super::telnetd::{on_server_processor, program, set_environment, shell};
use super::typing::{Amount, plumb};
use anyhow::{Context, Result, bail};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::socket;
use records::format::UNKNOWN;
use report::table::Table;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

const DELAYS_US: [u64; 3] = [0, 100, 1000];
/// Largest accepted difference of an account's growth from the delay, percent.
const GOAL_PERCENT: f64 = 5.0;
/// Time limit for the connection of a measurement.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of keys per measurement: for higher precision, more rounds are better than more
/// keys.
const KEYS_MAX: usize = 200;

/// Point at which the delay is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectionPoint {
    Relay,
    Sendto,
}

impl InjectionPoint {
    const ALL: [Self; 2] = [Self::Relay, Self::Sendto];

    const fn text(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Sendto => "sendto (strace)",
        }
    }

    /// Returns the JSON name of the account that must grow by the delay.
    const fn account(self) -> &'static str {
        match self {
            Self::Relay => "remote_host_and_network",
            Self::Sendto => "interrupt_or_system_call",
        }
    }
}

/// Median echo of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
struct Echo {
    whole_us: f64,
    /// Account names and values.
    accounts_us: Vec<(String, f64)>,
}

impl Echo {
    fn read(record: &Value) -> Option<Self> {
        let echo = record.get("echo")?;
        let us = |value: &Value, name| Some(value.get(name)?.as_f64()? / 1e3);
        let account =
            |layer: &Value| Some((layer.get("layer")?.as_str()?.to_owned(), us(layer, "ns")?));
        let accounts_us = echo.get("layers")?.as_array()?.iter().map(account);
        Some(Self {
            whole_us: us(echo, "p50_ns")?,
            accounts_us: accounts_us.collect::<Option<_>>()?,
        })
    }

    fn account_us(&self, name: &str) -> f64 {
        self.accounts_us.iter().find(|(other, _)| other == name).map_or(0.0, |(_, us)| *us)
    }

    /// Returns the largest growth since `before` among the accounts other than `name`.
    fn other_growth_us(&self, before: &Self, name: &str) -> f64 {
        let others = self.accounts_us.iter().filter(|(other, _)| other != name);
        let growth = others.map(|(other, us)| us - before.account_us(other));
        growth.max_by(|one, two| one.abs().total_cmp(&two.abs())).unwrap_or(0.0)
    }
}

/// All rounds with one delay at one injection point.
struct Measured {
    injection_point: InjectionPoint,
    delay_us: u64,
    rounds: Vec<Echo>,
}

/// Measures each injection point with each delay, interleaved.
pub(super) fn run(conditions: &Conditions, amount: Amount) -> Result<Report> {
    let strace = program("strace", "strace");
    let mut notes: Vec<String> =
        strace.as_ref().err().map(|error| format!("Left out: {error:#}.")).into_iter().collect();
    notes.push(
        "Growth is relative to the run without a delay in the same round; medians, with the least \
         and the greatest of the rounds."
            .to_owned(),
    );
    let mut command = Command::new(plumb()?);
    command.args(["serve", "--json", "--tls", "off", "--listen", "127.0.0.1:0", "--exec"]);
    command.arg(shell()).arg("-i");
    set_environment(&mut command);
    let pinning = conditions.pinning();
    let (_server, server_port) = on_server_processor(pinning, || start_server(command))?;
    let injection_points = InjectionPoint::ALL
        .into_iter()
        .filter(|injection_point| *injection_point == InjectionPoint::Relay || strace.is_ok());
    let mut measured: Vec<Measured> = injection_points
        .flat_map(|injection_point| {
            DELAYS_US.map(|delay_us| Measured { injection_point, delay_us, rounds: Vec::new() })
        })
        .collect();
    let keys = amount.keys.min(KEYS_MAX);
    for number in 1..=amount.rounds {
        for it in &mut measured {
            let echo = measure((it.injection_point, it.delay_us), keys, server_port, pinning);
            let what = || {
                format!("{} µs in {} cannot be measured", it.delay_us, it.injection_point.text())
            };
            it.rounds.push(echo.with_context(what)?);
        }
        _ = writeln!(io::stderr(), "split, round {number} of {} done", amount.rounds);
    }
    let congestion = socket::congestion_control(&TcpListener::bind("127.0.0.1:0")?);
    Ok(Report {
        title: "bench split: delays of known length, and the accounts of an echo".into(),
        program_set: ProgramSet::Login,
        sections: vec![section(&measured, amount, keys)],
        verdicts: verdicts(&measured),
        congestion: congestion.unwrap_or_else(|_| UNKNOWN.to_owned()),
        notes,
    })
}

/// Runs `plumb measure` once through a relay.
fn measure(
    (injection_point, delay_us): (InjectionPoint, u64),
    keys: usize,
    server_port: u16,
    pinning: Option<(usize, usize)>,
) -> Result<Echo> {
    let listener = TcpListener::bind("127.0.0.1:0").context("the relay cannot listen")?;
    let target = format!("127.0.0.1:{}", listener.local_addr()?.port());
    let keys = keys.to_string();
    let plumb_path = plumb()?;
    let mut command = match injection_point {
        InjectionPoint::Relay => Command::new(&plumb_path),
        InjectionPoint::Sendto => {
            let mut strace = Command::new(program("strace", "strace")?);
            strace.args(["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=sendto"]);
            if delay_us > 0 {
                strace.args(["-e", &format!("inject=sendto:delay_enter={delay_us}")]);
            }
            strace.arg("--").arg(&plumb_path);
            strace
        }
    };
    command.args(["measure", "--json", "--keys", &keys, &target]);
    set_environment(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = Program::start(&mut command)?;
    let stdout = client.child().stdout.take().context("plumb measure has no stdout")?;
    let delay = match injection_point {
        InjectionPoint::Relay => Duration::from_micros(delay_us),
        InjectionPoint::Sendto => Duration::ZERO,
    };
    let relay = on_server_processor(pinning, || {
        DelayRelay::accept_and_relay(&listener, server_port, delay)
    })?;
    let record: Value = serde_json::from_reader(stdout).context("plumb measure has no record")?;
    drop(client);
    relay.end();
    Echo::read(&record).context("the record has no echo")
}

/// A relay of one connection.
struct DelayRelay {
    ends: [TcpStream; 2],
    threads: [thread::JoinHandle<()>; 2],
}

impl DelayRelay {
    /// Waits for the connection, and forwards it to `server_port`. Data from the client is delayed
    /// by `delay`.
    fn accept_and_relay(listener: &TcpListener, server_port: u16, delay: Duration) -> Result<Self> {
        let clock = Monotonic::start();
        let mut descriptors = [PollFd::new(listener, PollFlags::IN)];
        if wait(&mut descriptors, &clock, Some(clock.now() + CONNECT_LIMIT))? == Wake::Deadline {
            bail!("plumb measure has not connected within {} s", CONNECT_LIMIT.as_secs());
        }
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(("127.0.0.1", server_port))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let start_relaying = |from: &TcpStream, to: &TcpStream, delay| -> io::Result<_> {
            let from = from.try_clone()?;
            let to = to.try_clone()?;
            Ok(thread::spawn(move || relay_direction(from, to, delay)))
        };
        let threads = [
            start_relaying(&client, &server, delay)?,
            start_relaying(&server, &client, Duration::ZERO)?,
        ];
        Ok(Self { ends: [client, server], threads })
    }

    fn end(self) {
        // Fails for a connection that has already ended.
        self.ends.iter().for_each(|end| _ = end.shutdown(Shutdown::Both));
        self.threads.into_iter().for_each(|thread| _ = thread.join());
    }
}

/// Forwards bytes until one of the connections ends. Spins for `delay` before it forwards the bytes
/// of each read.
fn relay_direction(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let received_at = std::time::Instant::now();
        while received_at.elapsed() < delay {
            std::hint::spin_loop();
        }
        if to.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Write);
}

/// Growth with one delay, compared with no delay, µs: of the expected account, of the whole echo,
/// and of the account with the largest growth among the others. Each value is the median with the
/// least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Growth {
    account_us: [f64; 3],
    whole_us: [f64; 3],
    other_us: [f64; 3],
    /// Growth of the account as a percentage of the growth of the whole echo.
    share_percent: [f64; 3],
}

/// Returns the median of `values` with the least and the greatest.
fn median_and_range(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    [at(values.len() / 2), at(0), at(values.len().saturating_sub(1))]
}

fn growth(measured: &[Measured], delayed: &Measured) -> Option<Growth> {
    let is_reference =
        |it: &&Measured| it.injection_point == delayed.injection_point && it.delay_us == 0;
    let before = measured.iter().find(is_reference).filter(|_| delayed.delay_us > 0)?;
    let pairs = || delayed.rounds.iter().zip(&before.rounds);
    let name = delayed.injection_point.account();
    let account: Vec<f64> =
        pairs().map(|(with, without)| with.account_us(name) - without.account_us(name)).collect();
    let whole: Vec<f64> = pairs().map(|(with, without)| with.whole_us - without.whole_us).collect();
    let shares = account.iter().zip(&whole).map(|(account, whole)| account / whole * 100.0);
    Some(Growth {
        share_percent: median_and_range(shares.collect()),
        account_us: median_and_range(account),
        whole_us: median_and_range(whole),
        other_us: median_and_range(
            pairs().map(|(with, without)| with.other_growth_us(without, name)).collect(),
        ),
    })
}

fn section(measured: &[Measured], amount: Amount, keys: usize) -> Section {
    let mut table = Table::new()
        .text("delay in")
        .number("delay (µs)")
        .text("account")
        .number("account grew by (µs)")
        .number("echo grew by (µs)")
        .number("account of echo (%)")
        .number("largest other (µs)");
    let text = |[median, min, max]: [f64; 3]| format!("{median:.1} ({min:.1} to {max:.1})");
    let mut data = Vec::new();
    for it in measured {
        let rounds: Vec<Value> = it
            .rounds
            .iter()
            .map(|echo| json!({ "echo_us": echo.whole_us, "accounts_us": echo.accounts_us }))
            .collect();
        data.push(
            json!({ "delay_in": it.injection_point.text(), "delay_us": it.delay_us, "rounds": rounds }),
        );
        let Some(growth) = growth(measured, it) else { continue };
        table.row([
            it.injection_point.text().to_owned(),
            it.delay_us.to_string(),
            it.injection_point.account().replace('_', " "),
            text(growth.account_us),
            text(growth.whole_us),
            text(growth.share_percent),
            text(growth.other_us),
        ]);
    }
    let heading =
        format!("{} rounds of {keys} keys; `plumb measure` behind a relay", amount.rounds);
    Section { heading, table, data: json!(data) }
}

fn verdicts(measured: &[Measured]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for it in measured {
        let Some(growth) = growth(measured, it) else { continue };
        let expected_us = match it.injection_point {
            InjectionPoint::Relay => it.delay_us as f64,
            InjectionPoint::Sendto => growth.whole_us[0],
        };
        let error = (growth.account_us[0] - expected_us).abs() / expected_us * 100.0;
        verdicts.push(Verdict {
            what: format!(
                "{} µs in {}, error of its account",
                it.delay_us,
                it.injection_point.text()
            ),
            goal: GOAL_PERCENT,
            actual: Some(error).filter(|error| error.is_finite()),
            unit: " %",
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(whole_us: f64, far_us: f64, calls_us: f64) -> Echo {
        let accounts_us = vec![
            ("remote_host_and_network".to_owned(), far_us),
            ("interrupt_or_system_call".to_owned(), calls_us),
        ];
        Echo { whole_us, accounts_us }
    }

    #[test]
    fn an_echo_is_read_from_a_record() {
        let record = json!({ "echo": { "p50_ns": 90_000, "layers": [
            { "layer": "remote_host_and_network", "ns": 60_000 },
            { "layer": "interrupt_or_system_call", "ns": 30_000 },
        ] } });
        assert_eq!(Echo::read(&record), Some(echo(90.0, 60.0, 30.0)));
        assert_eq!(Echo::read(&json!({ "echo": null })), None);
    }

    #[test]
    fn growth_is_relative_to_the_same_round_and_the_error_to_the_delay() {
        let measured_with = |delay_us, rounds| Measured {
            injection_point: InjectionPoint::Relay,
            delay_us,
            rounds,
        };
        let measured = [
            measured_with(0, vec![echo(90.0, 60.0, 30.0), echo(190.0, 160.0, 30.0)]),
            measured_with(100, vec![echo(195.0, 164.0, 31.0), echo(300.0, 264.0, 36.0)]),
        ];
        let growth_of_delay = growth(&measured, &measured[1]).unwrap();
        assert_eq!(growth_of_delay.account_us, [104.0, 104.0, 104.0]);
        assert_eq!((growth_of_delay.whole_us[1], growth_of_delay.other_us[2]), (105.0, 6.0));
        assert!((growth_of_delay.share_percent[1] - 10_400.0 / 110.0).abs() < 1e-9);
        assert_eq!(growth(&measured, &measured[0]), None);
        let verdicts = verdicts(&measured);
        assert_eq!((verdicts.len(), verdicts[0].actual), (1, Some(4.0)));
    }
}
