//! Futures on a round-robin executor: a ring of event flags and futures, which are polled.
//!
//! The waker of a place sets its event flag. A waker may be sent to any thread, so the flags are
//! atomic; this is part of the cost of this control structure.

use super::flags::{PLACES_MAX, Wake, bit, next};
use super::{Ring, SpawnError};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Event flags of a ring of futures, which wakers may set from any thread.
#[derive(Clone, Debug, Default)]
pub struct SharedFlags(Arc<AtomicU64>);

impl Wake for SharedFlags {
    #[inline]
    fn wake(&self, place: usize) {
        // Release: the thread that takes the flag sees all writes made before the wake-up.
        self.0.fetch_or(bit(place), Ordering::Release);
    }
}

impl SharedFlags {
    fn take_next(&self, after: usize) -> Option<usize> {
        let place = next(self.0.load(Ordering::Relaxed), after)?;
        self.0.fetch_and(!bit(place), Ordering::Acquire);
        Some(place)
    }
}

type Place = Pin<Box<dyn Future<Output = ()>>>;

/// A ring of futures.
pub struct Futures<T: 'static> {
    futures: Vec<Option<Place>>,
    wakers: Vec<Waker>,
    flags: SharedFlags,
    lent: Lent<T>,
    /// Place that had the last turn.
    at: usize,
}

/// The lent value; set while a future is polled and has not borrowed it.
type Lent<T> = Rc<Cell<Option<NonNull<T>>>>;

/// Access of a future to its ring and to the lent value.
pub struct Loan<T: 'static> {
    place: usize,
    flags: SharedFlags,
    lent: Lent<T>,
}

/// Waker that sets the flag of one place.
struct Bell {
    flags: SharedFlags,
    place: usize,
}

impl std::task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flags.wake(self.place);
    }
}

impl<T> Default for Futures<T> {
    fn default() -> Self {
        let (futures, wakers) = (Vec::new(), Vec::new());
        let (flags, lent) = (SharedFlags::default(), Lent::default());
        Self { futures, wakers, flags, lent, at: PLACES_MAX - 1 }
    }
}

impl<T> Futures<T> {
    /// Adds the future that `body` returns for its loan, and returns its place. Places are numbered
    /// in the order of the calls.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError::Full`] if the ring has [`PLACES_MAX`] places.
    pub fn spawn<F>(&mut self, body: impl FnOnce(Loan<T>) -> F) -> Result<usize, SpawnError>
    where
        F: Future<Output = ()> + 'static,
    {
        let place = self.futures.len();
        if place >= PLACES_MAX {
            return Err(SpawnError::Full);
        }
        let loan = Loan { place, flags: self.flags.clone(), lent: Rc::clone(&self.lent) };
        self.futures.push(Some(Box::pin(body(loan))));
        self.wakers.push(Arc::new(Bell { flags: self.flags.clone(), place }).into());
        Ok(place)
    }

    fn poll_next(&mut self) -> Option<usize> {
        while let Some(place) = self.flags.take_next(self.at) {
            self.at = place;
            let (Some(slot), Some(waker)) = (self.futures.get_mut(place), self.wakers.get(place))
            else {
                continue;
            };
            // A future that panics is not put back.
            let Some(mut future) = slot.take() else { continue };
            if future.as_mut().poll(&mut Context::from_waker(waker)).is_pending() {
                *slot = Some(future);
            }
            return Some(place);
        }
        None
    }

    /// Lends `lent` for the duration of `call`, and ends the loan even if it panics.
    fn lending<R>(&mut self, lent: &mut T, call: impl FnOnce(&mut Self) -> R) -> R {
        struct Ended<T>(Lent<T>);
        impl<T> Drop for Ended<T> {
            fn drop(&mut self) {
                self.0.set(None);
            }
        }
        self.lent.set(Some(NonNull::from(lent)));
        let _ended = Ended(Rc::clone(&self.lent));
        call(self)
    }
}

impl<T> Wake for Futures<T> {
    fn wake(&self, place: usize) {
        self.flags.wake(place);
    }
}

impl<T> Ring<T> for Futures<T> {
    fn run_one(&mut self, lent: &mut T) -> Option<usize> {
        self.lending(lent, Self::poll_next)
    }

    fn run(&mut self, lent: &mut T) {
        self.lending(lent, |ring| while ring.poll_next().is_some() {});
    }
}

impl<T> Loan<T> {
    /// Calls `call` with the value that the ring's caller lends.
    ///
    /// # Panics
    ///
    /// Panics inside another such call, and while no future is polled: then nothing is lent.
    #[inline]
    pub fn with<R>(&mut self, call: impl FnOnce(&mut T) -> R) -> R {
        let Some(mut pointer) = self.lent.take() else { panic!("it is not lent now") };
        // SAFETY: the pointer was made from the exclusive borrow of the caller of `run`, which
        // lasts as long as the pointer is in the cell. It is taken out of the cell, so no other
        // loan can reach it, and `call` cannot keep it.
        let result = call(unsafe { pointer.as_mut() });
        self.lent.set(Some(pointer));
        result
    }

    /// Yields until the future's own event flag is set and its turn has come.
    pub fn block(&mut self) -> impl Future<Output = ()> + use<T> {
        Block { is_over: false }
    }

    /// Returns the future's own place.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the event flags of the ring.
    #[must_use]
    pub fn flags(&self) -> SharedFlags {
        self.flags.clone()
    }
}

impl<T> Wake for Loan<T> {
    #[inline]
    fn wake(&self, place: usize) {
        self.flags.wake(place);
    }
}

/// A future that is pending once.
struct Block {
    is_over: bool,
}

impl Future for Block {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        let was_over = std::mem::replace(&mut self.is_over, true);
        if was_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<T> fmt::Debug for Futures<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Futures").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Loan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("place", &self.place).finish_non_exhaustive()
    }
}
