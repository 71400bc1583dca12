//! Waiting for descriptors and deadlines in one thread.
//!
//! A driver that waits for several descriptors asks its engines for the earliest deadline, waits
//! here for a packet, a key or that deadline, and then calls the engines that have something to do.

use crate::clock::Monotonic;
#[cfg(target_os = "linux")]
use crate::epoll::{Epoll, Events};
use crate::timespec;
use net::Instant;
use net::time::Duration;
#[cfg(target_os = "linux")]
use rustix::event::epoll::EventFlags;
use rustix::event::poll;
pub use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Reason for which a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Number of descriptors that are ready; `PollFd::revents` tells which ones.
    Ready(usize),
    /// The deadline has passed.
    Deadline,
}

/// Waits until a descriptor is ready or `clock` reaches `until`; without a deadline, indefinitely.
///
/// If a descriptor is ready when the deadline has passed, the result is [`Wake::Ready`]. A deadline
/// in the past polls without waiting. A signal does not end the wait: its handler must make a
/// descriptor readable instead.
///
/// # Errors
///
/// Returns the error of `ppoll(2)`: too many descriptors, or no memory.
pub fn wait(
    descriptors: &mut [PollFd<'_>],
    clock: &Monotonic,
    until: Option<Instant>,
) -> io::Result<Wake> {
    loop {
        let limit = until.map(|until| timespec(until - clock.now()));
        match poll(descriptors, limit.as_ref()) {
            Ok(0) => return Ok(Wake::Deadline),
            Ok(ready) => return Ok(Wake::Ready(ready)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the events of `wanted` that `descriptor` has now, with hang-ups and errors. Does not
/// wait.
///
/// # Errors
///
/// Returns the error of `ppoll(2)`.
pub fn poll_now(descriptor: impl AsFd, wanted: PollFlags) -> io::Result<PollFlags> {
    let mut descriptors = [PollFd::new(&descriptor, wanted)];
    wait_for(&mut descriptors, Some(Duration::ZERO))?;
    let [descriptor] = descriptors;
    Ok(descriptor.revents())
}

/// Waits until a descriptor is ready, at most for `limit`. A signal starts the wait again. Returns
/// the number of ready descriptors.
pub(crate) fn wait_for(
    descriptors: &mut [PollFd<'_>],
    limit: Option<Duration>,
) -> io::Result<usize> {
    let limit = limit.map(timespec);
    loop {
        match poll(descriptors, limit.as_ref()) {
            Ok(ready) => return Ok(ready),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// An edge-triggered poller based on epoll(7). The poller caches readiness, so the kernel is not
/// queried before every read. Such a query of a terminal would wait for the kernel thread that
/// fills its input buffer.
///
/// A descriptor stays ready from its event until [`Poller::clear`], which the caller must call
/// after reading or writing as much as possible. A hang-up is never cleared.
#[derive(Debug)]
#[cfg(target_os = "linux")]
pub struct Poller {
    epoll: Epoll,
    /// Memory for the events of one wait.
    events: Events,
}

#[cfg(target_os = "linux")]
impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new()?, events: Events::with_capacity(EVENTS_PER_CALL_MAX) })
    }

    /// Watches `descriptor`, which must stay open, for the events `wanted`: IN, OUT and PRI.
    /// Returns its number; numbers are assigned in the order of the calls. A file that cannot be
    /// watched, such as a regular file or /dev/null, is always ready.
    ///
    /// # Errors
    ///
    /// Returns an error if no memory is left.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<usize> {
        self.add(descriptor, flags_for(wanted) | EventFlags::ET)
    }

    /// Watches `descriptor` like [`Self::watch`], but level-triggered: each wait reports it while
    /// it is ready. Use this method for a device that is cheap to poll and that is not read until
    /// it is empty. Clear the readiness of the device before each wait.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::watch`].
    pub fn watch_level(
        &mut self,
        descriptor: BorrowedFd<'_>,
        wanted: PollFlags,
    ) -> io::Result<usize> {
        self.add(descriptor, flags_for(wanted))
    }

    /// Returns a number for a descriptor that is watched only occasionally, with
    /// [`Self::watch_once`].
    pub fn reserve(&mut self) -> usize {
        self.epoll.reserve()
    }

    /// Watches `descriptor` once for the events `wanted`, under a number returned by
    /// [`Self::reserve`]. The first event is reported, immediately if the descriptor is ready now.
    /// Until [`Self::unwatch`] each read or write of the descriptor takes slightly longer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::watch`].
    pub fn watch_once(
        &mut self,
        number: usize,
        descriptor: BorrowedFd<'_>,
        wanted: PollFlags,
    ) -> io::Result<()> {
        self.clear(number, PollFlags::all());
        let flags = flags_for(wanted) | EventFlags::ONESHOT;
        match self.epoll.add(number, descriptor, flags) {
            Err(Errno::EXIST) => Ok(self.epoll.modify(number, descriptor, flags)?),
            Err(Errno::PERM) => {
                self.epoll.set_always_ready(number);
                Ok(())
            }
            added => Ok(added?),
        }
    }

    /// Stops watching a descriptor that was passed to [`Self::watch_once`].
    ///
    /// # Errors
    ///
    /// Returns EBADF if the descriptor is not open.
    pub fn unwatch(&mut self, number: usize, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.clear(number, PollFlags::all());
        match self.epoll.delete(descriptor) {
            // A descriptor that epoll does not support was not registered.
            Err(Errno::NOENT | Errno::PERM) => Ok(()),
            deleted => Ok(deleted?),
        }
    }

    /// Changes the events of a descriptor that was passed to [`Self::watch_level`].
    ///
    /// # Errors
    ///
    /// Returns an error if no memory is left.
    pub fn set_events(
        &mut self,
        number: usize,
        descriptor: BorrowedFd<'_>,
        wanted: PollFlags,
    ) -> io::Result<()> {
        Ok(self.epoll.modify(number, descriptor, flags_for(wanted))?)
    }

    fn add(&mut self, descriptor: BorrowedFd<'_>, flags: EventFlags) -> io::Result<usize> {
        let number = self.epoll.reserve();
        match self.epoll.add(number, descriptor, flags) {
            Ok(()) => {}
            Err(Errno::PERM) => self.epoll.set_always_ready(number),
            Err(error) => {
                self.epoll.release(number);
                return Err(error.into());
            }
        }
        Ok(number)
    }

    /// Returns the cached readiness of a descriptor.
    #[must_use]
    pub fn ready(&self, number: usize) -> PollFlags {
        let events = self.epoll.ready(number);
        let mut ready = PollFlags::empty();
        for (poll, flag) in POLL_TO_EPOLL.into_iter().chain(HANGUP_FLAGS) {
            if events.contains(flag) {
                ready.insert(poll);
            }
        }
        ready
    }

    /// Clears the readiness of a descriptor for `flags`, until the next event. A hang-up is kept.
    pub fn clear(&mut self, number: usize, flags: PollFlags) {
        let mut events = EventFlags::empty();
        for (poll, flag) in POLL_TO_EPOLL {
            events.set(flag, flags.contains(poll));
        }
        events.set(EventFlags::ERR, flags.contains(PollFlags::ERR));
        self.epoll.clear(number, events);
    }

    /// Waits for events, or until `clock` reaches `until`; without a deadline, indefinitely. A
    /// signal does not end the wait.
    ///
    /// # Errors
    ///
    /// Returns the error of `ppoll(2)` or `epoll_wait(2)`.
    pub fn wait(&mut self, clock: &Monotonic, until: Option<Instant>) -> io::Result<Wake> {
        // The timeout of `epoll_wait` is in milliseconds, that of `ppoll` in nanoseconds. Only the
        // last millisecond before the deadline needs both calls; a wait that ends earlier takes one
        // call.
        let count = loop {
            let remaining = until.map(|until| until - clock.now());
            let to_whole_millis = |remaining: Duration| {
                Duration::new(remaining.as_secs(), remaining.subsec_millis() * 1_000_000)
            };
            let millis = remaining.map(to_whole_millis);
            if let Some(remaining) = remaining.filter(|remaining| *remaining > Duration::ZERO)
                && millis == Some(Duration::ZERO)
                && !self.has_events_within(remaining)?
            {
                return Ok(Wake::Deadline);
            }
            match self.epoll.wait(&mut self.events, millis) {
                Ok(()) if self.events.len() > 0 => break self.record_readiness(),
                Ok(()) if remaining == Some(Duration::ZERO) => return Ok(Wake::Deadline),
                Ok(()) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        Ok(Wake::Ready(count))
    }

    /// Waits for events for less than a millisecond. Returns whether events may be pending.
    fn has_events_within(&self, limit: Duration) -> io::Result<bool> {
        let mut descriptors = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timespec(limit))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Caches the readiness in the events; returns the number of events.
    fn record_readiness(&mut self) -> usize {
        let count = self.events.len();
        for event in self.events.drain() {
            self.epoll.record(&event);
        }
        count
    }
}

/// Converts `wanted` to epoll flags; EPOLLRDHUP is always included.
#[cfg(target_os = "linux")]
fn flags_for(wanted: PollFlags) -> EventFlags {
    let mut flags = EventFlags::RDHUP;
    for (poll, flag) in POLL_TO_EPOLL {
        flags.set(flag, wanted.contains(poll));
    }
    flags
}

/// Maximum number of events per call; our own choice.
#[cfg(target_os = "linux")]
const EVENTS_PER_CALL_MAX: usize = 16;

#[cfg(target_os = "linux")]
const POLL_TO_EPOLL: [(PollFlags, EventFlags); 3] = [
    (PollFlags::IN, EventFlags::IN),
    (PollFlags::OUT, EventFlags::OUT),
    (PollFlags::PRI, EventFlags::PRI),
];

/// The peer's shutdown of its sending side counts as a hang-up too: it may arrive with the last
/// data.
#[cfg(target_os = "linux")]
const HANGUP_FLAGS: [(PollFlags, EventFlags); 3] = [
    (PollFlags::HUP, EventFlags::RDHUP),
    (PollFlags::HUP, EventFlags::HUP),
    (PollFlags::ERR, EventFlags::ERR),
];

/// Converts the result of a system call on a non-blocking descriptor: EAGAIN becomes
/// [`Poll::Pending`]. No other interface of the program reports a pending operation as an error.
///
/// Call it where the system call is made. It registers no waker: the caller waits for the readiness
/// of the descriptor.
///
/// # Errors
///
/// Returns every other error of the call.
pub fn would_block_as_pending<T>(result: Result<T, impl Into<io::Error>>) -> Poll<io::Result<T>> {
    match result.map_err(Into::into) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

/// Converts the result of a call that returns `None` if the descriptor is not ready, such as
/// [`Serial::read`](crate::serial::Serial::read), for [`Registered::attempt`].
///
/// # Errors
///
/// Returns the error of the call.
pub fn none_as_pending<T>(result: io::Result<Option<T>>) -> Poll<io::Result<T>> {
    result.transpose().map_or(Poll::Pending, Poll::Ready)
}

/// An object that owns its descriptor.
///
/// # Safety
///
/// The descriptor must stay open and unchanged until the owner is dropped.
pub unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: an `OwnedFd` owns its descriptor and never replaces it.
unsafe impl OwnsDescriptor for OwnedFd {}
// SAFETY: a socket is closed only when it is dropped, and its descriptor cannot be replaced before.
unsafe impl OwnsDescriptor for TcpStream {}
// SAFETY: a listener is closed only when it is dropped, and its descriptor cannot be replaced
// before.
unsafe impl OwnsDescriptor for TcpListener {}
/// A descriptor registered with a tokio runtime, together with its owner.
///
/// It dereferences to a shared [`AsyncFd`]. There is no mutable access to the owner: with it, safe
/// code could replace the owner, and the runtime would keep a registration for a closed descriptor.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (first, second) = std::os::unix::net::UnixStream::pair().unwrap();
/// let registered =
///     plumbline_os::readiness::register(first.into(), tokio::io::Interest::READABLE).unwrap();
/// let first: &std::os::fd::OwnedFd = registered.get_ref();
/// # _ = (first, second);
/// # });
/// ```
///
/// ```compile_fail,E0596
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (first, second) = std::os::unix::net::UnixStream::pair().unwrap();
/// let mut registered =
///     plumbline_os::readiness::register(first.into(), tokio::io::Interest::READABLE).unwrap();
/// *registered.get_mut() = std::os::fd::OwnedFd::from(second);
/// # });
/// ```
#[derive(Debug)]
pub struct Registered<T: OwnsDescriptor>(AsyncFd<T>);

impl<T: OwnsDescriptor> Registered<T> {
    /// Ends the registration and returns the owner.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Clears the readiness for `interest` until the next event.
    pub fn clear_readiness(&self, interest: Interest) {
        _ = self.attempt(interest, |_| Poll::<io::Result<()>>::Pending);
    }

    /// Makes a call that does not wait, unless the descriptor is known not to be ready for
    /// `interest`. If the call is pending, clears the readiness until the next event. No task is
    /// woken: await [`AsyncFd::ready`] before the next attempt.
    ///
    /// # Errors
    ///
    /// Returns the errors of `call`.
    pub fn attempt<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        self.attempt_and_drain(interest, call, |_| false)
    }

    /// Makes a call like [`Self::attempt`]. Also clears the readiness if `has_drained` reports that
    /// the result has drained the descriptor, such as a short read. This saves the caller a further
    /// call that would be pending. An event that occurs during the call is not lost.
    ///
    /// # Errors
    ///
    /// Returns the errors of `call`.
    pub fn attempt_and_drain<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> Poll<io::Result<R>>,
        has_drained: impl FnOnce(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        let mut outcome = Poll::Pending;
        // If the descriptor is not ready, tokio does not call the closure.
        _ = self.0.try_io(interest, |owner| {
            outcome = call(owner);
            match &outcome {
                Poll::Ready(Ok(result)) if !has_drained(result) => Ok(()),
                Poll::Ready(Err(_)) => Ok(()),
                // tokio clears the readiness if the closure returns `WouldBlock`.
                Poll::Ready(Ok(_)) | Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        outcome
    }
}

impl<T: OwnsDescriptor> Deref for Registered<T> {
    type Target = AsyncFd<T>;

    fn deref(&self) -> &AsyncFd<T> {
        &self.0
    }
}

/// Registers the descriptor of `owner` with the tokio runtime of the calling task.
///
/// # Errors
///
/// Returns an error if no descriptors are left, or if the descriptor is of a type that is always
/// ready.
pub fn register<T: OwnsDescriptor>(owner: T, interest: Interest) -> io::Result<Registered<T>> {
    // SAFETY: the owner keeps its descriptor open and unchanged until it is dropped, and nothing
    // replaces the owner: `Registered` lends it only by a shared reference.
    let registered = unsafe { AsyncFd::register_with_interest(owner, interest) };
    registered.map(Registered).map_err(io::Error::from)
}

/// A borrowed descriptor for whose input a tokio runtime waits.
#[derive(Debug)]
pub struct Watched {
    /// A duplicate of the borrowed descriptor, which stays open as long as it is registered.
    descriptor: AsyncFd<OwnedFd>,
}

impl Watched {
    /// Starts to watch `descriptor`; must be called inside a tokio runtime. Returns `None` for a
    /// file that is always ready and cannot be watched: a regular file, /dev/null.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn new(descriptor: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let descriptor = descriptor.try_clone_to_owned()?;
        // SAFETY: the descriptor is owned, so it stays open and unchanged until the drop.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        match watched.map_err(io::Error::from) {
            Ok(descriptor) => Ok(Some(Self { descriptor })),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns `Ready` if new input has arrived since the last `Ready`.
    ///
    /// Input left over by a read is not reported again: read until no input is left.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.descriptor.poll_read_ready(context).map_ok(|mut ready| ready.clear_ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unwrap_ready;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_without_events_lasts_until_its_deadline() {
        let clock = Monotonic::start();
        let until = clock.now() + Duration::from_millis(3);
        assert_eq!(wait(&mut [], &clock, Some(until)).unwrap(), Wake::Deadline);
        assert!(clock.now() >= until);
    }

    #[test]
    fn a_read_without_data_is_pending_and_other_errors_are_errors() {
        let (local, peer) = UnixStream::pair().unwrap();
        local.set_nonblocking(true).unwrap();
        let mut buffer = [0; 8];
        assert!(would_block_as_pending(rustix::io::read(&local, &mut buffer)).is_pending());
        rustix::io::write(&peer, b"abc").unwrap();
        let read = would_block_as_pending(rustix::io::read(&local, &mut buffer));
        assert_eq!(unwrap_ready(read).unwrap(), 3);
        drop(peer);
        let written = would_block_as_pending(rustix::io::write(&local, b"x"));
        assert_eq!(unwrap_ready(written).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    /// Registers one end of a pair of sockets, and waits until the runtime knows that the end has
    /// the data `abc`.
    async fn registered_with_data() -> (Registered<OwnedFd>, UnixStream) {
        let (local, peer) = UnixStream::pair().unwrap();
        local.set_nonblocking(true).unwrap();
        let local = register(local.into(), Interest::READABLE).unwrap();
        rustix::io::write(&peer, b"abc").unwrap();
        local.readable().await.unwrap().retain_ready();
        (local, peer)
    }

    fn read(from: &Registered<OwnedFd>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = |from: &OwnedFd| would_block_as_pending(rustix::io::read(from, buffer));
        from.attempt(Interest::READABLE, read)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn an_attempt_is_repeated_until_it_is_pending() {
        run(async {
            let (local, _peer) = registered_with_data().await;
            let mut buffer = [0; 2];
            assert_eq!(unwrap_ready(read(&local, &mut buffer)).unwrap(), 2);
            assert_eq!(unwrap_ready(read(&local, &mut buffer)).unwrap(), 1);
            assert!(read(&local, &mut buffer).is_pending());
            let mut is_called = false;
            let attempted = local.attempt(Interest::READABLE, |_| {
                is_called = true;
                Poll::Ready(Ok(()))
            });
            assert!(attempted.is_pending() && !is_called, "the readiness is cleared");
        });
    }

    #[test]
    fn an_attempt_that_drains_the_descriptor_returns_its_result_and_clears_the_readiness() {
        run(async {
            let (local, _peer) = registered_with_data().await;
            let call = |_: &OwnedFd| Poll::Ready(Ok(7));
            let drained = local.attempt_and_drain(Interest::READABLE, call, |count| *count == 7);
            assert_eq!(unwrap_ready(drained).unwrap(), 7);
            assert!(read(&local, &mut [0; 2]).is_pending());
        });
    }

    #[test]
    fn a_descriptor_that_is_ready_wins_over_a_deadline_in_the_past() {
        let (local, peer) = UnixStream::pair().unwrap();
        rustix::io::write(&peer, b"x").unwrap();
        let mut descriptors =
            [PollFd::new(&local, PollFlags::IN), PollFd::new(&peer, PollFlags::IN)];
        let wake = wait(&mut descriptors, &Monotonic::start(), Some(Instant::ZERO)).unwrap();
        assert_eq!(wake, Wake::Ready(1));
        assert_eq!(descriptors[0].revents(), PollFlags::IN);
        assert_eq!(descriptors[1].revents(), PollFlags::empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_descriptor_is_ready_from_its_event_until_it_is_cleared() {
        let (local, peer) = UnixStream::pair().unwrap();
        let clock = Monotonic::start();
        let mut poller = Poller::new().unwrap();
        let number = poller.watch(local.as_fd(), PollFlags::IN).unwrap();
        assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
        rustix::io::write(&peer, b"x").unwrap();
        assert_eq!(poller.wait(&clock, None).unwrap(), Wake::Ready(1));
        assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
        assert_eq!(poller.ready(number), PollFlags::IN);
        poller.clear(number, PollFlags::IN);
        assert_eq!(poller.ready(number), PollFlags::empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn readability_and_writability_are_cleared_separately() {
        let (local, peer) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        let number = poller.watch(local.as_fd(), PollFlags::IN | PollFlags::OUT).unwrap();
        rustix::io::write(&peer, b"x").unwrap();
        poller.wait(&Monotonic::start(), None).unwrap();
        assert_eq!(poller.ready(number), PollFlags::IN | PollFlags::OUT);
        poller.clear(number, PollFlags::IN);
        assert_eq!(poller.ready(number), PollFlags::OUT);
        poller.clear(number, PollFlags::OUT);
        assert_eq!(poller.ready(number), PollFlags::empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_level_triggered_descriptor_is_reported_until_it_is_read() {
        let (local, peer) = UnixStream::pair().unwrap();
        let clock = Monotonic::start();
        let mut poller = Poller::new().unwrap();
        let number = poller.watch_level(local.as_fd(), PollFlags::IN).unwrap();
        rustix::io::write(&peer, b"x").unwrap();
        for _ in 0..2 {
            poller.clear(number, PollFlags::IN);
            assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Ready(1));
            assert_eq!(poller.ready(number), PollFlags::IN);
        }
        rustix::io::read(&local, &mut [0; 1]).unwrap();
        assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
        poller.set_events(number, local.as_fd(), PollFlags::OUT).unwrap();
        poller.clear(number, PollFlags::IN);
        poller.wait(&clock, None).unwrap();
        assert_eq!(poller.ready(number), PollFlags::OUT);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_one_shot_descriptor_is_reported_once_each_time_and_not_after_unwatch() {
        let (local, _peer) = UnixStream::pair().unwrap();
        let clock = Monotonic::start();
        let mut poller = Poller::new().unwrap();
        let number = poller.reserve();
        assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
        for _ in 0..2 {
            poller.watch_once(number, local.as_fd(), PollFlags::OUT).unwrap();
            assert_eq!(poller.ready(number), PollFlags::empty());
            assert_eq!(poller.wait(&clock, None).unwrap(), Wake::Ready(1));
            assert_eq!(poller.ready(number), PollFlags::OUT);
            assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
        }
        poller.watch_once(number, local.as_fd(), PollFlags::OUT).unwrap();
        for _ in 0..2 {
            poller.unwatch(number, local.as_fd()).unwrap();
            assert_eq!(poller.wait(&clock, Some(Instant::ZERO)).unwrap(), Wake::Deadline);
            assert_eq!(poller.ready(number), PollFlags::empty());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_is_watched_once_is_always_ready() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let mut poller = Poller::new().unwrap();
        let number = poller.reserve();
        poller.watch_once(number, file.as_fd(), PollFlags::OUT).unwrap();
        assert!(poller.ready(number).contains(PollFlags::OUT));
        poller.unwatch(number, file.as_fd()).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_poller_wait_lasts_at_least_until_its_deadline() {
        let clock = Monotonic::start();
        let mut poller = Poller::new().unwrap();
        for micros in [0, 300, 3_400] {
            let until = clock.now() + Duration::from_micros(micros);
            assert_eq!(poller.wait(&clock, Some(until)).unwrap(), Wake::Deadline);
            assert!(clock.now() >= until);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_hang_up_that_arrived_with_the_last_data_is_not_cleared_with_it() {
        let (local, peer) = UnixStream::pair().unwrap();
        let clock = Monotonic::start();
        let mut poller = Poller::new().unwrap();
        let number = poller.watch(local.as_fd(), PollFlags::IN).unwrap();
        rustix::io::write(&peer, b"x").unwrap();
        drop(peer);
        assert_eq!(poller.wait(&clock, None).unwrap(), Wake::Ready(1));
        poller.clear(number, PollFlags::IN | PollFlags::HUP);
        assert_eq!(poller.ready(number), PollFlags::HUP);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_regular_file_is_always_ready() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut poller = Poller::new().unwrap();
        let number = poller.watch(file.as_fd(), PollFlags::IN).unwrap();
        poller.clear(number, PollFlags::IN);
        assert!(poller.ready(number).contains(PollFlags::IN));
    }

    #[test]
    fn a_watched_descriptor_is_reported_once_and_a_regular_file_cannot_be_watched() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (local, peer) = UnixStream::pair().unwrap();
            let watched = Watched::new(local.as_fd()).unwrap().unwrap();
            rustix::io::write(&peer, b"x").unwrap();
            std::future::poll_fn(|context| watched.poll_ready(context)).await.unwrap();
            let second = std::future::poll_fn(|context| Poll::Ready(watched.poll_ready(context)));
            assert!(second.await.is_pending());
            let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            assert!(Watched::new(file.as_fd()).unwrap().is_none());
        });
    }
}
