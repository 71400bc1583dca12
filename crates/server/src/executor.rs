//! Executor for sessions on kernel sockets: one thread, one `epoll_wait`, many tasks.
//!
//! A keystroke costs a session two wakeups: the first reads the socket and writes the terminal, the
//! second reads the terminal and writes the socket. Descriptors are registered once and
//! edge-triggered, so `epoll_wait` reports only new events and does not poll the terminal. Polling
//! the terminal would wait for the kernel thread that copies the echo. The readiness of a
//! descriptor is cached until a call would block.
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
const EVENTS_MAX: usize = 256;
/// Maximum wait in milliseconds; the kernel uses a 32-bit count.
const WAIT_MAX_MS: i64 = 3_600_000;
/// Event data of the eventfd that announces messages.
const WAKEUP_DATA: u64 = u64::MAX;

/// State shared by the tasks of a thread, notified before and after each wait.
pub(super) trait Shared: 'static {
    /// Called before the thread waits for events.
    fn before_wait(&self) {}

    /// Called after a wait.
    fn after_wait(&self) {}
}

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;
type StartTask<W> = Box<dyn FnOnce(&Rc<W>) -> TaskFuture + Send>;

/// Message from another thread to the executor thread.
enum Message<W> {
    StartTask(StartTask<W>),
    Wake(TaskId),
    Stop,
}

/// Identifier of a task: the index of its slot, and the number of earlier tasks in this slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct TaskId {
    slot: usize,
    generation: u32,
}

/// Message queue of the executor thread, and the eventfd that announces messages.
struct Inbox<W> {
    messages: Mutex<Vec<Message<W>>>,
    wakeup: OwnedFd,
}

impl<W> Inbox<W> {
    fn send(&self, message: Message<W>) {
        let mut messages = self.lock();
        messages.push(message);
        if messages.len() == 1 {
            // The write fails only if the eventfd counter is full; then the thread is notified
            // anyway.
            _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Message<W>> {
        _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message<W>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the executor thread, whose tasks share one value of type `W`. Dropping the handle ends
/// the thread and all its tasks.
pub(super) struct Executor<W> {
    inbox: Arc<Inbox<W>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Shared> Executor<W> {
    /// Starts the executor thread, which creates the shared state of its tasks with `share`. The
    /// tasks may also use timers and tasks of `runtime`.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptor or thread can be created.
    pub(super) fn start(
        runtime: Handle,
        share: impl FnOnce(Rc<TaskRegistry>) -> W + Send + 'static,
    ) -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wakeup, EventData::new_u64(WAKEUP_DATA), EventFlags::IN)?;
        let inbox = Arc::new(Inbox { messages: Mutex::default(), wakeup });
        let thread_inbox = Arc::clone(&inbox);
        let thread = std::thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            let _context = runtime.enter();
            let registry = Rc::new(TaskRegistry::new(epoll));
            let shared = Rc::new(share(Rc::clone(&registry)));
            Tasks::new(registry, thread_inbox, shared).run();
        })?;
        Ok(Self { inbox, thread: Some(thread) })
    }

    /// Runs the task created by `start` on the executor thread. Returns its result, or `None` if
    /// the task did not complete.
    pub(super) async fn run<T, F>(
        &self,
        start: impl FnOnce(Rc<W>) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (result, awaited) = oneshot::channel();
        self.inbox.send(Message::StartTask(Box::new(move |shared| {
            let future = start(Rc::clone(shared));
            // Sending fails if the caller no longer waits for the result.
            Box::pin(async move { _ = result.send(future.await) })
        })));
        awaited.await.ok()
    }
}

impl<W> Drop for Executor<W> {
    fn drop(&mut self) {
        self.inbox.send(Message::Stop);
        // A join error means that the thread has panicked, so the thread has ended too.
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
    inbox: Arc<Inbox<W>>,
}

impl<W> Wake for TaskWaker<W> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.inbox.send(Message::Wake(self.id));
    }
}

/// Registered descriptors and timers of all tasks.
#[derive(Debug)]
pub(super) struct TaskRegistry {
    epoll: OwnedFd,
    descriptors: RefCell<Vec<DescriptorState>>,
    free: RefCell<Vec<usize>>,
    timers: RefCell<BTreeSet<(Instant, TaskId)>>,
    /// Task being polled.
    current: Cell<TaskId>,
    budget: Cell<u32>,
}

/// Cached readiness of a descriptor.
#[derive(Clone, Copy, Debug)]
struct DescriptorState {
    task: TaskId,
    generation: u32,
    ready: Ready,
}

impl TaskRegistry {
    fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            descriptors: RefCell::default(),
            free: RefCell::default(),
            timers: RefCell::default(),
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
        let slot = registry.allocate_slot();
        let mut flags = EventFlags::ET;
        for (is_wanted, flag) in [
            (interest.is_readable(), EventFlags::IN | EventFlags::RDHUP),
            (interest.is_writable(), EventFlags::OUT),
            (interest.is_priority(), EventFlags::PRI),
        ] {
            flags.set(flag, is_wanted);
        }
        let event_data = registry.event_data(slot);
        let registered = Registered { owner: Some(owner), registry: Rc::clone(registry), slot };
        epoll::add(&registry.epoll, registered.get_ref(), event_data, flags)?;
        Ok(registered)
    }

    fn allocate_slot(&self) -> usize {
        let mut descriptors = self.descriptors.borrow_mut();
        let task = self.current.get();
        if let Some(slot) = self.free.borrow_mut().pop()
            && let Some(descriptor) = descriptors.get_mut(slot)
        {
            descriptor.task = task;
            descriptor.ready = Ready::EMPTY;
            return slot;
        }
        descriptors.push(DescriptorState { task, generation: 0, ready: Ready::EMPTY });
        descriptors.len() - 1
    }

    fn release_slot(&self, slot: usize) {
        if let Some(descriptor) = self.descriptors.borrow_mut().get_mut(slot) {
            // Late events of the old descriptor carry the old generation and are ignored.
            descriptor.generation = descriptor.generation.wrapping_add(1);
            descriptor.ready = Ready::EMPTY;
        }
        self.free.borrow_mut().push(slot);
    }

    /// Returns the epoll data of a descriptor: its index in the upper 32 bits and its generation in
    /// the lower 32 bits.
    fn event_data(&self, slot: usize) -> EventData {
        let generation =
            self.descriptors.borrow().get(slot).map_or(0, |descriptor| descriptor.generation);
        EventData::new_u64(((slot as u64) << 32) | u64::from(generation))
    }

    /// Records an event of a descriptor and returns its task. Returns `None` for a stale event.
    fn record_event(&self, event: &Event) -> Option<TaskId> {
        let data = event.data.u64();
        let slot = usize::try_from(data >> 32).ok()?;
        let mut descriptors = self.descriptors.borrow_mut();
        let descriptor = descriptors.get_mut(slot)?;
        if u64::from(descriptor.generation) != data & u64::from(u32::MAX) {
            return None;
        }
        descriptor.ready |= ready_of(event.flags);
        Some(descriptor.task)
    }

    fn ready(&self, slot: usize) -> Ready {
        self.descriptors.borrow().get(slot).map_or(Ready::EMPTY, |descriptor| descriptor.ready)
    }

    /// Schedules a poll of the current task at `at`.
    pub(super) fn schedule(&self, at: Instant) {
        self.timers.borrow_mut().insert((at, self.current.get()));
    }

    /// Cancels a poll of the current task at `at`.
    pub(super) fn unschedule(&self, at: Instant) {
        self.timers.borrow_mut().remove(&(at, self.current.get()));
    }

    /// Removes an expired timer and returns its task.
    fn take_expired(&self, now: Instant) -> Option<TaskId> {
        let mut timers = self.timers.borrow_mut();
        let (at, task) = timers.pop_first()?;
        if at > now {
            timers.insert((at, task));
            return None;
        }
        Some(task)
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().first().map(|(at, _)| *at)
    }
}

fn ready_of(flags: EventFlags) -> Ready {
    let mut ready = Ready::EMPTY;
    for (flag, readiness) in [
        (EventFlags::IN, Ready::READABLE),
        (EventFlags::OUT, Ready::WRITABLE),
        (EventFlags::PRI, Ready::PRIORITY),
        (EventFlags::RDHUP, Ready::READ_CLOSED),
        (EventFlags::HUP, Ready::READ_CLOSED | Ready::WRITE_CLOSED),
        (EventFlags::ERR, Ready::ERROR | Ready::READ_CLOSED | Ready::WRITE_CLOSED),
    ] {
        if flags.intersects(flag) {
            ready |= readiness;
        }
    }
    ready
}

/// Returns two sets of readiness flags for `interest`: the flags that end a wait, and the subset
/// that is cleared when a call would block.
fn masks(interest: Interest) -> (Ready, Ready) {
    let mut wait_flags = Ready::EMPTY;
    let mut cleared_flags = Ready::EMPTY;
    for (is_wanted, open_flag, closed_flag) in [
        (interest.is_readable(), Ready::READABLE, Ready::READ_CLOSED),
        (interest.is_writable(), Ready::WRITABLE, Ready::WRITE_CLOSED),
        (interest.is_priority(), Ready::PRIORITY, Ready::EMPTY),
    ] {
        if is_wanted {
            cleared_flags |= open_flag;
            wait_flags |= open_flag | closed_flag;
        }
    }
    (wait_flags, cleared_flags)
}

/// Registered descriptor, deregistered on drop.
#[derive(Debug)]
pub(super) struct Registered<T: AsFd> {
    owner: Option<T>,
    registry: Rc<TaskRegistry>,
    slot: usize,
}

impl<T: AsFd> Registered<T> {
    pub(super) fn get_ref(&self) -> &T {
        self.owner.as_ref().expect("present until into_inner")
    }

    pub(super) fn into_inner(mut self) -> T {
        self.deregister();
        self.owner.take().expect("present until into_inner")
    }

    /// Returns the part of `interest` that the descriptor is ready for.
    pub(super) fn poll_ready(&self, interest: Interest) -> Poll<Ready> {
        let ready = self.registry.ready(self.slot) & masks(interest).0;
        if ready.is_empty() {
            return Poll::Pending;
        }
        match self.registry.budget.get().checked_sub(1) {
            Some(left) => self.registry.budget.set(left),
            // The budget of the task is used up, so other tasks are polled first.
            None => return Poll::Pending,
        }
        Poll::Ready(ready)
    }

    /// Executes `call` if the descriptor is ready for `interest`. If the call would block, clears
    /// the readiness.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let (wanted, cleared) = masks(interest);
        if (self.registry.ready(self.slot) & wanted).is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = call(self.get_ref());
        if matches!(&result, Err(error) if error.kind() == ErrorKind::WouldBlock)
            && let Some(descriptor) = self.registry.descriptors.borrow_mut().get_mut(self.slot)
        {
            descriptor.ready = descriptor.ready - cleared;
        }
        result
    }

    fn deregister(&self) {
        // Remove the registration explicitly, because a duplicate of the descriptor would keep it
        // alive. An error means that the descriptor was never registered or is already closed.
        _ = epoll::delete(&self.registry.epoll, self.get_ref());
        self.registry.release_slot(self.slot);
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if self.owner.is_some() {
            self.deregister();
        }
    }
}

/// A task and its waker.
struct Task {
    future: TaskFuture,
    waker: Waker,
}

/// State of the executor thread.
struct Tasks<W> {
    registry: Rc<TaskRegistry>,
    inbox: Arc<Inbox<W>>,
    shared: Rc<W>,
    tasks: Vec<(u32, Option<Task>)>,
    free: Vec<usize>,
    /// Tasks that have used up their budget.
    over_budget: Vec<TaskId>,
}

impl<W: Shared> Tasks<W> {
    fn new(registry: Rc<TaskRegistry>, inbox: Arc<Inbox<W>>, shared: Rc<W>) -> Self {
        Self {
            registry,
            inbox,
            shared,
            tasks: Vec::new(),
            free: Vec::new(),
            over_budget: Vec::new(),
        }
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let wait_limit = self.wait_limit();
            self.shared.before_wait();
            let wait_result =
                epoll::wait(&self.registry.epoll, spare_capacity(&mut events), wait_limit.as_ref());
            self.shared.after_wait();
            match wait_result {
                Ok(_) | Err(Errno::INTR) => {}
                // With a valid descriptor and buffer no other error is possible.
                Err(_) => return,
            }
            for event in events.drain(..) {
                if event.data.u64() == WAKEUP_DATA {
                    if !self.process_messages() {
                        return;
                    }
                } else if let Some(task) = self.registry.record_event(&event) {
                    self.poll(task);
                }
            }
            for task in std::mem::take(&mut self.over_budget) {
                self.poll(task);
            }
            self.poll_expired_timers();
        }
    }

    /// Returns the maximum wait; `None` means indefinitely.
    fn wait_limit(&self) -> Option<Timespec> {
        if !self.over_budget.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let remaining = self.registry.next_timer()?.saturating_duration_since(Instant::now());
        // The kernel counts whole milliseconds; rounding down would cause a useless early wakeup.
        let milliseconds = i64::try_from(remaining.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
        let milliseconds = milliseconds.min(WAIT_MAX_MS);
        Some(Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 })
    }

    fn poll_expired_timers(&mut self) {
        if self.registry.next_timer().is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(task) = self.registry.take_expired(now) {
            self.poll(task);
        }
    }

    /// Processes messages of other threads. Returns false after a request to stop the thread.
    fn process_messages(&mut self) -> bool {
        for message in self.inbox.take() {
            match message {
                Message::StartTask(start) => self.start_task(start),
                Message::Wake(task) => self.poll(task),
                Message::Stop => return false,
            }
        }
        true
    }

    fn start_task(&mut self, start: StartTask<W>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push((0, None));
            self.tasks.len() - 1
        });
        let Some((generation, task)) = self.tasks.get_mut(slot) else { return };
        let id = TaskId { slot, generation: *generation };
        let waker = Waker::from(Arc::new(TaskWaker { id, inbox: Arc::clone(&self.inbox) }));
        self.registry.current.set(id);
        *task = Some(Task { future: start(&self.shared), waker });
        self.poll(id);
    }

    fn poll(&mut self, id: TaskId) {
        let Some((generation, slot)) = self.tasks.get_mut(id.slot) else { return };
        let Some(task) = slot.as_mut().filter(|_| *generation == id.generation) else { return };
        self.registry.current.set(id);
        self.registry.budget.set(BUDGET);
        let mut context = Context::from_waker(&task.waker);
        // A panic in one session does not affect the others.
        let result = catch_unwind(AssertUnwindSafe(|| task.future.as_mut().poll(&mut context)));
        match result {
            Ok(Poll::Pending) if self.registry.budget.get() == 0 => self.over_budget.push(id),
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) | Err(_) => {
                *generation = generation.wrapping_add(1);
                *slot = None;
                self.free.push(id.slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Descriptor, EventLoop};
    use std::future::poll_fn;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Runs `test` on tokio, with an executor whose tasks share an [`EventLoop`].
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Executor<EventLoop>>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let executor = Executor::start(Handle::current(), EventLoop::Executor).unwrap();
            test(Rc::new(executor)).await;
        });
    }

    fn register(event_loop: &EventLoop, stream: UnixStream) -> Descriptor<OwnedFd> {
        stream.set_nonblocking(true).unwrap();
        event_loop.register(OwnedFd::from(stream), Interest::READABLE).unwrap()
    }

    async fn byte(stream: &Descriptor<OwnedFd>) -> u8 {
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
    fn a_task_is_polled_when_its_descriptor_has_an_event() {
        run(|executor| async move {
            let (local, remote) = UnixStream::pair().unwrap();
            let (begun, has_begun) = oneshot::channel();
            let task = executor.run(|event_loop| async move {
                let stream = register(&event_loop, local);
                begun.send(()).unwrap();
                [byte(&stream).await, byte(&stream).await]
            });
            let remote = async {
                has_begun.await.unwrap();
                rustix::io::write(&remote, b"ab").unwrap();
            };
            assert_eq!(tokio::join!(task, remote).0, Some(*b"ab"));
        });
    }

    #[test]
    fn a_timer_expires_at_its_changed_deadline() {
        run(|executor| async move {
            let task = executor.run(|event_loop| async move {
                let started_at = Instant::now();
                let mut timer = event_loop.timer(started_at + Duration::from_secs(3600));
                timer.set_deadline(None);
                timer.set_deadline(Some(started_at + Duration::from_millis(5)));
                timer.wait_for_expiry().await;
                started_at.elapsed()
            });
            assert!(task.await.unwrap() >= Duration::from_millis(5));
        });
    }

    #[test]
    fn a_task_is_woken_from_another_thread() {
        run(|executor| async move {
            let (sender, receiver) = oneshot::channel();
            let task = executor.run(|_| receiver);
            sender.send(7).unwrap();
            assert_eq!(task.await, Some(Ok(7)));
        });
    }

    #[test]
    fn a_task_that_is_always_ready_does_not_starve_the_others() {
        run(|executor| async move {
            let (local, remote) = UnixStream::pair().unwrap();
            rustix::io::write(&remote, b"x").unwrap();
            let busy = executor.run(|event_loop| async move {
                let stream = register(&event_loop, local);
                loop {
                    // Nothing reads the byte, so the stream stays ready.
                    stream.ready(Interest::READABLE).await.unwrap();
                }
            });
            let other = executor.run(|_| async { 1 });
            tokio::select! {
                () = async { _ = busy.await; } => panic!("the busy task has ended"),
                result = other => assert_eq!(result, Some(1)),
            }
        });
    }

    #[test]
    fn a_panic_in_one_task_does_not_affect_the_others() {
        run(|executor| async move {
            let result =
                executor.run(|_| async { assert!(std::thread::panicking(), "on purpose") });
            assert_eq!(result.await, None);
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
