//! Results of the experiments with control structures.

use super::empty::EmptySwitch;
use super::of_1982::VirtualTimeResult;
use super::structure::ControlStructure;

/// Results of all experiments.
#[derive(Debug)]
pub struct ControlResults {
    pub(super) empty: Vec<EmptySwitch>,
    pub(super) of_1982: Vec<VirtualTimeResult>,
    pub(super) in_process: Vec<RealTimeResult>,
    /// Results over a TUN, or the reason why they could not be measured.
    pub(super) on_tun: Result<Vec<RealTimeResult>, String>,
}

/// Results of a structure in real time.
#[derive(Clone, Debug)]
pub struct RealTimeResult {
    pub(super) structure: ControlStructure,
    /// Medians of the rounds.
    pub(super) echo_ns: u64,
    pub(super) screenful_ns: u64,
    /// Echo time relative to the echo time of the scheduler in the same round: the median of all
    /// rounds.
    pub(super) echo_ratio: f64,
    pub(super) screenful_ratio: f64,
    /// Changes of control per key, of the user and of the server; `None` if the kernel's TCP is the
    /// user.
    pub(super) echo_switches: Option<[f64; 2]>,
}
