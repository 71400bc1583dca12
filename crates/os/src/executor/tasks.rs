//! Tasks of the executor thread, and the loop that polls them.

use super::inbox::{Inbox, Message, StartTask, TaskFuture, TaskWaker};
use super::registry::{EventSource, TaskId, TaskRegistry};
use crate::epoll::Events;
use net::time::Duration;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// Maximum number of events per wait.
const EVENTS_MAX: usize = 256;
/// Maximum wait in milliseconds; the kernel uses a 32-bit count.
const WAIT_MAX_MS: u64 = 3_600_000;

/// State shared by the tasks of a thread, notified before and after each wait.
pub trait WaitObserver: 'static {
    /// Called before the thread waits for events.
    fn before_wait(&self) {}

    /// Called after a wait.
    fn after_wait(&self) {}
}

/// A task and its waker.
struct Task {
    future: TaskFuture,
    waker: Waker,
}

/// State of the executor thread.
pub(super) struct Tasks<W> {
    registry: Rc<TaskRegistry>,
    inbox: Arc<Inbox<W>>,
    shared: Rc<W>,
    tasks: Vec<(u32, Option<Task>)>,
    free: Vec<usize>,
    /// Tasks that have used up their budget.
    over_budget: Vec<TaskId>,
}

impl<W: WaitObserver> Tasks<W> {
    pub(super) fn new(registry: Rc<TaskRegistry>, inbox: Arc<Inbox<W>>, shared: Rc<W>) -> Self {
        Self {
            registry,
            inbox,
            shared,
            tasks: Vec::new(),
            free: Vec::new(),
            over_budget: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let wait_limit = self.wait_limit();
            self.shared.before_wait();
            let wait_result = self.registry.wait(&mut events, wait_limit);
            self.shared.after_wait();
            match wait_result {
                Ok(()) | Err(Errno::INTR) => {}
                // With a valid descriptor and buffer no other error is possible.
                Err(_) => return,
            }
            for event in events.drain() {
                match self.registry.record_event(&event) {
                    Some(EventSource::Inbox) if !self.process_messages() => return,
                    Some(EventSource::Task(task)) => self.poll(task),
                    Some(EventSource::Inbox) | None => {}
                }
            }
            for task in std::mem::take(&mut self.over_budget) {
                self.poll(task);
            }
            self.poll_expired_timers();
        }
    }

    /// Returns the maximum wait; `None` means indefinitely.
    fn wait_limit(&self) -> Option<Duration> {
        if !self.over_budget.is_empty() {
            return Some(Duration::ZERO);
        }
        let remaining = self.registry.next_timer()?.saturating_duration_since(Instant::now());
        // The kernel counts whole milliseconds; rounding down would cause a useless early wakeup.
        let milliseconds = u64::try_from(remaining.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Some(Duration::from_millis(milliseconds.min(WAIT_MAX_MS)))
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
        self.registry.set_current(id);
        *task = Some(Task { future: start(&self.shared), waker });
        self.poll(id);
    }

    fn poll(&mut self, id: TaskId) {
        let Some((generation, slot)) = self.tasks.get_mut(id.slot) else { return };
        let Some(task) = slot.as_mut().filter(|_| *generation == id.generation) else { return };
        self.registry.set_current(id);
        self.registry.reset_budget();
        let mut context = Context::from_waker(&task.waker);
        // A panic in one session does not affect the others.
        let result = catch_unwind(AssertUnwindSafe(|| task.future.as_mut().poll(&mut context)));
        match result {
            Ok(Poll::Pending) if self.registry.is_budget_used_up() => self.over_budget.push(id),
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) | Err(_) => {
                *generation = generation.wrapping_add(1);
                *slot = None;
                self.free.push(id.slot);
            }
        }
    }
}
