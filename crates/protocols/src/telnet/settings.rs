//! Settings of each end: its preferences and the options that it allows.

use super::command::{OptionCode, OptionSet};
use super::option::environment::EnvironmentVariable;
use super::option::terminal_type::Mtts;
use alloc::string::String;
use alloc::vec::Vec;

/// Encoding of a CR that is not followed by LF in the data. The Return key produces such a CR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndOfLine {
    /// CR LF: the default of a user (RFC 1123 §3.3.1).
    #[default]
    CrLf,
    /// CR NUL: a CR that is not part of a line end. Hosts with remote echo expect it from the
    /// Return key.
    CrNul,
    /// LF alone.
    Lf,
}

impl EndOfLine {
    pub(super) const fn bytes(self) -> &'static [u8] {
        match self {
            Self::CrLf => b"\r\n",
            Self::CrNul => b"\r\0",
            Self::Lf => b"\n",
        }
    }

    /// Returns the number of data bytes that the peer decodes from the encoded CR.
    pub(super) const fn decoded_len(self) -> u64 {
        match self {
            Self::CrLf => 2,
            Self::CrNul | Self::Lf => 1,
        }
    }
}

/// Settings of a user's end.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// Name of the terminal. Only its graphic ASCII is sent, at most 40 characters.
    pub terminal_type: String,
    /// Further names in order of preference, for a server that asks again (RFC 1091).
    pub other_terminal_types: Vec<String>,
    /// Description of the client program, for a MUD. The program's name is sent first, then the
    /// terminal's, then the capability bits.
    pub mtts: Option<Mtts>,
    /// Whether the terminal name is sent in upper case, as in the registry of terminal names.
    pub uppercases_terminal_type: bool,
    /// Columns and rows; 0 means unknown (RFC 1073).
    pub window: (u16, u16),
    /// Transmit and receive speed of the terminal in bits per second (RFC 1079).
    pub terminal_speed: (u32, u32),
    /// X display, sent only if X-DISPLAY-LOCATION is allowed.
    pub display: String,
    /// Environment variables that may be sent if NEW-ENVIRON is allowed.
    pub environment: Vec<EnvironmentVariable>,
    /// Accepted character sets in order of preference (RFC 2066).
    pub charsets: Vec<String>,
    /// Allowed options. Allowed options that are not in [`UserSettings::OPTIONS`] are also offered.
    pub allowed_options: OptionSet,
    /// Encoding of a CR without LF.
    pub end_of_line: EndOfLine,
    /// Whether [`Telnet::start`](super::Telnet::start) sends offers and requests, or waits for
    /// the offers and requests of the peer.
    pub starts_negotiation: bool,
    /// Maximum number of queued bytes of encoded data.
    pub output_limit_bytes: usize,
}

impl UserSettings {
    /// Options that are allowed by default. None of these options identifies the user, and the
    /// caller may ignore their events.
    pub const OPTIONS: OptionSet = OptionSet::of(&[
        OptionCode::BINARY,
        OptionCode::ECHO,
        OptionCode::SUPPRESS_GO_AHEAD,
        OptionCode::STATUS,
        OptionCode::TERMINAL_TYPE,
        OptionCode::END_OF_RECORD,
        OptionCode::NAWS,
        OptionCode::TERMINAL_SPEED,
        OptionCode::TOGGLE_FLOW_CONTROL,
        OptionCode::CHARSET,
        OptionCode::ECHO_ACKNOWLEDGMENT,
    ]);
}

impl Default for UserSettings {
    fn default() -> Self {
        Self {
            terminal_type: String::from("UNKNOWN"),
            other_terminal_types: Vec::new(),
            mtts: None,
            uppercases_terminal_type: false,
            window: (80, 24),
            terminal_speed: (38_400, 38_400),
            display: String::new(),
            environment: Vec::new(),
            charsets: default_charsets(),
            allowed_options: Self::OPTIONS,
            end_of_line: EndOfLine::CrLf,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// Settings of a server's end.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Maximum number of terminal names that are requested, one after the other.
    pub terminal_types_max: usize,
    /// Variable names that are requested with NEW-ENVIRON; others are ignored.
    pub environment: Vec<String>,
    /// Accepted character sets in order of preference (RFC 2066).
    pub charsets: Vec<String>,
    /// Allowed options. Allowed options that are not in [`ServerSettings::OPTIONS`] are also
    /// offered or requested.
    pub allowed_options: OptionSet,
    /// Encoding of a CR without LF.
    pub end_of_line: EndOfLine,
    /// Whether CR LF is decoded as CR alone, like CR NUL. Both then represent the Return key of a
    /// terminal of this host (RFC 1123 §3.3.1).
    pub newline_to_cr: bool,
    /// Whether [`Telnet::start`](super::Telnet::start) sends offers and requests, or waits for
    /// the offers and requests of the peer.
    pub starts_negotiation: bool,
    /// Maximum number of queued bytes of encoded data.
    pub output_limit_bytes: usize,
}

impl ServerSettings {
    /// Options that are allowed by default.
    pub const OPTIONS: OptionSet = OptionSet::of(&[
        OptionCode::BINARY,
        OptionCode::ECHO,
        OptionCode::SUPPRESS_GO_AHEAD,
        OptionCode::STATUS,
        OptionCode::TERMINAL_TYPE,
        OptionCode::END_OF_RECORD,
        OptionCode::NAWS,
        OptionCode::TERMINAL_SPEED,
        OptionCode::TOGGLE_FLOW_CONTROL,
        OptionCode::CHARSET,
    ]);
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            terminal_types_max: 1,
            environment: Vec::new(),
            charsets: default_charsets(),
            allowed_options: Self::OPTIONS,
            end_of_line: EndOfLine::CrNul,
            newline_to_cr: false,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// Character sets that require no conversion by a caller whose text is UTF-8.
fn default_charsets() -> Vec<String> {
    Vec::from(["UTF-8", "US-ASCII"].map(String::from))
}

/// Default output limit in bytes (our choice): a few screenfuls.
const OUTPUT_LIMIT_BYTES: usize = 16 * 1024;
