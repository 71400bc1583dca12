//! Whether a user of this machine may log in now: the expiration date of the account
//! (`shadow(5)`) and the files that forbid logins (`nologin(5)`).
//!
//! For logins that this machine does not authenticate itself. The expiration of passwords is not
//! checked, because the password of the machine is not used.

use crate::user::User;
use std::fmt;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Files that forbid logins of all users except root while they exist.
const NO_LOGIN: [&str; 2] = ["/var/run/nologin", "/etc/nologin"];
/// Size of the buffer for the strings of an entry, in bytes.
const STRINGS_LEN: usize = 16 * 1024;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Reason for which a user may not log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The account has expired.
    Expired,
    /// This file forbids logins.
    NoLogin(&'static str),
}

impl fmt::Display for LoginRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the account has expired"),
            Self::NoLogin(path) => write!(f, "{path} forbids logins"),
        }
    }
}

/// Returns the reason for which `user` may not log in now, if any. May block on the user database.
/// Needs root: another user cannot read the expiration dates, and then no account is expired.
#[must_use]
pub fn login_refusal(user: &User) -> Option<LoginRefusal> {
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if is_expired(expiration_day(user), today / SECONDS_PER_DAY) {
        return Some(LoginRefusal::Expired);
    }
    let path = NO_LOGIN.into_iter().find(|path| Path::new(path).exists())?;
    (user.uid() != 0).then_some(LoginRefusal::NoLogin(path))
}

/// Returns whether an account with this expiration day, in days since 1970, is expired on the day
/// `today`. Zero and negative days mean that it never expires, as in `pam_unix(8)`.
fn is_expired(day: Option<libc::c_long>, today: u64) -> bool {
    day.and_then(|day| u64::try_from(day).ok()).is_some_and(|day| day > 0 && day <= today)
}

/// Returns the expiration day of an account, or `None` if it has no entry.
fn expiration_day(user: &User) -> Option<libc::c_long> {
    let mut strings = vec![0; STRINGS_LEN];
    let mut entry = MaybeUninit::<libc::spwd>::uninit();
    let mut entry_pointer = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and `strings` has the length passed.
    let error = unsafe {
        libc::getspnam_r(
            user.name().as_ptr(),
            entry.as_mut_ptr(),
            strings.as_mut_ptr(),
            strings.len(),
            &raw mut entry_pointer,
        )
    };
    if error != 0 || entry_pointer.is_null() {
        return None;
    }
    // SAFETY: `entry_pointer` is not null, so the entry is initialized.
    Some(unsafe { entry.assume_init_ref() }.sp_expire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_expires_on_its_day_and_never_without_one() {
        assert!(is_expired(Some(20_000), 20_000) && is_expired(Some(1), 20_000));
        for day in [None, Some(-1), Some(0), Some(20_001)] {
            assert!(!is_expired(day, 20_000), "{day:?}");
        }
    }
}
