//! Descriptors and timers of the tasks, with the cached readiness of each descriptor.

use crate::readiness::OwnsDescriptor;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{Interest, Ready};
use tokio::time::Instant;

/// Number of waits of a task that may complete immediately before other tasks are polled.
const BUDGET: u32 = 128;
/// Event data of the eventfd that announces messages.
pub(super) const WAKEUP_DATA: u64 = u64::MAX;

/// Identifier of a task: the index of its slot, and the number of earlier tasks in this slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId {
    pub(super) slot: usize,
    pub(super) generation: u32,
}

/// Registered descriptors and timers of all tasks.
#[derive(Debug)]
pub(super) struct TaskRegistry {
    epoll: OwnedFd,
    descriptors: RefCell<Vec<DescriptorState>>,
    free: RefCell<Vec<usize>>,
    timers: RefCell<BTreeSet<(Instant, TaskId)>>,
    /// Task being polled.
    current: Cell<TaskId>,
    budget: Cell<u32>,
}

/// Cached readiness of a descriptor.
#[derive(Clone, Copy, Debug)]
struct DescriptorState {
    task: TaskId,
    generation: u32,
    ready: Ready,
}

impl TaskRegistry {
    pub(super) fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            descriptors: RefCell::default(),
            free: RefCell::default(),
            timers: RefCell::default(),
            current: Cell::default(),
            budget: Cell::new(0),
        }
    }

    pub(super) fn epoll(&self) -> &OwnedFd {
        &self.epoll
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
        let slot = registry.allocate_slot();
        let mut flags = EventFlags::ET;
        for (is_wanted, flag) in [
            (interest.is_readable(), EventFlags::IN | EventFlags::RDHUP),
            (interest.is_writable(), EventFlags::OUT),
            (interest.is_priority(), EventFlags::PRI),
        ] {
            flags.set(flag, is_wanted);
        }
        let event_data = registry.event_data(slot);
        let registered = Registered { owner: Some(owner), registry: Rc::clone(registry), slot };
        epoll::add(&registry.epoll, registered.get_ref(), event_data, flags)?;
        Ok(registered)
    }

    fn allocate_slot(&self) -> usize {
        let mut descriptors = self.descriptors.borrow_mut();
        let task = self.current.get();
        if let Some(slot) = self.free.borrow_mut().pop()
            && let Some(descriptor) = descriptors.get_mut(slot)
        {
            descriptor.task = task;
            descriptor.ready = Ready::EMPTY;
            return slot;
        }
        descriptors.push(DescriptorState { task, generation: 0, ready: Ready::EMPTY });
        descriptors.len() - 1
    }

    fn release_slot(&self, slot: usize) {
        if let Some(descriptor) = self.descriptors.borrow_mut().get_mut(slot) {
            // Late events of the old descriptor carry the old generation and are ignored.
            descriptor.generation = descriptor.generation.wrapping_add(1);
            descriptor.ready = Ready::EMPTY;
        }
        self.free.borrow_mut().push(slot);
    }

    /// Returns the epoll data of a descriptor: its index in the upper 32 bits and its generation in
    /// the lower 32 bits.
    fn event_data(&self, slot: usize) -> EventData {
        let generation =
            self.descriptors.borrow().get(slot).map_or(0, |descriptor| descriptor.generation);
        EventData::new_u64(((slot as u64) << 32) | u64::from(generation))
    }

    /// Records an event of a descriptor and returns its task. Returns `None` for a stale event.
    pub(super) fn record_event(&self, event: &Event) -> Option<TaskId> {
        let data = event.data.u64();
        let slot = usize::try_from(data >> 32).ok()?;
        let mut descriptors = self.descriptors.borrow_mut();
        let descriptor = descriptors.get_mut(slot)?;
        if u64::from(descriptor.generation) != data & u64::from(u32::MAX) {
            return None;
        }
        descriptor.ready |= ready_of(event.flags);
        Some(descriptor.task)
    }

    fn ready(&self, slot: usize) -> Ready {
        self.descriptors.borrow().get(slot).map_or(Ready::EMPTY, |descriptor| descriptor.ready)
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

/// Returns two sets of readiness flags for `interest`: the flags that end a wait, and the subset
/// that is cleared when a call would block.
fn masks(interest: Interest) -> (Ready, Ready) {
    let mut wait_flags = Ready::EMPTY;
    let mut cleared_flags = Ready::EMPTY;
    for (is_wanted, open_flag, closed_flag) in [
        (interest.is_readable(), Ready::READABLE, Ready::READ_CLOSED),
        (interest.is_writable(), Ready::WRITABLE, Ready::WRITE_CLOSED),
        (interest.is_priority(), Ready::PRIORITY, Ready::EMPTY),
    ] {
        if is_wanted {
            cleared_flags |= open_flag;
            wait_flags |= open_flag | closed_flag;
        }
    }
    (wait_flags, cleared_flags)
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
        let ready = self.registry.ready(self.slot) & masks(interest).0;
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
        let (wanted, cleared) = masks(interest);
        if (self.registry.ready(self.slot) & wanted).is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = call(self.get_ref());
        if matches!(&result, Err(error) if error.kind() == ErrorKind::WouldBlock)
            && let Some(descriptor) = self.registry.descriptors.borrow_mut().get_mut(self.slot)
        {
            descriptor.ready = descriptor.ready - cleared;
        }
        result
    }

    fn deregister(&self) {
        // Remove the registration explicitly, because a duplicate of the descriptor would keep it
        // alive. An error means that the descriptor was never registered or is already closed.
        _ = epoll::delete(&self.registry.epoll, self.get_ref());
        self.registry.release_slot(self.slot);
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if self.owner.is_some() {
            self.deregister();
        }
    }
}
