//! Files that are sent.

use super::engine::SenderEngine;
use super::modem_command::ModemProtocol;
use super::partial_file::crc_of;
use super::report::{Report, failure_text};
use crate::escaped;
use net::Cx;
use protocols::modem::{FileInfo, ModemFailure, SenderEvent};
use protocols::zmodem::FILE_MAX_BYTES;
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
    files: VecDeque<LocalFile>,
    current: Option<LocalFile>,
    is_over: bool,
}

/// A file that is sent.
#[derive(Debug)]
struct LocalFile {
    info: FileInfo,
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
        Ok(Self { info, size, file })
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
                format!("Cannot read {}: {error}.", escaped(path.as_os_str().as_bytes()))
            })?);
        }
        let current = if protocol.is_xmodem() { files.pop_front() } else { None };
        let engine = SenderEngine::new(protocol, cx.now);
        Ok(Self { engine, files, current, is_over: false })
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
                    if let Some(file) = self.current.take() {
                        report.notice(format!("The remote host refused {}.", file.name()));
                    }
                }
                SenderEvent::CrcRequested(len) => self.on_crc_request(len, report, cx),
                SenderEvent::FileComplete => {
                    if let Some(file) = self.current.take() {
                        report.progress.set(file.size);
                        let summary = report.summary(file.size, cx);
                        report.notice(format!("Sent {}: {summary}.", file.name()));
                    }
                }
                SenderEvent::Complete => self.is_over = true,
                SenderEvent::Failed(failure) => {
                    report.has_cancelled_peer = failure != ModemFailure::Cancelled;
                    self.is_over = true;
                    report.notice(failure_text(failure));
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
            Err(error) => self.on_local_error(&error, report),
        }
    }

    fn on_local_error(&mut self, error: &io::Error, report: &mut Report) {
        let name = self.current.as_ref().map(LocalFile::name).unwrap_or_default();
        self.cancel(format!("Upload cancelled: cannot read {name}: {error}."), report);
    }

    /// Cancels the transfer at both ends.
    pub(super) fn cancel(&mut self, sentence: String, report: &mut Report) {
        self.engine.abort();
        report.has_cancelled_peer = true;
        self.is_over = true;
        report.notice(sentence);
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
                    report.progress.set(request.position + count as u64);
                }
                Err(error) => self.on_local_error(&error, report),
            }
            self.engine.transmit(out, cx);
        }
    }
}
