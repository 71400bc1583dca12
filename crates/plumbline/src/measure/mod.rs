//! `plumb measure`: determines where the time of a login, a file transfer, a serial line or a
//! recorded session goes, and what limits it.
//!
//! The measurement itself is in the crate `measure`. This module translates its arguments, signals,
//! reports and exit codes.

mod arguments;
mod live;
mod status_display;
mod termination_signals;

pub(crate) use arguments::{ABOUT, Arguments, PAGE};
pub(crate) use status_display::status_display;
pub(crate) use termination_signals::interrupts_by_signals;

use crate::exit::{self, Failure, print_diagnostic, print_error, print_note};
use crate::files::credentials;
use crate::output_style::{stdout_columns_of_table, style};
use anyhow::{Context, Result};
use live::LiveDisplay;
use measure::{
    FailureKind, FileOptions, Interrupts, Login, LoginOptions, MeasureOptions, MeasureTarget,
    Prompts, Schedule, Series, SeriesResult,
};
use net::time::Duration;
use os::tty::{self, RawMode};
use records::Measurement;
use records::calendar::Moment;
use records::measures::Attempt;
use records::severity::Severity;
use report::bar_chart::Style;
use report::html::waterfall::Waterfall;
use report::html::{Report, Section};
use report::summary;
use std::fmt;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::SystemTime;
use transfer::termination;

/// Default of --keys for --follow: the first measurement is short, so that the display begins soon.
const FOLLOW_KEYS: u32 = 20;

/// Number of SIGINT on Linux.
const SIGINT: i32 = 2;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let schedule = match arguments.schedule() {
        Ok(schedule) => schedule,
        Err(error) => {
            print_error(&error);
            return Err(Failure::WrongArguments);
        }
    };
    let measured = options(arguments).and_then(|options| {
        check_writable(arguments.html.as_deref())?;
        let interrupts = interrupts_by_signals()?;
        if !arguments.compare.is_empty() {
            return compare(arguments, &options, &interrupts);
        }
        let display = if is_live(arguments) {
            let target = options.target.to_string();
            let style = style();
            Some(LiveDisplay::start(target, style, interrupts.interrupter())?)
        } else {
            None
        };
        let on_try = |tries: &[Attempt]| match (&display, tries.last()) {
            (Some(display), Some(last)) => display.push(last),
            _ => show_try(arguments, schedule, tries),
        };
        let series = Series { options: &options, interrupts: &interrupts, on_try: &on_try };
        let series_result = series.run(schedule);
        if let Some(display) = display {
            display.end();
        }
        let series_result = series_result?;
        report(arguments, &series_result)?;
        // A series is meant to be ended by an interrupt.
        if schedule.count == 1 && interrupts.is_interrupted() {
            return Ok(Err(Failure::Interrupted));
        }
        Ok(result(&series_result))
    });
    measured.unwrap_or_else(|error| match error.is::<InterruptedPrompt>() {
        true => Err(Failure::Interrupted),
        false => Err(exit::local_failure(&error)),
    })
}

/// Returns whether the series is displayed on the whole terminal.
fn is_live(arguments: &Arguments) -> bool {
    arguments.follow && !arguments.json && tty::is_stdout_terminal()
}

impl From<FailureKind> for Failure {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::RemoteHost => Self::RemoteHost,
            FailureKind::Request => Self::WrongArguments,
            FailureKind::NothingMeasured => Self::NothingMeasured,
            FailureKind::ThisMachine => Self::ThisMachine,
        }
    }
}

/// Returns the options of the measurement, with the credentials for the target.
fn options(arguments: &Arguments) -> Result<MeasureOptions> {
    let mut login_credentials = None;
    let mut target = arguments.target()?;
    match &mut target {
        MeasureTarget::Login(_) => {
            let user = arguments.login.as_deref().or(target.login_user());
            login_credentials = user.map(|user| login(user, arguments)).transpose()?;
        }
        MeasureTarget::Files(url) => {
            if let Some(user) = &arguments.login {
                url.login.user = Some(user.clone().into_bytes());
            }
            if let Some(file) = &arguments.password_file {
                url.login.password = Some(first_line_of(file)?.into_bytes());
            }
        }
        MeasureTarget::Recording(_) | MeasureTarget::Running(_) => {}
    }
    let prompts = arguments.prompt.as_deref().map_or_else(Prompts::default, Prompts::ending_in);
    Ok(MeasureOptions {
        target,
        via: arguments.via.clone(),
        families: arguments.family.families(),
        timeout: Duration::from_secs(arguments.timeout),
        ca: arguments.ca.clone(),
        compares_pattern: arguments.pattern,
        login: LoginOptions {
            credentials: login_credentials,
            prompts,
            command: arguments.command.clone(),
            keys: arguments.keys.or(arguments.follow.then_some(FOLLOW_KEYS)),
        },
        files: FileOptions {
            largest_bytes: arguments.bytes,
            rounds: arguments.rounds,
            writes: arguments.write,
            estimate_bytes: arguments.estimate,
            credentials: |url| credentials(url, None),
            message: if is_live(arguments) {
                |_, text| live::show_status(text)
            } else {
                print_diagnostic
            },
        },
        observation_time: arguments.length,
        progress: if is_live(arguments) { Some(live::show_status) } else { status_display() },
        report: Some(print_note),
    })
}

/// Prints the last of `tries` if there are several tries.
fn show_try(arguments: &Arguments, schedule: Schedule, tries: &[Attempt]) {
    let Some(last) = tries.last().filter(|_| schedule.count > 1 && !arguments.json) else { return };
    // In a pipe or a file, no reason of a failure is cut.
    let style = Style { width: stdout_columns_of_table(), ..style() };
    let now = Moment::from(SystemTime::now()).rfc_3339();
    let time = now.get(11..19).unwrap_or_default();
    let mut stdout = io::stdout();
    // Ignored: the reader of the output has gone.
    _ = stdout.write_all(summary::try_line(last, time, style).as_bytes());
    _ = stdout.flush();
}

/// Measures the programs of `--compare` in turn, and prints their figures side by side.
fn compare(
    arguments: &Arguments,
    options: &MeasureOptions,
    interrupts: &Interrupts,
) -> Result<exit::Result> {
    let programs = measure::compare(&arguments.compare, arguments.rounds, options, interrupts)?;
    if let Some(file) = &arguments.html {
        write_page(file, report::comparison::report(&programs), 1)?;
    }
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&programs)? + "\n",
        false => report::comparison::text(&programs, style()),
    };
    io::stdout().write_all(text.as_bytes())?;
    if interrupts.is_interrupted() {
        return Ok(Err(Failure::Interrupted));
    }
    let has_failure = programs.iter().any(|program| program.failure.is_some());
    Ok(if has_failure { Err(Failure::RemoteHost) } else { Ok(()) })
}

fn result(series_result: &SeriesResult) -> exit::Result {
    match (&series_result.measured, &series_result.last_failure) {
        (Some(measured), _) if measured.is_incomplete => Err(Failure::RemoteHost),
        (Some(measured), _) if measured.has_measured && series_result.record.failure.is_some() => {
            Err(Failure::RemoteHost)
        }
        (Some(measured), _) if measured.has_measured => Ok(()),
        // Nothing was measured, and the verdict names the fault of the server or the path.
        (Some(measured), _) if !measured.record.causes.is_empty() => Err(Failure::RemoteHost),
        (None, Some(last)) => Err(last.kind.into()),
        _ => Err(Failure::NothingMeasured),
    }
}

/// Writes the record and the page, and reports incomplete measurements.
fn report(arguments: &Arguments, series_result: &SeriesResult) -> Result<()> {
    let SeriesResult { measured, record, last_failure } = series_result;
    let style = style();
    let mut printed = Ok(());
    // A single failed try is reported as one message; several tries have a report.
    if arguments.json {
        printed = io::stdout().write_all((record.to_json() + "\n").as_bytes());
    } else if measured.is_some() || record.tries.len() > 1 {
        printed = io::stdout().write_all(text(arguments, record, style).as_bytes());
    }
    if let (None, Some(failure), ..=1) = (measured, last_failure, record.tries.len()) {
        print_diagnostic(Severity::Error, &failure.reason);
    }
    let is_printed = |note: &&String| !arguments.json && record.failure.as_ref() == Some(*note);
    for note in measured.iter().flat_map(|measured| &measured.notes).filter(|one| !is_printed(one))
    {
        print_diagnostic(Severity::Note, &format!("{}: {note}", record.target));
    }
    if let (Some(file), Some(measured)) = (&arguments.html, measured) {
        let mut page = summary::report(record);
        // The waterfall of a keystroke is the first picture.
        let at = page.sections.iter().position(|section| matches!(section, Section::Plot(_)));
        let at = at.unwrap_or(page.sections.len());
        let picture = measured.keystroke.as_ref();
        let picture = picture.map(|one| Waterfall::of_keystroke(one, record));
        page.sections.splice(at..at, picture.map(Section::Waterfall));
        write_page(file, page, 2)?;
    }
    // The page is complete even if the reader of the output has closed the pipe.
    Ok(printed?)
}

/// Writes a page with the command that made it as section number `at`.
fn write_page(file: &Path, mut page: Report, at: usize) -> Result<()> {
    let words: Vec<_> = std::env::args_os().collect();
    let command = measure::command_text(words.iter().map(AsRef::as_ref));
    page.sections.insert(at.min(page.sections.len()), Section::Command(command));
    std::fs::write(file, page.render())
        .with_context(|| format!("cannot write the report to {}", file.display()))
}

/// Checks before a measurement that its page can be written; an existing file remains unchanged.
fn check_writable(page: Option<&Path>) -> Result<()> {
    let Some(file) = page else { return Ok(()) };
    let is_new = !file.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.with_context(|| format!("cannot write the report to {}", file.display()))?;
    if is_new {
        _ = std::fs::remove_file(file);
    }
    Ok(())
}

/// Returns the report for a terminal: the short form, and the requested details.
fn text(arguments: &Arguments, record: &Measurement, style: Style) -> String {
    let mut text = summary::short(record, style);
    if arguments.verbose {
        text += &format!("\n{}", summary::text(record, style));
    }
    if arguments.rfc573 {
        text += &format!("\n{}", summary::rfc573(record, style));
    }
    text
}

fn login(user: &str, arguments: &Arguments) -> Result<Login> {
    let password = match (&arguments.password_file, std::env::var("PLUMB_PASSWORD").ok()) {
        (Some(file), _) => Some(first_line_of(file)?),
        (None, Some(password)) => Some(password),
        (None, None) if io::stdin().is_terminal() => Some(ask_password(user)?),
        (None, None) => None,
    };
    Ok(Login { user: user.to_owned(), password })
}

fn first_line_of(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the password from {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Error of a prompt at which the user has pressed ^C.
#[derive(Debug)]
struct InterruptedPrompt;

impl fmt::Display for InterruptedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for InterruptedPrompt {}

/// Prompts for the password on the terminal, without echo.
fn ask_password(user: &str) -> Result<String> {
    // Keys that are typed as soon as the prompt is displayed are not echoed.
    let raw = RawMode::enter()?;
    let mut stderr = io::stderr();
    write!(stderr, "Password of {} (Return for none): ", records::escape::terminal(user))?;
    stderr.flush()?;
    let mut password = Vec::new();
    let mut byte = [0];
    let is_confirmed = loop {
        match io::stdin().read(&mut byte)? {
            0 => break false,
            _ => match byte {
                [b'\r' | b'\n'] => break true,
                // In raw mode, ^C is a character.
                [0x03] => {
                    drop(raw);
                    writeln!(stderr)?;
                    termination::record(SIGINT);
                    return Err(InterruptedPrompt.into());
                }
                [0x04] => break false,
                [0x7f | 0x08] => _ = password.pop(),
                [0x15] => password.clear(),
                [other] => password.push(other),
            },
        }
    };
    drop(raw);
    writeln!(stderr)?;
    if !is_confirmed {
        anyhow::bail!("no password given");
    }
    String::from_utf8(password).context("the password is not valid UTF-8")
}
