//! Files that are received.

use super::download_policy::DownloadPolicy;
use super::engine::ReceiverEngine;
use super::file_name::safe_name;
use super::modem_command::ModemProtocol;
use super::partial_file::PartialFile;
use super::report::{Report, failure_text};
use crate::escaped;
use net::Cx;
use protocols::modem::{FileInfo, ReceiverEvent};
use records::format::count;
use std::io::{self, ErrorKind};

/// A batch of files that is received.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) engine: ReceiverEngine,
    policy: DownloadPolicy,
    /// Name that the user has given for the first file.
    name: Option<String>,
    current: Option<Current>,
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
    Failed(protocols::modem::ModemFailure),
}

impl Download {
    pub(super) fn new(
        protocol: ModemProtocol,
        name: Option<String>,
        policy: DownloadPolicy,
        cx: &Cx<'_>,
    ) -> Self {
        let engine = ReceiverEngine::new(protocol, cx.now);
        Self { engine, policy, name, current: None, is_over: false }
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
                    report.progress.set(len);
                }
                Step::Written(Err(error)) => self.on_local_error(&error, report),
                Step::LimitExceeded => self.on_limit(report),
                Step::FileComplete => self.on_file_complete(report, cx),
                Step::Complete => self.is_over = true,
                Step::Failed(failure) => {
                    report.has_cancelled_peer =
                        failure != protocols::modem::ModemFailure::Cancelled;
                    self.end(failure_text(failure), report);
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
            return self.on_limit(report);
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
            Err(error) => return self.on_local_error(&error, report),
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
            Err(error) => return self.on_local_error(&error, report),
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
        match current.partial.complete(current.info.modified_unix_s) {
            Ok(name) if name == current.name => {
                report.notice(format!("Received {}: {summary}.", escaped(name.as_bytes())));
            }
            Ok(name) => {
                let [name, requested] = [&name, &current.name].map(|name| escaped(name.as_bytes()));
                report.notice(format!("Received {name}: {summary}; {requested} exists."));
            }
            Err(error) => self.on_local_error(&error, report),
        }
    }

    fn on_limit(&mut self, report: &mut Report) {
        self.cancel(
            "Download cancelled: more than the limit of the session; --download-limit changes it."
                .to_owned(),
            report,
        );
    }

    fn on_local_error(&mut self, error: &io::Error, report: &mut Report) {
        let directory = self.policy.directory.display();
        let why = match error.kind() {
            ErrorKind::PermissionDenied => {
                "permission denied; --download-directory selects another directory".to_owned()
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
            _ => error.to_string(),
        };
        self.cancel(format!("Download cancelled: cannot write to {directory}: {why}."), report);
    }

    /// Cancels the transfer at both ends.
    pub(super) fn cancel(&mut self, sentence: String, report: &mut Report) {
        self.engine.abort();
        report.has_cancelled_peer = true;
        self.end(sentence, report);
    }

    fn end(&mut self, sentence: String, report: &mut Report) {
        self.is_over = true;
        report.notice(sentence);
        if let Some(part) = self.current.take().and_then(|current| current.partial.keep()) {
            let part = escaped(part.as_bytes());
            report.notice(format!("{part} is kept; ZMODEM continues it next time."));
        }
    }
}
