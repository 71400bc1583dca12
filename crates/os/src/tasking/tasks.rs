//! Tasking (TM-233 §4.2.3 and §5.2): a ring of task control blocks, each with an event flag and a
//! stack.
//!
//! A task keeps the processor until it blocks. It goes on behind that, with all its variables, when
//! somebody has set its flag and its turn has come.

use super::flags::{Flags, PLACES_MAX, Wake};
use super::{Ring, SpawnError};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::fmt;
use std::ptr::NonNull;

#[cfg(target_arch = "x86_64")]
use direct::Direct;

/// Bytes of a task's stack. Memory is taken by the page, when it is first touched.
pub const STACK_LEN: usize = 256 * 1024;

/// How the processor gets from one task to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// A task that blocks goes back to the ring, which finds the next and goes to it.
    ByRing,
    /// A task that blocks finds the next and goes to it, in one routine (TM-233 §7.1). Only on
    /// x86_64; elsewhere as [`Self::ByRing`].
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
        at: usize,
    },
    #[cfg(target_arch = "x86_64")]
    Direct(Direct<T>),
}

/// A task control block; its event flag is among the ring's.
type ControlBlock<T> = Coroutine<NonNull<T>, (), ()>;

/// What a task has of its ring: what is lent to it, and how to block.
pub struct Task<'a, T: 'static> {
    place: usize,
    flags: Flags,
    way_out: WayOut<'a, T>,
}

enum WayOut<'a, T: 'static> {
    /// What is lent is there while the task runs.
    ByRing { yielder: &'a Yielder<NonNull<T>, ()>, lent: Option<NonNull<T>> },
    #[cfg(target_arch = "x86_64")]
    Direct(direct::Core<T>),
}

impl<T> Tasks<T> {
    /// Makes a ring without tasks.
    #[must_use]
    pub fn new(switch: Switch) -> Self {
        let flags = Flags::default();
        let stacks = match switch {
            #[cfg(target_arch = "x86_64")]
            Switch::Direct => Stacks::Direct(Direct::new(flags.clone())),
            #[cfg(not(target_arch = "x86_64"))]
            Switch::Direct => Stacks::ByRing { blocks: Vec::new(), at: PLACES_MAX - 1 },
            Switch::ByRing => Stacks::ByRing { blocks: Vec::new(), at: PLACES_MAX - 1 },
        };
        Self { flags, stacks }
    }

    /// Adds a task with a stack of [`STACK_LEN`], and returns its place, in the order of the calls.
    /// It begins when its event flag is set for the first time, and ends where `body` does.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`].
    pub fn spawn(
        &mut self,
        body: impl FnOnce(&mut Task<'_, T>) + 'static,
    ) -> Result<usize, SpawnError> {
        let flags = self.flags.clone();
        match &mut self.stacks {
            Stacks::ByRing { blocks, .. } => {
                let place = blocks.len();
                if place >= PLACES_MAX {
                    return Err(SpawnError::Full);
                }
                let stack = DefaultStack::new(STACK_LEN).map_err(SpawnError::NoStack)?;
                let base = move |yielder: &Yielder<NonNull<T>, ()>, lent: NonNull<T>| {
                    let way_out = WayOut::ByRing { yielder, lent: Some(lent) };
                    body(&mut Task { place, flags, way_out });
                };
                blocks.push(Coroutine::with_stack(stack, base));
                Ok(place)
            }
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => direct.spawn(body),
        }
    }
}

impl<T> Wake for Tasks<T> {
    fn wake(&self, place: usize) {
        self.flags.wake(place);
    }
}

impl<T> Ring<T> for Tasks<T> {
    fn run_one(&mut self, lent: &mut T) -> Option<usize> {
        match &mut self.stacks {
            Stacks::ByRing { blocks, at } => resume_next(blocks, at, &self.flags, lent),
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => direct.run(lent, direct::Turns::One),
        }
    }

    fn run(&mut self, lent: &mut T) {
        match &mut self.stacks {
            Stacks::ByRing { blocks, at } => {
                while resume_next(blocks, at, &self.flags, lent).is_some() {}
            }
            #[cfg(target_arch = "x86_64")]
            Stacks::Direct(direct) => while direct.run(lent, direct::Turns::All).is_some() {},
        }
    }
}

/// Goes to the next task whose flag is set, until it blocks.
#[inline]
fn resume_next<T>(
    blocks: &mut [ControlBlock<T>],
    at: &mut usize,
    flags: &Flags,
    lent: &mut T,
) -> Option<usize> {
    while let Some(place) = flags.take_next(*at) {
        *at = place;
        if let Some(block) = blocks.get_mut(place).filter(|block| !block.done()) {
            let (CoroutineResult::Yield(()) | CoroutineResult::Return(())) =
                block.resume(NonNull::from(&mut *lent));
            return Some(place);
        }
    }
    None
}

impl<T> Task<'_, T> {
    /// Gives the processor away, and returns when the task has its next turn. Without its event flag
    /// it has none.
    #[inline]
    pub fn block(&mut self) {
        match &mut self.way_out {
            WayOut::ByRing { yielder, lent } => {
                // A destructor that runs because the ring is dropped finds nothing lent.
                *lent = None;
                *lent = Some(yielder.suspend(()));
            }
            #[cfg(target_arch = "x86_64")]
            WayOut::Direct(core) => core.block(self.place),
        }
    }

    /// Returns what the ring's caller lends.
    ///
    /// # Panics
    ///
    /// While a task is unwound because its ring is dropped: then nothing is lent.
    #[inline]
    pub fn lent(&mut self) -> &mut T {
        let lent = match &self.way_out {
            WayOut::ByRing { lent, .. } => *lent,
            #[cfg(target_arch = "x86_64")]
            WayOut::Direct(core) => core.lent(),
        };
        let Some(mut lent) = lent else { panic!("nothing is lent to a task that ends") };
        // SAFETY: it was made from the exclusive borrow of who called `run`, which lasts until the
        // processor comes back there. Until then only the running task can reach it, through the
        // one `Task` that it has, which is borrowed for as long and is needed to block.
        unsafe { lent.as_mut() }
    }

    /// Returns the task's own place.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the event flags of the ring.
    #[must_use]
    pub fn flags(&self) -> &Flags {
        &self.flags
    }
}

impl<T> Wake for Task<'_, T> {
    #[inline]
    fn wake(&self, place: usize) {
        self.flags.wake(place);
    }
}

impl<T> fmt::Debug for Tasks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(target_arch = "x86_64")]
#[path = "direct.rs"]
mod direct;
