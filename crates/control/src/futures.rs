//! Futures on a round-robin executor: a ring of event flags and futures, which are polled.
//!
//! The waker of a position sets its event flag. A waker may be sent to any thread, so the flags are
//! atomic; this is part of the cost of this control structure.

use crate::flags::{POSITIONS_MAX, Wake, bit, next};
use crate::ring::{Ring, SpawnError};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Event flags of a ring of futures. Wakers may set them from any thread.
#[derive(Clone, Debug, Default)]
pub struct SharedFlags(Arc<AtomicU64>);

impl Wake for SharedFlags {
    #[inline]
    fn wake(&self, position: usize) {
        // Release: the thread that takes the flag sees all writes made before the wake-up.
        self.0.fetch_or(bit(position), Ordering::Release);
    }
}

impl SharedFlags {
    fn take_next(&self, after: usize) -> Option<usize> {
        let position = next(self.0.load(Ordering::Relaxed), after)?;
        self.0.fetch_and(!bit(position), Ordering::Acquire);
        Some(position)
    }
}

type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A ring of futures.
pub struct Futures<T: 'static> {
    futures: Vec<Option<BoxedFuture>>,
    wakers: Vec<Waker>,
    flags: SharedFlags,
    value: ValueCell<T>,
    /// Ring position that had the last turn.
    last_position: usize,
}

/// The shared value of the ring; `None` while no future is polled, and while a future has borrowed
/// the value.
type ValueCell<T> = Rc<Cell<Option<NonNull<T>>>>;

/// Handle with which a future accesses its ring and the shared value.
pub struct FutureHandle<T: 'static> {
    position: usize,
    flags: SharedFlags,
    value: ValueCell<T>,
}

/// Waker that sets the event flag of one ring position.
struct FlagWaker {
    flags: SharedFlags,
    position: usize,
}

impl std::task::Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flags.wake(self.position);
    }
}

impl<T> Default for Futures<T> {
    fn default() -> Self {
        let futures = Vec::new();
        let wakers = Vec::new();
        let flags = SharedFlags::default();
        let value = ValueCell::default();
        Self { futures, wakers, flags, value, last_position: POSITIONS_MAX - 1 }
    }
}

impl<T> Futures<T> {
    /// Adds the future that `body` returns for its handle, and returns its position. Positions are
    /// numbered in the order of the calls.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError::Full`] if the ring has [`POSITIONS_MAX`] positions.
    pub fn spawn<F>(&mut self, body: impl FnOnce(FutureHandle<T>) -> F) -> Result<usize, SpawnError>
    where
        F: Future<Output = ()> + 'static,
    {
        let position = self.futures.len();
        if position >= POSITIONS_MAX {
            return Err(SpawnError::Full);
        }
        let handle =
            FutureHandle { position, flags: self.flags.clone(), value: Rc::clone(&self.value) };
        self.futures.push(Some(Box::pin(body(handle))));
        self.wakers.push(Arc::new(FlagWaker { flags: self.flags.clone(), position }).into());
        Ok(position)
    }

    fn poll_next(&mut self) -> Option<usize> {
        while let Some(position) = self.flags.take_next(self.last_position) {
            self.last_position = position;
            let (Some(slot), Some(waker)) =
                (self.futures.get_mut(position), self.wakers.get(position))
            else {
                continue;
            };
            // A future that panics is not put back.
            let Some(mut future) = slot.take() else { continue };
            if future.as_mut().poll(&mut Context::from_waker(waker)).is_pending() {
                *slot = Some(future);
            }
            return Some(position);
        }
        None
    }

    /// Shares `value` for the duration of `call`, and clears the cell even if it panics.
    fn with_value<R>(&mut self, value: &mut T, call: impl FnOnce(&mut Self) -> R) -> R {
        struct ClearOnDrop<T>(ValueCell<T>);
        impl<T> Drop for ClearOnDrop<T> {
            fn drop(&mut self) {
                self.0.set(None);
            }
        }
        self.value.set(Some(NonNull::from(value)));
        let _clear = ClearOnDrop(Rc::clone(&self.value));
        call(self)
    }
}

impl<T> Wake for Futures<T> {
    fn wake(&self, position: usize) {
        self.flags.wake(position);
    }
}

impl<T> Ring<T> for Futures<T> {
    fn run_one(&mut self, value: &mut T) -> Option<usize> {
        self.with_value(value, Self::poll_next)
    }

    fn run(&mut self, value: &mut T) {
        self.with_value(value, |ring| while ring.poll_next().is_some() {});
    }
}

impl<T> FutureHandle<T> {
    /// Calls `call` with the value that the ring's caller provides.
    ///
    /// # Panics
    ///
    /// Panics if called inside another call of this method, or while no future is polled.
    #[inline]
    pub fn with<R>(&mut self, call: impl FnOnce(&mut T) -> R) -> R {
        let Some(mut pointer) = self.value.take() else {
            panic!("the ring shares no value, or a call has borrowed it")
        };
        // SAFETY: the pointer was made from the exclusive borrow of the caller of `run`, which
        // lasts as long as the pointer is in the cell. It is taken out of the cell, so no other
        // handle can reach it, and `call` cannot keep it.
        let result = call(unsafe { pointer.as_mut() });
        self.value.set(Some(pointer));
        result
    }

    /// Yields until the future's own event flag is set and its turn has come.
    pub fn block(&mut self) -> impl Future<Output = ()> + use<T> {
        Block { is_over: false }
    }

    /// Returns the future's own position.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the event flags of the ring.
    #[must_use]
    pub fn flags(&self) -> SharedFlags {
        self.flags.clone()
    }
}

impl<T> Wake for FutureHandle<T> {
    #[inline]
    fn wake(&self, position: usize) {
        self.flags.wake(position);
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

impl<T> fmt::Debug for FutureHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureHandle").field("position", &self.position).finish_non_exhaustive()
    }
}
