//! `plumb measure`: determines where the time of a login, a file transfer, a serial line or a
//! recorded session goes, and what limits it.
//!
//! ```text
//! series      the tries at a target; what is left of them is a record
//!   login       walk: a whole login; probe_login: whether it can be used, and what comes back right
//!   transfers   files of growing sizes, by the users' sides of FTP and TFTP
//!   recorded    what a recording holds
//!   running     what a running plumb does, by its meters
//! ```

mod answers;
mod arguments;
mod beside;
mod command;
mod console;
mod echo;
mod foretold;
mod foretold_walk;
mod interrupt;
mod login;
mod observed;
mod observed_walk;
mod outcome;
mod pieces;
mod probe_login;
mod progress;
mod prompt;
mod record;
mod recorded;
mod running;
mod schedule;
mod series;
mod stamp;
mod sustained;
mod target;
mod transfers;
mod walk;
#[cfg(test)]
mod walk_planted_tests;
#[cfg(test)]
mod walk_tests;

pub(crate) use arguments::{ABOUT, Arguments};
pub(crate) use interrupt::Interrupts;
pub(crate) use progress::ProgressLine;
pub(crate) use prompt::Prompts;
pub(crate) use record::{Carrier, Circumstances, measurement, waterfall};
pub(crate) use walk::{Findings, Login, Plan, Walk};

pub(crate) use record::rfc_3339;

use crate::exit::{self, Failure, complain};
use crate::files::url;
use anyhow::{Context, Result};
use os::tty::{self, RawMode};
use records::bars::{Charset, Style};
use records::html::Section;
use records::summary;
use series::{Ended, Series};
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use target::Subject;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let schedule = match arguments.schedule() {
        Ok(schedule) => schedule,
        Err(error) => {
            complain(&error);
            return Err(Failure::WrongArguments);
        }
    };
    let measured = series(arguments).and_then(|(login, url)| {
        let interrupts = &Interrupts::watch()?;
        let ended = Series { arguments, interrupts, login, url }.run(schedule)?;
        report(arguments, &ended)?;
        Ok(result(&ended))
    });
    measured.unwrap_or_else(|error| {
        complain(&error);
        Err(Failure::ThisMachine)
    })
}

/// Returns the user with the password: of a login, or as part of the URL of a file server.
fn series(arguments: &Arguments) -> Result<(Option<Login>, Option<url::Url>)> {
    match &arguments.target {
        Subject::Login { .. } | Subject::Line(_) => {
            let login = arguments.login.as_ref().map(|user| login(user, arguments)).transpose()?;
            Ok((login, None))
        }
        Subject::Files(url) => {
            let mut url = url.clone();
            if let Some(user) = &arguments.login {
                url.login.user = Some(user.clone().into_bytes());
            }
            if let Some(file) = &arguments.password_file {
                url.login.password = Some(first_line_of(file)?.into_bytes());
            }
            Ok((None, Some(url)))
        }
        Subject::Recording(_) | Subject::Running(_) => Ok((None, None)),
    }
}

fn result(ended: &Ended) -> exit::Result {
    match (&ended.measured, &ended.failed) {
        (Some(measured), _) if measured.is_incomplete => Err(Failure::FarSide),
        (Some(measured), _) if measured.has_measured => Ok(()),
        // Nothing was measured, and the verdict names the fault of the server or the path.
        (Some(measured), _) if !measured.record.causes.is_empty() => Err(Failure::FarSide),
        (None, Some(failed)) => Err(failed.failure),
        _ => Err(Failure::NothingMeasured),
    }
}

/// Writes the record and the page, and reports incomplete measurements.
fn report(arguments: &Arguments, ended: &Ended) -> Result<()> {
    let Ended { measured, record, failed } = ended;
    // A single failed try is reported as one message; several tries have a report.
    if measured.is_some() || record.tries.len() > 1 {
        let text =
            if arguments.json { record.to_json() + "\n" } else { summary::text(record, style()) };
        // Ignored: the reader of the output has gone.
        _ = io::stdout().write_all(text.as_bytes());
    }
    let notes = measured.iter().flat_map(|measured| &measured.notes);
    for note in notes {
        complain(&anyhow::anyhow!("{}: {note}", record.target));
    }
    if let Some(failed) = failed {
        complain(&anyhow::anyhow!("{}", failed.why));
    }
    if let (Some(file), Some(measured)) = (&arguments.html, measured) {
        let mut page = summary::report(record);
        // The waterfall of a keystroke is the first picture.
        let at = page.sections.iter().position(|section| matches!(section, Section::Plot(_)));
        let at = at.unwrap_or(page.sections.len());
        page.sections.splice(at..at, measured.sections.iter().cloned());
        std::fs::write(file, page.render())
            .with_context(|| format!("cannot write the report to {}", file.display()))?;
    }
    Ok(())
}

/// Returns the capabilities of the terminal at stdout.
pub(crate) fn style() -> Style {
    let is_terminal = tty::is_stdout_terminal();
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let is_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_uppercase();
        locale.contains("UTF-8") || locale.contains("UTF8")
    });
    Style {
        width: exit::stdout_columns(),
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
        .with_context(|| format!("cannot read the password from {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Prompts for the password on the terminal, without echo.
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
        anyhow::bail!("no password given");
    }
    String::from_utf8(password).context("the password is not valid UTF-8")
}
