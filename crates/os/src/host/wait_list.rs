//! Wait list of tasks that wait for the same event and may be cancelled.

use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;

/// Tasks that wait for one event.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    notifier: Arc<Notify>,
    /// True if a task has started to wait since the last notification.
    is_waiting: bool,
}

impl WaitList {
    /// Returns the notifier that the waiting tasks listen to.
    pub(super) fn notifier(&self) -> Arc<Notify> {
        self.notifier.clone()
    }

    /// Records that a task waits.
    pub(super) fn wait<T>(&mut self) -> Poll<T> {
        self.is_waiting = true;
        Poll::Pending
    }

    /// Returns whether a task waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// If a task waits, adds the notifier of this list to `notifiers`. The caller notifies all of
    /// them after it has released the lock.
    pub(super) fn notify(&mut self, notifiers: &mut Vec<Arc<Notify>>) {
        if std::mem::take(&mut self.is_waiting) {
            notifiers.push(self.notifier.clone());
        }
    }
}
