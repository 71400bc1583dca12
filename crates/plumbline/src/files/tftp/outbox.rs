//! Queue of datagrams to send.

/// Datagrams to send, stored one after the other in one buffer.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) bytes: Vec<u8>,
    pub(super) lens: Vec<usize>,
    /// Number of sent bytes, and number of sent datagrams.
    pub(super) gone_bytes: usize,
    pub(super) gone: usize,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.gone == self.lens.len()
    }

    /// Removes all datagrams.
    pub(super) fn clear(&mut self) {
        self.gone = 0;
        self.gone_bytes = 0;
        self.bytes.clear();
        self.lens.clear();
    }

    /// Returns the bytes and the lengths of the unsent datagrams.
    pub(super) fn rest(&self) -> (&[u8], &[usize]) {
        let bytes = self.bytes.get(self.gone_bytes..).unwrap_or_default();
        (bytes, self.lens.get(self.gone..).unwrap_or_default())
    }

    /// Marks the next `count` datagrams as sent.
    pub(super) fn advance(&mut self, count: usize) {
        let lens = self.lens.get(self.gone..).unwrap_or_default();
        self.gone_bytes += lens.iter().take(count).sum::<usize>();
        self.gone += count;
    }
}
