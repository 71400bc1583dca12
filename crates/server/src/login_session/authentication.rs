//! Authentication of the client: starts a password check, and starts the user's program or delays
//! the answer to a wrong password.

use super::password_check::{CheckedUser, check_password};
use super::{LoginSession, Stage};
use crate::client_stream::ClientStream;
use crate::fair_queue::Busy;
use crate::log::ServeEvent as Logged;
use crate::login_prompt::Credentials;
use crate::login_server::Service;
use crate::program;
use crate::session_end::SessionEnd;
use anyhow::Result;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use tokio::time::Instant;

/// Sent when a password was not checked because the queue of checks was full.
const BUSY: &[u8] = b"Too many logins at the moment, try again later\r\n";

impl<W: ClientStream> LoginSession<W> {
    /// Starts a password check. The check waits in the queue of checks before it runs.
    pub(super) fn check(&mut self, credentials: Credentials) {
        let Service::Users(users) = &self.server.service else { return };
        let users = Arc::clone(&users.lock().unwrap_or_else(PoisonError::into_inner));
        let server = Rc::clone(&self.server);
        let check = check_password(credentials, users, self.peer.ip(), server);
        self.stage = Stage::Checking(Box::pin(check));
    }

    /// Starts the program of an authenticated user, or delays the answer to a wrong password.
    pub(super) fn on_checked(
        &mut self,
        credentials: &Credentials,
        checked: Result<CheckedUser, Busy>,
    ) -> Result<()> {
        let now = std::time::Instant::now();
        let Ok((authenticated, permit)) = checked else {
            self.server.admission().count_busy();
            self.queue_output(BUSY);
            self.stage = Stage::Ended(SessionEnd::Busy);
            self.last_input_at = Instant::now();
            return Ok(());
        };
        self.server.admission().count_login(authenticated.is_some());
        if let Some((name, account)) = authenticated {
            self.server.admission().record_success(self.peer.ip(), &name, now);
            self.server.log.write(&Logged::LoggedIn { from: self.peer, name: &name });
            let motd = self.server.configuration.motd();
            self.queue_output(&motd);
            let running = program::start_account(&name, &account, &self.client())?;
            return self.attach(running);
        }
        let name = credentials.name.as_deref().unwrap_or("?");
        self.server.log.write(&Logged::LoginFailed { from: self.peer, name });
        self.attempts += 1;
        let name = credentials.name.as_deref().unwrap_or_default();
        let delay = self.server.admission().record_failure(self.peer.ip(), name, now);
        drop(permit);
        self.stage = Stage::Delayed(Instant::now() + delay);
        Ok(())
    }
}
