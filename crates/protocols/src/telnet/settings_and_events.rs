//! The settings and the events of an engine, and the types of their fields.
//!
//! Both are in one file, because an option often adds to both: a value that the user sends, and the
//! event with which the server reports it.

use super::command::{Command, OptionCode, OptionSet, Side};
use super::option::com_port::ComPortEvent;
use super::option::linemode::LinemodeMode;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Default output limit in bytes (our choice): a few screenfuls.
const OUTPUT_LIMIT_BYTES: usize = 16 * 1024;

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

/// The settings of either end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Settings<'a> {
    User(&'a UserSettings),
    Server(&'a ServerSettings),
}

impl Settings<'_> {
    pub(super) fn is_user(self) -> bool {
        matches!(self, Self::User(_))
    }

    pub(super) fn allowed_options(self) -> OptionSet {
        match self {
            Self::User(settings) => settings.allowed_options,
            Self::Server(settings) => settings.allowed_options,
        }
    }
}

/// Character sets that require no conversion by a caller whose text is UTF-8.
fn default_charsets() -> Vec<String> {
    Vec::from(["UTF-8", "US-ASCII"].map(String::from))
}

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

/// Description of the user's program for a MUD (Mud Terminal Type Standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mtts {
    /// Name of the program, sent before the name of the terminal.
    pub program: String,
    /// Capability bits: 1 ANSI, 2 VT100, 4 UTF-8, 8 256 colors, 16 mouse, 32 OSC color palette, 64
    /// screen reader, 128 proxy, 256 true color, 512 MNES, 1024 MSLP, 2048 TLS.
    pub bits: u32,
}

/// One variable of a user's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Name: graphic ASCII without `=`, at most 64 characters.
    pub name: String,
    /// Value: no control characters, at most 256 bytes. `None` means unset.
    pub value: Option<String>,
}

impl EnvironmentVariable {
    /// Creates a variable with a value.
    #[must_use]
    pub fn new(name: &str, value: &str) -> Self {
        Self { name: String::from(name), value: Some(String::from(value)) }
    }
}

/// An event caused by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A run of data, never empty. In NVT a run contains at most one line.
    Data(&'a [u8]),
    /// A NUL after a CR without BINARY, if [`Telnet::set_file_content`](super::Telnet::set_file_content)
    /// was called. RFC 854 requires this NUL, which is not data; some servers do not insert it, so
    /// that it is data.
    NulAfterCr,
    /// A command. GA is reported only if its suppression was not negotiated (RFC 858).
    Command(Command),
    /// An option was enabled or disabled by agreement.
    Option {
        /// Side that performs the option.
        side: Side,
        /// The option.
        option: OptionCode,
        /// Whether the option is enabled now.
        enabled: bool,
    },
    /// The peer refused an option that the local end requested.
    Refused {
        /// Side that would have performed the option.
        side: Side,
        /// The option.
        option: OptionCode,
    },
    /// The peer requested AUTHENTICATION or ENCRYPT, which is refused: the ciphers of these options
    /// date from 1993, and TLS provides both services.
    Declined {
        /// Side that would have performed the option.
        side: Side,
        /// The option.
        option: OptionCode,
    },
    /// The answer to a timing mark that the local end requested: the peer has read all data sent
    /// before the request (RFC 860).
    TimingMark {
        /// Whether the answer was WILL. An answer of WONT marks the same position in the stream.
        agreed: bool,
    },
    /// For a server: size of the user's window; 0 means unknown.
    WindowSize {
        /// Characters in a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
    /// For a server: name of the user's terminal, 1 to 40 graphic ASCII characters.
    TerminalType(String),
    /// For a server: capabilities of the user's MUD client, as the bits of MTTS.
    Mtts(u32),
    /// For a server: speed of the user's terminal in bits per second (RFC 1079).
    TerminalSpeed {
        /// Transmit speed.
        transmit: u32,
        /// Receive speed.
        receive: u32,
    },
    /// For a user: whether the terminal is to act on XON and XOFF (RFC 1372).
    FlowControl(FlowControl),
    /// For a server: X display of the user, in graphic ASCII. It must not be trusted.
    XDisplayLocation(String),
    /// For a server: variables of the user's environment. Only requested variables are reported.
    /// The user chooses the values, so they must never become arguments of a program.
    Environment(Vec<EnvironmentVariable>),
    /// Result of the negotiation of a character set (RFC 2066).
    Charset(CharsetOutcome),
    /// The parameters of line editing have changed (RFC 1184).
    Linemode(LinemodeEvent),
    /// An event of a serial port (RFC 2217).
    ComPort(Box<ComPortEvent>),
    /// All further input is TLS. Send the remaining output, then pass the rest of the input, which
    /// is not Telnet, to TLS. Use a new Telnet engine inside TLS.
    StartTls,
    /// All further input is compressed: pass it through a
    /// [`Decompressor`](super::option::compression::Decompressor) first.
    CompressionStarted,
    /// For a user: number of sent data bytes whose effect is included in the data received before
    /// this event, as counted by [`Telnet::sent_position`](super::Telnet::sent_position).
    EchoAcknowledged(u64),
    /// The options that the peer considers enabled, each with the side that performs it (RFC 859).
    Status(Vec<(Side, OptionCode)>),
}

/// Result of the negotiation of a character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharsetOutcome {
    /// Both sides have agreed on this name, as spelled in the settings.
    Accepted(String),
    /// The peer rejected all names that the local end proposed.
    RejectedByPeer,
    /// The local end rejected all names that the peer proposed.
    RejectedLocally,
}

/// A change in the parameters of line editing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinemodeEvent {
    /// For a user: the new mode. For a server: the user's answer to a mode.
    Mode(LinemodeMode),
    /// Some special characters have changed: see [`Linemode::characters`](super::Linemode::characters).
    Characters,
    /// The characters at which a line is sent have changed: see
    /// [`Linemode::forwards`](super::Linemode::forwards).
    ForwardMask,
    /// For a server: the user refused the mask and sends only at line ends.
    ForwardMaskRefused,
}

/// How the terminal treats XOFF and XON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// XOFF and XON are data and do not stop or resume the output.
    Off,
    /// XOFF stops the output, XON resumes it.
    On,
    /// Any character resumes the output.
    RestartAny,
    /// Only XON resumes the output.
    RestartXon,
}
