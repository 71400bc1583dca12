//! Writes each event of a recording as it happens, so that a later failure does not lose it.

use super::{Header, Kind};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Writer of a recording.
#[derive(Debug)]
pub struct SessionRecorder {
    file: File,
    /// Incomplete UTF-8 character at the end of the output (0) and of the input (1).
    incomplete: [Vec<u8>; 2],
}

impl SessionRecorder {
    /// Creates a recording as a new file that only its owner can read. If `path` is an existing
    /// device, the recording is written to that device.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AlreadyExists`], or an error of the file system.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let is_device = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let mut file =
            if is_device { options.open(path) } else { options.create_new(true).open(path) }?;
        let header = serde_json::to_string(header)?;
        file.write_all(format!("{header}\n").as_bytes())?;
        Ok(Self { file, incomplete: Default::default() })
    }

    /// Records `bytes` of text, `at` after the start of the recording. An incomplete UTF-8
    /// character is buffered until its remaining bytes arrive.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system.
    pub fn put(&mut self, at: Duration, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let [output, input] = &mut self.incomplete;
        let incomplete = if kind == Kind::Input { input } else { output };
        let mut joined = std::mem::take(incomplete);
        joined.extend_from_slice(bytes);
        let text = take_complete_characters(&mut joined);
        *incomplete = joined;
        if text.is_empty() { Ok(()) } else { self.put_text(at, kind, &text) }
    }

    /// Records a complete text.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system.
    pub fn put_text(&mut self, at: Duration, kind: Kind, text: &str) -> io::Result<()> {
        let seconds = at.as_secs();
        let micros = at.subsec_micros();
        let text = serde_json::to_string(text)?;
        let line = format!("[{seconds}.{micros:06}, \"{}\", {text}]\n", kind.name());
        self.file.write_all(line.as_bytes())
    }
}

/// Removes and returns all complete characters; an incomplete character at the end remains in
/// `bytes`. Invalid UTF-8 is replaced.
fn take_complete_characters(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut rest = bytes.as_slice();
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                rest = &[];
                break;
            }
            Err(error) => {
                let (valid, others) =
                    rest.split_at_checked(error.valid_up_to()).unwrap_or_default();
                text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                rest = others;
                let Some(length) = error.error_len() else { break };
                text.push(char::REPLACEMENT_CHARACTER);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
    *bytes = rest.to_vec();
    text
}

#[cfg(test)]
mod tests {
    use super::super::{RecordedEvent, read_event, read_header};
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plumb-recording-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let path = file("made");
        let header = Header { version: 2, width: 80, height: 24, ..Header::default() };
        let mut recorder = SessionRecorder::create(&path, &header).unwrap();
        recorder.put(Duration::from_millis(1), Kind::Output, b"caf\xc3").unwrap();
        recorder.put(Duration::from_millis(2), Kind::Output, b"\xa9 \x1b[0m\xff").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut lines = text.lines();
        assert_eq!(read_header(lines.next().unwrap()).unwrap(), header);
        let event =
            |at_s, text: &str| RecordedEvent { at_s, kind: Kind::Output, text: text.to_owned() };
        let events: Vec<_> = lines.map(|line| read_event(line).unwrap()).collect();
        assert_eq!(events, [event(0.001, "caf"), event(0.002, "\u{e9} \x1b[0m\u{fffd}")]);
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let path = file("there");
        std::fs::write(&path, "mine").unwrap();
        let error = SessionRecorder::create(&path, &Header::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_reported_at_once() {
        let error =
            SessionRecorder::create(Path::new("/dev/full"), &Header::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    proptest! {
        #[test]
        fn characters_are_complete_wherever_the_text_is_split(text: String, at: prop::sample::Index) {
            let (head, tail) = text.as_bytes().split_at(at.index(text.len() + 1));
            let mut incomplete = head.to_vec();
            let mut read = take_complete_characters(&mut incomplete);
            incomplete.extend_from_slice(tail);
            read.push_str(&take_complete_characters(&mut incomplete));
            prop_assert_eq!(read, text);
            prop_assert!(incomplete.is_empty());
        }
    }
}
