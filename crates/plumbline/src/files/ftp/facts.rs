//! Observations of an FTP client session, and how they enter the transfer records.
//!
//! The session notes the verb of each command when it is sent, each reply, and the data connection.
//! The thread that moves the data reports the rest at its end ([`DataFacts`]). A record is about
//! one file: its attempts and segments add up, and its times are those of the last attempt. The
//! durations of opening the session are in the first record of the session.

use super::dialogue::{Caller, Dialogue};
use super::exchanges::Exchanges;
use super::get::Ending;
use super::link::{Canceller, Plain};
use super::mover::Moved;
use super::probe::Spans;
use super::trouble::Trouble;
use crate::transfer_recorder::{self, DataTls, Record, TICK, nanos, of_kernel, of_own, of_settled};
use os::context_switches::ContextSwitches;
use protocols::application::ftp::Representation;
use protocols::application::ftp::data::Counts;
use protocols::application::ftp::listing::Entry;
use records::transfer::{Command, DataStyle, Field, Outcome, OwnStack, Role, Stack, Tcp, Text};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Delay before a record is written, so that others are written with it.
const SOON: Duration = Duration::from_millis(100);

/// Durations of the steps that open a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    pub(super) resolve: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) tls: Option<Duration>,
    pub(super) login: Option<Duration>,
    /// Time from the connection to the greeting.
    pub(super) greeting: Option<Duration>,
    /// The commands of the login.
    pub(super) exchanges: Vec<records::verdict::Exchange>,
}

/// Observations of a session.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) opening: Opening,
    session: transfer_recorder::Session,
    steps: Steps,
    exchanges: Exchanges,
}

/// Times of the events of one task.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    command: Option<(Command, Instant)>,
    preliminary: Option<Instant>,
    data_asked: Option<(DataStyle, Instant)>,
    data_connected: Option<Instant>,
    ended: Option<Instant>,
    reply: Option<u16>,
}

/// Observations of the thread that moves the data.
#[derive(Clone, Debug, Default)]
pub(super) struct DataFacts {
    pub(super) tls: Option<DataTls>,
    pub(super) tls_time: Option<Duration>,
    pub(super) first_byte: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) cpu: Duration,
    /// Context switches of the thread, if it did nothing else.
    pub(super) switches: Option<ContextSwitches>,
    /// Run-queue wait of the thread.
    pub(super) run_queue_wait: Option<Duration>,
    /// System calls that moved bytes, if all of them were counted.
    pub(super) calls: Option<u64>,
    pub(super) counts: Counts,
    /// Durations of the steps; `None` for a step that did not occur or was not timed.
    pub(super) reading: Option<Duration>,
    pub(super) writing: Option<Duration>,
    pub(super) waiting: Option<Duration>,
    pub(super) converting: Option<Duration>,
    pub(super) crypto: Option<Duration>,
    /// Whether the transfer is an upload.
    pub(super) is_sending: bool,
    ends: Option<(SocketAddr, SocketAddr)>,
    tcp: Tcp,
    own: OwnStack,
}

impl Facts {
    pub(super) fn new(session: transfer_recorder::Session) -> Self {
        Self {
            opening: Opening::default(),
            session,
            steps: Steps::default(),
            exchanges: Exchanges::default(),
        }
    }

    /// Starts a task.
    pub(super) fn begin(&mut self) {
        self.steps = Steps::default();
        self.exchanges.forget_answered();
    }

    /// Stores the times of the login, which began at `began`.
    pub(super) fn end_login(&mut self, began: Instant) {
        self.opening.greeting = self.exchanges.greeting_since(began);
        self.opening.exchanges = self.exchanges.since(began);
    }

    /// Returns the observations of the last transfer, with times since `began`.
    pub(super) fn transfer_since(
        &self,
        began: Instant,
        data: Option<&DataFacts>,
    ) -> records::verdict::FileTransfer {
        let since = |at: Instant| nanos(at.saturating_duration_since(began));
        records::verdict::FileTransfer {
            exchanges: self.exchanges.since(began),
            connected_ns: self.steps.data_connected.map(since),
            first_byte_ns: data.and_then(|data| data.first_byte).map(since),
            last_byte_ns: data.and_then(|data| data.ended).map(since),
            ..records::verdict::FileTransfer::default()
        }
    }

    /// Records the commands that are sent now.
    pub(super) fn sent(&mut self, output: &[u8]) {
        let now = Instant::now();
        for line in output.split(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| matches!(byte, b' ' | b'\r'));
            let verb =
                end.and_then(|end| line.get(..end)).and_then(|verb| str::from_utf8(verb).ok());
            let Some(verb) = verb else { continue };
            self.exchanges.sent(verb, now);
            if let Some(style) = DataStyle::from_text(verb) {
                self.steps.data_asked = Some((style, now));
            } else if let Some(command) = Command::from_text(verb) {
                self.steps.command = Some((command, now));
            }
        }
    }

    /// Records a reply.
    pub(super) fn replied(&mut self, code: u16) {
        let now = Instant::now();
        self.exchanges.replied(code, now);
        match code {
            100..200 => _ = self.steps.preliminary.get_or_insert(now),
            _ => (self.steps.ended, self.steps.reply) = (Some(now), Some(code)),
        }
    }

    /// Returns the times of a task since its start `began`.
    pub(super) fn spans_since(&self, began: Instant) -> Spans {
        let since = |at: Instant| at.saturating_duration_since(began);
        Spans {
            before: self.steps.data_asked.map(|(_, at)| since(at)),
            command_at: self.steps.command.map(|(_, at)| since(at)),
        }
    }

    pub(super) fn data_connected(&mut self) {
        self.steps.data_connected = Some(Instant::now());
    }
}

impl DataFacts {
    /// Reads the state of the connection at its end.
    pub(super) fn ask(&mut self, plain: &Plain) {
        match plain {
            Plain::Kernel(stream) => {
                self.ask_kernel(stream);
                self.meet(stream.local_addr().ok().zip(stream.peer_addr().ok()));
            }
            Plain::Own { stream, .. } => {
                if let Ok(status) = stream.status() {
                    (self.tcp, self.own) = of_own(&status);
                    self.ends = Some((status.local, status.remote));
                }
            }
        }
    }
}

impl DataFacts {
    /// Reads the kernel's state of the connection.
    pub(super) fn ask_kernel(&mut self, stream: &impl AsFd) {
        self.tcp = of_kernel(stream);
    }

    /// Counts a system call that moves bytes.
    pub(super) fn count_call(&mut self) {
        self.calls = Some(self.calls.unwrap_or(0) + 1);
    }

    /// Stores the two addresses of the connection.
    pub(super) fn meet(&mut self, ends: Option<(SocketAddr, SocketAddr)>) {
        self.ends = ends;
    }

    /// Reads the state of the connection again after the server has confirmed a whole file: TCP had
    /// not yet sent the last bytes when they were written.
    pub(super) fn settle(&mut self, connection: &Canceller) {
        let Some(stream) = connection.socket().filter(|_| self.is_sending) else { return };
        let Some((ago, tcp)) = of_settled(&stream) else {
            if self.tcp == Tcp::default() {
                self.ask_kernel(&stream);
            }
            return;
        };
        self.tcp = tcp;
        let arrived = Instant::now().checked_sub(ago + TICK);
        // TCP reports this time in ticks: keep the more precise time if both are within a tick.
        self.ended = if arrived > self.ended { arrived } else { self.ended };
    }
}

/// Adds the time since `from` to `sum`.
pub(super) fn add_since(sum: &mut Option<Duration>, from: Instant) {
    *sum = Some(sum.unwrap_or_default() + from.elapsed());
}

impl Record {
    /// Begins the record of a transfer.
    pub(super) fn of(caller: &Caller, command: Option<Command>, path: &[u8]) -> Self {
        let stack = if caller.shared.host.is_some() { Stack::Plumbline } else { Stack::Kernel };
        let mut record = caller.recorder.begin(Role::User, stack, command);
        let (identity, user) = (&mut record.transfer.identity, caller.settings.user.as_bytes());
        let is_anonymous = user == b"anonymous" || user == b"ftp";
        identity.remote_name = Some(Text::from(&caller.target.host));
        identity.user = Some(Text::from(user));
        identity.auth_method =
            Some(Text::from(if is_anonymous { "anonymous" } else { "password" }));
        record.transfer.request.path_requested = Some(Text::from(path));
        record
    }

    /// Begins the record of a download or an upload.
    pub(super) fn begin(
        dialogue: &Dialogue,
        is_incoming: bool,
        path: &[u8],
        representation: Representation,
    ) -> Self {
        let command = if is_incoming { Command::Retr } else { Command::Stor };
        let mut record = Self::of(&dialogue.caller, Some(command), path);
        record.note_representation(&representation);
        record
    }

    /// Adds the result of an attempt.
    pub(super) fn take(&mut self, dialogue: &mut Dialogue, moved: Option<&Moved>, offset: u64) {
        let caller = Arc::clone(&dialogue.caller);
        let Some(session) = dialogue.open_session() else { return self.add_moved(moved) };
        let transfer = &mut self.transfer;
        transfer.identity.control_local = Some(session.local);
        transfer.identity.control_remote = Some(session.peer);
        let opening = session.facts.opening.clone();
        if session.facts.session.number(self) {
            let ns = |time: Option<Duration>| time.map(nanos);
            let time = &mut self.transfer.time;
            time.ns_resolve = ns(opening.resolve);
            time.ns_ctl_connect = ns(opening.connect);
            time.ns_ctl_tls = ns(opening.tls);
            time.ns_login = ns(opening.login);
            self.transfer.host = caller.recorder.host();
        }
        let steps = session.facts.steps;
        self.transfer.request.offset_rest = (offset > 0).then_some(offset);
        self.add_moved(moved);
        self.take_steps(&steps, moved);
    }

    fn take_steps(&mut self, steps: &Steps, moved: Option<&Moved>) {
        let (request, time) = (&mut self.transfer.request, &mut self.transfer.time);
        let between = |from: Option<Instant>, to: Option<Instant>| {
            Some(nanos(to?.checked_duration_since(from?)?))
        };
        request.command = steps.command.map(|(command, _)| command).or(request.command);
        request.data_style = steps.data_asked.map(|(style, _)| style);
        let command = steps.command.map(|(_, at)| at);
        time.ns_cmd_to_150 = between(command, steps.preliminary);
        time.ns_data_connect = between(steps.data_asked.map(|(_, at)| at), steps.data_connected);
        let data = moved.map(|moved| &moved.data);
        let (first, last) =
            (data.and_then(|data| data.first_byte), data.and_then(|data| data.ended));
        time.ns_first_byte = between(command, first);
        // The reply may be read before the end of the data.
        let reply =
            last.zip(steps.ended).map(|(last, reply)| reply.saturating_duration_since(last));
        time.ns_last_byte_to_226 = reply.map(nanos);
        self.transfer.result.reply_final = steps.reply.map(u64::from);
    }

    /// Adds the result of a data connection.
    fn add_moved(&mut self, moved: Option<&Moved>) {
        let Some(moved) = moved else { return };
        let data = &moved.data;
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
        add_some(&mut transfer.cpu.vol_switches, switches.map(|switches| switches.voluntary));
        add_some(&mut transfer.cpu.invol_switches, switches.map(|switches| switches.involuntary));
        add_time(&mut transfer.time.ns_data_tls, data.tls_time);
        add_time(&mut transfer.time.ns_read_file, data.reading);
        add_time(&mut transfer.time.ns_write_file, data.writing);
        add_time(&mut transfer.time.ns_wait_net, data.waiting);
        add_time(&mut transfer.time.ns_convert, data.converting);
        add_time(&mut transfer.time.ns_crypto, data.crypto);
        let from = data.first_byte.zip(data.ended);
        add_time(&mut transfer.time.ns_transfer, from.map(|(first, last)| last - first));
        let streams = transfer.tcp.streams.unwrap_or(0) + 1;
        transfer.tcp = Tcp { streams: Some(streams), ..data.tcp.clone() };
        transfer.own_stack = data.own.clone();
        if let Some(tls) = data.tls {
            tls.note(&mut transfer.identity);
        }
        if let Some((local, remote)) = data.ends {
            transfer.identity.data_local = Some(local);
            transfer.identity.data_remote = Some(remote);
        }
    }

    /// Adds the part of the same file that a parallel session has transferred.
    pub(super) fn add(&mut self, other: &Self) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        };
        let (to, from) = (&mut self.transfer, &other.transfer);
        add(&mut to.size.file_bytes, from.size.file_bytes);
        add(&mut to.size.wire_bytes, from.size.wire_bytes);
        add(&mut to.tcp.streams, from.tcp.streams);
        add(&mut to.cpu.cpu_ns, from.cpu.cpu_ns);
        add(&mut to.cpu.syscalls, from.cpu.syscalls);
        add(&mut to.cpu.vol_switches, from.cpu.vol_switches);
        add(&mut to.cpu.invol_switches, from.cpu.invol_switches);
        to.time.ns_transfer = to.time.ns_transfer.max(from.time.ns_transfer);
    }

    /// Stores the hash of the local file, in hexadecimal.
    pub(super) fn note_hash(&mut self, algorithm: &str, hash: &str) {
        self.transfer.size.hash_alg = Some(Text::from(algorithm));
        self.transfer.size.hash = Some(Text::from(hash));
    }

    /// Returns the number of data connections that the file took.
    pub(super) fn streams(&self) -> u64 {
        self.transfer.tcp.streams.unwrap_or(0)
    }

    /// Ends the record with the outcome of its transfer.
    pub(super) fn conclude(&mut self, trouble: Option<&Trouble>) {
        let outcome = trouble.map_or(Outcome::Complete, Trouble::outcome);
        self.end(outcome, trouble.map(Trouble::sentence).as_deref());
    }
}

impl Caller {
    /// Ends a record and keeps it, unless nothing had to be transferred.
    pub(super) fn keep(&self, record: &mut Record, result: Result<Ending, &Trouble>) {
        if self.add(record, result) {
            self.recorder.flush();
        }
    }

    /// Like [`Self::keep`], for one of many: it is written soon, with those that follow it.
    pub(super) fn keep_soon(
        self: &Arc<Self>,
        record: &mut Record,
        result: Result<Ending, &Trouble>,
    ) {
        if !self.add(record, result) || self.is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let caller = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            caller.is_due.store(false, Ordering::Relaxed);
            caller.recorder.flush();
        });
    }

    /// Ends a record. Returns whether it is to be written.
    fn add(&self, record: &mut Record, result: Result<Ending, &Trouble>) -> bool {
        record.conclude(result.err());
        // An existing complete file and invalid arguments are not transfers.
        let is_none = matches!(result, Ok(Ending::WasThere) | Err(Trouble::Wrong(_)));
        if !is_none {
            self.recorder.keep(record);
        }
        !is_none
    }
}

impl Dialogue {
    /// Returns the entries of a directory, as [`Dialogue::list`] does, and records the listing.
    pub(super) async fn list_as_asked(&mut self, folder: &[u8]) -> Result<Vec<Entry>, Trouble> {
        self.asked = Some(Record::of(&self.caller, Some(Command::List), folder));
        let result = self.list(folder).await;
        if let Some(mut record) = self.asked.take() {
            let ending = result.as_ref().map(|_| Ending::Moved);
            self.caller.keep(&mut record, ending);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer_recorder::Recorder;

    #[test]
    fn the_verbs_that_are_sent_say_what_is_asked_for_and_names_do_not() {
        let mut facts = Facts::new(Recorder::open(None, |_| {}).session());
        facts.sent(b"TYPE I\r\nEPSV\r\n");
        facts.sent(b"RETR a STOR b\r\n");
        let steps = facts.steps;
        assert_eq!(steps.data_asked.map(|(style, _)| style), Some(DataStyle::Epsv));
        assert_eq!(steps.command.map(|(command, _)| command), Some(Command::Retr));
    }

    #[test]
    fn a_preliminary_reply_is_not_the_last_one() {
        let mut facts = Facts::new(Recorder::open(None, |_| {}).session());
        facts.replied(150);
        assert!(facts.steps.preliminary.is_some() && facts.steps.reply.is_none());
        facts.replied(226);
        assert_eq!(facts.steps.reply, Some(226));
    }
}
