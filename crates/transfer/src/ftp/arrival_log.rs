//! Arrivals and TCP samples of one transfer.

use crate::recorder::{nanos, of_info};
use os::schedule::thread_run_queue_wait;
use os::socket::TcpInfo;
use records::arrivals::ArrivalSeries;
use records::statistics;
use records::transfer::Tcp;
use std::time::{Duration, Instant};

/// Arrivals and TCP samples of one transfer.
#[derive(Debug)]
pub struct ArrivalLog {
    pub(crate) began: Instant,
    pub(crate) log: ArrivalSeries,
    /// Data segments of a download, including segments received after a missing segment.
    pub(crate) segments: ArrivalSeries,
    /// Number of bytes received in order (download) or acknowledged (upload) when the first loss
    /// was observed.
    pub(crate) first_loss_bytes: Option<u64>,
    bytes: u64,
    /// Run-queue wait of the sampling thread while it sampled. This wait does not delay the
    /// transfer.
    pub(crate) sampling_wait: Duration,
    sampled_wait: Option<Duration>,
    /// Smallest and largest window that the peer of an upload offered, in bytes.
    pub(crate) peer_window_bytes: Option<[u64; 2]>,
    /// Smoothed round-trip times of an upload in µs. When the list is full, every second sample is
    /// removed.
    round_trips_us: Vec<u64>,
    /// Window offered locally at the end of a download, in bytes.
    pub(crate) own_window_bytes: Option<u64>,
    /// The latest `tcp_info` of an upload.
    pub(crate) tcp: Option<Tcp>,
}

/// Maximum number of smoothed round-trip times kept for an upload.
const ROUND_TRIPS_MAX: usize = 4_096;

impl ArrivalLog {
    /// Starts the log of a transfer. Each log keeps at most `most` entries.
    pub fn begin(most: usize) -> Self {
        Self {
            began: Instant::now(),
            log: ArrivalSeries::new(most),
            segments: ArrivalSeries::new(most),
            first_loss_bytes: None,
            bytes: 0,
            sampling_wait: Duration::ZERO,
            sampled_wait: None,
            peer_window_bytes: None,
            round_trips_us: Vec::new(),
            own_window_bytes: None,
            tcp: None,
        }
    }

    /// Returns the 75th percentile of the smoothed round-trip times of an upload, in ns.
    pub(crate) fn upper_rtt_ns(&self) -> Option<u64> {
        statistics::percentile(&self.round_trips_us, 75).map(|us| us.saturating_mul(1_000))
    }

    /// Records a sample of the kernel's `tcp_info` of an upload.
    pub(crate) fn sample_outgoing(&mut self, info: &TcpInfo) {
        let tcp = of_info(info);
        if tcp == Tcp::default() {
            return;
        }
        self.tcp = Some(tcp);
        // The kernel counts the SYN as an acknowledged byte.
        let acknowledged = info.bytes_acknowledged.unwrap_or(0).saturating_sub(1);
        self.bytes = self.bytes.max(acknowledged);
        self.log.record(nanos(self.began.elapsed()), self.bytes);
        if info.total_retransmissions > 0 {
            self.first_loss_bytes.get_or_insert(self.bytes);
        }
        if self.round_trips_us.len() >= ROUND_TRIPS_MAX {
            let mut number = 0_usize;
            self.round_trips_us.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
        }
        self.round_trips_us.push(info.round_trip_us.into());
        if let Some(window) = info.peer_window_bytes.map(u64::from) {
            let [smallest, largest] = self.peer_window_bytes.unwrap_or([window; 2]);
            self.peer_window_bytes = Some([smallest.min(window), largest.max(window)]);
        }
    }

    /// Records the number of data segments received in a download.
    pub(crate) fn sample_incoming(&mut self, info: &TcpInfo) {
        if let Some(count) = info.data_segments_in {
            self.segments.record(nanos(self.began.elapsed()), u64::from(count));
        }
        if info.out_of_order_segments.is_some_and(|count| count > 0) {
            // The kernel counts the handshake as one received byte.
            let received = info.bytes_received.unwrap_or(0).saturating_sub(1);
            self.first_loss_bytes.get_or_insert(received);
        }
    }

    /// Adds the run-queue wait of the calling thread since the last sample.
    pub(crate) fn account_sampling(&mut self) {
        let now = thread_run_queue_wait();
        let added_wait = now.zip(self.sampled_wait).map(|(now, before)| now.saturating_sub(before));
        self.sampling_wait += added_wait.unwrap_or(Duration::ZERO);
        self.sampled_wait = now;
    }

    pub(super) fn count(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.log.record(nanos(self.began.elapsed()), self.bytes);
    }
}
