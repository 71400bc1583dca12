//! A session over a socket of the kernel, on tokio, in one thread.

use super::{Bench, CarrierStatus, Outcome, Session};
use anyhow::{Context, Result};
use os::socket::{self, TcpInfo, UrgentNotice};
use protocols::meter::Account;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

/// What one read takes from the socket: a large screen in one piece.
const READ_LEN: usize = 64 * 1024;

/// An input of the session, registered with tokio. The session keeps the descriptor open.
struct Input(RawFd);

impl AsRawFd for Input {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// What ended a wait.
enum Woken {
    Socket,
    Urgent,
    Input(usize),
    Deadline,
}

pub(super) fn run<S: Session>(
    session: S,
    address: SocketAddr,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry(session, address, timeout, bench))
}

async fn carry<S: Session>(
    mut session: S,
    address: SocketAddr,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    let stream = match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
        Err(_) => return Ok((session, Outcome::TimedOut)),
        Ok(Err(error)) => return Ok((session, outcome_of(error)?)),
        Ok(Ok(stream)) => stream,
    };
    socket::set_no_delay(&stream, true)?;
    socket::set_urgent_inline(&stream, true)?;
    session.opened(&mut bench.cx());
    let outcome = Kernel { stream, session: &mut session, bench, buffer: vec![0; READ_LEN] };
    let outcome = outcome.run().await?;
    Ok((session, outcome))
}

/// What an error of a socket says about the far side; errors of our own side stay errors.
fn outcome_of(error: std::io::Error) -> Result<Outcome> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Ok(Outcome::Refused),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Ok(Outcome::Reset)
        }
        ErrorKind::TimedOut => Ok(Outcome::TimedOut),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Ok(Outcome::Unreachable),
        _ => Err(error).context("the kernel does not open the connection"),
    }
}

struct Kernel<'a, S> {
    stream: TcpStream,
    session: &'a mut S,
    bench: &'a mut Bench,
    buffer: Vec<u8>,
}

impl<S: Session> Kernel<'_, S> {
    async fn run(mut self) -> Result<Outcome> {
        let notice = UrgentNotice::of(&self.stream)?;
        let inputs = self.inputs()?;
        let mut is_half_closed = false;
        loop {
            if let Some(outcome) = self.write().await? {
                return Ok(outcome);
            }
            self.session.flush(&mut self.bench.cx())?;
            if self.session.wants_status() {
                let status = self.status();
                self.session.take_status(&status);
                self.session.flush(&mut self.bench.cx())?;
            }
            if self.session.is_over() {
                return Ok(Outcome::Left);
            }
            if self.session.is_closing() && !is_half_closed && self.session.output().is_empty() {
                is_half_closed = true;
                // What the peer has closed already needs no closing.
                _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
            }
            match self.wait(&notice, &inputs).await? {
                Woken::Socket => {
                    if let Some(outcome) = self.read().await? {
                        self.session.flush(&mut self.bench.cx())?;
                        return Ok(outcome);
                    }
                }
                Woken::Urgent => self.session.urgent(true),
                Woken::Input(index) => self.session.take_input(index, &mut self.bench.cx())?,
                Woken::Deadline => self.session.run(&mut self.bench.cx()),
            }
        }
    }

    fn inputs(&self) -> Result<Vec<AsyncFd<Input>>> {
        let descriptors = self.session.inputs();
        let inputs = descriptors.iter().map(|fd| Input(fd.as_raw_fd()));
        let watched = inputs.map(|input| AsyncFd::with_interest(input, Interest::READABLE));
        watched.collect::<std::io::Result<_>>().context("an input of the session cannot be watched")
    }

    async fn wait(&mut self, notice: &UrgentNotice, inputs: &[AsyncFd<Input>]) -> Result<Woken> {
        if self.session.wants_to_run() {
            return Ok(Woken::Deadline);
        }
        let left = self.bench.meter.enter(Account::Outside);
        let deadline = self.session.deadline();
        let until_deadline = deadline.map(|deadline| deadline - self.bench.clock.now());
        let sleep = async {
            match until_deadline {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            ready = self.stream.readable() => ready.map(|()| Woken::Socket),
            index = any_readable(inputs) => index.map(Woken::Input),
            ready = notice.wait() => ready.map(|()| Woken::Urgent),
            () = sleep => Ok(Woken::Deadline),
        };
        self.bench.meter.enter(left);
        Ok(woken?)
    }

    /// Writes all output; the far side may have gone.
    async fn write(&mut self) -> Result<Option<Outcome>> {
        loop {
            let output = self.session.output();
            if output.is_empty() {
                return Ok(None);
            }
            let left = self.bench.meter.enter(Account::Interrupt);
            let urgent = self.session.urgent_mark().and_then(|mark| output.get(..mark));
            let written = match urgent.filter(|urgent| !urgent.is_empty()) {
                Some(urgent) => socket::send_urgent(&self.stream, urgent).await,
                None => match self.stream.try_write(output) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.stream.writable().await?;
                        Ok(0)
                    }
                    written => written,
                },
            };
            self.bench.meter.enter(left);
            match written {
                Ok(count) => self.session.sent(count),
                Err(error) => return outcome_of(error).map(Some),
            }
        }
    }

    /// Reads what has come, up to the urgent mark.
    async fn read(&mut self) -> Result<Option<Outcome>> {
        let left = self.bench.meter.enter(Account::Interrupt);
        let was_at_mark = socket::is_at_urgent_mark(&self.stream).unwrap_or(false);
        let read = socket::read(&self.stream, &mut self.buffer).await;
        self.bench.meter.enter(left);
        match read {
            Ok(0) => {
                self.session.peer_closed(&mut self.bench.cx());
                Ok(Some(Outcome::Closed))
            }
            Ok(count) => {
                let data = self.buffer.get(..count).unwrap_or_default();
                self.session.receive(data, &mut self.bench.cx());
                if was_at_mark {
                    self.session.urgent(false);
                }
                Ok(None)
            }
            Err(error) => outcome_of(error).map(Some),
        }
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

async fn any_readable(inputs: &[AsyncFd<Input>]) -> std::io::Result<usize> {
    std::future::poll_fn(|context| {
        for (index, input) in inputs.iter().enumerate() {
            if let std::task::Poll::Ready(ready) = input.poll_read_ready(context) {
                // The session reads without waiting; readiness is asked for anew each time.
                ready?.clear_ready();
                return std::task::Poll::Ready(Ok(index));
            }
        }
        std::task::Poll::Pending
    })
    .await
}
