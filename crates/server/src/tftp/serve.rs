//! Request sockets of the TFTP server.

use super::request_socket::RequestSocket;
use super::tftp_log::TftpEvent;
use super::tftp_server::{TftpPlan, TftpServer};
use crate::listen_addresses::one_per_port;
use crate::socket_set::{ConfiguredSocket, SocketDescription};
use std::rc::Rc;

impl TftpPlan {
    /// Returns the request sockets of the configuration.
    pub(crate) fn sockets(&self, is_userspace: bool) -> Vec<ConfiguredSocket<()>> {
        let settings = &self.settings;
        let addresses = match is_userspace {
            // A socket of the user-space host receives both address families.
            true => one_per_port(&settings.listen),
            false => settings.listen.clone(),
        };
        let what = settings.root.display().to_string();
        let description = SocketDescription { how: settings.rights.name(), what };
        let socket =
            |address| ConfiguredSocket { address, policy: (), description: description.clone() };
        addresses.into_iter().map(socket).collect()
    }
}

impl TftpServer {
    /// Processes requests until the socket fails. Returns the error.
    pub(crate) async fn receive(self: Rc<Self>, socket: Rc<RequestSocket>) -> anyhow::Error {
        let error = socket.serve(self).await;
        anyhow::Error::new(error).context("cannot receive TFTP requests")
    }

    /// Logs that a request socket is open.
    pub(crate) fn report_socket(&self, socket: &RequestSocket, of: &SocketDescription) {
        let at = socket.name().unwrap_or_default();
        self.log.write(&TftpEvent::Serving { at, root: of.what.clone(), rights: of.how });
    }
}
