//! Messages from other threads to the executor thread, and the wakers of its tasks.

use super::registry::TaskId;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

pub(super) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;
pub(super) type StartTask<W> = Box<dyn FnOnce(&Rc<W>) -> TaskFuture + Send>;

/// Message from another thread to the executor thread.
pub(super) enum Message<W> {
    StartTask(StartTask<W>),
    Wake(TaskId),
    Stop,
}

/// Message queue of the executor thread, and the eventfd that announces messages.
pub(super) struct Inbox<W> {
    messages: Mutex<Vec<Message<W>>>,
    wakeup: OwnedFd,
}

impl<W> Inbox<W> {
    pub(super) fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { messages: Mutex::default(), wakeup })
    }

    pub(super) fn send(&self, message: Message<W>) {
        let mut messages = self.lock();
        messages.push(message);
        if messages.len() == 1 {
            // The write fails only if the eventfd counter is full; then the thread is notified
            // anyway.
            _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn take(&self) -> Vec<Message<W>> {
        _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message<W>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task from any thread.
pub(super) struct TaskWaker<W> {
    pub(super) id: TaskId,
    pub(super) inbox: Arc<Inbox<W>>,
}

impl<W> Wake for TaskWaker<W> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.inbox.send(Message::Wake(self.id));
    }
}

/// The eventfd, which is readable while messages are waiting.
impl<W> AsFd for Inbox<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}
