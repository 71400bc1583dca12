//! The link with the lowest rate of a path.

/// The link with the lowest rate, and the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) bits_per_second: u64,
    /// Capacity of the queue, bytes; a packet that does not fit is dropped.
    pub(super) queue_bytes: u64,
}
