//! Settings of the C library's heap.

/// Minimum size of a block that is mapped separately.
const LARGE_BLOCK_BYTES: libc::c_int = 8 << 20;

/// Makes the C library return blocks of 8 MiB and more to the system as soon as they are freed.
///
/// By default, freeing the first such block makes the C library keep later ones (mallopt(3),
/// `M_MMAP_THRESHOLD`), in each of its heaps, which only a few threads share. The 19 MiB that a
/// password check allocates would then stay allocated a dozen times.
pub fn return_large_blocks() {
    // Keep as much free memory at the end of a heap as the library would by default.
    let settings =
        [(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)];
    for (name, bytes) in settings {
        // SAFETY: `mallopt` takes two numbers, and ignores parameters it does not know.
        _ = unsafe { libc::mallopt(name, bytes) };
    }
}
