//! Tests of TLS on a data connection over the loopback interface, with tokio-rustls as the client.

use super::*;
use test_support::TlsFixture;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::version::{TLS12, TLS13};

const OWN_TOKEN: [u8; tickets::TOKEN_LEN] = [1; tickets::TOKEN_LEN];
const OTHER_TOKEN: [u8; tickets::TOKEN_LEN] = [2; tickets::TOKEN_LEN];

fn parameters(
    fixture: &TlsFixture,
    token: [u8; tickets::TOKEN_LEN],
    requires_reuse: bool,
) -> DataTlsParameters {
    let configuration = Arc::clone(&fixture.server);
    let family = requires_reuse.then(tickets::SessionTokens::default);
    DataTlsParameters { configuration, token, family }
}

async fn connect(
    fixture: &TlsFixture,
    parameters: &DataTlsParameters,
    is_incoming: bool,
) -> ConnectedPair {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let name = TlsFixture::server_name();
    let connector = TlsConnector::from(Arc::clone(&fixture.client));
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
    fixture: &TlsFixture,
    first: [u8; tickets::TOKEN_LEN],
    then: [u8; tickets::TOKEN_LEN],
) -> io::Result<DataTlsStream<TcpConnection>> {
    let (server, mut client) = connect(fixture, &parameters(fixture, first, false), false).await;
    server.unwrap().finish().await.unwrap();
    // The tickets arrive with the end of the stream.
    client.read_to_end(&mut Vec::new()).await.unwrap();
    connect(fixture, &parameters(fixture, then, true), false).await.0
}

type ConnectedPair = (io::Result<DataTlsStream<TcpConnection>>, TlsStream<TcpStream>);

// attack row 97
#[tokio::test]
async fn a_tls13_session_of_another_token_is_not_resumed() {
    let fixture = TlsFixture::new(&TLS13);
    let error = resume(&fixture, OTHER_TOKEN, OWN_TOKEN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_tls13_session_of_the_same_token_is_resumed() {
    assert!(resume(&TlsFixture::new(&TLS13), OWN_TOKEN, OWN_TOKEN).await.is_ok());
}

// attack row 97
#[tokio::test]
async fn a_tls12_session_of_another_token_is_not_resumed() {
    let fixture = TlsFixture::new(&TLS12);
    let error = resume(&fixture, OTHER_TOKEN, OWN_TOKEN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_tls12_session_of_the_same_token_is_resumed() {
    assert!(resume(&TlsFixture::new(&TLS12), OWN_TOKEN, OWN_TOKEN).await.is_ok());
}
