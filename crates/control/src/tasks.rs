//! Tasking (TM-233 §4.2.3 and §5.2): a ring of task control blocks, each with an event flag and a
//! stack.
//!
//! A task keeps the processor until it blocks. The task continues after the blocking call, with all
//! its variables, when its flag has been set and its turn has come.

#[cfg(target_arch = "x86_64")]
use crate::direct::{self, Direct};
use crate::flags::{Flags, POSITIONS_MAX, Wake};
use crate::ring::{Ring, SpawnError};
use crate::stack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::fmt;
use std::ptr::NonNull;

/// Method of switching from one task to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// A task that blocks switches back to the ring, which selects the next task and switches to
    /// it.
    ByRing,
    /// A task that blocks selects the next task and switches to it, in one routine (TM-233 §7.1).
    /// On processors other than x86_64, this is the same as [`Self::ByRing`].
    Direct,
}

/// A ring of tasks.
pub struct Tasks<T: 'static> {
    flags: Flags,
    stacks: Stacks<T>,
}

enum Stacks<T: 'static> {
    ByRing {
        blocks: Vec<ControlBlock<T>>,
        last_position: usize,
    },
    #[cfg(target_arch = "x86_64")]
    Direct(Direct<T>),
}

impl<T> Stacks<T> {
    fn by_ring() -> Self {
        Self::ByRing { blocks: Vec::new(), last_position: POSITIONS_MAX - 1 }
    }
}

/// A task control block. Its event flag is stored in the ring.
type ControlBlock<T> = Coroutine<NonNull<T>, (), ()>;

/// Handle with which a task accesses the shared value of the ring and blocks.
pub struct Task<'a, T: 'static> {
    position: usize,
    flags: Flags,
    switch_target: SwitchTarget<'a, T>,
}

enum SwitchTarget<'a, T: 'static> {
    /// `value` is set while the task runs.
    ByRing { yielder: &'a Yielder<NonNull<T>, ()>, value: Option<NonNull<T>> },
    #[cfg(target_arch = "x86_64")]
    Direct(direct::Core<T>),
}

impl<T> Tasks<T> {
    /// Creates a ring without tasks.
    #[must_use]
    pub fn new(switch: Switch) -> Self {
        let flags = Flags::default();
        let stacks = match switch {
            #[cfg(target_arch = "x86_64")]
            Switch::Direct => Stacks::Direct(Direct::new(flags.clone())),
            #[cfg(not(target_arch = "x86_64"))]
            Switch::Direct => Stacks::by_ring(),
            Switch::ByRing => Stacks::by_ring(),
        };
        Self { flags, stacks }
    }

    /// Adds a task with a stack of `STACK_LEN` bytes, and returns its position. Positions are
    /// numbered in the order of the calls. The task starts when its event flag is set for the first
    /// time, and ends when `body` returns.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError`] if the ring is full or there is no memory for the stack.
    pub fn spawn(
        &mut self,
        body: impl FnOnce(&mut Task<'_, T>) + 'static,
    ) -> Result<usize, SpawnError> {
        let flags = self.flags.clone();
        match &mut self.stacks {
            Stacks::ByRing { blocks, .. } => {
                let position = blocks.len();
                if position >= POSITIONS_MAX {
                    return Err(SpawnError::Full);
                }
                let stack = stack::allocate()?;
                let base = move |yielder: &Yielder<NonNull<T>, ()>, value: NonNull<T>| {
                    let switch_target = SwitchTarget::ByRing { yielder, value: Some(value) };
                    body(&mut Task { position, flags, switch_target });
                };
                blocks.push(Coroutine::with_stack(stack, base));
                Ok(position)
            }
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => direct.spawn(move |position, core| {
                let switch_target = SwitchTarget::Direct(core);
                body(&mut Task { position, flags, switch_target });
            }),
        }
    }
}

impl<T> Wake for Tasks<T> {
    fn wake(&self, position: usize) {
        self.flags.wake(position);
    }
}

impl<T> Ring<T> for Tasks<T> {
    fn run_one(&mut self, value: &mut T) -> Option<usize> {
        match &mut self.stacks {
            Stacks::ByRing { blocks, last_position } => {
                resume_next(blocks, last_position, &self.flags, value)
            }
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => direct.run(value, direct::Turns::One),
        }
    }

    fn run(&mut self, value: &mut T) {
        match &mut self.stacks {
            Stacks::ByRing { blocks, last_position } => {
                while resume_next(blocks, last_position, &self.flags, value).is_some() {}
            }
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => while direct.run(value, direct::Turns::All).is_some() {},
        }
    }
}

/// Runs the next task whose flag is set, until it blocks.
#[inline]
fn resume_next<T>(
    blocks: &mut [ControlBlock<T>],
    last_position: &mut usize,
    flags: &Flags,
    value: &mut T,
) -> Option<usize> {
    while let Some(position) = flags.take_next(*last_position) {
        *last_position = position;
        if let Some(block) = blocks.get_mut(position).filter(|block| !block.done()) {
            let (CoroutineResult::Yield(()) | CoroutineResult::Return(())) =
                block.resume(NonNull::from(&mut *value));
            return Some(position);
        }
    }
    None
}

impl<T> Task<'_, T> {
    /// Yields, and returns when the event flag of the task has been set and its turn has come.
    #[inline]
    pub fn block(&mut self) {
        match &mut self.switch_target {
            SwitchTarget::ByRing { yielder, value } => {
                // A destructor that runs because the ring is dropped must find no value.
                *value = None;
                *value = Some(yielder.suspend(()));
            }
            #[cfg(target_arch = "x86_64")]
            SwitchTarget::Direct(core) => core.block(self.position),
        }
    }

    /// Returns the value that the ring's caller provides.
    ///
    /// # Panics
    ///
    /// Panics while the task is unwound because its ring is dropped: then the ring shares no value.
    #[inline]
    pub fn value(&mut self) -> &mut T {
        let value = match &self.switch_target {
            SwitchTarget::ByRing { value, .. } => *value,
            #[cfg(target_arch = "x86_64")]
            SwitchTarget::Direct(core) => core.value(),
        };
        let Some(mut value) = value else { panic!("the ring of this task is being dropped") };
        // SAFETY: the pointer was made from the exclusive borrow of the caller of `run`, which
        // lasts until control returns there. Until then only the running task can reach the value,
        // through its only `Task`, which stays borrowed and is needed to block.
        unsafe { value.as_mut() }
    }

    /// Returns the task's own position.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the event flags of the ring.
    #[must_use]
    pub fn flags(&self) -> &Flags {
        &self.flags
    }
}

impl<T> Wake for Task<'_, T> {
    #[inline]
    fn wake(&self, position: usize) {
        self.flags.wake(position);
    }
}

impl<T> fmt::Debug for Tasks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("position", &self.position).finish_non_exhaustive()
    }
}
