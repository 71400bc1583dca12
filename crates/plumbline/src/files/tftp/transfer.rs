//! One TFTP transfer, from its first datagram to its last: the engine between a file and a socket.
//!
//! Each turn fills the engine from the file, sends its output, processes its events, and waits: for
//! a datagram, the engine's deadline, a slow pipe, the rate limit, or a request to stop.

use super::outbox::Outbox;
use super::trouble::{Trouble, is_full};
use super::wire::Wire;
use crate::carry::Bench;
use crate::files::local::{PIECE_BYTES, Piece, Sink, Source};
use crate::files::pace::Pace;
use crate::transfer_recorder::timed;
use os::datagram::Inbox;
use protocols::Instant;
use protocols::application::tftp::{
    Agreed, Direction, ErrorCode, Event, Failure, Fault, Mode, Receiver, Sender,
    UNKNOWN_TRANSFER_ID,
};
use protocols::meter::{Account, Counter};
use protocols::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::Sleep;

/// Bytes of datagrams that are built before they are sent.
const OUTBOX_BYTES: usize = 512 * 1024;
/// Minimum capacity of a sender. It is refilled when half of its capacity is free.
const SENDER_ROOM_MIN: usize = 65_536;
/// Maximum number of repetitions of a send because the network reported an error of an earlier one.
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
pub(crate) enum Work {
    /// A local file is sent.
    Send(Sender, Source),
    /// A file is received. The sink is present until the file is committed.
    Receive(Receiver, Option<Sink>),
}

/// Options of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Direction, from the client's point of view.
    pub(crate) direction: Direction,
    /// Transfer mode.
    pub(crate) mode: Mode,
    /// Time without an answer after which the transfer fails. The engine has the same value.
    pub(crate) patience: Duration,
    /// Maximum time until the first answer, if less.
    pub(crate) opening: Option<Duration>,
    /// Maximum number of repetitions to a client that has never answered.
    pub(crate) unanswered_max: Option<u32>,
    /// Rate limit.
    pub(crate) pace: Pace,
    /// Whether the last acknowledgment is repeated for a peer that may have missed it, even after a
    /// transfer without timeouts.
    pub(crate) lingers: bool,
    /// Maximum size of a received file, in bytes.
    pub(crate) file_max_bytes: u64,
}

/// Facts of a transfer so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) local: Option<SocketAddr>,
    /// Remote address, with the port of the transfer.
    pub(crate) remote: SocketAddr,
    /// Direction, from the client's point of view.
    pub(crate) direction: Direction,
    pub(crate) agreed: Option<Agreed>,
    pub(crate) file_bytes: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) datagrams_in: u64,
    pub(crate) repeated_blocks: u64,
    pub(crate) timeouts: u64,
    /// Number of line endings that were converted, in netascii.
    pub(crate) line_ends: Option<u64>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) total: Duration,
    /// CPU time of the turns of this transfer's task, at its end.
    pub(crate) cpu: Option<Duration>,
}

/// Stops transfers from outside.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_wanted: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Requests the end of the transfers.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.notify.notify_waiters();
    }

    /// Returns whether the transfers are to end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    async fn wanted(&self) {
        let notified = self.notify.notified();
        if !self.is_wanted.load(Ordering::Relaxed) {
            notified.await;
        }
    }
}

/// A transfer in progress.
#[derive(Debug)]
pub(crate) struct Transfer {
    work: Work,
    wire: Wire,
    terms: Terms,
    bench: Bench,
    began: Instant,
    outbox: Outbox,
    inbox: Inbox,
    scratch: Vec<u8>,
    facts: Facts,
    /// Whether the source has no data yet.
    is_starved: bool,
    unanswered: u32,
    is_complete: bool,
    trouble: Option<Trouble>,
}

impl Work {
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
enum Woken {
    Received(io::Result<()>),
    Stopped,
    Fed(io::Result<()>),
    Deadline,
}

impl Transfer {
    /// Prepares a transfer with `remote`, whose engine was created now by the clock of `bench`.
    pub(crate) fn new(
        work: Work,
        wire: Wire,
        remote: SocketAddr,
        terms: Terms,
        bench: Bench,
    ) -> Self {
        let facts = Facts {
            local: wire.local(),
            remote,
            direction: terms.direction,
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
            work,
            wire,
            terms,
            began: bench.clock.now(),
            bench,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            scratch: Vec::new(),
            facts,
            is_starved: false,
            unanswered: 0,
            is_complete: false,
            trouble: None,
        }
    }

    /// Runs the transfer to its end. Returns its facts, its error, and the work. If nothing was
    /// agreed, the source or sink of the work is unused.
    ///
    /// The transfer runs in its own task: tokio wakes a spawned task without a system call, but
    /// needs one for a local task or a future in `block_on`.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime ends first.
    pub(crate) async fn run(
        self,
        stop: Arc<Stop>,
        progress: impl Fn(&Facts) + Send + Sync + 'static,
    ) -> Result<(Facts, Option<Trouble>, Work), JoinError> {
        let moving = async {
            let ((mut facts, trouble, work), cpu) = timed(self.move_all(stop, progress)).await;
            facts.cpu = Some(cpu);
            (facts, trouble, work)
        };
        tokio::spawn(moving).await
    }

    async fn move_all(
        mut self,
        stop: Arc<Stop>,
        progress: impl Fn(&Facts) + Send + Sync + 'static,
    ) -> (Facts, Option<Trouble>, Work) {
        let mut alarm = Alarm::new();
        loop {
            self.fill();
            self.send().await;
            if self.take_events().await {
                // After an opening there is room for data; after a failure an ERROR may be due.
                self.fill();
                self.send().await;
            }
            progress(&self.facts);
            if self.is_over() {
                break;
            }
            self.wait(&stop, &mut alarm).await;
        }
        let meter = &self.bench.meter;
        let again = [Counter::TftpRetransmissions, Counter::TftpIgnored];
        self.facts.repeated_blocks = again.map(|counter| meter.counted(counter)).iter().sum();
        self.facts.timeouts = meter.counted(Counter::TftpTimeouts);
        self.facts.line_ends = self.work.line_ends();
        // The repetition of the last acknowledgment does not count.
        if !self.is_complete {
            self.facts.total = self.bench.clock.now() - self.began;
        }
        (self.facts, self.trouble, self.work)
    }

    fn is_over(&self) -> bool {
        let is_clean = || self.bench.meter.counted(Counter::TftpTimeouts) == 0;
        self.work.is_over()
            || self.trouble.is_some()
            || (self.is_complete && !self.terms.lingers && is_clean())
            || self.lingers_until().is_some_and(|until| self.bench.clock.now() >= until)
    }

    /// Returns the time until which the last acknowledgment is repeated at most. The limit is
    /// needed because a client may request timeouts of minutes.
    fn lingers_until(&self) -> Option<Instant> {
        self.is_complete.then(|| self.began + self.facts.total + LINGER_MAX)
    }

    /// Passes more of the file to the sender, when half of its capacity is free.
    fn fill(&mut self) {
        let Work::Send(sender, source) = &mut self.work else { return };
        let Some(agreed) = self.facts.agreed else { return };
        let now = self.bench.clock.now();
        if self.terms.pace.waits_until(now).is_some() || self.trouble.is_some() {
            return;
        }
        let window = usize::from(agreed.window_size) * usize::from(agreed.block_size);
        let all = window.saturating_mul(2).max(SENDER_ROOM_MIN);
        // A peer that has not answered yet gets the first window, and no memory for more.
        let is_unanswered = self.terms.unanswered_max.is_some() && self.facts.datagrams_in == 0;
        let limit = if is_unanswered { window as u64 } else { u64::MAX };
        let piece_max = if is_unanswered { window.min(PIECE_BYTES) } else { PIECE_BYTES };
        let mut room = sender.room();
        if room < all / 2 && !is_unanswered {
            return;
        }
        if self.scratch.len() < piece_max {
            self.scratch.resize(piece_max, 0);
        }
        let burst = self.terms.pace.burst_bytes().and_then(|burst| usize::try_from(burst).ok());
        let piece = piece_max.min(burst.unwrap_or(usize::MAX));
        loop {
            let left = usize::try_from(limit - self.facts.file_bytes).unwrap_or(usize::MAX);
            room = room.min(left);
            if room == 0 {
                return;
            }
            let most = piece.min(room);
            let scratch = self.scratch.get_mut(..most).unwrap_or_default();
            let count = match source.read(scratch) {
                Ok(Piece::Bytes(count)) => count,
                Ok(Piece::Later) => {
                    self.is_starved = true;
                    return;
                }
                Ok(Piece::End) => return sender.finish(),
                Err(error) => return self.fail(NO_READ, Trouble::Local(error)),
            };
            sender.write(scratch.get(..count).unwrap_or_default());
            self.facts.first_byte.get_or_insert_with(|| now - self.began);
            self.facts.file_bytes += count as u64;
            self.terms.pace.spend(count, now);
            if burst.is_some() {
                return;
            }
            room = sender.room();
        }
    }

    /// Ends the transfer for a local reason, which is sent to the peer.
    fn fail(&mut self, fault: Fault, trouble: Trouble) {
        self.trouble.get_or_insert(trouble);
        self.work.abort(fault);
    }

    /// Sends all output of the engine.
    async fn send(&mut self) {
        loop {
            self.outbox.clear();
            self.collect();
            if self.outbox.is_empty() {
                return;
            }
            self.facts.wire_bytes += self.outbox.bytes.len() as u64;
            for attempt in 0.. {
                let left = self.bench.meter.enter(Account::Interrupt);
                let sent = self.wire.send(&mut self.outbox, self.facts.remote).await;
                self.bench.meter.enter(left);
                match sent {
                    Ok(()) => break,
                    Err(error) => {
                        self.on_network_error(error);
                        if self.trouble.is_some() || attempt == SEND_ATTEMPTS {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn collect(&mut self) {
        let now = self.bench.clock.now();
        let is_held = matches!(self.work, Work::Receive(..)) && self.trouble.is_none();
        if is_held && self.terms.pace.waits_until(now).is_some() {
            return;
        }
        let mut cx = self.bench.cx();
        cx.now = now;
        while self.outbox.bytes.len() < OUTBOX_BYTES {
            let len = match &mut self.work {
                Work::Send(sender, _) => sender.transmit(&mut self.outbox.bytes, &mut cx),
                Work::Receive(receiver, _) => receiver.transmit(&mut self.outbox.bytes, &mut cx),
            };
            let Some(len) = len else { return };
            self.outbox.lens.push(len);
        }
    }

    /// Processes the events of the engine. Returns whether there were any.
    async fn take_events(&mut self) -> bool {
        let mut is_news = false;
        while let Some(event) = self.work.event() {
            is_news = true;
            match event {
                Event::Opened(agreed) => self.facts.agreed = Some(agreed),
                Event::Received => self.received().await,
                Event::Complete => {
                    self.is_complete = true;
                    self.facts.total = self.bench.clock.now() - self.began;
                }
                Event::Failed(failure) => self.failed(failure),
            }
        }
        is_news
    }

    fn failed(&mut self, failure: Failure) {
        let trouble = Trouble::of(failure, self.terms.patience.as_secs());
        self.trouble.get_or_insert(trouble);
    }

    /// Handles the arrival of the last byte.
    async fn received(&mut self) {
        let told = self.facts.agreed.and_then(|agreed| agreed.transfer_size);
        let told = told.filter(|_| self.terms.mode == Mode::Octet);
        if let Some(told) = told.filter(|told| *told > self.facts.file_bytes) {
            return self.fail(TOO_SHORT, Trouble::Short { told });
        }
        if let Some(told) = told.filter(|told| *told < self.facts.file_bytes) {
            return self.fail(TOO_LONG, Trouble::Long { told });
        }
        let Work::Receive(receiver, sink) = &mut self.work else { return };
        let finished = match sink.take() {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        };
        match finished {
            Ok(()) => receiver.keep(&mut self.bench.cx()),
            Err(error) => self.fail_to_write(error),
        }
    }

    fn fail_to_write(&mut self, error: io::Error) {
        let fault = if is_full(&error) { NO_ROOM } else { NO_FILE };
        self.fail(fault, Trouble::Local(error));
    }

    async fn wait(&mut self, stop: &Stop, alarm: &mut Alarm) {
        // A peer that sends endlessly delays neither this nor the deadlines below.
        if stop.is_wanted.load(Ordering::Relaxed) {
            return self.fail(STOPPED, Trouble::Stopped);
        }
        let now = self.bench.clock.now();
        let opening = self.terms.opening.filter(|_| self.facts.agreed.is_none());
        let give_up = opening.map(|opening| self.began + opening);
        let pace = self.terms.pace.waits_until(now);
        let linger = self.lingers_until();
        let deadline = [self.work.deadline(), give_up, pace, linger].into_iter().flatten().min();
        alarm.set(deadline, now);
        let starving = match &mut self.work {
            Work::Send(_, source) if self.is_starved => Some(source),
            _ => None,
        };
        let (wire, inbox, is_starving) = (&self.wire, &mut self.inbox, starving.is_some());
        let fed = async {
            match starving {
                Some(source) => source.ready().await,
                None => Ok(()),
            }
        };
        self.bench.meter.enter(Account::Outside);
        let woken = tokio::select! {
            biased;
            received = wire.receive(inbox) => Woken::Received(received),
            () = stop.wanted() => Woken::Stopped,
            fed = fed, if is_starving => Woken::Fed(fed),
            () = alarm.rings() => Woken::Deadline,
        };
        self.bench.meter.enter(Account::Application);
        self.bench.meter.count(Counter::Wakeups);
        match woken {
            Woken::Received(Ok(())) => {
                self.take_datagrams();
                let now = self.bench.clock.now();
                if self.work.deadline().into_iter().chain(give_up).any(|at| at <= now) {
                    self.timeout(give_up);
                }
            }
            Woken::Received(Err(error)) => self.on_network_error(error),
            Woken::Stopped => self.fail(STOPPED, Trouble::Stopped),
            Woken::Fed(Ok(())) => self.is_starved = false,
            Woken::Fed(Err(error)) => self.fail(NO_READ, Trouble::Local(error)),
            Woken::Deadline => self.timeout(give_up),
        }
    }

    fn timeout(&mut self, give_up: Option<Instant>) {
        let now = self.bench.clock.now();
        if let Some(opening) = self.terms.opening
            && give_up.is_some_and(|at| now >= at)
        {
            self.trouble = Some(Trouble::NoAnswer { seconds: opening.as_secs() });
        }
        let is_due = self.work.deadline().is_some_and(|at| now >= at);
        if is_due && self.facts.datagrams_in == 0 {
            self.unanswered += 1;
            if self.terms.unanswered_max.is_some_and(|most| self.unanswered > most) {
                let seconds = (now - self.began).as_secs();
                self.trouble = Some(Trouble::NoAnswer { seconds });
            }
        }
        if self.trouble.is_some() {
            // Nothing is repeated after an error.
            return;
        }
        let mut cx = self.bench.cx();
        match &mut self.work {
            Work::Send(sender, _) => sender.timeout(&mut cx),
            Work::Receive(receiver, _) => receiver.timeout(&mut cx),
        }
    }

    /// Passes the received datagrams to the engine, and their content to the file.
    fn take_datagrams(&mut self) {
        let Self { work, inbox, bench, facts, terms, .. } = self;
        let mut cx = bench.cx();
        let (mut stray, mut problem, before) = (None, None, facts.file_bytes);
        for datagram in inbox.datagrams().filter(|one| one.from.ip() == facts.remote.ip()) {
            facts.datagrams_in += 1;
            cx.meter.transaction();
            facts.wire_bytes += datagram.data.len() as u64;
            let port = datagram.from.port();
            let taken = match work {
                Work::Send(sender, _) => sender.receive(port, datagram.data, &mut cx),
                Work::Receive(receiver, sink) => {
                    let received = receiver.receive(port, datagram.data, &mut cx);
                    received.map(|bytes| {
                        facts.file_bytes += bytes.len() as u64;
                        if facts.file_bytes > terms.file_max_bytes {
                            problem = Some(io::ErrorKind::FileTooLarge.into());
                        } else if let Some(Err(error)) = sink.as_mut().map(|sink| sink.write(bytes))
                        {
                            problem = Some(error);
                        }
                    })
                }
            };
            // An ERROR is never answered with another one.
            if taken.is_err() && !matches!(datagram.data, [0, 5, ..]) {
                stray = Some(datagram.from);
            }
        }
        // The port of the peer that has answered is used from now on.
        if let Some(port) = work.peer_port() {
            facts.remote.set_port(port);
        }
        let now = cx.now;
        let grown = usize::try_from(facts.file_bytes - before).unwrap_or(usize::MAX);
        if let Work::Receive(..) = work {
            terms.pace.spend(grown, now);
            if grown > 0 {
                facts.first_byte.get_or_insert(now - self.began);
            }
        }
        if let Some(error) = problem {
            self.fail_to_write(error);
        }
        if let (Some(stray), Wire::Kernel(socket)) = (stray, &self.wire) {
            // RFC 1350 §4. It does not matter whether the other sender receives it.
            let lens = [UNKNOWN_TRANSFER_ID.len()];
            _ = socket.get_ref().send(UNKNOWN_TRANSFER_ID, &lens, stray);
        }
    }

    /// Handles an error that the network reports for a sent datagram, or that the socket returns.
    fn on_network_error(&mut self, error: io::Error) {
        let mut was_told = false;
        while let Some(bounce) = self.wire.bounce() {
            was_told = true;
            let is_ours = same_host(bounce.to.ip(), self.facts.remote.ip())
                && bounce.to.port() == self.facts.remote.port();
            // On the path to a peer that has answered, hosts and routers may fail temporarily.
            let is_fatal = match bounce.error.kind() {
                io::ErrorKind::ConnectionRefused => true,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    self.facts.agreed.is_none()
                }
                _ => false,
            };
            if is_ours && is_fatal && !self.is_complete {
                self.trouble.get_or_insert(Trouble::Unreachable(bounce.error));
            }
        }
        let is_way = matches!(
            error.kind(),
            io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::InvalidInput
        );
        match error.kind() {
            _ if was_told => {}
            // The reported error was handled before.
            io::ErrorKind::ConnectionRefused => {}
            _ if is_way => _ = self.trouble.get_or_insert(Trouble::Unreachable(error)),
            _ => _ = self.trouble.get_or_insert(Trouble::Network(error)),
        }
    }
}

fn same_host(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// A timer that is only reset if it would fire too late. Firing early costs one turn.
#[derive(Debug)]
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    rings_at: Option<Instant>,
}

impl Alarm {
    fn new() -> Self {
        let far = tokio::time::Instant::now() + Duration::from_secs(86_400);
        Self { sleep: Box::pin(tokio::time::sleep_until(far)), rings_at: None }
    }

    fn set(&mut self, deadline: Option<Instant>, now: Instant) {
        let Some(deadline) = deadline else { return };
        if self.rings_at.is_none_or(|rings_at| deadline < rings_at) {
            self.sleep.as_mut().reset(tokio::time::Instant::now() + deadline.since(now));
            self.rings_at = Some(deadline);
        }
    }

    async fn rings(&mut self) {
        if self.rings_at.is_none() {
            return std::future::pending().await;
        }
        self.sleep.as_mut().await;
        self.rings_at = None;
    }
}
