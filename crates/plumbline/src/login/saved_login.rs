//! Saves a host with its options, lists the saved hosts, and removes one.

use crate::exit::{self, Failure};
use carrier::host_configuration::{self, HostError};
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::io::Write;

/// Host and options of a login, as typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypedLogin {
    target: String,
    options: Vec<String>,
}

impl TypedLogin {
    /// Returns the host and the options of a command line of `command`, the login. Options get their
    /// long names.
    pub(crate) fn of(matches: &ArgMatches, command: &clap::Command) -> Self {
        let text = |id: &str| {
            let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
            values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let mut options: Vec<_> =
            text("port").iter().map(|port| format!("--port={port}")).collect();
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let source = matches.value_source(id);
            let Some(name) = argument.get_long().filter(|name| !["save", "replace"].contains(name))
            else {
                continue;
            };
            if source != Some(ValueSource::CommandLine) {
                continue;
            }
            match argument.get_action().takes_values() {
                true => options.extend(text(id).iter().map(|value| format!("--{name}={value}"))),
                false => options.push(format!("--{name}")),
            }
        }
        Self { target: text("destination").concat(), options }
    }

    /// Saves the login under `name`, in place of a saved host of this name if `replaces` is set.
    pub(super) fn save(&self, name: &str, replaces: bool) -> exit::Result {
        let saved = host_configuration::save_host(name, &self.target, &self.options, replaces);
        let path = saved.map_err(failure)?;
        super::say(&format!("Saved in {}; to log in: plumb login {name}", path.display()));
        Ok(())
    }
}

/// Removes the saved host `name`.
pub(super) fn remove(name: &str) -> exit::Result {
    let path = host_configuration::remove_host(name).map_err(failure)?;
    super::say(&format!("Removed '{}' from {}", name.escape_debug(), path.display()));
    Ok(())
}

/// Prints the error, and returns the failure.
fn failure(error: HostError) -> Failure {
    match error {
        HostError::File(error) => exit::local_failure(&error),
        HostError::Request(error) => {
            exit::print_error(&error);
            Failure::WrongArguments
        }
    }
}

/// Prints the saved hosts.
pub(super) fn list() -> exit::Result {
    let hosts = host_configuration::list_hosts().map_err(|error| exit::local_failure(&error))?;
    if hosts.is_empty() {
        super::say("No host is saved; to save one: plumb login --save NAME HOST [OPTIONS]");
    }
    // Ignored: stdout may be closed.
    _ = std::io::stdout().write_all(hosts.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_options_are_kept_with_their_long_names() {
        let line = "login --save bbs --replace -l ann --encoding=cp437 host 2323 --char --env A --env B \
                    --script s";
        let program = crate::cli::command();
        let command = program.find_subcommand("login").unwrap().clone();
        let matches = command.clone().try_get_matches_from(line.split(' ')).unwrap();
        let mut typed = TypedLogin::of(&matches, &command);
        typed.options.sort();
        let options = [
            "--char",
            "--encoding=cp437",
            "--env=A",
            "--env=B",
            "--port=2323",
            "--script=s",
            "--user=ann",
        ];
        assert_eq!(
            (typed.target.as_str(), typed.options.as_slice()),
            ("host", &options.map(str::to_owned)[..])
        );
    }
}
