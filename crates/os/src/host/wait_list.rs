//! Wait list of tasks that wait for the same event and may be cancelled.

use super::{Host, State};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;
use tokio::task::coop;

/// Tasks that wait for one event.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    call: Arc<Notify>,
    /// A task has found nothing since the last notification.
    is_waiting: bool,
}

impl WaitList {
    /// Returns the notifier that the waiting tasks listen to.
    pub(super) fn call(&self) -> Arc<Notify> {
        self.call.clone()
    }

    /// Records that a task has found nothing and waits.
    pub(super) fn wait<T>(&mut self) -> Poll<T> {
        self.is_waiting = true;
        Poll::Pending
    }

    /// Returns whether a task waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Adds the notifier to those that are notified after the lock is released, if a task waits.
    pub(super) fn tell(&mut self, calls: &mut Vec<Arc<Notify>>) {
        if std::mem::take(&mut self.is_waiting) {
            calls.push(self.call.clone());
        }
    }
}

impl Host {
    /// Calls `attempt` until it has a result, again after each notification of `call`.
    pub(super) async fn attend_to<R>(
        &self,
        call: Arc<Notify>,
        mut attempt: impl FnMut(&mut State) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        coop::consume_budget().await;
        loop {
            let mut called = pin!(call.notified());
            // From here on no notification is missed.
            called.as_mut().enable();
            if let Poll::Ready(result) = self.act(&mut attempt) {
                return result;
            }
            called.await;
        }
    }
}
