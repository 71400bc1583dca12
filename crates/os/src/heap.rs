//! The heap of this process, which the C library keeps.

/// From this size on a block is one of the system's own.
const LARGE_BYTES: libc::c_int = 8 << 20;

/// Has blocks of 8 MiB and more given back to the system as soon as nobody has them.
///
/// The C library learns from the first such block to keep them (mallopt(3), `M_MMAP_THRESHOLD`), and
/// keeps one for each of its heaps, of which every few threads have their own. The 19 MiB in which a
/// password is checked would stay there a dozen times.
pub fn return_large_blocks() {
    // What is free at the end of a heap is kept as far as the library would by itself.
    let settings = [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BYTES)];
    for (name, bytes) in settings {
        // SAFETY: it takes two numbers; what it does not know it leaves as it is.
        _ = unsafe { libc::mallopt(name, bytes) };
    }
}
