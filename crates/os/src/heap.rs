//! Settings of the C library's heap.

/// Minimum size of a block that is mapped separately.
const LARGE_BLOCK_BYTES: libc::c_int = 8 << 20;

/// Makes the C library return blocks of 8 MiB and more to the system as soon as they are freed.
///
/// By default the C library keeps such blocks for reuse after the first one was freed (mallopt(3),
/// `M_MMAP_THRESHOLD`). A password check allocates 19 MiB, and each heap of the library would keep
/// that much memory.
pub fn return_large_blocks() {
    let settings =
        [(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)];
    for (name, bytes) in settings {
        // SAFETY: `mallopt` takes two numbers, and ignores parameters it does not know.
        _ = unsafe { libc::mallopt(name, bytes) };
    }
}
