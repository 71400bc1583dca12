//! Carriers of a session: the kernel's sockets, a user-space station on a TUN, or one on a serial
//! line.
//!
//! A [`Session`] is a stream application with local input and output: the keyboard and the screen,
//! or the program that measures. [`run`] drives it over any carrier until it ends, in the calling
//! thread; the session does not depend on the kind of carrier.

mod bench;
mod ethernet_device;
#[cfg(test)]
mod fairness_tests;
mod happy_eyeballs;
mod host;
mod kernel;
mod line;
mod outcome;
mod packet_io;
mod pins;
mod station;
mod suites;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod unbuffered_tls;
mod via;

pub(crate) use bench::{Bench, Lent};
pub(crate) use happy_eyeballs::connect;
pub(crate) use host::{FILES, LOGINS, check_host, host};
pub(crate) use kernel::outcome_of;
pub(crate) use line::run_on_line;
pub(crate) use outcome::Outcome;
pub(crate) use target::{Family, NoAddress, TELNET_PORT, Target, addresses, parse_port};
pub(crate) use tls::{Refusal, Secured, Tls, TrustedBy};
pub(crate) use trust::{TlsClient, Trust, fingerprint};
pub(crate) use unbuffered_tls::{RecordLayer, Saying, Turn};
pub(crate) use via::{Own, SerialLink, Via};

use anyhow::Result;
use os::tun::Tun;
use protocols::Cx;
use protocols::application::Stream;
use protocols::transport::tcp::Status;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A stream application with its local inputs and display.
pub(crate) trait Session: Stream {
    /// Returns the descriptors of the local inputs.
    fn inputs(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns whether the session accepts data from the `index`th input now.
    fn wants_input(&self, _index: usize) -> bool {
        true
    }

    /// Returns whether [`Session::take_input`] may have left data at the `index`th input. It is
    /// then called again without waiting, and may find nothing.
    fn has_more_input(&self, _index: usize) -> bool {
        false
    }

    /// Sets the address of the connection that is about to open. May be called several times; the
    /// last call holds.
    fn reached(&mut self, _address: SocketAddr) {}

    /// Reads what is available at the `index`th input without blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the input fails; the session then ends.
    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()>;

    /// Writes pending display output as far as the display accepts it. Called after each turn of
    /// the carrier. A slow display must not block this call, or the keyboard waits too.
    ///
    /// # Errors
    ///
    /// Returns an error if the display fails; the session then ends.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// Returns the descriptor that display output is written to, if the session has a display.
    fn display(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether display output is pending because the display is full. The carrier calls
    /// [`Session::flush`] again when [`Session::display`] is writable, and before it ends a
    /// connection that has closed.
    fn is_display_full(&self) -> bool {
        false
    }

    /// Returns when the carrier acknowledges received data.
    fn acknowledging(&self) -> Acknowledging {
        Acknowledging::Awaited
    }

    /// Returns whether the session wants [`Session::take_receive_delay`] from a carrier that
    /// supports it.
    fn wants_receive_delays(&self) -> bool {
        false
    }

    /// Sets the time between the arrival at this host and the read of the data that the next
    /// [`Stream::receive`] delivers.
    fn take_receive_delay(&mut self, _delay: Duration) {}

    /// Notifies the session that all output was handed to the device or the kernel.
    fn has_gone_out(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether TLS starts in both directions after the pending output.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Notifies the session that all data from now on is protected by TLS.
    fn secured(&mut self, _how: Secured, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether the carrier must send a BREAK on a serial line now.
    fn takes_break(&mut self) -> bool {
        false
    }

    /// Receives the status of the connection after [`Session::wants_status`] returned `true`.
    fn take_status(&mut self, status: &CarrierStatus);

    /// Returns whether the session waits for [`Session::take_status`].
    fn wants_status(&self) -> bool;

    /// Returns whether the local user or program has ended the session, so that the connection is
    /// dropped.
    fn is_over(&self) -> bool;
}

/// Status of a carrier's connection.
#[derive(Clone, Debug)]
pub(crate) enum CarrierStatus {
    /// `TCP_INFO` of the kernel and the name of its congestion control.
    Kernel(Box<os::socket::TcpInfo>, String),
    /// Status of the user-space TCP and the counters of its station.
    Own(Box<Status>),
    /// No connection.
    None,
}

impl CarrierStatus {
    /// Returns whether the remote host has acknowledged all sent data; `None` if that is unknown.
    pub(crate) fn is_acknowledged(&self) -> Option<bool> {
        match self {
            Self::Kernel(info, _) => {
                Some(info.unacknowledged_segments == 0 && info.unsent_bytes.unwrap_or(0) == 0)
            }
            Self::Own(status) => Some(status.send_queue == 0),
            Self::None => None,
        }
    }

    /// Returns the smoothed round-trip time of TCP (RFC 6298 section 2), ns.
    pub(crate) fn round_trip_ns(&self) -> Option<u64> {
        match self {
            Self::Kernel(info, _) => Some(u64::from(info.round_trip_us) * 1_000),
            Self::Own(status) => {
                let ns = status.srtt?.as_nanos();
                Some(u64::try_from(ns).unwrap_or(u64::MAX))
            }
            Self::None => None,
        }
    }
}

/// A session that has ended.
#[derive(Debug)]
pub(crate) struct Call<S> {
    /// The session.
    pub session: S,
    /// How it ended.
    pub outcome: Outcome,
    /// Address of the remote host; without a connection, the address that the outcome refers to.
    pub address: SocketAddr,
}

/// Default time limit for opening a connection.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects `session` to the first of a host's `addresses` that answers and runs it until it ends.
/// The kernel's sockets race the addresses (RFC 8305); the user-space TCP tries them one after the
/// other, in the order of RFC 6724.
///
/// # Errors
///
/// Returns an error that names the remedy if the machine refuses what the carrier needs.
pub(crate) fn run<S: Session>(
    session: S,
    via: &Via,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    match via {
        Via::Kernel => kernel::run(session, addresses, timeout, bench),
        Via::Tun { .. } | Via::Segment(_) | Via::Serial { .. } => {
            station::run(session, via, addresses, timeout, bench)
        }
    }
}

/// Runs `session` over the user-space TCP/IP on an open TUN, like [`run`]. The local addresses are
/// derived from the addresses of the interface.
///
/// # Errors
///
/// Returns an error if the interface is down, has no address or fails.
pub(crate) fn run_on_tun<S: Session>(
    session: S,
    tun: Tun,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    station::run_on_tun(session, tun, addresses, timeout, bench)
}

/// When a carrier acknowledges received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledging {
    /// Acknowledges at once data after which the remote host may hold back more; all other data
    /// with an answer or after a delay.
    Awaited,
    /// Acknowledges all data at once.
    AtOnce,
    /// Acknowledges with an answer or after the default delay of TCP.
    Late,
}

impl Acknowledging {
    /// Returns a predicate that selects the data to acknowledge at once.
    pub(crate) fn at_once(self) -> fn(&[u8]) -> bool {
        match self {
            Self::Awaited => may_hold_back,
            Self::AtOnce => |_| true,
            Self::Late => |_| false,
        }
    }
}

/// Maximum length in bytes of data that is taken for the echo of one key: a character or a rubout.
const ECHO_LEN: usize = 4;

/// Returns whether the remote host may hold back more data until `data` is acknowledged (Nagle's
/// algorithm, RFC 9293 §3.7.4). Nothing follows the echo of one key. A screen may follow any other
/// data, and a delayed acknowledgment would delay its display by 40 ms.
fn may_hold_back(data: &[u8]) -> bool {
    data.len() > ECHO_LEN || data.contains(&b'\n')
}
