//! Settings of a session, from the command line and from commands at the prompt.

use super::emulated_terminal::Emulation;
use net::time::Duration;
use os::serial::LineSettings;
use protocols::telnet::EndOfLine;
use protocols::terminal::encoding::Encoding;
use protocols::terminal::filter::Policy;
use protocols::terminal::prediction;
use std::fmt;
use std::str::FromStr;
use transfer::modem::{DownloadPolicy, TransferRecords};

/// When typed text is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each character is sent at once if the remote host echoes or suppresses go-ahead; otherwise
    /// each line is sent when it is complete.
    #[default]
    Automatic,
    /// Each character is sent at once.
    Character,
    /// Each line is sent when it is complete.
    Line,
}

/// Side that echoes typed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Echo {
    /// The remote host if it has enabled ECHO (RFC 857), else the local side.
    #[default]
    Automatic,
    /// The local side.
    Local,
    /// The remote host.
    Remote,
}

/// Whether the echo of typed keys is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Predict {
    /// Never.
    Never,
    /// If the echo takes longer than 30 ms; disabled after sixteen echoes of less than 10 ms.
    #[default]
    Auto,
    /// Whenever the remote host echoes.
    Always,
}

impl From<Predict> for prediction::Mode {
    fn from(predict: Predict) -> Self {
        match predict {
            Predict::Auto => Self::Auto,
            Predict::Always => Self::Always,
            Predict::Never => Self::Never,
        }
    }
}

/// Key that opens the prompt during a session; `None` if it is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Escape(pub(super) Option<u8>);

impl Default for Escape {
    fn default() -> Self {
        Self(Some(0x1d))
    }
}

impl FromStr for Escape {
    type Err = String;

    /// Parses `^]`, a single character, or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" | b"off" => Ok(Self(None)),
            b"^?" => Ok(Self(Some(0x7f))),
            [b'^', key @ (b'@'..=b'_' | b'a'..=b'z')] => Ok(Self(Some(key & 0x1f))),
            [key] if key.is_ascii() && *key != 0 => Ok(Self(Some(*key))),
            _ => Err(format!(
                "'{}' is not a valid key: use ^] or another control character, one character, or \
                 none",
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

/// Meaning of the keys after the escape character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PromptStyle {
    /// A command line.
    #[default]
    #[value(name = "prompt")]
    Prompt,
    /// One letter, as in the Telnet of 1982.
    #[value(name = "1982")]
    Letters,
}

/// Bytes sent for the Enter key; `None` selects them by the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineEnd(pub(super) Option<EndOfLine>);

impl LineEnd {
    /// Returns the encoding for line mode or for character mode.
    ///
    /// RFC 1123 §3.3.1 specifies CR LF as the default, and CR NUL for the Enter key if the remote
    /// host echoes.
    pub(super) fn for_mode(self, is_line_mode: bool) -> EndOfLine {
        self.0.unwrap_or(if is_line_mode { EndOfLine::CrLf } else { EndOfLine::CrNul })
    }

    /// Returns the bytes to pass to the Telnet engine so that it sends the line end `end`. The
    /// engine sends a CR alone as CR NUL.
    pub(super) fn engine_input(end: EndOfLine) -> &'static [u8] {
        match end {
            EndOfLine::CrLf => b"\r\n",
            EndOfLine::CrNul => b"\r",
            EndOfLine::Lf => b"\n",
        }
    }

    /// Returns the name of `end`. The NUL after CR belongs to Telnet without BINARY.
    pub(super) fn name(end: EndOfLine, has_nul: bool) -> &'static str {
        match end {
            EndOfLine::CrLf => "CR LF",
            EndOfLine::CrNul if has_nul => "CR NUL",
            EndOfLine::CrNul => "CR",
            EndOfLine::Lf => "LF",
        }
    }
}

/// Protocol spoken with the remote host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LoginProtocol {
    /// Telnet.
    #[default]
    Telnet,
    /// Telnet to a serial line with these parameters (RFC 2217).
    ComPort(LineSettings),
    /// Plain bytes over TCP.
    Tcp,
    /// Plain bytes on a serial line of this machine.
    Serial,
}

impl LoginProtocol {
    /// Returns whether this is Telnet.
    pub(super) fn is_telnet(self) -> bool {
        matches!(self, Self::Telnet | Self::ComPort(_))
    }
}

/// When TLS is used with a host whose Telnet starts in plaintext (START_TLS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TlsUse {
    /// Never.
    Never,
    /// If the remote host supports it.
    #[default]
    #[value(alias = "offered")]
    Auto,
    /// Always; no data is sent before TLS is established.
    Always,
}

/// Settings of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct LoginSettings {
    /// When typed text is sent.
    pub(super) mode: Mode,
    /// Side that echoes typed text.
    pub(super) echo: Echo,
    /// Whether echoes are predicted.
    pub(super) predict: Predict,
    /// Encoding of a line end.
    pub(super) line_end: LineEnd,
    /// Escape character.
    pub(super) escape: Escape,
    /// Meaning of the keys after the escape character.
    pub(super) keys: PromptStyle,
    /// Whether BINARY is requested in both directions (RFC 856).
    pub(super) is_binary: bool,
    /// Whether standard input is a terminal; piped input is sent without an escape character.
    pub(super) is_interactive: bool,
    /// Terminal type.
    pub(super) terminal_type: String,
    /// Whether the local side starts the negotiation.
    pub(super) starts_negotiation: bool,
    /// Whether compression by the server is refused (MCCP).
    pub(super) refuses_compression: bool,
    /// Protocol.
    pub(super) protocol: LoginProtocol,
    /// User name for NEW-ENVIRON.
    pub(super) user: Option<String>,
    /// When TLS is used on a connection that starts in plaintext.
    pub(super) tls: TlsUse,
    /// Character set of the remote host.
    pub(super) encoding: Encoding,
    /// Emulated terminal.
    pub(super) emulation: Emulation,
    /// Whether the last row is reserved for the status line.
    pub(super) has_status_line: bool,
    /// Whether the negotiation is displayed.
    pub(super) inspects: bool,
    /// Filter for the output of the remote host to the terminal; `None` for a file or a pipe, which
    /// receives all of it.
    pub(super) filter: Option<Policy>,
    /// Whether ZMODEM in the output of the remote host starts a file transfer.
    pub(super) starts_zmodem: bool,
    /// Directory and limits of downloads over the session.
    pub(super) downloads: DownloadPolicy,
    /// Records of the transferred files.
    pub(super) transfer_records: TransferRecords,
    /// Time limit for opening the connection, and for the negotiation of TLS.
    pub(super) timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_character_is_formatted_as_it_is_parsed() {
        for text in ["^]", "^A", "~", "none", "^?", "^\\", "^"] {
            assert_eq!(text.parse::<Escape>().unwrap().to_string(), text);
        }
        assert_eq!("^a".parse::<Escape>(), Ok(Escape(Some(1))));
    }

    #[test]
    fn an_invalid_key_is_not_an_escape_character() {
        for text in ["", "^^^", "ab", "\u{e9}", "\0"] {
            assert!(text.parse::<Escape>().is_err(), "{text:?}");
        }
    }
}
