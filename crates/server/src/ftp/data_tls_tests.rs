//! Tests of TLS on a data connection over the loopback interface, with tokio-rustls as the client.

use super::*;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use std::future::poll_fn;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

const OWN_TOKEN: [u8; tickets::TOKEN_LEN] = [1; tickets::TOKEN_LEN];
const OTHER_TOKEN: [u8; tickets::TOKEN_LEN] = [2; tickets::TOKEN_LEN];

/// Configurations of a server, and of a client that remembers sessions.
struct TlsFixture {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl TlsFixture {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let CertifiedKey { cert, signing_key }: CertifiedKey<KeyPair> =
            generate_simple_self_signed(["host".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        server.ticketer = Ticketer::new().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { server: Arc::new(server), client: Arc::new(client) }
    }

    fn parameters(
        &self,
        token: [u8; tickets::TOKEN_LEN],
        requires_reuse: bool,
    ) -> DataTlsParameters {
        let configuration = Arc::clone(&self.server);
        let family = requires_reuse.then(tickets::SessionTokens::default);
        DataTlsParameters { server: None, configuration, token, family }
    }

    async fn connect(&self, parameters: &DataTlsParameters, is_incoming: bool) -> ConnectedPair {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let name = ServerName::try_from("host").unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let handshake = DataTlsStream::accept(server.into(), parameters, is_incoming);
        let (server, client) = tokio::join!(handshake, connector.connect(name, client));
        (server, client.unwrap())
    }

    /// Establishes a TLS session with token `first`, then a connection with token `then` that has
    /// to resume this TLS session.
    async fn resume(
        &self,
        first: [u8; tickets::TOKEN_LEN],
        then: [u8; tickets::TOKEN_LEN],
    ) -> io::Result<DataTlsStream> {
        let (server, mut client) = self.connect(&self.parameters(first, false), false).await;
        server.unwrap().finish().await.unwrap();
        // The tickets arrive with the end of the stream.
        client.read_to_end(&mut Vec::new()).await.unwrap();
        self.connect(&self.parameters(then, true), false).await.0
    }
}

type ConnectedPair = (io::Result<DataTlsStream>, TlsStream<TcpStream>);

async fn receive(server: &mut DataTlsStream) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    poll_fn(|context| {
        server.poll_receive(context, 4096, &mut |data| received.extend_from_slice(data))
    })
    .await?;
    Ok(received)
}

#[tokio::test]
async fn tickets_are_held_until_the_end_of_an_upload() {
    let fixture = TlsFixture::new(&TLS13);
    let (server, mut client) = fixture.connect(&fixture.parameters(OWN_TOKEN, false), true).await;
    let mut server = server.unwrap();
    client.write_all(b"file").await.unwrap();
    assert_eq!(receive(&mut server).await.unwrap(), b"file");
    client.shutdown().await.unwrap();
    assert!(receive(&mut server).await.unwrap().is_empty());
    assert!(server.holds_tickets() && !server.layer.output().is_empty());
    server.finish().await.unwrap();
    assert!(server.layer.output().is_empty());
    assert!(client.read_to_end(&mut Vec::new()).await.is_ok());
}

#[tokio::test]
async fn an_empty_file_may_end_in_the_same_read_as_the_handshake() {
    for version in [&TLS13, &TLS12] {
        let fixture = TlsFixture::new(version);
        let parameters = fixture.parameters(OWN_TOKEN, false);
        // In TLS 1.2 the client sends the last flight when it resumes a session.
        let (server, mut client) = fixture.connect(&parameters, false).await;
        server.unwrap().finish().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let name = ServerName::try_from("host").unwrap();
        let connector = TlsConnector::from(Arc::clone(&fixture.client));
        let close_immediately = async {
            let mut client = connector.connect(name, client).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let handshake = DataTlsStream::accept(server.into(), &parameters, true);
        let (server, ()) = tokio::join!(handshake, close_immediately);
        assert!(receive(&mut server.unwrap()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn tickets_are_not_held_during_a_download() {
    let fixture = TlsFixture::new(&TLS13);
    let (server, mut client) = fixture.connect(&fixture.parameters(OWN_TOKEN, false), false).await;
    let mut server = server.unwrap();
    server.send(b"file").await.unwrap();
    assert!(server.layer.output().is_empty());
    client.read_exact(&mut [0; 4]).await.unwrap();
}

#[tokio::test]
async fn the_last_flight_of_a_tls12_handshake_is_not_held() {
    let fixture = TlsFixture::new(&TLS12);
    let (server, mut client) = fixture.connect(&fixture.parameters(OWN_TOKEN, false), true).await;
    client.write_all(b"file").await.unwrap();
    assert_eq!(receive(&mut server.unwrap()).await.unwrap(), b"file");
}

#[tokio::test]
async fn a_connection_closed_without_close_notify_is_truncated() {
    let fixture = TlsFixture::new(&TLS13);
    let (server, mut client) = fixture.connect(&fixture.parameters(OWN_TOKEN, false), true).await;
    let mut server = server.unwrap();
    client.write_all(b"file").await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    assert_eq!(receive(&mut server).await.unwrap(), b"file");
    assert_eq!(receive(&mut server).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

// attack row 97
#[tokio::test]
async fn a_tls13_session_of_another_token_is_not_resumed() {
    let fixture = TlsFixture::new(&TLS13);
    let error = fixture.resume(OTHER_TOKEN, OWN_TOKEN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_tls13_session_of_the_same_token_is_resumed() {
    assert!(TlsFixture::new(&TLS13).resume(OWN_TOKEN, OWN_TOKEN).await.is_ok());
}

// attack row 97
#[tokio::test]
async fn a_tls12_session_of_another_token_is_not_resumed() {
    let fixture = TlsFixture::new(&TLS12);
    let error = fixture.resume(OTHER_TOKEN, OWN_TOKEN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_tls12_session_of_the_same_token_is_resumed() {
    assert!(TlsFixture::new(&TLS12).resume(OWN_TOKEN, OWN_TOKEN).await.is_ok());
}
