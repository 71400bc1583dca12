//! Descriptors and timers of the tasks.

use crate::epoll::{Epoll, Events};
use crate::readiness::OwnsDescriptor;
use net::time::Duration;
use rustix::event::epoll::{Event, EventFlags};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{Interest, Ready};
use tokio::time::Instant;

/// Number of waits of a task that may complete immediately before other tasks are polled.
const BUDGET: u32 = 128;

/// Identifier of a task: the index of its slot, and the number of earlier tasks in this slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId {
    pub(super) slot: usize,
    pub(super) generation: u32,
}

/// Owner of a registered descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventSource {
    /// The inbox of the thread.
    Inbox,
    /// A task.
    Task(TaskId),
}

/// Registered descriptors and timers of all tasks.
#[derive(Debug)]
pub(super) struct TaskRegistry {
    epoll: RefCell<Epoll<EventSource>>,
    timers: RefCell<BTreeSet<(Instant, TaskId)>>,
    /// Task being polled.
    current: Cell<TaskId>,
    budget: Cell<u32>,
}

impl TaskRegistry {
    pub(super) fn new(epoll: Epoll<EventSource>) -> Self {
        Self {
            epoll: RefCell::new(epoll),
            timers: RefCell::default(),
            current: Cell::default(),
            budget: Cell::new(0),
        }
    }

    /// Sets the task that is polled from now on.
    pub(super) fn set_current(&self, task: TaskId) {
        self.current.set(task);
    }

    /// Allows the current task [`BUDGET`] waits that complete immediately.
    pub(super) fn reset_budget(&self) {
        self.budget.set(BUDGET);
    }

    pub(super) fn is_budget_used_up(&self) -> bool {
        self.budget.get() == 0
    }

    /// Registers the descriptor of `owner`: its events cause the current task to be polled.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub(super) fn register<T>(
        registry: &Rc<Self>,
        owner: T,
        interest: Interest,
    ) -> io::Result<Registered<T>>
    where
        T: OwnsDescriptor + AsFd,
    {
        let task = EventSource::Task(registry.current.get());
        let slot = registry.epoll.borrow_mut().reserve(task);
        let mut flags = EventFlags::ET;
        for (is_wanted, flag) in [
            (interest.is_readable(), EventFlags::IN | EventFlags::RDHUP),
            (interest.is_writable(), EventFlags::OUT),
            (interest.is_priority(), EventFlags::PRI),
        ] {
            flags.set(flag, is_wanted);
        }
        let registered = Registered { owner: Some(owner), registry: Rc::clone(registry), slot };
        registry.epoll.borrow().add(slot, registered.get_ref(), flags)?;
        Ok(registered)
    }

    /// Waits for events, at most for `limit`, a number of whole milliseconds.
    pub(super) fn wait(&self, events: &mut Events, limit: Option<Duration>) -> Result<(), Errno> {
        self.epoll.borrow().wait(events, limit)
    }

    /// Records an event of a descriptor and returns its owner. Returns `None` for a stale event.
    pub(super) fn record_event(&self, event: &Event) -> Option<EventSource> {
        self.epoll.borrow_mut().record(event)
    }

    fn ready(&self, slot: usize) -> Ready {
        ready_of(self.epoll.borrow().ready(slot))
    }

    /// Schedules a poll of the current task at `at`.
    pub(super) fn schedule(&self, at: Instant) {
        self.timers.borrow_mut().insert((at, self.current.get()));
    }

    /// Cancels a poll of the current task at `at`.
    pub(super) fn unschedule(&self, at: Instant) {
        self.timers.borrow_mut().remove(&(at, self.current.get()));
    }

    /// Removes an expired timer and returns its task.
    pub(super) fn take_expired(&self, now: Instant) -> Option<TaskId> {
        let mut timers = self.timers.borrow_mut();
        let (at, task) = timers.pop_first()?;
        if at > now {
            timers.insert((at, task));
            return None;
        }
        Some(task)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().first().map(|(at, _)| *at)
    }
}

fn ready_of(flags: EventFlags) -> Ready {
    let mut ready = Ready::EMPTY;
    for (flag, readiness) in [
        (EventFlags::IN, Ready::READABLE),
        (EventFlags::OUT, Ready::WRITABLE),
        (EventFlags::PRI, Ready::PRIORITY),
        (EventFlags::RDHUP, Ready::READ_CLOSED),
        (EventFlags::HUP, Ready::READ_CLOSED | Ready::WRITE_CLOSED),
        (EventFlags::ERR, Ready::ERROR | Ready::READ_CLOSED | Ready::WRITE_CLOSED),
    ] {
        if flags.intersects(flag) {
            ready |= readiness;
        }
    }
    ready
}

/// Returns the readiness flags that end a wait for `interest`.
fn wait_flags(interest: Interest) -> Ready {
    let mut flags = Ready::EMPTY;
    for (is_wanted, open_flag, closed_flag) in [
        (interest.is_readable(), Ready::READABLE, Ready::READ_CLOSED),
        (interest.is_writable(), Ready::WRITABLE, Ready::WRITE_CLOSED),
        (interest.is_priority(), Ready::PRIORITY, Ready::EMPTY),
    ] {
        if is_wanted {
            flags |= open_flag | closed_flag;
        }
    }
    flags
}

/// Returns the events that are cleared when a call for `interest` would block. A hang-up and an
/// error are never cleared.
fn cleared_events(interest: Interest) -> EventFlags {
    let mut events = EventFlags::empty();
    events.set(EventFlags::IN, interest.is_readable());
    events.set(EventFlags::OUT, interest.is_writable());
    events.set(EventFlags::PRI, interest.is_priority());
    events
}

/// Registered descriptor, deregistered on drop.
#[derive(Debug)]
pub(super) struct Registered<T: AsFd> {
    owner: Option<T>,
    registry: Rc<TaskRegistry>,
    slot: usize,
}

impl<T: AsFd> Registered<T> {
    pub(super) fn get_ref(&self) -> &T {
        self.owner.as_ref().expect("present until into_inner")
    }

    pub(super) fn into_inner(mut self) -> T {
        self.deregister();
        self.owner.take().expect("present until into_inner")
    }

    /// Returns the part of `interest` that the descriptor is ready for.
    pub(super) fn poll_ready(&self, interest: Interest) -> Poll<Ready> {
        let ready = self.registry.ready(self.slot) & wait_flags(interest);
        if ready.is_empty() {
            return Poll::Pending;
        }
        match self.registry.budget.get().checked_sub(1) {
            Some(left) => self.registry.budget.set(left),
            // The budget of the task is used up, so other tasks are polled first.
            None => return Poll::Pending,
        }
        Poll::Ready(ready)
    }

    /// Executes `call` if the descriptor is ready for `interest`. If the call would block, clears
    /// the readiness.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        if (self.registry.ready(self.slot) & wait_flags(interest)).is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = call(self.get_ref());
        if matches!(&result, Err(error) if error.kind() == ErrorKind::WouldBlock) {
            self.registry.epoll.borrow_mut().clear(self.slot, cleared_events(interest));
        }
        result
    }

    fn deregister(&self) {
        // Remove the registration explicitly, because a duplicate of the descriptor would keep it
        // alive. An error means that the descriptor was never registered or is already closed.
        let mut epoll = self.registry.epoll.borrow_mut();
        _ = epoll.delete(self.get_ref());
        epoll.release(self.slot);
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if self.owner.is_some() {
            self.deregister();
        }
    }
}
