//! Request sockets of the TFTP server.

use super::request_socket::RequestSocket;
use super::tftp_log::TftpEvent;
use super::tftp_server::TftpServer;
use crate::startup::StartupGuard;
use anyhow::{Context, Result};
use std::rc::Rc;
use tokio::task::JoinSet;

impl TftpServer {
    /// Serves until a socket fails. Drops `startup` when all sockets are open.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a socket cannot be bound, or the
    /// error of a socket that failed.
    pub(crate) async fn serve(self: Rc<Self>, startup: StartupGuard) -> Result<()> {
        let mut sockets = JoinSet::new();
        let mut ports = Vec::new();
        for address in &self.settings.listen {
            let socket = match self.host.get() {
                // A socket of the user-space host receives both address families.
                Some(_) if ports.contains(&address.port()) => continue,
                Some(host) => RequestSocket::of_host(host, address.port())?,
                None => RequestSocket::open(*address)?,
            };
            ports.push(address.port());
            let at = socket.name()?;
            let rights = self.settings.rights.name();
            let root = &self.settings.root;
            self.log.write(&TftpEvent::Serving { at, root: root.display().to_string(), rights });
            sockets.spawn_local(socket.serve(Rc::clone(&self)));
        }
        drop(startup);
        let first_end = sockets.join_next().await.transpose()?;
        first_end.map_or(Ok(()), |error| Err(error).context("cannot receive TFTP requests"))
    }
}
