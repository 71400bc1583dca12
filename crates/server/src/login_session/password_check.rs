//! Password check of a login session: the queue of checks, the verification in another thread, and
//! the delayed answer to a wrong password.

use super::{ClientStream, LoginSession, Stage};
use crate::fair_queue::{Busy, Permit};
use crate::log::ServeEvent as Logged;
use crate::login_prompt::Credentials;
use crate::login_server::Service;
use crate::program;
use crate::session_end::SessionEnd;
use crate::throttle;
use crate::users::LoginUserEntry;
use anyhow::Result;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use tokio::time::Instant;

/// Sent when a password was not checked because the queue of checks was full.
const BUSY: &[u8] = b"Too many logins at the moment, try again later\r\n";

/// The user, or `None` if the password is wrong, and the permit of the check.
type CheckedUser = (Option<(String, LoginUserEntry)>, Permit);

/// Result of a password check.
pub(super) type CheckResult = (Credentials, Result<CheckedUser, Busy>);

impl<W: ClientStream> LoginSession<W> {
    /// Starts a password check. The check waits in the queue of checks before it runs.
    pub(super) fn check(&mut self, credentials: Credentials) {
        let Service::Users(users) = &self.server.service else { return };
        let users = Arc::clone(&users.lock().unwrap_or_else(PoisonError::into_inner));
        let server = Rc::clone(&self.server);
        let address = self.peer.ip();
        self.stage = Stage::Checking(Box::pin(async move {
            let name = credentials.name.clone().unwrap_or_default();
            let now = std::time::Instant::now;
            let reserve = || server.admission().reserve_password_check(address, &name, now());
            let failures = || server.admission().failures(address, &name);
            let permit = throttle::acquire(&server.checks, address, reserve, failures).await;
            let Ok(permit) = permit else { return (credentials, Err(Busy)) };
            let verification = tokio::task::spawn_blocking(move || {
                let authentication =
                    users.authenticate(credentials.name.as_deref(), &credentials.password);
                // A running check cannot be interrupted, so the permit is held until the check
                // ends.
                (credentials, Ok((authentication, permit)))
            });
            let busy = || (Credentials { name: None, password: Vec::new() }, Err(Busy));
            verification.await.unwrap_or_else(|_| busy())
        }));
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
