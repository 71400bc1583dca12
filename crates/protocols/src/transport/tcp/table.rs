//! The table of connections: who they are, who may have something to send, whose time is due and
//! who has news. Each list holds a connection once, and none is walked through unless the table is
//! full.

use super::ConnectionId;
use super::NoConnection;
use super::connection::{Connection, State};
use super::status::Event;
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddrV4;

/// How many connections a station has.
const MAX_CONNECTIONS: usize = 1024;

/// The local and the remote end of a connection.
pub(super) type Ends = (SocketAddrV4, SocketAddrV4);

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// The user has given it up: it goes when it has ended.
    is_released: bool,
    is_on_output: bool,
    is_on_news: bool,
    deadline: Option<Instant>,
    /// The port whose listener made it, until it is open.
    half_open_on: Option<u16>,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_ends: BTreeMap<Ends, u32>,
    output: VecDeque<u32>,
    news: VecDeque<u32>,
    deadlines: BTreeSet<(Instant, u32)>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_ends.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_ends.len() >= MAX_CONNECTIONS
    }

    /// Returns the connection that has been in TIME-WAIT for the longest time.
    pub(super) fn oldest_in_time_wait(&self) -> Option<ConnectionId> {
        self.deadlines.iter().find_map(|(_, index)| {
            let slot = self.slots.get(*index as usize)?;
            let is_waiting = slot.connection.as_ref()?.state == State::TimeWait;
            is_waiting.then_some(ConnectionId { slot: *index, generation: slot.generation })
        })
    }

    pub(super) fn holds(&self, ends: Ends) -> bool {
        self.by_ends.contains_key(&ends)
    }

    /// Takes a connection in; `half_open_on` is the port of the listener that made it.
    pub(super) fn insert(
        &mut self,
        connection: Connection,
        half_open_on: Option<u16>,
    ) -> Option<ConnectionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        self.by_ends.insert((connection.ends.local, connection.ends.remote), index);
        let slot = self.slots.get_mut(index as usize)?;
        slot.connection = Some(connection);
        slot.is_released = false;
        slot.half_open_on = half_open_on;
        Some(ConnectionId { slot: index, generation: slot.generation })
    }

    pub(super) fn find(&mut self, ends: Ends) -> Option<(ConnectionId, &mut Connection)> {
        let index = *self.by_ends.get(&ends)?;
        let slot = self.slots.get_mut(index as usize)?;
        let id = ConnectionId { slot: index, generation: slot.generation };
        Some((id, slot.connection.as_mut()?))
    }

    pub(super) fn get(&self, id: ConnectionId) -> Result<&Connection, NoConnection> {
        let slot = self.slots.get(id.slot as usize).filter(|s| s.generation == id.generation);
        slot.and_then(|slot| slot.connection.as_ref()).ok_or(NoConnection)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Result<&mut Connection, NoConnection> {
        let slot = self.slots.get_mut(id.slot as usize);
        let slot = slot.filter(|slot| slot.generation == id.generation);
        slot.and_then(|slot| slot.connection.as_mut()).ok_or(NoConnection)
    }

    /// Notes that the user has given the connection up.
    pub(super) fn release(&mut self, id: ConnectionId) {
        let slot = self.slots.get_mut(id.slot as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == id.generation) {
            slot.is_released = true;
        }
    }

    /// Brings the lists up to date after anything has happened to a connection. Returns the port
    /// of its listener if it is half open no longer.
    pub(super) fn touch(&mut self, id: ConnectionId) -> Option<u16> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let connection = slot.connection.as_ref()?;
        let is_half_open = connection.state == State::SynReceived;
        let left = slot.half_open_on.take_if(|_| !is_half_open);
        let is_closed = connection.state == State::Closed;
        // Nobody knows of a connection that never opened.
        slot.is_released |= is_closed && left.is_some();
        if connection.news != 0 && !slot.is_released && !slot.is_on_news {
            slot.is_on_news = true;
            self.news.push_back(id.slot);
        }
        if !is_closed && !slot.is_on_output {
            slot.is_on_output = true;
            self.output.push_back(id.slot);
        }
        self.schedule(id.slot);
        if is_closed {
            self.retire(id.slot);
        }
        left
    }

    /// Takes over the timers of a connection.
    fn schedule(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let deadline = slot.connection.as_ref().and_then(Connection::deadline);
        if slot.deadline == deadline {
            return;
        }
        if let Some(old) = slot.deadline {
            self.deadlines.remove(&(old, index));
        }
        if let Some(new) = deadline {
            self.deadlines.insert((new, index));
        }
        slot.deadline = deadline;
    }

    /// What has ended no longer stands in the way of a new connection between the same ends, and
    /// goes if nobody will ask for it.
    fn retire(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = &slot.connection else { return };
        let ends = (connection.ends.local, connection.ends.remote);
        if self.by_ends.get(&ends) == Some(&index) {
            self.by_ends.remove(&ends);
        }
        if slot.is_released {
            slot.connection = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns a connection whose time is due.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<(ConnectionId, &mut Connection)> {
        let (deadline, index) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.deadlines.pop_first();
        let slot = self.slots.get_mut(index as usize)?;
        slot.deadline = None;
        Some((ConnectionId { slot: index, generation: slot.generation }, slot.connection.as_mut()?))
    }

    /// Returns whether any connection may have something to send.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns what `take` gets from the first connection that has it for output; those that have
    /// nothing leave the list.
    pub(super) fn next_output<T>(
        &mut self,
        mut take: impl FnMut(&mut Connection) -> Option<T>,
    ) -> Option<T> {
        while let Some(index) = self.output.front().copied() {
            let slot = self.slots.get_mut(index as usize)?;
            if let Some(output) = slot.connection.as_mut().and_then(&mut take) {
                return Some(output);
            }
            slot.is_on_output = false;
            self.output.pop_front();
            self.schedule(index);
        }
        None
    }

    /// Returns the next news of any connection.
    pub(super) fn next_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(index) = self.news.front().copied() {
            let slot = self.slots.get_mut(index as usize)?;
            let id = ConnectionId { slot: index, generation: slot.generation };
            if let Some(event) = slot.connection.as_mut().and_then(Connection::next_event) {
                return Some((id, event));
            }
            slot.is_on_news = false;
            self.news.pop_front();
        }
        None
    }
}
