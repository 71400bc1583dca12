//! Several stations on the queues of one interface: one host on several processors.
//!
//! An interface with several queues ([`crate::tun::Tun::open_queues`]) delivers each packet to one
//! of them. Each queue has its own station, [`crate::driver::Driver`] and thread, and nothing is
//! shared: no lock is taken per packet. The kernel delivers a packet to the queue that last sent
//! for its flow. If no queue has sent for the flow in the last three seconds, the kernel selects
//! the queue by the hash of addresses and ports. Therefore:
//!
//! - An inbound connection stays with the station that received its SYN. Any station may receive a
//!   SYN, because all stations listen on the same ports.
//! - Replies to an outbound connection arrive at the station that opened it, but after a pause the
//!   next packet may arrive at another station. That station hands the packet over
//!   ([`net::station::Misdelivered`]). The next segment that the owner sends directs the flow
//!   back to the owner's queue.
//!
//! The stations form a ring. Each one hands packets that are not its own to the next. Between two
//! stations there is a short queue, and an eventfd that ends the wait of the receiving station.
//! Packets that do not fit in the queue are dropped and counted, as on any link.
//!
//! This works only for interfaces of IP packets: on a TAP every station would need the replies of
//! neighbors, and each would request an address of its own from a server. A [`crate::host::Host`]
//! would not benefit: every call of the program takes the lock of the host, so a second queue would
//! wait for the first. A program that can use several processors creates a driver for each.

use crate::wakeup::Wakeup;
use net::station::Misdelivered;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of packets waiting for one station.
const QUEUED_PACKETS_MAX: usize = 256;

/// One station's connections to its neighbors in the ring.
#[derive(Debug)]
pub struct QueueSteering {
    number: u16,
    count: u16,
    own: Arc<HandoverQueue>,
    next: Arc<HandoverQueue>,
}

/// Packets waiting for one station.
#[derive(Debug)]
struct HandoverQueue {
    packets: Mutex<VecDeque<Misdelivered>>,
    /// Signaled while packets are waiting.
    wakeup: Wakeup,
    is_signaled: AtomicBool,
}

/// Creates the queue steering of `count` stations, at least one.
///
/// # Errors
///
/// Returns an error if no file descriptors are left.
pub fn ring_of(count: u16) -> io::Result<Vec<QueueSteering>> {
    let count = count.max(1);
    let queues: io::Result<Vec<_>> =
        (0..count).map(|_| HandoverQueue::new().map(Arc::new)).collect();
    let queues = queues?;
    let neighbors = queues.iter().cycle().skip(1).cloned();
    let members = (0..count).zip(queues.iter().cloned()).zip(neighbors);
    Ok(members.map(|((number, own), next)| QueueSteering { number, count, own, next }).collect())
}

impl QueueSteering {
    /// Returns the number of this station, counted from 0.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of stations.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Hands `packets` to the next station. Returns the number dropped because its queue was full.
    pub(crate) fn hand_over(&self, packets: impl Iterator<Item = Misdelivered>) -> usize {
        let mut has_added = false;
        let mut dropped = 0;
        for packet in packets {
            let mut waiting = self.next.packets();
            if waiting.len() >= QUEUED_PACKETS_MAX {
                dropped += 1;
            } else {
                waiting.push_back(packet);
                has_added = true;
            }
        }
        if has_added {
            self.next.signal();
        }
        dropped
    }

    /// Takes the packets that the previous station has handed over, and resets the eventfd.
    pub(crate) fn take(&self) -> VecDeque<Misdelivered> {
        if !self.is_signaled() {
            return VecDeque::new();
        }
        self.own.reset();
        core::mem::take(&mut *self.own.packets())
    }

    /// Returns whether packets are waiting for this station.
    pub(crate) fn is_signaled(&self) -> bool {
        self.own.is_signaled.load(Ordering::Acquire)
    }
}

/// The eventfd, which is readable while packets are waiting.
impl AsFd for QueueSteering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.wakeup.as_fd()
    }
}

impl HandoverQueue {
    fn new() -> io::Result<Self> {
        let wakeup = Wakeup::new()?;
        Ok(Self { packets: Mutex::default(), wakeup, is_signaled: AtomicBool::new(false) })
    }

    fn packets(&self) -> MutexGuard<'_, VecDeque<Misdelivered>> {
        // No operation leaves the queue in an invalid state, so a poisoned lock is safe to use.
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self) {
        if !self.is_signaled.swap(true, Ordering::AcqRel) {
            self.wakeup.signal();
        }
    }

    /// Resets the eventfd before the queue is emptied, so that packets added later set it again.
    /// The eventfd is read before the flag is cleared. In the opposite order, a packet added
    /// between the two steps would set both, the read would reset the eventfd, and the flag that
    /// stays set would suppress further wake-ups.
    fn reset(&self) {
        self.wakeup.reset();
        self.is_signaled.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "queue_steering_tests.rs"]
mod tests;
