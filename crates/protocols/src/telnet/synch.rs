//! Synch: urgent data and the data mark (DM), by which the sender discards its data in transit that
//! the receiver has not read.
//!
//! RFC 854: after the transport's urgent notice, the receiver processes commands and discards data
//! until DM. Without a notice, DM has no effect. Three cases are not covered by the RFC:
//!
//! - The notice arrives after the DM was read, because the driver checked for it too late. The
//!   notice then belongs to that DM, and no data is discarded. A DM is remembered for 65,535 bytes
//!   of data, the largest window of RFC 793, since no notice can be later.
//! - The urgent data ends without a DM. RFC 854 requires discarding until DM, and TCP
//!   implementations disagree by one byte on the end of urgent data. A peer that never sends DM
//!   would cause all further data to be discarded, so at most [`TAIL_LIMIT`] more bytes are
//!   discarded.
//! - More urgent data is announced after the DM: this is another Synch, which starts anew.

/// Maximum number of data bytes discarded after the end of urgent data without a DM (our choice).
pub(super) const TAIL_LIMIT: usize = 256;

/// Number of data bytes after a DM within which its urgent notice may still arrive.
const LATE_NOTICE_LIMIT: usize = 65_535;

/// State of the receiver of a Synch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Synch {
    #[default]
    Normal,
    /// A DM was read without a notice, which may still arrive within this number of data bytes.
    MarkRead { remaining_bytes: usize },
    /// Data is discarded until DM.
    Discarding,
    /// Data is discarded until DM, or until `remaining_bytes` bytes have been discarded.
    DiscardingTail { remaining_bytes: usize },
}

impl Synch {
    /// Handles the transport's notice that urgent data follows in the stream.
    pub(super) fn urgent(&mut self) {
        *self = match self {
            Self::MarkRead { .. } => Self::Normal,
            _ => Self::Discarding,
        };
    }

    /// Handles the transport's report that all urgent data has been read.
    pub(super) fn urgent_ended(&mut self) {
        *self = match *self {
            Self::Discarding => Self::DiscardingTail { remaining_bytes: TAIL_LIMIT },
            Self::DiscardingTail { remaining_bytes } => Self::DiscardingTail { remaining_bytes },
            Self::Normal | Self::MarkRead { .. } => Self::Normal,
        };
    }

    /// Handles a DM.
    pub(super) fn data_mark(&mut self) {
        *self = if self.is_discarding() {
            Self::Normal
        } else {
            Self::MarkRead { remaining_bytes: LATE_NOTICE_LIMIT }
        };
    }

    /// Returns whether data is being discarded.
    pub(super) fn is_discarding(self) -> bool {
        matches!(self, Self::Discarding | Self::DiscardingTail { .. })
    }

    /// Returns how many bytes at the start of a run of `len` data bytes are discarded.
    pub(super) fn count_discarded(&mut self, len: usize) -> usize {
        match *self {
            Self::Normal => 0,
            Self::MarkRead { remaining_bytes } => {
                *self = match remaining_bytes.checked_sub(len) {
                    Some(remaining_bytes) => Self::MarkRead { remaining_bytes },
                    None => Self::Normal,
                };
                0
            }
            Self::Discarding => len,
            Self::DiscardingTail { remaining_bytes } if len < remaining_bytes => {
                *self = Self::DiscardingTail { remaining_bytes: remaining_bytes - len };
                len
            }
            Self::DiscardingTail { remaining_bytes } => {
                *self = Self::Normal;
                remaining_bytes
            }
        }
    }
}
