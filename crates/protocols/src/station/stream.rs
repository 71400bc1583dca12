//! A stream application carried by one TCP connection of the station.

use super::{Application, Transports};
use crate::application::Stream;
use crate::cx::Cx;
use crate::time::Instant;
use crate::transport::tcp::{ConnectionId, Ending, Event, OpenError, Profile, Status};
use core::net::{Ipv4Addr, SocketAddrV4};

/// How the connection comes about.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    /// We open it.
    Active {
        /// Our address.
        local: Ipv4Addr,
        /// The other end.
        remote: SocketAddrV4,
    },
    /// We wait for it.
    Passive {
        /// The port at which we wait.
        port: u16,
    },
}

/// A stream application with its connection.
#[derive(Debug)]
pub struct Carried<S> {
    /// The application.
    pub stream: S,
    opening: Option<Opening>,
    profile: Profile,
    connection: Option<ConnectionId>,
    is_open: bool,
    has_closed: bool,
    peer_has_closed: bool,
    /// Something came to the stream by another way than its connection.
    has_notice: bool,
    failure: Option<OpenError>,
    ending: Option<Ending>,
}

impl<S: Stream> Carried<S> {
    /// Makes the application; the connection is opened when it first runs.
    pub fn new(stream: S, opening: Opening, profile: Profile) -> Self {
        Self {
            stream,
            opening: Some(opening),
            profile,
            connection: None,
            is_open: false,
            has_closed: false,
            peer_has_closed: false,
            has_notice: false,
            failure: None,
            ending: None,
        }
    }

    /// Returns how the connection ended, once it has.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Returns why the connection could not even be opened.
    pub fn failure(&self) -> Option<OpenError> {
        self.failure
    }

    /// Returns whether the connection has ended or could not be opened.
    pub fn is_over(&self) -> bool {
        self.ending.is_some() || self.failure.is_some()
    }

    /// Returns the state of the connection, if there is one.
    pub fn status(&self, transports: &Transports) -> Option<Status> {
        transports.tcp.status(self.connection?).ok()
    }

    /// Sets how the connection comes about, before it does.
    pub fn set_opening(&mut self, opening: Opening) {
        self.opening = Some(opening);
    }

    /// Returns whether the connection is open, or was.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether we have closed our side.
    pub fn has_closed(&self) -> bool {
        self.has_closed
    }

    /// Returns whether the peer has closed its side.
    pub fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Says that something came to the stream by another way: it runs at the next turn.
    pub fn notice(&mut self) {
        self.has_notice = true;
    }

    /// Aborts the connection, and tells the peer by a reset, unless both sides have closed.
    pub fn abort_unless_closed(&mut self, transports: &mut Transports, cx: &mut Cx<'_>) {
        if let Some(id) = self.connection
            && !(self.has_closed && self.peer_has_closed)
        {
            // What has gone needs no reset.
            _ = transports.tcp.abort(id, cx);
        }
    }

    fn open(&mut self, transports: &mut Transports, cx: &mut Cx<'_>) {
        match self.opening.take() {
            Some(Opening::Active { local, remote }) => {
                match transports.tcp.open(local, remote, self.profile, cx) {
                    Ok(id) => self.connection = Some(id),
                    Err(error) => self.failure = Some(error),
                }
            }
            Some(Opening::Passive { port }) => {
                let listening = transports.tcp.listen(port, self.profile);
                self.failure = listening.err().map(|_| OpenError::NoPort);
            }
            None => {}
        }
    }

    fn on_event(
        &mut self,
        id: ConnectionId,
        event: Event,
        transports: &mut Transports,
        cx: &mut Cx<'_>,
    ) {
        match event {
            Event::Established => {
                if self.connection.is_none_or(|own| own == id) && !self.is_open {
                    self.connection = Some(id);
                    self.is_open = true;
                    self.stream.opened(cx);
                } else {
                    // One stream has one connection: a second one is turned away.
                    _ = transports.tcp.abort(id, cx);
                    transports.tcp.release(id);
                }
            }
            Event::PeerClosed => {
                self.peer_has_closed = true;
                self.read(transports, cx);
                self.stream.peer_closed(cx);
            }
            Event::Closed if self.connection == Some(id) => {
                self.ending = transports.tcp.status(id).ok().and_then(|status| status.ending);
                self.ending.get_or_insert(Ending::Closed);
            }
            Event::Urgent | Event::Readable | Event::Writable | Event::Closed => {}
        }
    }

    /// Gives the stream all that has come, and tells it where urgent data begins and ends.
    fn read(&mut self, transports: &mut Transports, cx: &mut Cx<'_>) {
        let Some(id) = self.connection else { return };
        loop {
            let urgent = transports.tcp.urgent_ahead(id).ok().flatten();
            if urgent.is_some() {
                self.stream.urgent(true);
            }
            let Ok(data) = transports.tcp.received(id) else { return };
            let piece = data.get(..urgent.unwrap_or(data.len())).unwrap_or(data);
            let count = piece.len();
            if count == 0 {
                return;
            }
            self.stream.receive(piece, cx);
            if transports.tcp.consume(id, count).is_err() {
                return;
            }
            if urgent == Some(count) {
                self.stream.urgent(false);
            }
        }
    }

    fn write(&mut self, transports: &mut Transports) {
        let Some(id) = self.connection.filter(|_| self.is_open) else { return };
        loop {
            let output = self.stream.output();
            let mark = self.stream.urgent_mark().and_then(|mark| output.get(..mark));
            let taken = match mark.filter(|urgent| !urgent.is_empty()) {
                Some(urgent) => transports.tcp.send_urgent(id, urgent),
                None if !output.is_empty() => transports.tcp.send(id, output),
                None => break,
            };
            match taken {
                Ok(0) | Err(_) => return,
                Ok(taken) => self.stream.sent(taken),
            }
        }
        if self.stream.is_closing() && !self.has_closed {
            self.has_closed = true;
            // What has gone needs no closing.
            _ = transports.tcp.close(id);
        }
    }
}

impl<S: Stream> Application for Carried<S> {
    fn wants_to_run(&self) -> bool {
        self.opening.is_some() || self.has_notice || self.stream.wants_to_run()
    }

    fn run(&mut self, transports: &mut Transports, cx: &mut Cx<'_>) {
        self.has_notice = false;
        self.open(transports, cx);
        while let Some((id, event)) = transports.tcp.event() {
            self.on_event(id, event, transports, cx);
        }
        self.read(transports, cx);
        self.stream.run(cx);
        self.write(transports);
    }

    fn deadline(&self) -> Option<Instant> {
        self.stream.deadline()
    }
}
