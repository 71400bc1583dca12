//! `plumb demo`: demonstrates plumbline on this machine alone.
//!
//! It simulates two personal computers of 1982 in virtual time, logs in through the user-space
//! TCP/IP to a server started for this purpose, and writes a page with the figures. The network
//! namespace is entered first, because an unprivileged user can do so only while the process has a
//! single thread.

mod far_station;
mod host;
mod laboratory;
mod page;

use crate::carry::{self, Bench, Outcome, SerialLink, Via};
use crate::exit::{self, Failure, complain};
use crate::measure::{
    Carrier, Circumstances, Findings, Interrupts, Plan, ProgressLine, Prompts, Walk, measurement,
    style, waterfall,
};
use anyhow::{Context, Result, bail};
use laboratory::Laboratory;
use os::clock::Calibration;
use os::process::Program;
use os::tun::Tun;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::terminal::Terminal;
use protocols::time::{Duration, Instant};
use records::bars::Style;
use records::table::wrap;
use records::{Measurement, bars, escape, summary};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Arguments of `plumb demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// File for the report, instead of plumbline-report.html in the current directory
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run the remote host at the other end of the line
    #[arg(long, hide = true)]
    far_station: bool,
}

/// Address of the station: the first of the network that is not the server's.
const STATION: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const ERRANDS: [&str; 2] = ["uname -a", "ls -l"];
const KEYS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(4);
/// Maximum number of displayed lines of a command's output.
const OUTPUT_LINES_MAX: usize = 12;
/// Rate set on the pseudo-terminal; it has no effect.
const PTY_RATE_BPS: u32 = 38_400;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let result = if arguments.far_station { far_station::run() } else { demonstrate(arguments) };
    result.map_err(|error| {
        complain(&error);
        if error.is::<Interrupted>() { Failure::NothingMeasured } else { Failure::ThisMachine }
    })
}

/// The user interrupted the demonstration.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Result of a completed login.
struct Login {
    findings: Findings,
    circumstances: Circumstances,
    measured: Measurement,
    server: String,
}

fn demonstrate(arguments: &Arguments) -> Result<()> {
    // First, while the process has a single thread.
    let network = host::enter_network();
    let interrupts = Interrupts::watch()?;
    let shape = style();
    say("plumbline: a login over its own TCP/IP, and where its time goes.\n", shape);
    say("1. Two personal computers of 1982, in virtual time", shape);
    let laboratory = laboratory::run().context("the simulation stalled")?;
    end_if_interrupted(&interrupts)?;
    say(
        "Our engines on a line of 19,200 bit/s, charged with the costs of TM-233's table 6-1. The \
         results are compared below with those measured in 1982.\n",
        shape,
    );
    say("2. A real login", shape);
    let login = match network {
        Ok(tun) => log_in_by_tun(tun, &interrupts, shape)?,
        Err(refused) => {
            say(
                &format!("No TUN available ({refused:#}), so two processes use a pseudo-terminal."),
                shape,
            );
            log_in_by_pty(&interrupts)?
        }
    };
    end_if_interrupted(&interrupts)?;
    show_login(&login, shape);
    show_times(&laboratory, &login, shape);
    leave_report(arguments, &laboratory, &login, shape)
}

fn end_if_interrupted(interrupts: &Interrupts) -> Result<()> {
    if interrupts.has_come() { Err(Interrupted.into()) } else { Ok(()) }
}

fn plan() -> Plan {
    Plan {
        keys: KEYS,
        login: None,
        prompts: Prompts::default(),
        command: None,
        errands: ERRANDS.map(str::to_owned).to_vec(),
        patience: PATIENCE,
        cpu_time: os::clock::process_cpu_time,
        run_queue_wait: os::schedule::thread_run_queue_wait,
    }
}

/// Logs in through a TUN to the preferred server of this machine that permits a shell.
fn log_in_by_tun(tun: Tun, interrupts: &Interrupts, shape: Style) -> Result<Login> {
    let daemons = host::daemons()?;
    let mut spare = Some(tun);
    for daemon in &daemons {
        let tun = match spare.take() {
            Some(tun) => tun,
            None => host::open_tun()?,
        };
        let server = host::Server::start(daemon)?;
        let via = Via::Tun { name: host::INTERFACE.to_owned(), own: carry::Own::default() };
        let name = format!("{}, started by this demo", daemon.name);
        let login = log_in(via, Some(tun), &name, interrupts)?;
        drop(server);
        if !login.findings.errands.is_empty() || interrupts.has_come() {
            return Ok(login);
        }
        let why = login.findings.notes.first().map_or("no shell prompt received", String::as_str);
        say(&format!("{}: {why}.", daemon.name), shape);
    }
    bail!("no Telnet server of this machine accepts the login: install busybox")
}

/// Logs in over LLP on a pseudo-terminal to a station in another process.
fn log_in_by_pty(interrupts: &Interrupts) -> Result<Login> {
    let own = std::env::current_exe().context("cannot find this program: mount /proc")?;
    let mut command = Command::new(own);
    command.args(["demo", "--far-station"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut station = Program::start(&mut command).context("cannot start the remote station")?;
    let output = station.child().stdout.take().context("the remote station has no output")?;
    let mut device = String::new();
    BufReader::new(output).read_line(&mut device)?;
    let via = Via::Serial {
        device: PathBuf::from(device.trim_end()),
        rate_bps: PTY_RATE_BPS,
        link: SerialLink::LLP,
        address: Some(STATION),
    };
    log_in(via, None, "plumb's own station in another process", interrupts)
}

fn log_in(via: Via, tun: Option<Tun>, server: &str, interrupts: &Interrupts) -> Result<Login> {
    let address = host::SERVER;
    let (started_at, calibration) = (SystemTime::now(), Calibration::start());
    let mut bench = Bench::new(true)?;
    let walk = Walk::new(plan(), Some(interrupts.descriptor()?), ProgressLine::on_stderr());
    let connecting_at = bench.clock.now();
    let addresses = [SocketAddr::V4(address)];
    let call = match tun {
        Some(tun) => carry::run_on_tun(walk, tun, &addresses, PATIENCE, &mut bench)?,
        None => carry::run(walk, &via, &addresses, PATIENCE, &mut bench)?,
    };
    let outcome = call.outcome;
    let findings = call.session.into_findings(outcome);
    if findings.opened_at.is_none() && outcome != Outcome::Left {
        bail!("{server} does not answer");
    }
    let circumstances = Circumstances {
        target: address.to_string(),
        address: Some(SocketAddr::V4(address)),
        carrier: Carrier::Network(via),
        started_at,
        resolve: None,
        connecting_at: Some(connecting_at),
        tls: None,
        tick: calibration.finish(),
        refuting: None,
    };
    let measured = measurement(&findings, &circumstances);
    Ok(Login { findings, circumstances, measured, server: server.to_owned() })
}

fn show_login(login: &Login, shape: Style) {
    say(&format!("Logged in via {} to {}.", login.measured.via, login.server), shape);
    for (command, output) in &login.findings.errands {
        print(&format!("\n  $ {command}\n"));
        let lines = lines_of(output);
        for line in lines.iter().take(OUTPUT_LINES_MAX) {
            let room = shape.columns().saturating_sub(2);
            let line: String = escape::terminal(line).chars().take(room).collect();
            print(&format!("  {line}\n"));
        }
        if let Some(more @ 1..) = lines.len().checked_sub(OUTPUT_LINES_MAX) {
            print(&format!("  ({more} more lines)\n"));
        }
    }
    for note in &login.findings.notes {
        say(&format!("Incomplete: {note}."), shape);
    }
}

/// Returns the lines of a command's output as a terminal displays them, without the next prompt.
fn lines_of(output: &[u8]) -> Vec<String> {
    const SIDE: u16 = 500;
    let (mut meter, mut chance) = (Meter::new(Clock::None), Chance::from_seed(0));
    let mut cx = Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter };
    let mut terminal = Terminal::new(SIDE, SIDE);
    terminal.receive(output, &mut cx);
    let mut lines: Vec<String> = terminal.text().lines().map(str::to_owned).collect();
    lines.pop();
    // The first line is the rest of the line that the command was typed on.
    lines.into_iter().skip(1).collect()
}

fn show_times(laboratory: &Laboratory, login: &Login, shape: Style) {
    let measured = &login.measured;
    say("\n3. Then and now", shape);
    let table = page::then_and_now(laboratory, measured);
    say(&page::origins(&table), shape);
    print(&shape.spell(&format!("\n{}", table.render(shape.columns()))));
    say(&format!("\n{}", page::SCREENFUL), shape);
    if let Some(echo) = &measured.echo {
        let times = [echo.p50_ns, echo.p90_ns, echo.p99_ns].map(records::figures::duration);
        let [p50, p90, p99] = times;
        let title = format!(
            "\nWhere the median of {} echoes went (p50 {p50}, p90 {p90}, p99 {p99})",
            echo.samples
        );
        say(&shape.spell(&title), shape);
        print(&bars::layers(&echo.layers, shape));
    }
    if let Some(screenful) = &measured.screenful {
        let title = format!(
            "\nWhere a screenful of {} cells went, {}",
            screenful.cells,
            summary::extent_of(screenful)
        );
        say(&title, shape);
        print(&bars::layers(&screenful.layers, shape));
    }
    say(&format!("\n{}", shape.spell(&measured.verdict)), shape);
}

fn leave_report(
    arguments: &Arguments,
    laboratory: &Laboratory,
    login: &Login,
    shape: Style,
) -> Result<()> {
    let picture = waterfall(&login.findings, login.circumstances.rates());
    let text = page::render(laboratory, &login.measured, picture, &login.server);
    let (file, is_here) = page::write(&text, arguments.report.as_deref())?;
    if !is_here {
        say(
            "\nThe current directory is not writable, so the report is in the temporary one:",
            shape,
        );
    }
    let file = escape::terminal(file.display().to_string());
    print(&format!("{}Report: {file}\n", if is_here { "\n" } else { "" }));
    Ok(())
}

/// Prints text, wrapped to the width of the terminal.
fn say(text: &str, shape: Style) {
    let folded: String =
        text.split('\n')
            .flat_map(|line| {
                if line.is_empty() { vec![String::new()] } else { wrap(line, shape.columns()) }
            })
            .map(|line| line + "\n")
            .collect();
    print(&folded);
}

fn print(text: &str) {
    let mut stdout = io::stdout();
    // Ignored: the reader of the output has gone.
    _ = stdout.write_all(text.as_bytes());
    _ = stdout.flush();
}
