//! The socket of a data connection, as TLS uses it.

use carrier::TcpConnection;
use tokio::io::{AsyncRead, AsyncWrite};

/// Socket of a data connection. Its calls either block or return `Poll::Pending`.
pub trait DataSocket: AsyncRead + AsyncWrite + Unpin {
    /// Makes one attempt to send the alert of a TLS connection that has failed. Errors are ignored,
    /// because a peer that has closed the connection needs no alert.
    fn send_alert(&mut self, alert: &[u8]);
}

impl DataSocket for TcpConnection {
    fn send_alert(&mut self, alert: &[u8]) {
        // Does not wait: a peer that no longer reads does not need the alert.
        _ = self.try_write(alert);
    }
}
