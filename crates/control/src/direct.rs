//! Tasks whose block routine itself selects the next task and switches to its stack (TM-233 §7.1).

use crate::flags::{Flags, POSITIONS_MAX};
use crate::ring::SpawnError;
use crate::stack;
use crate::swap::{Context, INVALID_CONTEXT, prepare, swap};
use corosensei::stack::DefaultStack;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::abort;
use std::ptr::NonNull;

/// Number of turns before control returns to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    One,
    All,
}

/// State shared by the tasks and their ring. Only one of them runs at a time.
struct Shared<T: 'static> {
    flags: Flags,
    blocks: Vec<ControlBlock<T>>,
    /// Context of the caller of [`Direct::run`].
    caller: Context,
    value: Option<NonNull<T>>,
    turns: Turns,
    /// Ring position that had the last turn.
    last_position: usize,
    /// True if the ring is being dropped: a task that blocks is then unwound.
    is_dropping: bool,
    /// Payload of a task's panic.
    panic: Option<Box<dyn Any + Send>>,
}

struct ControlBlock<T: 'static> {
    state: State<T>,
    context: Context,
    /// Stack of the task, freed after the task has ended.
    _stack: DefaultStack,
}

enum State<T: 'static> {
    NotStarted(Body<T>),
    Started,
    Finished,
}

/// The body of a task. It is called with its position and the state of its ring.
type Body<T> = Box<dyn FnOnce(usize, Core<T>)>;

/// Pointer from a task to the state of its ring.
pub(super) struct Core<T: 'static>(NonNull<Shared<T>>);

/// A ring of tasks with direct switches.
pub(super) struct Direct<T: 'static> {
    core: Core<T>,
}

/// Panic payload that unwinds a task when its ring is dropped.
struct End;

impl<T> Direct<T> {
    pub(super) fn new(flags: Flags) -> Self {
        let shared = Shared {
            flags,
            blocks: Vec::new(),
            caller: INVALID_CONTEXT,
            value: None,
            turns: Turns::One,
            last_position: POSITIONS_MAX - 1,
            is_dropping: false,
            panic: None,
        };
        Self { core: Core(NonNull::from(Box::leak(Box::new(shared)))) }
    }

    pub(super) fn spawn(
        &mut self,
        body: impl FnOnce(usize, Core<T>) + 'static,
    ) -> Result<usize, SpawnError> {
        let address = self.core.0.as_ptr().expose_provenance();
        let shared = self.core.shared();
        let position = shared.blocks.len();
        if position >= POSITIONS_MAX {
            return Err(SpawnError::Full);
        }
        let stack = stack::allocate()?;
        // SAFETY: the stack is new, and `base` neither returns nor lets a panic escape.
        let context = unsafe { prepare(&stack, base::<T>, address) };
        shared.blocks.push(ControlBlock {
            state: State::NotStarted(Box::new(body)),
            context,
            _stack: stack,
        });
        Ok(position)
    }

    /// Gives turns to tasks, and returns the position that had the last one, if any.
    pub(super) fn run(&mut self, value: &mut T, turns: Turns) -> Option<usize> {
        let shared = self.core.shared();
        let position = shared.next()?;
        shared.value = Some(NonNull::from(value));
        shared.turns = turns;
        self.enter(position);
        let shared = self.core.shared();
        shared.value = None;
        let last_position = shared.last_position;
        if let Some(panic) = shared.panic.take() {
            resume_unwind(panic);
        }
        Some(last_position)
    }

    /// Switches to the task at `position`, which must not have ended, and returns when the task
    /// switches back.
    fn enter(&mut self, position: usize) {
        let shared = self.core.shared();
        let Some(block) = shared.blocks.get(position) else { return };
        let next_context = block.context;
        shared.last_position = position;
        let saved_context = &raw mut shared.caller;
        // SAFETY: the context was prepared, or left by a task that has not ended, and its stack
        // still exists. `caller` is the context to which tasks return.
        unsafe { swap(saved_context, next_context) };
    }
}

impl<T> Drop for Direct<T> {
    fn drop(&mut self) {
        let count = self.core.shared().blocks.len();
        for position in 0..count {
            let shared = self.core.shared();
            shared.is_dropping = true;
            shared.turns = Turns::One;
            let has_begun =
                shared.blocks.get(position).is_some_and(|b| matches!(b.state, State::Started));
            if has_begun {
                self.enter(position);
            }
        }
        // SAFETY: the pointer was leaked from a box in `new`, and no task that could use it runs
        // any more.
        drop(unsafe { Box::from_raw(self.core.0.as_ptr()) });
    }
}

impl<T> Shared<T> {
    /// Returns the next flagged task that has not ended, and clears its flag.
    #[inline]
    fn next(&self) -> Option<usize> {
        while let Some(position) = self.flags.take_next(self.last_position) {
            let block = self.blocks.get(position);
            if block.is_some_and(|block| !matches!(block.state, State::Finished)) {
                return Some(position);
            }
        }
        None
    }

    /// Returns the context to switch to when the task at position `own` blocks or ends: that of the
    /// next task or of the caller. Returns `None` if `own` itself has the next turn.
    #[inline]
    fn next_context(&mut self, own: usize) -> Option<Context> {
        let next = if self.turns == Turns::All { self.next() } else { None };
        let Some(position) = next else { return Some(self.caller) };
        self.last_position = position;
        let context = self.blocks.get(position).filter(|_| position != own)?.context;
        Some(context)
    }
}

impl<T> Core<T> {
    /// Returns the shared state, which must not be held across a switch.
    #[expect(
        clippy::mut_from_ref,
        reason = "the running task has exclusive access and keeps no reference over a switch"
    )]
    fn shared(&self) -> &mut Shared<T> {
        // SAFETY: the state exists until the ring is dropped, which unwinds all tasks first. Ring
        // and tasks run on one thread, one at a time, and none holds the reference across a switch.
        unsafe { &mut *self.0.as_ptr() }
    }

    pub(super) fn value(&self) -> Option<NonNull<T>> {
        self.shared().value
    }

    #[inline]
    pub(super) fn block(&mut self, own: usize) {
        let shared = self.shared();
        if shared.is_dropping {
            // A destructor of an unwinding task called `block`. It must not wait, because no task
            // would wake it.
            return;
        }
        if let Some(entered) = shared.next_context(own) {
            let Some(block) = shared.blocks.get_mut(own) else { return };
            let left = &raw mut block.context;
            // SAFETY: `left` is this task's own context. `entered` is that of the caller, or of a
            // task that has not ended, and is replaced before it can be entered again.
            unsafe { swap(left, entered) };
        }
        if self.shared().is_dropping {
            resume_unwind(Box::new(End));
        }
    }
}

/// Entry function at the base of a task's stack; `address` is that of the state shared with its
/// ring.
unsafe extern "sysv64" fn base<T: 'static>(address: usize) -> ! {
    let shared: *mut Shared<T> = std::ptr::with_exposed_provenance_mut(address);
    let Some(shared) = NonNull::new(shared) else { abort() };
    let core = Core(shared);
    let own = core.shared().last_position;
    let outcome = {
        let shared = core.shared();
        let body = shared.blocks.get_mut(own).and_then(ControlBlock::begin);
        let task_core = Core(core.0);
        catch_unwind(AssertUnwindSafe(|| body.map(|body| body(own, task_core))))
    };
    let shared = core.shared();
    if let Err(panic) = outcome
        && !panic.is::<End>()
    {
        shared.panic = Some(panic);
        // Return to the caller, which must see the panic before another task runs.
        shared.turns = Turns::One;
    }
    let Some(block) = shared.blocks.get_mut(own) else { abort() };
    block.state = State::Finished;
    let left = &raw mut block.context;
    let entered = shared.next_context(own).unwrap_or(shared.caller);
    // SAFETY: as in `block`; in addition, a task that has ended is never entered again.
    unsafe { swap(left, entered) };
    abort()
}

impl<T> ControlBlock<T> {
    fn begin(&mut self) -> Option<Body<T>> {
        match std::mem::replace(&mut self.state, State::Started) {
            State::NotStarted(body) => Some(body),
            State::Started | State::Finished => None,
        }
    }
}
