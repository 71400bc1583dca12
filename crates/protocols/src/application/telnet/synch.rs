//! Synch: urgent data and the data mark, which empty the path to a user who wants no more of it.
//!
//! RFC 854: at the transport's urgent notice the stream is searched for commands and its data is
//! thrown away, until DM. Without a notice DM says nothing. Three cases need a rule:
//!
//! - The notice comes after the DM was read, because the driver looked for it too late. It
//!   belongs to that DM, and nothing is thrown away. A DM is remembered until 65,535 bytes of
//!   data have followed, the largest window of RFC 793: no notice can be later.
//! - The urgent data ends and no DM was in it. RFC 854 has us go on until DM, and TCPs disagree
//!   by one on where urgent data ends; but one who never sends it would have us throw away
//!   everything for ever. So at most [`TAIL_LIMIT`] bytes more are thrown away.
//! - More urgent data is announced after the DM: it is another Synch, and begins again.

/// The most data bytes thrown away behind the end of urgent data that had no DM; ours.
pub(super) const TAIL_LIMIT: usize = 256;

/// The most data bytes for which a DM waits for its notice.
const LATE_NOTICE_LIMIT: usize = 65_535;

/// Where the receiving side stands between urgent notice and data mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Synch {
    #[default]
    Normal,
    /// A DM was read that no notice had announced.
    MarkRead { waits: usize },
    /// Data is thrown away until DM.
    Discarding,
    /// Data is thrown away until DM, or until nothing is left of the limit.
    DiscardingTail { left: usize },
}

impl Synch {
    /// Takes the transport's notice that urgent data is ahead.
    pub(super) fn urgent(&mut self) {
        *self = match self {
            Self::MarkRead { .. } => Self::Normal,
            _ => Self::Discarding,
        };
    }

    /// Takes the transport's word that all urgent data has been read.
    pub(super) fn urgent_ended(&mut self) {
        *self = match *self {
            Self::Discarding => Self::DiscardingTail { left: TAIL_LIMIT },
            Self::DiscardingTail { left } => Self::DiscardingTail { left },
            Self::Normal | Self::MarkRead { .. } => Self::Normal,
        };
    }

    /// Takes a DM.
    pub(super) fn data_mark(&mut self) {
        *self = if self.is_discarding() {
            Self::Normal
        } else {
            Self::MarkRead { waits: LATE_NOTICE_LIMIT }
        };
    }

    /// Returns whether data is thrown away.
    pub(super) fn is_discarding(self) -> bool {
        matches!(self, Self::Discarding | Self::DiscardingTail { .. })
    }

    /// Returns how many bytes of a run of `len` are thrown away, from its start.
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
