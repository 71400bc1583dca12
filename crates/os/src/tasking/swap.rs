//! From one stack to another in one go.
//!
//! What corosensei switches always goes back to whoever resumed it, so from task to task are two
//! switches. Here the processor goes from one task's stack to the next one's. What a caller may
//! expect to find unchanged is on the stack that is left, and so is the place to go on at.

use corosensei::stack::{DefaultStack, Stack as _};
use std::arch::asm;

/// The stack pointer of who does not run. On the stack are, from there on, where to go on, rbx and
/// rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context(usize);

/// A context to which nobody has ever gone: it must be replaced before.
pub(super) const NOWHERE: Context = Context(0);

/// Leaves the running context at `left` and goes to `entered`; returns when somebody goes to
/// what was left.
///
/// # Safety
///
/// `left` is valid for a write. `entered` was made by [`prepare`] or was left by this function, its
/// stack exists still, and nobody has gone to it since.
#[inline(always)]
pub(super) unsafe fn swap(left: *mut Context, entered: Context) {
    // SAFETY: the pushes stay on the stack that is left, and what follows the label pops what was
    // pushed on it. All registers that may be named are given up, and the two that may not, rbx
    // and rbp, are pushed.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") left => _,
            inout("rsi") entered.0 => _,
            out("rax") _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Returns a context in which `entry` is called with `argument` at the base of `stack`.
///
/// # Safety
///
/// Nothing runs on `stack`. `entry` never returns, and nothing unwinds out of it.
pub(super) unsafe fn prepare(
    stack: &DefaultStack,
    entry: unsafe extern "sysv64" fn(usize) -> !,
    argument: usize,
) -> Context {
    // From the base down: two words of zero, where whoever follows the frames finds the end, then
    // entry and argument as rbp and rbx of the first frame, and where to begin.
    let begin: unsafe extern "sysv64" fn() -> ! = begin;
    let words = [begin as usize, argument, entry as usize, 0, 0];
    let base = stack.base().get() & !15;
    let pointer = base - words.len().next_multiple_of(2) * size_of::<usize>() + size_of::<usize>();
    // SAFETY: a stack has room for more than five words, and is aligned to more than a word.
    unsafe { (pointer as *mut [usize; 5]).write(words) };
    Context(pointer)
}

/// Calls what [`prepare`] was given: `swap` has come here with entry and argument on the stack.
#[unsafe(naked)]
unsafe extern "sysv64" fn begin() -> ! {
    std::arch::naked_asm!("pop rdi", "pop rax", "xor ebp, ebp", "call rax", "ud2")
}
