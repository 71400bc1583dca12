//! Tests of TLS on a data connection over the loopback interface, with tokio-rustls or the buffered
//! interface of the TLS library as the peer.

use super::*;
use crate::ftp_data::{BlockingSocket, DataConnection, complete};
use carrier::TcpConnection;
use std::future::poll_fn;
use std::io::Write;
use std::thread;
use test_support::TlsFixture;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ServerConnection;
use tokio_rustls::rustls::version::{TLS12, TLS13};

type ConnectedPair = (io::Result<DataTlsStream<TcpConnection>>, TlsStream<TcpStream>);

fn connector(fixture: &TlsFixture) -> TlsConnector {
    TlsConnector::from(Arc::clone(&fixture.client))
}

async fn accept(
    fixture: &TlsFixture,
    socket: TcpStream,
    is_upload: bool,
) -> io::Result<DataTlsStream<TcpConnection>> {
    let socket = TcpConnection::from(socket);
    let mut server = DataTlsStream::server(socket, Arc::clone(&fixture.server), is_upload)?;
    server.handshake().await.map(|()| server)
}

async fn connect(fixture: &TlsFixture, is_upload: bool) -> ConnectedPair {
    let (server, client) = connected_sockets().await;
    let handshake = accept(fixture, server, is_upload);
    let client = connector(fixture).connect(TlsFixture::server_name(), client);
    let (server, client) = tokio::join!(handshake, client);
    (server, client.unwrap())
}

/// Returns the sockets of the server and of the client.
async fn connected_sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener.accept().await.unwrap().0, client)
}

async fn receive(server: &mut DataTlsStream<TcpConnection>) -> io::Result<Vec<u8>> {
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
    let (server, mut client) = connect(&fixture, true).await;
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
        // In TLS 1.2 the client sends the last flight when it resumes a session.
        let (server, mut client) = connect(&fixture, false).await;
        server.unwrap().finish().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        let (server, client) = connected_sockets().await;
        let close_immediately = async {
            let mut client =
                connector(&fixture).connect(TlsFixture::server_name(), client).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let handshake = accept(&fixture, server, true);
        let (server, ()) = tokio::join!(handshake, close_immediately);
        assert!(receive(&mut server.unwrap()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn tickets_are_not_held_during_a_download() {
    let fixture = TlsFixture::new(&TLS13);
    let (server, mut client) = connect(&fixture, false).await;
    let mut server = server.unwrap();
    server.encrypt(b"file").unwrap();
    server.flush().await.unwrap();
    assert!(server.layer.output().is_empty());
    client.read_exact(&mut [0; 4]).await.unwrap();
}

#[tokio::test]
async fn the_last_flight_of_a_tls12_handshake_is_not_held() {
    let fixture = TlsFixture::new(&TLS12);
    let (server, mut client) = connect(&fixture, true).await;
    client.write_all(b"file").await.unwrap();
    assert_eq!(receive(&mut server.unwrap()).await.unwrap(), b"file");
}

#[tokio::test]
async fn a_connection_closed_without_close_notify_is_truncated() {
    let fixture = TlsFixture::new(&TLS13);
    let (server, mut client) = connect(&fixture, true).await;
    let mut server = server.unwrap();
    client.write_all(b"file").await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    assert_eq!(receive(&mut server).await.unwrap(), b"file");
    assert_eq!(receive(&mut server).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_download_is_complete_for_a_client_that_has_ended_its_direction_first() {
    let fixture = TlsFixture::new(&TLS13);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    // The file exceeds the window, so the server's kernel holds its end when the server closes.
    socket.set_recv_buffer_size(4096).unwrap();
    let client = socket.connect(listener.local_addr().unwrap()).await.unwrap();
    let server = accept(&fixture, listener.accept().await.unwrap().0, false);
    let client = connector(&fixture).connect(TlsFixture::server_name(), client);
    let (server, client) = tokio::join!(server, client);
    let mut client = client.unwrap();
    client.shutdown().await.unwrap();
    let mut connection = DataConnection::secured(server.unwrap());
    connection.tls().unwrap().encrypt(&[7; 50_000]).unwrap();
    connection.finish_sending().await.unwrap();
    drop(connection);
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, vec![7; 50_000]);
}

/// Completes the handshake, and sends close_notify in the same write as the end of the
/// handshake.
fn serve_nothing(mut stream: std::net::TcpStream, configuration: Arc<ServerConfig>) {
    let mut connection = ServerConnection::new(configuration).unwrap();
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
fn an_empty_download_may_end_in_the_same_read_as_the_handshake() {
    let TlsFixture { server, client } = TlsFixture::new(&TLS12);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client_stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server_stream = listener.accept().unwrap().0;
    let served = thread::spawn(move || serve_nothing(server_stream, server));
    let socket = BlockingSocket::Kernel(client_stream);
    let mut tls_stream = DataTlsStream::client(socket, client, TlsFixture::server_name()).unwrap();
    complete(tls_stream.handshake()).unwrap();
    let received = poll_fn(|context| tls_stream.poll_receive(context, 4096, &mut |_| {}));
    assert_eq!(complete(received).unwrap(), 0);
    served.join().unwrap();
}
