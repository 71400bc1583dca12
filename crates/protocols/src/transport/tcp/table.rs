//! The table of connections: who they are, who may have something to send, whose time is due and
//! who has news. Each list holds a connection once, and none is walked through unless the table is
//! full.

use super::ConnectionId;
use super::NoConnection;
use super::connection::{Connection, State};
use super::limits::Limit;
use super::listen::Place;
use super::status::Event;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// How long a window must have been shut before its connection gives way to a new one.
const STARVED_FOR: Duration = Duration::from_secs(60);

/// The local and the remote end of a connection.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// The ends as they are looked up: what a socket address says beside address and port of a host
/// (flow, scope) is no part of a connection's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(Ends);

impl From<Ends> for Key {
    fn from((local, remote): Ends) -> Self {
        let bare = |end: SocketAddr| SocketAddr::new(end.ip(), end.port());
        Self((bare(local), bare(remote)))
    }
}

impl core::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (local, remote) = self.0;
        state.write_u32(u32::from(local.port()) << 16 | u32::from(remote.port()));
        for end in [local, remote] {
            match end.ip() {
                IpAddr::V4(address) => state.write_u32(address.to_bits()),
                IpAddr::V6(address) => state.write_u128(address.to_bits()),
            }
        }
    }
}

/// A hash that nobody outside can find collisions of.
#[derive(Clone, Debug)]
struct Keyed(SipHasher13);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        self.0
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// The user has given it up: it goes when it has ended.
    is_released: bool,
    is_on_output: bool,
    is_on_news: bool,
    /// Where it stands among those in TIME-WAIT.
    time_wait_place: Option<u64>,
    /// Where it stands among those whose peer has shut its window.
    starved_place: Option<u64>,
    deadline: Option<Instant>,
    /// Where the listener listens that made it, until it is open.
    half_open_on: Option<Place>,
}

/// Connections in the order in which they came into a condition; who leaves it leaves the order.
#[derive(Debug, Default)]
struct Seniority {
    by_place: BTreeMap<u64, u32>,
    next: u64,
}

impl Seniority {
    /// Lets the connection in slot `index`, whose place is `place`, be among the others or not.
    fn update(&mut self, place: &mut Option<u64>, index: u32, is_member: bool) {
        if !is_member && let Some(left) = place.take() {
            self.by_place.remove(&left);
        } else if is_member && place.is_none() {
            *place = Some(self.next);
            self.by_place.insert(self.next, index);
            self.next += 1;
        }
    }

    /// Returns the slot of the connection that came first.
    fn oldest(&self) -> Option<u32> {
        self.by_place.first_key_value().map(|(_, index)| *index)
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_ends: HashMap<Key, u32, Keyed>,
    connections_max: usize,
    output: VecDeque<u32>,
    news: VecDeque<u32>,
    /// Packets whose data was read, or will never be; they go back to the pool at output.
    pub(super) spent: Vec<Packet>,
    in_time_wait: Seniority,
    /// Those whose peer has shut its window.
    starved: Seniority,
    /// When to look at a connection: not later than its own deadline. A deadline that moves away,
    /// as it does with every segment, is left standing, and set right when it is looked at.
    deadlines: BTreeSet<(Instant, u32)>,
}

impl Table {
    /// Makes a table of at most `connections_max`, whose order nobody knows without `key`.
    pub(super) fn new(connections_max: usize, key: (u64, u64)) -> Self {
        let hasher = SipHasher13::new_with_keys(key.0, key.1);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_ends: HashMap::with_hasher(Keyed(hasher)),
            connections_max,
            output: VecDeque::new(),
            news: VecDeque::new(),
            spent: Vec::new(),
            in_time_wait: Seniority::default(),
            starved: Seniority::default(),
            deadlines: BTreeSet::new(),
        }
    }

    pub(super) fn set_connections_max(&mut self, connections_max: usize) {
        self.connections_max = connections_max;
    }

    pub(super) fn len(&self) -> usize {
        self.by_ends.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_ends.len() >= self.connections_max
    }

    /// Returns the connection that has been in TIME-WAIT for the longest time.
    pub(super) fn oldest_in_time_wait(&self) -> Option<ConnectionId> {
        self.in_time_wait.oldest().and_then(|index| self.id(index))
    }

    fn id(&self, index: u32) -> Option<ConnectionId> {
        let slot = self.slots.get(index as usize)?;
        Some(ConnectionId { slot: index, generation: slot.generation })
    }

    /// Returns the connection whose peer has kept its window shut for the longest time, if that is
    /// long enough to let it go.
    pub(super) fn longest_starved(&self, now: Instant) -> Option<ConnectionId> {
        let id = self.starved.oldest().and_then(|index| self.id(index))?;
        let since = self.get(id).ok()?.timers.probing_since?;
        (now - since >= STARVED_FOR).then_some(id)
    }

    /// Returns how many connections are remembered for how long they have been of no use.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.in_time_wait.by_place.len() + self.starved.by_place.len()
    }

    pub(super) fn holds(&self, ends: Ends) -> bool {
        self.by_ends.contains_key(&Key::from(ends))
    }

    /// Takes a connection in; `half_open_on` is the place of the listener that made it.
    pub(super) fn insert(
        &mut self,
        connection: Connection,
        half_open_on: Option<Place>,
    ) -> Option<ConnectionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let ends = (connection.ends.local, connection.ends.remote);
        self.by_ends.insert(Key::from(ends), index);
        let slot = self.slots.get_mut(index as usize)?;
        slot.connection = Some(connection);
        slot.is_released = false;
        slot.half_open_on = half_open_on;
        Some(ConnectionId { slot: index, generation: slot.generation })
    }

    pub(super) fn find(&mut self, ends: Ends) -> Option<(ConnectionId, &mut Connection)> {
        let index = *self.by_ends.get(&Key::from(ends))?;
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

    /// RECEIVE: drops what the user has read.
    pub(super) fn consume(&mut self, id: ConnectionId, count: usize) -> Result<(), NoConnection> {
        let slot = self.slots.get_mut(id.slot as usize);
        let slot = slot.filter(|slot| slot.generation == id.generation);
        let connection = slot.and_then(|slot| slot.connection.as_mut()).ok_or(NoConnection)?;
        connection.consume(count, &mut self.spent);
        Ok(())
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|slot| slot.connection.as_ref())
    }

    /// Notes that the user has given the connection up.
    pub(super) fn release(&mut self, id: ConnectionId) {
        let slot = self.slots.get_mut(id.slot as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == id.generation) {
            slot.is_released = true;
        }
    }

    /// Brings the lists up to date after anything has happened to a connection. Returns the place
    /// of its listener if it is half open no longer.
    pub(super) fn touch(&mut self, id: ConnectionId) -> Option<Place> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let connection = slot.connection.as_ref()?;
        let is_half_open = connection.state == State::SynReceived;
        let left = slot.half_open_on.take_if(|_| !is_half_open);
        let is_closed = connection.state == State::Closed;
        // Nobody knows of a connection that never opened.
        slot.is_released |= is_closed && left.is_some() && !connection.is_early;
        if connection.news != 0 && !slot.is_released && !slot.is_on_news {
            slot.is_on_news = true;
            self.news.push_back(id.slot);
        }
        let is_in_time_wait = connection.state == State::TimeWait;
        self.in_time_wait.update(&mut slot.time_wait_place, id.slot, is_in_time_wait);
        let is_starved = connection.timers.probing_since.is_some();
        self.starved.update(&mut slot.starved_place, id.slot, is_starved);
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
        let Some(deadline) = slot.connection.as_ref().and_then(Connection::deadline) else {
            return;
        };
        if slot.deadline.is_some_and(|planned| planned <= deadline) {
            return;
        }
        if let Some(old) = slot.deadline.replace(deadline) {
            self.deadlines.remove(&(old, index));
        }
        self.deadlines.insert((deadline, index));
    }

    /// What has ended no longer stands in the way of a new connection between the same ends, and
    /// goes if nobody will ask for it.
    fn retire(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = &slot.connection else { return };
        let ends = Key::from((connection.ends.local, connection.ends.remote));
        if self.by_ends.get(&ends) == Some(&index) {
            self.by_ends.remove(&ends);
        }
        if slot.is_released {
            if let Some(mut connection) = slot.connection.take() {
                connection.receive.clear(&mut self.spent);
            }
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns a connection whose time is due.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<(ConnectionId, &mut Connection)> {
        loop {
            let (planned, index) = *self.deadlines.first()?;
            if planned > now {
                return None;
            }
            self.deadlines.pop_first();
            let slot = self.slots.get_mut(index as usize)?;
            slot.deadline = None;
            let deadline = slot.connection.as_ref().and_then(Connection::deadline);
            if deadline.is_none_or(|deadline| deadline > now) {
                self.schedule(index);
                continue;
            }
            let slot = self.slots.get_mut(index as usize)?;
            let id = ConnectionId { slot: index, generation: slot.generation };
            return Some((id, slot.connection.as_mut()?));
        }
    }

    /// Notes that the next connection with something to send waits for the device.
    pub(super) fn note_device_limit(&mut self, now: Instant) {
        let slot = self.output.front().and_then(|index| self.slots.get_mut(*index as usize));
        let connection = slot.and_then(|slot| slot.connection.as_mut());
        if let Some(recovery) = connection.and_then(|connection| connection.recovery.as_mut()) {
            recovery.limits.set(Limit::Device, now);
        }
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
    ) -> Option<(ConnectionId, T)> {
        while let Some(index) = self.output.front().copied() {
            let slot = self.slots.get_mut(index as usize)?;
            if let Some(output) = slot.connection.as_mut().and_then(&mut take) {
                return Some((ConnectionId { slot: index, generation: slot.generation }, output));
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
