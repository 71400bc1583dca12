//! Tasks whose block routine finds the next one and goes to its stack itself (TM-233 §7.1).

use super::super::swap::{Context, NOWHERE, prepare, swap};
use super::{STACK_LEN, Task, WayOut};
use crate::tasking::SpawnError;
use crate::tasking::flags::{Flags, PLACES_MAX};
use corosensei::stack::DefaultStack;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::abort;
use std::ptr::NonNull;

/// How many turns there are before the processor comes back to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    One,
    All,
}

/// What the tasks and their ring share. Of the two only one runs.
struct Shared<T: 'static> {
    flags: Flags,
    blocks: Vec<ControlBlock<T>>,
    /// Where `run` was left.
    caller: Context,
    lent: Option<NonNull<T>>,
    turns: Turns,
    /// The place that had the last turn.
    at: usize,
    /// The ring is dropped: who blocks unwinds.
    is_ending: bool,
    /// What a task has panicked with.
    panic: Option<Box<dyn Any + Send>>,
}

struct ControlBlock<T: 'static> {
    state: State<T>,
    context: Context,
    /// Freed after the task has ended.
    _stack: DefaultStack,
}

enum State<T: 'static> {
    New(Body<T>),
    Begun,
    Ended,
}

type Body<T> = Box<dyn FnOnce(&mut Task<'_, T>)>;

/// The way from a task to its ring.
pub(super) struct Core<T: 'static>(NonNull<Shared<T>>);

/// A ring of such tasks.
pub(super) struct Direct<T: 'static> {
    core: Core<T>,
}

/// What a task is unwound with when its ring is dropped.
struct End;

impl<T> Direct<T> {
    pub(super) fn new(flags: Flags) -> Self {
        let shared = Shared {
            flags,
            blocks: Vec::new(),
            caller: NOWHERE,
            lent: None,
            turns: Turns::One,
            at: PLACES_MAX - 1,
            is_ending: false,
            panic: None,
        };
        Self { core: Core(NonNull::from(Box::leak(Box::new(shared)))) }
    }

    pub(super) fn spawn(
        &mut self,
        body: impl FnOnce(&mut Task<'_, T>) + 'static,
    ) -> Result<usize, SpawnError> {
        let address = self.core.0.as_ptr().expose_provenance();
        let shared = self.core.shared();
        let place = shared.blocks.len();
        if place >= PLACES_MAX {
            return Err(SpawnError::Full);
        }
        let stack = DefaultStack::new(STACK_LEN).map_err(SpawnError::NoStack)?;
        // SAFETY: the stack is new, and `base` neither returns nor lets a panic out.
        let context = unsafe { prepare(&stack, base::<T>, address) };
        shared.blocks.push(ControlBlock {
            state: State::New(Box::new(body)),
            context,
            _stack: stack,
        });
        Ok(place)
    }

    /// Gives turns, and returns the place that had the last one, if any had.
    pub(super) fn run(&mut self, lent: &mut T, turns: Turns) -> Option<usize> {
        let shared = self.core.shared();
        let place = shared.next()?;
        shared.lent = Some(NonNull::from(lent));
        shared.turns = turns;
        self.enter(place);
        let shared = self.core.shared();
        shared.lent = None;
        let at = shared.at;
        if let Some(panic) = shared.panic.take() {
            resume_unwind(panic);
        }
        Some(at)
    }

    /// Goes to the task at `place`, which has not ended, and returns when the processor comes back.
    fn enter(&mut self, place: usize) {
        let shared = self.core.shared();
        let Some(block) = shared.blocks.get(place) else { return };
        let entered = block.context;
        shared.at = place;
        let left = &raw mut shared.caller;
        // SAFETY: the context was prepared or left by a task that has not ended, and its stack is
        // still there. `caller` is where tasks go back to.
        unsafe { swap(left, entered) };
    }
}

impl<T> Drop for Direct<T> {
    fn drop(&mut self) {
        let count = self.core.shared().blocks.len();
        for place in 0..count {
            let shared = self.core.shared();
            (shared.is_ending, shared.turns) = (true, Turns::One);
            let has_begun =
                shared.blocks.get(place).is_some_and(|block| matches!(block.state, State::Begun));
            if has_begun {
                self.enter(place);
            }
        }
        // SAFETY: it was leaked from a box in `new`, and no task that could reach it runs any more.
        drop(unsafe { Box::from_raw(self.core.0.as_ptr()) });
    }
}

impl<T> Shared<T> {
    /// Takes the flag of the next task that has not ended.
    #[inline]
    fn next(&self) -> Option<usize> {
        while let Some(place) = self.flags.take_next(self.at) {
            let block = self.blocks.get(place);
            if block.is_some_and(|block| !matches!(block.state, State::Ended)) {
                return Some(place);
            }
        }
        None
    }

    /// Returns where a task goes that blocks or ends: to the next task or back to the caller; None
    /// if its own turn is the next.
    #[inline]
    fn way_on(&mut self, own: usize) -> Option<Context> {
        let next = if self.turns == Turns::All { self.next() } else { None };
        let Some(place) = next else { return Some(self.caller) };
        self.at = place;
        let context = self.blocks.get(place).filter(|_| place != own)?.context;
        Some(context)
    }
}

impl<T> Core<T> {
    /// Returns what is shared, for less than the time until the next switch.
    #[expect(clippy::mut_from_ref, reason = "who runs has it alone; nobody keeps it over a switch")]
    fn shared(&self) -> &mut Shared<T> {
        // SAFETY: it exists until the ring is dropped, which unwinds all tasks first. Ring and
        // tasks are of one thread, of which one runs at a time, and none keeps it over a switch.
        unsafe { &mut *self.0.as_ptr() }
    }

    pub(super) fn lent(&self) -> Option<NonNull<T>> {
        self.shared().lent
    }

    #[inline]
    pub(super) fn block(&mut self, own: usize) {
        let shared = self.shared();
        if shared.is_ending {
            // A destructor: nobody waits for what it waits for.
            return;
        }
        if let Some(entered) = shared.way_on(own) {
            let Some(block) = shared.blocks.get_mut(own) else { return };
            let left = &raw mut block.context;
            // SAFETY: `left` is this task's own. `entered` is the caller's, or that of a task that
            // has not ended, and is left before anybody can go there again.
            unsafe { swap(left, entered) };
        }
        if self.shared().is_ending {
            resume_unwind(Box::new(End));
        }
    }
}

/// The base of a task's stack; `address` is that of what it shares with its ring.
unsafe extern "sysv64" fn base<T: 'static>(address: usize) -> ! {
    let shared: *mut Shared<T> = std::ptr::with_exposed_provenance_mut(address);
    let Some(shared) = NonNull::new(shared) else { abort() };
    let core = Core(shared);
    let own = core.shared().at;
    let outcome = {
        let shared = core.shared();
        let body = shared.blocks.get_mut(own).and_then(ControlBlock::begin);
        let flags = shared.flags.clone();
        let way_out = WayOut::Direct(Core(core.0));
        let mut task = Task { place: own, flags, way_out };
        catch_unwind(AssertUnwindSafe(|| body.map(|body| body(&mut task))))
    };
    let shared = core.shared();
    if let Err(panic) = outcome
        && !panic.is::<End>()
    {
        shared.panic = Some(panic);
        // The caller has to hear of it before anybody else runs.
        shared.turns = Turns::One;
    }
    let Some(block) = shared.blocks.get_mut(own) else { abort() };
    block.state = State::Ended;
    let left = &raw mut block.context;
    let entered = shared.way_on(own).unwrap_or(shared.caller);
    // SAFETY: as in `block`; and nobody goes to a task that has ended.
    unsafe { swap(left, entered) };
    abort()
}

impl<T> ControlBlock<T> {
    fn begin(&mut self) -> Option<Body<T>> {
        match std::mem::replace(&mut self.state, State::Begun) {
            State::New(body) => Some(body),
            State::Begun | State::Ended => None,
        }
    }
}
