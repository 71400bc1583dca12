//! Telnet session with a client: the client's byte stream, the Telnet connection, and a back end.
//!
//! ```text
//! client ──► stream ──► Telnet ──► typed_input ──► back end
//! client ◄── stream ◄── Telnet ◄── unsent_output ◄── back end
//! ```
//!
//! Option negotiation comes first, for a limited time that the back end chooses. Each iteration of
//! the session loop then processes received data and the back end's output, and sends everything
//! in one write. A screenful of output is thus sent at once, and no part of it waits for an
//! acknowledgment. The session reads from the client only after the back end has accepted earlier
//! input, and from the back end only after the client has accepted earlier output.

use super::client_stream::{ClientStream, Ready};
use super::login_server::LoginServer;
use super::session_backend::SessionBackend;
use super::session_end::SessionEnd;
use super::start_tls_policy::StartTls;
use super::telnet_client::{
    LAST_OUTPUT_TIMEOUT, SessionTraffic, TYPED_MAX_LEN, TelnetClient, earliest,
};
use anyhow::{Context, Result};
use protocols::telnet::Event;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Sleep, sleep_until};

/// Initial setting of the timer, before the back end sets its first deadline.
const FIRST_DEADLINE: Duration = Duration::from_secs(3);
/// Time without acknowledged output after which the wait for the client to close the connection ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for sending the end of the stream when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// Reason for the end of a wait.
enum Woken<B> {
    Client(Ready),
    /// The connection is lost. A kernel socket reports the loss on reading instead if the session
    /// reads.
    Disconnected,
    Backend(B),
    Deadline,
}

/// Telnet session with a client.
pub(super) struct TelnetSession<W, B> {
    stream: W,
    client: TelnetClient,
    backend: B,
    /// Whether the last read from the client filled the buffer. In this case the back end's output
    /// is processed before the client's input.
    is_client_busy: bool,
    /// Whether a write has failed because the connection is lost.
    is_lost: bool,
    /// Number of unacknowledged bytes before the last wait, if the session sends its last output.
    unacknowledged_len: Option<usize>,
    close_timeout: Duration,
}

impl<W: ClientStream, B: SessionBackend> TelnetSession<W, B> {
    pub(super) fn new(
        stream: W,
        peer: SocketAddr,
        server: Rc<LoginServer>,
        start_tls: StartTls,
        backend: B,
    ) -> Self {
        let variables = B::requested_variables(&server);
        let client = TelnetClient::new(peer, server, start_tls, B::OPTIONS, variables);
        Self {
            stream,
            client,
            backend,
            is_client_busy: false,
            is_lost: false,
            unacknowledged_len: None,
            close_timeout: CLOSE_TIMEOUT,
        }
    }

    /// Runs the session to its end, at most until the server stops.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails or the back end cannot be started.
    pub(super) async fn run(&mut self) -> Result<SessionEnd> {
        self.client.telnet.start(&mut self.client.server.engine().cx());
        let mut shutdown = self.client.server.shutdown.notice();
        // The notice is polled first: a session that is always ready uses up tokio's budget.
        let result = tokio::select! {
            biased;
            () = shutdown.requested() => Ok(SessionEnd::ServerStopped),
            result = self.run_loop() => result,
        };
        self.backend.end();
        match result {
            Ok(SessionEnd::StartsTls) | Err(_) => {}
            Ok(SessionEnd::ServerStopped) => {
                _ = tokio::time::timeout(STOP_TIMEOUT, self.stream.close()).await;
            }
            Ok(_) => tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = self.close_in_time() => {}
            },
        }
        result
    }

    /// Returns the server of the session.
    pub(super) fn server(&self) -> Rc<LoginServer> {
        Rc::clone(&self.client.server)
    }

    /// Returns the number of bytes carried so far.
    pub(super) fn traffic(&self) -> SessionTraffic {
        self.client.traffic
    }

    /// Returns the client's stream. If the session is to continue in TLS, also returns the bytes
    /// that were read after the end of the cleartext session.
    pub(super) fn into_stream(self) -> (W, Vec<u8>) {
        (self.stream, self.client.tls_input.unwrap_or_default())
    }

    /// Closes the connection. The wait ends when the client accepts no more output and does not
    /// close the connection, at most after [`LAST_OUTPUT_TIMEOUT`].
    async fn close_in_time(&mut self) {
        let until = Instant::now() + LAST_OUTPUT_TIMEOUT;
        loop {
            let previous_len = self.stream.unacknowledged_len();
            let close_result = tokio::time::timeout(self.close_timeout, self.close()).await;
            let has_progress = self.stream.unacknowledged_len() < previous_len;
            if close_result.is_ok() || !has_progress || Instant::now() >= until {
                return;
            }
        }
    }

    /// Closes the stream and reads until the client closes. Dropping a connection with unread data
    /// resets it, which could discard the last output.
    async fn close(&mut self) -> io::Result<()> {
        self.stream.close().await;
        let mut unread = [0; 512];
        loop {
            // A client that is always ready must not starve the others, nor prevent the time limit.
            consume_budget().await;
            if self.stream.ready(true, false).await?.can_read
                && self.stream.read(&mut unread)?.is_some_and(|read| read.count == 0)
            {
                return Ok(());
            }
        }
    }

    async fn run_loop(&mut self) -> Result<SessionEnd> {
        let first_deadline = self.client.started_at + FIRST_DEADLINE;
        let mut timer = pin!(sleep_until(first_deadline));
        loop {
            self.count_acknowledged();
            if let Some(ending) = self.backend.advance(&mut self.client)? {
                return Ok(ending);
            }
            self.write_output()?;
            if self.is_lost {
                return Ok(SessionEnd::ClientClosed);
            }
            let is_output_sent = !self.client.has_output() && !self.stream.has_unsent();
            if self.client.tls_input.is_some() && is_output_sent {
                return Ok(SessionEnd::StartsTls);
            }
            if let Some(ending) = self.backend.ending().filter(|_| is_output_sent) {
                return Ok(ending);
            }
            self.unacknowledged_len =
                self.sends_last_output().then(|| self.stream.unacknowledged_len());
            let due = earliest(self.backend.deadline(&self.client), self.client.deadline());
            expire_by(timer.as_mut(), due);
            // A session that is always ready must not starve the others.
            consume_budget().await;
            let wake_reason = self.wait(timer.as_mut(), due.is_some()).await?;
            self.client.server.count_wakeup();
            match wake_reason {
                Woken::Client(ready) => {
                    if ready.is_urgent {
                        self.client.on_urgent();
                    }
                    if ready.can_read && !self.read()? {
                        self.client.on_half_close();
                        let sends_last_output = self.backend.ending().is_some() && !is_output_sent;
                        if !self.backend.has_program() && !sends_last_output {
                            return Ok(SessionEnd::ClientClosed);
                        }
                    }
                }
                Woken::Disconnected => return Ok(SessionEnd::ClientClosed),
                Woken::Backend(wakeup) => self.backend.on_ready(&mut self.client, wakeup)?,
                Woken::Deadline => {
                    self.client.acknowledge();
                    self.client.send_go_ahead(self.backend.awaits_input());
                }
            }
        }
    }

    /// Returns whether the end of the session depends on the output that the client accepts. Only
    /// then is accepted output recorded, which takes time.
    fn sends_last_output(&self) -> bool {
        self.backend.ending().is_some() || self.client.half_closed_at.is_some()
    }

    /// Records that the client has accepted output during the last wait.
    fn count_acknowledged(&mut self) {
        if let Some(previous_len) = self.unacknowledged_len.take()
            && self.stream.unacknowledged_len() < previous_len
        {
            self.client.on_accepted();
        }
    }

    async fn wait(
        &mut self,
        mut timer: Pin<&mut Sleep>,
        has_deadline: bool,
    ) -> Result<Woken<B::Wakeup>> {
        let wants_write = self.client.has_output();
        // The wait must end when the last output is sent.
        let flushes_last_output =
            self.backend.ending().is_some() && !wants_write && self.stream.has_unsent();
        let wants_input = self.client.wants_input() && !flushes_last_output;
        let mut client_ready = pin!(self.stream.ready(wants_input, wants_write));
        let mut backend_ready = pin!(self.backend.ready(&self.client));
        // The client is polled first, to reduce latency, unless it sends continuously.
        let is_client_busy = self.is_client_busy;
        poll_fn(|context| {
            if is_client_busy && let Poll::Ready(woken) = backend_ready.as_mut().poll(context) {
                return Poll::Ready(woken.map(Woken::Backend));
            }
            if let Poll::Ready(ready) = client_ready.as_mut().poll(context) {
                return Poll::Ready(match ready {
                    Err(error) if is_connection_lost(&error) => Ok(Woken::Disconnected),
                    ready => ready.context("the client connection failed").map(Woken::Client),
                });
            }
            if !is_client_busy && let Poll::Ready(woken) = backend_ready.as_mut().poll(context) {
                return Poll::Ready(woken.map(Woken::Backend));
            }
            // An expired timer stays ready, so it is not polled without a deadline.
            if has_deadline && timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Woken::Deadline));
            }
            Poll::Pending
        })
        .await
    }

    /// Reads data from the client. Returns false if the connection has ended.
    fn read(&mut self) -> Result<bool> {
        let server = Rc::clone(&self.client.server);
        let mut scratch = server.scratch.borrow_mut();
        // Never read more than fits into `typed_input`, so that no input is lost.
        let buffer = scratch.get_mut(..TYPED_MAX_LEN).unwrap_or_default();
        let read = match server.charge_call(|| self.stream.read(buffer)) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(true),
            Err(error) if is_connection_lost(&error) => return Ok(false),
            Err(error) => return Err(error).context("the client connection failed"),
        };
        if read.count == 0 {
            return Ok(false);
        }
        self.client.traffic.bytes_in += read.count as u64;
        self.is_client_busy = read.count == TYPED_MAX_LEN;
        if self.backend.has_program() {
            server.engine().meter.transaction();
        }
        let mut input = scratch.get(..read.count).unwrap_or_default();
        loop {
            let event = self.client.telnet.receive(&mut input, &mut server.engine().cx());
            let Some(event) = event else { break };
            match event {
                Event::StartTls => self.client.tls_input = Some(Vec::new()),
                event => self.backend.on_event(&mut self.client, event),
            }
        }
        if read.ends_urgent {
            self.client.telnet.urgent_ended();
        }
        self.client.on_tls_input(input);
        self.backend.forward_input(&mut self.client)?;
        Ok(true)
    }

    /// Takes the back end's output and writes it to the client until one of them is exhausted.
    fn write_output(&mut self) -> Result<()> {
        loop {
            let is_pending = self.backend.take_output(&mut self.client);
            self.write()?;
            if !is_pending || self.is_lost || !self.client.telnet.output().is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes queued output to the client until it accepts no more.
    fn write(&mut self) -> Result<()> {
        loop {
            self.client.refill_output();
            let output = self.client.telnet.output();
            if output.is_empty() {
                return Ok(());
            }
            let urgent = self.client.telnet.urgent_mark();
            let write_result = self.client.server.charge_call(|| self.stream.write(output, urgent));
            let written_bytes = match write_result {
                Ok(Some(written)) => written,
                Ok(None) => return Ok(()),
                Err(error) if is_connection_lost(&error) => {
                    self.is_lost = true;
                    return Ok(());
                }
                Err(error) => return Err(error).context("the client connection failed"),
            };
            if self.sends_last_output() {
                self.client.on_accepted();
            }
            self.client.traffic.bytes_out += written_bytes as u64;
            self.client.telnet.sent(written_bytes);
        }
    }
}

/// Ensures that `timer` expires at `due` or earlier. A timer that is set to an earlier time is not
/// changed, because a new setting costs more than a wakeup without need.
fn expire_by(timer: Pin<&mut Sleep>, due: Option<Instant>) {
    if let Some(due) = due
        && (due < timer.deadline() || timer.is_elapsed())
    {
        timer.reset(due);
    }
}

/// Returns whether an error means only that the connection is lost.
fn is_connection_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
    )
}

#[cfg(test)]
#[path = "telnet_session_tests.rs"]
mod tests;
