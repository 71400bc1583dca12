//! The end of a transfer's data, and the completion or withdrawal of an upload.
//!
//! After an upload was placed, the end of the control connection shows whether the client has read
//! the reply: the kernel of a killed client answers the reply with a reset, or sends a reset when
//! it closes a connection with an unread reply.

use super::{FtpSession, TaskResult};
use crate::ftp::upload::Upload;
use os::clock::thread_cpu_time;
use protocols::ftp::server::{FileError, Placement, TransferError, TransferId};
use std::rc::Rc;
use std::time::Instant;

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
}
