//! TLS on a data connection, in the thread that moves the data.

use super::blocking_socket::BlockingSocket;
use crate::recorder::DataTls;
use carrier::{Progress, RecordLayer, TlsWrite};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// A data connection in TLS.
#[derive(Debug)]
pub(super) struct Secured {
    layer: RecordLayer,
    stream: BlockingSocket,
    /// Decrypted data received together with the end of the handshake.
    early: Vec<u8>,
}

impl Secured {
    pub(super) fn new(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: BlockingSocket,
    ) -> io::Result<Self> {
        let layer = RecordLayer::client(configuration, name)?;
        Ok(Self { layer, stream, early: Vec::new() })
    }

    /// Performs the handshake, and returns the agreed parameters.
    pub(super) fn begin(&mut self) -> io::Result<DataTls> {
        let mut early = Vec::new();
        let mut store_early = |bytes: &[u8]| early.extend_from_slice(bytes);
        while self.layer.is_handshaking() {
            match self.process(TlsWrite::Nothing, &mut store_early)? {
                Progress::NeedsInput | Progress::Done if self.layer.is_handshaking() => {
                    self.read(0)?;
                }
                Progress::PeerClosed if self.layer.is_handshaking() => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The last flight of the handshake may contain data or, for an empty file, the end.
                Progress::Again | Progress::NeedsInput | Progress::Done | Progress::PeerClosed => {}
            }
        }
        // Sends the end of the handshake now, since application data may follow much later.
        while self.process(TlsWrite::Nothing, &mut store_early)? == Progress::Again {}
        self.flush()?;
        self.early = early;
        Ok(DataTls::of(self.layer.negotiated_state()))
    }

    /// Returns the time spent on encryption and decryption.
    pub(super) fn crypto_time(&self) -> Duration {
        self.layer.library_time()
    }

    /// Returns the underlying connection.
    pub(super) const fn tcp(&self) -> &BlockingSocket {
        &self.stream
    }

    /// Waits for data, passes the data to `each` in pieces, and returns the number of bytes; 0 at
    /// the end of the stream. A single read of the connection is limited to `at_most` bytes or the
    /// maximum length of a record, whichever is larger.
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
            let progress = self.process(TlsWrite::Nothing, &mut |bytes| {
                count += bytes.len();
                each(bytes);
            })?;
            match progress {
                Progress::Again => {}
                Progress::NeedsInput | Progress::Done if count == 0 => self.read(at_most)?,
                Progress::NeedsInput | Progress::Done | Progress::PeerClosed => break,
            }
        }
        Ok(count)
    }

    /// Sends all of `bytes`.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_record(TlsWrite::Data(bytes))
    }

    /// Sends close_notify.
    pub(super) fn send_end(&mut self) -> io::Result<()> {
        self.send_record(TlsWrite::CloseNotify)
    }

    /// Shuts down the sending direction of the underlying connection.
    pub(super) fn shut_down(&mut self) -> io::Result<()> {
        self.stream.shut_down()
    }

    fn send_record(&mut self, write: TlsWrite<'_>) -> io::Result<()> {
        loop {
            match self.process(write, &mut |_| {})? {
                Progress::Done => return self.flush(),
                // A peer that has ended its sending direction may still receive data.
                Progress::Again | Progress::PeerClosed => {}
                Progress::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    fn process(
        &mut self,
        write: TlsWrite<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Progress> {
        self.layer.process(write, each).inspect_err(|_| {
            // Ignored: the alert is sent if possible. A peer that has closed the connection needs
            // no alert.
            _ = self.stream.write_all(self.layer.output());
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = self.layer.output();
        let len = output.len();
        self.stream.write_all(output)?;
        self.layer.mark_sent(len);
        Ok(())
    }

    /// Sends pending output, then reads at least one byte of the connection.
    fn read(&mut self, at_most: usize) -> io::Result<()> {
        self.flush()?;
        loop {
            match self.stream.read(self.layer.room(at_most)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.layer.mark_received(count);
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

    /// Completes the handshake, and sends close_notify in the same write as the end of the
    /// handshake.
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
        let client_stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server_stream = listener.accept().unwrap().0;
        let served = thread::spawn(move || serve_nothing(server_stream, server));
        let name = ServerName::try_from("host").unwrap();
        let mut secured =
            Secured::new(Arc::new(client), name, BlockingSocket::Kernel(client_stream)).unwrap();
        secured.begin().unwrap();
        assert_eq!(secured.receive(4096, |_| {}).unwrap(), 0);
        served.join().unwrap();
    }
}
