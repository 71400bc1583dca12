//! One step of the conversion between a file and its representation on the data connection.
//!
//! The client converts in the thread of the transfer. The server limits the amount that it converts
//! in the thread of all sessions, and therefore drives the steps itself.

use protocols::ftp::Representation;
use protocols::ftp::data::{Counts, DataError, Decoded, Decoder, Encoder, Unsupported};

/// Encodes the bytes that one read of the file has returned, and appends the result to `wire`. An
/// empty read is the end of the file.
///
/// # Errors
///
/// Returns an error if the content of the file does not match the representation.
pub fn encode_read(
    encoder: &mut Encoder,
    read: &[u8],
    wire: &mut Vec<u8>,
) -> Result<(), DataError> {
    match read {
        [] => encoder.finish(wire),
        read => encoder.encode(read, wire),
    }
}

/// Decoder of received bytes, with the buffer of the file bytes of one step.
#[derive(Debug)]
pub struct FileDecoder {
    decoder: Decoder,
    content: Vec<u8>,
}

impl FileDecoder {
    /// Creates a decoder.
    ///
    /// # Errors
    ///
    /// Returns an error if the representation cannot be received.
    pub fn new(representation: &Representation) -> Result<Self, Unsupported> {
        Ok(Self { decoder: Decoder::new(representation)?, content: Vec::new() })
    }

    /// Runs one step of the decoder and advances `wire` past the consumed bytes. Afterwards,
    /// [`Self::content`] contains the bytes of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the received bytes do not match the representation.
    pub fn step(&mut self, wire: &mut &[u8]) -> Result<Decoded, DataError> {
        self.content.clear();
        self.decoder.decode(wire, &mut self.content)
    }

    /// Ends the conversion after the orderly end of the connection. Afterwards, [`Self::content`]
    /// contains the last bytes of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the received data is incomplete.
    pub fn finish(&mut self) -> Result<(), DataError> {
        self.content.clear();
        self.decoder.finish(&mut self.content)
    }

    /// Returns the bytes of the file that the last step has produced.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the numbers of records, markers and line ends so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.decoder.counts()
    }

    /// Returns whether the file does not contain all of the received data.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.decoder.has_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_replaces_the_content_of_the_step_before() {
        let text = Representation::default();
        let mut encoder = Encoder::new(&text, None).unwrap();
        let mut wire = Vec::new();
        encode_read(&mut encoder, b"one\ntwo\n", &mut wire).unwrap();
        encode_read(&mut encoder, b"", &mut wire).unwrap();
        assert_eq!(wire, b"one\r\ntwo\r\n");
        let (first, second) = wire.split_at(5);
        let mut decoder = FileDecoder::new(&text).unwrap();
        for (mut received, content) in [(first, b"one\n"), (second, b"two\n")] {
            assert_eq!(decoder.step(&mut received), Ok(Decoded::NeedsInput));
            assert_eq!(decoder.content(), content);
        }
        assert_eq!(decoder.finish(), Ok(()));
        assert!(decoder.content().is_empty() && !decoder.has_lost());
        assert_eq!(decoder.counts().line_ends, Some(2));
    }
}
