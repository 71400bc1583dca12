//! The bytes that reset the display when a signal or a panic ends the program.
//!
//! A signal handler may interrupt the program at any instruction. Therefore the bytes are stored in
//! two buffers of atomics: one is current while the other is filled. The write does not block: if
//! the display is not writable, it is not reset.

use crate::output::Output;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Maximum number of reset bytes; our own limit. A reset of all modes that the terminal filter
/// knows needs less.
const RESET_MAX_LEN: usize = 512;

/// The standard output. It is never closed, so that a signal handler may use it at any time.
static DISPLAY: OnceLock<Output> = OnceLock::new();
static BUFFERS: [[AtomicU8; RESET_MAX_LEN]; 2] =
    [const { [const { AtomicU8::new(0) }; RESET_MAX_LEN] }; 2];
/// Twice the number of reset bytes, plus the index of the buffer that holds them.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// Sets the bytes that reset the standard output when a signal or a panic ends the program while
/// its terminal is raw. An empty slice disables the reset; more than 512 bytes disable it too.
///
/// # Errors
///
/// Returns EMFILE if no descriptor is left.
pub fn set_display_reset(bytes: &[u8]) -> io::Result<()> {
    let current = CURRENT.load(Ordering::SeqCst);
    if bytes.is_empty() || bytes.len() > RESET_MAX_LEN {
        CURRENT.store(current & 1, Ordering::SeqCst);
        return Ok(());
    }
    if DISPLAY.get().is_none() {
        _ = DISPLAY.set(Output::standard()?);
    }
    let other = 1 - (current & 1);
    for (place, byte) in BUFFERS.iter().skip(other).take(1).flatten().zip(bytes) {
        place.store(*byte, Ordering::Relaxed);
    }
    CURRENT.store(bytes.len() << 1 | other, Ordering::SeqCst);
    Ok(())
}

/// Resets the display once. Safe to call in a signal handler.
pub(super) fn reset() {
    let current = CURRENT.swap(0, Ordering::SeqCst);
    let len = current >> 1;
    let index = current & 1;
    let mut bytes = [0; RESET_MAX_LEN];
    for (byte, place) in bytes.iter_mut().zip(BUFFERS.iter().skip(index).take(1).flatten()) {
        *byte = place.load(Ordering::Relaxed);
    }
    if let (Some(display), Some(bytes)) = (DISPLAY.get(), bytes.get(..len)) {
        // An error cannot be reported: the program ends.
        let _ = display.write(bytes);
    }
}
