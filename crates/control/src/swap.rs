//! Direct switch from one stack to another.
//!
//! corosensei always switches back to the caller that resumed a coroutine, so changing from task to
//! task takes two switches. This module switches directly from the stack of one task to that of the
//! next. The registers that `asm!` cannot declare as clobbered, and the address at which to
//! continue, are pushed on the stack that is left.

use corosensei::stack::{DefaultStack, Stack as _};
use std::arch::asm;

/// Stack pointer of a suspended context. From there upward the stack holds the address at which to
/// continue, rbx and rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context(usize);

/// An invalid context, which must be replaced before it is entered.
pub(super) const INVALID_CONTEXT: Context = Context(0);

/// Saves the running context in `left` and switches to `entered`; returns when the saved context is
/// entered again.
///
/// # Safety
///
/// `left` must be valid for a write. `entered` must come from [`prepare`] or from this function,
/// its stack must still exist, and it must not have been entered since.
#[inline(always)]
pub(super) unsafe fn swap(left: *mut Context, entered: Context) {
    // SAFETY: the pushed values stay on the stack that is left, and the code after the label pops
    // them. All registers that can be declared are clobbered; rbx and rbp, which cannot, are
    // pushed.
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
/// Nothing may run on `stack`. `entry` must never return, and nothing may unwind out of it.
pub(super) unsafe fn prepare(
    stack: &DefaultStack,
    entry: unsafe extern "sysv64" fn(usize) -> !,
    argument: usize,
) -> Context {
    // From the base downward: two zero words, where a walk of the stack frames ends, then entry and
    // argument as rbp and rbx of the first frame, and the address at which to continue.
    let begin: unsafe extern "sysv64" fn() -> ! = begin;
    let words = [begin as usize, argument, entry as usize, 0, 0];
    let base = stack.base().get() & !15;
    let pointer = base - words.len().next_multiple_of(2) * size_of::<usize>() + size_of::<usize>();
    // SAFETY: a stack is larger than five words, and aligned to more than a word.
    unsafe { (pointer as *mut [usize; 5]).write(words) };
    Context(pointer)
}

/// Calls the entry function of [`prepare`]: `swap` jumps here with entry and argument on the stack.
#[unsafe(naked)]
unsafe extern "sysv64" fn begin() -> ! {
    std::arch::naked_asm!("pop rdi", "pop rax", "xor ebp, ebp", "call rax", "ud2")
}
