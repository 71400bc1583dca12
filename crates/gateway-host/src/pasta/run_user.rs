//! The user under which pasta and passt run after their set-up (`--runas`).

use os::user::{self, User};
use std::io;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunUser {
    uid: u32,
    gid: u32,
}

/// The user and group without permissions of Linux.
const NOBODY: RunUser = RunUser { uid: 65_534, gid: 65_534 };

impl RunUser {
    /// Returns the user to become: that of `text` (USER or USER:GROUP, names or numbers), or
    /// `nobody` if the program runs as root of the machine. `None` keeps the user.
    pub(super) fn find(text: Option<&str>) -> Result<Option<Self>, String> {
        match text {
            Some(text) => Self::parse(text).map(Some),
            None if user::is_root() && user::is_in_first_namespace() => {
                let nobody = User::named("nobody").ok().flatten();
                let of = |user: &User| Self { uid: user.uid(), gid: user.gid() };
                Ok(Some(nobody.as_ref().map_or(NOBODY, of)))
            }
            None => Ok(None),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("Invalid --runas option: {text}");
        let (name, group) = match text.split_once(':') {
            Some((name, group)) => (name, Some(group)),
            None => (text, None),
        };
        let user = match name.parse::<u32>() {
            Ok(uid) => Self { uid, gid: uid },
            Err(_) => {
                let user = User::named(name).ok().flatten().ok_or_else(invalid)?;
                Self { uid: user.uid(), gid: user.gid() }
            }
        };
        let gid = match group {
            Some(group) => match group.parse::<u32>() {
                Ok(gid) => gid,
                // Most users have a group of the same name.
                Err(_) => User::named(group).ok().flatten().ok_or_else(invalid)?.gid(),
            },
            None => user.gid,
        };
        Ok(Self { gid, ..user })
    }

    /// Makes this process run as the user.
    pub(super) fn enter(self) -> io::Result<()> {
        user::run_as(self.uid, self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        let user = |uid, gid| Ok(RunUser { uid, gid });
        assert_eq!(RunUser::parse("1000:100"), user(1000, 100));
        assert_eq!(RunUser::parse("1000"), user(1000, 1000));
        assert_eq!(RunUser::parse("root"), user(0, 0));
        let error = RunUser::parse("no such user").unwrap_err();
        assert_eq!(error, "Invalid --runas option: no such user");
    }
}
