//! `plumb measure`: walks through a login, and says where its time goes and what limits it.

mod command;
mod console;
mod echo;
mod interrupt;
mod progress;
mod prompt;
mod record;
mod stamp;
mod walk;
#[cfg(test)]
mod walk_tests;

pub(crate) use interrupt::Interrupts;
pub(crate) use progress::ProgressLine;
pub(crate) use prompt::Prompts;
pub(crate) use record::{Circumstances, measurement, waterfall};
pub(crate) use walk::{Findings, Login, Plan, Walk};

pub(crate) use record::rfc_3339;

use crate::carry::{self, Bench, NoAddress, Target, Via};
use crate::exit::{self, Failure, complain};
use anyhow::{Context, Result};
use os::clock::Calibration;
use os::tty::{self, RawMode, WindowSize};
use protocols::time::Duration;
use records::bars::{Charset, Style};
use records::html::Section;
use records::{Measurement, summary};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Arguments of `plumb measure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Host, host:port or telnet://host:port, where an IPv6 address before a port stands in
    /// brackets; of several addresses the first that answers is measured
    target: Target,
    /// By which way: kernel, tun:NAME, tap:NAME, packet:INTERFACE,
    /// serial:DEVICE?baud=19200&link=llp
    #[arg(long, default_value = "kernel", value_name = "WAY")]
    via: Via,
    #[command(flatten)]
    family: carry::Family,
    /// Write the record as JSON
    #[arg(long)]
    json: bool,
    /// How many keys to measure the echo with
    #[arg(long, default_value_t = 200, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    keys: u32,
    /// Log in as this user where a name is asked for; without it, Return is pressed nowhere but
    /// in a shell
    #[arg(long, value_name = "USER")]
    login: Option<String>,
    /// A file whose first line is the password; else the terminal is asked
    #[arg(long, value_name = "FILE", requires = "login")]
    password_file: Option<PathBuf>,
    #[arg(long, env = "PLUMB_PASSWORD", hide_env_values = true, hide = true)]
    password: Option<String>,
    /// How the shell's prompt ends, if not in one of '$ ', '# ', '% ' and '> '; several are
    /// separated by |
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// What to run in a shell for the screenful, if not a printf of 24 lines
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Also write a report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seconds in which the connection must stand, and in which something must come where
    /// something is waited for
    #[arg(long, default_value_t = carry::DEFAULT_TIMEOUT.as_secs(), value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    match try_run(arguments) {
        Ok(result) => result,
        Err(error) => {
            complain(&error);
            Err(Failure::ThisMachine)
        }
    }
}

fn try_run(arguments: &Arguments) -> Result<exit::Result> {
    let login = arguments.login.as_ref().map(|user| login(user, arguments)).transpose()?;
    let plan = Plan {
        keys: usize::try_from(arguments.keys).unwrap_or(usize::MAX),
        login,
        prompts: arguments.prompt.as_deref().map_or_else(Prompts::default, Prompts::ending_in),
        command: arguments.command.clone(),
        errands: Vec::new(),
        patience: Duration::from_secs(arguments.timeout),
        cpu_time: os::clock::process_cpu_time,
    };
    let interrupts = Interrupts::watch()?;
    let started_at = SystemTime::now();
    let clock = os::clock::Monotonic::start();
    let (target, via) = (&arguments.target, &arguments.via);
    let interrupt = interrupts.descriptor()?;
    let asked = carry::addresses(target, arguments.family, via, Some(interrupt.as_fd()))?;
    let addresses = match asked {
        Ok(addresses) => addresses,
        Err(NoAddress::Interrupted) => return Ok(Err(interrupted())),
        Err(why) => return Ok(Err(exit::far_side(why.to_string()))),
    };
    let resolve = clock.now() - protocols::Instant::ZERO;
    let calibration = Calibration::start();
    let mut bench = Bench::new(true)?;
    let walk = Walk::new(plan, Some(interrupt), ProgressLine::on_stderr());
    let connecting_at = bench.clock.now();
    let patience = Duration::from_secs(arguments.timeout);
    let call = carry::run(walk, via, &addresses, patience, &mut bench)?;
    let circumstances = Circumstances {
        target: named(target),
        address: call.address,
        via: via.clone(),
        started_at,
        resolve: Some(resolve),
        connecting_at,
        tick: calibration.finish(),
    };
    let findings = call.session.into_findings(call.outcome);
    if findings.opened_at.is_none() {
        let others = addresses.len().saturating_sub(1);
        let why = call.outcome.failure(false, call.address, others, arguments.timeout);
        return Ok(Err(why.map_or_else(interrupted, exit::far_side)));
    }
    let measured = measurement(&findings, &circumstances);
    report(arguments, &measured, &findings, &circumstances)?;
    let has_measured = measured.echo.is_some() || measured.screenful.is_some();
    Ok(if has_measured { Ok(()) } else { Err(Failure::NothingMeasured) })
}

/// Says that nothing was measured because the user did not want to wait for it.
fn interrupted() -> Failure {
    complain(&anyhow::anyhow!("{}", NoAddress::Interrupted));
    Failure::NothingMeasured
}

/// Returns the target as people name it.
fn named(target: &Target) -> String {
    let Target { host, port } = target;
    match (host.contains(':'), *port == carry::TELNET_PORT) {
        (_, true) => host.clone(),
        (false, false) => format!("{host}:{port}"),
        (true, false) => format!("[{host}]:{port}"),
    }
}

/// Writes the record, the page, and what could not be done.
fn report(
    arguments: &Arguments,
    measured: &Measurement,
    findings: &Findings,
    circumstances: &Circumstances,
) -> Result<()> {
    let text =
        if arguments.json { measured.to_json() + "\n" } else { summary::text(measured, style()) };
    // Where the reader has gone there is nobody to tell.
    _ = io::stdout().write_all(text.as_bytes());
    for note in &findings.notes {
        complain(&anyhow::anyhow!("{}: {note}", measured.target));
    }
    if let Some(file) = &arguments.html {
        let mut page = summary::report(measured);
        page.sections.extend(waterfall(findings, circumstances.rates()).map(Section::Waterfall));
        std::fs::write(file, page.render())
            .with_context(|| format!("the report cannot be written to {}", file.display()))?;
    }
    Ok(())
}

/// Returns what the terminal on stdout can show.
pub(crate) fn style() -> Style {
    let is_terminal = tty::is_stdout_terminal();
    let window = if is_terminal { WindowSize::of(io::stdout()) } else { None };
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let is_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_uppercase();
        locale.contains("UTF-8") || locale.contains("UTF8")
    });
    Style {
        width: window.map_or(Style::default().width, |window| window.columns.into()),
        charset: if is_unicode { Charset::Unicode } else { Charset::Ascii },
        colour: is_terminal && !has("NO_COLOR") && std::env::var("TERM").as_deref() != Ok("dumb"),
    }
}

fn login(user: &str, arguments: &Arguments) -> Result<Login> {
    let password = match (&arguments.password_file, &arguments.password) {
        (Some(file), _) => Some(first_line_of(file)?),
        (None, Some(password)) => Some(password.clone()),
        (None, None) if io::stdin().is_terminal() => Some(ask_password(user)?),
        (None, None) => None,
    };
    Ok(Login { user: user.to_owned(), password })
}

fn first_line_of(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("the password cannot be read from {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Asks for the password on the terminal, without echo.
fn ask_password(user: &str) -> Result<String> {
    let mut stderr = io::stderr();
    write!(stderr, "Password of {} (Return for none): ", records::escape::terminal(user))?;
    stderr.flush()?;
    let raw = RawMode::enter()?;
    let mut password = Vec::new();
    let mut byte = [0];
    let is_given = loop {
        match io::stdin().read(&mut byte)? {
            0 => break false,
            _ => match byte {
                [b'\r' | b'\n'] => break true,
                [0x03 | 0x04] => break false,
                [0x7f | 0x08] => _ = password.pop(),
                [0x15] => password.clear(),
                [other] => password.push(other),
            },
        }
    };
    drop(raw);
    writeln!(stderr)?;
    if !is_given {
        anyhow::bail!("no password was given");
    }
    String::from_utf8(password).context("the password is no UTF-8")
}
