//! Reads the fuzzer's input as a script of numbers and byte strings.

/// Unread rest of a script.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    /// Returns the next byte, if there is one.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Returns the next two bytes as a big-endian number, if there are two.
    pub fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// Returns the next `len` bytes, or all remaining ones if there are fewer.
    pub fn piece(&mut self, len: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        piece
    }
}
