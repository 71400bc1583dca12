//! The stack of a task.

use crate::ring::SpawnError;
use corosensei::stack::DefaultStack;

/// Size of a task's stack in bytes. Memory is allocated by page, when a page is first touched.
pub const STACK_LEN: usize = 256 * 1024;

/// Allocates a stack with a guard page below it.
pub(crate) fn allocate() -> Result<DefaultStack, SpawnError> {
    DefaultStack::new(STACK_LEN).map_err(SpawnError::NoStack)
}
