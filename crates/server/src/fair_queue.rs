//! Bounded queue for work of limited concurrency, fair between remote addresses.
//!
//! Sources (remote addresses) take turns: the next permit goes to the source that has waited
//! longest since its last permit, and within a source to its oldest waiter. A waiter that is
//! dropped leaves the queue, so queued work ends with the connection that requested it. Dropping a
//! permit returns it to the queue; work that cannot be interrupted owns its permit until the work
//! ends.
//!
//! When the queue is full, a waiter of a source without other waiters displaces the newest waiter
//! of the source with the most waiters, if that source has at least two. Otherwise the new waiter
//! is refused at once.

use super::source::source;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The queue is full, or this source has the maximum number of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// Maximum number of permits, of waiters, and of waiters per source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) running_max: usize,
    pub(super) waiting_max: usize,
    pub(super) waiting_per_source_max: usize,
}

/// Limits of password checks: each takes 19 MiB and one processor, so one runs at a time.
pub(super) const PASSWORD_CHECKS: Limits =
    Limits { running_max: 1, waiting_max: 64, waiting_per_source_max: 16 };

/// Handle of a queue; clones refer to the same queue.
#[derive(Clone, Debug)]
pub(super) struct FairQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    running: usize,
    running_max: usize,
    order: Order<oneshot::Sender<Permit>>,
}

impl FairQueue {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits { running_max, waiting_max, waiting_per_source_max } = limits;
        let order = Order::new(waiting_max, waiting_per_source_max);
        Self(Arc::new(Mutex::new(State { running: 0, running_max, order })))
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// Returns [`Busy`] if the queue is full, if the source has its maximum number of waiters, or
    /// if a waiter of another source displaces this waiter.
    pub(super) async fn acquire(&self, address: IpAddr) -> Result<Permit, Busy> {
        let source = source(address);
        let (sender, receiver) = oneshot::channel();
        let ticket = {
            let mut state = self.lock();
            if state.running < state.running_max {
                state.running += 1;
                drop(state);
                return Ok(Permit(self.clone()));
            }
            let entry = state.order.enter(source, sender)?;
            drop(state);
            entry.ticket
            // The displaced waiter, if any, is dropped here, outside of the lock.
        };
        let waiting = QueueEntry { queue: self, source, ticket };
        let permit = receiver.await.map_err(|_| Busy);
        drop(waiting);
        permit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().order.len
    }
}

/// Queue entry of a waiter, removed on drop.
struct QueueEntry<'a> {
    queue: &'a FairQueue,
    source: IpAddr,
    ticket: u64,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let waiter = self.queue.lock().order.leave(self.source, self.ticket);
        drop(waiter);
    }
}

/// Permission to do the work. Dropping the permit passes it to the next waiter.
#[derive(Debug)]
pub(super) struct Permit(FairQueue);

impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.lock();
            let next = state.order.next();
            if next.is_none() {
                state.running = state.running.saturating_sub(1);
            }
            next
        };
        // If the waiter has just been dropped, sending drops the permit, which passes it to the
        // next waiter.
        _ = next.map(|next| next.send(Self(self.0.clone())));
    }
}

/// Waiters, and the order in which their sources receive permits.
#[derive(Debug)]
struct Order<T> {
    by_source: BTreeMap<IpAddr, VecDeque<(u64, T)>>,
    /// Sources with waiters; the source of the next permit comes first.
    waiting_sources: VecDeque<IpAddr>,
    len: usize,
    len_max: usize,
    per_source_max: usize,
    next_ticket: u64,
}

/// Result of [`Order::enter`].
#[derive(Debug)]
struct EnterResult<T> {
    ticket: u64,
    /// Waiter that was removed to admit the new waiter.
    _displaced_waiter: Option<T>,
}

impl<T> Order<T> {
    fn new(len_max: usize, per_source_max: usize) -> Self {
        let by_source = BTreeMap::new();
        let waiting_sources = VecDeque::new();
        Self { by_source, waiting_sources, len: 0, len_max, per_source_max, next_ticket: 0 }
    }

    fn enter(&mut self, source: IpAddr, waiter: T) -> Result<EnterResult<T>, Busy> {
        let waiting = self.by_source.get(&source).map_or(0, VecDeque::len);
        if waiting >= self.per_source_max {
            return Err(Busy);
        }
        let displaced = match self.len < self.len_max {
            true => None,
            false if waiting == 0 => Some(self.displace().ok_or(Busy)?),
            false => return Err(Busy),
        };
        if waiting == 0 {
            self.waiting_sources.push_back(source);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.by_source.entry(source).or_default().push_back((ticket, waiter));
        self.len += 1;
        Ok(EnterResult { ticket, _displaced_waiter: displaced })
    }

    /// Removes the newest waiter of the source with the most waiters, if that source has more than
    /// one.
    fn displace(&mut self) -> Option<T> {
        let waiters = self.by_source.values_mut().max_by_key(|waiters| waiters.len())?;
        if waiters.len() < 2 {
            return None;
        }
        self.len -= 1;
        waiters.pop_back().map(|(_, waiter)| waiter)
    }

    fn leave(&mut self, source: IpAddr, ticket: u64) -> Option<T> {
        let waiters = self.by_source.get_mut(&source)?;
        let index = waiters.iter().position(|(waiting, _)| *waiting == ticket)?;
        let removed_entry = waiters.remove(index);
        let is_last = waiters.is_empty();
        self.len -= 1;
        if is_last {
            self.by_source.remove(&source);
            self.waiting_sources.retain(|waiting| *waiting != source);
        }
        removed_entry.map(|(_, waiter)| waiter)
    }

    fn next(&mut self) -> Option<T> {
        let source = self.waiting_sources.pop_front()?;
        let waiters = self.by_source.get_mut(&source)?;
        let next = waiters.pop_front();
        if waiters.is_empty() {
            self.by_source.remove(&source);
        } else {
            self.waiting_sources.push_back(source);
        }
        self.len -= usize::from(next.is_some());
        next.map(|(_, waiter)| waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    fn at(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn queue(waiting_max: usize, waiting_per_source_max: usize) -> FairQueue {
        FairQueue::new(Limits { running_max: 1, waiting_max, waiting_per_source_max })
    }

    async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
        let poll = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = poll { Some(output) } else { None }
    }

    #[test]
    fn sources_alternate_and_each_source_is_served_in_the_order_of_arrival() {
        let mut order = Order::new(9, 9);
        for (number, waiter) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            order.enter(at(number), waiter).unwrap();
        }
        let service_order: Vec<_> = std::iter::from_fn(|| order.next()).collect();
        assert_eq!(service_order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!((order.len, order.waiting_sources.len(), order.by_source.len()), (0, 0, 0));
    }

    // attack row 116
    #[test]
    fn one_source_has_its_share_of_the_queue_and_a_new_source_displaces_a_second_waiter() {
        let mut order = Order::new(3, 2);
        assert!(order.enter(at(1), "a1").is_ok() && order.enter(at(1), "a2").is_ok());
        assert_eq!(order.enter(at(1), "a3").err(), Some(Busy));
        assert!(order.enter(at(2), "b1").is_ok());
        assert_eq!(order.enter(at(2), "b2").err(), Some(Busy));
        assert_eq!(order.enter(at(3), "c1").unwrap()._displaced_waiter, Some("a2"));
        assert_eq!(order.enter(at(4), "d1").err(), Some(Busy));
        let service_order: Vec<_> = std::iter::from_fn(|| order.next()).collect();
        assert_eq!(service_order, ["a1", "b1", "c1"]);
    }

    // attack row 116
    #[tokio::test]
    async fn a_dropped_waiter_leaves_the_queue_and_gets_no_permit() {
        let queue = queue(64, 64);
        let running = queue.acquire(at(1)).await.unwrap();
        let honest = {
            let dropped_waiters: Vec<_> = (0..32).map(|_| Box::pin(queue.acquire(at(2)))).collect();
            for mut waiter in dropped_waiters {
                assert!(poll_once(waiter.as_mut()).await.is_none());
            }
            assert_eq!(queue.waiting(), 0);
            Box::pin(queue.acquire(at(3)))
        };
        let mut honest = honest;
        assert!(poll_once(honest.as_mut()).await.is_none());
        drop(running);
        assert!(poll_once(honest.as_mut()).await.unwrap().is_ok());
        assert_eq!(queue.lock().running, 0);
    }

    #[tokio::test]
    async fn a_permit_granted_to_a_dropped_waiter_passes_to_the_next_waiter() {
        let queue = queue(64, 64);
        let running = queue.acquire(at(1)).await.unwrap();
        {
            let mut first = pin!(queue.acquire(at(2)));
            assert!(poll_once(first.as_mut()).await.is_none());
            drop(running);
            // The permit has been sent to the waiter, and the waiter is dropped now.
        }
        assert_eq!(queue.lock().running, 0);
        assert!(queue.acquire(at(3)).await.is_ok());
    }

    #[tokio::test]
    async fn a_displaced_waiter_is_refused() {
        let queue = queue(2, 2);
        let _running = queue.acquire(at(1)).await.unwrap();
        let mut waiter = pin!(queue.acquire(at(2)));
        let mut displaced = pin!(queue.acquire(at(2)));
        assert!(poll_once(waiter.as_mut()).await.is_none());
        assert!(poll_once(displaced.as_mut()).await.is_none());
        let mut other = pin!(queue.acquire(at(3)));
        assert!(poll_once(other.as_mut()).await.is_none());
        assert_eq!(poll_once(displaced.as_mut()).await.unwrap().err(), Some(Busy));
        assert!(poll_once(waiter.as_mut()).await.is_none());
    }

    #[tokio::test]
    async fn addresses_of_one_ipv6_network_are_one_source() {
        let queue = queue(8, 1);
        let _running = queue.acquire(at(1)).await.unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut first = pin!(queue.acquire(address("2001:db8::1")));
        assert!(poll_once(first.as_mut()).await.is_none());
        let second = pin!(queue.acquire(address("2001:db8::2")));
        assert_eq!(poll_once(second).await.unwrap().err(), Some(Busy));
    }

    proptest! {
        #[test]
        fn no_source_is_served_twice_before_another_is_served_once(
            entries in prop::collection::vec((0_u8..5, any::<bool>()), 1..80)
        ) {
            let mut order = Order::new(40, 10);
            let mut waiter_count = 0_usize;
            for (number, leaves) in entries {
                let before = order.len;
                let Ok(EnterResult { ticket, _displaced_waiter }) = order.enter(at(number), number) else {
                    prop_assert_eq!(order.len, before);
                    continue;
                };
                waiter_count += usize::from(_displaced_waiter.is_none());
                if leaves {
                    prop_assert_eq!(order.leave(at(number), ticket), Some(number));
                    waiter_count -= 1;
                }
                prop_assert!(order.len <= 40);
            }
            prop_assert_eq!(order.len, waiter_count);
            let mut waiting: Vec<u8> = order.waiting_sources.iter().map(|source| match source {
                IpAddr::V4(address) => address.octets()[3],
                IpAddr::V6(_) => 0,
            }).collect();
            let service_order: Vec<u8> = std::iter::from_fn(|| order.next()).collect();
            prop_assert_eq!(service_order.len(), waiter_count);
            waiting.truncate(service_order.len());
            prop_assert_eq!(&service_order[..waiting.len()], waiting.as_slice());
        }
    }
}
