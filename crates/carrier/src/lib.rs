//! Carriers of a session: the kernel's sockets, or a user-space station on a TUN, an Ethernet
//! segment or a serial line.
//!
//! A [`StreamSession`] is a stream application with local input and output: the keyboard and the
//! screen, or the program that measures. [`run`] drives a session over any carrier until the
//! session ends, in the calling thread; the session does not depend on the kind of carrier.

mod destination;
mod engine_context;
mod ethernet_device;
#[cfg(test)]
mod fairness_tests;
mod happy_eyeballs;
mod kernel;
pub mod meters;
mod outcome;
mod packet_io;
mod pins;
mod route;
mod serial_line;
mod station;
mod suites;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod unbuffered_tls;
mod userspace_host;

pub use destination::{Destination, LoginScheme, line_settings, line_text};
pub use engine_context::{BorrowedContext, EngineContext};
pub use ethernet_device::{Port, Segment};
pub use happy_eyeballs::connect;
pub use kernel::outcome_of;
pub use outcome::Outcome;
pub use route::{LocalAddresses, Route, SerialLink};
pub use serial_line::run_on_serial_line;
pub use target::{AddressFamilies, HostTarget, NoAddress, TELNET_PORT, addresses, parse_port};
pub use tls::{MaybeTls, TlsFailure, TlsParameters, TrustedBy};
pub use trust::{TlsClient, Trust, fingerprint};
pub use unbuffered_tls::{Progress, RecordLayer, TlsWrite};
pub use userspace_host::{FILES, LOGINS, check_host_supported, open_host};

use anyhow::Result;
use net::Cx;
use net::application::Stream;
use net::transport::tcp::Status;
use os::tun::Tun;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A stream application with its local inputs and display.
pub trait StreamSession: Stream {
    /// Returns the descriptors of the local inputs.
    fn inputs(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns whether the session accepts data from the `index`th input now.
    fn wants_input(&self, _index: usize) -> bool {
        true
    }

    /// Returns whether [`StreamSession::take_input`] may have left data at the `index`th input. The
    /// carrier then calls `take_input` again without waiting, even though the input may be empty.
    fn has_more_input(&self, _index: usize) -> bool {
        false
    }

    /// Sets the address of the connection that is about to open. May be called several times; the
    /// last address is valid.
    fn set_remote_address(&mut self, _address: SocketAddr) {}

    /// Reads the data available at the `index`th input without blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the input fails; the session then ends.
    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()>;

    /// Writes as much pending display output as the display accepts. The carrier calls this method
    /// in each iteration of its loop. The call must not block on a slow display, because a blocked
    /// call also delays the keyboard.
    ///
    /// # Errors
    ///
    /// Returns an error if the display fails; the session then ends.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// Returns the descriptor of the display, if the session has a display.
    fn display(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether display output is pending because the display is full. The carrier calls
    /// [`StreamSession::flush`] again when [`StreamSession::display`] is writable, and before it
    /// ends a connection that has closed.
    fn is_display_full(&self) -> bool {
        false
    }

    /// Returns the policy by which the carrier acknowledges received data.
    fn ack_policy(&self) -> AckPolicy {
        AckPolicy::Awaited
    }

    /// Returns whether the session wants [`StreamSession::take_receive_delay`] from a carrier that
    /// can measure the receive delay.
    fn wants_receive_delays(&self) -> bool {
        false
    }

    /// Sets the receive delay of the data that the next [`Stream::receive`] delivers: the time from
    /// the arrival of the data at this host until the carrier read the data.
    fn take_receive_delay(&mut self, _delay: Duration) {}

    /// Notifies the session that all output was handed to the device or the kernel.
    fn output_written(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether TLS starts in both directions after the pending output.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Notifies the session that all data from now on is protected by TLS.
    fn tls_established(&mut self, _parameters: TlsParameters, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether the carrier must send a BREAK on a serial line now.
    fn take_break_request(&mut self) -> bool {
        false
    }

    /// Receives the status of the connection after [`StreamSession::wants_status`] returned `true`.
    fn take_status(&mut self, status: &CarrierStatus);

    /// Returns whether the session waits for [`StreamSession::take_status`].
    fn wants_status(&self) -> bool;

    /// Returns whether the local user or program has ended the session, so that the connection is
    /// dropped.
    fn is_over(&self) -> bool;
}

/// Status of a carrier's connection.
#[derive(Clone, Debug)]
pub enum CarrierStatus {
    /// `TCP_INFO` of the kernel and the name of its congestion control.
    Kernel(Box<os::socket::TcpInfo>, String),
    /// Status of the user-space TCP and the counters of its station.
    UserSpace(Box<Status>),
    /// No connection.
    None,
}

impl CarrierStatus {
    /// Returns whether the remote host has acknowledged all sent data; `None` if that is unknown.
    pub fn is_acknowledged(&self) -> Option<bool> {
        match self {
            Self::Kernel(info, _) => {
                Some(info.unacknowledged_segments == 0 && info.unsent_bytes.unwrap_or(0) == 0)
            }
            Self::UserSpace(status) => Some(status.send_queue == 0),
            Self::None => None,
        }
    }

    /// Returns the smoothed round-trip time of TCP (RFC 6298 section 2), ns.
    pub fn round_trip_ns(&self) -> Option<u64> {
        match self {
            Self::Kernel(info, _) => Some(u64::from(info.round_trip_us) * 1_000),
            Self::UserSpace(status) => {
                let ns = status.srtt?.as_nanos();
                Some(u64::try_from(ns).unwrap_or(u64::MAX))
            }
            Self::None => None,
        }
    }
}

/// A session that has ended.
#[derive(Debug)]
pub struct EndedSession<S> {
    /// The session.
    pub session: S,
    /// Outcome of the session.
    pub outcome: Outcome,
    /// Address of the remote host; without a connection, the address that the outcome refers to.
    pub address: SocketAddr,
}

/// Default time limit for opening a connection.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects `session` to the first of a host's `addresses` that answers, and runs `session` until
/// the session ends. The kernel's sockets race the addresses (RFC 8305); the user-space TCP tries
/// the addresses one after the other, in the order of RFC 6724.
///
/// # Errors
///
/// Returns an error that names the remedy if the operating system refuses a resource that the
/// carrier needs, such as its device.
pub fn run<S: StreamSession>(
    session: S,
    via: &Route,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    match via {
        Route::Kernel => kernel::run(session, addresses, timeout, context),
        Route::Tun { .. } | Route::Segment(_) | Route::Serial { .. } => {
            station::run(session, via, addresses, timeout, context)
        }
    }
}

/// Runs `session` over the user-space TCP/IP on an open TUN, like [`run`]. The local addresses are
/// derived from the addresses of the interface.
///
/// # Errors
///
/// Returns an error if the interface is down, has no address or fails.
pub fn run_on_tun<S: StreamSession>(
    session: S,
    tun: Tun,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    station::run_on_tun(session, tun, addresses, timeout, context)
}

/// When a carrier acknowledges received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Acknowledges data at once if the remote host may hold back more data until the
    /// acknowledgment; acknowledges all other data with an answer or after a delay.
    Awaited,
    /// Acknowledges all data at once.
    Immediate,
    /// Acknowledges data with an answer or after the default delay of TCP.
    Delayed,
}

impl AckPolicy {
    /// Returns a predicate that selects the data to acknowledge at once.
    pub fn predicate(self) -> fn(&[u8]) -> bool {
        match self {
            Self::Awaited => may_withhold,
            Self::Immediate => |_| true,
            Self::Delayed => |_| false,
        }
    }
}

/// Maximum length in bytes of received data that counts as the echo of one key: a character or a
/// rubout.
const ECHO_LEN: usize = 4;

/// Returns whether the remote host may hold back more data until `data` is acknowledged (Nagle's
/// algorithm, RFC 9293 §3.7.4). No data follows the echo of one key. Any other data may be followed
/// by a screen, which a delayed acknowledgment would delay by 40 ms.
fn may_withhold(data: &[u8]) -> bool {
    data.len() > ECHO_LEN || data.contains(&b'\n')
}
