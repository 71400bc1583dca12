//! The end of a transfer's data, the completion or withdrawal of an upload, and the log entry and
//! record of a finished transfer.
//!
//! After an upload was placed, the end of the control connection shows whether the client has read
//! the reply: the kernel of a killed client answers the reply with a reset, or sends a reset when
//! it closes a connection with an unread reply.

use super::{FtpSession, SERVER_STOPPED, TaskResult};
use crate::ftp::data::ServerTransferStats;
use crate::ftp::ftp_log::FtpEvent;
use crate::ftp::logged_operation::LoggedOperation;
use crate::ftp::upload::Upload;
use crate::log_line::Level;
use crate::log_text::{TransferAction, escape_name};
use os::clock::thread_cpu_time;
use protocols::ftp::listing::ListForm;
use protocols::ftp::server::{
    self as engine, CloseReason, FileError, Finished, MissingTls, Placement, Transfer,
    TransferError, TransferId, TransferKind,
};
use records::transfer::{Command, DataStyle, Outcome, Text};
use std::rc::Rc;
use std::time::Instant;
use transfer::ftp_data::nanos_between;
use transfer::recorder::{Record, nanos};

impl FtpSession {
    /// Reports the progress of the transfer to the engine.
    pub(super) fn report_progress(&mut self) {
        if let Some(running) = &self.running {
            let id = running.transfer.id;
            let moved_bytes = running.stats.transfer.moved_bytes();
            self.engine.data_moved(id, moved_bytes, &self.server.context().cx());
        }
    }

    pub(super) fn is_committing(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_committing)
    }

    pub(super) fn transfer_ended(
        &mut self,
        id: TransferId,
        result: Result<Option<Upload>, TransferError>,
    ) {
        let Some(running) = self.running_of(id) else { return };
        let moved_bytes = running.stats.transfer.moved_bytes();
        let result = result.map(|upload| running.upload = upload);
        let unsendable = running.stats.unsendable_names.get();
        self.engine.names_omitted(id, unsendable);
        self.engine.data_ended(id, moved_bytes, result, &mut self.server.context().cx());
    }

    /// Handles the orderly end of the control connection by the client.
    pub(super) fn control_ended(&mut self) {
        let has_output = !self.engine.output().is_empty();
        if !has_output && self.control.is_acknowledged() == Some(true) {
            // The client's kernel would have sent a reset if the reply had not been read.
            self.engine.confirm_upload(&mut self.server.context().cx());
        }
        self.engine.peer_closed(&mut self.server.context().cx());
    }

    /// Gives an uploaded file its final name. If the client then turns out to have died,
    /// [`Self::discard`] withdraws the file. If the control connection cannot report
    /// acknowledgments, the file does not get its final name yet.
    pub(super) fn place(&mut self, id: TransferId) {
        let reports_acknowledgments = self.control.is_acknowledged().is_some();
        let Some(running) = self.running_of(id) else { return };
        let Some(mut upload) = running.upload.take() else {
            return self.on_placed(id, None, Err(FileError::Local));
        };
        if !reports_acknowledgments {
            if upload.waits_for_disk() {
                // The disk writes while the session waits for the end of the control connection.
                upload.start_sync();
            }
            return self.on_placed(id, Some(upload), Ok(Placement::Unsupported));
        }
        running.is_committing = true;
        let stats = Rc::clone(&running.stats);
        let started_at = Instant::now();
        if !upload.waits_for_disk() {
            let result = upload.place();
            let elapsed = started_at.elapsed();
            stats.note_commit(elapsed, elapsed);
            return self.on_placed(id, Some(upload), result);
        }
        self.spawn(async move {
            let place_task = tokio::task::spawn_blocking(|| {
                let cpu_before = thread_cpu_time();
                let result = upload.place();
                (upload, result, thread_cpu_time().saturating_sub(cpu_before))
            });
            let Ok((upload, result, cpu)) = place_task.await else {
                return TaskResult::Placed(id, None, Err(FileError::Local));
            };
            stats.note_commit(started_at.elapsed(), cpu);
            TaskResult::Placed(id, Some(upload), result)
        });
    }

    pub(super) fn on_placed(
        &mut self,
        id: TransferId,
        upload: Option<Upload>,
        result: Result<Placement, FileError>,
    ) {
        let now = Instant::now();
        let Some(running) = self.running_of(id) else { return };
        running.is_committing = false;
        running.upload = upload;
        running.placed_at = (result == Ok(Placement::Revocable)).then_some(now);
        self.engine.on_placed(id, result, &mut self.server.context().cx());
    }

    /// Makes a placed upload final.
    pub(super) fn make_permanent(&mut self, id: TransferId) {
        let Some(upload) = self.running_of(id).and_then(|running| running.upload.take()) else {
            return;
        };
        let waits_for_disk = upload.waits_for_disk();
        // The file becomes final immediately, because the next command may remove the directory.
        let replaced_file = upload.make_permanent().filter(|_| waits_for_disk);
        if let Some(replaced_file) = replaced_file {
            tokio::task::spawn_blocking(|| drop(replaced_file));
        }
    }

    /// Stops a transfer and discards its file. A file that already has its final name is withdrawn.
    pub(super) fn discard(&mut self, id: TransferId) {
        self.data_connection = None;
        let Some(running) = self.running_of(id) else { return };
        running.payload = None;
        if let Some(mut upload) = running.upload.take() {
            upload.withdraw();
        }
        if let Some(task) = running.task.take() {
            task.abort();
        }
    }

    pub(super) fn commit(&mut self, id: TransferId) {
        let running = self.running_of(id);
        let stats = running.as_ref().map(|running| Rc::clone(&running.stats));
        let mut upload = running.and_then(|running| {
            running.is_committing = true;
            running.upload.take()
        });
        if let Some(upload) = upload.take_if(|upload| !upload.waits_for_disk()) {
            let started_at = Instant::now();
            let commit_result = upload.commit();
            if let Some(stats) = stats {
                // Nothing blocks here, so the elapsed time is CPU time.
                let elapsed = started_at.elapsed();
                stats.note_commit(elapsed, elapsed);
            }
            return self.engine.on_committed(id, commit_result, &mut self.server.context().cx());
        }
        self.spawn(async move {
            let Some(upload) = upload else {
                return TaskResult::Committed(id, Err(FileError::Local));
            };
            let started_at = Instant::now();
            let committed = tokio::task::spawn_blocking(|| {
                let before = thread_cpu_time();
                let committed = upload.commit();
                (committed, thread_cpu_time().saturating_sub(before))
            });
            let committed = committed.await.map(|(committed, cpu)| {
                if let Some(stats) = stats {
                    stats.note_commit(started_at.elapsed(), cpu);
                }
                committed
            });
            TaskResult::Committed(id, committed.unwrap_or(Err(FileError::Local)))
        });
    }

    pub(super) fn finish(&mut self, finished: &Finished) {
        let Some(mut running) = self.running.take() else { return };
        // After an upload was placed, the session may have waited for a sign that the client is
        // alive.
        let now = running.placed_at.unwrap_or_else(Instant::now);
        let is_aborted_by_server =
            self.server.is_aborting() && finished.result == Err(TransferError::ControlLost);
        let result = match finished.result {
            _ if is_aborted_by_server => Some((Outcome::AbortedByUser, SERVER_STOPPED)),
            result => result.err().map(|error| (outcome_of(error), reason_of(error))),
        };
        let reason = result.map(|(_, reason)| reason);
        if result.is_some_and(|(outcome, _)| outcome == Outcome::Refused) {
            self.count_refusal();
        }
        let timing = ControlTiming {
            command_at: running.received_at,
            opened_at: running.opened_at,
            data_requested_at: self.data_requested_at.take(),
            data_connected_at: self.data_connected_at.take(),
            finished_at: now,
        };
        note_result(&mut running.record, &running.stats, &timing, finished, result);
        self.store_record(&running.stats, &mut running.record);
        let user = self.engine.user().map(|user| escape_name(user.as_bytes()));
        let from = self.peer;
        let user = user.unwrap_or_default();
        let host = self.host.as_deref().map(str::to_owned);
        let name = running.record.transfer.request.path_real.as_ref();
        let name = name.map_or_else(Vec::new, |name| name.as_bytes().to_vec());
        let name = escape_name(&name);
        let action = match &running.transfer.kind {
            TransferKind::List { .. } => TransferAction::Listing,
            kind if kind.is_incoming() => TransferAction::Upload,
            _ => TransferAction::Download,
        };
        // Compression and blocks change the number of bytes on the connection.
        let bytes = running.record.transfer.size.file_bytes.unwrap_or(finished.wire_bytes);
        let count = running.stats.unsendable_names.get();
        if count > 0 {
            let user = user.clone();
            let host = host.clone();
            let name = name.clone();
            self.server.log.write(&FtpEvent::UnsendableNames { from, user, host, name, count });
        }
        let duration = now - running.received_at;
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.server.log.write(&match reason {
            None => FtpEvent::Moved { from, user, host, name, action, bytes, duration_us },
            Some(reason) => {
                let why = reason.to_owned();
                let level = match finished.result {
                    _ if is_aborted_by_server => Level::Notice,
                    // The client has ended the transfer.
                    Err(
                        TransferError::Aborted
                        | TransferError::ControlLost
                        | TransferError::ConnectionLost,
                    ) => Level::Info,
                    _ => Level::Warning,
                };
                FtpEvent::Failed { from, user, host, name, action, bytes, why, level }
            }
        });
    }

    /// Describes for the log why the server has closed the control connection, if it has.
    pub(super) fn close_reason(&self) -> Option<&'static str> {
        Some(match self.engine.close_reason()? {
            CloseReason::TooManyFailedLogins => "too many failed logins",
            CloseReason::TooManyLogins => "too many concurrent logins",
            CloseReason::Timeout => "no command or login for too long",
        })
    }

    /// Logs the result of an operation.
    pub(super) fn log_operation(&self, operation: LoggedOperation, error: Option<FileError>) {
        let user = self.engine.user().map(|user| escape_name(user.as_bytes())).unwrap_or_default();
        let failure = error.map(|error| (error, reason_of(TransferError::File(error))));
        for event in operation.events(self.peer, &user, self.host.as_deref(), failure) {
            if matches!(event, FtpEvent::Denied { .. }) {
                self.count_refusal();
            }
            self.server.log.write(&event);
        }
    }

    /// Logs a command that the user may not use.
    pub(super) fn log_denied(&self, command: &[u8], why: &'static str) {
        self.count_refusal();
        let user = self.engine.user().map(|user| escape_name(user.as_bytes()));
        self.server.log.write(&FtpEvent::Denied {
            from: self.peer,
            user: user.unwrap_or_default(),
            host: self.host.as_deref().map(str::to_owned),
            command: escape_name(command),
            why,
        });
    }

    /// Logs that the client was refused because it does not use TLS.
    pub(super) fn log_missing_tls(&self, missing: MissingTls) {
        self.count_refusal();
        let why = match missing {
            MissingTls::Login => "it sent USER without AUTH TLS, and TLS is required",
            MissingTls::Data => {
                "it requested a data connection without PROT P, and TLS is required"
            }
        };
        self.server.log.write(&FtpEvent::Refused { from: self.peer, why: why.to_owned() });
    }

    fn count_refusal(&self) {
        self.server.admission.borrow_mut().count_refusal();
    }

    /// Adds the session's data to a record and queues the record.
    fn store_record(&mut self, stats: &ServerTransferStats, record: &mut Record) {
        let identity = &mut record.transfer.identity;
        identity.control_local = Some(self.local);
        identity.control_remote = Some(self.peer);
        identity.user = self.engine.user().map(|user| match &self.host {
            None => Text::from(user.as_bytes()),
            Some(host) => Text::from(&[user.as_bytes(), b"@", host.as_bytes()].concat()),
        });
        let method = if self.login_timing.is_anonymous { "anonymous" } else { "password" };
        identity.auth_method = Some(Text::from(method));
        if self.record_session.number(record) {
            record.transfer.time.control_tls_ns = self.login_timing.tls.map(nanos);
            record.transfer.time.login_ns = self.login_timing.login.map(nanos);
            record.transfer.host = self.server.transfer_log.host();
        }
        match stats.unacknowledged.take() {
            Some((stream, since)) => {
                self.server.transfer_log.keep_until_acknowledged(record.clone(), stream, since);
            }
            None => self.server.transfer_log.keep(record),
        }
    }
}

/// Times of events on the control connection.
#[derive(Clone, Copy, Debug)]
struct ControlTiming {
    command_at: Instant,
    opened_at: Option<Instant>,
    data_requested_at: Option<Instant>,
    data_connected_at: Option<Instant>,
    finished_at: Instant,
}

/// Returns the command name for the record.
pub(super) fn command_of(kind: &TransferKind) -> Command {
    match kind {
        TransferKind::Retrieve => Command::Retr,
        TransferKind::Store => Command::Stor,
        TransferKind::StoreUnique => Command::Stou,
        TransferKind::Append => Command::Appe,
        TransferKind::List { form: ListForm::Facts(_), .. } => Command::Mlsd,
        TransferKind::List { form: ListForm::Names { .. }, .. } => Command::Nlst,
        TransferKind::List { .. } => Command::List,
        TransferKind::Mail(_) => Command::Mlfl,
    }
}

/// Records the requested transfer.
pub(super) fn note_request(record: &mut Record, transfer: &Transfer) {
    record.note_representation(&transfer.representation);
    let request = &mut record.transfer.request;
    request.path_real = Some(Text::from(&transfer.path.to_bytes()));
    request.restart_offset_bytes = (transfer.offset_bytes > 0).then_some(transfer.offset_bytes);
    request.announced_bytes = transfer.allocation_bytes;
    request.data_style = transfer.data_command.map(|style| match style {
        engine::DataCommand::Port => DataStyle::Port,
        engine::DataCommand::Eprt => DataStyle::Eprt,
        engine::DataCommand::Lprt => DataStyle::Lprt,
        engine::DataCommand::Pasv => DataStyle::Pasv,
        engine::DataCommand::Epsv => DataStyle::Epsv,
        engine::DataCommand::Lpsv => DataStyle::Lpsv,
    });
}

/// Records the offset at which an upload starts, and the name of the file if the server chose a
/// name other than the requested one.
pub(super) fn note_start(record: &mut Record, upload: &Upload) {
    let request = &mut record.transfer.request;
    // Without REST, APPE starts at the end of the file.
    request.restart_offset_bytes =
        Some(upload.len_bytes()).filter(|len| *len > 0).or(request.restart_offset_bytes);
    if let Some(name) = upload.name() {
        request.path_requested = request.path_real.replace(Text::from(name));
    }
}

/// Records the result of the transfer.
fn note_result(
    record: &mut Record,
    stats: &ServerTransferStats,
    timing: &ControlTiming,
    finished: &Finished,
    failure: Option<(Outcome, &str)>,
) {
    let transfer = &mut record.transfer;
    let data = stats.data();
    data.note(transfer, finished.wire_bytes);
    let command = Some(timing.command_at);
    let time = &mut transfer.time;
    time.command_to_150_ns = nanos_between(command, timing.opened_at);
    time.data_connect_ns = nanos_between(timing.data_requested_at, timing.data_connected_at);
    time.first_byte_ns = nanos_between(command, data.first_byte_at);
    time.last_byte_to_226_ns = nanos_between(data.ended_at, Some(timing.finished_at));
    transfer.result.final_reply = finished.reply.map(u64::from);
    let (outcome, reason) = failure.unzip();
    record.end(outcome.unwrap_or(Outcome::Complete), reason);
}

fn outcome_of(error: TransferError) -> Outcome {
    match error {
        TransferError::NoConnection | TransferError::Stalled => Outcome::Timeout,
        TransferError::ConnectionLost | TransferError::ControlLost => Outcome::AbortedByPeer,
        TransferError::Aborted => Outcome::AbortedByUser,
        TransferError::File(FileError::NoSpace | FileError::Local) => Outcome::Disk,
        TransferError::File(FileError::Quota | FileError::Limit) => Outcome::Quota,
        TransferError::File(_) => Outcome::Refused,
        TransferError::Tls | TransferError::TlsNotResumed | TransferError::Malformed => {
            Outcome::Protocol
        }
    }
}

/// Describes the reason of a failed transfer for the log.
fn reason_of(error: TransferError) -> &'static str {
    match error {
        TransferError::NoConnection => "no data connection",
        TransferError::Tls => "TLS failed on the data connection",
        TransferError::TlsNotResumed => {
            "the data connection did not resume the TLS session (requires-session-reuse)"
        }
        TransferError::ConnectionLost => "data connection lost",
        TransferError::Stalled => "no data transferred for too long",
        TransferError::Aborted => "aborted by the client",
        TransferError::ControlLost => "control connection closed",
        TransferError::Malformed => "the data does not match the transfer type",
        TransferError::File(FileError::NotFound) => "file not found",
        TransferError::File(FileError::Denied) => "permission denied",
        TransferError::File(FileError::Missing(right)) => right.refusal(),
        TransferError::File(FileError::Quota) => "quota exceeded",
        TransferError::File(FileError::Limit) => "the file is larger than file-max-bytes",
        TransferError::File(FileError::BeyondEnd) => "REST offset beyond the end of the file",
        TransferError::File(FileError::Exists) => "file already exists",
        TransferError::File(FileError::IsADirectory) => "the path is a directory",
        TransferError::File(FileError::NoMailbox) => "mailbox not found",
        TransferError::File(FileError::Changed) => "the file changed during the upload",
        TransferError::File(FileError::NoSpace) => "disk full",
        TransferError::File(_) => "file system error",
    }
}
