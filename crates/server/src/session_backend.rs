//! Back end of a Telnet session: a login with its program, or a serial console.

use super::login_server::LoginServer;
use super::session_end::SessionEnd;
use super::telnet_client::TelnetClient;
use anyhow::Result;
use protocols::telnet::{Event, OptionSet};
use tokio::time::Instant;

/// Back end of a Telnet session, which takes the client's input and provides its output.
pub(super) trait SessionBackend {
    /// Telnet options of the session, except START_TLS.
    const OPTIONS: OptionSet;

    /// Returns the variables of the client's environment that the session requests (RFC 1572).
    fn requested_variables(_server: &LoginServer) -> &'static [&'static str] {
        &[]
    }

    /// Event that the back end waits for.
    type Wakeup;

    /// Ends negotiation, and applies deadlines, no matter how much the client sends. Called before
    /// each write to the client. Returns the reason if the session ends now.
    ///
    /// # Errors
    ///
    /// Returns an error if the back end cannot be started.
    fn advance(&mut self, client: &mut TelnetClient) -> Result<Option<SessionEnd>>;

    /// Queues output that needs no wait for [`Self::ready`], as far as the output buffer has space.
    /// Returns whether more is pending.
    fn take_output(&mut self, _client: &mut TelnetClient) -> bool {
        false
    }

    /// Returns the reason for the end of the session if it ends when all output is sent.
    fn ending(&self) -> Option<SessionEnd>;

    /// Returns the next deadline of the back end.
    fn deadline(&self, client: &TelnetClient) -> Option<Instant>;

    /// Waits for output or another event of the back end. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the back end fails.
    async fn ready(&mut self, client: &TelnetClient) -> Result<Self::Wakeup>;

    /// Processes an event that [`Self::ready`] has reported.
    ///
    /// # Errors
    ///
    /// Returns an error if the back end fails.
    fn on_ready(&mut self, client: &mut TelnetClient, wakeup: Self::Wakeup) -> Result<()>;

    /// Processes data or an event of the Telnet engine, except START_TLS.
    fn on_event(&mut self, client: &mut TelnetClient, event: Event<'_>);

    /// Passes on queued input until the back end accepts no more.
    ///
    /// # Errors
    ///
    /// Returns an error if the back end fails.
    fn forward_input(&mut self, client: &mut TelnetClient) -> Result<()>;

    /// Returns whether a program is running. Each read from the client then is a transaction, and
    /// the program may still answer after the client has closed its half of the connection.
    fn has_program(&self) -> bool {
        false
    }

    /// Returns whether the client is expected to type.
    fn awaits_input(&self) -> bool {
        true
    }

    /// Ends the back end, before the connection is closed.
    fn end(&mut self);
}
