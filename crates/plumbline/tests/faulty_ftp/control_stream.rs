//! A connection of the faulty FTP server, in cleartext or TLS.

use rcgen::generate_simple_self_signed;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

const IAC: u8 = 255;

/// TLS configuration with a self-signed certificate.
pub(super) struct Certificate(Arc<ServerConfig>);

impl Certificate {
    pub(super) fn new() -> Self {
        let certificate = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key =
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()));
        let configuration = ServerConfig::builder().with_no_client_auth();
        let chain = vec![certificate.cert.der().clone()];
        Self(Arc::new(configuration.with_single_cert(chain, key).unwrap()))
    }
}

pub(super) enum ControlStream {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
    Gone,
}

impl ControlStream {
    /// Performs the TLS handshake as the server.
    pub(super) fn in_tls(self, certificate: Option<&Certificate>) -> io::Result<Self> {
        let (Self::Clear(stream), Some(Certificate(configuration))) = (self, certificate) else {
            return Ok(Self::Gone);
        };
        let connection = ServerConnection::new(Arc::clone(configuration));
        let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    pub(super) fn is_resumed(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
            _ => false,
        }
    }

    /// Reads a line and removes Telnet commands unless `is_raw`; `None` at the end of the
    /// connection.
    pub(super) fn line(&mut self, is_raw: bool) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut byte = [0];
        let mut is_command = false;
        loop {
            if self.read(&mut byte)? == 0 {
                return Ok(None);
            }
            let [byte] = byte;
            match byte {
                b'\n' => {
                    let text = line.iter().map(|&byte| char::from(byte)).collect::<String>();
                    return Ok(Some(text.trim_end().to_owned()));
                }
                IAC if !is_raw && !is_command => is_command = true,
                _ if is_command && byte != IAC => is_command = false,
                _ => {
                    line.push(byte);
                    is_command = false;
                }
            }
        }
    }

    /// Shuts down the sending direction. In TLS, sends close_notify first, if requested.
    pub(super) fn end(&mut self, sends_close_notify: bool) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(stream) => {
                if sends_close_notify {
                    stream.conn.send_close_notify();
                }
                stream.flush()?;
                stream.sock.shutdown(Shutdown::Write)
            }
            Self::Gone => Ok(()),
        }
    }

    /// Resets the connection.
    pub(super) fn reset(self) -> io::Result<()> {
        let stream = match self {
            Self::Clear(stream) => stream,
            Self::Tls(stream) => stream.into_parts().1,
            Self::Gone => return Ok(()),
        };
        let at_once = Some(std::time::Duration::ZERO);
        Ok(rustix::net::sockopt::set_socket_linger(&stream, at_once)?)
    }
}

impl Read for ControlStream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(room),
            Self::Tls(stream) => stream.read(room),
            Self::Gone => Ok(0),
        }
    }
}

impl Write for ControlStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Gone => Ok(()),
        }
    }
}
