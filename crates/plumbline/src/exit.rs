//! Exit status of a command, and its messages on the standard error.

use crate::output_style;
use records::severity::Severity;
use report::diagnostic::diagnostic;
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
    print_diagnostic(Severity::Error, &format!("{error:#}"));
}

/// Prints a note on stderr.
pub(crate) fn print_note(sentence: &str) {
    print_diagnostic(Severity::Note, sentence);
}

/// Prints a warning on stderr.
pub(crate) fn print_warning(sentence: &str) {
    print_diagnostic(Severity::Warning, sentence);
}

/// Prints a sentence on stderr, wrapped at the width of a terminal; elsewhere it is one line.
pub(crate) fn print_diagnostic(severity: Severity, sentence: &str) {
    use std::io::Write;
    let text = records::escape::message(&records::escape::without_error_numbers(sentence));
    let columns = os::tty::WindowSize::of(std::io::stderr()).map(|size| size.columns.into());
    let text = diagnostic(severity, &text, columns, output_style::colors_stderr());
    // Ignored: stderr may be closed.
    _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a message of a program that goes on. A message that stderr does not accept at once is
/// dropped, so that it neither delays nor ends the program.
pub(crate) fn print_event(text: &impl std::fmt::Display) {
    if is_stderr_writable() {
        // A line end in a name must not begin another message.
        print_diagnostic(Severity::Info, &records::escape::line(&text.to_string()));
    }
}

/// Prints an error of a program that goes on, as [`print_event`] prints a message.
pub(crate) fn print_error_event(error: &anyhow::Error) {
    if is_stderr_writable() {
        print_error(error);
    }
}

fn is_stderr_writable() -> bool {
    use os::readiness::{PollFlags, poll_now};
    let events = poll_now(std::io::stderr(), PollFlags::OUT);
    events.is_ok_and(|events| events.contains(PollFlags::OUT))
}

/// Prints a line, which has no control characters, on stderr.
pub(crate) fn print_line(text: &str) {
    use std::io::Write;
    // Ignored: stderr may be closed.
    _ = writeln!(std::io::stderr(), "{text}");
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
