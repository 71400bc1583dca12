//! Conversion of the observations of a session and of a data connection into transfer records.
//!
//! A record describes one file: the sizes of all attempts and segments are summed, and the times
//! are the times of the last attempt. The first record of a session also contains the durations of
//! opening the session.

use super::client::FtpClient;
use super::connector::Connector;
use super::data_task::TransferResult;
use super::error::FtpError;
use super::file_options::FileOutcome;
use super::session_timing::StepTimes;
use crate::recorder::{Record, nanos};
use protocols::ftp::Representation;
use protocols::ftp::listing::Entry;
use records::transfer::{Command, Outcome, Role, Stack, Text};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Record {
    /// Begins the record of a transfer.
    pub(crate) fn of(connector: &Connector, command: Option<Command>, path: &[u8]) -> Self {
        let stack = if connector.shared.host.is_some() { Stack::Plumbline } else { Stack::Kernel };
        let mut record = connector.recorder.begin(Role::User, stack, command);
        let identity = &mut record.transfer.identity;
        let user = connector.settings.user.as_bytes();
        let is_anonymous = user == b"anonymous" || user == b"ftp";
        identity.remote_name = Some(Text::from(&connector.target.host));
        identity.user = Some(Text::from(user));
        identity.auth_method =
            Some(Text::from(if is_anonymous { "anonymous" } else { "password" }));
        record.transfer.request.path_requested = Some(Text::from(path));
        record
    }

    /// Begins the record of a download or an upload.
    pub fn begin(
        client: &FtpClient,
        is_incoming: bool,
        path: &[u8],
        representation: Representation,
    ) -> Self {
        let command = if is_incoming { Command::Retr } else { Command::Stor };
        let mut record = Self::of(&client.connector, Some(command), path);
        record.note_representation(&representation);
        record
    }

    /// Adds the result of an attempt.
    pub fn add_attempt(
        &mut self,
        client: &mut FtpClient,
        moved: Option<&TransferResult>,
        offset: u64,
    ) {
        let connector = Arc::clone(&client.connector);
        let Some(session) = client.open_session() else { return self.add_moved(moved) };
        let transfer = &mut self.transfer;
        transfer.identity.control_local = Some(session.local);
        transfer.identity.control_remote = Some(session.peer);
        let opening = session.timing.opening.clone();
        if session.timing.session.number(self) {
            let ns = |time: Option<Duration>| time.map(nanos);
            let time = &mut self.transfer.time;
            time.resolve_ns = ns(opening.resolve);
            time.control_connect_ns = ns(opening.connect);
            time.control_tls_ns = ns(opening.tls);
            time.login_ns = ns(opening.login);
            self.transfer.host = connector.recorder.host();
        }
        let steps = session.timing.steps;
        self.transfer.request.restart_offset_bytes = (offset > 0).then_some(offset);
        self.add_moved(moved);
        self.set_step_times(&steps, moved);
    }

    fn set_step_times(&mut self, steps: &StepTimes, moved: Option<&TransferResult>) {
        let request = &mut self.transfer.request;
        let time = &mut self.transfer.time;
        let elapsed_between_ns = |from: Option<Instant>, to: Option<Instant>| {
            Some(nanos(to?.checked_duration_since(from?)?))
        };
        request.command = steps.command.map(|(command, _)| command).or(request.command);
        request.data_style = steps.data_requested.map(|(style, _)| style);
        let command = steps.command.map(|(_, at)| at);
        time.command_to_150_ns = elapsed_between_ns(command, steps.preliminary);
        time.data_connect_ns =
            elapsed_between_ns(steps.data_requested.map(|(_, at)| at), steps.data_connected);
        let data = moved.map(|moved| &moved.stats);
        let first_byte_at = data.and_then(|data| data.first_byte_at);
        let last_byte_at = data.and_then(|data| data.ended_at);
        time.first_byte_ns = elapsed_between_ns(command, first_byte_at);
        // The session may read the reply before the thread has reported the end of the data.
        let reply = last_byte_at
            .zip(steps.ended)
            .map(|(last, reply)| reply.saturating_duration_since(last));
        time.last_byte_to_226_ns = reply.map(nanos);
        self.transfer.result.final_reply = steps.reply.map(u64::from);
    }

    /// Adds the result of a data connection.
    fn add_moved(&mut self, moved: Option<&TransferResult>) {
        let Some(moved) = moved else { return };
        moved.stats.note(&mut self.transfer, moved.wire_bytes);
    }

    /// Adds the record of a segment of the same file that a parallel session has transferred.
    pub(crate) fn add(&mut self, other: &Self) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        };
        let to = &mut self.transfer;
        let from = &other.transfer;
        add(&mut to.size.file_bytes, from.size.file_bytes);
        add(&mut to.size.wire_bytes, from.size.wire_bytes);
        add(&mut to.tcp.streams, from.tcp.streams);
        add(&mut to.cpu.cpu_ns, from.cpu.cpu_ns);
        add(&mut to.cpu.syscalls, from.cpu.syscalls);
        add(&mut to.cpu.voluntary_switches, from.cpu.voluntary_switches);
        add(&mut to.cpu.involuntary_switches, from.cpu.involuntary_switches);
        to.time.transfer_ns = to.time.transfer_ns.max(from.time.transfer_ns);
    }

    /// Stores the hash of the local file, in hexadecimal.
    pub(crate) fn note_hash(&mut self, algorithm: &str, hash: &str) {
        self.transfer.size.hash_algorithm = Some(Text::from(algorithm));
        self.transfer.size.hash = Some(Text::from(hash));
    }

    /// Returns the number of data connections used for the file.
    pub(crate) fn streams(&self) -> u64 {
        self.transfer.tcp.streams.unwrap_or(0)
    }

    /// Ends the record with the outcome of its transfer.
    pub(crate) fn conclude(&mut self, error: Option<&FtpError>) {
        let outcome = error.map_or(Outcome::Complete, FtpError::outcome);
        self.end(outcome, error.map(FtpError::sentence).as_deref());
    }
}

/// Delay before a record is written, so that several records are written together.
const FLUSH_DELAY: Duration = Duration::from_millis(100);

impl Connector {
    /// Ends a record and writes the record. A record without a transfer is discarded.
    pub fn keep(&self, record: &mut Record, result: Result<FileOutcome, &FtpError>) {
        if self.add(record, result) {
            self.recorder.flush();
        }
    }

    /// Like [`Self::keep`], for one of many records. The record is written after a short delay,
    /// together with the records that follow.
    pub fn write_soon(
        self: &Arc<Self>,
        record: &mut Record,
        result: Result<FileOutcome, &FtpError>,
    ) {
        if !self.add(record, result) || self.is_flush_scheduled.swap(true, Ordering::Relaxed) {
            return;
        }
        let connector = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(FLUSH_DELAY).await;
            connector.is_flush_scheduled.store(false, Ordering::Relaxed);
            connector.recorder.flush();
        });
    }

    /// Ends a record. Returns whether the record describes a transfer and must be written.
    fn add(&self, record: &mut Record, result: Result<FileOutcome, &FtpError>) -> bool {
        record.conclude(result.err());
        // An existing complete file and invalid arguments are not transfers.
        let is_no_transfer = matches!(
            result,
            Ok(FileOutcome::AlreadyComplete | FileOutcome::Kept)
                | Err(FtpError::InvalidRequest(_) | FtpError::Exists(_))
        );
        if !is_no_transfer {
            self.recorder.keep(record);
        }
        !is_no_transfer
    }
}

impl FtpClient {
    /// Returns the entries of a directory, as `FtpClient::list` does, and records the listing.
    pub async fn list_recorded(&mut self, directory: &[u8]) -> Result<Vec<Entry>, FtpError> {
        self.listing_record = Some(Record::of(&self.connector, Some(Command::List), directory));
        let result = self.list(directory).await;
        if let Some(mut record) = self.listing_record.take() {
            let outcome = result.as_ref().map(|_| FileOutcome::Transferred);
            self.connector.keep(&mut record, outcome);
        }
        result
    }
}
