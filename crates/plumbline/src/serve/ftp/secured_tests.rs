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

const OURS: [u8; tickets::TOKEN_LEN] = [1; tickets::TOKEN_LEN];
const ANOTHER: [u8; tickets::TOKEN_LEN] = [2; tickets::TOKEN_LEN];

/// Configurations of a server, and of a client that remembers sessions.
struct Desk {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Desk {
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

    fn security(&self, token: [u8; tickets::TOKEN_LEN], requires_reuse: bool) -> Security {
        let configuration = Arc::clone(&self.server);
        let family = requires_reuse.then(tickets::Family::default);
        Security { server: None, configuration, token, family }
    }

    async fn meet(&self, security: &Security, is_incoming: bool) -> Meeting {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let name = ServerName::try_from("host").unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let accepted = Secured::accept(near.into(), security, is_incoming);
        let (near, far) = tokio::join!(accepted, connector.connect(name, far));
        (near, far.unwrap())
    }

    /// Makes a session with token `first`, then one with token `then` that has to resume it.
    async fn meet_again(
        &self,
        first: [u8; tickets::TOKEN_LEN],
        then: [u8; tickets::TOKEN_LEN],
    ) -> io::Result<Secured> {
        let (near, mut far) = self.meet(&self.security(first, false), false).await;
        near.unwrap().finish().await.unwrap();
        // The tickets arrive with the end.
        far.read_to_end(&mut Vec::new()).await.unwrap();
        self.meet(&self.security(then, true), false).await.0
    }
}

type Meeting = (io::Result<Secured>, TlsStream<TcpStream>);

async fn receive(near: &mut Secured) -> io::Result<Vec<u8>> {
    let mut heard = Vec::new();
    poll_fn(|context| near.poll_receive(context, 4096, &mut |data| heard.extend_from_slice(data)))
        .await?;
    Ok(heard)
}

#[tokio::test]
async fn tickets_wait_for_the_end_of_a_file_that_comes_in() {
    let desk = Desk::new(&TLS13);
    let (near, mut far) = desk.meet(&desk.security(OURS, false), true).await;
    let mut near = near.unwrap();
    far.write_all(b"file").await.unwrap();
    assert_eq!(receive(&mut near).await.unwrap(), b"file");
    far.shutdown().await.unwrap();
    assert!(receive(&mut near).await.unwrap().is_empty());
    assert!(near.holds_tickets() && !near.layer.output().is_empty());
    near.finish().await.unwrap();
    assert!(near.layer.output().is_empty());
    assert!(far.read_to_end(&mut Vec::new()).await.is_ok());
}

#[tokio::test]
async fn an_empty_file_may_end_in_the_same_read_as_the_handshake() {
    for version in [&TLS13, &TLS12] {
        let desk = Desk::new(version);
        let security = desk.security(OURS, false);
        // In TLS 1.2 the client sends the last flight when it resumes a session.
        let (near, mut far) = desk.meet(&security, false).await;
        near.unwrap().finish().await.unwrap();
        far.read_to_end(&mut Vec::new()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let name = ServerName::try_from("host").unwrap();
        let connector = TlsConnector::from(Arc::clone(&desk.client));
        let ends_at_once = async {
            let mut far = connector.connect(name, far).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let accepted = Secured::accept(near.into(), &security, true);
        let (near, ()) = tokio::join!(accepted, ends_at_once);
        assert!(receive(&mut near.unwrap()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn tickets_do_not_wait_where_a_file_goes_out() {
    let desk = Desk::new(&TLS13);
    let (near, mut far) = desk.meet(&desk.security(OURS, false), false).await;
    let mut near = near.unwrap();
    near.send(b"file").await.unwrap();
    assert!(near.layer.output().is_empty());
    far.read_exact(&mut [0; 4]).await.unwrap();
}

#[tokio::test]
async fn the_last_flight_of_an_older_handshake_does_not_wait() {
    let desk = Desk::new(&TLS12);
    let (near, mut far) = desk.meet(&desk.security(OURS, false), true).await;
    far.write_all(b"file").await.unwrap();
    assert_eq!(receive(&mut near.unwrap()).await.unwrap(), b"file");
}

#[tokio::test]
async fn a_connection_that_ends_without_saying_so_in_tls_has_no_end_of_file() {
    let desk = Desk::new(&TLS13);
    let (near, mut far) = desk.meet(&desk.security(OURS, false), true).await;
    let mut near = near.unwrap();
    far.write_all(b"file").await.unwrap();
    far.get_mut().0.shutdown().await.unwrap();
    assert_eq!(receive(&mut near).await.unwrap(), b"file");
    assert_eq!(receive(&mut near).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

// attack row 97
#[tokio::test]
async fn a_session_that_is_not_of_this_token_is_not_taken_up() {
    let desk = Desk::new(&TLS13);
    let refused = desk.meet_again(ANOTHER, OURS).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_session_of_this_token_is_taken_up() {
    assert!(Desk::new(&TLS13).meet_again(OURS, OURS).await.is_ok());
}

// attack row 97
#[tokio::test]
async fn an_older_session_that_is_not_of_this_token_is_not_taken_up() {
    let desk = Desk::new(&TLS12);
    let refused = desk.meet_again(ANOTHER, OURS).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn an_older_session_of_this_token_is_taken_up() {
    assert!(Desk::new(&TLS12).meet_again(OURS, OURS).await.is_ok());
}
