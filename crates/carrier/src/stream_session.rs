//! A stream application with local input and output, which a carrier connects to a remote host.

use super::{AckPolicy, CarrierStatus, EngineContext, Outcome, TlsParameters};
use anyhow::Result;
use net::Cx;
use net::application::Stream;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A stream application with its local inputs and display.
pub trait StreamSession: Stream {
    /// Returns the descriptors of the local inputs.
    fn inputs(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns whether the session accepts data from the `index`th input now.
    fn wants_input(&self, _index: usize) -> bool {
        true
    }

    /// Returns whether [`StreamSession::take_input`] may have left data at the `index`th input. The
    /// carrier then calls `take_input` again without waiting, even though the input may be empty.
    fn has_more_input(&self, _index: usize) -> bool {
        false
    }

    /// Sets the address of the connection that is about to open. May be called several times; the
    /// last address is valid.
    fn set_remote_address(&mut self, _address: SocketAddr) {}

    /// Reads the data available at the `index`th input without blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the input fails; the session then ends.
    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()>;

    /// Writes as much pending display output as the display accepts. The carrier calls this method
    /// in each iteration of its loop. The call must not block on a slow display, because a blocked
    /// call also delays the keyboard.
    ///
    /// # Errors
    ///
    /// Returns an error if the display fails; the session then ends.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// Returns the descriptor of the display, if the session has a display.
    fn display(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether display output is pending because the display is full. The carrier calls
    /// [`StreamSession::flush`] again when [`StreamSession::display`] is writable, and before it
    /// ends a connection that has closed.
    fn is_display_full(&self) -> bool {
        false
    }

    /// Returns the policy by which the carrier acknowledges received data.
    fn ack_policy(&self) -> AckPolicy {
        AckPolicy::Awaited
    }

    /// Returns whether the session wants [`StreamSession::take_receive_delay`] from a carrier that
    /// can measure the receive delay.
    fn wants_receive_delays(&self) -> bool {
        false
    }

    /// Sets the receive delay of the data that the next [`Stream::receive`] delivers: the time from
    /// the arrival of the data at this host until the carrier read the data.
    fn take_receive_delay(&mut self, _delay: Duration) {}

    /// Notifies the session that all output was handed to the device or the kernel.
    fn output_written(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether TLS starts in both directions after the pending output.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Notifies the session that all data from now on is protected by TLS.
    fn tls_established(&mut self, _parameters: TlsParameters, _cx: &mut Cx<'_>) {}

    /// Returns, once, whether the carrier must send a BREAK on a serial line now.
    fn take_break_request(&mut self) -> bool {
        false
    }

    /// Receives the status of the connection after [`StreamSession::wants_status`] returned `true`.
    fn take_status(&mut self, status: &CarrierStatus);

    /// Returns whether the session waits for [`StreamSession::take_status`].
    fn wants_status(&self) -> bool;

    /// Notifies the session that its connection has ended, and nothing can be sent or received any
    /// more. Without an outcome, an error of this machine or of the device has ended it; the carrier
    /// returns the error.
    fn connection_ended(&mut self, _outcome: Option<Outcome>, _cx: &mut Cx<'_>) {}

    /// Returns whether the local user or program has ended the session, so that the connection is
    /// dropped.
    fn is_over(&self) -> bool;
}

/// A session that has ended.
#[derive(Debug)]
pub struct EndedSession<S> {
    /// The session.
    pub session: S,
    /// Outcome of the session.
    pub outcome: Outcome,
    /// Address of the remote host; without a connection, the address that the outcome refers to.
    pub address: SocketAddr,
    /// Time from the first connection attempt until the connection was open, without the work of this
    /// process before and after; `None` if it is unknown.
    pub connect_time: Option<Duration>,
}

/// Notifies `session` that its connection has ended. If the carrier returns an error instead of the
/// session, the display output is written before.
pub(super) fn end_session<S: StreamSession>(
    session: &mut S,
    outcome: Option<Outcome>,
    context: &mut EngineContext,
) {
    session.connection_ended(outcome, &mut context.cx());
    if outcome.is_none() {
        // Ignored: the error of the carrier is reported.
        _ = session.flush(&mut context.cx());
    }
}
