//! Descriptors registered with one epoll instance, and their cached readiness.
//!
//! [`Poller`](crate::readiness::Poller), the loop of one session, is built on this type.
//!
//! Each registration has a slot. The event data of epoll contains the index of the slot and its
//! generation: the number of earlier registrations in the slot. An event that was reported before
//! its descriptor was removed has an old generation and is ignored.

use crate::timespec;
use net::time::Duration;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors registered with one epoll instance.
#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    ready: EventFlags,
    /// True for a file that does not support epoll, such as a regular file.
    is_always_ready: bool,
}

/// Memory for the events of one wait.
pub(crate) struct Events(Vec<Event>);

impl Events {
    /// Creates memory for at most `count` events per wait.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes and returns the events of the last wait.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Event> {
        self.0.drain(..)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("len", &self.len()).finish()
    }
}

impl Epoll {
    pub(crate) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, slots: Vec::new(), free: Vec::new() })
    }

    /// Returns a slot for a descriptor, which is not registered yet.
    pub(crate) fn reserve(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let ready = EventFlags::empty();
            self.slots.push(Slot { generation: 0, ready, is_always_ready: false });
            self.slots.len() - 1
        })
    }

    /// Makes a slot available for another descriptor.
    pub(crate) fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            // Late events of the old descriptor carry the old generation and are ignored.
            slot.generation = slot.generation.wrapping_add(1);
            slot.ready = EventFlags::empty();
            slot.is_always_ready = false;
        }
        self.free.push(index);
    }

    /// Registers a descriptor under a reserved slot.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`: EEXIST if the descriptor is registered already, EPERM
    /// if it does not support epoll.
    pub(crate) fn add(
        &self,
        index: usize,
        descriptor: impl AsFd,
        events: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, self.event_data(index), events)
    }

    /// Changes the events of a registered descriptor.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub(crate) fn modify(
        &self,
        index: usize,
        descriptor: impl AsFd,
        events: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, self.event_data(index), events)
    }

    /// Ends the registration of a descriptor. Its slot stays reserved.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`: ENOENT if the descriptor is not registered.
    pub(crate) fn delete(&self, descriptor: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, descriptor)
    }

    fn event_data(&self, index: usize) -> EventData {
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        EventData::new_u64(((index as u64) << 32) | u64::from(generation))
    }

    /// Waits for events, at most for `limit`, or indefinitely, and stores them in `events`, which
    /// must be empty. The kernel counts whole milliseconds, so `limit` must be a number of them.
    ///
    /// # Errors
    ///
    /// Returns EINTR if a signal ended the wait.
    pub(crate) fn wait(&self, events: &mut Events, limit: Option<Duration>) -> Result<(), Errno> {
        let limit = limit.map(timespec);
        epoll::wait(&self.epoll, spare_capacity(&mut events.0), limit.as_ref()).map(drop)
    }

    /// Records an event in the readiness of its descriptor. Ignores an event of an earlier
    /// registration.
    pub(crate) fn record(&mut self, event: &Event) {
        let data = event.data.u64();
        let slot = usize::try_from(data >> 32).ok().and_then(|index| self.slots.get_mut(index));
        if let Some(slot) = slot
            && u64::from(slot.generation) == data & u64::from(u32::MAX)
        {
            slot.ready |= event.flags;
        }
    }

    /// Returns the events of a descriptor since they were cleared.
    pub(crate) fn ready(&self, index: usize) -> EventFlags {
        self.slots.get(index).map_or(EventFlags::empty(), |slot| slot.ready)
    }

    /// Marks a descriptor that does not support epoll as ready for reads and writes. This readiness
    /// is never cleared.
    pub(crate) fn set_always_ready(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.ready = EventFlags::IN | EventFlags::OUT;
            slot.is_always_ready = true;
        }
    }

    /// Clears the readiness of a descriptor for `events` until the next event.
    pub(crate) fn clear(&mut self, index: usize, events: EventFlags) {
        if let Some(slot) = self.slots.get_mut(index).filter(|slot| !slot.is_always_ready) {
            slot.ready.remove(events);
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
