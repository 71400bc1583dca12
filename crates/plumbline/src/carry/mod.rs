//! What carries a session: the kernel's sockets, our own station on a TUN, or one on a serial line.
//!
//! A [`Session`] is a stream application with a near side: the keyboard and the screen, or the
//! program that measures. [`run`] drives it over any carrier until it is over, in the thread that
//! calls it; the session does not see which carrier it is.

mod bench;
#[cfg(test)]
mod fairness_tests;
mod host;
mod kernel;
mod line;
mod outcome;
mod packets;
mod pins;
mod race;
mod record_layer;
mod segment;
mod station;
mod suites;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod via;

pub(crate) use bench::{Bench, Lent};
pub(crate) use host::{FILES, LOGINS, check_host, host};
pub(crate) use kernel::outcome_of;
pub(crate) use line::run_on_line;
pub(crate) use outcome::Outcome;
pub(crate) use race::connect;
pub(crate) use record_layer::{RecordLayer, Saying, Turn};
pub(crate) use target::{Family, NoAddress, TELNET_PORT, Target, addresses, parse_port};
pub(crate) use tls::{Refusal, Secured, Tls, TrustedBy};
pub(crate) use trust::{TlsClient, Trust, fingerprint};
pub(crate) use via::{Own, SerialLink, Via};

use anyhow::Result;
use os::tun::Tun;
use protocols::Cx;
use protocols::application::Stream;
use protocols::transport::tcp::Status;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A stream application with its near side.
pub(crate) trait Session: Stream {
    /// Returns the descriptors whose input the near side waits for.
    fn inputs(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns whether the session wants what the `index`th of the inputs has now.
    fn wants_input(&self, _index: usize) -> bool {
        true
    }

    /// Returns whether [`Session::take_input`] may have left something to read at the `index`th of
    /// the inputs; it is then called again without waiting, and may find nothing.
    fn has_more_input(&self, _index: usize) -> bool {
        false
    }

    /// Takes the address of the connection that opens next, or may: the last word counts.
    fn reached(&mut self, _address: SocketAddr) {}

    /// Takes what can be read from the `index`th of the inputs without waiting.
    ///
    /// # Errors
    ///
    /// If the near side fails: the session ends.
    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()>;

    /// Writes what waits for the near side, as far as there is room: after each turn of the
    /// carrier. A slow display must not block it, or the keyboard waits too.
    ///
    /// # Errors
    ///
    /// If the near side fails: the session ends.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// Returns the descriptor that display output is written to, if the session has a display.
    fn display(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether display output waits for room. The carrier then calls [`Session::flush`]
    /// again once [`Session::display`] has room, and before a connection that has closed is over.
    fn is_display_full(&self) -> bool {
        false
    }

    /// Returns how soon what comes is acknowledged.
    fn acknowledging(&self) -> Acknowledging {
        Acknowledging::Awaited
    }

    /// Returns whether the session wants [`Session::take_receive_delay`] where the carrier can tell.
    fn wants_receive_delays(&self) -> bool {
        false
    }

    /// Takes for how long the data that [`Stream::receive`] takes next has waited to be read since it
    /// arrived at this host.
    fn take_receive_delay(&mut self, _delay: Duration) {}

    /// Takes the carrier's word that all output has been given to the device or the kernel.
    fn has_gone_out(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether all that follows is TLS, both ways, behind the output of now.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Takes note that all that goes out and comes in from now on is in TLS.
    fn secured(&mut self, _how: Secured, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether a serial line is to have a BREAK now.
    fn takes_break(&mut self) -> bool {
        false
    }

    /// Takes what the carrier knows of its connection, when [`Session::wants_status`] has asked.
    fn take_status(&mut self, status: &CarrierStatus);

    /// Returns whether the session waits for [`Session::take_status`].
    fn wants_status(&self) -> bool;

    /// Returns whether the near side has ended the session, and the connection is to be dropped.
    fn is_over(&self) -> bool;
}

/// What a carrier knows of its connection.
#[derive(Clone, Debug)]
pub(crate) enum CarrierStatus {
    /// The kernel's `TCP_INFO`, and its congestion control.
    Kernel(Box<os::socket::TcpInfo>, String),
    /// Our own TCP, and what its station has counted.
    Own(Box<Status>),
    /// Nothing: there is no connection.
    None,
}

impl CarrierStatus {
    /// Returns whether the remote host has acknowledged all data that was sent; `None` if that is not known.
    pub(crate) fn is_acknowledged(&self) -> Option<bool> {
        match self {
            Self::Kernel(info, _) => {
                Some(info.unacknowledged_segments == 0 && info.unsent_bytes.unwrap_or(0) == 0)
            }
            Self::Own(status) => Some(status.send_queue == 0),
            Self::None => None,
        }
    }

    /// Returns the smoothed round trip of TCP (RFC 6298 section 2), ns.
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

/// A session that is over.
#[derive(Debug)]
pub(crate) struct Call<S> {
    /// The session.
    pub session: S,
    /// How it ended.
    pub outcome: Outcome,
    /// With whom, or of which address the outcome tells if no connection was opened.
    pub address: SocketAddr,
}

/// How long a connection may take to open.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries `session` to the first of a host's `addresses` that answers, and back until it is
/// over. Which that is, the kernel's sockets find out by a race (RFC 8305), and our own TCP by one
/// attempt after the other, in the order of RFC 6724.
///
/// # Errors
///
/// If the machine refuses what the carrier needs, in a sentence that says what to do.
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

/// Carries `session` over our own TCP/IP on a TUN that is open already, as [`run`] does. Our
/// addresses are those that the interface's own addresses suggest.
///
/// # Errors
///
/// If the interface is down or has no address, or fails.
pub(crate) fn run_on_tun<S: Session>(
    session: S,
    tun: Tun,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    station::run_on_tun(session, tun, addresses, timeout, bench)
}

/// How soon a carrier acknowledges what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledging {
    /// At once what the far side may wait for; all else with an answer, or after a delay.
    Awaited,
    /// At once, whatever it is.
    AtOnce,
    /// With an answer, or after the delay that most programs leave to their TCP.
    Late,
}

impl Acknowledging {
    /// Returns what says of data whether it is acknowledged at once.
    pub(crate) fn at_once(self) -> fn(&[u8]) -> bool {
        match self {
            Self::Awaited => may_hold_back,
            Self::AtOnce => |_| true,
            Self::Late => |_| false,
        }
    }
}

/// Bytes from the far side that are surely the echo of one key: a character, or a rubout.
const ECHO_LEN: usize = 4;

/// Returns whether the far side may hold back more until `data` is acknowledged (Nagle's
/// algorithm, RFC 9293 §3.7.4): after the echo of one key nothing waits, after all else a screen
/// may, and a delayed acknowledgment would keep it from the eye for 40 ms.
fn may_hold_back(data: &[u8]) -> bool {
    data.len() > ECHO_LEN || data.contains(&b'\n')
}
