//! The table of connections: lookup by local and remote end, and the lists of connections with
//! output, timers or events. A connection is in each list at most once. No list is searched
//! completely unless the table is full.

use super::connection::Connection;
use super::connection_id::{ConnectionId, NoConnection};
use super::lifecycle::State;
use super::limited_time::Limit;
use super::listen::LocalEnd;
use super::status::Event;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU64;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// Maximum number of connections that keep the full recovery state after sending, although nothing
/// is outstanding.
const BUSY_MAX: usize = 64;
/// Number of connections whose exact deadline is checked before the host is woken up.
const DEADLINE_CHECKS_MAX: usize = 4;
/// Time for which a peer's window must have been zero before its connection may be evicted.
const MIN_STARVED_TIME: Duration = Duration::from_secs(60);

/// The local and the remote end of a connection.
pub(super) type AddressPair = (SocketAddr, SocketAddr);

/// Returns whether both pairs identify the same connection. Other fields of a socket address (flow,
/// scope) are ignored.
fn are_same(one: AddressPair, other: AddressPair) -> bool {
    let is_same = |one: SocketAddr, other: SocketAddr| match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => one == other,
        (SocketAddr::V6(one), SocketAddr::V6(other)) => {
            one.port() == other.port() && one.ip() == other.ip()
        }
        (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => false,
    };
    is_same(one.1, other.1) && is_same(one.0, other.0)
}

/// Returns a keyed hash of the ends, so that an attacker cannot find collisions.
fn hash(key: &SipHasher13, (local, remote): AddressPair) -> u64 {
    let mut state = *key;
    state.write_u32(u32::from(local.port()) << 16 | u32::from(remote.port()));
    for end in [local, remote] {
        match end.ip() {
            IpAddr::V4(address) => state.write_u32(address.to_bits()),
            IpAddr::V6(address) => state.write_u128(address.to_bits()),
        }
    }
    state.finish()
}

fn ends_in(slots: &[Slot], index: u32) -> Option<AddressPair> {
    let connection = slots.get(index as usize)?.connection.as_ref()?;
    Some(connection.ends.pair())
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// Whether the user has released the connection. It is then deleted when it has ended.
    is_released: bool,
    is_on_output: bool,
    /// Whether output stopped while the connection was on the output list. Its timers are then
    /// updated even before it sends.
    is_held_up: bool,
    is_in_event_queue: bool,
    /// Whether the connection keeps its full recovery state.
    is_busy: bool,
    /// Position of the connection in `Table::in_time_wait`.
    time_wait_position: Option<NonZeroU64>,
    /// Whether the connection is counted by `Table::released_in_time_wait`.
    is_released_in_time_wait: bool,
    /// Position of the connection in `Table::starved`.
    starved_position: Option<NonZeroU64>,
    deadline: Option<Instant>,
    /// The listener that created the connection, until the connection is established.
    half_open_on: Option<LocalEnd>,
}

impl Slot {
    /// Returns whether an established connection needs no change of its lists. This is the usual
    /// case, because the connection has already been processed since the last output.
    fn is_on_right_lists(&self, connection: &Connection) -> bool {
        let is_plain = connection.state() == State::Established && self.half_open_on.is_none();
        let has_reported_all = !connection.reports.has_events() || self.is_in_event_queue;
        let is_timed = self.deadline.is_some() && !self.is_held_up;
        let has_window = connection.timers.probing_since().is_none();
        let has_no_position = self.starved_position.is_none() && self.time_wait_position.is_none();
        is_plain
            && has_reported_all
            && is_timed
            && has_window
            && has_no_position
            && self.is_on_output
    }
}

/// Connections that meet a certain condition, in the order in which they first met it. A connection
/// that no longer meets it is removed.
#[derive(Debug, Default)]
struct AgeOrder {
    by_position: BTreeMap<NonZeroU64, u32>,
    /// The last position assigned.
    last: u64,
}

impl AgeOrder {
    /// Adds the connection in slot `index` if `is_member` is true, and removes it otherwise.
    /// `place` is its position.
    #[inline]
    fn update(&mut self, place: &mut Option<NonZeroU64>, index: u32, is_member: bool) {
        if is_member != place.is_some() {
            self.change(place, index, is_member);
        }
    }

    #[cold]
    fn change(&mut self, place: &mut Option<NonZeroU64>, index: u32, is_member: bool) {
        if !is_member && let Some(left) = place.take() {
            self.by_position.remove(&left);
        } else if is_member && place.is_none() {
            self.last += 1;
            *place = NonZeroU64::new(self.last);
            self.by_position.extend(place.map(|place| (place, index)));
        }
    }

    /// Returns the slot of the earliest connection.
    fn oldest(&self) -> Option<u32> {
        self.by_position.first_key_value().map(|(_, index)| *index)
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slots of connections that have not ended. The key is the pair of their ends.
    by_ends: HashTable<u32>,
    key: SipHasher13,
    /// The connection of the last segment. The next segment usually belongs to it too.
    last_found: Option<(AddressPair, u32)>,
    connections_max: usize,
    output: VecDeque<u32>,
    /// Number of connections at the front of the output list whose `is_held_up` is set.
    held_up: usize,
    /// Whether output has stopped before everything was sent.
    is_output_stopped: bool,
    /// Connections that keep the full recovery state after sending, the oldest first.
    busy: VecDeque<u32>,
    pending_events: VecDeque<u32>,
    /// Packets whose data was read or is discarded. They are returned to the pool at output.
    pub(super) spent: Vec<Packet>,
    in_time_wait: AgeOrder,
    /// Number of connections in TIME-WAIT that their users have released.
    released_in_time_wait: usize,
    /// Connections whose peer has a zero window.
    starved: AgeOrder,
    /// Number of bytes by which all buffers together have grown.
    growth: usize,
    /// Times at which to check the connections, at the latest at their deadlines. If a segment
    /// postpones the deadline of a connection, the stored time does not change until the connection
    /// is checked.
    deadlines: BTreeSet<(Instant, u32)>,
}

impl Table {
    /// Returns a table of at most `connections_max` connections. `key` makes its order
    /// unpredictable.
    pub(super) fn new(connections_max: usize, key: (u64, u64)) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_ends: HashTable::new(),
            key: SipHasher13::new_with_keys(key.0, key.1),
            last_found: None,
            connections_max,
            output: VecDeque::new(),
            held_up: 0,
            is_output_stopped: false,
            busy: VecDeque::new(),
            pending_events: VecDeque::new(),
            spent: Vec::new(),
            in_time_wait: AgeOrder::default(),
            released_in_time_wait: 0,
            starved: AgeOrder::default(),
            growth: 0,
            deadlines: BTreeSet::new(),
        }
    }

    pub(super) fn set_connections_max(&mut self, connections_max: usize) {
        self.connections_max = connections_max;
    }

    /// Returns the number of bytes that all buffers together may hold beyond their initial sizes.
    pub(super) fn growth(&self) -> usize {
        self.growth
    }

    /// Applies `change` to a connection, and updates the total growth of all buffers.
    pub(super) fn change<T>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut Connection) -> T,
    ) -> Result<T, NoConnection> {
        let connection = self.get_mut(id)?;
        let before = connection.growth();
        let result = change(connection);
        let after = connection.growth();
        self.growth = (self.growth + after).saturating_sub(before);
        Ok(result)
    }

    pub(super) fn len(&self) -> usize {
        self.by_ends.len()
    }

    /// Returns the number of connections in TIME-WAIT that their users have released.
    pub(super) fn released_in_time_wait(&self) -> usize {
        self.released_in_time_wait
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

    /// Returns the connection whose peer has had a zero window for the longest time, if this time
    /// is long enough for an eviction.
    pub(super) fn longest_starved(&self, now: Instant) -> Option<ConnectionId> {
        let id = self.starved.oldest().and_then(|index| self.id(index))?;
        let since = self.get(id).ok()?.timers.probing_since()?;
        (now - since >= MIN_STARVED_TIME).then_some(id)
    }

    /// Returns the number of connections recorded as being in TIME-WAIT or having a zero window.
    #[cfg(test)]
    pub(super) fn tracked_count(&self) -> usize {
        self.in_time_wait.by_position.len() + self.starved.by_position.len()
    }

    pub(super) fn holds(&self, ends: AddressPair) -> bool {
        self.index_of(ends).is_some()
    }

    fn index_of(&self, ends: AddressPair) -> Option<u32> {
        let matches =
            |index: &u32| ends_in(&self.slots, *index).is_some_and(|it| are_same(it, ends));
        self.by_ends.find(hash(&self.key, ends), matches).copied()
    }

    /// Adds a connection. `half_open_on` is the listener that created it, if any.
    pub(super) fn insert(
        &mut self,
        connection: Connection,
        half_open_on: Option<LocalEnd>,
    ) -> Option<ConnectionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let ends = connection.ends.pair();
        let slot = self.slots.get_mut(index as usize)?;
        slot.connection = Some(connection);
        slot.is_released = false;
        slot.half_open_on = half_open_on;
        let id = ConnectionId { slot: index, generation: slot.generation };
        let slots = &self.slots;
        let key = &self.key;
        let hash_of = |index: &u32| ends_in(slots, *index).map_or(0, |ends| hash(key, ends));
        self.by_ends.insert_unique(hash(key, ends), index, hash_of);
        Some(id)
    }

    pub(super) fn find(&mut self, ends: AddressPair) -> Option<(ConnectionId, &mut Connection)> {
        let index = match &self.last_found {
            Some((known, index)) if are_same(*known, ends) => *index,
            _ => {
                let index = self.index_of(ends)?;
                self.last_found = Some((ends, index));
                index
            }
        };
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

    /// RECEIVE: drops `count` bytes that the user has read.
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

    /// Records that the user has released the connection.
    pub(super) fn release(&mut self, id: ConnectionId) {
        let slot = self.slots.get_mut(id.slot as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == id.generation) {
            slot.is_released = true;
        }
    }

    /// Updates the lists after a change of a connection. Returns its listener if it is no longer
    /// half-open.
    pub(super) fn reschedule(&mut self, id: ConnectionId) -> Option<LocalEnd> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let connection = slot.connection.as_ref()?;
        if slot.is_on_right_lists(connection) {
            return None;
        }
        let is_half_open = connection.state() == State::SynReceived;
        let previous_listener = slot.half_open_on.take_if(|_| !is_half_open);
        let is_closed = connection.state() == State::Closed;
        // A connection that was never established was not reported to the user.
        slot.is_released |=
            is_closed && previous_listener.is_some() && !connection.lifecycle.has_early_data();
        if connection.reports.has_events() && !slot.is_released && !slot.is_in_event_queue {
            slot.is_in_event_queue = true;
            self.pending_events.push_back(id.slot);
        }
        let is_in_time_wait = connection.state() == State::TimeWait;
        self.in_time_wait.update(&mut slot.time_wait_position, id.slot, is_in_time_wait);
        let is_counted = is_in_time_wait && slot.is_released;
        self.released_in_time_wait += usize::from(is_counted);
        let was_counted = core::mem::replace(&mut slot.is_released_in_time_wait, is_counted);
        self.released_in_time_wait -= usize::from(was_counted);
        let is_starved = connection.timers.probing_since().is_some();
        self.starved.update(&mut slot.starved_position, id.slot, is_starved);
        let is_on_output = slot.is_on_output;
        if !is_closed && !is_on_output {
            slot.is_on_output = true;
            slot.is_held_up = self.is_output_stopped;
            self.held_up += usize::from(slot.is_held_up);
            self.output.push_back(id.slot);
        }
        if slot.is_held_up
            && let Some(connection) = &mut slot.connection
        {
            connection.wait_for_output();
        }
        // Timers are updated at output anyway. Until then, the deadline from the time at which the
        // connection entered the output list applies, unless output has stopped.
        if !is_on_output || slot.is_held_up || slot.deadline.is_none() {
            self.schedule(id.slot);
        }
        if is_closed {
            self.retire(id.slot);
        }
        previous_listener
    }

    /// Updates the table's deadline of a connection from its timers.
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

    /// Removes an ended connection from the lookup, so that its ends can be reused. Deletes it if
    /// the user has released it.
    fn retire(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = &slot.connection else { return };
        let ends = connection.ends.pair();
        if let Ok(found) = self.by_ends.find_entry(hash(&self.key, ends), |known| *known == index) {
            found.remove();
        }
        self.last_found = self.last_found.filter(|(_, known)| *known != index);
        if slot.is_released {
            if let Some(mut connection) = slot.connection.take() {
                connection.rcv.clear(&mut self.spent);
                self.growth = self.growth.saturating_sub(connection.growth());
            }
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// Returns when [`Self::next_due`] may return a connection. The time may be too early.
    ///
    /// Most timers are postponed again before they expire, so the stored times are often too early.
    /// The exact deadlines are computed for the first few connections, because waking the host
    /// needlessly costs more than a thousand such checks. If this is not enough, the result is the
    /// stored time of the next connection.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for (checks, (planned, index)) in self.deadlines.iter().enumerate() {
            if earliest.is_some_and(|earliest| earliest <= *planned) {
                break;
            }
            if checks == DEADLINE_CHECKS_MAX {
                return Some(*planned);
            }
            let slot = self.slots.get(*index as usize);
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // A connection on the output list may have an earlier deadline that is not in this
            // table yet.
            let due = connection.and_then(Connection::deadline).map(|due| due.max(*planned));
            earliest = earliest.into_iter().chain(due).min();
        }
        earliest
    }

    /// Returns a connection whose timer is due.
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

    /// Records that the next connection with output waits for the device.
    pub(super) fn record_device_limit(&mut self, now: Instant) {
        let slot = self.output.front().and_then(|index| self.slots.get_mut(*index as usize));
        let connection = slot.and_then(|slot| slot.connection.as_mut());
        if let Some(recovery) = connection.and_then(|connection| connection.recovery.full_mut()) {
            recovery.limits.set(Limit::Device, now);
        }
    }

    /// Returns whether any connection may have something to send.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Calls `take` for each connection with output, in order, until it returns a result. `take`
    /// also returns whether the connection has no further output. Such a connection is removed from
    /// the list.
    pub(super) fn next_output<T>(
        &mut self,
        mut take: impl FnMut(&mut Connection) -> Option<(T, bool)>,
    ) -> Option<(ConnectionId, T)> {
        self.is_output_stopped = false;
        while let Some(index) = self.output.front().copied() {
            let slot = self.slots.get_mut(index as usize)?;
            let id = ConnectionId { slot: index, generation: slot.generation };
            let is_busy = slot.is_busy;
            let taken = slot.connection.as_mut().and_then(&mut take);
            if taken.as_ref().is_none_or(|(_, is_output_complete)| *is_output_complete) {
                slot.is_on_output = false;
                self.held_up -= usize::from(core::mem::take(&mut slot.is_held_up));
                self.output.pop_front();
                self.schedule(index);
            }
            if let Some((output, _)) = taken {
                if !is_busy {
                    self.record_busy(index);
                }
                return Some((id, output));
            }
        }
        None
    }

    /// Removes and returns the next connection of the output list. The caller calls
    /// [`Self::output_of`] for it, at any time. A change of the connection meanwhile adds it again.
    pub(super) fn take_ready(&mut self) -> Option<ConnectionId> {
        loop {
            let index = self.output.pop_front()?;
            let Some(slot) = self.slots.get_mut(index as usize) else { continue };
            slot.is_on_output = false;
            self.held_up -= usize::from(core::mem::take(&mut slot.is_held_up));
            let id = ConnectionId { slot: index, generation: slot.generation };
            let Some(connection) = &mut slot.connection else { continue };
            // The output may never come, so the timers run as for a connection that waits.
            connection.wait_for_output();
            self.schedule(index);
            return Some(id);
        }
    }

    /// Calls `take` for one connection, which is not on the output list, and updates its timers.
    pub(super) fn output_of<T>(
        &mut self,
        id: ConnectionId,
        take: impl FnOnce(&mut Connection) -> Option<T>,
    ) -> Option<T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let slot = Some(slot).filter(|slot| slot.generation == id.generation)?;
        let is_busy = slot.is_busy;
        let taken = slot.connection.as_mut().and_then(take);
        self.schedule(id.slot);
        if taken.is_some() && !is_busy {
            self.record_busy(id.slot);
        }
        taken
    }

    /// Updates the timers of the connections that wait for output, because output has stopped and
    /// may never continue. Each connection is checked once while it is on the output list, and
    /// again whenever it changes.
    pub(super) fn output_stopped(&mut self) {
        self.is_output_stopped = true;
        // Only the first connection on the list can have sent anything since the last time.
        if let Some(first) = self.output.front().copied() {
            self.hold_up(first);
        }
        while let Some(index) = self.output.get(self.held_up).copied() {
            self.hold_up(index);
            self.held_up += 1;
        }
    }

    /// Marks a connection on the list as waiting for output.
    fn hold_up(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && let Some(connection) = &mut slot.connection
        {
            slot.is_held_up = true;
            connection.wait_for_output();
        }
        self.schedule(index);
    }

    /// Adds a connection that has sent data to the busy connections. If there are too many, the
    /// oldest one reduces its recovery state. If it cannot, it becomes the newest.
    fn record_busy(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if slot.connection.as_ref().is_none_or(|connection| connection.recovery.full().is_none()) {
            return;
        }
        slot.is_busy = true;
        self.busy.push_back(index);
        if self.busy.len() <= BUSY_MAX {
            return;
        }
        let Some(oldest) = self.busy.pop_front() else { return };
        let Some(slot) = self.slots.get_mut(oldest as usize) else { return };
        slot.is_busy = !slot.connection.as_mut().is_none_or(Connection::enter_idle);
        if slot.is_busy {
            self.busy.push_back(oldest);
        }
    }

    /// Returns the next event of any connection.
    pub(super) fn next_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(index) = self.pending_events.front().copied() {
            let slot = self.slots.get_mut(index as usize)?;
            let id = ConnectionId { slot: index, generation: slot.generation };
            if let Some(event) =
                slot.connection.as_mut().and_then(|connection| connection.reports.next_event())
            {
                return Some((id, event));
            }
            slot.is_in_event_queue = false;
            self.pending_events.pop_front();
        }
        None
    }
}
