//! A host with several TCP connections, each with its own user.

use super::workload::ScriptedUser;
use net::Cx;
use net::application::Stream;
use net::station::{Application, Layers, Opening};
use net::transport::tcp::{self, ConnectionId, Profile};

/// One connection and its user.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) user: ScriptedUser,
    opening: Option<Opening>,
    /// The port on which the session listens, until its connection is established.
    listens_on: Option<u16>,
    profile: Profile,
    connection: Option<ConnectionId>,
    is_open: bool,
}

impl Session {
    pub(super) const fn new(user: ScriptedUser, opening: Opening, profile: Profile) -> Self {
        let opening = Some(opening);
        Self { user, opening, listens_on: None, profile, connection: None, is_open: false }
    }

    fn open(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        match self.opening.take() {
            Some(Opening::Active { local, remote }) => {
                self.connection = layers.tcp.open(local, remote, self.profile, cx).ok();
            }
            Some(Opening::Passive { port }) => {
                self.listens_on = layers.tcp.listen(port, self.profile).is_ok().then_some(port);
            }
            None => {}
        }
    }

    /// Returns whether a new connection with the local port `port` belongs to this session.
    fn takes(&self, id: ConnectionId, port: Option<u16>) -> bool {
        self.connection == Some(id)
            || (self.connection.is_none() && port.is_some() && self.listens_on == port)
    }

    fn read(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let Some(id) = self.connection else { return };
        while let Ok(data) = layers.tcp.received(id)
            && !data.is_empty()
        {
            let count = data.len();
            self.user.receive(data, cx);
            if layers.tcp.consume(id, count).is_err() {
                return;
            }
        }
    }

    fn write(&mut self, layers: &mut Layers) {
        let Some(id) = self.connection.filter(|_| self.is_open) else { return };
        while !self.user.output().is_empty() {
            match layers.tcp.send(id, self.user.output()) {
                Ok(0) | Err(_) => return,
                Ok(accepted) => self.user.sent(accepted),
            }
        }
    }
}

/// The sessions of a host.
#[derive(Debug)]
pub(super) struct Sessions(pub(super) Vec<Session>);

impl Sessions {
    /// Returns the user of a session.
    ///
    /// # Panics
    ///
    /// Panics if there is no such session.
    pub(super) fn user(&self, number: usize) -> &ScriptedUser {
        self.0.get(number).map(|session| &session.user).expect("the experiment made the session")
    }

    fn established(&mut self, id: ConnectionId, layers: &mut Layers, cx: &mut Cx<'_>) {
        let port = layers.tcp.status(id).ok().map(|status| status.local.port());
        let Some(session) = self.0.iter_mut().find(|session| session.takes(id, port)) else {
            return;
        };
        session.connection = Some(id);
        session.listens_on = None;
        session.is_open = true;
        session.user.opened(cx);
    }
}

impl Application for Sessions {
    fn wants_to_run(&self) -> bool {
        self.0.iter().any(|session| session.opening.is_some() || session.user.wants_to_run())
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        for session in &mut self.0 {
            session.open(layers, cx);
        }
        while let Some((id, event)) = layers.tcp.event() {
            if matches!(event, tcp::Event::Established) {
                self.established(id, layers, cx);
            }
        }
        for session in &mut self.0 {
            session.read(layers, cx);
            session.user.run(cx);
            session.write(layers);
        }
    }
}
