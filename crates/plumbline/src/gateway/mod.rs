//! `plumb` under the name of a gateway that it replaces.

use gateway_host::invocation::{ExitText, Invocation, ProgramName};
use gateway_host::slirp4netns::{self, SlirpProgram};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the gateway if the program was started as `slirp4netns`.
pub fn run_as_named() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (name, arguments) = arguments.split_first()?;
    match ProgramName::of(name)? {
        ProgramName::Slirp4netns => Some(run_slirp4netns(arguments)),
        ProgramName::Pasta | ProgramName::Passt => None,
    }
}

fn run_slirp4netns(arguments: &[OsString]) -> ExitCode {
    let settings = match slirp4netns::parse(arguments) {
        Invocation::Run(settings) => settings,
        Invocation::Text(ExitText { stdout, stderr, exit_code }) => {
            print!("{stdout}");
            eprint!("{stderr}");
            return ExitCode::from(exit_code);
        }
    };
    settings.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let text = slirp4netns::start_text(&settings);
    let started = SlirpProgram::start(settings);
    if started.is_ok() {
        print!("{text}");
    }
    match started.and_then(SlirpProgram::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
