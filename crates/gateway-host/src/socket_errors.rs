//! Errors of the host's sockets, in the terms of the engine.

use gateway::ConnectFailure;
use gateway::relay::host_errors::{FlowError, kind_of_icmp, kind_of_icmpv6, too_big};
use net::internet::icmp::{ErrorKind, Unreachable};
use os::error_queue::{ErrorOrigin, ErrorReport};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;

/// Maximum number of bytes of a datagram that a report quotes.
pub(crate) const QUOTED_MAX: usize = 548;
/// Maximum number of error reports that are removed from a socket at once.
const REPORTS_MAX: usize = 256;

/// Passes the reports of a socket's error queue to `process`, at most as many as the socket may have
/// had datagrams. `next` takes the next report, and copies the beginning of the datagram.
pub(crate) fn take_reports(
    mut next: impl FnMut(&mut [u8]) -> Option<ErrorReport>,
    mut process: impl FnMut(&FlowError<'_>),
) {
    let mut quoted = [0; QUOTED_MAX];
    for _ in 0..REPORTS_MAX {
        let Some(report) = next(&mut quoted) else { return };
        let Some(kind) = kind_of(&report) else { continue };
        let payload = quoted.get(..report.quoted_len).unwrap_or_default();
        let to = SocketAddr::new(report.to.ip().to_canonical(), report.to.port());
        process(&FlowError { to, kind, reporter: report.reporter, payload });
    }
}

fn kind_of(report: &ErrorReport) -> Option<ErrorKind> {
    match report.origin {
        ErrorOrigin::Icmp { kind, code, mtu_bytes } => kind_of_icmp(kind, code, mtu_bytes),
        ErrorOrigin::Icmp6 { kind, code, mtu_bytes } => kind_of_icmpv6(kind, code, mtu_bytes),
        ErrorOrigin::Local { mtu_bytes } => match report.path_mtu() {
            Some(_) => Some(too_big(mtu_bytes)),
            None => unreachable(&report.error).map(ErrorKind::Unreachable),
        },
        ErrorOrigin::Other => None,
    }
}

/// Returns why a destination cannot be reached, if this is what the error of a system call means.
pub(crate) fn unreachable(error: &io::Error) -> Option<Unreachable> {
    match Errno::from_io_error(error)? {
        Errno::NETUNREACH | Errno::NETDOWN => Some(Unreachable::Network),
        Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::TIMEDOUT => Some(Unreachable::Host),
        Errno::ACCESS | Errno::PERM => Some(Unreachable::Prohibited),
        _ => None,
    }
}

/// Returns whether a system call has failed because no descriptor was free: for this process, or for
/// all of them.
pub(crate) fn lacks_descriptor(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns how the failure of a connect is reported to the guest.
pub(crate) fn connect_failure(error: &io::Error) -> ConnectFailure {
    if lacks_descriptor(error) {
        return ConnectFailure::NoDescriptor;
    }
    unreachable(error).map_or(ConnectFailure::Refused, ConnectFailure::Unreachable)
}
