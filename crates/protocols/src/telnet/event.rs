//! Events that a Telnet engine reports to its caller.

use super::command::{Command, OptionCode, Side};
use super::option::com_port::ComPortEvent;
use super::option::environment::EnvironmentVariable;
use super::option::flow_control::FlowControl;
use super::option::linemode::LinemodeMode;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// An event caused by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A run of data, never empty. In NVT a run contains at most one line.
    Data(&'a [u8]),
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
