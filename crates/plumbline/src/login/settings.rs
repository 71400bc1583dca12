//! What a person can choose about a session, by flag or at the prompt.

use super::encoding::Encoding;
use super::painted::Emulation;
use super::predicted::Predict;
use os::serial::LineSettings;
use protocols::application::telnet::EndOfLine;
use protocols::terminal::filter::Policy;
use protocols::time::Duration;
use std::fmt;
use std::str::FromStr;

/// When what is typed goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Per character once the far side echoes or suppresses go-ahead, else per line.
    #[default]
    Automatic,
    /// Each character at once.
    Character,
    /// Each line when it is ended.
    Line,
}

/// Who shows what is typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Echo {
    /// This side, unless the far side does (RFC 857).
    #[default]
    Automatic,
    /// This side.
    Local,
    /// The far side.
    Remote,
}

/// The key that leads from the session to plumb, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Escape(pub(super) Option<u8>);

impl Default for Escape {
    fn default() -> Self {
        Self(Some(0x1d))
    }
}

impl FromStr for Escape {
    type Err = String;

    /// Reads `^]`, a single character, or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" | b"off" => Ok(Self(None)),
            b"^?" => Ok(Self(Some(0x7f))),
            [b'^', key @ (b'@'..=b'_' | b'a'..=b'z')] => Ok(Self(Some(key & 0x1f))),
            [key] if key.is_ascii() && *key != 0 => Ok(Self(Some(*key))),
            _ => Err(format!(
                "'{}' is not a key: use ^] or another control character, one character, or none",
                text.escape_debug()
            )),
        }
    }
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(0x7f) => f.write_str("^?"),
            Some(key) if key < b' ' => write!(f, "^{}", char::from(key + b'@')),
            Some(key) => write!(f, "{}", char::from(key)),
        }
    }
}

/// What the keys after the escape character are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Keys {
    /// A command line.
    #[default]
    #[value(name = "prompt")]
    Prompt,
    /// One letter, as in the Telnet of 1982.
    #[value(name = "1982")]
    Letters,
}

/// What is sent for the key at the end of a line; None chooses by the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineEnd(pub(super) Option<EndOfLine>);

impl LineEnd {
    /// Returns what is sent when characters go out one by one, or by the line.
    ///
    /// RFC 1123 §3.3.1 has CR LF as the default, and CR NUL for the key of a host that echoes.
    pub(super) fn when(self, is_by_line: bool) -> EndOfLine {
        self.0.unwrap_or(if is_by_line { EndOfLine::CrLf } else { EndOfLine::CrNul })
    }

    /// Returns the bytes that the Telnet engine, whose own choice is CR NUL, makes into `end`.
    pub(super) fn unencoded(end: EndOfLine) -> &'static [u8] {
        match end {
            EndOfLine::CrLf => b"\r\n",
            EndOfLine::CrNul => b"\r",
            EndOfLine::Lf => b"\n",
        }
    }

    /// Returns the name of `end`.
    pub(super) fn name(end: EndOfLine) -> &'static str {
        match end {
            EndOfLine::CrLf => "CR LF",
            EndOfLine::CrNul => "CR NUL",
            EndOfLine::Lf => "LF",
        }
    }
}

/// What is spoken with the far side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Telnet.
    #[default]
    Telnet,
    /// Telnet to a serial line, which is to be so (RFC 2217).
    ComPort(LineSettings),
    /// Bytes, over TCP.
    Tcp,
    /// Bytes, on a serial line of this machine.
    Line,
}

/// When TLS is used with a host whose Telnet begins in clear (START_TLS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TlsUse {
    /// Where the far side has it.
    #[default]
    Offered,
    /// In any case: nothing is said before.
    Always,
    /// Not at all.
    Never,
}

/// What a session is to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// When what is typed goes out.
    pub(super) mode: Mode,
    /// Who shows what is typed.
    pub(super) echo: Echo,
    /// Whether keys are shown before the far side has echoed them.
    pub(super) predict: Predict,
    /// The end of a line.
    pub(super) line_end: LineEnd,
    /// The escape character.
    pub(super) escape: Escape,
    /// The keys after it.
    pub(super) keys: Keys,
    /// Whether all 256 values are to go both ways (RFC 856).
    pub(super) is_binary: bool,
    /// Whether a person sits at a terminal; a pipe is passed through.
    pub(super) is_interactive: bool,
    /// The name of the terminal.
    pub(super) terminal_type: String,
    /// Whether we begin the negotiation.
    pub(super) starts_negotiation: bool,
    /// Whether the server must not compress what it sends (MCCP).
    pub(super) refuses_compression: bool,
    /// What is spoken.
    pub(super) protocol: Protocol,
    /// When TLS is used that is not there from the start.
    pub(super) tls: TlsUse,
    /// The characters of the far side.
    pub(super) encoding: Encoding,
    /// Which terminal stands between.
    pub(super) emulation: Emulation,
    /// Whether the last row is for the line of status.
    pub(super) has_status_line: bool,
    /// Whether the negotiation is shown.
    pub(super) inspects: bool,
    /// What of the remote host's output the terminal gets; `None` for a file or a pipe, which gets
    /// all of it.
    pub(super) filter: Option<Policy>,
    /// How long the far side may take to open the connection, and to agree to TLS.
    pub(super) timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_character_is_written_as_it_is_read() {
        for text in ["^]", "^A", "~", "none", "^?", "^\\", "^"] {
            assert_eq!(text.parse::<Escape>().unwrap().to_string(), text);
        }
        assert_eq!("^a".parse::<Escape>(), Ok(Escape(Some(1))));
    }

    #[test]
    fn what_is_no_key_is_no_escape_character() {
        for text in ["", "^^^", "ab", "\u{e9}", "\0"] {
            assert!(text.parse::<Escape>().is_err(), "{text:?}");
        }
    }
}
