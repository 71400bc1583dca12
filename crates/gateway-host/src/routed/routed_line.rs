//! A line of a routed gateway.

use crate::capture_file::CaptureFile;
use crate::guest_device::Line;
use gateway::queue::QueueCounters;
use gateway::router::LineId;

/// A line, its device and its capture.
#[derive(Debug)]
pub(super) struct RoutedLine {
    /// The text with which the line was given.
    pub(super) name: String,
    pub(super) id: LineId,
    /// The addresses and prefixes of its host.
    pub(super) addresses: Vec<String>,
    /// `None` if the device no longer works.
    pub(super) line: Option<Line>,
    /// The counters of the output when the device failed.
    pub(super) last_counters: Option<QueueCounters>,
    /// The file to which its datagrams are written.
    pub(super) capture: Option<CaptureFile>,
}
