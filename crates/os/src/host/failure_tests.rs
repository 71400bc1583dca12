//! Tests of the errors that a program gets, for example when its device, its runtime or a peer is
//! gone.

use super::tests::{KERNEL, USERSPACE, settings, tun, with_hosts};
use super::*;
use crate::testing::in_new_network;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration as Time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const OPERATION_TIMEOUT: Time = Time::from_secs(20);

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(OPERATION_TIMEOUT, work).await.expect("no task was woken")
}

/// Runs the iproute2 command `ip` in the network namespace of this thread.
fn ip(arguments: &str) {
    test_support::ip(&arguments.split(' ').collect::<Vec<_>>());
}

#[test]
fn all_tasks_get_an_error_when_the_interface_is_removed() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let socket = host.bind(69).unwrap();
        let _peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let reading = tokio::spawn(async move { stream.read_u8().await });
        let receiving = tokio::spawn(async move { socket.recv_from(&mut [0; 9]).await });
        let accepting = tokio::spawn(async move { listener.accept().await });
        tokio::task::yield_now().await;
        ip("link delete plumb0");
        let error = in_time(reading).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("device has failed"), "{error}");
        in_time(receiving).await.unwrap().unwrap_err();
        in_time(accepting).await.unwrap().unwrap_err();
        host.connect((KERNEL, 80).into()).await.unwrap_err();
        host.listen(8).unwrap_err();
        host.bind(70).unwrap_err();
    });
}

#[test]
fn an_idle_host_gets_an_error_when_the_interface_is_removed() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let accepting = tokio::spawn(async move { listener.accept().await });
        // Wait until the host has read the packets that the kernel sent when the interface came up.
        let _peer = in_time(TcpStream::connect((USERSPACE, 8))).await.unwrap_err();
        tokio::task::yield_now().await;
        ip("link delete plumb0");
        in_time(accepting).await.unwrap().unwrap_err();
    });
}

#[test]
fn connecting_over_an_interface_that_is_down_reports_it() {
    with_hosts(|host| async move {
        ip("link set plumb0 down");
        let error = in_time(host.connect((KERNEL, 80).into())).await.unwrap_err();
        assert!(error.to_string().contains("is its interface up?"), "{error}");
    });
}

#[test]
fn an_address_of_a_family_without_a_local_address_is_unreachable() {
    with_hosts(|host| async move {
        let remote = SocketAddr::from(([0xFD00, 0, 0, 0, 0, 0, 0, 1], 80));
        let error = in_time(host.connect(remote)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NetworkUnreachable);
    });
}

#[test]
fn port_0_is_a_free_port() {
    with_hosts(|host| async move {
        let listener = host.listen(0).unwrap();
        assert_ne!(listener.port(), 0);
        let accepting =
            tokio::spawn(async move { listener.accept().await.map(|_| listener.port()) });
        tokio::task::yield_now().await;
        let ours = host.listen(7).unwrap();
        drop(ours);
        accepting.abort();
    });
}

#[test]
fn streams_that_outlive_the_runtime_of_their_host_get_an_error() {
    in_new_network(|| {
        let device = tun(true);
        let build = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let runtime = build();
        let host = runtime.block_on(async { Host::new(device, 1500, settings()).unwrap() });
        let listener = host.listen(7).unwrap();
        drop(runtime);
        let error = build().block_on(in_time(listener.accept())).unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
    });
}

#[test]
fn a_stream_to_a_vanished_peer_is_reset() {
    with_hosts(|host| async move {
        let listener = TcpListener::bind((KERNEL, 80)).await.unwrap();
        let mut stream = host.connect((KERNEL, 80).into()).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        stream.write_all(b"this stays unread").await.unwrap();
        in_time(peer.readable()).await.unwrap();
        drop(peer);
        let error = in_time(stream.read_u8()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let error = in_time(stream.write_u8(0)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        stream.shutdown().await.unwrap();
    });
}

#[test]
fn a_connection_reset_before_accept_reports_the_reset() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        peer.set_zero_linger().unwrap();
        drop(peer);
        while host.with_layers(|layers, _| layers.tcp.connections()) > 0 {
            tokio::task::yield_now().await;
        }
        let (mut stream, _) = in_time(listener.accept()).await.unwrap();
        let error = in_time(stream.read_u8()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_dropped_listener_closes_unaccepted_connections() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        drop(listener);
        let mut rest = Vec::new();
        _ = in_time(peer.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
        let error = TcpStream::connect((USERSPACE, 7)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
}
