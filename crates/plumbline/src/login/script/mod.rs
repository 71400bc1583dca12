//! Scripts: text to send, patterns to expect, and actions after a timeout.
//!
//! A script has one statement per line; `#` starts a comment. The whole script is compiled before
//! the connection is opened (`compile`) into instructions with jumps, which run as output arrives
//! (`runner`).
//!
//! ```text
//! send "text"                     send it; escapes: \r \n \t \e \" \\ \$ \xHH, ${NAME}
//! send break                      send a BREAK
//! send file "path" [by ymodem]    send a file, by ZMODEM if no protocol is given
//! receive [by ymodem]             wait for files that the remote host sends, or receive them
//! receive file "name" by xmodem   receive a file under this name
//! expect /pattern/ [timeout S]    wait for a match; sets ${0}, ${1} ... to its groups
//! expect end [timeout S]          wait until the remote host closes the connection
//! if /pattern/ [timeout S]        like expect, but without a match continue after else
//! else
//! end
//! timeout S                       default timeout of the following statements
//! on failure exit N               exit code if a following expect fails
//! set NAME "text"                 set a variable
//! say "text"                      print a line on stderr
//! interact                        continue the session from the keyboard
//! exit N                          end with exit code N
//! ```
//!
//! Patterns are matched against the output of the remote host without the sequences that move the
//! cursor and set colors. Lines end with a line feed; `^` and `$` match at the ends of each line. A
//! match and all text before it are removed.

mod compile;
mod match_buffer;
mod prompt_watch;
mod runner;
#[cfg(test)]
mod tests;

pub(super) use compile::Script;
pub(super) use runner::{Runner, ScriptAction};

use net::time::Duration;
use regex::Regex;
use std::fmt;
use transfer::modem::ModemProtocol;

/// One instruction of a compiled script.
#[derive(Clone, Debug)]
enum Instruction {
    Send(Template),
    Break,
    Transfer {
        is_sending: bool,
        file: Option<Template>,
        protocol: ModemProtocol,
    },
    Expect {
        expectation: Expectation,
        timeout: Option<Duration>,
    },
    /// Waits for an event, and branches to `target` if it does not occur.
    BranchUnless {
        expectation: Expectation,
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
enum Expectation {
    Pattern(Regex),
    End,
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => {
                // A line feed cannot be part of a statement; backslashes and quotes are unchanged.
                write!(f, "/{}/", pattern.as_str().replace(char::is_control, "?"))
            }
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
