//! The host's sockets of TCP flows.
//!
//! A socket is registered once, edge-triggered. Its readiness is remembered until a system call
//! reports that the socket would block.

use crate::poll::{Poll, Slot, Source};
use crate::socket_errors::connect_failure;
use gateway::relay::Key;
use gateway::{ConnectFailure, Guest};
use net::Cx;
use os::outbound::Outbound;
use os::tcp_socket;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{self as sockets, RecvFlags, SendFlags, Shutdown, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::task;
use std::time::Duration;

/// Bytes that flows may move in each direction before the devices are served again, and the minimum
/// share of a flow.
const TURN_BYTES_MAX: usize = 1 << 21;
const SHARE_MIN: usize = 1 << 15;
/// The maximum share of a flow.
const SHARE_MAX: usize = 1 << 19;

/// The sockets of the TCP flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct TcpSockets {
    sockets: Vec<Option<Socket>>,
}

#[derive(Debug)]
struct Socket {
    flow: Key,
    fd: TcpStream,
    is_connected: bool,
    may_read: bool,
    may_write: bool,
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
            Err(error) => return guest.connect_failed(flow, connect_failure(&error), cx),
        };
        // A connection to the host itself is established or refused at once.
        let is_connected = match tcp_socket::connect_result(&stream) {
            task::Poll::Ready(Ok(())) => true,
            task::Poll::Pending => false,
            task::Poll::Ready(Err(error)) => {
                return guest.connect_failed(flow, connect_failure(&error), cx);
            }
        };
        // Without keep-alive, a flow to a host that has vanished would never end.
        _ = sockopt::set_socket_keepalive(&stream, true);
        if self.insert(guest, (number, flow), stream, is_connected, poll).is_err() {
            self.remove(flow);
            return guest.connect_failed(flow, ConnectFailure::Refused, cx);
        }
        if is_connected {
            guest.connected(flow, cx);
        }
    }

    /// Adds the accepted connection of an incoming flow.
    pub(crate) fn insert(
        &mut self,
        guest: &Guest,
        (number, flow): (usize, Key),
        fd: TcpStream,
        is_connected: bool,
        poll: &Poll,
    ) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::PRI;
        let flags = flags | EventFlags::RDHUP | EventFlags::ET;
        // Urgent data stays in its place in the stream. Telnet's Synch depends on it.
        os::socket::set_urgent_inline(&fd, true)?;
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
                may_read: true,
                may_write: true,
                reads_to_end: false,
                is_unfinished: false,
            });
        }
        Ok(())
    }

    /// Closes the socket of a flow.
    pub(crate) fn remove(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && slot.as_ref().is_some_and(|socket| socket.flow == flow)
        {
            *slot = None;
        }
    }

    /// Closes the socket of a flow with a reset.
    pub(crate) fn reset(&mut self, flow: Key) {
        if let Some(Some(socket)) = self.sockets.get(flow.index())
            && socket.flow == flow
        {
            // Without the option, the remote host would receive a FIN.
            _ = sockopt::set_socket_linger(&socket.fd, Some(Duration::ZERO));
        }
        self.remove(flow);
    }

    /// Closes all sockets with a reset, because the guest is gone.
    pub(crate) fn reset_all(&mut self) {
        for socket in self.sockets.drain(..).flatten() {
            // Without the option, the remote host would receive a FIN, as after a complete transfer.
            _ = sockopt::set_socket_linger(&socket.fd, Some(Duration::ZERO));
        }
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
        (flow, flows): (Key, usize),
        buffer: &mut [u8],
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
                socket.copy_to_guest(guest, share, buffer).map(|other| has_more || other)
            }
            Err(error) => Err(error),
        };
        match copied {
            Ok(has_more) => has_more,
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
            let data = guest.to_host(self.flow);
            if data.is_empty() {
                break;
            }
            if moved >= share {
                return Ok(true);
            }
            let len = data.len();
            match sockets::send(&self.fd, data, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
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
            match sockets::shutdown(&self.fd, Shutdown::Write) {
                Ok(()) | Err(Errno::NOTCONN) => guest.shut_down(self.flow),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn copy_to_guest(
        &mut self,
        guest: &mut Guest,
        share: usize,
        buffer: &mut [u8],
    ) -> Result<bool, Errno> {
        let mut moved = 0;
        while self.may_read {
            let space = guest.space(self.flow);
            if space < guest.read_min().max(1) {
                break;
            }
            if moved >= share {
                return Ok(true);
            }
            let wanted = space.min(buffer.len());
            let Some(part) = buffer.get_mut(..wanted) else { break };
            match sockets::recv(&self.fd, &mut *part, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    self.may_read = false;
                    guest.host_finished(self.flow);
                }
                Ok((_, read)) => {
                    guest.to_guest(self.flow, part.get(..read).unwrap_or_default());
                    moved += read;
                    self.may_read = read == wanted || self.reads_to_end;
                }
                Err(Errno::AGAIN) => self.may_read = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
