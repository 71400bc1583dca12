//! Queue of datagrams to send.

/// Datagrams to send, stored one after the other in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lens: Vec<usize>,
    /// Number of bytes of the datagrams sent so far.
    pub(crate) sent_bytes: usize,
    /// Number of datagrams sent so far.
    pub(crate) sent_datagrams: usize,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent_datagrams == self.lens.len()
    }

    /// Removes all datagrams.
    pub(crate) fn clear(&mut self) {
        self.sent_datagrams = 0;
        self.sent_bytes = 0;
        self.bytes.clear();
        self.lens.clear();
    }

    /// Returns the bytes and the lengths of the unsent datagrams.
    pub(crate) fn unsent(&self) -> (&[u8], &[usize]) {
        let bytes = self.bytes.get(self.sent_bytes..).unwrap_or_default();
        (bytes, self.lens.get(self.sent_datagrams..).unwrap_or_default())
    }

    /// Marks the next `count` datagrams as sent.
    pub(crate) fn advance(&mut self, count: usize) {
        let lens = self.lens.get(self.sent_datagrams..).unwrap_or_default();
        self.sent_bytes += lens.iter().take(count).sum::<usize>();
        self.sent_datagrams += count;
    }
}
