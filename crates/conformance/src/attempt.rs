//! Attempts to execute a call that may have to wait.

use net::Instant;

/// Result of one attempt to execute a call.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    /// The call has finished.
    Done(T),
    /// The call must wait, at most until this time; `None` means without a timeout.
    Blocked(Option<Instant>),
}
