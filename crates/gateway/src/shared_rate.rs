//! A rate that all guests share: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), so that
//! the number of flows of a guest does not increase its share.
//!
//! Every packet has a start tag in bytes of service: the end of the guest's packet before it, but not
//! less than the tag of the packet that was sent last. The guest with the least tag is next. A guest
//! that was idle is therefore served after the packet that is on its way. With the deficit round robin
//! of RFC 8290, a busy guest that has nothing to send for a moment would count as idle too, and nineteen
//! such guests would delay a quiet one by as many packets.
//!
//! The driver asks for the guest whose turn it is, and reports how many bytes its output has sent.

use net::Instant;
use net::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Time by which the output may be ahead of the rate, because a timer is late: it bounds the burst
/// after a delay of the event loop.
const BURST_TIME: Duration = Duration::from_millis(1);
const NANOS_PER_S: u64 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// A rate limit: the time until which the rate is used up.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    bits_per_s: u64,
    used_until: Instant,
}

impl RateLimit {
    /// Returns a limit of `bits_per_s` bits per second.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), used_until: Instant::ZERO }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// Returns whether bytes may be sent now.
    #[must_use]
    pub fn allows(&self, now: Instant) -> bool {
        self.used_until <= now
    }

    /// Returns when bytes may be sent.
    #[must_use]
    pub fn allows_at(&self) -> Instant {
        self.used_until
    }

    /// Counts `bytes` bytes that were sent at `now`.
    pub fn use_up(&mut self, bytes: usize, now: Instant) {
        let nanos = bytes as u64 * BITS_PER_BYTE * NANOS_PER_S / self.bits_per_s;
        let burst = u64::try_from(BURST_TIME.as_nanos()).unwrap_or(0);
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(burst));
        self.used_until = self.used_until.max(earliest) + Duration::from_nanos(nanos);
    }
}

/// The place of a guest among those that wait. With the same tag, a guest that was idle comes first:
/// busy guests with packets of one length have the same tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    tag: u64,
    was_busy: bool,
    number: u64,
}

/// A rate and the guests that share it.
#[derive(Debug)]
pub struct SharedRate {
    limit: RateLimit,
    /// The guests that have output, in the order in which they are served.
    waiting: BTreeSet<(Place, usize)>,
    /// The places of the waiting guests in this order.
    places: BTreeMap<usize, Place>,
    /// The ends of the last packets of all guests, in bytes of service.
    ends: BTreeMap<usize, u64>,
    /// The start tag of the packet that was sent last.
    current_tag: u64,
    /// Number of tags that were given.
    count: u64,
}

impl SharedRate {
    /// Returns a rate without guests.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self {
            limit: RateLimit::new(bits_per_s),
            waiting: BTreeSet::new(),
            places: BTreeMap::new(),
            ends: BTreeMap::new(),
            current_tag: 0,
            count: 0,
        }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub fn bits_per_s(&self) -> u64 {
        self.limit.bits_per_s()
    }

    /// Adds a guest that has output, unless it waits already.
    pub fn add(&mut self, guest: usize) {
        if self.places.contains_key(&guest) {
            return;
        }
        let end = self.ends.get(&guest).copied().unwrap_or(0);
        let tag = end.max(self.current_tag);
        let place = Place { tag, was_busy: end >= self.current_tag, number: self.count };
        self.count += 1;
        self.places.insert(guest, place);
        self.waiting.insert((place, guest));
    }

    /// Returns the guest that may send a packet at `now`. Report the outcome by [`Self::has_sent`]
    /// or [`Self::withdraw`].
    #[must_use]
    pub fn next(&self, now: Instant) -> Option<usize> {
        let next = self.waiting.first().filter(|_| self.limit.allows(now));
        next.map(|(_, guest)| *guest)
    }

    /// Charges a packet of `bytes` bytes to the guest of [`Self::next`].
    pub fn has_sent(&mut self, guest: usize, bytes: usize, now: Instant) {
        self.limit.use_up(bytes, now);
        let Some(tag) = self.leave(guest) else { return };
        self.current_tag = tag;
        self.ends.insert(guest, tag + bytes as u64);
        self.add(guest);
    }

    /// Removes the guest of [`Self::next`] from those that wait, because it cannot send now.
    pub fn withdraw(&mut self, guest: usize) {
        self.leave(guest);
    }

    /// Removes a guest.
    pub fn remove(&mut self, guest: usize) {
        self.leave(guest);
        self.ends.remove(&guest);
    }

    /// Removes a guest from those that wait, and returns its start tag.
    fn leave(&mut self, guest: usize) -> Option<u64> {
        let place = self.places.remove(&guest)?;
        self.waiting.remove(&(place, guest));
        Some(place.tag)
    }

    /// Returns when the next guest may send.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.limit.allows_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_was_idle_is_next_and_one_that_was_busy_is_not() {
        let mut rate = SharedRate::new(8_000_000);
        let at = |micros: u64| Instant::from_nanos(1_000_000_000 + micros * 1000);
        [0, 1].iter().for_each(|guest| rate.add(*guest));
        let mut order = Vec::new();
        for packet in 0..4_u64 {
            let now = at(packet * 1000);
            let guest = rate.next(now).unwrap();
            rate.has_sent(guest, 1000, now);
            order.push(guest);
        }
        assert_eq!(order, [0, 1, 0, 1]);
        assert_eq!(rate.next(at(2999)), None);
        // Guest 0 has nothing for a moment, and guest 2 was idle.
        rate.withdraw(0);
        rate.add(0);
        rate.add(2);
        assert_eq!(rate.next(at(4000)), Some(2));
        rate.has_sent(2, 100, at(4000));
        rate.withdraw(2);
        // Guest 1 has the same tag as guest 0, and got it before.
        assert_eq!(rate.next(at(4100)), Some(1));
    }

    #[test]
    fn a_removed_guest_is_not_served() {
        let mut rate = SharedRate::new(8_000_000);
        rate.add(3);
        assert_eq!(rate.deadline(), Some(Instant::ZERO));
        rate.remove(3);
        assert_eq!((rate.next(Instant::ZERO), rate.deadline()), (None, None));
    }
}
