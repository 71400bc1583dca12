//! Executor for sessions on kernel sockets: one thread, one `epoll_wait`, many tasks.
//!
//! A keystroke costs a session two wakeups: the socket is read and the terminal written, then the
//! terminal is read and the socket written. Descriptors are registered once and edge-triggered. The
//! wait thus reports only new events and does not poll the terminal, which would block on the
//! kernel thread that moves the echo. The readiness of a descriptor is cached until a call would
//! block.
//!
//! A task is polled when one of its descriptors has an event, when its timer expires, or when its
//! waker is called from any thread. Descriptors need no waker: the registration records the task.
//! After [`BUDGET`] waits that completed immediately, other tasks are polled first.

use os::readiness::OwnsDescriptor;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use tokio::io::{Interest, Ready};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Number of waits of a task that may complete immediately before other tasks are polled.
const BUDGET: u32 = 128;
/// Maximum number of events per wait.
const EVENTS_LEN: usize = 256;
/// Maximum wait in milliseconds; the kernel uses a 32-bit count.
const LIMIT_MS: i64 = 3_600_000;
/// Event data of the eventfd that announces messages.
const BELL: u64 = u64::MAX;

/// State shared by the tasks of a thread, notified before and after each wait.
pub(super) trait Shared: 'static {
    /// Called before the thread waits for events.
    fn waits(&self) {}

    /// Called after a wait.
    fn wakes(&self) {}
}

type Work = Pin<Box<dyn Future<Output = ()>>>;
type Begin<W> = Box<dyn FnOnce(&Rc<W>) -> Work + Send>;

/// Messages from other threads.
enum Mail<W> {
    Begin(Begin<W>),
    Wake(TaskId),
    Stop,
}

/// Index of a task slot, and the number of tasks that used it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct TaskId {
    place: usize,
    generation: u32,
}

/// Message queue of the thread, and the eventfd that announces messages.
struct Mailbox<W> {
    mail: Mutex<Vec<Mail<W>>>,
    bell: OwnedFd,
}

impl<W> Mailbox<W> {
    fn post(&self, mail: Mail<W>) {
        let mut waiting = self.lock();
        waiting.push(mail);
        if waiting.len() == 1 {
            // The write fails only if the counter is full; then the thread is notified anyway.
            _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Mail<W>> {
        _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Mail<W>>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the thread, whose tasks share a `W`. Dropping it ends the thread and all its tasks.
pub(super) struct Executor<W> {
    mailbox: Arc<Mailbox<W>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Shared> Executor<W> {
    /// Starts the thread, which creates the shared state of its tasks with `share`. The tasks may
    /// also use timers and tasks of `runtime`.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no descriptors or threads left.
    pub(super) fn start(
        runtime: Handle,
        share: impl FnOnce(Rc<Registry>) -> W + Send + 'static,
    ) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let mailbox = Arc::new(Mailbox { mail: Mutex::default(), bell });
        let theirs = Arc::clone(&mailbox);
        let thread = std::thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            let _context = runtime.enter();
            let registry = Rc::new(Registry::new(epoll));
            let shared = Rc::new(share(Rc::clone(&registry)));
            Tasks::new(registry, theirs, shared).run();
        })?;
        Ok(Self { mailbox, thread: Some(thread) })
    }

    /// Runs the task created by `begin` on the thread. Returns its result, or `None` if it did not
    /// complete.
    pub(super) async fn run<T, F>(
        &self,
        begin: impl FnOnce(Rc<W>) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (result, awaited) = oneshot::channel();
        self.mailbox.post(Mail::Begin(Box::new(move |shared| {
            let work = begin(Rc::clone(shared));
            // The caller may no longer wait for the result.
            Box::pin(async move { _ = result.send(work.await) })
        })));
        awaited.await.ok()
    }
}

impl<W> Drop for Executor<W> {
    fn drop(&mut self) {
        self.mailbox.post(Mail::Stop);
        // A thread that has panicked has ended too.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<W> std::fmt::Debug for Executor<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// Wakes a task from any thread.
struct TaskWaker<W> {
    id: TaskId,
    mailbox: Arc<Mailbox<W>>,
}

impl<W> Wake for TaskWaker<W> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post(Mail::Wake(self.id));
    }
}

/// Registered descriptors and timers of all tasks.
#[derive(Debug)]
pub(super) struct Registry {
    epoll: OwnedFd,
    descriptors: RefCell<Vec<Descriptor>>,
    free: RefCell<Vec<usize>>,
    alarms: RefCell<BTreeSet<(Instant, TaskId)>>,
    /// Task being polled.
    current: Cell<TaskId>,
    budget: Cell<u32>,
}

/// Cached readiness of a descriptor.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    task: TaskId,
    generation: u32,
    ready: Ready,
}

impl Registry {
    fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            descriptors: RefCell::default(),
            free: RefCell::default(),
            alarms: RefCell::default(),
            current: Cell::default(),
            budget: Cell::new(0),
        }
    }

    /// Registers the descriptor of `owner`: its events cause the current task to be polled.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub(super) fn register<T>(
        registry: &Rc<Self>,
        owner: T,
        interest: Interest,
    ) -> io::Result<Registered<T>>
    where
        T: OwnsDescriptor + AsFd,
    {
        let place = registry.take_place();
        let mut flags = EventFlags::ET;
        for (is_wanted, flag) in [
            (interest.is_readable(), EventFlags::IN | EventFlags::RDHUP),
            (interest.is_writable(), EventFlags::OUT),
            (interest.is_priority(), EventFlags::PRI),
        ] {
            flags.set(flag, is_wanted);
        }
        let data = registry.data(place);
        let registered = Registered { owner: Some(owner), registry: Rc::clone(registry), place };
        epoll::add(&registry.epoll, registered.get_ref(), data, flags)?;
        Ok(registered)
    }

    fn take_place(&self) -> usize {
        let mut descriptors = self.descriptors.borrow_mut();
        let task = self.current.get();
        if let Some(place) = self.free.borrow_mut().pop()
            && let Some(descriptor) = descriptors.get_mut(place)
        {
            (descriptor.task, descriptor.ready) = (task, Ready::EMPTY);
            return place;
        }
        descriptors.push(Descriptor { task, generation: 0, ready: Ready::EMPTY });
        descriptors.len() - 1
    }

    fn give_back(&self, place: usize) {
        if let Some(descriptor) = self.descriptors.borrow_mut().get_mut(place) {
            // Late events of the old descriptor carry the old generation and are ignored.
            descriptor.generation = descriptor.generation.wrapping_add(1);
            descriptor.ready = Ready::EMPTY;
        }
        self.free.borrow_mut().push(place);
    }

    /// Returns the epoll data of a descriptor: its index in the upper 32 bits and its generation in
    /// the lower 32 bits.
    fn data(&self, place: usize) -> EventData {
        let generation = self.descriptors.borrow().get(place).map_or(0, |known| known.generation);
        EventData::new_u64(((place as u64) << 32) | u64::from(generation))
    }

    /// Records an event of a descriptor and returns its task. Returns `None` for a stale event.
    fn take_news(&self, event: &Event) -> Option<TaskId> {
        let data = event.data.u64();
        let place = usize::try_from(data >> 32).ok()?;
        let mut descriptors = self.descriptors.borrow_mut();
        let descriptor = descriptors.get_mut(place)?;
        if u64::from(descriptor.generation) != data & u64::from(u32::MAX) {
            return None;
        }
        descriptor.ready |= ready_of(event.flags);
        Some(descriptor.task)
    }

    fn ready(&self, place: usize) -> Ready {
        self.descriptors.borrow().get(place).map_or(Ready::EMPTY, |known| known.ready)
    }

    /// Schedules a poll of the current task at `at`.
    pub(super) fn wake_at(&self, at: Instant) {
        self.alarms.borrow_mut().insert((at, self.current.get()));
    }

    /// Cancels a poll of the current task at `at`.
    pub(super) fn do_not_wake_at(&self, at: Instant) {
        self.alarms.borrow_mut().remove(&(at, self.current.get()));
    }

    /// Removes an expired timer and returns its task.
    fn rung(&self, now: Instant) -> Option<TaskId> {
        let mut alarms = self.alarms.borrow_mut();
        let (at, task) = alarms.pop_first()?;
        if at > now {
            alarms.insert((at, task));
            return None;
        }
        Some(task)
    }

    fn next_alarm(&self) -> Option<Instant> {
        self.alarms.borrow().first().map(|(at, _)| *at)
    }
}

fn ready_of(flags: EventFlags) -> Ready {
    let mut ready = Ready::EMPTY;
    for (flag, means) in [
        (EventFlags::IN, Ready::READABLE),
        (EventFlags::OUT, Ready::WRITABLE),
        (EventFlags::PRI, Ready::PRIORITY),
        (EventFlags::RDHUP, Ready::READ_CLOSED),
        (EventFlags::HUP, Ready::READ_CLOSED | Ready::WRITE_CLOSED),
        (EventFlags::ERR, Ready::ERROR | Ready::READ_CLOSED | Ready::WRITE_CLOSED),
    ] {
        if flags.intersects(flag) {
            ready |= means;
        }
    }
    ready
}

/// Returns the readiness that ends a wait for `interest`, and the part of it that a blocking call
/// clears.
fn masks(interest: Interest) -> (Ready, Ready) {
    let (mut wanted, mut open) = (Ready::EMPTY, Ready::EMPTY);
    for (is_wanted, is_open, is_closed) in [
        (interest.is_readable(), Ready::READABLE, Ready::READ_CLOSED),
        (interest.is_writable(), Ready::WRITABLE, Ready::WRITE_CLOSED),
        (interest.is_priority(), Ready::PRIORITY, Ready::EMPTY),
    ] {
        if is_wanted {
            open |= is_open;
            wanted |= is_open | is_closed;
        }
    }
    (wanted, open)
}

/// Registered descriptor, deregistered on drop.
#[derive(Debug)]
pub(super) struct Registered<T: AsFd> {
    owner: Option<T>,
    registry: Rc<Registry>,
    place: usize,
}

impl<T: AsFd> Registered<T> {
    pub(super) fn get_ref(&self) -> &T {
        self.owner.as_ref().expect("present until into_inner")
    }

    pub(super) fn into_inner(mut self) -> T {
        self.forget();
        self.owner.take().expect("present until into_inner")
    }

    /// Returns the part of `interest` that the descriptor is ready for.
    pub(super) fn poll_ready(&self, interest: Interest) -> Poll<Ready> {
        let ready = self.registry.ready(self.place) & masks(interest).0;
        if ready.is_empty() {
            return Poll::Pending;
        }
        match self.registry.budget.get().checked_sub(1) {
            Some(left) => self.registry.budget.set(left),
            // The task is polled again after the others.
            None => return Poll::Pending,
        }
        Poll::Ready(ready)
    }

    /// Makes a call if the descriptor is ready for it. A call that would block clears the
    /// readiness.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let (wanted, open) = masks(interest);
        if (self.registry.ready(self.place) & wanted).is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let answer = call(self.get_ref());
        if matches!(&answer, Err(error) if error.kind() == ErrorKind::WouldBlock)
            && let Some(known) = self.registry.descriptors.borrow_mut().get_mut(self.place)
        {
            known.ready = known.ready - open;
        }
        answer
    }

    fn forget(&self) {
        // A duplicate of the descriptor would keep the registration alive. The call fails if it was
        // never added or has been closed elsewhere.
        _ = epoll::delete(&self.registry.epoll, self.get_ref());
        self.registry.give_back(self.place);
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if self.owner.is_some() {
            self.forget();
        }
    }
}

/// A task and its waker.
struct Task {
    work: Work,
    waker: Waker,
}

/// State of the thread.
struct Tasks<W> {
    registry: Rc<Registry>,
    mailbox: Arc<Mailbox<W>>,
    shared: Rc<W>,
    tasks: Vec<(u32, Option<Task>)>,
    free: Vec<usize>,
    /// Tasks that have used up their budget.
    again: Vec<TaskId>,
}

impl<W: Shared> Tasks<W> {
    fn new(registry: Rc<Registry>, mailbox: Arc<Mailbox<W>>, shared: Rc<W>) -> Self {
        Self { registry, mailbox, shared, tasks: Vec::new(), free: Vec::new(), again: Vec::new() }
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_LEN);
        loop {
            let limit = self.limit();
            self.shared.waits();
            let waited =
                epoll::wait(&self.registry.epoll, spare_capacity(&mut events), limit.as_ref());
            self.shared.wakes();
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                // With a valid descriptor and buffer no other error is possible.
                Err(_) => return,
            }
            for event in events.drain(..) {
                if event.data.u64() == BELL {
                    if !self.take_mail() {
                        return;
                    }
                } else if let Some(task) = self.registry.take_news(&event) {
                    self.poll(task);
                }
            }
            for task in std::mem::take(&mut self.again) {
                self.poll(task);
            }
            self.ring();
        }
    }

    /// Returns the maximum wait; `None` means indefinitely.
    fn limit(&self) -> Option<Timespec> {
        if !self.again.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let left = self.registry.next_alarm()?.saturating_duration_since(Instant::now());
        // The kernel counts whole milliseconds; rounding down would cause a useless early wakeup.
        let milliseconds = i64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
        let milliseconds = milliseconds.min(LIMIT_MS);
        Some(Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 })
    }

    fn ring(&mut self) {
        if self.registry.next_alarm().is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(task) = self.registry.rung(now) {
            self.poll(task);
        }
    }

    /// Processes messages of other threads. Returns whether the thread goes on.
    fn take_mail(&mut self) -> bool {
        for mail in self.mailbox.take() {
            match mail {
                Mail::Begin(begin) => self.begin(begin),
                Mail::Wake(task) => self.poll(task),
                Mail::Stop => return false,
            }
        }
        true
    }

    fn begin(&mut self, begin: Begin<W>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.tasks.push((0, None));
            self.tasks.len() - 1
        });
        let Some((generation, task)) = self.tasks.get_mut(place) else { return };
        let id = TaskId { place, generation: *generation };
        let waker = Waker::from(Arc::new(TaskWaker { id, mailbox: Arc::clone(&self.mailbox) }));
        self.registry.current.set(id);
        *task = Some(Task { work: begin(&self.shared), waker });
        self.poll(id);
    }

    fn poll(&mut self, id: TaskId) {
        let Some((generation, place)) = self.tasks.get_mut(id.place) else { return };
        let Some(task) = place.as_mut().filter(|_| *generation == id.generation) else { return };
        self.registry.current.set(id);
        self.registry.budget.set(BUDGET);
        let mut context = Context::from_waker(&task.waker);
        // A panic in one session does not affect the others.
        let polled = catch_unwind(AssertUnwindSafe(|| task.work.as_mut().poll(&mut context)));
        match polled {
            Ok(Poll::Pending) if self.registry.budget.get() == 0 => self.again.push(id),
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) | Err(_) => {
                *generation = generation.wrapping_add(1);
                *place = None;
                self.free.push(id.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::watch::{Waiter, Watched};
    use std::future::poll_fn;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Runs `test` on tokio, with an executor whose tasks share a [`Waiter`].
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Executor<Waiter>>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let executor = Executor::start(Handle::current(), Waiter::Executor).unwrap();
            test(Rc::new(executor)).await;
        });
    }

    fn watched(waiter: &Waiter, stream: UnixStream) -> Watched<OwnedFd> {
        stream.set_nonblocking(true).unwrap();
        waiter.watch(OwnedFd::from(stream), Interest::READABLE).unwrap()
    }

    async fn byte(stream: &Watched<OwnedFd>) -> u8 {
        loop {
            stream.ready(Interest::READABLE).await.unwrap();
            let mut byte = [0];
            let read = |stream: &OwnedFd| Ok(rustix::io::read(stream, &mut byte)?);
            match stream.try_io(Interest::READABLE, read) {
                Ok(_) => return byte[0],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn a_task_goes_on_when_its_descriptor_has_news() {
        run(|executor| async move {
            let (near, far) = UnixStream::pair().unwrap();
            let (begun, has_begun) = oneshot::channel();
            let task = executor.run(|waiter| async move {
                let stream = watched(&waiter, near);
                begun.send(()).unwrap();
                [byte(&stream).await, byte(&stream).await]
            });
            let far = async {
                has_begun.await.unwrap();
                rustix::io::write(&far, b"ab").unwrap();
            };
            assert_eq!(tokio::join!(task, far).0, Some(*b"ab"));
        });
    }

    #[test]
    fn an_alarm_rings_and_can_be_put_off() {
        run(|executor| async move {
            let task = executor.run(|waiter| async move {
                let begun = Instant::now();
                let mut alarm = waiter.alarm(begun + Duration::from_secs(3600));
                alarm.be_in_time_for(None);
                alarm.be_in_time_for(Some(begun + Duration::from_millis(5)));
                alarm.rung().await;
                begun.elapsed()
            });
            assert!(task.await.unwrap() >= Duration::from_millis(5));
        });
    }

    #[test]
    fn a_task_is_woken_from_another_thread() {
        run(|executor| async move {
            let (said, heard) = oneshot::channel();
            let task = executor.run(|_| heard);
            said.send(7).unwrap();
            assert_eq!(task.await, Some(Ok(7)));
        });
    }

    #[test]
    fn a_task_that_always_has_something_to_do_does_not_keep_the_others_from_theirs() {
        run(|executor| async move {
            let (near, far) = UnixStream::pair().unwrap();
            rustix::io::write(&far, b"x").unwrap();
            let busy = executor.run(|waiter| async move {
                let stream = watched(&waiter, near);
                loop {
                    // Nothing reads the byte, so the stream stays ready.
                    stream.ready(Interest::READABLE).await.unwrap();
                }
            });
            let other = executor.run(|_| async { 1 });
            tokio::select! {
                () = async { _ = busy.await; } => panic!("the busy one has ended"),
                one = other => assert_eq!(one, Some(1)),
            }
        });
    }

    #[test]
    fn a_task_that_fails_takes_none_of_the_others_along() {
        run(|executor| async move {
            let failed =
                executor.run(|_| async { assert!(std::thread::panicking(), "on purpose") });
            assert_eq!(failed.await, None);
            assert_eq!(executor.run(|_| async { 1 }).await, Some(1));
        });
    }

    #[test]
    fn the_end_of_the_executor_ends_its_tasks() {
        run(|executor| async move {
            let (held, is_dropped) = oneshot::channel::<()>();
            let task = executor.run(|_| async move {
                let _held = held;
                poll_fn(|_| Poll::<()>::Pending).await;
            });
            let mut task = Box::pin(task);
            assert!(is_pending(task.as_mut()).await);
            drop(task);
            drop(executor);
            assert!(is_dropped.await.is_err());
        });
    }

    async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }
}
