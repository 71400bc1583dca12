//! The commands of COM-PORT-OPTION (RFC 2217 §3) and their values.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Difference between the code of the server's answer and the code of the user's command.
pub(super) const SERVER_CODE_OFFSET: u8 = 100;

/// Maximum length of a signature in bytes (our choice).
pub(super) const SIGNATURE_MAX_BYTES: usize = 255;

/// A command to a serial port, the answer to a command, or a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComPortCommand {
    /// Signature of the sender in printable ASCII. An empty string requests the signature of the
    /// peer.
    Signature(String),
    /// Bit rate in bits per second; 0 asks for the current value.
    BaudRate(u32),
    /// Number of data bits, 5 to 8; 0 asks for the current value.
    DataSize(u8),
    /// Parity: 1 none, 2 odd, 3 even, 4 mark, 5 space; 0 asks for the current value.
    Parity(u8),
    /// Stop bits: 1 one, 2 two, 3 one and a half; 0 asks for the current value.
    StopSize(u8),
    /// Flow control, BREAK, DTR or RTS.
    Control(Control),
    /// State of the serial line, from the server: the bits of the line status register of a 16550
    /// UART.
    LineState(u8),
    /// State of the modem signals, from the server: the bits of the modem status register of a
    /// 16550 UART.
    ModemState(u8),
    /// Suspend sending.
    Suspend,
    /// Resume sending.
    Resume,
    /// Mask of the line state bits that are reported.
    LineStateMask(u8),
    /// Mask of the modem state bits that are reported.
    ModemStateMask(u8),
    /// Purge buffers: 1 the receive buffer, 2 the transmit buffer, 3 both.
    Purge(u8),
}

/// Value of SET-CONTROL, which sets or queries a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control(pub u8);

impl Control {
    /// Queries the flow control for the data that the user sends.
    pub const ASK_FLOW: Self = Self(0);
    /// No flow control.
    pub const NO_FLOW: Self = Self(1);
    /// XON and XOFF.
    pub const XON_XOFF: Self = Self(2);
    /// RTS and CTS.
    pub const HARDWARE: Self = Self(3);
    /// Queries whether BREAK is active.
    pub const ASK_BREAK: Self = Self(4);
    /// Activates BREAK.
    pub const BREAK_ON: Self = Self(5);
    /// Deactivates BREAK.
    pub const BREAK_OFF: Self = Self(6);
    /// Queries DTR.
    pub const ASK_DTR: Self = Self(7);
    /// Raises DTR.
    pub const DTR_ON: Self = Self(8);
    /// Lowers DTR.
    pub const DTR_OFF: Self = Self(9);
    /// Queries RTS.
    pub const ASK_RTS: Self = Self(10);
    /// Raises RTS.
    pub const RTS_ON: Self = Self(11);
    /// Lowers RTS.
    pub const RTS_OFF: Self = Self(12);

    /// The highest value that RFC 2217 defines.
    const VALUE_MAX: u8 = 19;

    /// Returns the group of settings that this value belongs to. A command and its answer belong to
    /// the same group.
    pub(super) fn group(self) -> u8 {
        match self.0 {
            0..=3 | 17 | 19 => 0,
            4..=6 => 1,
            7..=9 => 2,
            10..=12 => 3,
            _ => 4,
        }
    }

    fn is_query(self) -> bool {
        matches!(self.0, 0 | 4 | 7 | 10 | 13)
    }
}

/// An event of a serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComPortEvent {
    /// For a server: a command of the user. Execute it, and answer with the value now in effect.
    Command(ComPortCommand),
    /// For a user: the command took effect, or its query was answered.
    Answer(ComPortCommand),
    /// For a user: the command did not take effect.
    Refused {
        /// The command that the user sent.
        requested: ComPortCommand,
        /// The value in effect.
        current: ComPortCommand,
    },
    /// For a user: the state of the serial line or of the modem signals has changed.
    Notice(ComPortCommand),
    /// Whether the peer asks the local end to stop sending data.
    Suspended(bool),
}

impl ComPortCommand {
    pub(super) fn parse(code: u8, value: &[u8]) -> Option<Self> {
        Some(match (code, value) {
            (0, text) if text.len() <= SIGNATURE_MAX_BYTES => Self::Signature(printable(text)),
            (1, &[a, b, c, d]) => Self::BaudRate(u32::from_be_bytes([a, b, c, d])),
            (2, &[bits @ (0 | 5..=8)]) => Self::DataSize(bits),
            (3, &[parity @ 0..=5]) => Self::Parity(parity),
            (4, &[stop @ 0..=3]) => Self::StopSize(stop),
            (5, &[control @ 0..=Control::VALUE_MAX]) => Self::Control(Control(control)),
            (6, &[state]) => Self::LineState(state),
            (7, &[state]) => Self::ModemState(state),
            (8, []) => Self::Suspend,
            (9, []) => Self::Resume,
            (10, &[mask]) => Self::LineStateMask(mask),
            (11, &[mask]) => Self::ModemStateMask(mask),
            (12, &[buffers @ 1..=3]) => Self::Purge(buffers),
            _ => return None,
        })
    }

    /// Returns the content of the subnegotiation that a server (or a user) sends for this command.
    pub(super) fn content(&self, is_from_server: bool) -> Vec<u8> {
        let mut content =
            Vec::from([self.code() + if is_from_server { SERVER_CODE_OFFSET } else { 0 }]);
        match self {
            Self::Signature(text) => {
                content.extend_from_slice(printable(text.as_bytes()).as_bytes());
            }
            Self::BaudRate(rate) => content.extend_from_slice(&rate.to_be_bytes()),
            Self::Control(Control(value))
            | Self::DataSize(value)
            | Self::Parity(value)
            | Self::StopSize(value)
            | Self::LineState(value)
            | Self::ModemState(value)
            | Self::LineStateMask(value)
            | Self::ModemStateMask(value)
            | Self::Purge(value) => content.push(*value),
            Self::Suspend | Self::Resume => {}
        }
        content
    }

    const fn code(&self) -> u8 {
        match self {
            Self::Signature(_) => 0,
            Self::BaudRate(_) => 1,
            Self::DataSize(_) => 2,
            Self::Parity(_) => 3,
            Self::StopSize(_) => 4,
            Self::Control(_) => 5,
            Self::LineState(_) => 6,
            Self::ModemState(_) => 7,
            Self::Suspend => 8,
            Self::Resume => 9,
            Self::LineStateMask(_) => 10,
            Self::ModemStateMask(_) => 11,
            Self::Purge(_) => 12,
        }
    }

    /// Returns whether the command only queries a value.
    pub(super) fn is_query(&self) -> bool {
        match self {
            Self::Signature(text) => text.is_empty(),
            Self::BaudRate(0) | Self::DataSize(0) | Self::Parity(0) | Self::StopSize(0) => true,
            Self::Control(control) => control.is_query(),
            _ => false,
        }
    }

    /// Returns whether `other` can be the answer to this command.
    pub(super) fn is_answered_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Control(requested), Self::Control(answer)) => {
                requested.group() == answer.group()
            }
            _ => self.code() == other.code(),
        }
    }
}

impl fmt::Display for ComPortCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature(text) => write!(f, "SIGNATURE \"{text}\""),
            Self::BaudRate(rate) => write!(f, "SET-BAUDRATE {rate}"),
            Self::DataSize(bits) => write!(f, "SET-DATASIZE {bits}"),
            Self::Parity(parity) => {
                let names = ["?", "NONE", "ODD", "EVEN", "MARK", "SPACE"];
                write!(f, "SET-PARITY {}", names.get(usize::from(*parity)).unwrap_or(&"?"))
            }
            Self::StopSize(stop) => {
                let names = ["?", "1", "2", "1.5"];
                write!(f, "SET-STOPSIZE {}", names.get(usize::from(*stop)).unwrap_or(&"?"))
            }
            Self::Control(Control(control)) => write!(f, "SET-CONTROL {control}"),
            Self::LineState(state) => write!(f, "NOTIFY-LINESTATE {state:#04x}"),
            Self::ModemState(state) => write!(f, "NOTIFY-MODEMSTATE {state:#04x}"),
            Self::Suspend => f.write_str("FLOWCONTROL-SUSPEND"),
            Self::Resume => f.write_str("FLOWCONTROL-RESUME"),
            Self::LineStateMask(mask) => write!(f, "SET-LINESTATE-MASK {mask:#04x}"),
            Self::ModemStateMask(mask) => write!(f, "SET-MODEMSTATE-MASK {mask:#04x}"),
            Self::Purge(buffers) => write!(f, "PURGE-DATA {buffers}"),
        }
    }
}

/// Returns the printable ASCII of `text`, truncated to the maximum length of a signature.
fn printable(text: &[u8]) -> String {
    let printable = text.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ');
    printable.take(SIGNATURE_MAX_BYTES).copied().map(char::from).collect()
}
