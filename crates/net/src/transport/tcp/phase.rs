//! The phases of loss recovery.

/// The state of loss recovery, with the names of `TCP_INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No data is missing, and the window is not being reduced.
    #[default]
    Open,
    /// Data was received out of order and may be lost.
    Disorder,
    /// The window is being reduced because the network marked a segment.
    Reduced,
    /// Lost data is retransmitted while the window is being reduced.
    Recovery,
    /// The retransmission timeout has expired.
    Loss,
}
