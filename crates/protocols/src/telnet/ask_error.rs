//! The error of a request for an option.

/// Reason why an option was not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The side cannot perform the option in this role, or the request is not valid for this
    /// option.
    NotSupported,
    /// The option already has the requested state.
    AlreadyInState,
    /// The same request, or too many requests, are still unanswered.
    AlreadyRequested,
    /// The option must be enabled first.
    NotEnabled,
    /// The output queue is full.
    OutputFull,
}
