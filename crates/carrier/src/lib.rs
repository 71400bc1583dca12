//! Carriers of a session: the kernel's sockets, or a user-space station on a TUN, an Ethernet
//! segment or a serial line.
//!
//! A [`StreamSession`] is a stream application with local input and output: the keyboard and the
//! screen, or the program that measures. [`run`] drives a session over any carrier until the
//! session ends, in the calling thread; the session does not depend on the kind of carrier.

mod ack_policy;
mod attachment;
mod byte_device;
mod carrier_status;
mod destination;
mod engine_context;
mod ethernet_device;
#[cfg(test)]
mod fairness_tests;
mod happy_eyeballs;
pub mod host_configuration;
mod host_table;
mod kernel;
mod local_addresses;
pub mod meters;
mod open_route;
mod outcome;
mod packet_io;
mod pins;
mod program;
mod route;
mod scheme;
mod serial_line;
mod session_poller;
mod ssh_identification;
mod station;
mod stream_session;
mod suites;
mod target;
mod tcp_connection;
#[cfg(test)]
mod tests;
mod tls;
mod tls_failure;
mod tls_parameters;
mod trust;
mod unbuffered_tls;
mod userspace_host;

pub use ack_policy::AckPolicy;
pub use carrier_status::CarrierStatus;
pub use destination::{Destination, LoginScheme, TELNETS_PORT, line_settings, line_text};
pub use engine_context::{BorrowedContext, EngineContext};
pub use ethernet_device::{Port, Segment};
pub use happy_eyeballs::connect;
pub use local_addresses::LocalAddresses;
pub use outcome::{Outcome, outcome_of};
pub use pins::{remove_certificates, saved_certificates};
pub use program::{EndedProgram, run_on_program};
pub use route::{Route, SerialLink};
pub use scheme::Scheme;
pub use serial_line::run_on_serial_line;
pub use ssh_identification::ssh_identification;
pub use stream_session::{EndedSession, StreamSession};
pub use target::{AddressFamilies, HostTarget, NoAddress, TELNET_PORT, addresses, parse_port};
pub use tcp_connection::TcpConnection;
pub use tls::MaybeTls;
pub use tls_failure::TlsFailure;
pub use tls_parameters::{TlsParameters, TrustedBy};
pub use trust::{TlsClient, Trust, fingerprint};
pub use unbuffered_tls::{Progress, RecordLayer, TlsWrite};
pub use userspace_host::{FILES, LOGINS, check_host_supported, open_host};

use anyhow::Result;
use os::tun::Tun;
use std::net::SocketAddr;
use std::time::Duration;

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
