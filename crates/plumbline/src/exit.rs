//! Exit status of a command, and the error message of a failed one.

use std::process::ExitCode;
use transfer::{FailureClass, termination};

/// Exit code for wrong arguments.
pub(crate) const WRONG_ARGUMENTS: u8 = 2;

/// Category of a failure, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 1: caused by the remote host.
    RemoteHost,
    /// 2: caused by wrong arguments, or by a file named in the arguments.
    WrongArguments,
    /// 3: nothing could be measured, or the user did not confirm.
    NothingMeasured,
    /// 4: caused by this machine.
    ThisMachine,
    /// 141, as after SIGPIPE: the reader of the standard output has closed the pipe.
    ClosedOutput,
    /// 128 plus the number of the signal that ended the command.
    Interrupted,
    /// Exit code specified by a script.
    Script(u8),
}

impl Failure {
    fn code(self) -> u8 {
        match self {
            Self::RemoteHost => 1,
            Self::WrongArguments => WRONG_ARGUMENTS,
            // A measurement that a signal has ended before its first result.
            Self::NothingMeasured | Self::Interrupted => termination::exit_code().unwrap_or(3),
            Self::ThisMachine => 4,
            Self::ClosedOutput => 141,
            Self::Script(code) => code,
        }
    }
}

impl From<FailureClass> for Failure {
    fn from(class: FailureClass) -> Self {
        match class {
            FailureClass::RemoteHost => Self::RemoteHost,
            FailureClass::Request => Self::WrongArguments,
            FailureClass::ThisMachine => Self::ThisMachine,
            FailureClass::Declined => Self::NothingMeasured,
            FailureClass::Interrupted => Self::Interrupted,
            FailureClass::ClosedOutput => Self::ClosedOutput,
        }
    }
}

/// Result of a command. Before a failure is returned, its message was printed on stderr.
pub(crate) type Result = std::result::Result<(), Failure>;

/// Returns the exit code of `result`.
pub(crate) fn code(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code()),
    }
}

/// Prints the error of a failed command on stderr, in one sentence.
pub(crate) fn print_error(error: &anyhow::Error) {
    print_sentence(&format!("{error:#}"));
}

/// Prints a sentence on stderr, wrapped at the width of a terminal; elsewhere it is one line.
pub(crate) fn print_sentence(sentence: &str) {
    use std::io::Write;
    let text = format!("plumb: {}", records::escape::message(sentence));
    let columns = os::tty::WindowSize::of(std::io::stderr()).map(|size| size.columns.into());
    // Ignored: stderr may be closed.
    _ = writeln!(std::io::stderr(), "{}", wrapped(text, columns));
}

fn wrapped(text: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if columns > 0 => report::table::wrap(&text, columns).join("\n"),
        _ => text,
    }
}

/// Prints an error of this machine, and returns the failure. If the reader of the standard output has
/// closed the pipe, no message is printed, as by other tools.
pub(crate) fn local_failure(error: &anyhow::Error) -> Failure {
    let is_closed = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        return Failure::ClosedOutput;
    }
    print_error(error);
    Failure::ThisMachine
}

/// Prints an error caused by the remote host or its name, and returns the failure.
pub(crate) fn remote_failure(message: String) -> Failure {
    print_error(&anyhow::Error::msg(message));
    Failure::RemoteHost
}

/// Returns the width of the terminal on stdout, else `COLUMNS`, else 80. The result is at least 40
/// and at most 200.
pub(crate) fn stdout_columns() -> usize {
    known_stdout_columns().unwrap_or(80).clamp(40, 200)
}

/// Returns the width of the terminal on stdout, else `COLUMNS`, else the maximum, so that each row of
/// a table is one line in a pipe or a file. The result is at least 40.
pub(crate) fn stdout_columns_of_table() -> usize {
    known_stdout_columns().map_or(usize::MAX, |columns| columns.clamp(40, 200))
}

fn known_stdout_columns() -> Option<usize> {
    let size = os::tty::WindowSize::of(std::io::stdout());
    let columns_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    size.map(|size| usize::from(size.columns)).or_else(columns_variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_wrapped_at_words_only_on_a_terminal() {
        let text = "plumb: 10.0.0.1:99 refuses the connection: check the port".to_owned();
        let expected = "plumb: 10.0.0.1:99 refuses the\nconnection: check the port";
        assert_eq!(wrapped(text.clone(), Some(40)), expected);
        assert_eq!(wrapped(text.clone(), None), text);
    }
}
