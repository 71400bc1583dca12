//! Byte stuffing: ordinary bytes are sent unchanged, and each byte with a special meaning in the
//! protocol is sent as two bytes.
//!
//! The packet is not copied first. [`Stuffing`] records the position in the packet, even between
//! the two bytes of an escape, so that the driver may request one byte at a time.

use alloc::vec::Vec;

/// The escapes of a protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    /// Returns the number of bytes before the first byte that must be escaped.
    pub(super) ordinary_run: fn(&[u8]) -> usize,
    /// Returns the two bytes that represent an escaped byte.
    pub(super) escape: fn(u8) -> [u8; 2],
}

/// The position in a packet that is being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stuffing {
    position: usize,
    /// The second byte of an escape if only its first byte has been sent.
    pending_byte: Option<u8>,
}

impl Stuffing {
    /// Appends the second byte of an escape, if its first byte was the last one sent.
    pub(super) fn finish_escape(&mut self, wire: &mut Vec<u8>) {
        wire.extend(self.pending_byte.take());
    }

    /// Appends at most `max_bytes` bytes of the escaped, unsent part of `data`. Returns the number
    /// of bytes of `data` that were replaced by an escape.
    ///
    /// All of `data` has been sent if fewer than `max_bytes` bytes are appended.
    pub(super) fn fill(
        &mut self,
        data: &[u8],
        code: &Code,
        wire: &mut Vec<u8>,
        max_bytes: usize,
    ) -> u64 {
        let end = wire.len().saturating_add(max_bytes);
        let mut escapes = 0;
        while wire.len() < end {
            if self.pending_byte.is_some() {
                self.finish_escape(wire);
                continue;
            }
            let rest = data.get(self.position..).unwrap_or_default();
            let window = rest.get(..end - wire.len()).unwrap_or(rest);
            if window.is_empty() {
                break;
            }
            let (run, special) = window.split_at((code.ordinary_run)(window));
            wire.extend_from_slice(run);
            self.position += run.len();
            if let Some(byte) = special.first() {
                let [first, second] = (code.escape)(*byte);
                wire.push(first);
                self.pending_byte = Some(second);
                self.position += 1;
                escapes += 1;
            }
        }
        escapes
    }
}
