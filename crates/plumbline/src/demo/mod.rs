//! `plumb demo`: demonstrates plumbline on this machine alone.
//!
//! It simulates two personal computers of 1982 in virtual time, logs in through the user-space
//! TCP/IP to a server started for this purpose, and writes a page with the figures. The network
//! namespace is entered first, because an unprivileged user can do so only while the process has a
//! single thread.

mod laboratory;
mod local_server;
mod page;
mod remote_station;

use self::laboratory::Laboratory;
use crate::exit::{self, Failure, print_error};
use crate::heading;
use crate::manual::ManualPage;
use crate::manual::entries::REPORT_VARIABLES;
use crate::measure::{interrupts_by_signals, status_display};
use crate::output_style::style;
use anyhow::{Context, Result, bail};
use carrier::{self, EngineContext, Outcome, Route, SerialLink};
use measure::{
    Carrier, Circumstances, Interrupts, MeasureSession, ProgressLine, Prompts, SessionParameters,
    SessionResults, measurement, median_keystroke,
};
use net::Cx;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::{Duration, Instant};
use os::clock::Calibration;
use os::process::Program;
use os::tun::Tun;
use protocols::terminal::Terminal;
use records::{Measurement, escape};
use report::bar_chart::Style;
use report::html::waterfall::Waterfall;
use report::table::wrap;
use report::{bar_chart, summary};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Manual page of `plumb demo`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "demo",
    examples: &["plumb demo", "plumb demo --html report.html"],
    notes: &[],
    exit_status: &[
        (0, "Success"),
        (2, "Invalid arguments"),
        (4, "Local error, such as no Telnet server on this machine"),
        (130, "Interrupted"),
    ],
    environment: &[
        &[("PATH", "Directories of Telnet servers, besides /usr/sbin, /sbin, /usr/bin and /bin")],
        REPORT_VARIABLES,
    ],
    files: &[&[("plumbline-report.html", "Report, in the current directory")]],
    see_also: &["login", "measure", "lab"],
};

/// Arguments of `plumb demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write the report to this HTML file [default: plumbline-report.html in the current directory]
    #[arg(long = "html", alias = "report", value_name = "file", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
    /// Run the remote host at the other end of the line
    #[arg(long = "far-station", hide = true)]
    remote_station: bool,
}

/// Address of the station: the first address of the subnet that is not the server's.
const STATION: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const INITIAL_COMMANDS: [&str; 2] = ["uname -a", "ls -l"];
const KEY_COUNT: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of displayed lines of a command's output.
const OUTPUT_LINES_MAX: usize = 12;
/// Rate set on the pseudo-terminal; it has no effect.
const PTY_RATE_BPS: u32 = 38_400;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let result =
        if arguments.remote_station { remote_station::run() } else { demonstrate(arguments) };
    result.map_err(|error| {
        print_error(&error);
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
    findings: SessionResults,
    circumstances: Circumstances,
    measured: Measurement,
    server: String,
}

fn demonstrate(arguments: &Arguments) -> Result<()> {
    // First, while the process has a single thread.
    let network = local_server::enter_network();
    let interrupts = interrupts_by_signals()?;
    let style = style();
    print_wrapped("plumbline: a login over its own TCP/IP, and where its time goes.\n", style);
    print_wrapped("1. A real login", style);
    let login = match network {
        Ok(tun) => log_in_by_tun(tun, &interrupts, style)?,
        Err(refused) => {
            print_wrapped(
                &format!("No TUN available ({refused:#}), so two processes use a pseudo-terminal."),
                style,
            );
            log_in_by_pty(&interrupts)?
        }
    };
    check_interrupted(&interrupts)?;
    show_login(&login, style);
    print(&format!("\n{}", summary::short(&login.measured, style)));
    print_wrapped("\n2. Two personal computers of 1982, in virtual time", style);
    let laboratory = laboratory::run().context("the simulation stalled")?;
    check_interrupted(&interrupts)?;
    print_wrapped(
        "plumbline's protocol layers on a simulated line of 19,200 bit/s. Each layer is charged its \
         CPU time of 1982 (TM-233, table 6-1). Section 3 compares the results with those measured \
         in 1982.",
        style,
    );
    show_times(&laboratory, &login, style);
    leave_report(arguments, &laboratory, &login, style)
}

fn check_interrupted(interrupts: &Interrupts) -> Result<()> {
    if interrupts.is_interrupted() { Err(Interrupted.into()) } else { Ok(()) }
}

fn plan() -> SessionParameters {
    SessionParameters {
        keys: KEY_COUNT,
        echo_time: None,
        login: None,
        prompts: Prompts::default(),
        command: None,
        initial_commands: INITIAL_COMMANDS.map(str::to_owned).to_vec(),
        timeout: TIMEOUT,
        cpu_time: os::clock::process_cpu_time,
        run_queue_wait: os::schedule::thread_run_queue_wait,
    }
}

/// Logs in through a TUN to a server on this machine: the first of `local_server::daemons` that
/// provides a shell.
fn log_in_by_tun(tun: Tun, interrupts: &Interrupts, style: Style) -> Result<Login> {
    let daemons = local_server::daemons()?;
    let mut first_tun = Some(tun);
    for daemon in &daemons {
        let tun = match first_tun.take() {
            Some(tun) => tun,
            None => local_server::open_tun()?,
        };
        let server = local_server::Server::start(daemon)?;
        let via = Route::Tun {
            name: local_server::INTERFACE.to_owned(),
            local_addresses: carrier::LocalAddresses::default(),
        };
        let name = format!("{}, started by this demo", daemon.name);
        let login = log_in(via, Some(tun), &name, interrupts)?;
        drop(server);
        if !login.findings.initial_commands.is_empty() || interrupts.is_interrupted() {
            return Ok(login);
        }
        let reason =
            login.findings.notes.first().map_or("no shell prompt received", String::as_str);
        print_wrapped(&format!("{}: {reason}.", daemon.name), style);
    }
    bail!("no Telnet server of this machine accepts the login: install busybox")
}

/// Logs in over LLP on a pseudo-terminal to a station in another process.
fn log_in_by_pty(interrupts: &Interrupts) -> Result<Login> {
    let program = std::env::current_exe().context("cannot find this program: mount /proc")?;
    let mut command = Command::new(program);
    command.args(["demo", "--far-station"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut station = Program::start(&mut command).context("cannot start the remote station")?;
    let output = station.child().stdout.take().context("the remote station has no output")?;
    let mut device = String::new();
    BufReader::new(output).read_line(&mut device)?;
    let via = Route::Serial {
        device: PathBuf::from(device.trim_end()),
        rate_bps: PTY_RATE_BPS,
        link: SerialLink::LLP,
        address: Some(STATION),
    };
    log_in(via, None, "plumb's own station in another process", interrupts)
}

fn log_in(via: Route, tun: Option<Tun>, server: &str, interrupts: &Interrupts) -> Result<Login> {
    let address = local_server::SERVER;
    let started_at = SystemTime::now();
    let calibration = Calibration::start();
    let mut context = EngineContext::new(true)?;
    let progress = ProgressLine::new(status_display());
    let session = MeasureSession::new(plan(), Some(interrupts.descriptor()?), progress);
    let connecting_at = context.clock.now();
    let addresses = [SocketAddr::V4(address)];
    let ended_session = match tun {
        Some(tun) => carrier::run_on_tun(session, tun, &addresses, TIMEOUT, &mut context)?,
        None => carrier::run(session, &via, &addresses, TIMEOUT, &mut context)?,
    };
    let outcome = ended_session.outcome;
    let findings = ended_session.session.into_findings(outcome);
    if findings.opened_at.is_none() && outcome != Outcome::LocalClosed {
        bail!("{server} does not answer");
    }
    let circumstances = Circumstances {
        target: address.to_string(),
        address: Some(SocketAddr::V4(address)),
        carrier: Carrier::Network(via),
        started_at,
        resolve: None,
        connecting_at: Some(connecting_at),
        connect_time: None,
        tls: None,
        tick: calibration.finish(),
        refutation: None,
    };
    let measured = measurement(&findings, &circumstances);
    Ok(Login { findings, circumstances, measured, server: server.to_owned() })
}

fn show_login(login: &Login, style: Style) {
    print_wrapped(&format!("Logged in via {} to {}.", login.measured.via, login.server), style);
    for (command, output) in &login.findings.initial_commands {
        print(&format!("\n  $ {command}\n"));
        let lines = lines_of(output);
        for line in lines.iter().take(OUTPUT_LINES_MAX) {
            let width = style.columns().saturating_sub(2);
            let line: String = escape::terminal(line).chars().take(width).collect();
            print(&format!("  {line}\n"));
        }
        if let Some(more @ 1..) = lines.len().checked_sub(OUTPUT_LINES_MAX) {
            print(&format!("  ({more} more lines)\n"));
        }
    }
    for note in &login.findings.notes {
        print_wrapped(&format!("Incomplete: {note}."), style);
    }
}

/// Returns the lines of a command's output as a terminal displays them, without the next prompt.
fn lines_of(output: &[u8]) -> Vec<String> {
    const TERMINAL_SIDE_CELLS: u16 = 500;
    let mut meter = Meter::new(Clock::None);
    let mut rng = Rng::from_seed(0);
    let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
    let mut terminal = Terminal::new(TERMINAL_SIDE_CELLS, TERMINAL_SIDE_CELLS);
    terminal.receive(output, &mut cx);
    let mut lines: Vec<String> = terminal.text().lines().map(str::to_owned).collect();
    lines.pop();
    // The first line is the rest of the line that the command was typed on.
    lines.into_iter().skip(1).collect()
}

fn show_times(laboratory: &Laboratory, login: &Login, style: Style) {
    let measured = &login.measured;
    print_wrapped("\n3. Today and 1982", style);
    let table = page::comparison_table(laboratory, measured);
    print_wrapped(&page::origins(&table), style);
    print(&style.in_charset(&format!("\n{}", table.render(style.columns()))));
    print_wrapped(&format!("\n{}", page::SCREENFUL), style);
    if let Some(echo) = &measured.echo {
        let times = [echo.p50_ns, echo.p90_ns, echo.p99_ns].map(records::format::duration);
        let [p50, p90, p99] = times;
        let title = format!(
            "\nWhere the time of the median echo went ({} echoes: p50 {p50}, p90 {p90}, p99 {p99})",
            echo.samples
        );
        print_wrapped(&style.in_charset(&title), style);
        print(&bar_chart::layers(&echo.layers, style));
    }
    if let Some(screenful) = &measured.screenful {
        let title = format!(
            "\nWhere the time of a screenful of {} cells went, {}",
            screenful.cells,
            summary::extent_of(screenful)
        );
        print_wrapped(&title, style);
        print(&bar_chart::layers(&screenful.layers, style));
    }
    print_wrapped(&format!("\n{}", style.in_charset(&measured.verdict)), style);
}

fn leave_report(
    arguments: &Arguments,
    laboratory: &Laboratory,
    login: &Login,
    style: Style,
) -> Result<()> {
    let keystroke = median_keystroke(&login.findings, &login.circumstances);
    let picture = keystroke.map(|one| Waterfall::of_keystroke(&one, &login.measured));
    let text = page::render(laboratory, &login.measured, picture, &login.server);
    let (file, is_persistent) = page::write(&text, arguments.report.as_deref())?;
    if !is_persistent {
        print_wrapped(
            "\nThe current directory is not writable, so the report is in the temporary directory:",
            style,
        );
    }
    let file = escape::terminal(file.display().to_string());
    print(&format!("{}Report: {file}\n", if is_persistent { "\n" } else { "" }));
    Ok(())
}

/// Prints text, wrapped to the width of the terminal.
fn print_wrapped(text: &str, style: Style) {
    let folded: String =
        text.split('\n')
            .flat_map(|line| {
                if line.is_empty() { vec![String::new()] } else { wrap(line, style.columns()) }
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
