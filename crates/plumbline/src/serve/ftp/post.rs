//! Local queue between tasks of one thread.
//!
//! A tokio channel allocates room for dozens of messages when it is created. This queue allocates
//! nothing until a message is queued, which matters with ten thousand idle sessions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Handle of a queue. All handles are equivalent; at most one task may wait in [`Post::take`].
pub(super) struct Post<T>(Rc<Office<T>>);

struct Office<T> {
    left: RefCell<VecDeque<T>>,
    limit: usize,
    waiting: Cell<Option<Waker>>,
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Post<T> {
    /// Creates a queue of at most `limit` messages.
    pub(super) fn new(limit: usize) -> Self {
        let (left, waiting) = (RefCell::new(VecDeque::new()), Cell::new(None));
        Self(Rc::new(Office { left, limit, waiting }))
    }

    /// Enqueues a message. Returns whether there was room.
    pub(super) fn put(&self, thing: T) -> bool {
        let mut left = self.0.left.borrow_mut();
        let has_room = left.len() < self.0.limit;
        if has_room {
            left.push_back(thing);
            if let Some(waker) = self.0.waiting.take() {
                waker.wake();
            }
        }
        has_room
    }

    /// Waits for the next message. Cancel safe.
    pub(super) async fn take(&self) -> T {
        std::future::poll_fn(|context| {
            let mut left = self.0.left.borrow_mut();
            let Some(thing) = left.pop_front() else {
                self.0.waiting.set(Some(context.waker().clone()));
                return Poll::Pending;
            };
            if left.is_empty() {
                // Free the buffer: the queue may never be used again.
                left.shrink_to_fit();
            }
            Poll::Ready(thing)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn things_are_taken_in_their_order_and_no_more_wait_than_may() {
        let post = Post::new(2);
        let other = post.clone();
        assert!(other.put(1) && other.put(2) && !other.put(3));
        assert_eq!((post.take().await, post.take().await), (1, 2));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let post = Post::new(1);
        let other = post.clone();
        let (taken, ()) = tokio::join!(post.take(), async move {
            other.put("a thing");
        });
        assert_eq!(taken, "a thing");
    }
}
