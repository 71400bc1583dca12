//! Password check of a login session: the queue of checks, and the verification in another thread.

use crate::fair_queue::{Busy, Permit};
use crate::login_prompt::Credentials;
use crate::login_server::LoginServer;
use crate::throttle;
use crate::users::{LoginUserEntry, Users};
use os::account::{LoginRefusal, login_refusal};
use os::user::User;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The user, or `None` if the password is wrong, and the permit of the check.
pub(super) type CheckedUser = (Option<AuthenticatedUser>, Permit);

/// User with the right password.
pub(crate) struct AuthenticatedUser {
    pub(super) name: String,
    pub(super) account: LoginUserEntry,
    /// Reason for which the system user of the account may not log in, if any.
    pub(super) refusal: Option<LoginRefusal>,
}

/// Result of a password check.
pub(super) type CheckResult = (Credentials, Result<CheckedUser, Busy>);

/// Checks the password of a client at `address`. The check waits in the queue of checks before it
/// runs.
pub(super) async fn check_password(
    credentials: Credentials,
    users: Arc<Users>,
    address: IpAddr,
    server: Rc<LoginServer>,
) -> CheckResult {
    let name = credentials.name.clone().unwrap_or_default();
    let now = std::time::Instant::now;
    let reserve = || server.admission().reserve_password_check(address, &name, now());
    let failures = || server.admission().failures(address, &name);
    let permit = throttle::acquire(&server.checks, address, reserve, failures).await;
    let Ok(permit) = permit else { return (credentials, Err(Busy)) };
    let verification = tokio::task::spawn_blocking(move || {
        let authentication = users.authenticate(credentials.name.as_deref(), &credentials.password);
        let authentication = authentication.map(|(name, account)| {
            // An unknown user is reported when the program is started.
            let system_user =
                account.runs_as.as_deref().and_then(|name| User::named(name).ok().flatten());
            let refusal = system_user.as_ref().and_then(login_refusal);
            AuthenticatedUser { name, account, refusal }
        });
        // A running check cannot be interrupted, so the permit is held until the check ends.
        (credentials, Ok((authentication, permit)))
    });
    let busy = || (Credentials { name: None, password: Vec::new() }, Err(Busy));
    verification.await.unwrap_or_else(|_| busy())
}
