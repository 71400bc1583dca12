//! A line of a routed gateway.

use crate::capture_file::CaptureFile;
use crate::guest_device::Line;
use gateway::queue::QueueCounters;
use gateway::router::LineId;
use ipnet::IpNet;
use std::net::IpAddr;

/// A line, its device and its capture.
#[derive(Debug)]
pub(super) struct RoutedLine {
    /// The name in requests and messages.
    pub(super) name: String,
    pub(super) id: LineId,
    /// The addresses and prefixes of its host.
    pub(super) addresses: Vec<String>,
    /// The same addresses and prefixes, by which requests name the line.
    pub(super) networks: Vec<IpNet>,
    /// `None` if the device no longer works.
    pub(super) line: Option<Line>,
    /// The counters of the output when the device failed.
    pub(super) last_counters: Option<QueueCounters>,
    /// The file to which its datagrams are written.
    pub(super) capture: Option<CaptureFile>,
}

impl RoutedLine {
    /// Returns whether an address is one of the host at the line.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}
