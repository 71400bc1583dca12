//! One TFTP transfer, from its first datagram to its last: the engine between a file and a socket.
//!
//! Each iteration of the transfer loop fills the engine from the file, sends the engine's output,
//! processes the engine's events, and waits. The wait ends with a datagram, the engine's deadline,
//! a ready pipe, the rate limit, or a request to stop.

use super::error::TftpError;
use super::outbox::Outbox;
use super::transfer_stats::TftpTransferStats;
use super::udp_transport::UdpTransport;
use crate::local::is_out_of_space;
use crate::local::{LocalSource, PIECE_BYTES, ReadStatus, Sink};
use crate::pace::RateLimit;
use crate::recorder::timed;
use carrier::EngineContext;
use net::Instant;
use net::meter::{Account, Counter};
use net::time::Duration;
use os::datagram::Inbox;
use protocols::tftp::{
    Direction, ErrorCode, Event, Failure, Fault, Mode, Receiver, Sender, UNKNOWN_TRANSFER_ID,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::Sleep;

/// Maximum number of bytes of datagrams built before a send.
const OUTBOX_BYTES: usize = 512 * 1024;
/// Minimum buffer capacity of a sender in bytes. The buffer is refilled when half of it is free.
const SENDER_ROOM_MIN: usize = 65_536;
/// Maximum number of repetitions of a send that failed because the network reported an error of an
/// earlier datagram.
const SEND_ATTEMPTS: usize = 8;

/// Maximum time for which the last acknowledgment is repeated.
const LINGER_MAX: Duration = Duration::from_secs(3);

const NO_ROOM: Fault = Fault { code: ErrorCode::DiskFull, text: "The disk is full." };
const NO_FILE: Fault = Fault { code: ErrorCode::NotDefined, text: "The file cannot be stored." };
const NO_READ: Fault = Fault { code: ErrorCode::NotDefined, text: "The file cannot be read." };
const TOO_SHORT: Fault =
    Fault { code: ErrorCode::NotDefined, text: "The file is shorter than announced." };
const TOO_LONG: Fault =
    Fault { code: ErrorCode::NotDefined, text: "The file is longer than announced." };
const STOPPED: Fault = Fault { code: ErrorCode::NotDefined, text: "The transfer was canceled." };

/// Engine and local end of a transfer.
#[derive(Debug)]
pub enum TransferEngine {
    /// A local file is sent.
    Send(Sender, LocalSource),
    /// A file is received. The sink is present until the file is committed.
    Receive(Receiver, Option<Sink>),
}

/// Options of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct TftpOptions {
    /// Direction, from the client's point of view.
    pub direction: Direction,
    /// Transfer mode.
    pub mode: Mode,
    /// Time without an answer after which the transfer fails. The engine has the same value.
    pub answer_timeout: Duration,
    /// Maximum time until the first answer, if shorter than `answer_timeout`.
    pub first_answer_timeout: Option<Duration>,
    /// Maximum number of retransmissions to a client that has never answered.
    pub unanswered_max: Option<u32>,
    /// Rate limit.
    pub pace: RateLimit,
    /// Whether a receiver stays ready to repeat the last acknowledgment, which the peer may have
    /// missed, even after a transfer without timeouts.
    pub lingers: bool,
    /// Maximum size of a received file, in bytes.
    pub file_max_bytes: u64,
}

/// Handle that stops transfers of other tasks.
#[derive(Debug, Default)]
pub struct Stop {
    is_requested: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Requests that the transfers end.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
        self.notify.notify_waiters();
    }

    /// Returns whether the end of the transfers was requested.
    pub(crate) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    async fn wait_for_request(&self) {
        let notified = self.notify.notified();
        if !self.is_requested.load(Ordering::Relaxed) {
            notified.await;
        }
    }
}

/// A transfer in progress.
#[derive(Debug)]
pub struct Transfer {
    engine: TransferEngine,
    transport: UdpTransport,
    options: TftpOptions,
    engine_context: EngineContext,
    began: Instant,
    outbox: Outbox,
    inbox: Inbox,
    scratch: Vec<u8>,
    stats: TftpTransferStats,
    /// Whether the last read of the source found no data yet.
    is_starved: bool,
    unanswered: u32,
    is_complete: bool,
    error: Option<TftpError>,
}

impl TransferEngine {
    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Send(sender, _) => sender.deadline(),
            Self::Receive(receiver, _) => receiver.deadline(),
        }
    }

    fn peer_port(&self) -> Option<u16> {
        match self {
            Self::Send(sender, _) => sender.peer_port(),
            Self::Receive(receiver, _) => receiver.peer_port(),
        }
    }

    fn event(&mut self) -> Option<Event> {
        match self {
            Self::Send(sender, _) => sender.event(),
            Self::Receive(receiver, _) => receiver.event(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Send(sender, _) => sender.is_over(),
            Self::Receive(receiver, _) => receiver.is_over(),
        }
    }

    fn line_ends(&self) -> Option<u64> {
        match self {
            Self::Send(sender, _) => sender.line_ends(),
            Self::Receive(receiver, _) => receiver.line_ends(),
        }
    }

    fn abort(&mut self, fault: Fault) {
        match self {
            Self::Send(sender, _) => sender.abort(fault),
            Self::Receive(receiver, _) => receiver.abort(fault),
        }
    }
}

/// Result of a wait.
enum WaitResult {
    Received(io::Result<()>),
    Stopped,
    SourceReady(io::Result<()>),
    Deadline,
}

impl Transfer {
    /// Prepares a transfer with `remote`. `engine` must have been created just before, with the
    /// clock of `engine_context`.
    pub fn new(
        engine: TransferEngine,
        transport: UdpTransport,
        remote: SocketAddr,
        options: TftpOptions,
        engine_context: EngineContext,
    ) -> Self {
        let stats = TftpTransferStats {
            local: transport.local(),
            remote,
            direction: options.direction,
            agreed: None,
            file_bytes: 0,
            wire_bytes: 0,
            datagrams_in: 0,
            repeated_blocks: 0,
            timeouts: 0,
            line_ends: None,
            first_byte: None,
            total: Duration::ZERO,
            cpu: None,
        };
        Self {
            engine,
            transport,
            options,
            began: engine_context.clock.now(),
            engine_context,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            scratch: Vec::new(),
            stats,
            is_starved: false,
            unanswered: 0,
            is_complete: false,
            error: None,
        }
    }

    /// Runs the transfer to its end. Returns the statistics, any error, and the engine. If no
    /// parameters were agreed, the source or sink of the engine is unused.
    ///
    /// The transfer runs in its own task, because tokio wakes a spawned task without a system call.
    /// To wake a local task or a future in `block_on`, tokio needs a system call.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime ends first.
    pub async fn run(
        self,
        stop: Arc<Stop>,
        progress: impl Fn(&TftpTransferStats) + Send + Sync + 'static,
    ) -> Result<(TftpTransferStats, Option<TftpError>, TransferEngine), JoinError> {
        let transfer_loop = async {
            let ((mut stats, error, engine), cpu) = timed(self.run_loop(stop, progress)).await;
            stats.cpu = Some(cpu);
            (stats, error, engine)
        };
        tokio::spawn(transfer_loop).await
    }

    async fn run_loop(
        mut self,
        stop: Arc<Stop>,
        progress: impl Fn(&TftpTransferStats) + Send + Sync + 'static,
    ) -> (TftpTransferStats, Option<TftpError>, TransferEngine) {
        let mut timer = DeadlineTimer::new();
        loop {
            self.fill_sender();
            self.send().await;
            if self.take_events().await {
                // An opened transfer can send its first data; a failed transfer may have to send an
                // ERROR.
                self.fill_sender();
                self.send().await;
            }
            progress(&self.stats);
            if self.is_over() {
                break;
            }
            self.wait(&stop, &mut timer).await;
        }
        let meter = &self.engine_context.meter;
        let repeated_counters = [Counter::TftpRetransmissions, Counter::TftpIgnored];
        self.stats.repeated_blocks =
            repeated_counters.map(|counter| meter.counted(counter)).iter().sum();
        self.stats.timeouts = meter.counted(Counter::TftpTimeouts);
        self.stats.line_ends = self.engine.line_ends();
        // For a complete transfer, the total excludes the time of repeated last acknowledgments.
        if !self.is_complete {
            self.stats.total = self.engine_context.clock.now() - self.began;
        }
        (self.stats, self.error, self.engine)
    }

    fn is_over(&self) -> bool {
        let had_no_timeouts = || self.engine_context.meter.counted(Counter::TftpTimeouts) == 0;
        self.engine.is_over()
            || self.error.is_some()
            || (self.is_complete && !self.options.lingers && had_no_timeouts())
            || self.lingers_until().is_some_and(|until| self.engine_context.clock.now() >= until)
    }

    /// Returns the time until which a complete transfer repeats the last acknowledgment. The limit
    /// is necessary because a client may request timeouts of minutes.
    fn lingers_until(&self) -> Option<Instant> {
        self.is_complete.then(|| self.began + self.stats.total + LINGER_MAX)
    }

    /// Passes more of the file to the sender, when half of its capacity is free.
    fn fill_sender(&mut self) {
        let TransferEngine::Send(sender, source) = &mut self.engine else { return };
        let Some(agreed) = self.stats.agreed else { return };
        let now = self.engine_context.clock.now();
        if self.options.pace.waits_until(now).is_some() || self.error.is_some() {
            return;
        }
        let window = usize::from(agreed.window_size) * usize::from(agreed.block_size);
        let buffer_capacity = window.saturating_mul(2).max(SENDER_ROOM_MIN);
        // For a peer that has not answered yet, only the first window is buffered, to limit the
        // memory.
        let is_unanswered = self.options.unanswered_max.is_some() && self.stats.datagrams_in == 0;
        let file_limit = if is_unanswered { window as u64 } else { u64::MAX };
        let max_piece_len = if is_unanswered { window.min(PIECE_BYTES) } else { PIECE_BYTES };
        let mut room = sender.room();
        if room < buffer_capacity / 2 && !is_unanswered {
            return;
        }
        if self.scratch.len() < max_piece_len {
            self.scratch.resize(max_piece_len, 0);
        }
        let burst = self.options.pace.burst_bytes().and_then(|burst| usize::try_from(burst).ok());
        let piece_len = max_piece_len.min(burst.unwrap_or(usize::MAX));
        loop {
            let remaining_bytes =
                usize::try_from(file_limit - self.stats.file_bytes).unwrap_or(usize::MAX);
            room = room.min(remaining_bytes);
            if room == 0 {
                return;
            }
            let read_len = piece_len.min(room);
            let scratch = self.scratch.get_mut(..read_len).unwrap_or_default();
            let count = match source.read(scratch) {
                Ok(ReadStatus::Bytes(count)) => count,
                Ok(ReadStatus::Pending) => {
                    self.is_starved = true;
                    return;
                }
                Ok(ReadStatus::End) => return sender.finish(),
                Err(error) => return self.fail(NO_READ, TftpError::Local(error)),
            };
            sender.write(scratch.get(..count).unwrap_or_default());
            self.stats.first_byte.get_or_insert_with(|| now - self.began);
            self.stats.file_bytes += count as u64;
            self.options.pace.spend(count, now);
            if burst.is_some() {
                return;
            }
            room = sender.room();
        }
    }

    /// Ends the transfer with a local error. The peer receives `fault` as an ERROR packet.
    fn fail(&mut self, fault: Fault, error: TftpError) {
        self.error.get_or_insert(error);
        self.engine.abort(fault);
    }

    /// Sends all output of the engine.
    async fn send(&mut self) {
        loop {
            self.outbox.clear();
            self.collect();
            if self.outbox.is_empty() {
                return;
            }
            self.stats.wire_bytes += self.outbox.bytes.len() as u64;
            for attempt in 0.. {
                let previous_account = self.engine_context.meter.enter(Account::Interrupt);
                let send_result = self.transport.send(&mut self.outbox, self.stats.remote).await;
                self.engine_context.meter.enter(previous_account);
                match send_result {
                    Ok(()) => break,
                    Err(error) => {
                        self.on_network_error(error);
                        if self.error.is_some() || attempt == SEND_ATTEMPTS {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn collect(&mut self) {
        let now = self.engine_context.clock.now();
        let may_be_delayed =
            matches!(self.engine, TransferEngine::Receive(..)) && self.error.is_none();
        if may_be_delayed && self.options.pace.waits_until(now).is_some() {
            return;
        }
        let mut cx = self.engine_context.cx();
        cx.now = now;
        while self.outbox.bytes.len() < OUTBOX_BYTES {
            let len = match &mut self.engine {
                TransferEngine::Send(sender, _) => sender.transmit(&mut self.outbox.bytes, &mut cx),
                TransferEngine::Receive(receiver, _) => {
                    receiver.transmit(&mut self.outbox.bytes, &mut cx)
                }
            };
            let Some(len) = len else { return };
            self.outbox.lens.push(len);
        }
    }

    /// Processes the events of the engine. Returns whether the engine had any events.
    async fn take_events(&mut self) -> bool {
        let mut has_events = false;
        while let Some(event) = self.engine.event() {
            has_events = true;
            match event {
                Event::Opened(agreed) => self.stats.agreed = Some(agreed),
                Event::Received => self.on_last_byte().await,
                Event::Complete => {
                    self.is_complete = true;
                    self.stats.total = self.engine_context.clock.now() - self.began;
                }
                Event::Failed(failure) => self.on_failure(failure),
            }
        }
        has_events
    }

    fn on_failure(&mut self, failure: Failure) {
        let error = TftpError::of(failure, self.options.answer_timeout.as_secs());
        self.error.get_or_insert(error);
    }

    /// Handles the arrival of the last byte.
    async fn on_last_byte(&mut self) {
        let announced = self.stats.agreed.and_then(|agreed| agreed.transfer_size);
        let announced = announced.filter(|_| self.options.mode == Mode::Octet);
        if let Some(announced_bytes) = announced.filter(|bytes| *bytes > self.stats.file_bytes) {
            return self.fail(TOO_SHORT, TftpError::TooShort { announced_bytes });
        }
        if let Some(announced_bytes) = announced.filter(|bytes| *bytes < self.stats.file_bytes) {
            return self.fail(TOO_LONG, TftpError::TooLong { announced_bytes });
        }
        let TransferEngine::Receive(receiver, sink) = &mut self.engine else { return };
        let finish_result = match sink.take() {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        };
        match finish_result {
            Ok(()) => receiver.confirm_stored(&mut self.engine_context.cx()),
            Err(error) => self.fail_to_write(error),
        }
    }

    fn fail_to_write(&mut self, error: io::Error) {
        let fault = if is_out_of_space(&error) { NO_ROOM } else { NO_FILE };
        self.fail(fault, TftpError::Local(error));
    }

    async fn wait(&mut self, stop: &Stop, timer: &mut DeadlineTimer) {
        // Checked first, so that a peer that sends endlessly does not delay the end. The deadlines
        // below are checked after each receipt.
        if stop.is_requested.load(Ordering::Relaxed) {
            return self.fail(STOPPED, TftpError::Stopped);
        }
        let now = self.engine_context.clock.now();
        let opening_timeout =
            self.options.first_answer_timeout.filter(|_| self.stats.agreed.is_none());
        let give_up = opening_timeout.map(|timeout| self.began + timeout);
        let pace = self.options.pace.waits_until(now);
        let linger = self.lingers_until();
        let deadline = [self.engine.deadline(), give_up, pace, linger].into_iter().flatten().min();
        timer.set(deadline, now);
        let starved_source = match &mut self.engine {
            TransferEngine::Send(_, source) if self.is_starved => Some(source),
            _ => None,
        };
        let transport = &self.transport;
        let inbox = &mut self.inbox;
        let is_starved = starved_source.is_some();
        let ready = async {
            match starved_source {
                Some(source) => source.ready().await,
                None => Ok(()),
            }
        };
        self.engine_context.meter.enter(Account::Outside);
        let woken = tokio::select! {
            biased;
            received = transport.receive(inbox) => WaitResult::Received(received),
            () = stop.wait_for_request() => WaitResult::Stopped,
            ready = ready, if is_starved => WaitResult::SourceReady(ready),
            () = timer.wait() => WaitResult::Deadline,
        };
        self.engine_context.meter.enter(Account::Application);
        self.engine_context.meter.count(Counter::Wakeups);
        match woken {
            WaitResult::Received(Ok(())) => {
                self.take_datagrams();
                let now = self.engine_context.clock.now();
                if self.engine.deadline().into_iter().chain(give_up).any(|at| at <= now) {
                    self.timeout(give_up);
                }
            }
            WaitResult::Received(Err(error)) => self.on_network_error(error),
            WaitResult::Stopped => self.fail(STOPPED, TftpError::Stopped),
            WaitResult::SourceReady(Ok(())) => self.is_starved = false,
            WaitResult::SourceReady(Err(error)) => self.fail(NO_READ, TftpError::Local(error)),
            WaitResult::Deadline => self.timeout(give_up),
        }
    }

    fn timeout(&mut self, give_up: Option<Instant>) {
        let now = self.engine_context.clock.now();
        if let Some(first_answer_timeout) = self.options.first_answer_timeout
            && give_up.is_some_and(|at| now >= at)
        {
            self.error = Some(TftpError::NoAnswer { seconds: first_answer_timeout.as_secs() });
        }
        let is_due = self.engine.deadline().is_some_and(|at| now >= at);
        if is_due && self.stats.datagrams_in == 0 {
            self.unanswered += 1;
            if self.options.unanswered_max.is_some_and(|most| self.unanswered > most) {
                let seconds = (now - self.began).as_secs();
                self.error = Some(TftpError::NoAnswer { seconds });
            }
        }
        if self.error.is_some() {
            // After an error nothing is retransmitted.
            return;
        }
        let mut cx = self.engine_context.cx();
        match &mut self.engine {
            TransferEngine::Send(sender, _) => sender.timeout(&mut cx),
            TransferEngine::Receive(receiver, _) => receiver.timeout(&mut cx),
        }
    }

    /// Passes the received datagrams to the engine, and the received data to the file.
    fn take_datagrams(&mut self) {
        let Self { engine, inbox, engine_context, stats, options, .. } = self;
        let mut cx = engine_context.cx();
        let mut unknown_sender = None;
        let mut failure = None;
        let bytes_before = stats.file_bytes;
        for datagram in inbox.datagrams().filter(|datagram| datagram.from.ip() == stats.remote.ip())
        {
            stats.datagrams_in += 1;
            cx.meter.transaction();
            stats.wire_bytes += datagram.data.len() as u64;
            let port = datagram.from.port();
            let datagram_result = match engine {
                TransferEngine::Send(sender, _) => sender.receive(port, datagram.data, &mut cx),
                TransferEngine::Receive(receiver, sink) => {
                    let received = receiver.receive(port, datagram.data, &mut cx);
                    received.map(|bytes| {
                        stats.file_bytes += bytes.len() as u64;
                        if stats.file_bytes > options.file_max_bytes {
                            failure = Some(io::ErrorKind::FileTooLarge.into());
                        } else if let Some(Err(error)) = sink.as_mut().map(|sink| sink.write(bytes))
                        {
                            failure = Some(error);
                        }
                    })
                }
            };
            // An ERROR packet is never answered with another ERROR packet.
            if datagram_result.is_err() && !matches!(datagram.data, [0, 5, ..]) {
                unknown_sender = Some(datagram.from);
            }
        }
        // After the first answer, the transfer uses the port of the peer that has answered.
        if let Some(port) = engine.peer_port() {
            stats.remote.set_port(port);
        }
        let now = cx.now;
        let received_bytes = usize::try_from(stats.file_bytes - bytes_before).unwrap_or(usize::MAX);
        if let TransferEngine::Receive(..) = engine {
            options.pace.spend(received_bytes, now);
            if received_bytes > 0 {
                stats.first_byte.get_or_insert(now - self.began);
            }
        }
        if let Some(error) = failure {
            self.fail_to_write(error);
        }
        if let (Some(sender), UdpTransport::Kernel(socket)) = (unknown_sender, &self.transport) {
            // RFC 1350 §4. The result is ignored: the unknown sender need not receive the ERROR.
            let lens = [UNKNOWN_TRANSFER_ID.len()];
            _ = socket.get_ref().send(UNKNOWN_TRANSFER_ID, &lens, sender);
        }
    }

    /// Handles an error that the network reports for a sent datagram, or that the socket returns.
    fn on_network_error(&mut self, error: io::Error) {
        let mut was_reported = false;
        while let Some(datagram_error) = self.transport.datagram_error() {
            was_reported = true;
            let is_ours = same_host(datagram_error.to.ip(), self.stats.remote.ip())
                && datagram_error.to.port() == self.stats.remote.port();
            // On the path to a peer that has answered, hosts and routers may fail temporarily.
            let is_fatal = match datagram_error.error.kind() {
                io::ErrorKind::ConnectionRefused => true,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    self.stats.agreed.is_none()
                }
                _ => false,
            };
            if is_ours && is_fatal && !self.is_complete {
                self.error.get_or_insert(TftpError::Unreachable(datagram_error.error));
            }
        }
        let is_unreachable = matches!(
            error.kind(),
            io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::InvalidInput
        );
        match error.kind() {
            _ if was_reported => {}
            // An earlier call has already read this error from the error queue and handled it.
            io::ErrorKind::ConnectionRefused => {}
            _ if is_unreachable => _ = self.error.get_or_insert(TftpError::Unreachable(error)),
            _ => _ = self.error.get_or_insert(TftpError::Network(error)),
        }
    }
}

fn same_host(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// A timer that is reset only if the set time is later than the new deadline. If the timer fires
/// early, the transfer loop only runs once more.
#[derive(Debug)]
struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    fires_at: Option<Instant>,
}

impl DeadlineTimer {
    fn new() -> Self {
        let distant_deadline = tokio::time::Instant::now() + Duration::from_secs(86_400);
        Self { sleep: Box::pin(tokio::time::sleep_until(distant_deadline)), fires_at: None }
    }

    fn set(&mut self, deadline: Option<Instant>, now: Instant) {
        let Some(deadline) = deadline else { return };
        if self.fires_at.is_none_or(|fires_at| deadline < fires_at) {
            self.sleep.as_mut().reset(tokio::time::Instant::now() + deadline.since(now));
            self.fires_at = Some(deadline);
        }
    }

    async fn wait(&mut self) {
        if self.fires_at.is_none() {
            return std::future::pending().await;
        }
        self.sleep.as_mut().await;
        self.fires_at = None;
    }
}
