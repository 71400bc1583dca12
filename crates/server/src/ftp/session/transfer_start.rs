//! Start of a transfer: its data connection, its file, and the task that moves the data.

use super::ending::{command_of, note_request, note_start};
use super::{FtpSession, RunningTransfer, TaskResult};
use crate::ftp::data::{
    self, Payload, ServerDriver, ServerTransferStats, Stream, TransferTask, open,
};
use crate::ftp::data_tls::DataTlsParameters;
use crate::ftp::passive::{PassiveListener, PortShare};
use crate::metered::Metered;
use carrier::TcpConnection;
use net::meter::Account;
use os::clock::thread_cpu_time;
use protocols::ftp::server::{
    FileError, Opened, Transfer, TransferError, TransferId, TransferKind,
};
use protocols::ftp::{Name, Protection};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use transfer::ftp_data::TransferPlan;
use transfer::pace::RateLimit;
use transfer::recorder::timed;

/// Data connections: listeners, active connections, and the choice of the connection that a
/// transfer uses.
impl FtpSession {
    /// Opens a listener for the next data connection.
    pub(super) fn listen(&mut self) {
        self.close_data();
        self.data_requested_at = Some(Instant::now());
        let settings = self.server.settings();
        let ip = self.local.ip().to_canonical();
        let ports = &settings.passive_ports;
        let share = PortShare::take(&self.server, self.peer.ip(), ports.share());
        let listener = share.is_ok().then(|| PassiveListener::open(ports, ip, self.server.host()));
        let (listener, address) = listener.flatten().unzip();
        self.port_share = share.ok().flatten().filter(|_| listener.is_some());
        let public_ip = settings.passive_address.filter(|public| public.is_ipv4() == ip.is_ipv4());
        let reported_address =
            address.map(|at| SocketAddr::new(public_ip.unwrap_or(ip), at.port()));
        self.listener = listener;
        self.has_sent_replies = false;
        self.data_addresses = (address, None);
        self.engine.on_listening(reported_address, &mut self.server.context().cx());
    }

    /// Starts to connect to the address that the client has specified.
    pub(super) fn connect(&mut self, remote: SocketAddr) {
        self.close_data();
        self.data_requested_at = Some(Instant::now());
        let route_number = self.route_number;
        let from = self.local.ip().to_canonical();
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let server = Rc::clone(&self.server);
        self.spawn(async move {
            TaskResult::Connected(
                route_number,
                TcpConnection::connect(server.host(), Some(from), remote).await,
            )
        });
    }

    /// Closes the listener and any data connection that no transfer uses yet.
    pub(super) fn close_data(&mut self) {
        self.route_number += 1;
        self.listener = None;
        self.data_connection = None;
        self.awaits_data = false;
        self.port_share = None;
        self.data_addresses = (None, None);
    }

    /// Handles a data connection from or to `from`. Returns whether the engine accepts the
    /// connection.
    pub(super) fn on_data_connection(&mut self, stream: Stream, from: SocketAddr) -> bool {
        let is_accepted = self.engine.data_connected(from, &mut self.server.context().cx());
        if is_accepted {
            self.data_connected_at = Some(Instant::now());
            self.listener = None;
            self.data_connection = Some(stream);
            self.awaits_data = false;
            self.port_share = None;
            self.data_addresses.1 = Some(from);
        }
        is_accepted
    }

    /// Accepts connections already made to the listener. Returns whether one of them is accepted as
    /// the data connection.
    pub(super) fn accept_waiting(&mut self) -> bool {
        while let Some((stream, from)) =
            self.listener.as_ref().and_then(PassiveListener::try_accept)
        {
            if self.on_data_connection(stream, from) {
                return true;
            }
        }
        false
    }
}

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
        let mut record = self.server.transfer_log.begin(Some(command_of(&kind)));
        note_request(&mut record, &transfer);
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
                    note_start(&mut running.record, upload);
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
