//! The end of what is kept of a download, which is fetched once more before the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is fetched again.
const SAMPLE_BYTES: u64 = 4096;

/// The end of what is kept of a file. Size and time do not show that it is of the same file: a part may
/// be a file of its own, and a server may know times to the minute alone.
pub(super) struct Sample {
    /// Where it begins in the file.
    pub(super) at: u64,
    bytes: Vec<u8>,
}

impl Sample {
    /// Cuts the sample off the first `len` bytes of a file, which are all that it has.
    pub(super) fn cut(file: &File, len: u64) -> io::Result<Self> {
        let at = len.saturating_sub(SAMPLE_BYTES);
        let mut bytes = vec![0; usize::try_from(len - at).unwrap_or(0)];
        file.read_exact_at(&mut bytes, at)?;
        if !bytes.is_empty() {
            file.set_len(at)?;
        }
        Ok(Self { at, bytes })
    }

    /// Returns whether the same bytes have come.
    pub(super) fn is_in(&self, file: &File) -> bool {
        let mut bytes = vec![0; self.bytes.len()];
        file.read_exact_at(&mut bytes, self.at).is_ok() && bytes == self.bytes
    }
}
