//! Executor of many sessions in one thread: one `epoll_wait`, many tasks.
//!
//! # Purpose
//!
//! The executor exists for the sessions of a login server. A keystroke costs such a session two
//! wakeups: the first reads the socket and writes the terminal, the second reads the terminal and
//! writes the socket. The work between two waits is a few microseconds, so the cost of the wakeup
//! itself decides how many sessions a processor can serve. A wakeup of this executor is one system
//! call, one lookup in a table and one call of the task's `poll`. Tokio adds to that: the queue of
//! ready tasks, the state of the task and of each waiting future, all of which are shared between
//! threads.
//!
//! # Descriptors
//!
//! A descriptor is registered once and edge-triggered ([`EventLoop::register`]), so `epoll_wait`
//! reports only new events and does not poll the descriptor. A poll of a terminal would wait for
//! the kernel thread that copies the echo.
//!
//! The readiness of a descriptor is cached: the descriptor counts as ready from its event until a
//! call would block ([`Descriptor::try_io`]). A caller that knows that it has read everything, for
//! example after a short read, clears the readiness itself ([`Descriptor::clear_readiness`]), which
//! saves the read that would return no data. A hang-up is never cleared.
//!
//! # Tasks
//!
//! A task is polled in three cases:
//!
//! 1. One of its descriptors has an event. The registration records the task that made it, so no
//!    waker is stored, and a task must register the descriptors that it waits for itself.
//! 2. Its [`Timer`] expires. The timers of all tasks are one sorted set, whose first entry limits
//!    the wait.
//! 3. Its waker is called, from any thread. The waker puts a message into the inbox of the thread,
//!    and an eventfd ends the wait.
//!
//! Since events carry no waker, a task must poll everything that it waits for each time it is
//! polled. A future that polls only the parts whose own wakers were called, such as
//! `FuturesUnordered`, must not contain a [`Descriptor`] or a [`Timer`].
//!
//! # Fairness
//!
//! Each round serves all events of one `epoll_wait`, then the tasks that have used up their budget
//! in the previous round, then the expired timers. A task that always finds its descriptors ready
//! would never return: after a fixed number of waits that completed immediately, its descriptors
//! count as not ready until the next round. While such a task exists, the wait has no duration.
//!
//! A panic ends only the task that caused it. The end of the executor ends all tasks.
//!
//! # Tokio
//!
//! The thread is inside the context of a tokio runtime, so a task may use its channels, timers and
//! spawned tasks, which wake it through its waker. A task of tokio can use the same session code:
//! an [`EventLoop`] is either that of the executor or that of tokio, and [`Descriptor`] and
//! [`Timer`] behave the same on both.

mod event_loop;
mod executor_thread;
mod inbox;
mod registry;
mod tasks;
#[cfg(test)]
mod tests;

pub use event_loop::{Descriptor, EventLoop, Timer};
pub use executor_thread::Executor;
pub use tasks::WaitObserver;
