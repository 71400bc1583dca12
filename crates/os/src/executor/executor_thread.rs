//! Handle of the executor thread.

use super::event_loop::EventLoop;
use super::inbox::{Inbox, Message};
use super::registry::{EventSource, TaskRegistry};
use super::tasks::{Tasks, WaitObserver};
use crate::epoll::Epoll;
use rustix::event::epoll::EventFlags;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Handle of the executor thread, whose tasks share one value of type `W`. Dropping the handle ends
/// the thread and all its tasks.
pub struct Executor<W> {
    inbox: Arc<Inbox<W>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: WaitObserver> Executor<W> {
    /// Starts the executor thread with the name `name`. The thread creates the shared state of its
    /// tasks with `share`. The tasks may also use timers and tasks of `runtime`.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptor or thread can be created.
    pub fn start(
        name: &str,
        runtime: Handle,
        share: impl FnOnce(EventLoop) -> W + Send + 'static,
    ) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::new()?);
        let mut epoll = Epoll::new()?;
        let slot = epoll.reserve(EventSource::Inbox);
        epoll.add(slot, &*inbox, EventFlags::IN)?;
        let thread_inbox = Arc::clone(&inbox);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _context = runtime.enter();
            let registry = Rc::new(TaskRegistry::new(epoll));
            let shared = Rc::new(share(EventLoop::of(Rc::clone(&registry))));
            Tasks::new(registry, thread_inbox, shared).run();
        })?;
        Ok(Self { inbox, thread: Some(thread) })
    }

    /// Runs the task created by `start` on the executor thread. Returns its result, or `None` if
    /// the task did not complete.
    pub async fn run<T, F>(&self, start: impl FnOnce(Rc<W>) -> F + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (result, awaited) = oneshot::channel();
        self.inbox.send(Message::StartTask(Box::new(move |shared| {
            let future = start(Rc::clone(shared));
            // Sending fails if the caller no longer waits for the result.
            Box::pin(async move { _ = result.send(future.await) })
        })));
        awaited.await.ok()
    }
}

impl<W> Drop for Executor<W> {
    fn drop(&mut self) {
        self.inbox.send(Message::Stop);
        // A join error means that the thread has panicked, so the thread has ended too.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<W> std::fmt::Debug for Executor<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}
