//! A session over a socket of the kernel, in one thread: opened on tokio, where addresses race, and
//! then carried by `epoll`, edge-triggered.

use super::race::{Finish, Race};
use super::{Acknowledging, Bench, Call, CarrierStatus, Outcome, Session};
use anyhow::{Context, Result};
use os::readiness::{News, PollFd, PollFlags, Wake, Watched, wait};
use os::socket::{self, TcpInfo};
use protocols::meter::{Account, Counter};
use protocols::time::Instant;
use rustix::net::SendFlags;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// What one read takes from the socket: a large screen in one piece.
const READ_LEN: usize = 64 * 1024;

/// What is said of a descriptor that a read has something to tell about, be it the end.
const INCOMING: PollFlags = PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR);

/// The number of the socket among what is watched; the session's inputs follow it.
const SOCKET: usize = 0;

/// An input of the session.
struct Input {
    /// None for what is always ready and cannot be watched: a regular file, /dev/null.
    watched: Option<Watched>,
    /// Whether there may be something to read, though no news of it will come.
    is_ready: bool,
}

/// What ended a wait.
enum Woken {
    Socket,
    Writable,
    Urgent,
    Input(usize),
    Deadline,
}

pub(super) fn run<S: Session>(
    mut session: S,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let finish = runtime.block_on(connect(addresses, timeout, &mut session, bench))?;
    let (stream, address) = match finish {
        Some(Finish::Won(stream, address)) => (stream, address),
        Some(Finish::Lost(outcome, address)) => return Ok(Call { session, outcome, address }),
        None => {
            let address = addresses.first().copied().context("there is no address to leave")?;
            return Ok(Call { session, outcome: Outcome::Left, address });
        }
    };
    let stream = stream.into_std()?;
    drop(runtime);
    socket::set_no_delay(&stream, true)?;
    socket::set_urgent_inline(&stream, true)?;
    session.reached(address);
    session.opened(&mut bench.cx());
    let mut news = News::new()?;
    news.watch(stream.as_fd(), PollFlags::IN | PollFlags::OUT | PollFlags::PRI)?;
    let inputs = session.inputs();
    for input in &inputs {
        news.watch(*input, PollFlags::IN).context("an input of the session cannot be watched")?;
    }
    let inputs = inputs.len();
    let kernel = Kernel {
        stream,
        news,
        inputs,
        session: &mut session,
        bench,
        buffer: vec![0; READ_LEN],
        is_urgent_ahead: false,
        is_half_closed: false,
    };
    let outcome = kernel.run()?;
    Ok(Call { session, outcome, address })
}

/// Opens the connection; the near side may end the session while the far side is silent.
async fn connect<S: Session>(
    addresses: &[SocketAddr],
    timeout: Duration,
    session: &mut S,
    bench: &mut Bench,
) -> Result<Option<Finish>> {
    let mut inputs = inputs_of(session)?;
    let mut connecting = pin!(Race::to(addresses).run(timeout));
    loop {
        let index = tokio::select! {
            biased;
            finish = &mut connecting => return finish.map(Some),
            index = any_readable(&mut inputs, session) => index?,
        };
        take_input(index, session, &mut inputs, bench)?;
        if session.is_over() {
            return Ok(None);
        }
    }
}

/// What an error of a socket says about the far side; errors of our own side stay errors.
pub(crate) fn outcome_of(error: io::Error) -> Result<Outcome> {
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
    /// What is known of the socket, and behind it of the session's inputs.
    news: News,
    inputs: usize,
    session: &'a mut S,
    bench: &'a mut Bench,
    buffer: Vec<u8>,
    /// Whether urgent data was announced and its mark has not been read.
    is_urgent_ahead: bool,
    is_half_closed: bool,
}

impl<S: Session> Kernel<'_, S> {
    fn run(mut self) -> Result<Outcome> {
        loop {
            if let Some(outcome) = self.write()? {
                return Ok(outcome);
            }
            self.session.has_gone_out(&mut self.bench.cx());
            self.session.flush(&mut self.bench.cx())?;
            if self.session.wants_status() {
                let status = self.status();
                self.session.take_status(&status);
                self.session.flush(&mut self.bench.cx())?;
            }
            if self.session.is_over() {
                return Ok(Outcome::Left);
            }
            self.close_if_due();
            match self.wait()? {
                Woken::Socket => {
                    if let Some(outcome) = self.read()? {
                        return Ok(outcome);
                    }
                }
                Woken::Writable => {}
                Woken::Urgent => {
                    self.news.clear(SOCKET, PollFlags::PRI);
                    self.is_urgent_ahead = true;
                    self.session.urgent(true);
                }
                Woken::Input(index) => {
                    self.session.take_input(index, &mut self.bench.cx())?;
                    if !self.session.has_more_input(index) {
                        self.news.clear(SOCKET + 1 + index, PollFlags::IN);
                    }
                }
                Woken::Deadline => self.session.run(&mut self.bench.cx()),
            }
        }
    }

    /// Shuts our half of the connection when the session has nothing more to send.
    fn close_if_due(&mut self) {
        let is_due = self.session.is_closing() && self.session.output().is_empty();
        if is_due && !self.is_half_closed {
            self.is_half_closed = true;
            // What the peer has closed already needs no closing.
            _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
        }
    }

    /// Waits in the kernel's call itself: between two keys everything is cold, and the little that
    /// runs then is a good part of what a key costs.
    fn wait(&mut self) -> Result<Woken> {
        if self.session.wants_to_run() {
            return Ok(Woken::Deadline);
        }
        let left = self.bench.meter.enter(Account::Outside);
        // What was not read to its end is not waited for, but all the others are heard before it.
        let is_known = !matches!(self.woken(), Woken::Deadline);
        let until = if is_known { Some(Instant::ZERO) } else { self.session.deadline() };
        let woken = loop {
            let wake = self.news.wait(&self.bench.clock, until)?;
            if self.is_urgent_ahead {
                // What is told of it until its mark is told of what is known.
                self.news.clear(SOCKET, PollFlags::PRI);
            }
            let woken = self.woken();
            // There is news of what nobody wants now, as of room where nothing waits.
            if wake == Wake::Deadline || !matches!(woken, Woken::Deadline) {
                break woken;
            }
        };
        self.bench.meter.enter(left);
        self.bench.meter.count(Counter::Wakeups);
        Ok(woken)
    }

    /// Returns what there is to do, as far as it is known.
    fn woken(&self) -> Woken {
        let far = self.news.ready(SOCKET);
        // Urgent data stands first: a Synch must be known before what it empties is read.
        if far.contains(PollFlags::PRI) && !self.is_urgent_ahead {
            return Woken::Urgent;
        }
        if far.intersects(INCOMING) {
            return Woken::Socket;
        }
        let is_wanted = |index: &usize| {
            let ready = self.news.ready(SOCKET + 1 + index);
            ready.intersects(INCOMING) && self.session.wants_input(*index)
        };
        if let Some(index) = (0..self.inputs).find(is_wanted) {
            return Woken::Input(index);
        }
        if far.contains(PollFlags::OUT) && !self.session.output().is_empty() {
            return Woken::Writable;
        }
        Woken::Deadline
    }

    /// Writes all output that the socket takes; the far side may have gone.
    fn write(&mut self) -> Result<Option<Outcome>> {
        loop {
            let output = self.session.output();
            if output.is_empty() {
                return Ok(None);
            }
            if self.is_half_closed {
                // What is said after the end, as an answer to what still comes, is said to nobody.
                let count = output.len();
                self.session.sent(count);
                continue;
            }
            let urgent = self.session.urgent_mark().and_then(|mark| output.get(..mark));
            let (bytes, flags) = match urgent.filter(|urgent| !urgent.is_empty()) {
                Some(urgent) => (urgent, SendFlags::NOSIGNAL | SendFlags::OOB),
                None => (output, SendFlags::NOSIGNAL),
            };
            let left = self.bench.meter.enter(Account::Interrupt);
            let sent = rustix::net::send(&self.stream, bytes, flags).map_err(io::Error::from);
            self.bench.meter.enter(left);
            match sent {
                Ok(count) => {
                    self.session.sent(count);
                    self.put_off_acknowledgments();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.news.clear(SOCKET, PollFlags::OUT);
                    return Ok(None);
                }
                Err(error) => return outcome_of(error).map(Some),
            }
        }
    }

    /// Has the kernel acknowledge late, if the session wants that. It forgets it when what comes
    /// looks like a file.
    fn put_off_acknowledgments(&self) {
        if self.session.acknowledging() == Acknowledging::Late {
            _ = socket::set_quick_ack(&self.stream, false);
        }
    }

    /// Reads what has come, up to the urgent mark, and acknowledges what the far side may wait
    /// for as soon as it is on the screen.
    fn read(&mut self) -> Result<Option<Outcome>> {
        let left = self.bench.meter.enter(Account::Interrupt);
        let was_at_mark =
            self.is_urgent_ahead && socket::is_at_urgent_mark(&self.stream).unwrap_or(false);
        let read = rustix::io::read(&self.stream, self.buffer.as_mut_slice());
        let read = read.map_err(io::Error::from);
        self.bench.meter.enter(left);
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.news.clear(SOCKET, PollFlags::IN | PollFlags::ERR);
                return Ok(None);
            }
            Err(error) => {
                self.session.flush(&mut self.bench.cx())?;
                return outcome_of(error).map(Some);
            }
        };
        if count == 0 {
            self.session.peer_closed(&mut self.bench.cx());
            self.session.flush(&mut self.bench.cx())?;
            return Ok(Some(Outcome::Closed));
        }
        // A read that is not full has emptied the socket, unless it stopped at the mark.
        if count < self.buffer.len() && !self.is_urgent_ahead {
            self.news.clear(SOCKET, PollFlags::IN);
        }
        let data = self.buffer.get(..count).unwrap_or_default();
        self.session.receive(data, &mut self.bench.cx());
        let is_awaited = self.session.acknowledging().at_once()(data);
        if was_at_mark {
            self.is_urgent_ahead = false;
            self.session.urgent(false);
            self.look_for_urgent()?;
        }
        self.session.flush(&mut self.bench.cx())?;
        self.put_off_acknowledgments();
        if is_awaited && self.session.output().is_empty() {
            let left = self.bench.meter.enter(Account::Interrupt);
            // It saves time; nothing is wrong without it.
            _ = socket::acknowledge_now(&self.stream);
            self.bench.meter.enter(left);
        }
        Ok(None)
    }

    /// Asks whether more urgent data is ahead, of which there was news before the mark of the last.
    fn look_for_urgent(&mut self) -> Result<()> {
        let mut descriptors = [PollFd::new(&self.stream, PollFlags::PRI)];
        wait(&mut descriptors, &self.bench.clock, Some(Instant::ZERO))?;
        let [descriptor] = descriptors;
        if descriptor.revents().contains(PollFlags::PRI) {
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

fn inputs_of<S: Session>(session: &S) -> Result<Vec<Input>> {
    let inputs = session.inputs().into_iter().map(|descriptor| {
        let watched = Watched::new(descriptor)?;
        Ok(Input { is_ready: watched.is_none(), watched })
    });
    let inputs = inputs.collect::<io::Result<_>>();
    inputs.context("an input of the session cannot be watched")
}

fn take_input<S: Session>(
    index: usize,
    session: &mut S,
    inputs: &mut [Input],
    bench: &mut Bench,
) -> Result<()> {
    session.take_input(index, &mut bench.cx())?;
    if let Some(input) = inputs.get_mut(index) {
        input.is_ready = input.watched.is_none() || session.has_more_input(index);
    }
    Ok(())
}

async fn any_readable<S: Session>(inputs: &mut [Input], session: &S) -> io::Result<usize> {
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
