//! Readiness of descriptors, and one timer per session, on either of two event loops.
//!
//! Sessions in TLS and over the user-space TCP are tasks on tokio. Cleartext sessions on kernel
//! sockets are tasks of the `executor`, whose wakeup costs one system call and little else. The
//! types of this module hide the difference from sessions.

use super::executor::{Registered, Registry, Shared};
use os::readiness::{self, OwnsDescriptor};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{Interest, Ready};
use tokio::time::{Instant, Sleep};

/// Event loop of a session.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    Tokio,
    Executor(Rc<Registry>),
}

impl Shared for Waiter {}

impl Waiter {
    /// Registers the descriptor of `owner`, to be awaited by the calling task.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no memory left, or if the descriptor does not support polling.
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

    /// Returns a timer for the calling task that expires at `at`.
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

/// Registered descriptor with its cached readiness: it counts as ready until a call would block.
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

    /// Deregisters the descriptor and returns its owner.
    pub(super) fn into_inner(self) -> T {
        match self {
            Self::Tokio(descriptor) => descriptor.into_inner(),
            Self::Own(registered) => registered.into_inner(),
        }
    }

    /// Waits until the descriptor is ready for part of `interest`. Cancel safe.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tokio(descriptor) => Ok(descriptor.ready(interest).await?.ready()),
            Self::Own(registered) => {
                Ok(std::future::poll_fn(|_| registered.poll_ready(interest)).await)
            }
        }
    }

    /// Makes a call if the descriptor is ready for it. A call that would block clears the
    /// readiness.
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

    /// Clears the readiness for `interest` until the next event.
    pub(super) fn clear(&self, interest: Interest) {
        _ = self.try_io(interest, |_| io::Result::<()>::Err(ErrorKind::WouldBlock.into()));
    }
}

/// Timer with one expiry time that can be changed.
#[derive(Debug)]
pub(super) enum Alarm {
    Tokio(Pin<Box<Sleep>>),
    Own(Rc<Registry>, Option<Instant>),
}

impl Alarm {
    /// Ensures that the timer expires no later than `due`. It may expire earlier: a later `due`
    /// leaves the timer unchanged, which costs nothing. Without `due` it may not expire at all.
    pub(super) fn be_in_time_for(&mut self, due: Option<Instant>) {
        match (self, due) {
            (Self::Tokio(sleep), Some(due)) if due < sleep.deadline() || sleep.is_elapsed() => {
                sleep.as_mut().reset(due);
            }
            (Self::Own(registry, at), Some(due))
                if at.is_none_or(|at| due < at || at <= Instant::now()) =>
            {
                // The previous, later expiry would wake the task for nothing.
                if let Some(at) = at.replace(due) {
                    registry.do_not_wake_at(at);
                }
                registry.wake_at(due);
            }
            (Self::Own(registry, at @ Some(_)), None) => {
                // `epoll_wait` with a timeout costs more than without one.
                if let Some(at) = at.take() {
                    registry.do_not_wake_at(at);
                }
            }
            _ => {}
        }
    }

    /// Waits until the timer expires. An expired timer stays ready.
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
