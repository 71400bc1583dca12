//! The application layer: what a person or a program talks to.

pub mod dhcp;
pub mod ftp;
pub mod telnet;
pub mod tftp;

use crate::cx::Cx;
use crate::time::Instant;

/// An application over one byte stream, which knows nothing of what carries it: our own TCP, a
/// socket of the kernel, a serial line.
pub trait Stream {
    /// The stream is open.
    fn opened(&mut self, cx: &mut Cx<'_>);

    /// Takes what came, cut anywhere.
    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>);

    /// Returns whether received data can be taken now. While it cannot, the transport keeps the
    /// data, and flow control stops the peer.
    fn wants_data(&self) -> bool {
        true
    }

    /// Takes the transport's word that urgent data is ahead, or is no longer.
    fn urgent(&mut self, is_ahead: bool);

    /// Returns what waits to be sent.
    fn output(&self) -> &[u8];

    /// Returns how many bytes of the output, from its start, are to be sent as urgent.
    fn urgent_mark(&self) -> Option<usize> {
        None
    }

    /// Drops `count` bytes of the output, which the transport has taken.
    fn sent(&mut self, count: usize);

    /// The peer has closed: nothing more will come.
    fn peer_closed(&mut self, cx: &mut Cx<'_>);

    /// Returns whether nothing follows the output.
    fn is_closing(&self) -> bool;

    /// Returns whether it has something to do that did not come by the stream.
    fn wants_to_run(&self) -> bool {
        false
    }

    /// Runs, because it wanted to or because its deadline has come.
    fn run(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns when it wants to run next.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}
