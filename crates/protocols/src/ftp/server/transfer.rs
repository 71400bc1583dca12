//! Commands for data connections and transfers: PORT to EPSV, RETR to MLFL, ABOR.

use super::running_transfer::{Running, Stage};
use super::*;
use crate::ftp::address::{write_lprt, write_port};
use crate::ftp::command::{Epsv, ListArgument};
use crate::ftp::data::check_supported;
use crate::ftp::listing::{ListForm, Pattern};
use crate::ftp::representation::{ByteSize, Structure, WordFormat};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use net::time::Duration;

/// Reply code of a successful transfer.
const COMPLETE: u16 = 226;
const COMPLETE_TEXT: &str = "Transfer complete";
/// Delay before the server commits an upload that cannot be reverted. Linux closes the descriptors
/// of a killed process from the highest number down, so the data connection usually ends before the
/// control connection. For 1,500 clients killed on loopback with 17 runnable tasks on two
/// processors, the longest measured interval between the ends of the two connections was 19 ms.
const UNPLACED_GRACE: Duration = Duration::from_millis(50);

/// Properties of a file that the owner has opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Number of bytes that will be sent, if known.
    pub size_bytes: Option<u64>,
    /// Name that the owner chose for STOU.
    pub name: Option<Vec<u8>>,
}

impl Server {
    pub(super) fn transfer_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Port(address) => self.port(DataCommand::Port, address, cx),
            Command::Eprt(address) => self.port(DataCommand::Eprt, address, cx),
            Command::Lprt(address) => self.port(DataCommand::Lprt, address, cx),
            Command::Pasv => self.listen(Passive::Pasv, self.address_family()),
            Command::Lpsv => self.listen(Passive::Lpsv, self.address_family()),
            Command::Epsv(Epsv::All) => {
                // RFC 2428 §4: after EPSV ALL an address translator may stop processing this
                // connection.
                self.is_epsv_all = true;
                self.reply(200, b"Only EPSV is accepted from now on");
            }
            Command::Epsv(Epsv::Same) => self.listen(Passive::Epsv, self.address_family()),
            Command::Epsv(Epsv::Family(family)) => self.listen(Passive::Epsv, family),
            Command::Retr(name) => self.begin_transfer(TransferKind::Retrieve, Some(&name), cx),
            Command::Stor(name) => self.begin_transfer(TransferKind::Store, Some(&name), cx),
            Command::Stou(name) => {
                self.begin_transfer(TransferKind::StoreUnique, name.as_ref(), cx);
            }
            Command::Appe(name) => self.begin_transfer(TransferKind::Append, Some(&name), cx),
            Command::List(listed) => self.list(&listed, ListForm::Unix, cx),
            Command::Nlst(listed) => self.list(&listed, ListForm::Names { prefix: Vec::new() }, cx),
            Command::Mlsd(name) => {
                let form = ListForm::Facts(self.facts);
                let kind = TransferKind::List { form, pattern: None, shows_hidden: true };
                self.begin_transfer(kind, name.as_ref(), cx);
            }
            Command::Mlfl(_) if !self.settings.accepts_mail => {
                self.reply(502, b"Mail not accepted");
            }
            Command::Mlfl(user) => self.begin_transfer(TransferKind::Mail(user), None, cx),
            _ => {
                self.close_data();
                self.reply(225, b"No transfer to abort");
            }
        }
    }

    fn port(&mut self, style: DataCommand, address: SocketAddr, cx: &mut Cx<'_>) {
        if self.is_epsv_all {
            return self.reply(503, b"Only EPSV after EPSV ALL");
        }
        // RFC 2577 §3: otherwise a client could make the server connect to any address.
        let is_client_address = address.ip().to_canonical() == self.peer.ip().to_canonical();
        if !is_client_address || address.port() < self.settings.data_port_min {
            cx.meter.count(Counter::FtpBouncesRefused);
            return self.reply(504, b"Data address must be your own, with an unprivileged port");
        }
        self.close_data();
        self.data = DataRoute::Active(address);
        self.data_command = Some(style);
        self.reply(200, b"Port accepted");
    }

    fn listen(&mut self, passive: Passive, family: Family) {
        if self.is_epsv_all && passive != Passive::Epsv {
            return self.reply(503, b"Only EPSV after EPSV ALL");
        }
        if family != self.address_family() {
            let refusal = match self.address_family() {
                Family::Ipv4 => &b"Network protocol not supported, use (1)"[..],
                Family::Ipv6 => b"Network protocol not supported, use (2)",
            };
            return self.reply(522, refusal);
        }
        if passive == Passive::Pasv && family == Family::Ipv6 {
            return self.reply(425, b"PASV does not support IPv6, use EPSV");
        }
        self.data = DataRoute::Default;
        self.busy = Busy::Listening(passive);
        self.events.push_back(ServerEvent::Listen(family));
    }

    /// Continues the session with the owner's answer to [`ServerEvent::Listen`]: the address to
    /// which the user must connect. It is a local address, or the address of an address translator
    /// in front of this host. `None` means that the owner cannot listen.
    pub fn on_listening(&mut self, address: Option<SocketAddr>, cx: &mut Cx<'_>) {
        let Busy::Listening(passive) = self.busy else { return };
        self.busy = Busy::No;
        let text = address.and_then(|address| match passive {
            Passive::Pasv => {
                Some((227, format!("Entering Passive Mode ({})", write_port(address)?)))
            }
            Passive::Epsv => {
                let port = address.port();
                Some((229, format!("Entering Extended Passive Mode (|||{port}|)")))
            }
            Passive::Lpsv => {
                Some((228, format!("Entering Long Passive Mode ({})", write_lprt(address))))
            }
        });
        match text {
            _ if self.is_closing => self.events.push_back(ServerEvent::CloseData),
            Some((code, text)) => {
                self.data = DataRoute::Passive { is_connected: false };
                self.data_command = Some(match passive {
                    Passive::Pasv => DataCommand::Pasv,
                    Passive::Epsv => DataCommand::Epsv,
                    Passive::Lpsv => DataCommand::Lpsv,
                });
                self.reply(code, text.as_bytes());
            }
            None => {
                self.reply(425, b"Cannot listen for a data connection");
                self.events.push_back(ServerEvent::CloseData);
            }
        }
        self.run_queue(cx);
    }

    fn list(&mut self, listed: &ListArgument, form: ListForm, cx: &mut Cx<'_>) {
        let requested_path = listed.name.as_ref().map(Name::as_bytes).unwrap_or_default();
        let name_start =
            requested_path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let (above, last) = requested_path.split_at_checked(name_start).unwrap_or_default();
        let pattern = Pattern::parse(last);
        let directory = if pattern.is_some() { above } else { requested_path };
        let form = match form {
            ListForm::Names { .. } => {
                let needs_slash = !directory.is_empty() && !directory.ends_with(b"/");
                let slash: &[u8] = if needs_slash { b"/" } else { b"" };
                ListForm::Names { prefix: [directory, slash].concat() }
            }
            form => form,
        };
        let name = Name::new(directory).ok();
        let shows_hidden = listed.shows_hidden;
        self.begin_transfer(TransferKind::List { form, pattern, shows_hidden }, name.as_ref(), cx);
    }

    /// Starts a transfer of the file `name`, or of the working directory for `None`.
    fn begin_transfer(&mut self, kind: TransferKind, name: Option<&Name>, cx: &mut Cx<'_>) {
        // CCC ends TLS only on the control connection, not on data connections (RFC 4217 §12.3).
        let is_protected = self.protection == Protection::Private;
        if self.requires_protection() && !is_protected {
            self.report_missing_tls(MissingTls::Data);
            return self.reply(521, b"Data must be protected, send PROT P");
        }
        let Some(path) = self.path_of(name, cx) else { return };
        let mut representation = self.representation;
        if matches!(kind, TransferKind::List { .. }) {
            // A listing already is ASCII text with CR LF line ends (RFC 1123 §4.1.2.7), so only the
            // current mode applies.
            representation.data_type = Type::Image;
            representation.structure = Structure::File;
        }
        if check_supported(&representation).is_err() {
            return self.reply(504, b"Not implemented for this type, structure and mode");
        }
        let id = TransferId(self.next_transfer_id);
        self.next_transfer_id += 1;
        let transfer = Transfer {
            id,
            kind,
            path,
            offset_bytes: core::mem::take(&mut self.restart_bytes),
            allocation_bytes: self.allocation_bytes.take(),
            representation,
            deflate_level: self.deflate_level,
            protection: if is_protected { Protection::Private } else { Protection::Clear },
            data_command: self.data_command.take(),
        };
        let running = Running {
            transfer: transfer.clone(),
            stage: Stage::Opening,
            wire_bytes: 0,
            progress_at: cx.now,
            omitted_names: 0,
            has_quit: false,
        };
        self.busy = Busy::Transferring(Box::new(running));
        self.events.push_back(ServerEvent::Open(transfer));
    }

    /// Returns the transfer with this number, if it is in progress.
    fn running(&mut self, id: TransferId) -> Option<&mut Running> {
        match &mut self.busy {
            Busy::Transferring(running) if running.transfer.id == id => Some(running),
            _ => None,
        }
    }

    /// Continues the transfer with the owner's answer to [`ServerEvent::Open`].
    pub fn on_opened(
        &mut self,
        id: TransferId,
        opened: Result<Opened, FileError>,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now;
        let Some(running) = self.running(id).filter(|running| running.stage == Stage::Opening)
        else {
            return;
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.end(Err(TransferError::File(error)), cx);
                return self.run_queue(cx);
            }
        };
        running.stage = Stage::Connecting;
        running.progress_at = now;
        let text = match (&running.transfer.kind, opened.size_bytes, &opened.name) {
            // RFC 1123 §4.1.2.9 requires this text in the reply to STOU.
            (TransferKind::StoreUnique, _, Some(name)) => [b"FILE: ", name.as_slice()].concat(),
            (TransferKind::Retrieve, Some(size), _) => {
                format!("Opening data connection ({size} bytes)").into_bytes()
            }
            _ => b"Opening data connection".to_vec(),
        };
        self.reply(150, &text);
        match self.data {
            DataRoute::Passive { is_connected: true } => self.start(cx),
            DataRoute::Passive { is_connected: false } => {}
            DataRoute::Active(address) => self.events.push_back(ServerEvent::Connect(address)),
            DataRoute::Default => self.events.push_back(ServerEvent::Connect(self.peer)),
        }
    }

    /// Reports that a data connection from `peer` is established. Returns whether the connection
    /// may be used. If not, the owner closes it and continues to listen.
    pub fn data_connected(&mut self, peer: SocketAddr, cx: &mut Cx<'_>) -> bool {
        if peer.ip().to_canonical() != self.peer.ip().to_canonical() {
            cx.meter.count(Counter::FtpDataPeersRefused);
            return false;
        }
        match (&self.busy, self.data) {
            (_, DataRoute::Passive { is_connected: true }) => false,
            (Busy::Transferring(running), _) if running.stage == Stage::Connecting => {
                self.start(cx);
                true
            }
            (_, DataRoute::Passive { .. }) => {
                self.data = DataRoute::Passive { is_connected: true };
                true
            }
            _ => false,
        }
    }

    /// Reports that the data connection could not be established.
    pub fn data_failed(&mut self, cx: &mut Cx<'_>) {
        if let Busy::Transferring(running) = &self.busy
            && running.stage == Stage::Connecting
        {
            self.fail(TransferError::NoConnection, cx);
            self.run_queue(cx);
        }
    }

    fn start(&mut self, cx: &Cx<'_>) {
        // Each listener and each PORT is used for one data connection only (RFC 1123 §4.1.2.6).
        self.data = DataRoute::Default;
        if let Busy::Transferring(running) = &mut self.busy {
            running.stage = Stage::Moving;
            running.progress_at = cx.now;
            self.events.push_back(ServerEvent::Start(running.transfer.id));
        }
    }

    /// Reports the number of bytes transferred on the data connection so far, for STAT and for the
    /// stall timeout.
    pub fn data_moved(&mut self, id: TransferId, wire_bytes: u64, cx: &Cx<'_>) {
        if let Some(running) = self.running(id)
            && wire_bytes > running.wire_bytes
        {
            running.wire_bytes = wire_bytes;
            running.progress_at = cx.now;
        }
    }

    /// Reports that the sender's restart marker `marker` was received, and that the local file is
    /// stored up to `offset_bytes`: sends reply 110 (RFC 959 §3.5). RFC 1123 §4.1.3.4 requires that
    /// the data is stored first.
    pub fn marker_reached(&mut self, id: TransferId, marker: &[u8], offset_bytes: u64) {
        if self.running(id).is_some() {
            let text = [b"MARK ", marker, format!(" = {offset_bytes}").as_bytes()].concat();
            self.reply(110, &text);
        }
    }

    /// Reports the number of names that are omitted from a listing or altered. The last reply
    /// contains this number.
    pub fn names_omitted(&mut self, id: TransferId, count: u64) {
        if let Some(running) = self.running(id) {
            running.omitted_names = count;
        }
    }

    /// Reports that the data has ended after `wire_bytes`, or the error that ended the data.
    ///
    /// For outgoing data, `Ok` means that the connection accepted the whole file and then its
    /// orderly close. For incoming data, `Ok` means that the connection ended with an orderly close
    /// and the decoder accepted the data. The data connection of a killed client also ends with an
    /// orderly close. An upload in stream mode without TLS is therefore placed by
    /// [`ServerEvent::Place`], and reverted if the end of the control connection shows that the
    /// client has died ([`ServerSettings::upload_grace`]).
    pub fn data_ended(
        &mut self,
        id: TransferId,
        wire_bytes: u64,
        result: Result<(), TransferError>,
        cx: &mut Cx<'_>,
    ) {
        let grace_time = self.settings.upload_grace;
        let Some(running) = self.running(id).filter(|running| running.stage == Stage::Moving)
        else {
            return;
        };
        running.wire_bytes = wire_bytes;
        match result {
            Ok(()) if running.transfer.kind.is_incoming() => {
                if running.is_known_to_be_complete() || grace_time == Duration::ZERO {
                    return self.request_commit();
                }
                if let TransferKind::Mail(_) = running.transfer.kind {
                    running.stage =
                        Stage::Confirming { deadline: cx.now + grace_time.min(UNPLACED_GRACE) };
                    return self.run_queue(cx);
                }
                running.stage = Stage::Placing;
                return self.events.push_back(ServerEvent::Place(id));
            }
            Ok(()) => self.end(Ok(()), cx),
            Err(error) => self.fail(error, cx),
        }
        self.run_queue(cx);
    }

    /// Handles QUIT during a transfer. After the data of an upload, QUIT proves that the client is
    /// alive.
    pub(super) fn on_quit_during_transfer(&mut self) {
        let Busy::Transferring(running) = &mut self.busy else { return };
        match running.stage {
            Stage::Confirming { .. } => self.request_commit(),
            Stage::Placing => running.has_quit = true,
            _ => {}
        }
    }

    /// Requests that the owner commit an upload whose data has ended without an error.
    pub(super) fn request_commit(&mut self) {
        if let Busy::Transferring(running) = &mut self.busy {
            running.stage = Stage::Committing;
            self.events.push_back(ServerEvent::Commit(running.transfer.id));
        }
    }

    /// Continues the transfer with the owner's answer to [`ServerEvent::Place`].
    pub fn on_placed(
        &mut self,
        id: TransferId,
        result: Result<Placement, FileError>,
        cx: &mut Cx<'_>,
    ) {
        let unplaced_grace = self.settings.upload_grace.min(UNPLACED_GRACE);
        // Queued commands wait until this transfer ends, so they get only the short grace time.
        let grace_time =
            if self.queue.is_empty() { self.settings.upload_grace } else { unplaced_grace };
        let Some(running) = self.running(id).filter(|running| running.stage == Stage::Placing)
        else {
            return;
        };
        let has_quit = running.has_quit;
        match result {
            Ok(Placement::Revocable) => {
                running.stage = Stage::Placed { deadline: cx.now + grace_time }
            }
            Ok(Placement::Unsupported) => {
                running.stage = Stage::Confirming { deadline: cx.now + unplaced_grace };
            }
            Err(error) => {
                self.end(Err(TransferError::File(error)), cx);
                return self.run_queue(cx);
            }
        }
        if self.is_closing && !has_quit {
            return self.fail(TransferError::ControlLost, cx);
        }
        if result == Ok(Placement::Revocable) && !self.is_closing {
            self.reply(COMPLETE, COMPLETE_TEXT.as_bytes());
        }
        if has_quit {
            self.confirm_upload(cx);
            self.request_commit();
        }
        self.run_queue(cx);
    }

    /// Returns whether the data of an upload has ended, but the server does not know yet whether
    /// the client is alive. The upload is discarded if the control connection ends before
    /// [`Self::deadline`]. The owner must check the control connection once more before it calls
    /// [`Self::timeout`].
    #[must_use]
    pub fn is_confirming_upload(&self) -> bool {
        let Busy::Transferring(running) = &self.busy else { return false };
        running.is_confirming() || running.is_placed()
    }

    /// Reports that the client acknowledged the reply to the placed upload. This proves that the
    /// client was alive at that time, even if the control connection has ended since. Has no effect
    /// unless an upload is placed and unconfirmed.
    pub fn confirm_upload(&mut self, cx: &mut Cx<'_>) {
        if let Busy::Transferring(running) = &self.busy
            && running.is_placed()
        {
            self.events.push_back(ServerEvent::Keep(running.transfer.id));
            self.finish(Ok(()), Some(COMPLETE), cx);
        }
    }

    /// Continues the transfer with the owner's answer to [`ServerEvent::Commit`].
    pub fn on_committed(&mut self, id: TransferId, result: Result<(), FileError>, cx: &mut Cx<'_>) {
        if self.running(id).is_some_and(|running| running.stage == Stage::Committing) {
            self.end(result.map_err(TransferError::File), cx);
            self.run_queue(cx);
        }
    }

    pub(super) fn abort(&mut self, cx: &mut Cx<'_>) {
        if let Busy::Transferring(running) = &self.busy
            && matches!(running.stage, Stage::Committing | Stage::Placing)
        {
            // ABOR is answered after the file has been committed or refused.
            return self.queue.push_front(Line::Whole(b"ABOR".to_vec()));
        }
        self.fail(TransferError::Aborted, cx);
        self.reply(226, b"Abort successful");
        self.run_queue(cx);
    }

    /// Fails the current transfer, unless its file is already being placed or committed.
    pub(super) fn fail(&mut self, error: TransferError, cx: &mut Cx<'_>) {
        if let Busy::Transferring(running) = &self.busy
            && !matches!(running.stage, Stage::Committing | Stage::Placing)
        {
            self.events.push_back(ServerEvent::Discard(running.transfer.id));
            self.end(Err(error), cx);
        }
    }

    fn end(&mut self, result: Result<(), TransferError>, cx: &mut Cx<'_>) {
        let Busy::Transferring(running) = &self.busy else { return };
        let (code, text) = match (result, &running.transfer.kind) {
            (Ok(()), TransferKind::Mail(_)) => (256, "Mail delivered".into()),
            (Ok(()), TransferKind::List { form, .. }) if running.omitted_names > 0 => {
                (226, listing_complete_text(form, running.omitted_names).into())
            }
            (Ok(()), _) => (COMPLETE, Cow::Borrowed(COMPLETE_TEXT)),
            // RFC 3659 §7.2.1 requires 501 for MLSD of a file.
            (
                Err(TransferError::File(FileError::NotADirectory)),
                TransferKind::List { form: ListForm::Facts(_), .. },
            ) => (501, "Not a directory, use MLST".into()),
            (Err(error), _) => {
                let (code, text) = error.reply();
                (code, text.into())
            }
        };
        let can_receive_reply = !self.is_closing && result != Err(TransferError::ControlLost);
        if can_receive_reply {
            self.reply(code, text.as_bytes());
        }
        self.finish(result, can_receive_reply.then_some(code), cx);
    }

    /// Ends the transfer. Its last reply is already in the output, unless the client can no longer
    /// receive one.
    fn finish(&mut self, result: Result<(), TransferError>, reply: Option<u16>, cx: &mut Cx<'_>) {
        let Busy::Transferring(running) = core::mem::replace(&mut self.busy, Busy::No) else {
            return;
        };
        self.last_received_at = cx.now;
        cx.meter.count(match result {
            Ok(()) => Counter::FtpTransfersComplete,
            Err(_) => Counter::FtpTransfersFailed,
        });
        self.close_data();
        self.events.push_back(ServerEvent::Finished(Finished {
            id: running.transfer.id,
            wire_bytes: running.wire_bytes,
            reply,
            result,
        }));
    }

    /// Closes the data listener and a data connection that is not in use.
    pub(super) fn close_data(&mut self) {
        if let DataRoute::Passive { .. } = self.data {
            self.events.push_back(ServerEvent::CloseData);
        }
        self.data = DataRoute::Default;
    }

    /// Returns whether the current representation supports a transfer from an offset other than
    /// zero.
    pub(super) fn can_restart(&self) -> bool {
        let Representation { data_type, structure, word_format, .. } = self.representation;
        let is_octets = match data_type {
            Type::Image => true,
            Type::Local(size) => size == ByteSize::OCTET || word_format == WordFormat::Packed,
            Type::Ascii(_) | Type::Ebcdic(_) => false,
        };
        is_octets && structure == Structure::File
    }
}

/// Returns the text of the last reply to a listing in which `count` names are missing or altered.
fn listing_complete_text(form: &ListForm, count: u64) -> String {
    let names = if count == 1 { "name" } else { "names" };
    match form {
        ListForm::Unix => {
            format!("Transfer complete; {count} {names} shown with ? for control characters")
        }
        ListForm::Names { .. } | ListForm::Facts(_) => {
            let verb_phrase = if count == 1 { "it contains" } else { "they contain" };
            format!("Transfer complete; {count} {names} omitted: {verb_phrase} line ends")
        }
    }
}
