//! Synch: urgent data and the data mark, which discard the data in transit to an end that no longer
//! wants it.
//!
//! RFC 854: after the transport's urgent notice the stream is searched for commands and its data is
//! discarded, until DM. Without a notice DM has no effect. Three cases need a rule:
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

/// Number of data bytes for which a DM waits for its notice.
const LATE_NOTICE_LIMIT: usize = 65_535;

/// State of the receiving side between urgent notice and data mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Synch {
    #[default]
    Normal,
    /// A DM was read without a notice.
    MarkRead { waits: usize },
    /// Data is discarded until DM.
    Discarding,
    /// Data is discarded until DM, or until `left` bytes have been discarded.
    DiscardingTail { left: usize },
}

impl Synch {
    /// Handles the transport's notice that urgent data is ahead.
    pub(super) fn urgent(&mut self) {
        *self = match self {
            Self::MarkRead { .. } => Self::Normal,
            _ => Self::Discarding,
        };
    }

    /// Handles the transport's report that all urgent data has been read.
    pub(super) fn urgent_ended(&mut self) {
        *self = match *self {
            Self::Discarding => Self::DiscardingTail { left: TAIL_LIMIT },
            Self::DiscardingTail { left } => Self::DiscardingTail { left },
            Self::Normal | Self::MarkRead { .. } => Self::Normal,
        };
    }

    /// Handles a DM.
    pub(super) fn data_mark(&mut self) {
        *self = if self.is_discarding() {
            Self::Normal
        } else {
            Self::MarkRead { waits: LATE_NOTICE_LIMIT }
        };
    }

    /// Returns whether data is being discarded.
    pub(super) fn is_discarding(self) -> bool {
        matches!(self, Self::Discarding | Self::DiscardingTail { .. })
    }

    /// Returns how many bytes at the start of a run of `len` are discarded.
    pub(super) fn discards(&mut self, len: usize) -> usize {
        match *self {
            Self::Normal => 0,
            Self::MarkRead { waits } => {
                *self = match waits.checked_sub(len) {
                    Some(waits) => Self::MarkRead { waits },
                    None => Self::Normal,
                };
                0
            }
            Self::Discarding => len,
            Self::DiscardingTail { left } if len < left => {
                *self = Self::DiscardingTail { left: left - len };
                len
            }
            Self::DiscardingTail { left } => {
                *self = Self::Normal;
                left
            }
        }
    }
}
