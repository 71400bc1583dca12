//! Congestion control of the measured connections.

use records::format::UNKNOWN;
use std::fs;

/// File with the congestion control of the bench's network namespace.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Returns the sentence of a report about the congestion control.
pub(super) fn congestion() -> String {
    let control = fs::read_to_string(CONGESTION);
    format!(
        "{} (kernel's sockets); our own TCP on the TUN has its profile for a keyboard",
        control.map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
    )
}
