//! What each end wants of a session, and what it allows.

use super::command::{OptionCode, OptionSet};
use super::option::environment::EnvironmentVariable;
use super::option::terminal_type::Mtts;
use alloc::string::String;
use alloc::vec::Vec;

/// What is sent for a CR that ends no line in the data, which is the key at the end of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndOfLine {
    /// CR LF: the default of a user (RFC 1123 §3.3.1).
    #[default]
    CrLf,
    /// CR NUL: the CR itself, which is what hosts with remote echo take for the key.
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

    /// Returns how many bytes of data the other hears in it.
    pub(super) const fn heard(self) -> u64 {
        match self {
            Self::CrLf => 2,
            Self::CrNul | Self::Lf => 1,
        }
    }
}

/// What a user wants of a session.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// The name of the terminal. Only its graphic ASCII goes out, at most 40 characters.
    pub terminal_type: String,
    /// More names, from the most to the least wanted, for a server that asks again (RFC 1091).
    pub other_terminal_types: Vec<String>,
    /// What a MUD is told: the program first, then the terminal, then these bits.
    pub mtts: Option<Mtts>,
    /// Whether the name goes out in upper case, as the registry has it.
    pub uppercases_terminal_type: bool,
    /// Columns and rows; 0 says that it is not known (RFC 1073).
    pub window: (u16, u16),
    /// Bits a second that the terminal sends and receives (RFC 1079).
    pub terminal_speed: (u32, u32),
    /// The X display, for one who has allowed X-DISPLAY-LOCATION.
    pub display: String,
    /// All that may be told of the environment, for one who has allowed NEW-ENVIRON.
    pub environment: Vec<EnvironmentVariable>,
    /// The character sets that are agreed to, the most wanted first (RFC 2066).
    pub charsets: Vec<String>,
    /// The options that are agreed to; what is here beyond [`UserSettings::OPTIONS`] is offered.
    pub allows: OptionSet,
    /// What is sent for CR.
    pub end_of_line: EndOfLine,
    /// Whether [`Telnet::start`](super::Telnet::start) offers and asks, or waits for the other to.
    pub starts_negotiation: bool,
    /// The most bytes of data, as encoded, that wait for the transport.
    pub output_limit_bytes: usize,
}

impl UserSettings {
    /// What is agreed to unless the settings say otherwise: nothing of it tells who the user is,
    /// and nothing of it needs more of the caller than to ignore its events.
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
            allows: Self::OPTIONS,
            end_of_line: EndOfLine::CrLf,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// What a server wants of a session.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// How many names of the terminal are asked for, one after the other.
    pub terminal_types_max: usize,
    /// The names that are asked for by NEW-ENVIRON; what else comes is not looked at.
    pub environment: Vec<String>,
    /// The character sets that are agreed to, the most wanted first (RFC 2066).
    pub charsets: Vec<String>,
    /// The options that are agreed to; what is here beyond [`ServerSettings::OPTIONS`] is offered
    /// or asked for.
    pub allows: OptionSet,
    /// What is sent for a CR that no LF follows.
    pub end_of_line: EndOfLine,
    /// Whether CR LF is heard as CR alone, as CR NUL is: both are then the key that ends a line on
    /// a terminal of this machine (RFC 1123 §3.3.1).
    pub hears_lines_as_cr: bool,
    /// Whether [`Telnet::start`](super::Telnet::start) offers and asks, or waits for the other to.
    pub starts_negotiation: bool,
    /// The most bytes of data, as encoded, that wait for the transport.
    pub output_limit_bytes: usize,
}

impl ServerSettings {
    /// What is agreed to unless the settings say otherwise.
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
            allows: Self::OPTIONS,
            end_of_line: EndOfLine::CrNul,
            hears_lines_as_cr: false,
            starts_negotiation: true,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
        }
    }
}

/// What needs nothing of a caller whose text is UTF-8.
fn default_charsets() -> Vec<String> {
    Vec::from(["UTF-8", "US-ASCII"].map(String::from))
}

/// The output limit unless the settings say otherwise; ours: a few screenfuls.
const OUTPUT_LIMIT_BYTES: usize = 16 * 1024;
