//! Local queue between tasks of one thread.
//!
//! A tokio channel allocates memory for dozens of messages when it is created. This queue allocates
//! nothing until a message is queued, which matters with ten thousand idle sessions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Handle of a queue. All handles are equivalent; at most one task may wait in [`LocalQueue::pop`].
pub(super) struct LocalQueue<T>(Rc<Shared<T>>);

struct Shared<T> {
    messages: RefCell<VecDeque<T>>,
    limit: usize,
    waker: Cell<Option<Waker>>,
}

impl<T> Clone for LocalQueue<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> LocalQueue<T> {
    /// Creates a queue of at most `limit` messages.
    pub(super) fn new(limit: usize) -> Self {
        let messages = RefCell::new(VecDeque::new());
        let waker = Cell::new(None);
        Self(Rc::new(Shared { messages, limit, waker }))
    }

    /// Enqueues a message. Returns false if the queue is full.
    pub(super) fn push(&self, message: T) -> bool {
        let mut messages = self.0.messages.borrow_mut();
        let has_room = messages.len() < self.0.limit;
        if has_room {
            messages.push_back(message);
            if let Some(waker) = self.0.waker.take() {
                waker.wake();
            }
        }
        has_room
    }

    /// Waits for the next message. Cancel safe.
    pub(super) async fn pop(&self) -> T {
        std::future::poll_fn(|context| {
            let mut messages = self.0.messages.borrow_mut();
            let Some(message) = messages.pop_front() else {
                self.0.waker.set(Some(context.waker().clone()));
                return Poll::Pending;
            };
            if messages.is_empty() {
                // Free the buffer: the queue may never be used again.
                messages.shrink_to_fit();
            }
            Poll::Ready(message)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_keep_their_order_and_a_full_queue_rejects_more() {
        let queue = LocalQueue::new(2);
        let sender = queue.clone();
        assert!(sender.push(1) && sender.push(2) && !sender.push(3));
        assert_eq!((queue.pop().await, queue.pop().await), (1, 2));
    }

    #[tokio::test]
    async fn a_push_wakes_the_waiting_task() {
        let queue = LocalQueue::new(1);
        let sender = queue.clone();
        let (message, ()) = tokio::join!(queue.pop(), async move {
            sender.push("a message");
        });
        assert_eq!(message, "a message");
    }
}
