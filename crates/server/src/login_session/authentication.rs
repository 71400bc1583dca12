//! Authentication of the client: starts a password check, and starts the user's program or delays
//! the answer to a wrong password.

use super::password_check::{AuthenticatedUser, CheckedUser, check_password};
use super::{LoginSession, Stage};
use crate::fair_queue::Busy;
use crate::log::ServeEvent as Logged;
use crate::login_prompt::Credentials;
use crate::login_server::Service;
use crate::program;
use crate::session_end::SessionEnd;
use crate::telnet_client::TelnetClient;
use anyhow::Result;
use os::account::LoginRefusal;
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
        let is_successful = authenticated.as_ref().is_some_and(|user| user.refusal.is_none());
        client.server.admission().count_login(is_successful);
        if let Some(AuthenticatedUser { name, account, refusal }) = authenticated {
            client.server.admission().record_success(client.peer.ip(), &name, now);
            if let Some(refusal) = refusal {
                self.refuse(client, &name, refusal);
                return Ok(());
            }
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

    /// Ends the session of a user whose password is right, but whose system user may not log in.
    fn refuse(&mut self, client: &mut TelnetClient, name: &str, refusal: LoginRefusal) {
        let why = refusal.to_string();
        client.queue_output(format!("Login refused: {why}\r\n").as_bytes());
        client.server.log.write(&Logged::LoginRefused { from: client.peer, name, why });
        self.stage = Stage::Ended(SessionEnd::LoginRefused);
        self.last_input_at = Instant::now();
    }
}
