//! Tests that waiting tasks are woken, even if many tasks wait at once or other waiting tasks are
//! cancelled.

use super::tests::{KERNEL, USERSPACE, settings, test_data, tun, with_hosts};
use super::*;
use crate::interface::Interface;
use crate::testing::in_new_network;
use crate::tun::{Kind, Options, Tun};
use net::internet::addresses::Address;
use net::internet::slaac::Secret;
use net::link::ethernet::MacAddress;
use net::meter::Counter;
use rustix::net::SendFlags;
use std::future::{Future, poll_fn};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Time;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const USERSPACE_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0x82, 0, 0, 0, 0, 0, 2);
const KERNEL_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0x82, 0, 0, 0, 0, 0, 1);

/// Timeout of an operation; every operation that is not stuck takes less time.
const OPERATION_TIMEOUT: Time = Time::from_secs(20);

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(OPERATION_TIMEOUT, work).await.expect("no task was woken")
}

/// Echoes all data on all connections.
async fn echo_all(listener: Listener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        tokio::spawn(async move {
            let mut buffer = vec![0; 20_000];
            loop {
                match stream.read(&mut buffer).await.unwrap() {
                    0 => return stream.shutdown().await.unwrap(),
                    count => stream.write_all(&buffer[..count]).await.unwrap(),
                }
            }
        });
    }
}

/// Sends `data` on a stream and expects the same data back.
async fn expect_echo<S: AsyncReadExt + AsyncWriteExt>(stream: S, data: &[u8]) {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut received = Vec::new();
    let writing = async {
        to.write_all(data).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let (_, count) = tokio::join!(writing, from.read_to_end(&mut received));
    count.unwrap();
    assert!(received == data, "{} bytes of {}", received.len(), data.len());
}

#[test]
fn a_hundred_concurrent_connections_are_all_served() {
    with_hosts(|host| async move {
        tokio::spawn(echo_all(host.listen(7).unwrap()));
        let clients: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn(async {
                    let stream = TcpStream::connect((USERSPACE, 7)).await.unwrap();
                    expect_echo(stream, &test_data(100_000)).await;
                })
            })
            .collect();
        for client in clients {
            in_time(client).await.unwrap();
        }
    });
}

#[test]
fn a_hundred_connections_are_opened_concurrently() {
    with_hosts(|host| async move {
        let listener = TcpListener::bind((KERNEL, 7)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await.unwrap();
                });
            }
        });
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let host = host.clone();
                tokio::spawn(async move {
                    let stream = host.connect((KERNEL, 7).into()).await.unwrap();
                    expect_echo(stream, &test_data(100_000)).await;
                })
            })
            .collect();
        for client in clients {
            in_time(client).await.unwrap();
        }
    });
}

#[test]
fn urgent_data_and_a_reset_end_a_wait_of_a_task_that_does_not_read() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (stream, _) = in_time(listener.accept()).await.unwrap();
        let poll_urgent = |knows_urgent| {
            let stream = &stream;
            poll_fn(move |context| stream.poll_urgent(context, knows_urgent))
        };
        peer.write_all(b"data").await.unwrap();
        while stream.status().unwrap().receive_queue < 4 {
            tokio::task::yield_now().await;
        }
        // Data does not end the wait; the urgent data that is sent during the wait does.
        let sending = async {
            rustix::net::send(&peer, b"!", SendFlags::OOB).unwrap();
        };
        let mut waiting = pin!(poll_urgent(false));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
        let (urgent, ()) = tokio::join!(in_time(waiting), sending);
        urgent.unwrap();
        // Known urgent data does not end the wait; a reset does.
        let mut waiting = pin!(poll_urgent(true));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
        rustix::net::sockopt::set_socket_linger(&peer, Some(Time::ZERO)).unwrap();
        drop(peer);
        let error = in_time(waiting).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_reset_but_not_a_half_close_ends_a_wait_for_urgent_data() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = in_time(listener.accept()).await.unwrap();
        peer.shutdown().await.unwrap();
        assert_eq!(in_time(stream.read(&mut [0; 1])).await.unwrap(), 0);
        let mut waiting = pin!(poll_fn(|context| stream.poll_urgent(context, false)));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
        rustix::net::sockopt::set_socket_linger(&peer, Some(Time::ZERO)).unwrap();
        drop(peer);
        let error = in_time(waiting).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn several_threads_share_a_host() {
    in_new_network(|| {
        let device = tun(true);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(3).enable_all().build();
        runtime.unwrap().block_on(async {
            let host = Host::new(device, 1500, settings()).unwrap();
            tokio::spawn(echo_all(host.listen(7).unwrap()));
            let clients: Vec<_> = (0..20)
                .map(|_| {
                    tokio::spawn(async {
                        let stream = TcpStream::connect((USERSPACE, 7)).await.unwrap();
                        expect_echo(stream, &test_data(400_000)).await;
                    })
                })
                .collect();
            for client in clients {
                in_time(client).await.unwrap();
            }
        });
    });
}

#[test]
fn a_host_connects_to_itself() {
    with_hosts(|host| async move {
        tokio::spawn(echo_all(host.listen(7).unwrap()));
        let stream = in_time(host.connect((USERSPACE, 7).into())).await.unwrap();
        in_time(expect_echo(stream, &test_data(1_000_000))).await;
        // No segment was lost between the two ends of one host. If the host waits long for a
        // processor, TCP may retransmit the last segment (tail loss probe), so the number of
        // retransmissions alone does not prove a loss.
        assert_eq!(host.meter().counted(Counter::TcpOutOfOrder), 0);
    });
}

#[test]
fn streams_and_listeners_support_ipv6() {
    in_new_network(|| {
        let device = tun(true);
        let interface = Interface::named("plumb0").unwrap();
        interface.add_address6(KERNEL_V6, 64).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let host = Host::new(device, 1500, settings()).unwrap();
            let own = Address::permanent(USERSPACE_V6.into(), 64);
            host.with_layers(|layers, _| layers.internet.add_address(own)).unwrap();

            tokio::spawn(echo_all(host.listen(7).unwrap()));
            let stream = in_time(TcpStream::connect((USERSPACE_V6, 7))).await.unwrap();
            in_time(expect_echo(stream, &test_data(100_000))).await;

            let listener = TcpListener::bind((KERNEL_V6, 80)).await.unwrap();
            tokio::spawn(async move {
                let (mut stream, from) = listener.accept().await.unwrap();
                assert_eq!(from.ip(), IpAddr::V6(USERSPACE_V6));
                stream.write_all(b"page").await.unwrap();
            });
            let mut stream = in_time(host.connect((KERNEL_V6, 80).into())).await.unwrap();
            let mut page = String::new();
            in_time(stream.read_to_string(&mut page)).await.unwrap();
            assert_eq!(page, "page");

            let host_socket = host.bind(69).unwrap();
            let kernel_socket = tokio::net::UdpSocket::bind((KERNEL_V6, 0)).await.unwrap();
            kernel_socket.send_to(b"request", (USERSPACE_V6, 69)).await.unwrap();
            let (count, from) = in_time(host_socket.recv_from(&mut [0; 100])).await.unwrap();
            assert_eq!((count, from.ip()), (7, IpAddr::V6(KERNEL_V6)));
        });
    });
}

#[test]
fn a_cancelled_accept_leaves_the_connection_to_another_task() {
    with_hosts(|host| async move {
        let listener = Arc::new(host.listen(7).unwrap());
        let waiting = listener.clone();
        let first = tokio::spawn(async move { waiting.accept().await.map(|_| ()) });
        tokio::task::yield_now().await;
        let waiting = listener.clone();
        let second = tokio::spawn(async move { waiting.accept().await.map(|_| ()) });
        tokio::task::yield_now().await;
        second.abort();
        let _peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        in_time(first).await.unwrap().unwrap();
    });
}

#[test]
fn a_cancelled_receive_leaves_the_datagram_to_another_task() {
    with_hosts(|host| async move {
        let socket = Arc::new(host.bind(69).unwrap());
        let waiting = socket.clone();
        let first = tokio::spawn(async move { waiting.recv_from(&mut [0; 9]).await.map(|_| ()) });
        tokio::task::yield_now().await;
        let waiting = socket.clone();
        let second = tokio::spawn(async move { waiting.recv_from(&mut [0; 9]).await.map(|_| ()) });
        tokio::task::yield_now().await;
        second.abort();
        let kernel_socket = tokio::net::UdpSocket::bind((KERNEL, 0)).await.unwrap();
        kernel_socket.send_to(b"request", (USERSPACE, 69)).await.unwrap();
        in_time(first).await.unwrap().unwrap();
    });
}

#[test]
fn a_cancelled_connect_leaves_no_connection() {
    with_hosts(|host| async move {
        // No host has this address, and the kernel does not forward.
        let unreachable = SocketAddr::from(([10, 82, 0, 77], 80));
        let cancelled = timeout(Time::from_millis(5), host.connect(unreachable)).await;
        assert!(cancelled.is_err());
        assert_eq!(host.with_layers(|layers, _| layers.tcp.connections()), 0);
    });
}

#[test]
fn unread_datagrams_leave_packets_for_others() {
    with_hosts(|host| async move {
        let _unread: Vec<_> = (100..120).map(|port| host.bind(port).unwrap()).collect();
        let kernel_socket = tokio::net::UdpSocket::bind((KERNEL, 0)).await.unwrap();
        for port in 100..120 {
            for _ in 0..8 {
                kernel_socket.send_to(b"this stays unread", (USERSPACE, port)).await.unwrap();
            }
        }
        tokio::spawn(echo_all(host.listen(7).unwrap()));
        let stream = in_time(TcpStream::connect((USERSPACE, 7))).await.unwrap();
        in_time(expect_echo(stream, &test_data(1_000_000))).await;
    });
}

#[test]
fn an_unread_stream_does_not_block_the_others() {
    with_hosts(|host| async move {
        let silent = host.listen(9).unwrap();
        let mut clients = Vec::new();
        let mut unread = Vec::new();
        for _ in 0..20 {
            let client = TcpStream::connect((USERSPACE, 9)).await.unwrap();
            unread.push(in_time(silent.accept()).await.unwrap());
            // Fill the buffers of both ends.
            while client.try_write(&[7; 60_000]).is_ok() {
                tokio::task::yield_now().await;
            }
            clients.push(client);
        }
        tokio::spawn(echo_all(host.listen(7).unwrap()));
        let stream = in_time(TcpStream::connect((USERSPACE, 7))).await.unwrap();
        in_time(expect_echo(stream, &test_data(1_000_000))).await;
    });
}

#[test]
fn a_task_that_always_finds_data_lets_the_others_run() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        peer.write_all(&[7; 10_000]).await.unwrap();
        while stream.status().unwrap().receive_queue < 10_000 {
            tokio::task::yield_now().await;
        }
        let has_run = Arc::new(AtomicBool::new(false));
        let other = has_run.clone();
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        for _ in 0..5_000 {
            stream.read_u8().await.unwrap();
        }
        assert!(has_run.load(Ordering::Relaxed));
    });
}

#[test]
fn reading_continues_after_the_local_side_is_closed() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"question").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut question = String::new();
        in_time(peer.read_to_string(&mut question)).await.unwrap();
        assert_eq!(question, "question");
        let response = test_data(3_000_000);
        let copy = response.clone();
        let mut received = Vec::new();
        tokio::spawn(async move {
            peer.write_all(&copy).await.unwrap();
        });
        in_time(stream.read_to_end(&mut received)).await.unwrap();
        assert!(received == response);
        let error = stream.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn writing_waits_for_a_peer_that_reads_slowly() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let sent = test_data(20_000_000);
        let copy = sent.clone();
        let writing = tokio::spawn(async move {
            stream.write_all(&copy).await.unwrap();
            stream
        });
        let first = timeout(Time::from_millis(200), async {
            while !writing.is_finished() {
                tokio::task::yield_now().await;
            }
        });
        assert!(first.await.is_err(), "20 MB went nowhere");
        let mut received = vec![0; sent.len()];
        in_time(peer.read_exact(&mut received)).await.unwrap();
        assert!(received == sent);
        drop(in_time(writing).await.unwrap());
    });
}

#[test]
fn data_written_to_a_dropped_stream_still_arrives() {
    with_hosts(|host| async move {
        let listener = host.listen(7).unwrap();
        let mut peer = TcpStream::connect((USERSPACE, 7)).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let sent = test_data(50_000);
        stream.write_all(&sent).await.unwrap();
        drop(stream);
        let mut received = Vec::new();
        in_time(peer.read_to_end(&mut received)).await.unwrap();
        assert!(received == sent);
    });
}

#[test]
fn no_data_is_lost_if_a_program_exits_after_draining_its_host() {
    with_hosts(|host| async move {
        let listener = TcpListener::bind((KERNEL, 80)).await.unwrap();
        let mut stream = host.connect((KERNEL, 80).into()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let sent = test_data(400_000);
        let reading = tokio::spawn(async move {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).await.unwrap();
            received
        });
        in_time(stream.write_all(&sent)).await.unwrap();
        drop(stream);
        in_time(host.drained()).await.unwrap();
        drop(host);
        assert!(in_time(reading).await.unwrap() == sent);
    });
}

#[test]
fn a_vectored_write_is_sent_in_one_segment() {
    with_hosts(|host| async move {
        let listener = TcpListener::bind((KERNEL, 80)).await.unwrap();
        let mut stream = host.connect((KERNEL, 80).into()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let parts = [b"one ", b"two "].map(|part| io::IoSlice::new(part));
        assert!(AsyncWrite::is_write_vectored(&stream));
        assert_eq!(stream.write_vectored(&parts).await.unwrap(), 8);
        let mut received = [0; 8];
        in_time(peer.read_exact(&mut received)).await.unwrap();
        assert_eq!(&received, b"one two ");
    });
}

#[test]
fn datagrams_wait_for_room() {
    with_hosts(|host| async move {
        let host_socket = host.bind(69).unwrap();
        let kernel_socket = tokio::net::UdpSocket::bind((KERNEL, 0)).await.unwrap();
        let destination = kernel_socket.local_addr().unwrap();
        for number in 0..200_u16 {
            in_time(host_socket.send_to(&number.to_be_bytes(), destination)).await.unwrap();
            let mut received = [0; 2];
            in_time(kernel_socket.recv_from(&mut received)).await.unwrap();
            assert_eq!(u16::from_be_bytes(received), number);
        }
    });
}

#[test]
fn a_host_on_an_ethernet_segment_waits_for_its_address() {
    in_new_network(|| {
        let options = Options { kind: Kind::Tap, ..Options::default() };
        let tap = Tun::open_with(Some("plumb0"), options).unwrap();
        let interface = Interface::named("plumb0").unwrap();
        interface.set_address(KERNEL, 24).unwrap();
        interface.bring_up().unwrap();
        let segment = ethernet::Settings {
            mac: MacAddress::new([2, 0, 0, 0, 0, 7]),
            ipv4: ethernet::Ipv4::Static { address: USERSPACE, prefix_len: 24, router: None },
            ipv6: ethernet::Ipv6::LinkLocal,
            secret: Secret([1, 2]),
            host_name: Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let device = Device::Tun(tap);
            let host = Host::on_segment(device, 1500, settings(), segment).unwrap();
            in_time(host.addressed(KERNEL.into())).await.unwrap();
            tokio::spawn(echo_all(host.listen(7).unwrap()));
            let stream = in_time(TcpStream::connect((USERSPACE, 7))).await.unwrap();
            in_time(expect_echo(stream, &test_data(300_000))).await;
        });
    });
}

#[test]
fn a_device_of_frames_is_no_device_of_datagrams() {
    in_new_network(|| {
        let options = Options { kind: Kind::Tap, ..Options::default() };
        let tap = Tun::open_with(Some("plumb0"), options).unwrap();
        let error = Host::new(Device::Tun(tap), 1500, settings()).unwrap_err();
        assert!(error.to_string().contains("Host::on_segment"), "{error}");
    });
}
