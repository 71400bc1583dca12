//! Sources of datagrams from a guest without a segment that are not its address, for the log.

use net::internet::SourceErrors;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Maximum number of sources that are reported for one guest. Line noise and attacks have more.
const REPORTED_MAX: usize = 8;

/// The wrong sources of one guest. Each is reported once.
#[derive(Debug, Default)]
pub(super) struct WrongSources {
    known: SourceErrors,
    reported: Vec<IpAddr>,
    /// Sources for the next reports.
    queue: VecDeque<IpAddr>,
}

impl WrongSources {
    /// Processes the counters of the station.
    pub(super) fn check(&mut self, errors: SourceErrors) {
        if (errors.ipv4, errors.ipv6) == (self.known.ipv4, self.known.ipv6) {
            return;
        }
        self.known = errors;
        let new = errors.last.filter(|source| !self.reported.contains(source));
        if let Some(source) = new.filter(|_| self.reported.len() < REPORTED_MAX) {
            self.reported.push(source);
            self.queue.push_back(source);
        }
    }

    /// Returns the next source to report.
    pub(super) fn next_source(&mut self) -> Option<IpAddr> {
        self.queue.pop_front()
    }
}
