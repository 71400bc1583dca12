//! What carries a session: the kernel's sockets, our own station on a TUN, or one on a serial line.
//!
//! A [`Session`] is a stream application with a near side: the keyboard and the screen, or the
//! program that measures. [`run`] drives it over any carrier until it is over, in the thread that
//! calls it; the session does not see which carrier it is.

mod kernel;
mod segment;
mod station;
mod target;
#[cfg(test)]
mod tests;
mod via;

pub(crate) use target::{TELNET_PORT, Target, parse_port, resolve};
pub(crate) use via::{SerialLink, Via};

use anyhow::Result;
use os::clock::Monotonic;
use os::tun::Tun;
use protocols::Cx;
use protocols::application::Stream;
use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::transport::tcp::Status;
use std::net::{SocketAddr, SocketAddrV4};
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

    /// Takes what can be read from the `index`th of the inputs without waiting.
    ///
    /// # Errors
    ///
    /// If the near side fails: the session ends.
    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()>;

    /// Writes what waits for the near side: after each turn of the carrier.
    ///
    /// # Errors
    ///
    /// If the near side fails: the session ends.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// Takes the carrier's word that all output has been given to the device or the kernel.
    fn has_gone_out(&mut self, _cx: &mut Cx<'_>) {}

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

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The far side closed, or both did.
    Closed,
    /// The near side ended it.
    Left,
    /// Nobody listens at that port.
    Refused,
    /// The far side reset the connection.
    Reset,
    /// Nothing was heard for too long.
    TimedOut,
    /// The network says that the host cannot be reached.
    Unreachable,
}

/// What the driver lends to the engines of a session.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The clock of the run.
    pub clock: Monotonic,
    /// The meter of the session.
    pub meter: Meter,
    /// Chance, seeded by the operating system.
    pub chance: Chance,
}

impl Bench {
    /// Makes a bench whose meter runs, unless `is_metered` says otherwise.
    ///
    /// # Errors
    ///
    /// If the operating system gives no entropy.
    pub(crate) fn new(is_metered: bool) -> Result<Self> {
        let meter =
            if is_metered { Meter::new(Clock::Counter(os::clock::ticks)) } else { Meter::off() };
        Ok(Self {
            clock: Monotonic::start(),
            meter,
            chance: Chance::from_seed(os::entropy::seed()?),
        })
    }

    /// Lends now, chance and the meter.
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.clock.now(), chance: &mut self.chance, meter: &mut self.meter }
    }
}

/// Returns whether a session is metered: always, but for the benchmark of the meter itself.
#[must_use]
pub(crate) fn is_metered() -> bool {
    std::env::var_os("PLUMB_METER").is_none_or(|value| value != "off")
}

/// How long a connection may take to open.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries `session` to `address` and back until it is over.
///
/// # Errors
///
/// If the machine refuses what the carrier needs, in a sentence that says what to do.
pub(crate) fn run<S: Session>(
    session: S,
    via: &Via,
    address: SocketAddr,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    match via {
        Via::Kernel => kernel::run(session, address, timeout, bench),
        Via::Tun { .. } | Via::Segment(_) | Via::Serial { .. } => {
            station::run(session, via, address, timeout, bench)
        }
    }
}

/// Calls the addresses of one target one after the other with `call`, until one answers, as
/// `is_open` then says (RFC 1122 §3.1). Returns the last one that was called, and how it ended.
///
/// # Errors
///
/// As `call`.
pub(crate) fn call_each<S>(
    mut session: S,
    addresses: &[SocketAddr],
    mut call: impl FnMut(S, SocketAddr) -> Result<(S, Outcome)>,
    is_open: impl Fn(&S) -> bool,
) -> Result<(S, Option<SocketAddr>, Outcome)> {
    let (mut called, mut outcome) = (None, Outcome::Unreachable);
    for address in addresses {
        called = Some(*address);
        (session, outcome) = call(session, *address)?;
        if is_open(&session) {
            break;
        }
    }
    Ok((session, called, outcome))
}

/// Carries `session` over our own TCP/IP on a TUN that is open already, as [`run`] does. Our
/// address is the one that the interface's own address suggests.
///
/// # Errors
///
/// If the interface is down or has no address, or fails.
pub(crate) fn run_on_tun<S: Session>(
    session: S,
    tun: Tun,
    address: SocketAddrV4,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    station::run_on_tun(session, tun, address, timeout, bench)
}
