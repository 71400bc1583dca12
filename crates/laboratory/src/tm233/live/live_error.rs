//! Reasons why the live tables were not made.

use os::interface::InterfaceError;
use os::namespace::Refused;
use os::tun::TunError;
use std::{error, fmt, io};

/// Reason why the live tables were not made.
#[derive(Debug)]
pub enum NotRun {
    /// No network namespace can be entered.
    Namespace(Refused),
    /// There is no Telnet server.
    NoTelnetServer,
    /// The gateway did not start; the text is its message.
    Gateway(String),
    /// The network of the foreign host cannot be made.
    Tun(TunError),
    /// The network of the foreign host cannot be configured.
    Interface(InterfaceError),
    /// An experiment with this name did not end in time.
    Stalled(&'static str),
    /// A system call failed.
    System(io::Error),
}

impl From<io::Error> for NotRun {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<InterfaceError> for NotRun {
    fn from(error: InterfaceError) -> Self {
        Self::Interface(error)
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(error) => error.fmt(f),
            Self::NoTelnetServer => f.write_str(
                "there is no Telnet server: install inetutils-telnetd or busybox (see --live)",
            ),
            Self::Gateway(message) => write!(f, "the gateway did not start: {message}"),
            Self::Tun(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
            Self::Stalled(name) => write!(f, "the experiment \"{name}\" did not end in time"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl error::Error for NotRun {}
