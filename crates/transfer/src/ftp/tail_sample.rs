//! The end of a partial download, which is downloaded again before the rest of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Number of bytes downloaded again.
const SAMPLE_BYTES: u64 = 4096;

/// The end of a partial download, which is downloaded again and compared. Equal size and time do
/// not prove that a partial download belongs to the remote file: the local file may be another
/// complete file, and a server may report times to the minute only.
pub(super) struct TailSample {
    /// Offset of the sample in the file.
    pub(crate) at: u64,
    bytes: Vec<u8>,
}

impl TailSample {
    /// Cuts the sample off the end of a file of `len` bytes.
    pub(super) fn cut(file: &File, len: u64) -> io::Result<Self> {
        let at = len.saturating_sub(SAMPLE_BYTES);
        let mut bytes = vec![0; usize::try_from(len - at).unwrap_or(0)];
        file.read_exact_at(&mut bytes, at)?;
        if !bytes.is_empty() {
            file.set_len(at)?;
        }
        Ok(Self { at, bytes })
    }

    /// Returns whether the resumed download has received the bytes of the sample again.
    pub(super) fn is_in(&self, file: &File) -> bool {
        let mut bytes = vec![0; self.bytes.len()];
        file.read_exact_at(&mut bytes, self.at).is_ok() && bytes == self.bytes
    }
}
