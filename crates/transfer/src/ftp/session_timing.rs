//! Observations of an FTP client session, and their conversion into transfer records.
//!
//! The session records the time of each sent command, of each reply, and of the data connection.
//! The thread that moves the data reports its observations at its end ([`FtpTransferStats`]). A
//! record describes one file: the sizes of all attempts and segments are summed, and the times are
//! the times of the last attempt. The first record of a session also contains the durations of
//! opening the session.

use super::client::FtpClient;
use super::connector::Connector;
use super::data_connection::{Canceller, TcpConnection};
use super::data_transfer::TransferResult;
use super::error::FtpError;
use super::exchanges::Exchanges;
use super::file_options::FileOutcome;
use crate::recorder::{self, DataTls, Record, TICK, nanos, of_kernel, of_settled, of_userspace};
use os::context_switches::ContextSwitches;
use protocols::ftp::Representation;
use protocols::ftp::data::Counts;
use protocols::ftp::listing::Entry;
use records::transfer::{Command, DataStyle, Field, Outcome, OwnStack, Role, Stack, Tcp, Text};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Offsets from the start of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandOffsets {
    /// Time at which the command for a data connection was sent.
    pub data_command_at: Option<Duration>,
    /// Time at which the transfer command was sent.
    pub command_at: Option<Duration>,
}

/// Delay before a record is written, so that several records are written together.
const FLUSH_DELAY: Duration = Duration::from_millis(100);

/// Durations of the steps that open a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) resolve: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    pub(crate) tls: Option<Duration>,
    pub(crate) login: Option<Duration>,
    /// Time from the connection to the greeting.
    pub(crate) greeting: Option<Duration>,
    /// The commands of the login.
    pub(crate) exchanges: Vec<records::verdict::Exchange>,
}

/// Observations of a session.
#[derive(Debug)]
pub(crate) struct SessionTiming {
    pub(crate) opening: Opening,
    session: recorder::RecordedSession,
    steps: StepTimes,
    exchanges: Exchanges,
}

/// Times of the events of one task.
#[derive(Clone, Copy, Debug, Default)]
struct StepTimes {
    command: Option<(Command, Instant)>,
    preliminary: Option<Instant>,
    data_requested: Option<(DataStyle, Instant)>,
    data_connected: Option<Instant>,
    ended: Option<Instant>,
    reply: Option<u16>,
}

/// Observations of the thread that moves the data.
#[derive(Clone, Debug, Default)]
pub(crate) struct FtpTransferStats {
    pub(crate) tls: Option<DataTls>,
    pub(crate) tls_time: Option<Duration>,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    pub(crate) cpu: Duration,
    /// Context switches of the thread, if the thread did nothing else during the transfer.
    pub(crate) switches: Option<ContextSwitches>,
    /// Run-queue wait of the thread.
    pub(crate) run_queue_wait: Option<Duration>,
    /// Number of system calls that moved bytes, if all such calls were counted.
    pub(crate) calls: Option<u64>,
    pub(crate) counts: Counts,
    /// Time spent in reads of the local file; `None` if not timed, like the times below.
    pub(crate) reading: Option<Duration>,
    /// Time spent in writes to the local file.
    pub(crate) writing: Option<Duration>,
    /// Time spent waiting for the network.
    pub(crate) waiting: Option<Duration>,
    /// Time spent on the conversion of the data.
    pub(crate) converting: Option<Duration>,
    /// Time spent in the TLS library.
    pub(crate) crypto: Option<Duration>,
    /// Whether the transfer is an upload.
    pub(crate) is_sending: bool,
    addresses: Option<(SocketAddr, SocketAddr)>,
    tcp: Tcp,
    own: OwnStack,
}

impl SessionTiming {
    pub(crate) fn new(session: recorder::RecordedSession) -> Self {
        Self {
            opening: Opening::default(),
            session,
            steps: StepTimes::default(),
            exchanges: Exchanges::default(),
        }
    }

    /// Starts a task.
    pub(crate) fn begin(&mut self) {
        self.steps = StepTimes::default();
        self.exchanges.remove_answered();
    }

    /// Stores the times of the login, which began at `began`.
    pub(crate) fn end_login(&mut self, began: Instant) {
        self.opening.greeting = self.exchanges.greeting_since(began);
        self.opening.exchanges = self.exchanges.exchanges_since(began);
    }

    /// Returns the observations of the last transfer, with times since `began`.
    pub(crate) fn transfer_since(
        &self,
        began: Instant,
        data: Option<&FtpTransferStats>,
    ) -> records::verdict::FileTransfer {
        let since = |at: Instant| nanos(at.saturating_duration_since(began));
        records::verdict::FileTransfer {
            exchanges: self.exchanges.exchanges_since(began),
            connected_ns: self.steps.data_connected.map(since),
            first_byte_ns: data.and_then(|data| data.first_byte).map(since),
            last_byte_ns: data.and_then(|data| data.ended).map(since),
            ..records::verdict::FileTransfer::default()
        }
    }

    /// Records the commands that are sent now.
    pub(crate) fn record_commands(&mut self, output: &[u8]) {
        let now = Instant::now();
        for line in output.split(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| matches!(byte, b' ' | b'\r'));
            let verb =
                end.and_then(|end| line.get(..end)).and_then(|verb| str::from_utf8(verb).ok());
            let Some(verb) = verb else { continue };
            self.exchanges.record_command(verb, now);
            if let Some(style) = DataStyle::from_text(verb) {
                self.steps.data_requested = Some((style, now));
            } else if let Some(command) = Command::from_text(verb) {
                self.steps.command = Some((command, now));
            }
        }
    }

    /// Records a reply.
    pub(crate) fn record_reply(&mut self, code: u16) {
        let now = Instant::now();
        self.exchanges.record_reply(code, now);
        match code {
            100..200 => _ = self.steps.preliminary.get_or_insert(now),
            _ => (self.steps.ended, self.steps.reply) = (Some(now), Some(code)),
        }
    }

    /// Returns the command times of a task, relative to its start `began`.
    pub(crate) fn command_offsets_since(&self, began: Instant) -> CommandOffsets {
        let since = |at: Instant| at.saturating_duration_since(began);
        CommandOffsets {
            data_command_at: self.steps.data_requested.map(|(_, at)| since(at)),
            command_at: self.steps.command.map(|(_, at)| since(at)),
        }
    }

    pub(crate) fn data_connected(&mut self) {
        self.steps.data_connected = Some(Instant::now());
    }
}

impl FtpTransferStats {
    /// Reads the TCP state and the addresses of the connection at its end.
    pub(crate) fn read_state(&mut self, connection: &TcpConnection) {
        match connection {
            TcpConnection::Kernel(stream) => {
                self.read_kernel_state(stream);
                self.set_addresses(stream.local_addr().ok().zip(stream.peer_addr().ok()));
            }
            TcpConnection::Userspace { stream, .. } => {
                if let Ok(status) = stream.status() {
                    (self.tcp, self.own) = of_userspace(&status);
                    self.addresses = Some((status.local, status.remote));
                }
            }
        }
    }
}

impl FtpTransferStats {
    /// Reads the kernel's TCP state of the connection.
    pub(crate) fn read_kernel_state(&mut self, stream: &impl AsFd) {
        self.tcp = of_kernel(stream);
    }

    /// Counts a system call that moves bytes.
    pub(crate) fn count_call(&mut self) {
        self.calls = Some(self.calls.unwrap_or(0) + 1);
    }

    /// Stores the local and the remote address of the connection.
    pub(crate) fn set_addresses(&mut self, addresses: Option<(SocketAddr, SocketAddr)>) {
        self.addresses = addresses;
    }

    /// Reads the TCP state of an upload again after the server's reply, because TCP sends the last
    /// bytes after the write has returned.
    pub(crate) fn update_after_reply(&mut self, connection: &Canceller) {
        let Some(stream) = connection.socket().filter(|_| self.is_sending) else { return };
        let Some((ago, tcp)) = of_settled(&stream) else {
            if self.tcp == Tcp::default() {
                self.read_kernel_state(&stream);
            }
            return;
        };
        self.tcp = tcp;
        let arrived = Instant::now().checked_sub(ago + TICK);
        // The arrival time that TCP reports is rounded to ticks. If both times are within a tick,
        // the more precise time is kept.
        self.ended = if arrived > self.ended { arrived } else { self.ended };
    }
}

/// Adds the time since `from` to `sum`.
pub(super) fn add_since(sum: &mut Option<Duration>, from: Instant) {
    *sum = Some(sum.unwrap_or_default() + from.elapsed());
}

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
        let first_byte_at = data.and_then(|data| data.first_byte);
        let last_byte_at = data.and_then(|data| data.ended);
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
        let data = &moved.stats;
        let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0) + more);
        let add_time = |sum: &mut Option<u64>, more: Option<Duration>| {
            *sum = more.map(|more| sum.unwrap_or(0) + nanos(more)).or(*sum);
        };
        self.add_cpu(data.cpu);
        let Self { transfer, .. } = self;
        add(&mut transfer.size.file_bytes, moved.file_bytes);
        add(&mut transfer.size.wire_bytes, moved.wire_bytes);
        let add_some = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        };
        add_some(&mut transfer.size.records, data.counts.records);
        add_some(&mut transfer.size.restart_markers, data.counts.markers);
        add_some(&mut transfer.size.crlf_conversions, data.counts.line_ends);
        add_some(&mut transfer.cpu.syscalls, data.calls);
        let switches = data.switches;
        add_some(&mut transfer.cpu.voluntary_switches, switches.map(|switches| switches.voluntary));
        add_some(
            &mut transfer.cpu.involuntary_switches,
            switches.map(|switches| switches.involuntary),
        );
        add_time(&mut transfer.time.data_tls_ns, data.tls_time);
        add_time(&mut transfer.time.file_read_ns, data.reading);
        add_time(&mut transfer.time.file_write_ns, data.writing);
        add_time(&mut transfer.time.network_wait_ns, data.waiting);
        add_time(&mut transfer.time.conversion_ns, data.converting);
        add_time(&mut transfer.time.crypto_ns, data.crypto);
        let from = data.first_byte.zip(data.ended);
        add_time(&mut transfer.time.transfer_ns, from.map(|(first, last)| last - first));
        let streams = transfer.tcp.streams.unwrap_or(0) + 1;
        transfer.tcp = Tcp { streams: Some(streams), ..data.tcp.clone() };
        transfer.own_stack = data.own.clone();
        if let Some(tls) = data.tls {
            tls.note(&mut transfer.identity);
        }
        if let Some((local, remote)) = data.addresses {
            transfer.identity.data_local = Some(local);
            transfer.identity.data_remote = Some(remote);
        }
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
        let is_no_transfer =
            matches!(result, Ok(FileOutcome::AlreadyComplete) | Err(FtpError::InvalidRequest(_)));
        if !is_no_transfer {
            self.recorder.keep(record);
        }
        !is_no_transfer
    }
}

impl FtpClient {
    /// Returns the entries of a directory, as [`FtpClient::list`] does, and records the listing.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::TransferRecorder;

    #[test]
    fn only_the_verb_of_a_command_determines_the_step() {
        let mut timing = SessionTiming::new(TransferRecorder::open(None, |_| {}).session());
        timing.record_commands(b"TYPE I\r\nEPSV\r\n");
        timing.record_commands(b"RETR a STOR b\r\n");
        let steps = timing.steps;
        assert_eq!(steps.data_requested.map(|(style, _)| style), Some(DataStyle::Epsv));
        assert_eq!(steps.command.map(|(command, _)| command), Some(Command::Retr));
    }

    #[test]
    fn a_preliminary_reply_is_not_the_final_one() {
        let mut timing = SessionTiming::new(TransferRecorder::open(None, |_| {}).session());
        timing.record_reply(150);
        assert!(timing.steps.preliminary.is_some() && timing.steps.reply.is_none());
        timing.record_reply(226);
        assert_eq!(timing.steps.reply, Some(226));
    }
}
