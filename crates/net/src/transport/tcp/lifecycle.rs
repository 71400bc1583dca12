//! The state of a connection, and its changes (RFC 9293 §3.3.2, figure 5).

use super::connection::Connection;
use core::fmt;

/// The states of RFC 9293 §3.3.2. LISTEN is not a state of a connection: see `Tcp::listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A connection request was sent; no matching request has been received.
    SynSent,
    /// A connection request was sent and one was received; the local one is not acknowledged yet.
    SynReceived,
    /// Open: data can be received and sent.
    Established,
    /// The user has closed the connection; the local FIN is not acknowledged yet.
    FinWait1,
    /// The user has closed the connection, and the peer has acknowledged the local FIN.
    FinWait2,
    /// The peer has closed the connection; the user has not.
    CloseWait,
    /// Both ends have closed the connection at the same time; the local FIN is not acknowledged
    /// yet.
    Closing,
    /// The peer and then the user have closed the connection; the local FIN is not acknowledged
    /// yet.
    LastAck,
    /// Waits until old segments have left the network.
    TimeWait,
    /// No connection.
    Closed,
}

impl State {
    /// Returns whether the user may still send.
    #[must_use]
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Returns whether queued data and the FIN may be put into segments.
    pub(super) const fn emits_data(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }

    /// Returns whether the peer may send further data.
    pub(super) const fn expects_data(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        })
    }
}

/// Whether the user still reads received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// The user may read.
    Held,
    /// The user has released the connection, so that received data is not read.
    Released,
    /// The connection was released while received data was unread, and must be aborted.
    MustAbort,
}

/// The state of a connection, how it was opened, and whether its user still reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifecycle {
    state: State,
    /// Whether the connection was opened passively (MUST-11).
    is_passive: bool,
    /// Whether the data of the peer's SYN was accepted before the end of the handshake.
    has_early_data: bool,
    release: Release,
}

impl Lifecycle {
    /// Begins in SYN-SENT if the user opens the connection actively, and in SYN-RECEIVED if a
    /// listener opens it.
    pub(super) const fn new(state: State) -> Self {
        Self {
            state,
            is_passive: matches!(state, State::SynReceived),
            has_early_data: false,
            release: Release::Held,
        }
    }

    /// Returns whether the connection was opened passively (MUST-11).
    pub(super) const fn is_passive(self) -> bool {
        self.is_passive
    }

    /// Records that the data of the peer's SYN is accepted before the end of the handshake.
    pub(super) const fn accept_early_data(&mut self) {
        self.has_early_data = true;
    }

    /// Returns whether the data of the peer's SYN was accepted before the end of the handshake.
    pub(super) const fn has_early_data(self) -> bool {
        self.has_early_data
    }

    /// Receives a SYN without an acknowledgment in SYN-SENT: a simultaneous open (MUST-10).
    pub(super) const fn receive_syn(&mut self) {
        self.state = State::SynReceived;
    }

    /// Records that the local SYN is acknowledged. `is_closing` tells whether the user has already
    /// closed the connection.
    pub(super) const fn establish(&mut self, is_closing: bool) {
        self.state = if is_closing { State::FinWait1 } else { State::Established };
    }

    /// Records that the user has closed the connection, in ESTABLISHED or CLOSE-WAIT.
    pub(super) const fn close(&mut self) {
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            state => state,
        };
    }

    /// Records that the local FIN is acknowledged, in FIN-WAIT-1.
    pub(super) const fn acknowledge_fin(&mut self) {
        self.state = State::FinWait2;
    }

    /// Receives the peer's FIN in ESTABLISHED, or in FIN-WAIT-1 before the local FIN is
    /// acknowledged.
    pub(super) const fn receive_fin(&mut self) {
        self.state = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            state => state,
        };
    }

    /// Enters TIME-WAIT.
    pub(super) const fn wait(&mut self) {
        self.state = State::TimeWait;
    }

    /// Enters CLOSED.
    pub(super) const fn end(&mut self) {
        self.state = State::Closed;
    }

    /// Records that the user has released the connection. `must_abort` tells whether received data
    /// was unread.
    pub(super) const fn release(&mut self, must_abort: bool) {
        self.release = if must_abort { Release::MustAbort } else { Release::Released };
    }

    /// Returns whether the user has released the connection.
    pub(super) const fn is_released(self) -> bool {
        !matches!(self.release, Release::Held)
    }

    /// Returns whether the connection must be aborted.
    pub(super) const fn must_abort(self) -> bool {
        matches!(self.release, Release::MustAbort)
    }
}

impl Connection {
    /// Returns the state.
    pub(super) const fn state(&self) -> State {
        self.lifecycle.state
    }

    /// Returns whether data may be exchanged before the connection is established.
    pub(super) const fn is_open_early(&self) -> bool {
        self.lifecycle.has_early_data && matches!(self.lifecycle.state, State::SynReceived)
    }
}
