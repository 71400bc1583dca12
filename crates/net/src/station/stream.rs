//! A stream application that uses one TCP connection of the station.

use super::{Application, Layers};
use crate::application::Stream;
use crate::cx::Cx;
use crate::time::Instant;
use crate::transport::tcp::{self, ConnectionId, OpenError, Profile, Status};
use core::net::{IpAddr, SocketAddr};

/// How the connection is opened.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    /// Active open: connects to a remote host.
    Active {
        /// The local address; if unspecified, the route determines it.
        local: IpAddr,
        /// The remote address and port.
        remote: SocketAddr,
    },
    /// Passive open: listens on a port.
    Passive {
        /// The local port.
        port: u16,
    },
}

/// A stream application and its TCP connection.
#[derive(Debug)]
pub struct TcpStreamApp<S> {
    /// The application.
    pub stream: S,
    opening: Option<Opening>,
    /// The port on which the application listens; `None` once a connection is established.
    listens_on: Option<u16>,
    profile: Profile,
    is_awaited: fn(&[u8]) -> bool,
    pub(super) connection: Option<ConnectionId>,
    is_open: bool,
    has_closed: bool,
    peer_has_closed: bool,
    /// Whether the peer's FIN has arrived. Data that precedes the FIN may still wait for the
    /// stream.
    is_fin_received: bool,
    /// Whether the connection has ended. It is released once all its data was read.
    has_ended: bool,
    /// Whether the stream has input from another source than the connection.
    has_notice: bool,
    failure: Option<OpenError>,
    /// The final state of the connection, after it was released.
    last_status: Option<Status>,
}

impl<S: Stream> TcpStreamApp<S> {
    /// Creates the application. The connection is opened when it first runs.
    pub fn new(stream: S, opening: Opening, profile: Profile) -> Self {
        Self {
            stream,
            opening: Some(opening),
            listens_on: None,
            profile,
            is_awaited: |_| false,
            connection: None,
            is_open: false,
            has_closed: false,
            peer_has_closed: false,
            is_fin_received: false,
            has_ended: false,
            has_notice: false,
            failure: None,
            last_status: None,
        }
    }

    /// Sets a predicate on received data. Matching data is acknowledged at the next output even if
    /// the profile delays acknowledgments, because the peer may wait for the acknowledgment before
    /// it sends more (Nagle's algorithm, RFC 9293 §3.7.4).
    #[must_use]
    pub fn acknowledging(self, is_awaited: fn(&[u8]) -> bool) -> Self {
        Self { is_awaited, ..self }
    }

    /// Replaces the predicate set by [`Self::acknowledging`].
    pub fn set_acknowledging(&mut self, is_awaited: fn(&[u8]) -> bool) {
        self.is_awaited = is_awaited;
    }

    /// Returns the reason for the end of the connection, once it has ended.
    pub fn close_reason(&self) -> Option<tcp::CloseReason> {
        self.last_status.map(|status| status.close_reason.unwrap_or(tcp::CloseReason::Closed))
    }

    /// Returns the error of the attempt to open the connection, if it failed.
    pub fn failure(&self) -> Option<OpenError> {
        self.failure
    }

    /// Returns whether the connection has ended or could not be opened.
    pub fn is_over(&self) -> bool {
        self.last_status.is_some() || self.failure.is_some()
    }

    /// Returns the state of the connection, or its final state if it has ended.
    pub fn status(&self, layers: &Layers) -> Option<Status> {
        self.last_status.or_else(|| layers.tcp.status(self.connection?).ok())
    }

    /// Sets how the connection is opened. Has no effect once the application has run.
    pub fn set_opening(&mut self, opening: Opening) {
        if self.opening.is_some() {
            self.opening = Some(opening);
        }
    }

    /// Returns whether the connection is or was established.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether the local side has closed.
    pub fn has_closed(&self) -> bool {
        self.has_closed
    }

    /// Returns whether the peer has closed its side.
    pub fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Reports that the stream has input from another source than the connection, so that the
    /// stream runs.
    pub fn notice(&mut self) {
        self.has_notice = true;
    }

    /// Aborts the connection and sends a reset to the peer. If both sides have already closed, only
    /// releases the connection, which then ends normally.
    pub fn abort_unless_closed(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let Some(id) = self.connection else { return };
        if self.has_closed && self.peer_has_closed {
            return layers.tcp.release(id);
        }
        // A connection that is already gone needs no reset.
        _ = layers.tcp.abort(id, cx);
        self.end_if_closed(layers);
    }

    /// Records the final state of a connection that has ended, and releases it.
    fn end_if_closed(&mut self, layers: &mut Layers) {
        let Some(id) = self.connection else { return };
        let status = layers.tcp.status(id).ok();
        if let Some(status) = status.filter(|status| status.state == tcp::State::Closed) {
            self.last_status = Some(status);
            layers.tcp.release(id);
        }
    }

    fn open(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        match self.opening.take() {
            Some(Opening::Active { local, remote }) => {
                // RFC 9293 §3.9.1.1 (MUST-44): an unspecified address is replaced by the source
                // address of the route.
                let source_address = layers.internet.source_for(remote.ip());
                let local = if local.is_unspecified() { source_address } else { local };
                match layers.tcp.open(local, remote, self.profile, cx) {
                    Ok(id) => self.connection = Some(id),
                    Err(error) => self.failure = Some(error),
                }
            }
            Some(Opening::Passive { port }) => {
                let listening = layers.tcp.listen(port, self.profile);
                self.listens_on = listening.is_ok().then_some(port);
                self.failure = listening.err().map(|_| OpenError::NoPort);
            }
            None => {}
        }
    }

    fn on_event(
        &mut self,
        id: ConnectionId,
        event: tcp::Event,
        layers: &mut Layers,
        cx: &mut Cx<'_>,
    ) {
        match event {
            tcp::Event::Established if self.connection.is_none_or(|own| own == id) => {
                self.connection = Some(id);
                self.is_open = true;
                // One stream has one connection: a second one is refused.
                if let Some(port) = self.listens_on.take() {
                    layers.tcp.stop_listening(port);
                }
                self.stream.opened(cx);
            }
            tcp::Event::Established => {
                // The connection was established before this application has run.
                _ = layers.tcp.abort(id, cx);
                layers.tcp.release(id);
            }
            _ if self.connection != Some(id) => {}
            tcp::Event::PeerClosed => self.is_fin_received = true,
            tcp::Event::Closed => self.has_ended = true,
            tcp::Event::Urgent
            | tcp::Event::Readable
            | tcp::Event::Writable
            | tcp::Event::Unresponsive => {}
        }
    }

    /// Delivers received data to the stream, and then the end of the connection.
    fn read_to_end(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if !self.read(layers, cx) {
            return;
        }
        if self.is_fin_received && !self.peer_has_closed {
            self.peer_has_closed = true;
            self.stream.peer_closed(cx);
        }
        if self.has_ended && self.last_status.is_none() {
            self.end_if_closed(layers);
        }
    }

    /// Delivers as much received data as the stream accepts, and reports the start and end of
    /// urgent data. Returns whether no data is left.
    fn read(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) -> bool {
        let Some(id) = self.connection else { return true };
        loop {
            let urgent = layers.tcp.urgent_ahead(id).ok().flatten();
            if urgent.is_some() {
                self.stream.urgent(true);
            }
            let Ok(data) = layers.tcp.received(id) else { return true };
            let piece = data.get(..urgent.unwrap_or(data.len())).unwrap_or(data);
            let count = piece.len();
            if count == 0 {
                return true;
            }
            if !self.stream.wants_data() {
                return false;
            }
            let is_awaited = (self.is_awaited)(piece);
            self.stream.receive(piece, cx);
            if layers.tcp.consume(id, count).is_err() {
                return true;
            }
            if is_awaited {
                // The connection exists: data was just consumed from it.
                _ = layers.tcp.acknowledge(id);
            }
            if urgent == Some(count) {
                self.stream.urgent(false);
            }
        }
    }

    fn write(&mut self, layers: &mut Layers) {
        let Some(id) = self.connection.filter(|_| self.is_open) else { return };
        loop {
            let output = self.stream.output();
            let mark = self.stream.urgent_mark().and_then(|mark| output.get(..mark));
            let accepted = match mark.filter(|urgent| !urgent.is_empty()) {
                Some(urgent) => layers.tcp.send_urgent(id, urgent),
                None if !output.is_empty() => layers.tcp.send(id, output),
                None => break,
            };
            match accepted {
                Ok(0) | Err(_) => return,
                Ok(accepted) => self.stream.sent(accepted),
            }
        }
        if self.stream.is_closing() && !self.has_closed {
            self.has_closed = true;
            // A connection that is already gone needs no closing.
            _ = layers.tcp.close(id);
        }
    }
}

impl<S: Stream> Application for TcpStreamApp<S> {
    fn wants_to_run(&self) -> bool {
        self.opening.is_some() || self.has_notice || self.stream.wants_to_run()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        self.has_notice = false;
        self.open(layers, cx);
        while let Some((id, event)) = layers.tcp.event() {
            self.on_event(id, event, layers, cx);
        }
        self.read_to_end(layers, cx);
        self.stream.run(cx);
        self.write(layers);
    }

    fn deadline(&self) -> Option<Instant> {
        self.stream.deadline()
    }
}
