//! The host's sockets of TCP flows.
//!
//! A socket is registered once, edge-triggered. Its readiness is remembered until a system call
//! reports that the socket would block.
//!
//! # System calls
//!
//! Many connections carry one request and one answer. Such a connection takes no system call that
//! only longer ones need:
//!
//! - Readiness for writing is reported after a write has accepted less than its data.
//! - Nagle's algorithm is disabled before the first data that it could hold back.
//! - Keep-alive begins some time after the connection. Without it, a flow to a host that has
//!   vanished would never end.
//! - A short read after the FIN of the remote host is the last one.
//! - `close` sends the FIN if the remote host has finished before.

use crate::poll::{Poll, Slot, Source};
use crate::read_buffers::{CHUNK_LEN, ReadBuffers};
use crate::reset_queue::ResetQueue;
use crate::socket_errors::{connect_failure, lacks_descriptor};
use gateway::relay::Key;
use gateway::{ConnectFailure, Guest};
use net::time::Duration;
use net::{Cx, Instant};
use os::outbound::Outbound;
use os::tcp_socket;
use rustix::event::epoll::EventFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{self as sockets, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::task;

/// Bytes that flows may move in each direction before the devices are served again, and the minimum
/// share of a flow.
const TURN_BYTES_MAX: usize = 1 << 21;
const SHARE_MIN: usize = 1 << 15;
/// The maximum share of a flow.
const SHARE_MAX: usize = 1 << 19;
/// Maximum number of pieces of data that are written at once. A piece is a super-segment.
const PIECES_MAX: usize = 8;
/// Maximum length of data that is one segment on every path: the minimum MSS of IPv4.
const ONE_SEGMENT_LEN: usize = 536;
/// Time after which keep-alive begins.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of sockets that wait for it.
const YOUNG_MAX: usize = 4096;

/// Events of every socket.
const READABLE: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Events after which the end of the data is found only by reading it.
const OUT_OF_ORDER: EventFlags = EventFlags::PRI.union(EventFlags::ERR);

/// The sockets of the TCP flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct TcpSockets {
    sockets: Vec<Option<Socket>>,
    /// The flows whose sockets have no keep-alive yet, by the time at which it begins. A flow may
    /// have ended.
    young: VecDeque<(Instant, Key)>,
    /// Whether a socket could not be opened because no descriptor was free.
    pub(crate) lacked_descriptor: bool,
    /// The sockets that the event loop has to close.
    pub(crate) resets: ResetQueue,
}

#[derive(Debug)]
struct Socket {
    flow: Key,
    fd: TcpStream,
    is_connected: bool,
    may_read: bool,
    may_write: bool,
    /// Whether readiness for writing is reported.
    reports_writable: bool,
    /// Whether Nagle's algorithm is off.
    has_no_delay: bool,
    /// Whether data was written.
    has_written: bool,
    /// Whether a FIN of the remote host has arrived, and no urgent data or error before it. A short
    /// read is then the last one.
    has_fin: bool,
    /// Whether the last data of the remote host was read.
    is_read: bool,
    /// Whether the last read was so long that the next one is worth chunks.
    is_bulk: bool,
    /// Whether a short read does not mean that no more data waits, because the remote host has
    /// finished, or because a read ends at urgent data.
    reads_to_end: bool,
    is_unfinished: bool,
}

impl TcpSockets {
    /// Connects a socket for a flow. Reports the result to the guest if it is known at once.
    pub(crate) fn connect(
        &mut self,
        guest: &mut Guest,
        (number, flow): (usize, Key),
        remote: SocketAddr,
        (outbound, poll): (&Outbound, &Poll),
        cx: &mut Cx<'_>,
    ) {
        let stream = match tcp_socket::connect(remote, outbound) {
            Ok(stream) => stream,
            Err(error) => {
                self.lacked_descriptor |= lacks_descriptor(&error);
                return guest.connect_failed(flow, connect_failure(&error), cx);
            }
        };
        // A connection to the host itself is established or refused at once.
        let is_connected = match tcp_socket::connect_result(&stream) {
            task::Poll::Ready(Ok(())) => true,
            task::Poll::Pending => false,
            task::Poll::Ready(Err(error)) => {
                return guest.connect_failed(flow, connect_failure(&error), cx);
            }
        };
        // Urgent data stays in its place in the stream. Telnet's Synch depends on it.
        let inserted = os::socket::set_urgent_inline(&stream, true)
            .and_then(|()| self.insert(guest, (number, flow), stream, is_connected, poll));
        if inserted.is_err() {
            self.remove(flow);
            return guest.connect_failed(flow, ConnectFailure::Refused, cx);
        }
        self.begin_keep_alive_later(flow, cx.now);
        if is_connected {
            guest.connected(flow, cx);
        }
    }

    /// Adds the accepted connection of an incoming flow.
    pub(crate) fn insert_accepted(
        &mut self,
        guest: &Guest,
        flow: (usize, Key),
        fd: TcpStream,
        poll: &Poll,
    ) -> io::Result<()> {
        self.insert(guest, flow, fd, true, poll)?;
        if let Some(Some(socket)) = self.sockets.get_mut(flow.1.index()) {
            // Inherited from the listener.
            socket.has_no_delay = true;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        guest: &Guest,
        (number, flow): (usize, Key),
        fd: TcpStream,
        is_connected: bool,
        poll: &Poll,
    ) -> io::Result<()> {
        let reports_writable = !is_connected;
        let flags = if reports_writable { READABLE | EventFlags::OUT } else { READABLE };
        poll.add(&fd, Source::Tcp(number, Slot::of(flow)), flags)?;
        if let Some(bytes) = guest.socket_buffer() {
            // A remote host must not fill a large buffer of the kernel that a slow guest empties.
            _ = sockopt::set_socket_recv_buffer_size(&fd, bytes);
        }
        if self.sockets.len() <= flow.index() {
            self.sockets.resize_with(flow.index() + 1, || None);
        }
        if let Some(slot) = self.sockets.get_mut(flow.index()) {
            *slot = Some(Socket {
                flow,
                fd,
                is_connected,
                // The first event reports data that already waits.
                may_read: false,
                may_write: true,
                reports_writable,
                has_no_delay: false,
                has_written: false,
                has_fin: false,
                is_read: false,
                is_bulk: false,
                reads_to_end: false,
                is_unfinished: false,
            });
        }
        Ok(())
    }

    /// Adds a socket to those whose keep-alive begins later.
    fn begin_keep_alive_later(&mut self, flow: Key, now: Instant) {
        if self.young.len() >= YOUNG_MAX
            && let Some((_, oldest)) = self.young.pop_front()
        {
            self.begin_keep_alive(oldest);
        }
        self.young.push_back((now + KEEP_ALIVE_AFTER, flow));
    }

    fn begin_keep_alive(&self, flow: Key) {
        if let Some(Some(socket)) = self.sockets.get(flow.index())
            && socket.flow == flow
        {
            _ = sockopt::set_socket_keepalive(&socket.fd, true);
        }
    }

    /// Returns when [`Self::timeout`] has to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.young.front().map(|(at, _)| *at)
    }

    /// Begins keep-alive where it is due.
    pub(crate) fn timeout(&mut self, now: Instant) {
        while let Some(&(_, flow)) = self.young.front().filter(|(at, _)| *at <= now) {
            self.young.pop_front();
            self.begin_keep_alive(flow);
        }
    }

    /// Closes the socket of a flow.
    pub(crate) fn remove(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && slot.as_ref().is_some_and(|socket| socket.flow == flow)
        {
            *slot = None;
        }
    }

    /// Moves the socket of a flow to those that are to be reset.
    pub(crate) fn reset(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && let Some(socket) = slot.take_if(|socket| socket.flow == flow)
        {
            self.resets.push(socket.fd);
        }
    }

    /// Moves all sockets to those that are to be reset, because the guest is gone.
    pub(crate) fn reset_all(&mut self) {
        self.sockets.drain(..).flatten().for_each(|socket| self.resets.push(socket.fd));
    }

    /// Records the readiness of a socket, and returns its flow. Returns `None` for an event of an
    /// earlier flow in the slot.
    pub(crate) fn ready(
        &mut self,
        guest: &mut Guest,
        slot: Slot,
        flags: EventFlags,
        cx: &mut Cx<'_>,
    ) -> Option<Key> {
        let socket = self.sockets.get_mut(slot.index)?.as_mut()?;
        if Slot::of(socket.flow) != slot {
            return None;
        }
        let flow = socket.flow;
        if !socket.is_connected {
            match tcp_socket::connect_result(&socket.fd) {
                task::Poll::Ready(Ok(())) => {
                    socket.is_connected = true;
                    guest.connected(flow, cx);
                }
                task::Poll::Pending => return None,
                task::Poll::Ready(Err(error)) => {
                    self.remove(flow);
                    guest.connect_failed(flow, connect_failure(&error), cx);
                    return None;
                }
            }
        }
        let hang_ups = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.contains(EventFlags::ERR)
            && matches!(sockopt::socket_error(&socket.fd), Ok(Err(_)))
        {
            self.remove(flow);
            guest.host_reset(flow, cx);
            return None;
        }
        let is_plain = !socket.reads_to_end && !flags.intersects(OUT_OF_ORDER);
        socket.has_fin = flags.contains(EventFlags::RDHUP) && is_plain;
        socket.reads_to_end |= flags.intersects(hang_ups | EventFlags::PRI);
        socket.may_read |= flags.intersects(EventFlags::IN | hang_ups);
        socket.may_write |= flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP);
        Some(flow)
    }

    /// Marks a flow that can copy more. Returns whether it was not marked yet.
    pub(crate) fn mark_unfinished(&mut self, flow: Key) -> bool {
        let socket = self.sockets.get_mut(flow.index()).and_then(Option::as_mut);
        let Some(socket) = socket.filter(|socket| socket.flow == flow) else { return false };
        !std::mem::replace(&mut socket.is_unfinished, true)
    }

    /// Copies data in both directions until one side would block or the flow has had its share of
    /// the turn, in which `flows` flows copy. Returns whether more can be copied at once.
    pub(crate) fn copy(
        &mut self,
        guest: &mut Guest,
        (number, flow, flows): (usize, Key, usize),
        (poll, buffers): (&Poll, &mut ReadBuffers),
        cx: &mut Cx<'_>,
    ) -> bool {
        let share = (TURN_BYTES_MAX / flows.max(1)).clamp(SHARE_MIN, SHARE_MAX);
        let socket = self.sockets.get_mut(flow.index()).and_then(Option::as_mut);
        let Some(socket) = socket.filter(|socket| socket.flow == flow && socket.is_connected)
        else {
            return false;
        };
        socket.is_unfinished = false;
        let copied = match socket.copy_to_host(guest, share) {
            Ok(has_more) => {
                socket.copy_to_guest(guest, share, buffers).map(|other| has_more || other)
            }
            Err(error) => Err(error),
        };
        let copied = copied.and_then(|has_more| {
            socket.report_writable(number, poll)?;
            Ok(has_more)
        });
        match copied {
            Ok(has_more) => {
                guest.copied(flow, cx);
                has_more
            }
            Err(_) => {
                self.remove(flow);
                guest.host_reset(flow, cx);
                false
            }
        }
    }
}

impl Socket {
    fn copy_to_host(&mut self, guest: &mut Guest, share: usize) -> Result<bool, Errno> {
        let mut moved = 0;
        while self.may_write {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let mut count = 0;
            let mut len = 0;
            for (place, piece) in pieces.iter_mut().zip(guest.to_host_pieces(self.flow)) {
                *place = IoSlice::new(piece);
                count += 1;
                len += piece.len();
            }
            if count == 0 {
                break;
            }
            if moved >= share {
                return Ok(true);
            }
            match self.write(pieces.get(..count).unwrap_or_default(), len) {
                Ok(sent) => {
                    self.has_written = true;
                    guest.accepted(self.flow, sent);
                    moved += sent;
                    self.may_write = sent == len;
                }
                Err(Errno::AGAIN) => self.may_write = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if guest.must_shut_down(self.flow) {
            // Both sides have finished, so the flow ends now, and `close` sends the FIN.
            if self.is_read {
                guest.shut_down(self.flow);
                return Ok(false);
            }
            match sockets::shutdown(&self.fd, Shutdown::Write) {
                Ok(()) | Err(Errno::NOTCONN) => guest.shut_down(self.flow),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Writes `pieces` of together `len` bytes, and returns the number of bytes that the socket has
    /// accepted.
    fn write(&mut self, pieces: &[IoSlice<'_>], len: usize) -> Result<usize, Errno> {
        if !self.has_no_delay && (self.has_written || len > ONE_SEGMENT_LEN) {
            sockopt::set_tcp_nodelay(&self.fd, true)?;
            self.has_no_delay = true;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match pieces {
            [piece] => sockets::send(&self.fd, piece, flags),
            _ => sockets::sendmsg(&self.fd, pieces, &mut SendAncillaryBuffer::default(), flags),
        }
    }

    /// Requests the report of readiness for writing if the socket would block.
    fn report_writable(&mut self, number: usize, poll: &Poll) -> Result<(), Errno> {
        if self.may_write || self.reports_writable {
            return Ok(());
        }
        self.reports_writable = true;
        let source = Source::Tcp(number, Slot::of(self.flow));
        // If the socket has become writable in the meantime, this is reported too.
        let modified = poll.modify(&self.fd, source, READABLE | EventFlags::OUT);
        modified.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn copy_to_guest(
        &mut self,
        guest: &mut Guest,
        share: usize,
        buffers: &mut ReadBuffers,
    ) -> Result<bool, Errno> {
        let mut moved = 0;
        while self.may_read {
            let space = guest.space(self.flow);
            if space < guest.read_min(self.flow) {
                break;
            }
            if moved >= share {
                return Ok(true);
            }
            match self.read(guest, space, buffers) {
                Ok((_, 0)) => self.end_reading(guest),
                Ok((wanted, read)) => {
                    moved += read;
                    self.is_bulk = read >= CHUNK_LEN;
                    self.may_read = read == wanted || self.reads_to_end;
                    if read < wanted && self.has_fin {
                        self.end_reading(guest);
                    }
                }
                Err(Errno::AGAIN) => self.may_read = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads at most `space` bytes and queues them for the guest. Returns the number of bytes that a
    /// complete read has, and of those that were read.
    fn read(
        &self,
        guest: &mut Guest,
        space: usize,
        buffers: &mut ReadBuffers,
    ) -> Result<(usize, usize), Errno> {
        if self.is_bulk && space >= CHUNK_LEN {
            let read = self.read_chunks(guest, space, buffers);
            if let Some(read) = read {
                return read;
            }
        }
        let buffer = buffers.buffer();
        let wanted = space.min(buffer.len());
        let part = buffer.get_mut(..wanted).unwrap_or_default();
        let (_, read) = sockets::recv(&self.fd, &mut *part, RecvFlags::DONTWAIT)?;
        guest.to_guest(self.flow, part.get(..read).unwrap_or_default());
        Ok((wanted, read))
    }

    /// As [`Self::read`], into chunks. The connection shares those that are filled, and copies the
    /// data in the last one. Returns `None` if no chunk is free.
    fn read_chunks(
        &self,
        guest: &mut Guest,
        space: usize,
        buffers: &mut ReadBuffers,
    ) -> Option<Result<(usize, usize), Errno>> {
        let mut chunks = buffers.take()?;
        let mut wanted = 0;
        let mut parts = chunks.each_mut().map(|chunk| {
            let part = Arc::get_mut(chunk).unwrap_or_default();
            let len = part.len().min(space - wanted);
            wanted += len;
            IoSliceMut::new(part.get_mut(..len).unwrap_or_default())
        });
        let read = rustix::io::readv(&self.fd, &mut parts);
        let mut left = read.unwrap_or(0);
        for chunk in chunks {
            if left >= CHUNK_LEN {
                guest.share_with_guest(self.flow, &chunk);
            } else if left > 0 {
                guest.to_guest(self.flow, chunk.get(..left).unwrap_or_default());
            }
            left = left.saturating_sub(CHUNK_LEN);
            buffers.put(chunk);
        }
        Some(read.map(|read| (wanted, read)))
    }

    /// Records that all data of the remote host was read.
    fn end_reading(&mut self, guest: &mut Guest) {
        self.may_read = false;
        self.is_read = true;
        guest.host_finished(self.flow);
    }
}
