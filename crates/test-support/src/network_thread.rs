//! A thread in a network namespace of its own.

use std::fmt::Display;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Work for the thread.
type Work = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own, which runs what it is given. It ends when it is dropped.
#[derive(Debug)]
pub struct NetworkThread {
    namespace: String,
    work: Sender<Work>,
}

impl NetworkThread {
    /// Starts a thread that `enter` moves into a new network namespace.
    ///
    /// # Panics
    ///
    /// Panics if the thread cannot enter a namespace.
    pub fn start<E: Display>(enter: impl FnOnce() -> Result<(), E> + Send + 'static) -> Self {
        let (work, queue) = channel::<Work>();
        let (entered, is_entered) = channel();
        thread::spawn(move || {
            let link = enter().map_err(|refused| refused.to_string()).and_then(|()| {
                std::fs::read_link("/proc/thread-self").map_err(|error| error.to_string())
            });
            let is_ok = link.is_ok();
            // The receiver waits for this result.
            _ = entered.send(link);
            if is_ok {
                queue.into_iter().for_each(|work| work());
            }
        });
        let link = is_entered.recv().unwrap_or_else(|_| panic!("the thread has ended"));
        let thread = link.unwrap_or_else(|refused| panic!("no network namespace: {refused}"));
        Self { namespace: format!("/proc/{}/ns/net", thread.display()), work }
    }

    /// Returns the path of the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Runs `work` in the namespace, and returns its result.
    ///
    /// # Panics
    ///
    /// Panics if `work` panics, or takes longer than `limit`.
    pub fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (result, receiver) = channel();
        // If nothing receives the result, the time limit has passed.
        let work = Box::new(move || _ = result.send(work()));
        self.work.send(work).unwrap_or_else(|_| panic!("the thread has ended"));
        receiver.recv_timeout(limit).unwrap_or_else(|error| panic!("no result: {error}"))
    }
}
