//! TLS on a data connection, in the thread that moves the data.

use super::link::Plain;
use crate::carry::{RecordLayer, Saying, Turn};
use crate::transfer_recorder::DataTls;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// A data connection in TLS.
#[derive(Debug)]
pub(super) struct Secured {
    layer: RecordLayer,
    stream: Plain,
    /// Data received together with the end of the handshake.
    early: Vec<u8>,
}

impl Secured {
    pub(super) fn new(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Plain,
    ) -> io::Result<Self> {
        let layer = RecordLayer::client(configuration, name)?;
        Ok(Self { layer, stream, early: Vec::new() })
    }

    /// Performs the handshake, and returns the agreed parameters.
    pub(super) fn begin(&mut self) -> io::Result<DataTls> {
        let mut early = Vec::new();
        let mut keep = |bytes: &[u8]| early.extend_from_slice(bytes);
        while self.layer.is_handshaking() {
            match self.turn(Saying::Nothing, &mut keep)? {
                Turn::NeedsInput | Turn::Open if self.layer.is_handshaking() => self.read(0)?,
                Turn::Ended if self.layer.is_handshaking() => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The last flight of the handshake may contain data or, for an empty file, the end.
                Turn::Again | Turn::NeedsInput | Turn::Open | Turn::Ended => {}
            }
        }
        // Sends the end of the handshake now, since application data may follow much later.
        while self.turn(Saying::Nothing, &mut keep)? == Turn::Again {}
        self.flush()?;
        self.early = early;
        Ok(DataTls::of(self.layer.agreed()))
    }

    /// Returns the time spent on encryption and decryption.
    pub(super) fn spent(&self) -> Duration {
        self.layer.spent()
    }

    /// Returns the underlying connection.
    pub(super) const fn plain(&self) -> &Plain {
        &self.stream
    }

    /// Waits for data, passes it to `each` in pieces, and returns the number of bytes; 0 at the
    /// end. For this, reads at most `at_most` bytes of the connection, or a record.
    ///
    /// # Errors
    ///
    /// Returns an error of TLS or of the connection; [`ErrorKind::UnexpectedEof`] if the stream
    /// ends without close_notify.
    pub(super) fn receive(
        &mut self,
        at_most: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let early = std::mem::take(&mut self.early);
        let mut count = early.len();
        if count > 0 {
            each(&early);
        }
        while !self.layer.has_ended() {
            let turn = self.turn(Saying::Nothing, &mut |bytes| {
                count += bytes.len();
                each(bytes);
            })?;
            match turn {
                Turn::Again => {}
                Turn::NeedsInput | Turn::Open if count == 0 => self.read(at_most)?,
                Turn::NeedsInput | Turn::Open | Turn::Ended => break,
            }
        }
        Ok(count)
    }

    /// Sends all of `bytes`.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.say(Saying::Data(bytes))
    }

    /// Sends close_notify.
    pub(super) fn send_end(&mut self) -> io::Result<()> {
        self.say(Saying::End)
    }

    /// Shuts down the sending direction of the underlying connection.
    pub(super) fn shut_down(&mut self) -> io::Result<()> {
        self.stream.shut_down()
    }

    fn say(&mut self, saying: Saying<'_>) -> io::Result<()> {
        loop {
            match self.turn(saying, &mut |_| {})? {
                Turn::Open => return self.flush(),
                // The peer may have ended its direction, and still receive.
                Turn::Again | Turn::Ended => {}
                Turn::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    fn turn(&mut self, saying: Saying<'_>, each: &mut dyn FnMut(&[u8])) -> io::Result<Turn> {
        self.layer.turn(saying, each).inspect_err(|_| {
            // An alert goes out if possible. A peer that has closed does not need it.
            _ = self.stream.write_all(self.layer.output());
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = self.layer.output();
        let len = output.len();
        self.stream.write_all(output)?;
        self.layer.sent(len);
        Ok(())
    }

    /// Sends pending output, then reads at least one byte of the connection.
    fn read(&mut self, at_most: usize) -> io::Result<()> {
        self.flush()?;
        loop {
            match self.stream.read(self.layer.room(at_most)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.layer.filled(count);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::version::TLS12;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection};

    /// Completes the handshake and ends in one write.
    fn serve_nothing(mut stream: TcpStream, configuration: ServerConfig) {
        let mut connection = ServerConnection::new(Arc::new(configuration)).unwrap();
        while connection.is_handshaking() {
            if connection.wants_read() && !connection.wants_write() {
                connection.read_tls(&mut stream).unwrap();
                connection.process_new_packets().unwrap();
            }
            if !connection.is_handshaking() {
                connection.send_close_notify();
            }
            let mut flight = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut flight).unwrap();
            }
            stream.write_all(&flight).unwrap();
        }
    }

    #[test]
    fn an_empty_file_may_end_in_the_same_read_as_the_handshake() {
        let CertifiedKey { cert, signing_key }: CertifiedKey<KeyPair> =
            generate_simple_self_signed(["host".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let served = thread::spawn(move || serve_nothing(far, server));
        let name = ServerName::try_from("host").unwrap();
        let mut near = Secured::new(Arc::new(client), name, Plain::Kernel(near)).unwrap();
        near.begin().unwrap();
        assert_eq!(near.receive(4096, |_| {}).unwrap(), 0);
        served.join().unwrap();
    }
}
