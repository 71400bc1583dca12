//! Files that are received.

use super::discarding::{CancelledBy, NAK};
use super::download_policy::DownloadPolicy;
use super::engine::ReceiverEngine;
use super::file_name::safe_name;
use super::modem_command::ModemProtocol;
use super::partial_file::PartialFile;
use super::report::{Report, failure_canceller, failure_outcome, failure_text, is_line_failure};
use crate::escaped;
use crate::recorder::local_outcome;
use net::Cx;
use protocols::modem::{FileInfo, ModemFailure, ReceiverEvent};
use records::escape::reason;
use records::format::count;
use records::transfer::Outcome;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A batch of files that is received.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) engine: ReceiverEngine,
    policy: DownloadPolicy,
    /// Name that the user has given for the first file.
    name: Option<String>,
    current: Option<Current>,
    /// Whether the sender has requested the download.
    is_requested: bool,
    is_over: bool,
}

/// A file that is received.
#[derive(Debug)]
struct Current {
    info: FileInfo,
    partial: PartialFile,
    /// Safe name that the sender has requested.
    name: String,
}

/// Event of the engine without a borrow, except for data, which has been written.
enum Step {
    Offer(FileInfo),
    RemoteCrc(Option<u32>),
    Written(io::Result<()>),
    LimitExceeded,
    FileComplete,
    Complete,
    Failed(ModemFailure),
}

impl Download {
    pub(super) fn new(
        protocol: ModemProtocol,
        name: Option<String>,
        policy: DownloadPolicy,
        cx: &Cx<'_>,
    ) -> Self {
        let engine = ReceiverEngine::new(protocol, cx.now);
        Self { engine, policy, name, current: None, is_requested: false, is_over: false }
    }

    /// Records that the sender has requested the download.
    pub(super) fn requested(self) -> Self {
        Self { is_requested: true, ..self }
    }

    pub(super) const fn policy(&self) -> &DownloadPolicy {
        &self.policy
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Processes the events of the engine.
    pub(super) fn serve(&mut self, report: &mut Report, cx: &mut Cx<'_>) {
        while !self.is_over
            && let Some(step) = self.next_step()
        {
            match step {
                Step::Offer(info) => self.on_offer(info, report, cx),
                Step::RemoteCrc(crc) => self.on_remote_crc(crc, report, cx),
                Step::Written(Ok(())) => {
                    let len = self.current.as_ref().map_or(0, |current| current.partial.len());
                    report.progress.set(len, cx.now);
                }
                Step::Written(Err(error)) => self.on_local_error(&error, report, cx),
                Step::LimitExceeded => self.on_limit(report, cx),
                Step::FileComplete => self.on_file_complete(report, cx),
                Step::Complete => self.is_over = true,
                Step::Failed(failure) => {
                    report.is_line_failure = is_line_failure(failure, &report.progress);
                    report.cancelled_by = Some(failure_canceller(failure, false));
                    self.end(failure_text(failure, false), failure_outcome(failure), report, cx);
                }
            }
        }
    }

    fn next_step(&mut self) -> Option<Step> {
        Some(match self.engine.event()? {
            ReceiverEvent::Offer(info) => Step::Offer(info),
            ReceiverEvent::RemoteCrc(crc) => Step::RemoteCrc(crc),
            ReceiverEvent::Data(data) => {
                let len = data.len() as u64;
                let Some(rest) = self.policy.remaining_bytes.checked_sub(len) else {
                    return Some(Step::LimitExceeded);
                };
                self.policy.remaining_bytes = rest;
                Step::Written(match &mut self.current {
                    Some(current) => current.partial.write(data),
                    None => Ok(()),
                })
            }
            ReceiverEvent::FileComplete => Step::FileComplete,
            ReceiverEvent::Complete => Step::Complete,
            ReceiverEvent::Failed(failure) => Step::Failed(failure),
        })
    }

    fn on_offer(&mut self, info: FileInfo, report: &mut Report, cx: &mut Cx<'_>) {
        let name = self.name.take().unwrap_or_else(|| safe_name(&info.name));
        if self.policy.remaining_files == 0
            || info.size.is_some_and(|size| size > self.policy.remaining_bytes)
        {
            let size = info.size.map(|size| format!(" of {} bytes", count(size)));
            let name = escaped(name.as_bytes());
            report.notice(format!("{name}{} was refused.", size.unwrap_or_default()));
            return self.on_limit(report, cx);
        }
        self.policy.remaining_files -= 1;
        let max_len = info.size.filter(|_| self.engine.can_resume());
        let max_len = max_len.map(|size| size.min(u32::MAX.into()));
        self.open(info, name, max_len, report, cx);
    }

    /// Opens the file and accepts the offer; a partial file is verified first.
    fn open(
        &mut self,
        info: FileInfo,
        name: String,
        resumable_len: Option<u64>,
        report: &mut Report,
        cx: &mut Cx<'_>,
    ) {
        let partial = match PartialFile::open(&self.policy.directory, &name, resumable_len) {
            Ok(partial) => partial,
            Err(error) => return self.on_local_error(&error, report, cx),
        };
        let len = u32::try_from(partial.len()).unwrap_or(0);
        report.progress.begin(&escaped(name.as_bytes()), info.size, partial.len(), cx.now);
        self.current = Some(Current { info, partial, name });
        match len {
            0 => self.engine.accept(0, cx),
            len => self.engine.request_crc(len, cx),
        }
    }

    fn on_remote_crc(&mut self, crc: Option<u32>, report: &mut Report, cx: &mut Cx<'_>) {
        let Some(mut current) = self.current.take() else { return };
        let is_same = match crc.map(|crc| current.partial.verify(crc)).transpose() {
            Ok(is_same) => is_same.unwrap_or(false),
            Err(error) => return self.on_local_error(&error, report, cx),
        };
        let name = escaped(current.name.as_bytes());
        if !is_same {
            report.notice(format!("{name}.part belongs to another file, and is kept."));
            return self.open(current.info, current.name, None, report, cx);
        }
        let len = current.partial.len();
        report.notice(format!("Continuing {name} after {} bytes.", count(len)));
        report.progress.begin(&name, current.info.size, len, cx.now);
        self.current = Some(current);
        self.engine.accept(u32::try_from(len).unwrap_or(0), cx);
    }

    fn on_file_complete(&mut self, report: &mut Report, cx: &Cx<'_>) {
        let Some(current) = self.current.take() else { return };
        let len = current.partial.len();
        let summary = report.summary(len, cx);
        let name = match current.partial.complete(current.info.modified_unix_s) {
            Ok(name) => name,
            Err(error) => return self.on_local_error(&error, report, cx),
        };
        let path = self.policy.directory.join(&name).into_os_string().into_encoded_bytes();
        report.record(&current.info, path, (Outcome::Complete, None), cx.now);
        let [stored, requested] = [&name, &current.name].map(|name| escaped(name.as_bytes()));
        report.notice(match name == current.name {
            true => format!("Received {stored}: {summary}."),
            false => format!("Received {stored}: {summary}; {requested} exists."),
        });
    }

    /// Ends the transfer, because the remote program has ended without a cancel sequence.
    pub(super) fn on_remote_end(&mut self, report: &mut Report, cx: &Cx<'_>) {
        let has_sender = self.is_requested || self.engine.has_answer();
        let failure = if has_sender { ModemFailure::Cancelled } else { ModemFailure::NoAnswer };
        self.end(failure_text(failure, false), failure_outcome(failure), report, cx);
    }

    /// Queues a NAK of XMODEM or YMODEM after the end of the remote program. The acknowledgment of the
    /// last block is a character that the shell has read; NAK is the character that erases a line.
    pub(super) fn erase_unexpected_reply(&self, output: &mut Vec<u8>) {
        if !self.engine.can_resume() {
            output.push(NAK);
        }
    }

    fn on_limit(&mut self, report: &mut Report, cx: &Cx<'_>) {
        let sentence =
            "Download cancelled: more than the limit of the session; --download-limit changes it.";
        self.cancel(sentence.to_owned(), Outcome::Local, report, cx);
    }

    fn on_local_error(&mut self, error: &io::Error, report: &mut Report, cx: &Cx<'_>) {
        let sentence = write_error_text(&self.policy.directory, error);
        self.cancel(sentence, local_outcome(error), report, cx);
    }

    /// Cancels the transfer at both ends.
    pub(super) fn cancel(
        &mut self,
        sentence: String,
        outcome: Outcome,
        report: &mut Report,
        cx: &Cx<'_>,
    ) {
        self.engine.abort();
        report.cancelled_by = Some(CancelledBy::Local { is_block_receiver: false });
        self.end(sentence, outcome, report, cx);
    }

    fn end(&mut self, sentence: String, outcome: Outcome, report: &mut Report, cx: &Cx<'_>) {
        self.is_over = true;
        let current = self.current.take();
        let kept = current.map(|current| (current.info, current.name, current.partial.keep()));
        if let Some((info, name, part)) = &kept {
            // Without a kept part, the name is the one that was requested.
            let path = part.clone().unwrap_or_else(|| name.clone()).into_bytes();
            report.record(info, path, (outcome, Some(&sentence)), cx.now);
        } else if !report.has_record {
            // No file was offered.
            let name = self.name.take().unwrap_or_default().into_bytes();
            report.record(&FileInfo::default(), name, (outcome, Some(&sentence)), cx.now);
        }
        report.fail(sentence);
        if let Some(part) = kept.and_then(|(.., part)| part) {
            let part = escaped(part.as_bytes());
            report.notice(match self.engine.can_resume() {
                true => format!("{part} is kept; ZMODEM continues it next time."),
                false => format!("{part} is kept."),
            });
        }
    }
}

/// Returns the sentence about a file that cannot be written to `directory`.
pub(super) fn write_error_text(directory: &Path, error: &io::Error) -> String {
    let directory = directory.display();
    let why = match error.kind() {
        ErrorKind::PermissionDenied => {
            "permission denied; --download-directory selects another directory".to_owned()
        }
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        ErrorKind::QuotaExceeded => "the disk quota is exhausted".to_owned(),
        _ => reason(error),
    };
    format!("Download cancelled: cannot write to {directory}: {why}.")
}
