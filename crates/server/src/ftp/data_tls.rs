//! TLS on a data connection: its configuration, and the check of the resumed session.

use super::ftp_server::FtpServer;
use super::tickets;
use crate::metered::{Metered, MeteredStream};
use carrier::TcpConnection;
use net::meter::Account;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use transfer::ftp_data::{DataSocket, DataTlsStream};

/// Socket of a data connection, whose system calls are charged to their own account.
pub(super) type MeteredSocket = MeteredStream<TcpConnection, FtpServer>;

/// TLS parameters of a data connection.
#[derive(Clone)]
pub(super) struct DataTlsParameters {
    pub(super) configuration: Arc<ServerConfig>,
    /// Token of the FTP session, contained in its TLS session tickets.
    pub(super) token: [u8; tickets::TOKEN_LEN],
    /// Family of FTP sessions whose tickets are accepted too. If set, the client must resume a TLS
    /// session of the family.
    pub(super) family: Option<tickets::SessionTokens>,
}

impl DataTlsParameters {
    /// Performs the handshake, and charges its time to `server`.
    ///
    /// # Errors
    ///
    /// Returns an error if the handshake fails, and [`ErrorKind::PermissionDenied`] if the client
    /// does not resume a required TLS session.
    pub(super) async fn accept(
        &self,
        stream: TcpConnection,
        server: &Rc<FtpServer>,
        is_upload: bool,
    ) -> io::Result<DataTlsStream<MeteredSocket>> {
        let socket = MeteredStream::new(stream, Rc::clone(server), Account::Interrupt);
        let mut tls_stream = self.tls_stream(socket, is_upload)?;
        server.charge_future(Account::Encryption, tls_stream.handshake()).await?;
        self.check_resumed(&tls_stream)?;
        Ok(tls_stream)
    }

    fn tls_stream<S: DataSocket>(
        &self,
        socket: S,
        is_upload: bool,
    ) -> io::Result<DataTlsStream<S>> {
        let Self { configuration, token, family } = self;
        let configuration = tickets::session_configuration(configuration, *token, family.as_ref());
        DataTlsStream::server(socket, configuration, is_upload)
    }

    fn check_resumed<S: DataSocket>(&self, tls_stream: &DataTlsStream<S>) -> io::Result<()> {
        match self.family.is_some() && !tls_stream.is_resumed() {
            true => Err(ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "data_tls_tests.rs"]
mod tests;
