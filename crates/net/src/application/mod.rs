//! The application layer: the interface between an application and the transport that carries it,
//! and DHCP, which a station needs to configure itself.

pub mod dhcp;

use crate::cx::Cx;
use crate::time::Instant;

/// An application on one byte stream, independent of the transport that carries it: our own TCP, a
/// kernel socket or a serial line.
pub trait Stream {
    /// Reports that the stream is open.
    fn opened(&mut self, cx: &mut Cx<'_>);

    /// Processes received bytes, which may be split at any position.
    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>);

    /// Returns whether received data is accepted now. While the result is false, the transport
    /// keeps the data, and flow control stops the peer.
    fn wants_data(&self) -> bool {
        true
    }

    /// Reports whether the received stream has urgent data that is still to be read.
    fn urgent(&mut self, is_ahead: bool);

    /// Returns the bytes that are queued for sending.
    fn output(&self) -> &[u8];

    /// Returns how many bytes from the start of the output are to be sent as urgent data, if any.
    fn urgent_mark(&self) -> Option<usize> {
        None
    }

    /// Removes `count` bytes that the transport has accepted from the start of the output.
    fn sent(&mut self, count: usize);

    /// Reports that the peer has closed its side: no more data will arrive.
    fn peer_closed(&mut self, cx: &mut Cx<'_>);

    /// Returns whether the stream is to be closed once the output has been sent.
    fn is_closing(&self) -> bool;

    /// Returns whether [`Self::run`] is to be called now for a reason other than received data.
    fn wants_to_run(&self) -> bool {
        false
    }

    /// Runs work that is due, either because [`Self::wants_to_run`] is true or at the deadline.
    fn run(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns when [`Self::run`] is to be called next.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}
