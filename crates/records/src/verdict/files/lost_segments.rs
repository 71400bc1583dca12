//! The segments of a transfer that were lost, as far as the local host can observe it.

use super::observed::FileTransfer;
use crate::verdict::Direction;

/// Returns the number of lost segments, as far as the local host can observe it.
pub(super) fn lost_segments(transfer: &FileTransfer) -> u64 {
    let tcp = &transfer.tcp;
    match transfer.direction {
        Direction::Incoming => tcp.rcv_ooopack.unwrap_or(0),
        Direction::Outgoing => {
            tcp.total_retrans.unwrap_or(0).saturating_sub(tcp.dsack_dups.unwrap_or(0))
        }
    }
}

/// Returns whether packets of the data were lost.
pub(super) fn has_losses(transfer: &FileTransfer) -> bool {
    lost_segments(transfer) > 0
}
