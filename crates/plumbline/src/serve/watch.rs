//! What a session waits for: descriptors that become ready, and one alarm.
//!
//! Two things can do the waiting. Sessions in TLS and over our own TCP are tasks on tokio. Those
//! in cleartext on a socket of the kernel are tasks of an executor of our own (`executor`), whose
//! wait and wake are one call of the kernel and little beside it. A session cannot tell them
//! apart: here is what differs.

use super::executor::{Registered, Registry, Shared};
use os::readiness::{self, OwnsDescriptor};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{Interest, Ready};
use tokio::time::{Instant, Sleep};

/// Who waits.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    Tokio,
    Executor(Rc<Registry>),
}

impl Shared for Waiter {}

impl Waiter {
    /// Has what `owner` owns waited for, in the task that asks.
    ///
    /// # Errors
    ///
    /// Where there is no memory left, and for what cannot be waited for.
    pub(super) fn watch<T>(&self, owner: T, interest: Interest) -> io::Result<Watched<T>>
    where
        T: OwnsDescriptor + AsFd,
    {
        Ok(match self {
            Self::Tokio => Watched::Tokio(readiness::register(owner, interest)?),
            Self::Executor(registry) => {
                Watched::Own(Registry::register(registry, owner, interest)?)
            }
        })
    }

    /// Returns an alarm that rings at `at`, in the task that asks.
    pub(super) fn alarm(&self, at: Instant) -> Alarm {
        match self {
            Self::Tokio => Alarm::Tokio(Box::pin(tokio::time::sleep_until(at))),
            Self::Executor(registry) => {
                registry.wake_at(at);
                Alarm::Own(Rc::clone(registry), Some(at))
            }
        }
    }
}

/// A descriptor that is waited for, with what is known of it: it is ready until a call has found
/// out that it is not.
#[derive(Debug)]
pub(super) enum Watched<T: OwnsDescriptor + AsFd> {
    Tokio(readiness::Registered<T>),
    Own(Registered<T>),
}

impl<T: OwnsDescriptor + AsFd> Watched<T> {
    pub(super) fn get_ref(&self) -> &T {
        match self {
            Self::Tokio(descriptor) => descriptor.get_ref(),
            Self::Own(registered) => registered.get_ref(),
        }
    }

    /// Ends the watch.
    pub(super) fn into_inner(self) -> T {
        match self {
            Self::Tokio(descriptor) => descriptor.into_inner(),
            Self::Own(registered) => registered.into_inner(),
        }
    }

    /// Waits until the descriptor is ready for some of `interest`. May be dropped.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tokio(descriptor) => Ok(descriptor.ready(interest).await?.ready()),
            Self::Own(registered) => {
                Ok(std::future::poll_fn(|_| registered.poll_ready(interest)).await)
            }
        }
    }

    /// Makes a call if the descriptor is ready for it; one that would block says that it is not.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Tokio(descriptor) => descriptor.try_io(interest, call),
            Self::Own(registered) => registered.try_io(interest, call),
        }
    }

    /// Forgets that the descriptor is ready for `interest`, until it is told anew.
    pub(super) fn clear(&self, interest: Interest) {
        _ = self.try_io(interest, |_| io::Result::<()>::Err(ErrorKind::WouldBlock.into()));
    }
}

/// Rings once, at a moment that can be changed.
#[derive(Debug)]
pub(super) enum Alarm {
    Tokio(Pin<Box<Sleep>>),
    Own(Rc<Registry>, Option<Instant>),
}

impl Alarm {
    /// Has it ring at `due`, if it has rung already or would ring later. It may ring early, never
    /// late: an alarm that is put off is left standing, which costs nothing. Without a moment it may
    /// not ring at all.
    pub(super) fn be_in_time_for(&mut self, due: Option<Instant>) {
        match (self, due) {
            (Self::Tokio(sleep), Some(due)) if due < sleep.deadline() || sleep.is_elapsed() => {
                sleep.as_mut().reset(due);
            }
            (Self::Own(registry, at), Some(due))
                if at.is_none_or(|at| due < at || at <= Instant::now()) =>
            {
                // What stood for later would wake the task for nothing.
                if let Some(at) = at.replace(due) {
                    registry.do_not_wake_at(at);
                }
                registry.wake_at(due);
            }
            (Self::Own(registry, at @ Some(_)), None) => {
                // A wait that has an end costs more than one that has none.
                if let Some(at) = at.take() {
                    registry.do_not_wake_at(at);
                }
            }
            _ => {}
        }
    }

    /// Waits until it rings. One that has rung rings for ever.
    pub(super) async fn rung(&mut self) {
        std::future::poll_fn(|context| self.poll_rung(context)).await;
    }

    fn poll_rung(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tokio(sleep) => sleep.as_mut().poll(context),
            Self::Own(_, Some(at)) if *at <= Instant::now() => Poll::Ready(()),
            Self::Own(..) => Poll::Pending,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Self::Own(registry, Some(at)) = self {
            registry.do_not_wake_at(*at);
        }
    }
}
