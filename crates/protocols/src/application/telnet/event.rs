//! What comes from the other side, for the caller.

use super::command::{Command, OptionCode, Side};
use super::option::charset::CharsetOutcome;
use super::option::com_port::ComPortEvent;
use super::option::environment::EnvironmentVariable;
use super::option::flow_control::FlowControl;
use super::option::gmcp::Gmcp;
use super::option::linemode::LinemodeEvent;
use super::option::msdp::MsdpVariable;
use super::option::mssp::MsspVariable;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// What came from the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A run of data, never empty; in NVT it ends at the latest with the line.
    Data(&'a [u8]),
    /// A command. GA is one only where it was not agreed to be suppressed (RFC 858).
    Command(Command),
    /// An option was agreed to, or its end was.
    Option {
        /// Who performs it.
        side: Side,
        /// The option.
        option: OptionCode,
        /// Whether it is on now.
        enabled: bool,
    },
    /// The other refused an option that we asked for.
    Refused {
        /// Who would have performed it.
        side: Side,
        /// The option.
        option: OptionCode,
    },
    /// The other wanted AUTHENTICATION or ENCRYPT, which is refused: its ciphers are those of
    /// 1993, and TLS does both.
    Declined {
        /// Who would have performed it.
        side: Side,
        /// The option.
        option: OptionCode,
    },
    /// The answer to a timing mark of ours: all that we sent before it has been read (RFC 860).
    TimingMark {
        /// Whether it was WILL. A WONT keeps its place in the stream just as well.
        agreed: bool,
    },
    /// The size of the user's window, for a server. 0 says that it is not known.
    WindowSize {
        /// Characters in a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
    /// The name of the user's terminal, for a server: 1 to 40 graphic ASCII characters.
    TerminalType(String),
    /// What the user's MUD client can do, for a server: the bits of MTTS.
    Mtts(u32),
    /// The speed of the user's terminal, for a server, in bits a second (RFC 1079).
    TerminalSpeed {
        /// What it sends.
        transmit: u32,
        /// What it receives.
        receive: u32,
    },
    /// How the terminal is to treat XON and XOFF, for a user (RFC 1372).
    FlowControl(FlowControl),
    /// The X display of the user, for a server: graphic ASCII, and nothing to be trusted.
    XDisplayLocation(String),
    /// Variables of the user's environment, for a server: only those that were asked for. What
    /// they say is the user's word, and must never be an argument of a program.
    Environment(Vec<EnvironmentVariable>),
    /// What became of the choice of a character set (RFC 2066).
    Charset(CharsetOutcome),
    /// The line is edited otherwise than before (RFC 1184).
    Linemode(LinemodeEvent),
    /// News of a serial port (RFC 2217).
    ComPort(Box<ComPortEvent>),
    /// The stream is TLS from here on. What is left of the input is not Telnet: give it to TLS
    /// after the last of the output, and begin with a new Telnet inside.
    StartTls,
    /// The input is compressed from here on: give it to a
    /// [`Decompressor`](super::option::compression::Decompressor) first.
    CompressionStarted,
    /// A message of a MUD or of its user.
    Gmcp(Box<Gmcp>),
    /// Variables of a MUD or of its user.
    Msdp(Vec<MsdpVariable>),
    /// What a MUD says about itself, for a user.
    Mssp(Vec<MsspVariable>),
    /// All that came before this shows the effect of the first so many bytes of data that we sent,
    /// as [`Telnet::sent_position`](super::Telnet::sent_position) counts them, for a user.
    EchoAcknowledged(u64),
    /// The options that the other believes to be on, each with who performs it (RFC 859).
    Status(Vec<(Side, OptionCode)>),
}
