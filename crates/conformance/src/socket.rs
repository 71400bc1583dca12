//! A stream socket with POSIX semantics, which is one connection or one listener of the host.

use crate::attempt::Attempt;
use crate::errno::Errno;
use crate::host_under_test::{Host, LOCAL, errno_of};
use crate::options::Options;
use crate::script_settings::{Flags, Sysctl};
use net::transport::tcp::{ConnectionId, State, Status};
use std::net::SocketAddr;

/// Current role of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No connection yet; the socket may be bound to a port.
    Unconnected(Option<u16>),
    /// Accepts connections to a port.
    Listening(u16),
    /// Has a connection, which may still be opening or have ended.
    Connected(ConnectionId),
}

/// A stream socket.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) phase: Phase,
    /// Whether calls return EAGAIN or EINPROGRESS instead of blocking.
    pub(crate) is_nonblocking: bool,
    /// Options set on the socket.
    pub(crate) options: Options,
    /// Whether connect(2) was called and has not reported yet that the connection is open.
    is_connecting: bool,
    /// Whether the connection was opened by connect(2), and not by accept(2).
    pub(crate) has_connected: bool,
    /// Whether the script has shut down reading.
    pub(crate) is_read_shut: bool,
    /// Whether the script has shut down writing.
    pub(crate) is_write_shut: bool,
    /// Whether the error of the connection has been reported to the script.
    is_error_reported: bool,
}

impl Stream {
    /// Creates an unconnected socket.
    pub(crate) fn new(flags: &Flags, sysctl: Sysctl) -> Self {
        let options = Options::new(flags.target_os, flags.policies, sysctl);
        Self::with_phase(Phase::Unconnected(None), options)
    }

    fn with_phase(phase: Phase, options: Options) -> Self {
        Self {
            phase,
            is_nonblocking: false,
            options,
            is_connecting: false,
            has_connected: false,
            is_read_shut: false,
            is_write_shut: false,
            is_error_reported: false,
        }
    }

    /// Returns the status of the socket's connection, if it still exists.
    pub(crate) fn status(&self, host: &Host) -> Option<Status> {
        match self.phase {
            Phase::Connected(id) => host.status(id),
            Phase::Unconnected(_) | Phase::Listening(_) => None,
        }
    }

    fn id(&self) -> Result<ConnectionId, Errno> {
        match self.phase {
            Phase::Connected(id) => Ok(id),
            Phase::Unconnected(_) | Phase::Listening(_) => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// Implements bind(2).
    pub(crate) fn bind(&mut self, port: u16) -> Result<(), Errno> {
        match self.phase {
            Phase::Unconnected(None) => {
                self.phase = Phase::Unconnected(Some(port));
                Ok(())
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// Implements listen(2).
    pub(crate) fn listen(&mut self, host: &mut Host) -> Result<(), Errno> {
        match self.phase {
            Phase::Unconnected(Some(port)) => {
                if !host.listen(port, self.options.profile()) {
                    return Err(Errno(libc::EADDRINUSE));
                }
                self.phase = Phase::Listening(port);
                Ok(())
            }
            Phase::Listening(_) => Ok(()),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// Implements accept(2).
    pub(crate) fn accept(&mut self, host: &mut Host) -> Attempt<Result<(Self, SocketAddr), Errno>> {
        let Phase::Listening(port) = self.phase else {
            return Attempt::Done(Err(Errno(libc::EINVAL)));
        };
        let Some(id) = host.accept(port) else {
            return self.would_block(0);
        };
        let peer = host.status(id).map_or(SocketAddr::new(LOCAL.into(), 0), |status| status.remote);
        let stream = Self::with_phase(Phase::Connected(id), self.options.clone());
        Attempt::Done(Ok((stream, peer)))
    }

    fn would_block<T>(&self, flags: i32) -> Attempt<Result<T, Errno>> {
        if self.is_nonblocking || flags & libc::MSG_DONTWAIT != 0 {
            Attempt::Done(Err(Errno(libc::EAGAIN)))
        } else {
            Attempt::Blocked(None)
        }
    }

    /// Implements connect(2).
    pub(crate) fn connect(
        &mut self,
        host: &mut Host,
        remote: SocketAddr,
    ) -> Attempt<Result<(), Errno>> {
        match self.phase {
            Phase::Listening(_) => return Attempt::Done(Err(Errno(libc::EISCONN))),
            Phase::Connected(_) => {}
            Phase::Unconnected(_) => {
                let Ok(id) = host.connect(remote, self.options.profile()) else {
                    return Attempt::Done(Err(Errno(libc::EADDRNOTAVAIL)));
                };
                self.phase = Phase::Connected(id);
                self.is_connecting = true;
                self.has_connected = true;
                if self.is_nonblocking {
                    return Attempt::Done(Err(Errno(libc::EINPROGRESS)));
                }
            }
        }
        if let Some(error) = self.take_error(host) {
            return Attempt::Done(Err(error));
        }
        let state = self.status(host).map_or(State::Closed, |status| status.state);
        match state {
            State::SynSent | State::SynReceived if self.is_nonblocking => {
                Attempt::Done(Err(Errno(libc::EALREADY)))
            }
            State::SynSent | State::SynReceived => Attempt::Blocked(None),
            _ if std::mem::take(&mut self.is_connecting) => Attempt::Done(Ok(())),
            _ => Attempt::Done(Err(Errno(libc::EISCONN))),
        }
    }

    /// Implements connect(2) with AF_UNSPEC: resets the connection, and the socket can be connected
    /// again.
    pub(crate) fn disconnect(&mut self, host: &mut Host) {
        match self.phase {
            Phase::Connected(id) => host.abort(id),
            Phase::Listening(port) => host.stop_listening(port),
            Phase::Unconnected(_) => {}
        }
        *self = Self {
            is_nonblocking: self.is_nonblocking,
            ..Self::with_phase(Phase::Unconnected(None), self.options.clone())
        };
    }

    /// Returns the error with which the connection ended, and marks the error as reported.
    pub(crate) fn take_error(&mut self, host: &Host) -> Option<Errno> {
        let error = self.error(host)?;
        self.is_error_reported = true;
        Some(error)
    }

    /// Returns the error with which the connection ended, if the error was not reported yet.
    pub(crate) fn error(&self, host: &Host) -> Option<Errno> {
        let close_reason = self.status(host).and_then(|status| status.close_reason)?;
        Some(Errno(errno_of(close_reason))).filter(|error| error.0 != 0 && !self.is_error_reported)
    }

    /// Implements read(2) and recv(2).
    pub(crate) fn read(
        &mut self,
        host: &mut Host,
        buffer: &mut [u8],
        flags: i32,
    ) -> Attempt<Result<usize, Errno>> {
        let id = match self.id() {
            Ok(id) => id,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let Some(status) = self.status(host) else { return Attempt::Done(Ok(0)) };
        let must_fill = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
        let may_end = self.has_end(&status) || !must_fill;
        if status.receive_queue > 0 && (may_end || status.receive_queue >= buffer.len()) {
            return Attempt::Done(Ok(take_bytes(host, id, buffer, flags)));
        }
        if let Some(error) = self.take_error(host) {
            return Attempt::Done(Err(error));
        }
        if self.has_end(&status) || buffer.is_empty() {
            return Attempt::Done(Ok(0));
        }
        self.would_block(flags)
    }

    /// Returns whether the end of the data has been received, so that only the buffered data can
    /// still be read.
    pub(crate) fn has_end(&self, status: &Status) -> bool {
        let is_open = matches!(
            status.state,
            State::SynSent
                | State::SynReceived
                | State::Established
                | State::FinWait1
                | State::FinWait2
        );
        self.is_read_shut || !is_open
    }

    /// Implements write(2) and send(2). `sent` is the number of bytes of `data` accepted by earlier
    /// attempts of the same call.
    pub(crate) fn write(
        &mut self,
        host: &mut Host,
        data: &[u8],
        flags: i32,
        sent: &mut usize,
    ) -> Attempt<Result<usize, Errno>> {
        let Ok(id) = self.id() else { return Attempt::Done(Err(Errno(libc::EPIPE))) };
        let accepts_data = self.status(host).is_some_and(|status| status.state.takes_data());
        if self.is_write_shut || !accepts_data {
            let error = self.take_error(host).unwrap_or(Errno(libc::EPIPE));
            return Attempt::Done(if *sent > 0 { Ok(*sent) } else { Err(error) });
        }
        *sent += host.send(id, data.get(*sent..).unwrap_or_default());
        if *sent == data.len() {
            return Attempt::Done(Ok(*sent));
        }
        match self.would_block(flags) {
            Attempt::Done(_) if *sent > 0 => Attempt::Done(Ok(*sent)),
            other => other,
        }
    }

    /// Implements shutdown(2).
    pub(crate) fn shut_down(&mut self, host: &mut Host, how: i32) -> Result<(), Errno> {
        if let Phase::Listening(port) = self.phase {
            if how != libc::SHUT_WR {
                host.stop_listening(port);
                self.phase = Phase::Unconnected(Some(port));
            }
            return Ok(());
        }
        let id = self.id()?;
        if self.status(host).is_none_or(|status| status.state == State::Closed) {
            return Err(Errno(libc::ENOTCONN));
        }
        self.is_read_shut |= how != libc::SHUT_WR;
        if how != libc::SHUT_RD {
            self.is_write_shut = true;
            host.shut_down(id);
        }
        Ok(())
    }

    /// Implements close(2).
    pub(crate) fn close(self, host: &mut Host) {
        match self.phase {
            Phase::Unconnected(_) => {}
            Phase::Listening(port) => host.stop_listening(port),
            // A close that does not wait at all is an abort (RFC 9293 §3.6.1).
            Phase::Connected(id) if self.options.closes_abortively() => host.abort(id),
            Phase::Connected(id) => host.release(id),
        }
    }
}

/// Copies received data into `buffer`. Without MSG_PEEK, also removes the data from the receive
/// buffer.
fn take_bytes(host: &mut Host, id: ConnectionId, buffer: &mut [u8], flags: i32) -> usize {
    let is_peek = flags & libc::MSG_PEEK != 0;
    let mut copied_bytes = 0;
    loop {
        let received = host.received_from(id, if is_peek { copied_bytes } else { 0 });
        let free_buffer = buffer.get_mut(copied_bytes..).unwrap_or_default();
        let count = received.len().min(free_buffer.len());
        for (to, from) in free_buffer.iter_mut().zip(received) {
            *to = *from;
        }
        copied_bytes += count;
        if count == 0 {
            return copied_bytes;
        }
        if !is_peek {
            host.consume(id, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::Scheduler;
    use crate::test_peer::{
        ACK, FIN, IRS, PEER, PORT, RST, SYN, accepted, datagram, done, listener, next_segment,
        scheduler,
    };
    use std::time::Duration;

    fn read(scheduler: &Scheduler, fd: i32, flags: i32) -> Result<Vec<u8>, Errno> {
        let mut buffer = [0; 100];
        let count = scheduler.call(|world| done(world.read(fd, &mut buffer, flags)))?;
        Ok(buffer[..count].to_vec())
    }

    fn write(scheduler: &Scheduler, fd: i32, data: &[u8]) -> Result<usize, Errno> {
        scheduler.call(|world| done(world.write(fd, data, libc::MSG_DONTWAIT, &mut 0)))
    }

    fn number(scheduler: &Scheduler, fd: i32, name: (i32, i32)) -> Result<i32, Errno> {
        let value = scheduler.call(|world| {
            let (stream, host) = world.stream(fd)?;
            stream.option(host, name)
        })?;
        Ok(i32::from_ne_bytes(value[..4].try_into().unwrap()))
    }

    fn set(scheduler: &Scheduler, fd: i32, name: (i32, i32), value: i32) -> Result<(), Errno> {
        scheduler.call(|world| {
            let (stream, host) = world.stream(fd)?;
            stream.set_option(host, name, &value.to_ne_bytes())
        })
    }

    /// Creates a non-blocking socket that is connecting, and returns its descriptor and its SYN.
    fn connecting(scheduler: &Scheduler) -> (i32, crate::test_peer::SentSegment) {
        let fd = scheduler.call(|world| {
            let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
            let fd = world.socket(libc::AF_INET, kind, 0).unwrap();
            let (stream, host) = world.stream(fd).unwrap();
            let connected = done(stream.connect(host, PEER));
            assert_eq!(connected, Err(Errno(libc::EINPROGRESS)));
            fd
        });
        (fd, next_segment(scheduler))
    }

    #[test]
    fn nonblocking_accept_without_connections_returns_an_error_immediately() {
        let scheduler = scheduler();
        let fd = listener(&scheduler);
        let accepted = scheduler.call(|world| done(world.accept(fd)));
        assert_eq!(accepted.unwrap_err(), Errno(libc::EAGAIN));
    }

    #[test]
    fn an_accepted_connection_knows_its_peer() {
        let scheduler = scheduler();
        let listener = listener(&scheduler);
        scheduler.inject(&datagram(PORT, SYN, IRS, 0, b""));
        let local_seq = next_segment(&scheduler).seq + 1;
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b""));
        let (_, peer) = scheduler.call(|world| done(world.accept(listener))).unwrap();
        assert_eq!(peer, PEER);
    }

    #[test]
    fn a_refused_connection_is_an_error_once() {
        let scheduler = scheduler();
        let (fd, syn) = connecting(&scheduler);
        scheduler.inject(&datagram(syn.source_port, RST | ACK, 0, syn.seq + 1, b""));
        let error = (libc::SOL_SOCKET, libc::SO_ERROR);
        assert_eq!(number(&scheduler, fd, error), Ok(libc::ECONNREFUSED));
        assert_eq!(number(&scheduler, fd, error), Ok(0));
    }

    #[test]
    fn peeking_leaves_the_data() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"hello"));
        assert_eq!(read(&scheduler, fd, libc::MSG_PEEK).unwrap(), b"hello");
        assert_eq!(read(&scheduler, fd, 0).unwrap(), b"hello");
        assert_eq!(read(&scheduler, fd, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    }

    #[test]
    fn peeking_returns_data_received_out_of_order() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        let long = vec![b'x'; 600];
        scheduler.inject(&datagram(PORT, ACK, IRS + 1 + 605, local_seq, b"world"));
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"hello"));
        scheduler.inject(&datagram(PORT, ACK, IRS + 6, local_seq, &long));
        let mut buffer = [0; 1000];
        for flags in [libc::MSG_PEEK, libc::MSG_PEEK, 0] {
            let read = scheduler.call(|world| done(world.read(fd, &mut buffer, flags)));
            assert_eq!(read, Ok(610));
            assert!(buffer.starts_with(b"hellox") && buffer[605..].starts_with(b"world\0"));
            buffer = [0; 1000];
        }
        assert_eq!(read(&scheduler, fd, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    }

    /// Returns the time in seconds after which a connection with unacknowledged data ends, with
    /// this TCP_USER_TIMEOUT in milliseconds.
    fn seconds_until_timed_out(timeout_ms: i32) -> u64 {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        set(&scheduler, fd, (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), timeout_ms).unwrap();
        assert_eq!(write(&scheduler, fd, b"lost"), Ok(4));
        let error = (libc::SOL_SOCKET, libc::SO_ERROR);
        for seconds in 0..10_000 {
            match number(&scheduler, fd, error).unwrap() {
                0 => scheduler.sleep(Duration::from_secs(1)),
                ended => {
                    assert_eq!(ended, libc::ETIMEDOUT);
                    return seconds;
                }
            }
        }
        panic!("the connection never ends");
    }

    #[test]
    fn data_unacknowledged_within_the_user_timeout_ends_the_connection() {
        assert!((3..=5).contains(&seconds_until_timed_out(3000)));
        assert!(seconds_until_timed_out(0) > 100);
    }

    #[test]
    fn the_end_is_read_after_the_data() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        scheduler.inject(&datagram(PORT, ACK | FIN, IRS + 1, local_seq, b"bye"));
        assert_eq!(read(&scheduler, fd, 0).unwrap(), b"bye");
        assert_eq!(read(&scheduler, fd, 0).unwrap(), b"");
    }

    #[test]
    fn nothing_is_written_after_a_shutdown() {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        let result = scheduler.call(|world| {
            let (stream, host) = world.stream(fd)?;
            stream.shut_down(host, libc::SHUT_WR)
        });
        assert_eq!(result, Ok(()));
        assert_eq!(next_segment(&scheduler).flags & FIN, FIN);
        assert_eq!(write(&scheduler, fd, b"late"), Err(Errno(libc::EPIPE)));
    }

    #[test]
    fn zero_linger_time_resets_the_connection() {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        let value = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        let set = scheduler.call(|world| {
            let (stream, host) = world.stream(fd)?;
            stream.set_option(host, (libc::SOL_SOCKET, libc::SO_LINGER), &value)
        });
        assert_eq!(set, Ok(()));
        scheduler.call(|world| world.close(fd)).unwrap();
        assert_eq!(next_segment(&scheduler).flags & RST, RST);
    }

    #[test]
    fn linux_doubles_the_requested_buffer_size() {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        let name = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        set(&scheduler, fd, name, 21_000).unwrap();
        assert_eq!(number(&scheduler, fd, name), Ok(42_000));
        assert_eq!(write(&scheduler, fd, &[0; 50_000]), Ok(28_000));
    }

    #[test]
    fn a_connection_has_the_segment_of_its_peer() {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        // The test peer sends no MSS option, so this is the default of RFC 9293 §3.7.1.
        assert_eq!(number(&scheduler, fd, (libc::IPPROTO_TCP, libc::TCP_MAXSEG)), Ok(536));
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let scheduler = scheduler();
        let (fd, _) = accepted(&scheduler);
        let error = Err(Errno(libc::ENOPROTOOPT));
        assert_eq!(number(&scheduler, fd, (libc::IPPROTO_TCP, 9999)), error);
        assert_eq!(set(&scheduler, fd, (libc::IPPROTO_TCP, 9999), 1), error.map(|_| ()));
    }
}
