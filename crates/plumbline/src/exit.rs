//! How a command ends: its exit code, and the one sentence that says why it failed.

use std::process::ExitCode;

/// The exit codes, as help and man pages show them.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done; for a login, the far side or you closed it
  1  the far side cannot be reached, is unknown, refused, reset, or fell silent
  2  the arguments are wrong
  3  nothing could be measured, or you ended it before
  4  this machine refuses what is needed: no permission, no such device
  5  a script did not see what it expected; it may say another number";

/// The exit code for wrong arguments.
pub(crate) const WRONG_ARGUMENTS: u8 = 2;

/// Why a command failed, which decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 1: the far side.
    FarSide,
    /// 2: the arguments, or a file that they name, are wrong.
    WrongArguments,
    /// 3: nothing could be measured.
    NothingMeasured,
    /// 4: this machine.
    ThisMachine,
    /// The number that a script says.
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

/// What a command returns: it has said why itself, in one sentence on stderr.
pub(crate) type Result = std::result::Result<(), Failure>;

/// Returns the exit code that tells `result`.
pub(crate) fn code(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code()),
    }
}

/// Says on stderr why a command failed, in one sentence.
pub(crate) fn complain(error: &anyhow::Error) {
    use std::io::Write;
    // Where stderr is closed there is nobody to tell.
    let sentence = records::escape::message(&format!("{error:#}"));
    _ = writeln!(std::io::stderr(), "plumb: {sentence}");
}

/// Says on stderr why the far side, or its name, is the failure of a command.
pub(crate) fn far_side(why: String) -> Failure {
    complain(&anyhow::Error::msg(why));
    Failure::FarSide
}

/// Returns the width of the terminal on stdout; where there is none, what COLUMNS says, or 80.
pub(crate) fn stdout_columns() -> usize {
    let size = os::tty::WindowSize::of(std::io::stdout());
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    size.map(|size| usize::from(size.columns)).or_else(said).unwrap_or(80).clamp(40, 200)
}
