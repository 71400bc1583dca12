//! The two lists of RFC 8290 §4.1.3: new queues, which are served first, and old queues, which are
//! served in rounds.
//!
//! Both levels of the fair queue use it: for the sharers of an output, and for the flows of one
//! sharer. Every queue has a deficit in bytes. A queue whose deficit is used up gets one quantum
//! and goes to the end of the old list. A new queue that becomes empty passes through the old list
//! once before it is removed, so that a flow cannot be new again at once.

use std::collections::VecDeque;

/// The order in which queues are served.
#[derive(Debug)]
pub(super) struct Rounds<K> {
    new: VecDeque<K>,
    old: VecDeque<K>,
}

impl<K> Default for Rounds<K> {
    fn default() -> Self {
        Self { new: VecDeque::new(), old: VecDeque::new() }
    }
}

/// The effect of an empty queue on its place in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterEmpty {
    /// The queue stays in the old list for one more round.
    Kept,
    /// The queue is in no list.
    Removed,
}

impl<K: Copy + PartialEq> Rounds<K> {
    /// Adds a queue that was in no list.
    pub(super) fn add(&mut self, key: K) {
        self.new.push_back(key);
    }

    /// Returns the queue to serve next.
    pub(super) fn first(&self) -> Option<K> {
        self.new.front().or_else(|| self.old.front()).copied()
    }

    /// Moves the first queue to the end of the old list.
    pub(super) fn end_turn(&mut self) {
        let first = self.new.pop_front().or_else(|| self.old.pop_front());
        self.old.extend(first);
    }

    /// Processes that the first queue is empty.
    pub(super) fn first_is_empty(&mut self) -> AfterEmpty {
        match self.new.pop_front() {
            Some(key) if !self.old.is_empty() => {
                self.old.push_back(key);
                AfterEmpty::Kept
            }
            Some(_) => AfterEmpty::Removed,
            None => {
                self.old.pop_front();
                AfterEmpty::Removed
            }
        }
    }

    /// Removes a queue from its list.
    pub(super) fn remove(&mut self, key: K) {
        self.new.retain(|other| *other != key);
        self.old.retain(|other| *other != key);
    }
}
