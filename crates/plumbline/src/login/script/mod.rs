//! Scripts: text to send, patterns to expect, and actions after a timeout.
//!
//! A script has one statement per line; `#` starts a comment. The whole script is compiled before
//! the connection is opened (`compile`) into instructions with jumps, which run as output arrives
//! (`runner`).
//!
//! ```text
//! send "text"                     \r \n \t \e \" \\ \$ \xHH, and ${NAME}
//! send break                      a BREAK
//! expect /pattern/ [timeout S]    wait for it; ${0}, ${1} ... are then what it found
//! expect end [timeout S]          wait until the far side closes
//! if /pattern/ [timeout S]        the same, but where it does not come, go on behind else
//! else
//! end
//! timeout S                       how long to wait from here on, unless it is said
//! on failure exit N               what plumb returns from here on where an expect fails
//! set NAME "text"
//! say "text"                      a line on stderr
//! interact                        the keyboard has the session from here on
//! exit N                          end, and return N
//! ```
//!
//! Patterns are matched against the output of the remote host without the sequences that move the
//! cursor and set colors. Lines end with a line feed; `^` and `$` match at the ends of each line. A
//! match and all text before it are removed.

mod compile;
mod heard;
mod runner;
#[cfg(test)]
mod tests;

pub(super) use compile::Script;
pub(super) use runner::{Act, Runner};

use protocols::time::Duration;
use regex::Regex;
use std::fmt;

/// Next action of a script.
#[derive(Clone, Debug)]
enum Instruction {
    Send(Template),
    Break,
    Expect {
        what: What,
        timeout: Option<Duration>,
    },
    /// Branches to this instruction if the event does not occur.
    Unless {
        what: What,
        timeout: Option<Duration>,
        target: usize,
    },
    Jump(usize),
    Timeout(Duration),
    OnFailure(u8),
    Set(String, Template),
    Say(Template),
    Interact,
    Exit(u8),
}

/// Event that a script waits for.
#[derive(Clone, Debug)]
enum What {
    Pattern(Regex),
    End,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => write!(f, "/{}/", pattern.as_str().escape_debug()),
            Self::End => f.write_str("the end of the session"),
        }
    }
}

/// A text with placeholders for variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Variable(String),
}

/// Error of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptError {
    /// Line number, counted from 1.
    pub(super) line: usize,
    /// Description of the error.
    why: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}
