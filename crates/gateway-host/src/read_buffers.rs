//! Memory into which data from sockets is read.
//!
//! Usually data is read into a buffer and copied to the send buffer of the guest's connection. Bulk
//! data is read into chunks that the send buffer shares, without a copy. A chunk is used again when
//! the guest has acknowledged its data. While all chunks wait for acknowledgments, data is copied.

use std::collections::VecDeque;
use std::sync::Arc;

/// Size of the buffer, and of the chunks of one read together, in bytes.
pub(crate) const READ_LEN: usize = 1 << 18;
/// Number of chunks of one read, and the size of a chunk in bytes.
pub(crate) const CHUNKS: usize = 4;
pub(crate) const CHUNK_LEN: usize = READ_LEN / CHUNKS;
/// Maximum number of chunks: those of a full send buffer of one connection.
const SHARED_MAX: usize = 64;

/// Data that a connection shares.
pub(crate) type Chunk = Arc<[u8]>;

/// The memory of an event loop.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    buffer: Vec<u8>,
    free: Vec<Chunk>,
    shared: VecDeque<Chunk>,
}

impl ReadBuffers {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; READ_LEN], free: Vec::new(), shared: VecDeque::new() }
    }

    /// Returns the buffer for data that is copied.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Takes chunks that no connection shares; `None` if there are too few.
    pub(crate) fn take(&mut self) -> Option<[Chunk; CHUNKS]> {
        while self.free.len() < CHUNKS {
            // The data of the last one is most probably still in the caches of the processor.
            let unused = self.shared.iter().rposition(|chunk| Arc::strong_count(chunk) == 1);
            let unused = unused.and_then(|index| self.shared.remove(index));
            let may_allocate = self.shared.len() + self.free.len() < SHARED_MAX;
            let allocate = || std::iter::repeat_n(0, CHUNK_LEN).collect();
            self.free.push(unused.or_else(|| may_allocate.then(allocate))?);
        }
        self.free.split_off(self.free.len() - CHUNKS).try_into().ok()
    }

    /// Returns a chunk of [`Self::take`], which a connection may share now.
    pub(crate) fn put(&mut self, chunk: Chunk) {
        if Arc::strong_count(&chunk) == 1 {
            self.free.push(chunk);
        } else {
            self.shared.push_back(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_used_again_when_no_connection_shares_it() {
        let mut buffers = ReadBuffers::new();
        let mut connection = VecDeque::new();
        for _ in 0..SHARED_MAX / CHUNKS {
            let chunks = buffers.take().unwrap();
            connection.extend(chunks.iter().cloned());
            chunks.into_iter().for_each(|chunk| buffers.put(chunk));
        }
        assert!(buffers.take().is_none());
        let acknowledged: Vec<*const u8> =
            connection.drain(..CHUNKS).map(|chunk| chunk.as_ptr()).collect();
        let mut chunks = buffers.take().unwrap();
        assert!(chunks.iter_mut().all(|chunk| Arc::get_mut(chunk).is_some()));
        assert!(chunks.iter().all(|chunk| acknowledged.contains(&chunk.as_ptr())));
        connection.extend(chunks.iter().cloned());
        chunks.into_iter().for_each(|chunk| buffers.put(chunk));
        assert!(buffers.take().is_none());
    }
}
