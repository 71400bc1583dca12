//! Messages from other threads to the executor thread, and the wakers of its tasks.

use super::registry::TaskId;
use crate::wakeup::Wakeup;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
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

/// Message queue of the executor thread, and the wakeup that announces messages.
pub(super) struct Inbox<W> {
    messages: Mutex<Vec<Message<W>>>,
    wakeup: Wakeup,
}

impl<W> Inbox<W> {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { messages: Mutex::default(), wakeup: Wakeup::new()? })
    }

    pub(super) fn send(&self, message: Message<W>) {
        let mut messages = self.lock();
        messages.push(message);
        if messages.len() == 1 {
            self.wakeup.signal();
        }
    }

    pub(super) fn take(&self) -> Vec<Message<W>> {
        self.wakeup.reset();
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

/// The descriptor of the wakeup, which is readable while messages are waiting.
impl<W> AsFd for Inbox<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}
