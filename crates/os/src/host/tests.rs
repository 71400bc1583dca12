//! Tests of a host on a TUN, with and without offloads. The peers are sockets of the kernel.

use super::*;
use crate::datagram::{DatagramSocket, Inbox};
use crate::interface::Interface;
use crate::testing::{in_new_network, unwrap_ready};
use crate::tun::{Options, Tun};
use std::future::Future;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
pub(super) const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 2);

/// Opens a TUN and brings its interface up.
pub(super) fn tun(is_offloading: bool) -> Device {
    let options = Options { is_offloading, ..Options::default() };
    let tun = Tun::open_with(Some("plumb0"), options).unwrap();
    let interface = Interface::named(tun.name()).unwrap();
    interface.set_address(KERNEL, 24).unwrap();
    interface.bring_up().unwrap();
    Device::Tun(tun)
}

pub(super) fn settings() -> Settings {
    Settings { address: USERSPACE, prefix_len: 24, packets: 64, ..Settings::default() }
}

/// Runs `test` with a host whose device has offloads, and again with one without.
pub(super) fn with_hosts<F: Future<Output = ()> + 'static>(test: fn(Host) -> F) {
    for is_offloading in [true, false] {
        in_new_network(move || {
            let device = tun(is_offloading);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                test(Host::new(device, 1500, settings()).unwrap()).await;
            });
        });
    }
}

/// Returns `len` bytes in which no two aligned 32-bit words are equal.
pub(super) fn test_data(len: u32) -> Vec<u8> {
    (0..len / 4).flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()).collect()
}

#[test]
fn a_file_echoed_by_a_listener_of_the_host_is_unchanged() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        tokio::spawn(async move {
            let (mut stream, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.ip(), IpAddr::V4(KERNEL));
            let mut buffer = vec![0; 100_000];
            loop {
                match stream.read(&mut buffer).await.unwrap() {
                    0 => return stream.shutdown().await.unwrap(),
                    count => stream.write_all(&buffer[..count]).await.unwrap(),
                }
            }
        });
        let (mut from, mut to) = TcpStream::connect((USERSPACE, 7)).await.unwrap().into_split();
        let sent = test_data(5_000_000);
        let copy = sent.clone();
        tokio::spawn(async move {
            to.write_all(&copy).await.unwrap();
            to.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        from.read_to_end(&mut received).await.unwrap();
        assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    });
}

#[test]
fn a_stream_of_the_host_fetches_from_a_listener_of_the_kernel() {
    with_hosts(|host| async move {
        let listener = TcpListener::bind((KERNEL, 80)).await.unwrap();
        let page = test_data(300_000);
        let copy = page.clone();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 3];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(&request, b"GET");
            stream.write_all(&copy).await.unwrap();
        });
        let mut stream = host.connect((KERNEL, 80).into()).await.unwrap();
        stream.write_all(b"GET").await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        assert!(received == page);
        assert_eq!(stream.status().unwrap().statistics.bytes_in, 300_000);
    });
}

#[test]
fn a_port_without_a_listener_refuses_the_connection() {
    with_hosts(|host| async move {
        let error = host.connect((KERNEL, 9).into()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = TcpStream::connect((USERSPACE, 9)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_stream_that_is_dropped_with_data_unread_resets_its_peer() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        peer.write_all(b"this stays unread").await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        while stream.status().unwrap().receive_queue == 0 {
            tokio::task::yield_now().await;
        }
        drop(stream);
        let reset = peer.read_u8().await.unwrap_err();
        assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn datagrams_pass_in_both_directions() {
    with_hosts(|host| async move {
        let host_socket = host.bind(69).unwrap();
        let kernel_socket = tokio::net::UdpSocket::bind((KERNEL, 0)).await.unwrap();
        kernel_socket.send_to(b"request", (USERSPACE, 69)).await.unwrap();
        let mut buffer = [0; 100];
        let (count, from) = host_socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"request");
        host_socket.send_to(b"answer", from).await.unwrap();
        let (count, from) = kernel_socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..count], from), (&b"answer"[..], (USERSPACE, 69).into()));
    });
}

#[test]
fn datagrams_of_one_size_pass_in_both_directions_in_one_call() {
    with_hosts(|host| async move {
        let host_socket = host.bind(69).unwrap();
        let kernel_socket = DatagramSocket::bind((KERNEL, 0).into()).unwrap();
        let data = test_data(1048);
        let lens = [&[100; 10][..], &[48]].concat();
        let sent = kernel_socket.send(&data, &lens, (USERSPACE, 69).into());
        assert_eq!(unwrap_ready(sent).unwrap(), 11);
        let mut buffer = [0; 5000];
        let (count, from) = host_socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!(buffer[..count], data[..100]);
        let mut received = buffer[..count].to_vec();
        while received.len() < data.len() {
            // The buffer has space for three datagrams and a part of the fourth.
            let part = host_socket.recv_segments_from(&mut buffer[..340]).await.unwrap();
            let count = part.len.div_ceil(part.segment_size);
            assert!(part.source == from && part.segment_size <= 100 && count <= 3);
            received.extend_from_slice(&buffer[..part.len]);
        }
        assert_eq!(received, data);

        let size = NonZeroU16::new(100).unwrap();
        assert_eq!(host_socket.send_segments_to(&data, size, from).await.unwrap(), 1048);
        let mut inbox = Inbox::default();
        let mut received_datagrams = Vec::new();
        while received_datagrams.len() < 11 {
            tokio::task::yield_now().await;
            if let Poll::Ready(Ok(_)) = kernel_socket.receive(&mut inbox) {
                received_datagrams.extend(inbox.datagrams().map(|one| one.data.to_vec()));
            }
        }
        assert_eq!(received_datagrams, data.chunks(100).map(<[u8]>::to_vec).collect::<Vec<_>>());
    });
}

#[test]
fn the_device_is_released_with_the_last_handle() {
    with_hosts(|host| async move {
        let stream = host.listen(7).unwrap();
        drop(host);
        assert!(matches!(Tun::open(Some("plumb0")), Err(crate::tun::TunError::Busy(_))));
        drop(stream);
        while Tun::open(Some("plumb0")).is_err() {
            tokio::task::yield_now().await;
        }
    });
}
