//! Exit status of a command, and the error message of a failed one.

use std::process::ExitCode;

/// Exit codes, as printed in the help and the manual pages.
pub(crate) const CODES: &str = "\
Exit codes:
  0  success; for a login, either side closed the session
  1  remote host unreachable, unknown, refused, reset the connection or timed out
  2  invalid arguments
  3  nothing measured, or interrupted
  4  local error: permission denied, no such device, disk full
  5  a script timed out waiting for a match; a script can set another code";

/// Exit code for wrong arguments.
pub(crate) const WRONG_ARGUMENTS: u8 = 2;

/// Category of a failure, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 1: the remote host.
    FarSide,
    /// 2: the arguments, or a file that they name, are wrong.
    WrongArguments,
    /// 3: nothing could be measured.
    NothingMeasured,
    /// 4: this machine.
    ThisMachine,
    /// Exit code specified by a script.
    Script(u8),
}

impl Failure {
    fn code(self) -> u8 {
        match self {
            Self::FarSide => 1,
            Self::WrongArguments => WRONG_ARGUMENTS,
            Self::NothingMeasured => 3,
            Self::ThisMachine => 4,
            Self::Script(code) => code,
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
pub(crate) fn complain(error: &anyhow::Error) {
    use std::io::Write;
    // Ignored: stderr may be closed.
    let sentence = records::escape::message(&format!("{error:#}"));
    _ = writeln!(std::io::stderr(), "plumb: {sentence}");
}

/// Prints an error caused by the remote host or its name, and returns the failure.
pub(crate) fn far_side(why: String) -> Failure {
    complain(&anyhow::Error::msg(why));
    Failure::FarSide
}

/// Returns the width of the terminal on stdout, or `COLUMNS`, or 80 if there is neither; limited to
/// 40 to 200.
pub(crate) fn stdout_columns() -> usize {
    let size = os::tty::WindowSize::of(std::io::stdout());
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    size.map(|size| usize::from(size.columns)).or_else(said).unwrap_or(80).clamp(40, 200)
}
