//! TLS on a connection that starts in plaintext (START_TLS), and the parameters of any TLS session.

use carrier::TlsParameters;
use net::time::{Duration, Instant};

/// State of TLS in a session.
#[derive(Debug)]
pub(in crate::login) struct StartTls {
    /// Whether no data may be sent before TLS is established.
    is_required: bool,
    /// Whether the server has used TLS before.
    has_used_before: bool,
    /// Whether START_TLS was negotiated but the carrier has not started TLS yet.
    starts: bool,
    /// Parameters of the TLS session, if the connection uses TLS.
    parameters: Option<TlsParameters>,
    /// Deadline for the remote host to agree to START_TLS, if TLS is required.
    deadline: Option<Instant>,
}

impl StartTls {
    pub(super) fn new(is_required: bool) -> Self {
        let has_used_before = false;
        let starts = false;
        Self { is_required, has_used_before, starts, parameters: None, deadline: None }
    }

    /// Returns whether TLS is required but not established, so that no data may be sent.
    pub(in crate::login) fn is_awaited(&self) -> bool {
        self.is_required && self.parameters.is_none()
    }

    /// Starts the wait for TLS, if it is required.
    pub(in crate::login) fn begin_wait(&mut self, timeout: Duration, now: Instant) {
        if self.is_awaited() {
            self.deadline = Some(now + timeout);
        }
    }

    /// Returns the time at which the wait for TLS ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline.filter(|_| self.is_awaited())
    }

    /// Returns whether the wait for TLS has ended without success.
    pub(in crate::login) fn has_timed_out(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|until| now >= until)
    }

    /// Records that START_TLS was negotiated.
    pub(in crate::login) fn negotiated(&mut self) {
        self.starts = true;
    }

    /// Returns, once, whether the carrier must start TLS.
    pub(in crate::login) fn take_start(&mut self) -> bool {
        std::mem::take(&mut self.starts)
    }

    /// Records that TLS is established.
    pub(in crate::login) fn established(&mut self, parameters: TlsParameters) {
        self.parameters = Some(parameters);
    }

    /// Returns the parameters of the TLS session, if the connection uses TLS.
    pub(in crate::login) fn parameters(&self) -> Option<&TlsParameters> {
        self.parameters.as_ref()
    }

    /// Records whether the server has used TLS before.
    pub(in crate::login) fn set_used_before(&mut self, has_used_before: bool) {
        self.has_used_before = has_used_before;
    }

    /// Returns whether the server has used TLS before.
    pub(in crate::login) fn has_used_before(&self) -> bool {
        self.has_used_before
    }
}
