//! `plumb serve`: arguments, the output of `--check` and `--hash-password`, and exit codes. The
//! servers are in the crate `server`.

mod help;
mod serve_arguments;

pub(crate) use help::{ABOUT, PAGE};
pub(crate) use serve_arguments::Arguments;

use crate::exit::{self, Failure};
use anyhow::{Context, Result, bail};
use std::io::{self, Read, Write};

/// Runs `plumb serve`.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    if arguments.hash_password {
        return hash_password().map_err(|error| print_error(&error));
    }
    if arguments.prove_system_user {
        let code = server::prove_system_user().map_err(|error| print_error(&error))?;
        std::process::exit(code);
    }
    if arguments.check || arguments.check_as.is_some() {
        return check(arguments);
    }
    if arguments.print_config {
        let text = server::effective_configuration(&arguments.to_flags());
        return print(&text.map_err(|error| invalid(&error))?).map_err(|error| print_error(&error));
    }
    #[cfg(target_env = "gnu")]
    os::heap::return_large_blocks();
    let prepared = server::prepare(&arguments.to_flags()).map_err(|error| invalid(&error))?;
    let result = server::serve(prepared);
    // The wait is limited: if nothing reads the log, the server ends nevertheless.
    let is_read = server::flush_log();
    result.map_err(|error| if is_read { print_error(&error) } else { Failure::ThisMachine })
}

fn print_error(error: &anyhow::Error) -> Failure {
    exit::print_error(error);
    Failure::ThisMachine
}

/// Reports an error of the configuration or of the arguments.
fn invalid(error: &anyhow::Error) -> Failure {
    exit::print_error(error);
    Failure::WrongArguments
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Checks the configuration, and prints the result.
fn check(arguments: &Arguments) -> exit::Result {
    // systemd names the running server to the commands of ExecReload (systemd.exec(5)).
    let server_pid = std::env::var("MAINPID").ok().and_then(|pid| pid.parse().ok());
    match server::check(&arguments.to_flags(), arguments.check_as.as_deref(), server_pid) {
        Ok(warnings) => {
            // Nothing can be reported if standard output is closed.
            for line in warnings {
                _ = writeln!(io::stdout(), "{line}");
            }
            let name = arguments.config.as_ref().map(|path| path.display().to_string());
            let subject = name.unwrap_or_else(|| "arguments".to_owned());
            _ = writeln!(io::stdout(), "{subject}: configuration OK");
            Ok(())
        }
        Err(error) => Err(invalid(&error)),
    }
}

fn hash_password() -> Result<()> {
    let mut password = Vec::new();
    io::stdin().read_to_end(&mut password)?;
    let end = password.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    password.truncate(end.unwrap_or(password.len()));
    if password.is_empty() {
        bail!("no password on standard input");
    }
    let hash = server::hash_password(&password);
    password.fill(0);
    print(&format!("{}\n", hash?))
}
