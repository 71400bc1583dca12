//! Authentication of the client: starts a password check, and starts the user's program or delays
//! the answer to a wrong password.

use super::password_check::{CheckedUser, check_password};
use super::{LoginSession, Stage};
use crate::fair_queue::Busy;
use crate::log::ServeEvent as Logged;
use crate::login_prompt::Credentials;
use crate::login_server::Service;
use crate::program;
use crate::session_end::SessionEnd;
use crate::telnet_client::TelnetClient;
use anyhow::Result;
use std::rc::Rc;
use tokio::time::Instant;

/// Sent when a password was not checked because the queue of checks was full.
const BUSY: &[u8] = b"Too many logins at the moment, try again later\r\n";

impl LoginSession {
    /// Starts a password check. The check waits in the queue of checks before it runs.
    pub(super) fn check(&mut self, client: &TelnetClient, credentials: Credentials) {
        let Service::Users(users) = client.server.service() else { return };
        let server = Rc::clone(&client.server);
        let check = check_password(credentials, users, client.peer.ip(), server);
        self.stage = Stage::Checking(Box::pin(check));
    }

    /// Starts the program of an authenticated user, or delays the answer to a wrong password.
    pub(super) fn on_checked(
        &mut self,
        client: &mut TelnetClient,
        credentials: &Credentials,
        checked: Result<CheckedUser, Busy>,
    ) -> Result<()> {
        let now = std::time::Instant::now();
        let Ok((authenticated, permit)) = checked else {
            client.server.admission().count_busy();
            client.queue_output(BUSY);
            self.stage = Stage::Ended(SessionEnd::Busy);
            self.last_input_at = Instant::now();
            return Ok(());
        };
        client.server.admission().count_login(authenticated.is_some());
        if let Some((name, account)) = authenticated {
            client.server.admission().record_success(client.peer.ip(), &name, now);
            client.server.log.write(&Logged::LoggedIn { from: client.peer, name: &name });
            let motd = client.server.configuration().motd();
            client.queue_output(&motd);
            let running = program::start_account(&name, &account, &self.program_client(client))?;
            return self.attach(client, running);
        }
        let name = credentials.name.as_deref().unwrap_or("?");
        client.server.log.write(&Logged::LoginFailed { from: client.peer, name });
        self.attempts += 1;
        let name = credentials.name.as_deref().unwrap_or_default();
        let delay = client.server.admission().record_failure(client.peer.ip(), name, now);
        drop(permit);
        self.stage = Stage::Delayed(Instant::now() + delay);
        Ok(())
    }
}
