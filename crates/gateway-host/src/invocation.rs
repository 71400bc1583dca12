//! The names under which the gateway is started in place of another program, and the outcome of
//! parsing its arguments.
//!
//! The binary calls [`ProgramName::of`] with its first argument. If it returns a name, the binary
//! passes the other arguments to [`crate::slirp4netns::parse`] or [`crate::pasta::parse`], prints
//! an [`Invocation::Text`] and exits with its code, or starts the gateway.

use std::ffi::OsStr;
use std::path::Path;

/// A program that the gateway replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramName {
    /// `slirp4netns`.
    Slirp4netns,
    /// `pasta`: a namespace.
    Pasta,
    /// `passt`: a virtual machine at a Unix socket.
    Passt,
}

impl ProgramName {
    /// Returns the program of this name or path, `argv[0]`. A suffix after a dot or a hyphen, as in
    /// `pasta.avx2`, is ignored.
    #[must_use]
    pub fn of(argv0: &OsStr) -> Option<Self> {
        let name = Path::new(argv0).file_name()?.to_str()?;
        let begins_with = |program| name.strip_prefix(program).is_some_and(is_suffix);
        if begins_with("slirp4netns") {
            Some(Self::Slirp4netns)
        } else if begins_with("pasta") {
            Some(Self::Pasta)
        } else if begins_with("passt") {
            Some(Self::Passt)
        } else {
            None
        }
    }
}

/// A name may be followed by a variant or a version: `pasta.avx2`, `slirp4netns-1.2`.
fn is_suffix(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '-'])
}

/// Outcome of parsing a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation<S> {
    /// Start the gateway with these settings. The warnings are printed first.
    Run(S),
    /// Print a text and exit.
    Text(ExitText),
}

/// A text to print before the program exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitText {
    /// Text for standard output.
    pub stdout: String,
    /// Text for standard error.
    pub stderr: String,
    /// Exit code of the program.
    pub exit_code: u8,
}

impl ExitText {
    pub(crate) fn success(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), stderr: String::new(), exit_code: 0 }
    }

    pub(crate) fn failure(stderr: impl Into<String>) -> Self {
        Self { stdout: String::new(), stderr: stderr.into(), exit_code: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_selected_by_the_last_component() {
        for (argv0, program) in [
            ("/usr/bin/slirp4netns", Some(ProgramName::Slirp4netns)),
            ("slirp4netns", Some(ProgramName::Slirp4netns)),
            ("pasta.avx2", Some(ProgramName::Pasta)),
            ("./passt", Some(ProgramName::Passt)),
            ("/opt/pasta/plumb", None),
            ("plumb", None),
            ("pastafarian", None),
            ("", None),
        ] {
            assert_eq!(ProgramName::of(argv0.as_ref()), program, "{argv0}");
        }
    }
}
