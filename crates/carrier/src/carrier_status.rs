//! Status of a carrier's connection.

use net::transport::tcp::Status;

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
