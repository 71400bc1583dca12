//! The counters of a connection.

/// The counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent, retransmissions included.
    pub segments_out: u64,
    /// Data bytes received in order, each once.
    pub bytes_in: u64,
    /// Data bytes acknowledged by the peer.
    pub bytes_acknowledged: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Fast retransmits.
    pub fast_retransmits: u32,
    /// Tail loss probes (RFC 8985).
    pub tail_probes: u32,
    /// Reductions of the window that were spurious and undone.
    pub undone: u32,
    /// Acknowledgments that report duplicate data.
    pub duplicate_reports: u32,
    /// Reductions of the window because of a mark (RFC 3168).
    pub ecn_reductions: u32,
    /// Segments received with a congestion mark.
    pub ecn_marks: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Duplicate acknowledgments received.
    pub duplicate_acks: u64,
    /// Segments sent without data, as acknowledgments or window updates.
    pub pure_acks_out: u64,
    /// Acknowledgments piggybacked on data.
    pub piggybacked_acks: u64,
    /// Probes of a closed window.
    pub window_probes: u32,
    /// Keep-alive probes.
    pub keep_alive_probes: u32,
}

/// The counters of a connection in this program. The user receives a copy of their values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionCounters {
    values: Statistics,
}

impl ConnectionCounters {
    /// Returns the values.
    pub(super) const fn values(&self) -> &Statistics {
        &self.values
    }

    pub(super) const fn count_segment_in(&mut self) {
        self.values.segments_in += 1;
    }

    pub(super) const fn count_segment_out(&mut self) {
        self.values.segments_out += 1;
    }

    /// Counts data that is received in order.
    pub(super) const fn count_bytes_in(&mut self, bytes: usize) {
        self.values.bytes_in += bytes as u64;
    }

    /// Counts data that the peer acknowledges.
    pub(super) fn count_bytes_acknowledged(&mut self, bytes: u32) {
        self.values.bytes_acknowledged += u64::from(bytes);
    }

    pub(super) const fn count_retransmissions(&mut self, segments: u64) {
        self.values.retransmissions += segments;
    }

    pub(super) const fn count_timeout(&mut self) {
        self.values.timeouts += 1;
    }

    pub(super) const fn count_fast_retransmit(&mut self) {
        self.values.fast_retransmits += 1;
    }

    pub(super) const fn count_tail_probe(&mut self) {
        self.values.tail_probes += 1;
    }

    /// Counts a reduction of the window that was spurious and is undone.
    pub(super) const fn count_undone(&mut self) {
        self.values.undone += 1;
    }

    /// Counts an acknowledgment that reports duplicate data.
    pub(super) const fn count_duplicate_report(&mut self) {
        self.values.duplicate_reports += 1;
    }

    /// Counts a reduction of the window because of a mark.
    pub(super) const fn count_ecn_reduction(&mut self) {
        self.values.ecn_reductions += 1;
    }

    /// Counts a segment that is received with a congestion mark.
    pub(super) const fn count_ecn_mark(&mut self) {
        self.values.ecn_marks += 1;
    }

    pub(super) const fn count_out_of_order(&mut self) {
        self.values.out_of_order += 1;
    }

    pub(super) const fn count_duplicate_ack(&mut self) {
        self.values.duplicate_acks += 1;
    }

    pub(super) const fn count_pure_ack_out(&mut self) {
        self.values.pure_acks_out += 1;
    }

    pub(super) const fn count_piggybacked_ack(&mut self) {
        self.values.piggybacked_acks += 1;
    }

    pub(super) const fn count_window_probe(&mut self) {
        self.values.window_probes += 1;
    }

    pub(super) const fn count_keep_alive_probe(&mut self) {
        self.values.keep_alive_probes += 1;
    }
}
