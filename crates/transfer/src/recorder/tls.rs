//! TLS parameters of a data connection.

use records::transfer::{Identity, Text};
use tokio_rustls::rustls::{CommonState, HandshakeKind, ProtocolVersion};

/// TLS parameters of a data connection.
#[derive(Clone, Copy, Debug)]
pub struct DataTls {
    version: &'static str,
    cipher: Option<&'static str>,
    is_resumed: bool,
}

impl DataTls {
    /// Returns the parameters of a connection whose handshake is complete.
    pub fn of(connection: &CommonState) -> Self {
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        Self {
            version: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS 1.2",
            },
            cipher: suite.and_then(|suite| suite.as_str()),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Writes the parameters to a record.
    pub fn note(self, identity: &mut Identity) {
        identity.tls_version = Some(Text::from(self.version));
        identity.tls_cipher = self.cipher.map(Text::from);
        identity.tls_resumed = Some(self.is_resumed);
    }
}
