//! Several stations on the queues of one interface: one host on several processors.
//!
//! An interface with several queues ([`crate::tun::Tun::open_queues`]) gives each packet to one of
//! them. A queue has a station, a [`crate::driver::Driver`] and a thread of its own, and nothing is
//! shared: no lock is taken for a packet. The kernel gives what belongs to a flow to the queue that
//! has sent for it last; what it has not heard of for three seconds goes where the hash of its
//! addresses and ports says. So
//!
//! - a connection that comes from outside stays where its SYN came, which is any station: all of
//!   them listen on the same ports;
//! - a connection that a station opens is answered there, but after a pause the next packet may
//!   come to another station. That one hands it over ([`protocols::station::Stray`]), and the next
//!   segment that its owner sends leads the flow back.
//!
//! The stations stand in a ring, and each hands to the next what is not for it. The way between two
//! of them is a short queue, and a bell that ends the wait of who is at the other end. What the
//! queue has no room for is dropped and counted, as a packet on any wire.
//!
//! Only for interfaces of IP packets: on a TAP the answers of neighbours belong to every station, and
//! each would ask a server for an address of its own. Not for a [`crate::host::Host`] either: all that
//! it knows is behind one lock, which every call of the program takes, so that a second queue would
//! wait for the first. Who has more than one processor to spare makes a driver for each.

use protocols::station::Stray;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Strays that may wait for one station.
const WAITING_MAX: usize = 256;

/// One station's place among those of a host.
#[derive(Debug)]
pub struct Exchange {
    number: u16,
    count: u16,
    own: Arc<Mailbox>,
    next: Arc<Mailbox>,
}

/// What waits for one station.
#[derive(Debug)]
struct Mailbox {
    strays: Mutex<VecDeque<Stray>>,
    /// Readable while the bell rings.
    bell: OwnedFd,
    is_ringing: AtomicBool,
}

/// Makes the places of `count` stations, at least one.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn among(count: u16) -> io::Result<Vec<Exchange>> {
    let count = count.max(1);
    let mailboxes: io::Result<Vec<_>> = (0..count).map(|_| Mailbox::new().map(Arc::new)).collect();
    let mailboxes = mailboxes?;
    let nexts = mailboxes.iter().cycle().skip(1).cloned();
    let places = (0..count).zip(mailboxes.iter().cloned()).zip(nexts);
    Ok(places.map(|((number, own), next)| Exchange { number, count, own, next }).collect())
}

impl Exchange {
    /// Returns which of the stations has this place.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns how many stations there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Hands `strays` to the next station; returns how many of them it had no room for.
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

    /// Takes what the station before has handed over, and stops the bell.
    pub(crate) fn take(&self) -> VecDeque<Stray> {
        if !self.is_ringing() {
            return VecDeque::new();
        }
        self.own.stop();
        core::mem::take(&mut *self.own.strays())
    }

    /// Returns whether something waits for this station.
    pub(crate) fn is_ringing(&self) -> bool {
        self.own.is_ringing.load(Ordering::Acquire)
    }
}

/// The bell: readable while something waits.
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
        // A queue is whole between two calls, whoever has panicked.
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if !self.is_ringing.swap(true, Ordering::AcqRel) {
            // One that is full rings already.
            _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Before the queue is emptied: what comes later rings anew. The bell is silenced first, or
    /// one that is rung between the two would be taken to ring already.
    fn stop(&self) {
        let stopped = rustix::io::read(&self.bell, &mut [0; 8]);
        debug_assert!(matches!(stopped, Ok(_) | Err(Errno::AGAIN)), "{stopped:?}");
        self.is_ringing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
