//! Class of a failure.

/// Class of a failure, from which a command derives its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Caused by the remote host or the network.
    RemoteHost,
    /// Caused by an invalid request.
    Request,
    /// Caused by this machine.
    ThisMachine,
    /// The user did not confirm the operation.
    Declined,
    /// Ended by a signal.
    Interrupted,
    /// The reader of the standard output has closed the pipe.
    ClosedOutput,
}
