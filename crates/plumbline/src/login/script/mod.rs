//! Scripts: what to send, what to wait for, and what to do where it does not come.
//!
//! A script is a text of one statement a line; `#` begins a remark. It is read whole before anybody
//! is called (`compile`), into instructions with jumps, which are run as text comes in (`runner`).
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
//! Patterns see what the far side writes without the sequences that move the cursor and set
//! colours, with lines that end by a line feed; `^` and `$` are the ends of each line. What a
//! pattern has found, and all before it, is not looked at again.

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

/// What is done next.
#[derive(Clone, Debug)]
enum Instruction {
    Send(Template),
    Break,
    Expect {
        what: What,
        timeout: Option<Duration>,
    },
    /// Goes on at the instruction of that number if it does not come.
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

/// What is waited for.
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

/// A text with places for variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Variable(String),
}

/// Why a script cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptError {
    /// The line, counted from 1.
    pub(super) line: usize,
    /// What is wrong in it.
    why: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}
