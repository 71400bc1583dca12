//! Number of the session to which a task belongs; each log line of the session has it.
//!
//! The number is local to the task, so that code which logs needs not carry it. A task that a session
//! spawns and that logs inherits the number with [`inherit`].

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static CURRENT: Option<SessionId>;
}

/// Number of a session, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId(u64);

impl SessionId {
    /// Returns the number of a new session.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the session of the running task; `None` outside of a session.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok().flatten()
    }

    /// Runs `future` as a part of this session.
    pub(super) fn scope<T>(self, future: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(Some(self), future)
    }

    /// Calls `work` as a part of this session.
    pub(super) fn enter<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Some(self), work)
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }
}

/// Runs `future`, which will be another task, as a part of the current session.
pub(super) fn inherit<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    CURRENT.scope(SessionId::current(), future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::{LocalSet, spawn_local};

    #[test]
    fn a_spawned_task_has_the_session_only_if_it_inherits_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let id = SessionId::next();
            let spawned = async {
                let with = spawn_local(inherit(async { SessionId::current() })).await.unwrap();
                let without = spawn_local(async { SessionId::current() }).await.unwrap();
                (with, without)
            };
            assert_eq!(id.scope(spawned).await, (Some(id), None));
            assert_eq!((id.enter(SessionId::current), SessionId::current()), (Some(id), None));
            assert_ne!(SessionId::next(), id);
        });
    }
}
