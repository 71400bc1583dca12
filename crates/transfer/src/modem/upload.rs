//! Files that are sent.

use super::discarding::CancelledBy;
use super::engine::SenderEngine;
use super::modem_command::ModemProtocol;
use super::partial_file::crc_of;
use super::report::{Report, failure_canceller, failure_outcome, failure_text, is_line_failure};
use crate::escaped;
use crate::recorder::local_outcome;
use net::Cx;
use protocols::modem::{FileInfo, SenderEvent};
use protocols::zmodem::FILE_MAX_BYTES;
use records::escape::reason;
use records::transfer::Outcome;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Maximum number of bytes per read.
const READ_MAX_LEN: usize = 1024;

/// A batch of files that is sent.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) engine: SenderEngine,
    protocol: ModemProtocol,
    files: VecDeque<LocalFile>,
    current: Option<LocalFile>,
    is_over: bool,
}

/// A file that is sent.
#[derive(Debug)]
struct LocalFile {
    info: FileInfo,
    path: PathBuf,
    size: u64,
    file: File,
}

impl LocalFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let size = metadata.len();
        if size > FILE_MAX_BYTES {
            return Err(io::Error::other("it is larger than 4 GiB"));
        }
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let info = FileInfo {
            name: path.file_name().unwrap_or_default().as_bytes().to_vec(),
            size: Some(size),
            modified_unix_s: modified.map(|since| since.as_secs()),
        };
        Ok(Self { info, path: path.to_owned(), size, file })
    }

    fn name(&self) -> String {
        escaped(&self.info.name)
    }
}

impl Upload {
    /// Opens all files.
    ///
    /// # Errors
    ///
    /// Returns a sentence about the first file that cannot be read.
    pub(super) fn new(
        protocol: ModemProtocol,
        paths: &[PathBuf],
        cx: &Cx<'_>,
    ) -> Result<Self, String> {
        let mut files = VecDeque::new();
        for path in paths {
            files.push_back(LocalFile::open(path).map_err(|error| {
                let why = reason(&error);
                format!("Cannot read {}: {why}.", escaped(path.as_os_str().as_bytes()))
            })?);
        }
        let current = if protocol.is_xmodem() { files.pop_front() } else { None };
        let engine = SenderEngine::new(protocol, cx.now);
        Ok(Self { engine, protocol, files, current, is_over: false })
    }

    /// Creates an upload without files that is cancelled.
    pub(super) fn cancelled(protocol: ModemProtocol, report: &mut Report, cx: &Cx<'_>) -> Self {
        let mut engine = SenderEngine::new(protocol, cx.now);
        engine.abort();
        let files = VecDeque::new();
        let upload = Self { engine, protocol, files, current: None, is_over: true };
        let is_block_receiver = upload.has_block_receiver();
        report.cancelled_by = Some(CancelledBy::Local { is_block_receiver });
        upload
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Processes the events of the engine.
    pub(super) fn serve(&mut self, report: &mut Report, cx: &mut Cx<'_>) {
        while !self.is_over
            && let Some(event) = self.engine.event()
        {
            match event {
                SenderEvent::NextFile => {
                    self.current = self.files.pop_front();
                    match &self.current {
                        Some(file) => self.engine.offer(&file.info, cx),
                        None => self.engine.finish(cx),
                    }
                }
                SenderEvent::Accepted(position) => {
                    if let Some(file) = &self.current {
                        report.progress.begin(&file.name(), Some(file.size), position, cx.now);
                    }
                }
                SenderEvent::Skipped => {
                    let sentence = self
                        .current
                        .as_ref()
                        .map(|file| format!("The remote host refused {}.", file.name()));
                    if let Some(sentence) = sentence {
                        self.record(Outcome::Refused, Some(&sentence), report, cx);
                        report.fail(sentence);
                    }
                }
                SenderEvent::CrcRequested(len) => self.on_crc_request(len, report, cx),
                SenderEvent::FileComplete => {
                    if let Some(file) = &self.current {
                        report.progress.set(file.size, cx.now);
                        let summary = report.summary(file.size, cx);
                        report.notice(format!("Sent {}: {summary}.", file.name()));
                        self.record(Outcome::Complete, None, report, cx);
                    }
                }
                SenderEvent::Complete => self.is_over = true,
                SenderEvent::Failed(failure) => {
                    report.is_line_failure = is_line_failure(failure, &report.progress);
                    let canceller = failure_canceller(failure, self.has_block_receiver());
                    self.end(failure_text(failure, true), failure_outcome(failure), report, cx);
                    report.cancelled_by = Some(canceller);
                }
            }
        }
    }

    fn on_crc_request(&mut self, len: u64, report: &mut Report, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let crc =
            current.file.seek(SeekFrom::Start(0)).and_then(|_| crc_of(&mut current.file, len));
        match crc {
            Ok(crc) => self.engine.answer_crc(crc, cx),
            Err(error) => self.on_local_error(&error, report, cx),
        }
    }

    fn on_local_error(&mut self, error: &io::Error, report: &mut Report, cx: &Cx<'_>) {
        let name = self.current.as_ref().map(LocalFile::name).unwrap_or_default();
        let sentence = read_error_text(&name, error);
        self.cancel(sentence, local_outcome(error), report, cx);
    }

    /// Returns whether the remote program receives blocks of XMODEM or YMODEM.
    pub(super) const fn has_block_receiver(&self) -> bool {
        !matches!(self.protocol, ModemProtocol::Zmodem)
    }

    /// Returns and removes the text with which the session continues after the end of the remote
    /// program, up to the first prompt. The echo of the data in flight follows.
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        let mut text = self.engine.take_text();
        text.truncate(first_prompt_end(&text));
        text
    }

    /// Cancels the transfer at both ends.
    pub(super) fn cancel(
        &mut self,
        sentence: String,
        outcome: Outcome,
        report: &mut Report,
        cx: &Cx<'_>,
    ) {
        let may_have_ended = self.engine.may_have_ended();
        self.engine.abort();
        let is_block_receiver = self.has_block_receiver();
        report.cancelled_by = Some(match may_have_ended {
            true => CancelledBy::End,
            false => CancelledBy::Local { is_block_receiver },
        });
        self.end(sentence, outcome, report, cx);
    }

    fn end(&mut self, sentence: String, outcome: Outcome, report: &mut Report, cx: &Cx<'_>) {
        self.is_over = true;
        // A file that was not offered yet has the same end.
        self.current = self.current.take().or_else(|| self.files.pop_front());
        self.record(outcome, Some(&sentence), report, cx);
        report.fail(sentence);
    }

    /// Records the current file, which has ended.
    fn record(&mut self, outcome: Outcome, error: Option<&str>, report: &mut Report, cx: &Cx<'_>) {
        let Some(file) = self.current.take() else { return };
        let path = file.path.into_os_string().into_encoded_bytes();
        report.record(&file.info, path, (outcome, error), cx.now);
    }

    /// Passes data to the engine until it needs none, or until `out` has `max_len` bytes.
    pub(super) fn fill(
        &mut self,
        out: &mut Vec<u8>,
        max_len: usize,
        report: &mut Report,
        cx: &mut Cx<'_>,
    ) {
        let mut buffer = [0; READ_MAX_LEN];
        while out.len() < max_len
            && let Some(request) = self.engine.data_request()
            && let Some(current) = &self.current
        {
            // A file that grows is sent with the size that was offered.
            let rest = current.size.saturating_sub(request.position);
            let rest = usize::try_from(rest).unwrap_or(READ_MAX_LEN);
            let len = READ_MAX_LEN.min(request.max_len).min(rest);
            let buffer = buffer.get_mut(..len).unwrap_or_default();
            match current.file.read_at(buffer, request.position) {
                Ok(count) => {
                    self.engine.put_data(buffer.get(..count).unwrap_or_default(), cx);
                    report.progress.set(request.position + count as u64, cx.now);
                }
                Err(error) => self.on_local_error(&error, report, cx),
            }
            self.engine.transmit(out, cx);
        }
    }
}

/// Returns the sentence about the file `name`, which cannot be read.
pub(super) fn read_error_text(name: &str, error: &io::Error) -> String {
    format!("Upload cancelled: cannot read {name}: {}.", reason(error))
}

/// Returns the length of the first lines of `text` and of the prompt after them. Without a prompt, it
/// is the length of the lines.
fn first_prompt_end(text: &[u8]) -> usize {
    let Some(line_end) = text.iter().position(|byte| *byte == b'\n') else { return 0 };
    let is_end = |at: &usize| {
        let after = text.get(*at..).unwrap_or_default();
        matches!(after, [b'$' | b'#' | b'>' | b'%' | b':', b' ', ..])
    };
    (line_end..text.len()).find(is_end).map_or(line_end + 1, |at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::first_prompt_end;

    #[test]
    fn the_text_after_the_end_of_the_remote_program_is_kept_up_to_its_prompt() {
        for (text, kept) in [
            (&b"Killed\r\n$ data"[..], &b"Killed\r\n$ "[..]),
            (b"sh: Killed\r\nann@host:~# data# ", b"sh: Killed\r\nann@host:~# "),
            (b"Killed\r\nready:data", b"Killed\r\n"),
            (b"data", b""),
        ] {
            assert_eq!(&text[..first_prompt_end(text)], kept, "{}", text.escape_ascii());
        }
    }
}
