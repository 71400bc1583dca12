//! Reasons why a gateway cannot start or had to end.

use crate::port::AddForwardError;
use crate::unix_socket::SOCKET_PATH_MAX_LEN;
use os::guest_command::GuestCommandError;
use os::inherited_descriptor::InheritError;
use os::privileges::PrivilegeError;
use os::sandbox::SandboxError;
use os::serial::SerialError;
use os::target_namespace::TargetError;
use os::tun_in_namespace::GuestTunError;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::{error, fmt, io};

/// Reasons why the gateway cannot start or had to end.
#[derive(Debug)]
pub enum ProgramError {
    /// An inherited descriptor is not usable.
    Descriptor(InheritError),
    /// The namespace of the guest cannot be used.
    Target(TargetError),
    /// The device cannot be opened or configured.
    Device(GuestTunError),
    /// A serial line cannot be opened.
    Line(SerialError),
    /// The command of the guest cannot run.
    Command(GuestCommandError),
    /// The sandbox cannot be entered.
    Sandbox(SandboxError),
    /// A file cannot be opened.
    File(PathBuf, io::Error),
    /// The settings cannot be used on this host, for this reason.
    Settings(String),
    /// A Unix socket cannot be created.
    Socket(PathBuf, io::Error),
    /// The metrics cannot be served at this address.
    Metrics(SocketAddr, io::Error),
    /// A port forward cannot be added.
    Forward(AddForwardError),
    /// Two guests have the same address.
    SameAddress(IpAddr),
    /// A guest is given twice.
    SameGuest(String),
    /// The privileges cannot be dropped.
    Privileges(PrivilegeError),
    /// The device of the guest no longer works.
    Lost(io::Error),
    /// A system call failed.
    System(io::Error),
}

impl ProgramError {
    /// Returns whether the arguments are the cause, and not the state of this host.
    #[must_use]
    pub const fn is_caused_by_arguments(&self) -> bool {
        matches!(
            self,
            Self::SameAddress(_) | Self::SameGuest(_) | Self::Forward(AddForwardError::Forward(_))
        )
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(error) => error.fmt(f),
            Self::Target(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Command(error) => error.fmt(f),
            Self::Sandbox(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "cannot open {}: {error}", path.display()),
            Self::Settings(text) => f.write_str(text),
            Self::Socket(path, error) => {
                let reason = Errno::from_io_error(error);
                let path = path.display();
                match reason {
                    Some(Errno::NAMETOOLONG) => write!(
                        f,
                        "{path}: the path of a socket has at most {SOCKET_PATH_MAX_LEN} bytes"
                    ),
                    Some(Errno::NOENT) => write!(f, "{path}: the directory does not exist"),
                    Some(Errno::ADDRINUSE) => write!(
                        f,
                        "{path} is in use by a running program, or is not a socket: use another path"
                    ),
                    _ => write!(f, "{path}: {error}"),
                }
            }
            Self::Metrics(address, error) => {
                write!(f, "cannot serve the metrics at {address}: {error}")
            }
            Self::Line(error) => error.fmt(f),
            Self::Forward(error) => error.fmt(f),
            Self::SameAddress(address) => {
                write!(f, "two guests have the address {address}: give each its own with address=")
            }
            Self::SameGuest(name) => write!(f, "the guest {name} is given twice"),
            Self::Privileges(error) => error.fmt(f),
            Self::Lost(error) => write!(f, "the device of the guest no longer works: {error}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl error::Error for ProgramError {}
