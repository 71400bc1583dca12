//! Several stations on the queues of one interface: one host on several processors.
//!
//! An interface with several queues ([`crate::tun::Tun::open_queues`]) delivers each packet to one
//! of them. Each queue has its own station, [`crate::driver::Driver`] and thread, and nothing is
//! shared: no lock is taken per packet. The kernel delivers a packet to the queue that last sent
//! for its flow. After three seconds without such a packet it selects the queue by the hash of
//! addresses and ports. Therefore:
//!
//! - An inbound connection stays with the station that received its SYN, which may be any: all
//!   stations listen on the same ports.
//! - Replies to an outbound connection arrive at the station that opened it, but after a pause the
//!   next packet may arrive at another station. That station hands it over
//!   ([`protocols::station::Stray`]), and the next segment that the owner sends directs the flow
//!   back to its queue.
//!
//! The stations form a ring, and each one hands packets that are not its own to the next. Between
//! two stations there is a short queue, and an eventfd that ends the wait of the receiving station.
//! Packets that do not fit in the queue are dropped and counted, as on any link.
//!
//! This works only for interfaces of IP packets: on a TAP every station would need the replies of
//! neighbors, and each would request an address of its own from a server. It does not work for a
//! [`crate::host::Host`] either: its whole state is behind one lock, which every call of the
//! program takes, so that a second queue would wait for the first. A program with more than one
//! processor to spare creates a driver for each.

use protocols::station::Stray;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of packets waiting for one station.
const WAITING_MAX: usize = 256;

/// One station's connections to its neighbors in the ring.
#[derive(Debug)]
pub struct Exchange {
    number: u16,
    count: u16,
    own: Arc<Mailbox>,
    next: Arc<Mailbox>,
}

/// Packets waiting for one station.
#[derive(Debug)]
struct Mailbox {
    strays: Mutex<VecDeque<Stray>>,
    /// An eventfd that is readable while packets are waiting.
    bell: OwnedFd,
    is_ringing: AtomicBool,
}

/// Creates the exchanges of `count` stations, at least one.
///
/// # Errors
///
/// Returns an error if no file descriptors are left.
pub fn among(count: u16) -> io::Result<Vec<Exchange>> {
    let count = count.max(1);
    let mailboxes: io::Result<Vec<_>> = (0..count).map(|_| Mailbox::new().map(Arc::new)).collect();
    let mailboxes = mailboxes?;
    let nexts = mailboxes.iter().cycle().skip(1).cloned();
    let places = (0..count).zip(mailboxes.iter().cloned()).zip(nexts);
    Ok(places.map(|((number, own), next)| Exchange { number, count, own, next }).collect())
}

impl Exchange {
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

    /// Hands `strays` to the next station. Returns the number dropped because its queue was full.
    pub(crate) fn hand_over(&self, strays: impl Iterator<Item = Stray>) -> usize {
        let (mut has_new, mut lost) = (false, 0);
        for stray in strays {
            let mut waiting = self.next.strays();
            if waiting.len() >= WAITING_MAX {
                lost += 1;
            } else {
                waiting.push_back(stray);
                has_new = true;
            }
        }
        if has_new {
            self.next.ring();
        }
        lost
    }

    /// Takes the packets that the previous station has handed over, and resets the eventfd.
    pub(crate) fn take(&self) -> VecDeque<Stray> {
        if !self.is_ringing() {
            return VecDeque::new();
        }
        self.own.stop();
        core::mem::take(&mut *self.own.strays())
    }

    /// Returns whether packets are waiting for this station.
    pub(crate) fn is_ringing(&self) -> bool {
        self.own.is_ringing.load(Ordering::Acquire)
    }
}

/// The eventfd, which is readable while packets are waiting.
impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.bell.as_fd()
    }
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { strays: Mutex::default(), bell, is_ringing: AtomicBool::new(false) })
    }

    fn strays(&self) -> MutexGuard<'_, VecDeque<Stray>> {
        // No operation leaves the queue in an invalid state, so a poisoned lock is safe to use.
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if !self.is_ringing.swap(true, Ordering::AcqRel) {
            // The write fails only if the counter is full, and then the eventfd is readable
            // already.
            _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Resets the eventfd before the queue is emptied, so that packets added later set it again.
    /// The eventfd is read before the flag is cleared. In the opposite order, a packet added
    /// between the two steps would set both, the read would reset the eventfd, and the flag that
    /// stays set would suppress further wake-ups.
    fn stop(&self) {
        let stopped = rustix::io::read(&self.bell, &mut [0; 8]);
        debug_assert!(matches!(stopped, Ok(_) | Err(Errno::AGAIN)), "{stopped:?}");
        self.is_ringing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
