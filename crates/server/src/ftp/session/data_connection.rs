//! Data connections of a session: listeners, active connections, and the choice of the connection
//! that a transfer uses.

use super::{FtpSession, TaskResult};
use crate::ftp::data::Stream;
use crate::ftp::passive::{PassiveListener, PortShare};
use carrier::TcpConnection;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

impl FtpSession {
    /// Opens a listener for the next data connection.
    pub(super) fn listen(&mut self) {
        self.close_data();
        self.data_requested_at = Some(Instant::now());
        let settings = self.server.settings();
        let ip = self.local.ip().to_canonical();
        let ports = &settings.passive_ports;
        let share = PortShare::take(&self.server, self.peer.ip(), ports.share());
        let listener = share.is_ok().then(|| PassiveListener::open(ports, ip, self.server.host()));
        let (listener, address) = listener.flatten().unzip();
        self.port_share = share.ok().flatten().filter(|_| listener.is_some());
        let public_ip = settings.passive_address.filter(|public| public.is_ipv4() == ip.is_ipv4());
        let reported_address =
            address.map(|at| SocketAddr::new(public_ip.unwrap_or(ip), at.port()));
        self.listener = listener;
        self.has_sent_replies = false;
        self.data_addresses = (address, None);
        self.engine.on_listening(reported_address, &mut self.server.context().cx());
    }

    /// Starts to connect to the address that the client has specified.
    pub(super) fn connect(&mut self, remote: SocketAddr) {
        self.close_data();
        self.data_requested_at = Some(Instant::now());
        let route_number = self.route_number;
        let from = self.local.ip().to_canonical();
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let server = Rc::clone(&self.server);
        self.spawn(async move {
            TaskResult::Connected(
                route_number,
                TcpConnection::connect(server.host(), Some(from), remote).await,
            )
        });
    }

    /// Closes the listener and any data connection that no transfer uses yet.
    pub(super) fn close_data(&mut self) {
        self.route_number += 1;
        self.listener = None;
        self.data_connection = None;
        self.awaits_data = false;
        self.port_share = None;
        self.data_addresses = (None, None);
    }

    /// Handles a data connection from or to `from`. Returns whether the engine accepts the
    /// connection.
    pub(super) fn on_data_connection(&mut self, stream: Stream, from: SocketAddr) -> bool {
        let is_accepted = self.engine.data_connected(from, &mut self.server.context().cx());
        if is_accepted {
            self.data_connected_at = Some(Instant::now());
            self.listener = None;
            self.data_connection = Some(stream);
            self.awaits_data = false;
            self.port_share = None;
            self.data_addresses.1 = Some(from);
        }
        is_accepted
    }

    /// Accepts connections already made to the listener. Returns whether one of them is accepted as
    /// the data connection.
    pub(super) fn accept_waiting(&mut self) -> bool {
        while let Some((stream, from)) =
            self.listener.as_ref().and_then(PassiveListener::try_accept)
        {
            if self.on_data_connection(stream, from) {
                return true;
            }
        }
        false
    }
}
