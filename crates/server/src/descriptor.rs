//! Readiness of descriptors, and one timer per session, on either of two event loops.
//!
//! Sessions in TLS and over the user-space TCP are tasks on tokio. Cleartext sessions on kernel
//! sockets are tasks of the `executor`, whose wakeup costs one system call and little else. The
//! types of this module hide the difference from sessions.

use super::executor::{Registered, Shared, TaskRegistry};
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
pub(super) enum EventLoop {
    Tokio,
    Executor(Rc<TaskRegistry>),
}

impl Shared for EventLoop {}

impl EventLoop {
    /// Registers the descriptor of `owner` with the event loop, so that the calling task can wait
    /// for its readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no memory left, or if the descriptor does not support polling.
    pub(super) fn register<T>(&self, owner: T, interest: Interest) -> io::Result<Descriptor<T>>
    where
        T: OwnsDescriptor + AsFd,
    {
        Ok(match self {
            Self::Tokio => Descriptor::Tokio(readiness::register(owner, interest)?),
            Self::Executor(registry) => {
                Descriptor::Executor(TaskRegistry::register(registry, owner, interest)?)
            }
        })
    }

    /// Returns a timer for the calling task that expires at `at`.
    pub(super) fn timer(&self, at: Instant) -> Timer {
        match self {
            Self::Tokio => Timer::Tokio(Box::pin(tokio::time::sleep_until(at))),
            Self::Executor(registry) => {
                registry.schedule(at);
                Timer::Executor(Rc::clone(registry), Some(at))
            }
        }
    }
}

/// Registered descriptor with its cached readiness: the descriptor counts as ready until a call
/// would block.
#[derive(Debug)]
pub(super) enum Descriptor<T: OwnsDescriptor + AsFd> {
    Tokio(readiness::Registered<T>),
    Executor(Registered<T>),
}

impl<T: OwnsDescriptor + AsFd> Descriptor<T> {
    pub(super) fn get_ref(&self) -> &T {
        match self {
            Self::Tokio(descriptor) => descriptor.get_ref(),
            Self::Executor(registered) => registered.get_ref(),
        }
    }

    /// Deregisters the descriptor and returns its owner.
    pub(super) fn into_inner(self) -> T {
        match self {
            Self::Tokio(descriptor) => descriptor.into_inner(),
            Self::Executor(registered) => registered.into_inner(),
        }
    }

    /// Waits until the descriptor is ready for part of `interest`. Cancel safe.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tokio(descriptor) => Ok(descriptor.ready(interest).await?.ready()),
            Self::Executor(registered) => {
                Ok(std::future::poll_fn(|_| registered.poll_ready(interest)).await)
            }
        }
    }

    /// Executes `call` if the descriptor is ready for `interest`. If the call would block, clears
    /// the readiness.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Tokio(descriptor) => descriptor.try_io(interest, call),
            Self::Executor(registered) => registered.try_io(interest, call),
        }
    }

    /// Clears the readiness for `interest` until the next event.
    pub(super) fn clear_readiness(&self, interest: Interest) {
        _ = self.try_io(interest, |_| io::Result::<()>::Err(ErrorKind::WouldBlock.into()));
    }
}

/// Timer with one expiry time that can be changed.
#[derive(Debug)]
pub(super) enum Timer {
    Tokio(Pin<Box<Sleep>>),
    Executor(Rc<TaskRegistry>, Option<Instant>),
}

impl Timer {
    /// Ensures that the timer expires at `due` or earlier. A timer that is already set to an
    /// earlier time is not updated. If `due` is `None`, no expiry is required: the timer is
    /// disarmed or keeps its setting.
    pub(super) fn set_deadline(&mut self, due: Option<Instant>) {
        match (self, due) {
            (Self::Tokio(sleep), Some(due)) if due < sleep.deadline() || sleep.is_elapsed() => {
                sleep.as_mut().reset(due);
            }
            (Self::Executor(registry, at), Some(due))
                if at.is_none_or(|at| due < at || at <= Instant::now()) =>
            {
                // The previous, later expiry would wake the task without need.
                if let Some(at) = at.replace(due) {
                    registry.unschedule(at);
                }
                registry.schedule(due);
            }
            (Self::Executor(registry, at @ Some(_)), None) => {
                // Remove the timer, because `epoll_wait` costs more with a timeout than without
                // one.
                if let Some(at) = at.take() {
                    registry.unschedule(at);
                }
            }
            _ => {}
        }
    }

    /// Waits until the timer expires. An expired timer stays ready.
    pub(super) async fn wait_for_expiry(&mut self) {
        std::future::poll_fn(|context| self.poll_expired(context)).await;
    }

    fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tokio(sleep) => sleep.as_mut().poll(context),
            Self::Executor(_, Some(at)) if *at <= Instant::now() => Poll::Ready(()),
            Self::Executor(..) => Poll::Pending,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Self::Executor(registry, Some(at)) = self {
            registry.unschedule(*at);
        }
    }
}
