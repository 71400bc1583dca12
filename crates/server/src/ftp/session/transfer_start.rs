//! Start of a transfer: opens its file, and starts the task that moves the data.

use super::{FtpSession, RunningTransfer, TaskResult};
use crate::ftp::data::{self, ServerDriver, TransferTask};
use crate::ftp::data_tls::DataTlsParameters;
use crate::ftp::source::{Payload, open};
use crate::ftp::transfer_stats::{self, ServerTransferStats};
use crate::metered::Metered;
use net::meter::Account;
use os::clock::thread_cpu_time;
use protocols::ftp::server::{
    FileError, Opened, Transfer, TransferError, TransferId, TransferKind,
};
use protocols::ftp::{Name, Protection};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use transfer::ftp_data::TransferPlan;
use transfer::pace::RateLimit;
use transfer::recorder::timed;

impl FtpSession {
    /// Opens the file of a transfer.
    pub(super) fn open(&mut self, mut transfer: Transfer) {
        let id = transfer.id;
        let kind = transfer.kind.clone();
        let Some(mut view) = self.user.as_ref().map(|user| user.view.clone()) else {
            return self.on_opened(id, Err(FileError::Denied));
        };
        view.selected_partial = self.selected_partial.take();
        transfer.representation = view.representation(&transfer.path, transfer.representation);
        let mut record = self.server.transfer_log.begin(Some(transfer_stats::command_of(&kind)));
        transfer_stats::note_request(&mut record, &transfer);
        let stats: Rc<ServerTransferStats> = Rc::default();
        self.running = Some(Box::new(RunningTransfer {
            transfer: transfer.clone(),
            record,
            opened_at: None,
            received_at: Instant::now(),
            payload: None,
            upload: None,
            is_committing: false,
            placed_at: None,
            task: None,
            stats: Rc::clone(&stats),
        }));
        let mail = view.spool.clone().map(|spool| (spool, self.mail_sender()));
        let blocks = transfer.offset_bytes > 0
            || matches!(kind, TransferKind::Append | TransferKind::Mail(_));
        if kind.is_incoming() && blocks {
            // The disk may be slow; other sessions must not wait for it.
            let server = Rc::clone(&self.server);
            let source = self.peer.ip();
            return self.spawn_abortable(async move {
                let Ok(permit) = server.copies.acquire(source).await else {
                    return TaskResult::Opened(id, Err(FileError::ServerBusy));
                };
                let result = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    let before = thread_cpu_time();
                    let result = match (&transfer.kind, mail) {
                        (TransferKind::Mail(to), Some((spool, sender))) => {
                            let message = spool.begin(to.as_ref().map(Name::as_bytes), &sender);
                            message.map(|upload| (Opened::default(), Payload::Receive(upload)))
                        }
                        _ => open(&view, &transfer),
                    };
                    (result, thread_cpu_time().saturating_sub(before))
                });
                let result = result.await.map(|(result, cpu)| {
                    // APPE and REST copy the existing content here; the CPU time of the copy counts
                    // too.
                    stats.data().add_cpu_time(cpu);
                    result
                });
                TaskResult::Opened(id, result.unwrap_or(Err(FileError::Local)))
            });
        }
        let result = open(&view, &transfer);
        self.on_opened(id, result);
    }

    /// Reports the opened file to the engine, and waits for the data connection.
    pub(super) fn on_opened(
        &mut self,
        id: TransferId,
        result: Result<(Opened, Payload), FileError>,
    ) {
        let now = Instant::now();
        let result = result.map(|(opened, payload)| {
            if let Some(running) = self.running_of(id) {
                running.opened_at = Some(now);
                if let Payload::Receive(upload) = &payload {
                    transfer_stats::note_start(&mut running.record, upload);
                }
                running.payload = Some(payload);
            }
            opened
        });
        let is_open = result.is_ok();
        self.engine.on_opened(id, result, &mut self.server.context().cx());
        if !is_open {
            return;
        }
        if !self.has_sent_replies || !self.accept_waiting() {
            self.awaits_data = self.listener.is_some();
        }
    }

    /// Starts a transfer on its data connection. A small file is moved without a task.
    pub(super) fn start(&mut self, id: TransferId) {
        let stream = self.data_connection.take();
        let addresses = self.data_addresses;
        let source = self.peer.ip();
        self.close_data();
        let server = Rc::clone(&self.server);
        let tls = self.data_tls_parameters();
        let pace = self.user.as_ref().map(|user| Rc::clone(&user.pace));
        let clock = self.clock;
        let task_results = self.task_results.clone();
        let markers = self.markers.clone();
        // A client that has not received the 150 reply yet has sent no data.
        let has_sent_replies = self.engine.output().is_empty();
        let Some(running) = self.running_of(id) else { return };
        let (Some(stream), Some(payload)) = (stream, running.payload.take()) else {
            let local = Err(TransferError::File(FileError::Local));
            return self.engine.data_ended(id, 0, local, &mut server.context().cx());
        };
        running.stats.data().addresses = addresses.0.zip(addresses.1);
        let tls = tls.filter(|_| running.transfer.protection == Protection::Private);
        let representation = running.transfer.representation;
        let pace = pace.unwrap_or_else(|| Rc::new(Cell::new(RateLimit::new(None))));
        let plan =
            TransferPlan::new(&representation, tls.is_some(), stream.is_kernel(), &pace.get());
        let payload = match payload {
            Payload::Send { file, offset, len } if plan.is_immediate() => {
                let stats = &running.stats;
                let started_at = Instant::now();
                let sent_bytes = server.charge(Account::Interrupt, || {
                    data::send_immediately(&stream, &file, offset, len, stats)
                });
                if offset + sent_bytes >= len && offset < len {
                    data::close_after_send(stream, sent_bytes, stats, started_at);
                    let mut context = server.context();
                    return self.engine.data_ended(id, sent_bytes, Ok(()), &mut context.cx());
                }
                Payload::Send { file, offset: offset + sent_bytes, len }
            }
            Payload::Receive(mut upload) if plan.is_immediate() && has_sent_replies => {
                let receive_result = server.charge(Account::Interrupt, || {
                    let scratch = &mut *server.scratch.borrow_mut();
                    data::receive_available(&stream, &mut upload, scratch, &running.stats)
                });
                match receive_result {
                    Ok(false) => Payload::Receive(upload),
                    Ok(true) => return self.transfer_ended(id, Ok(Some(upload))),
                    Err(error) => return self.transfer_ended(id, Err(error)),
                }
            }
            payload => payload,
        };
        let stats = Rc::clone(&running.stats);
        let deflate_level = running.transfer.deflate_level;
        let driver =
            ServerDriver { server: Rc::clone(&server), source, pace, clock, markers, stats };
        let transfer_task = TransferTask { driver, representation, plan, deflate_level };
        let stats = Rc::clone(&running.stats);
        running.task = Some(tokio::task::spawn_local(async move {
            let transfer = transfer_task.run(stream, tls, payload);
            let (result, cpu) = timed(server.charge_future(Account::Interrupt, transfer)).await;
            stats.data().add_cpu_time(cpu);
            task_results.push(TaskResult::Ended(id, result));
        }));
    }

    /// Returns the TLS parameters of a protected data connection, if the server offers TLS.
    fn data_tls_parameters(&self) -> Option<DataTlsParameters> {
        let configuration = Arc::clone(&self.tls_options.tls.as_ref()?.configuration);
        let is_reuse_required = self.server.settings().requires_session_reuse;
        Some(DataTlsParameters {
            configuration,
            token: self.token,
            family: is_reuse_required.then(|| self.family.clone()),
        })
    }
}
