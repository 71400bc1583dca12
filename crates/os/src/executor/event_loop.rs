//! Readiness of descriptors, and one timer per session, on either of two event loops: that of
//! tokio, or that of the executor. The types of this module hide the difference from sessions.

use super::registry::{self, TaskRegistry};
use crate::readiness::{self, OwnsDescriptor};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{Interest, Ready};
use tokio::time::{Instant, Sleep};

/// Event loop of a session.
#[derive(Clone, Debug)]
pub struct EventLoop(LoopKind);

#[derive(Clone, Debug)]
enum LoopKind {
    Tokio,
    Executor(Rc<TaskRegistry>),
}

impl EventLoop {
    /// Returns the event loop of the tokio runtime in which the calling task runs.
    #[must_use]
    pub fn tokio() -> Self {
        Self(LoopKind::Tokio)
    }

    pub(super) fn of(registry: Rc<TaskRegistry>) -> Self {
        Self(LoopKind::Executor(registry))
    }

    /// Returns whether the event loop is that of tokio.
    #[must_use]
    pub fn is_tokio(&self) -> bool {
        matches!(self.0, LoopKind::Tokio)
    }

    /// Registers the descriptor of `owner` with the event loop, so that the calling task can wait
    /// for its readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no memory left, or if the descriptor does not support polling.
    pub fn register<T>(&self, owner: T, interest: Interest) -> io::Result<Descriptor<T>>
    where
        T: OwnsDescriptor + AsFd,
    {
        Ok(Descriptor(match &self.0 {
            LoopKind::Tokio => Registration::Tokio(readiness::register(owner, interest)?),
            LoopKind::Executor(registry) => {
                Registration::Executor(TaskRegistry::register(registry, owner, interest)?)
            }
        }))
    }

    /// Returns a timer for the calling task that expires at `at`.
    #[must_use]
    pub fn timer(&self, at: Instant) -> Timer {
        Timer(match &self.0 {
            LoopKind::Tokio => Expiry::Tokio(Box::pin(tokio::time::sleep_until(at))),
            LoopKind::Executor(registry) => {
                registry.schedule(at);
                Expiry::Executor(Rc::clone(registry), Some(at))
            }
        })
    }
}

/// Registered descriptor with its cached readiness: the descriptor counts as ready until a call
/// would block.
#[derive(Debug)]
pub struct Descriptor<T: OwnsDescriptor + AsFd>(Registration<T>);

#[derive(Debug)]
enum Registration<T: OwnsDescriptor + AsFd> {
    Tokio(readiness::Registered<T>),
    Executor(registry::Registered<T>),
}

impl<T: OwnsDescriptor + AsFd> Descriptor<T> {
    /// Returns the owner of the descriptor.
    pub fn get_ref(&self) -> &T {
        match &self.0 {
            Registration::Tokio(descriptor) => descriptor.get_ref(),
            Registration::Executor(registered) => registered.get_ref(),
        }
    }

    /// Deregisters the descriptor and returns its owner.
    pub fn into_inner(self) -> T {
        match self.0 {
            Registration::Tokio(descriptor) => descriptor.into_inner(),
            Registration::Executor(registered) => registered.into_inner(),
        }
    }

    /// Waits until the descriptor is ready for part of `interest`. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the tokio runtime has ended.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match &self.0 {
            Registration::Tokio(descriptor) => Ok(descriptor.ready(interest).await?.ready()),
            Registration::Executor(registered) => {
                Ok(std::future::poll_fn(|_| registered.poll_ready(interest)).await)
            }
        }
    }

    /// Executes `call` if the descriptor is ready for `interest`. If the call would block, clears
    /// the readiness.
    ///
    /// # Errors
    ///
    /// Returns the error of `call`; [`ErrorKind::WouldBlock`] if the descriptor is not ready.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.0 {
            Registration::Tokio(descriptor) => descriptor.try_io(interest, call),
            Registration::Executor(registered) => registered.try_io(interest, call),
        }
    }

    /// Clears the readiness for `interest` until the next event.
    pub fn clear_readiness(&self, interest: Interest) {
        _ = self.try_io(interest, |_| io::Result::<()>::Err(ErrorKind::WouldBlock.into()));
    }
}

/// Timer with one expiry time that can be changed.
#[derive(Debug)]
pub struct Timer(Expiry);

#[derive(Debug)]
enum Expiry {
    Tokio(Pin<Box<Sleep>>),
    Executor(Rc<TaskRegistry>, Option<Instant>),
}

impl Timer {
    /// Ensures that the timer expires at `due` or earlier. A timer that is already set to an
    /// earlier time is not updated. If `due` is `None`, no expiry is required: the timer is
    /// disarmed or keeps its setting.
    pub fn set_deadline(&mut self, due: Option<Instant>) {
        match (&mut self.0, due) {
            (Expiry::Tokio(sleep), Some(due)) if due < sleep.deadline() || sleep.is_elapsed() => {
                sleep.as_mut().reset(due);
            }
            (Expiry::Executor(registry, at), Some(due))
                if at.is_none_or(|at| due < at || at <= Instant::now()) =>
            {
                // The previous, later expiry would wake the task without need.
                if let Some(at) = at.replace(due) {
                    registry.unschedule(at);
                }
                registry.schedule(due);
            }
            (Expiry::Executor(registry, at @ Some(_)), None) => {
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
    pub async fn wait_for_expiry(&mut self) {
        std::future::poll_fn(|context| self.poll_expired(context)).await;
    }

    fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Expiry::Tokio(sleep) => sleep.as_mut().poll(context),
            Expiry::Executor(_, Some(at)) if *at <= Instant::now() => Poll::Ready(()),
            Expiry::Executor(..) => Poll::Pending,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Expiry::Executor(registry, Some(at)) = &self.0 {
            registry.unschedule(*at);
        }
    }
}
