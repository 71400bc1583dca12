//! Tasks that wait for the same thing, and may give up.

use super::{Host, State};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;
use tokio::task::coop;

/// Those who wait for one thing.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    call: Arc<Notify>,
    /// Somebody has found nothing since the last call.
    is_waiting: bool,
}

impl Crowd {
    /// Returns what those who wait listen to.
    pub(super) fn call(&self) -> Arc<Notify> {
        self.call.clone()
    }

    /// Notes that somebody has found nothing, and waits.
    pub(super) fn wait<T>(&mut self) -> Poll<T> {
        self.is_waiting = true;
        Poll::Pending
    }

    /// Returns whether somebody waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Adds the call to those that are made when the lock is free.
    pub(super) fn tell(&mut self, calls: &mut Vec<Arc<Notify>>) {
        if std::mem::take(&mut self.is_waiting) {
            calls.push(self.call.clone());
        }
    }
}

impl Host {
    /// Tries until `attempt` has a result, again after each `call`.
    pub(super) async fn attend_to<R>(
        &self,
        call: Arc<Notify>,
        mut attempt: impl FnMut(&mut State) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        coop::consume_budget().await;
        loop {
            let mut called = pin!(call.notified());
            // From here on no call is missed.
            called.as_mut().enable();
            if let Poll::Ready(result) = self.act(&mut attempt) {
                return result;
            }
            called.await;
        }
    }
}
