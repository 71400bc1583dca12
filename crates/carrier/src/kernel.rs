//! Runs a session over a kernel socket in one thread. Tokio opens the connection by a race of the
//! addresses (RFC 8305); then an edge-triggered `epoll` loop transfers the data.

use super::happy_eyeballs::{Race, RaceResult};
use super::outcome::outcome_of;
use super::session_poller::SessionPoller;
use super::stream_session::end_session;
use super::{AckPolicy, CarrierStatus, EndedSession, EngineContext, Outcome, StreamSession};
use anyhow::{Context, Result};
use net::meter::{Account, Counter};
use net::time::Instant;
use os::readiness::{self, PollFlags, Wake, Watched, would_block_as_pending};
use os::receive_delay;
use os::socket::{self, TcpInfo};
use rustix::net::SendFlags;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Maximum number of bytes per read: a large screen in one piece.
const READ_MAX_LEN: usize = 64 * 1024;

/// Minimum number of bytes per read, however slow the display is.
const READ_MIN_LEN: usize = 2 * 1024;

/// Maximum time that the display should need for the data of one read. Our choice: the user cannot
/// interrupt the display of data once it is read.
const READ_DISPLAY_TIME: Duration = Duration::from_millis(50);

/// Poll events after which a read returns data, end of file or an error.
const INCOMING: PollFlags = PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR);

/// An input of the session.
struct Input {
    /// Watched descriptor; `None` for an input that is always ready and cannot be watched, such as
    /// a regular file or `/dev/null`.
    watched: Option<Watched>,
    /// Whether a read may succeed although no readiness event will arrive.
    is_ready: bool,
}

pub(super) fn run<S: StreamSession>(
    mut session: S,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connecting_at = context.clock.now();
    let result = runtime.block_on(connect(addresses, timeout, &mut session, context))?;
    // Read before the work that prepares the session.
    let connect_time = Some(context.clock.now() - connecting_at);
    let (stream, address) = match result {
        Some(RaceResult::Connected(stream, address)) => (stream, address),
        Some(RaceResult::Failed(outcome, address)) => {
            return Ok(EndedSession { session, outcome, address, connect_time: None });
        }
        None => {
            let address = addresses.first().copied().context("no address to connect to")?;
            let outcome = Outcome::LocalClosed;
            return Ok(EndedSession { session, outcome, address, connect_time: None });
        }
    };
    let stream = stream.into_std()?;
    drop(runtime);
    socket::set_no_delay(&stream, true)?;
    socket::set_urgent_inline(&stream, true)?;
    // A session without timestamps works, but receives no receive delays.
    let has_timestamps =
        session.wants_receive_delays() && receive_delay::stamp_arrivals(&stream).is_ok();
    session.set_remote_address(address);
    session.opened(&mut context.cx());
    let poller = SessionPoller::for_socket(stream.as_fd(), &session)?;
    let kernel = Kernel {
        stream,
        has_timestamps,
        poller,
        blocked_at: None,
        session: &mut session,
        context,
        buffer: vec![0; READ_MAX_LEN],
        read_len: READ_MAX_LEN,
        is_urgent_ahead: false,
        is_half_closed: false,
        ended: None,
    };
    let outcome = kernel.run();
    end_session(&mut session, outcome.as_ref().ok().copied(), context);
    Ok(EndedSession { session, outcome: outcome?, address, connect_time })
}

/// Opens the connection. Local input can end the session while the remote host does not answer.
async fn connect<S: StreamSession>(
    addresses: &[SocketAddr],
    timeout: Duration,
    session: &mut S,
    context: &mut EngineContext,
) -> Result<Option<RaceResult>> {
    let mut inputs = inputs_of(session)?;
    let mut race = pin!(Race::new(addresses).run(timeout));
    loop {
        let index = tokio::select! {
            biased;
            result = &mut race => return result.map(Some),
            index = any_readable(&mut inputs, session) => index?,
        };
        take_input(index, session, &mut inputs, context)?;
        if session.is_over() {
            return Ok(None);
        }
    }
}

struct Kernel<'a, S> {
    stream: TcpStream,
    /// Whether the kernel timestamps incoming data.
    has_timestamps: bool,
    poller: SessionPoller,
    /// Time at which the display became full; `None` while it accepts output.
    blocked_at: Option<Instant>,
    session: &'a mut S,
    context: &'a mut EngineContext,
    buffer: Vec<u8>,
    /// Number of bytes that the next read requests.
    read_len: usize,
    /// Whether urgent data was announced and the urgent mark was not read yet.
    is_urgent_ahead: bool,
    is_half_closed: bool,
    /// Outcome of the connection, once it has ended; output for the display may still be pending.
    ended: Option<Outcome>,
}

impl<S: StreamSession> Kernel<'_, S> {
    fn run(mut self) -> Result<Outcome> {
        loop {
            self.write()?;
            self.session.output_written(&mut self.context.cx());
            self.session.flush(&mut self.context.cx())?;
            if self.session.wants_status() {
                let status = self.status();
                self.session.take_status(&status);
                self.session.flush(&mut self.context.cx())?;
            }
            self.watch_display()?;
            let is_display_done = self.blocked_at.is_none() || self.session.is_over();
            if let Some(outcome) = self.ended.filter(|_| is_display_done) {
                return Ok(outcome);
            }
            if self.session.is_over() {
                return Ok(Outcome::LocalClosed);
            }
            self.close_if_due();
            self.wait()?;
            self.serve_ready()?;
        }
    }

    /// Serves each ready event source once, so that a source with much data does not starve the
    /// others. No call blocks.
    fn serve_ready(&mut self) -> Result<()> {
        // Urgent data comes first: the session must know of a Synch before it reads the data that
        // the Synch discards.
        if self.poller.ready().contains(PollFlags::PRI) && !self.is_urgent_ahead {
            self.poller.clear(PollFlags::PRI);
            self.is_urgent_ahead = true;
            self.session.urgent(true);
        }
        for index in 0..self.poller.inputs() {
            if self.poller.is_input_ready(index, self.session) {
                self.session.take_input(index, &mut self.context.cx())?;
                self.poller.input_taken(index, self.session);
            }
        }
        let is_due = |at: Instant| at <= self.context.clock.now();
        if self.session.wants_to_run() || self.session.deadline().is_some_and(is_due) {
            self.session.run(&mut self.context.cx());
        }
        if self.is_socket_ready() {
            // Typed keys are sent before the read, because displaying the received data takes time.
            self.write()?;
            self.read()?;
        }
        Ok(())
    }

    /// Watches a full display until it is writable, and adapts the read size to the speed of the
    /// display.
    fn watch_display(&mut self) -> Result<()> {
        if !self.poller.has_display() {
            return Ok(());
        }
        let is_full = self.session.is_display_full();
        if is_full {
            self.blocked_at.get_or_insert_with(|| self.context.clock.now());
        }
        self.poller.watch_display(self.session)?;
        if !is_full && let Some(since) = self.blocked_at.take() {
            let is_slow = self.context.clock.now() - since > READ_DISPLAY_TIME;
            let read_len = if is_slow { self.read_len / 2 } else { self.read_len * 2 };
            self.read_len = read_len.clamp(READ_MIN_LEN, READ_MAX_LEN);
        }
        Ok(())
    }

    fn is_socket_ready(&self) -> bool {
        let is_incoming = self.poller.ready().intersects(INCOMING);
        is_incoming && self.ended.is_none() && self.session.wants_data()
    }

    /// Shuts down the write half of the connection when the session has nothing more to send.
    fn close_if_due(&mut self) {
        let is_due = self.session.is_closing() && self.session.output().is_empty();
        if is_due && !self.is_half_closed {
            self.is_half_closed = true;
            // Ignored: the peer may have closed the connection already.
            _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
        }
    }

    /// Waits for the next event. No other code runs between the session and the system call: the
    /// caches are cold between two keys, so such code would be a large part of the cost of a key.
    fn wait(&mut self) -> Result<()> {
        if self.session.wants_to_run() {
            return Ok(());
        }
        let previous_account = self.context.meter.enter(Account::Outside);
        // If an input has unread data, the other descriptors are polled without waiting.
        let until = if self.is_any_ready() { Some(Instant::ZERO) } else { self.session.deadline() };
        loop {
            let wake = self.poller.wait_for_event(&self.context.clock, until)?;
            if self.is_urgent_ahead {
                // Until the urgent mark is read, urgent events report urgent data that is already
                // known.
                self.poller.clear(PollFlags::PRI);
            }
            // An event may concern a descriptor that the session does not need now, such as a
            // writable socket without pending output.
            if wake == Wake::Deadline || self.is_any_ready() {
                break;
            }
        }
        self.context.meter.enter(previous_account);
        self.context.meter.count(Counter::Wakeups);
        Ok(())
    }

    /// Returns whether any source is known to be ready.
    fn is_any_ready(&self) -> bool {
        let socket = self.poller.ready();
        (socket.contains(PollFlags::PRI) && !self.is_urgent_ahead)
            || self.is_socket_ready()
            || (socket.contains(PollFlags::OUT) && !self.session.output().is_empty())
            || self.poller.has_input(self.session)
            || self.poller.is_display_ready()
    }

    /// Writes all output that the socket accepts. Handles a connection that the remote host has
    /// closed.
    fn write(&mut self) -> Result<()> {
        loop {
            let output = self.session.output();
            if output.is_empty() {
                return Ok(());
            }
            if self.is_half_closed || self.ended.is_some() {
                // Output produced after the end of the connection, such as answers to late data, is
                // discarded.
                let count = output.len();
                self.session.sent(count);
                continue;
            }
            let urgent = self.session.urgent_mark().and_then(|mark| output.get(..mark));
            let (bytes, flags) = match urgent.filter(|urgent| !urgent.is_empty()) {
                Some(urgent) => (urgent, SendFlags::NOSIGNAL | SendFlags::OOB),
                None => (output, SendFlags::NOSIGNAL),
            };
            let previous_account = self.context.meter.enter(Account::Interrupt);
            let send_result = would_block_as_pending(rustix::net::send(&self.stream, bytes, flags));
            self.context.meter.enter(previous_account);
            match send_result {
                Poll::Ready(Ok(count)) => {
                    self.session.sent(count);
                    self.delay_acknowledgments();
                }
                Poll::Pending => {
                    self.poller.clear(PollFlags::OUT);
                    return Ok(());
                }
                Poll::Ready(Err(error)) => self.ended = Some(outcome_of(error)?),
            }
        }
    }

    /// Requests delayed acknowledgments if the session wants them. The kernel drops the setting
    /// when the incoming data looks like a file, so each read and write renews it.
    fn delay_acknowledgments(&self) {
        if self.session.ack_policy() == AckPolicy::Delayed {
            _ = socket::set_quick_ack(&self.stream, false);
        }
    }

    /// Reads data up to the urgent mark and displays it. Then acknowledges the data at once if the
    /// remote host may be waiting for the acknowledgment.
    fn read(&mut self) -> Result<()> {
        let previous_account = self.context.meter.enter(Account::Interrupt);
        let was_at_mark =
            self.is_urgent_ahead && socket::is_at_urgent_mark(&self.stream).unwrap_or(false);
        let buffer = self.buffer.get_mut(..self.read_len).unwrap_or_default();
        let read_result = match self.has_timestamps {
            true => receive_delay::read(&self.stream, buffer),
            false => would_block_as_pending(rustix::io::read(&self.stream, buffer))
                .map_ok(|count| (count, None)),
        };
        self.context.meter.enter(previous_account);
        let (count, delay) = match read_result {
            Poll::Ready(Ok(received)) => received,
            Poll::Pending => {
                self.poller.clear(PollFlags::IN | PollFlags::ERR);
                return Ok(());
            }
            Poll::Ready(Err(error)) => {
                self.ended = Some(outcome_of(error)?);
                return Ok(());
            }
        };
        if count == 0 {
            self.session.peer_closed(&mut self.context.cx());
            self.ended = Some(Outcome::Closed);
            return Ok(());
        }
        // A short read has emptied the socket, unless it stopped at the urgent mark.
        if count < self.read_len && !self.is_urgent_ahead {
            self.poller.clear(PollFlags::IN);
        }
        delay.into_iter().for_each(|delay| self.session.take_receive_delay(delay));
        let data = self.buffer.get(..count).unwrap_or_default();
        self.session.receive(data, &mut self.context.cx());
        let is_awaited = self.session.ack_policy().predicate()(data);
        if was_at_mark {
            self.is_urgent_ahead = false;
            self.session.urgent(false);
            self.poll_urgent()?;
        }
        self.session.flush(&mut self.context.cx())?;
        if !self.session.is_display_full() {
            self.read_len = (self.read_len * 2).min(READ_MAX_LEN);
        }
        self.delay_acknowledgments();
        if is_awaited && self.session.output().is_empty() {
            let previous_account = self.context.meter.enter(Account::Interrupt);
            // Ignored: an early acknowledgment only saves time.
            _ = socket::acknowledge_now(&self.stream);
            self.context.meter.enter(previous_account);
        }
        Ok(())
    }

    /// Polls for further urgent data whose event arrived before the previous urgent mark was read.
    fn poll_urgent(&mut self) -> Result<()> {
        if readiness::poll_now(&self.stream, PollFlags::PRI)?.contains(PollFlags::PRI) {
            self.is_urgent_ahead = true;
            self.session.urgent(true);
        }
        Ok(())
    }

    fn status(&self) -> CarrierStatus {
        let info = TcpInfo::of(&self.stream);
        let control = socket::congestion_control(&self.stream);
        match (info, control) {
            (Ok(info), Ok(control)) => CarrierStatus::Kernel(Box::new(info), control),
            _ => CarrierStatus::None,
        }
    }
}

fn inputs_of<S: StreamSession>(session: &S) -> Result<Vec<Input>> {
    let inputs = session.inputs().into_iter().map(|descriptor| {
        let watched = Watched::new(descriptor)?;
        Ok(Input { is_ready: watched.is_none(), watched })
    });
    let inputs = inputs.collect::<io::Result<_>>();
    inputs.context("cannot watch an input of the session")
}

fn take_input<S: StreamSession>(
    index: usize,
    session: &mut S,
    inputs: &mut [Input],
    context: &mut EngineContext,
) -> Result<()> {
    session.take_input(index, &mut context.cx())?;
    if let Some(input) = inputs.get_mut(index) {
        input.is_ready = input.watched.is_none() || session.has_more_input(index);
    }
    Ok(())
}

async fn any_readable<S: StreamSession>(inputs: &mut [Input], session: &S) -> io::Result<usize> {
    std::future::poll_fn(|context| {
        for (index, input) in inputs.iter_mut().enumerate() {
            if !input.is_ready
                && let Some(watched) = &input.watched
                && let Poll::Ready(ready) = watched.poll_ready(context)
            {
                ready?;
                input.is_ready = true;
            }
            if input.is_ready && session.wants_input(index) {
                return Poll::Ready(Ok(index));
            }
        }
        Poll::Pending
    })
    .await
}
