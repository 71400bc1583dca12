//! Tests of TLS on a data connection over the loopback interface, with tokio-rustls as the client.

use super::*;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
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
        DataTlsParameters { configuration, token, family }
    }

    async fn connect(&self, parameters: &DataTlsParameters, is_incoming: bool) -> ConnectedPair {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let name = ServerName::try_from("host").unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let handshake = async {
            let mut server = parameters.tls_stream(TcpConnection::from(server), is_incoming)?;
            server.handshake().await?;
            parameters.check_resumed(&server).map(|()| server)
        };
        let (server, client) = tokio::join!(handshake, connector.connect(name, client));
        (server, client.unwrap())
    }

    /// Establishes a TLS session with token `first`, then a connection with token `then` that has
    /// to resume this TLS session.
    async fn resume(
        &self,
        first: [u8; tickets::TOKEN_LEN],
        then: [u8; tickets::TOKEN_LEN],
    ) -> io::Result<DataTlsStream<TcpConnection>> {
        let (server, mut client) = self.connect(&self.parameters(first, false), false).await;
        server.unwrap().finish().await.unwrap();
        // The tickets arrive with the end of the stream.
        client.read_to_end(&mut Vec::new()).await.unwrap();
        self.connect(&self.parameters(then, true), false).await.0
    }
}

type ConnectedPair = (io::Result<DataTlsStream<TcpConnection>>, TlsStream<TcpStream>);

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
