//! Tasks that wait for the same thing.

use std::task::{Context, Waker};

/// Those who wait, each task once.
#[derive(Debug, Default)]
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    /// Adds the task that asks.
    ///
    /// One that has given up meanwhile stays, and is woken for nothing: nobody else would be.
    pub(super) fn add(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves all of them to those who are woken next.
    pub(super) fn move_to(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.0);
    }
}
