//! Urgent data and resets on a kernel socket.

use net::time::Duration;
use os::clock::Monotonic;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::socket;
use rustix::net::{SendFlags, sockopt};
use std::io::Read;
use std::net::TcpStream;

/// Sends `bytes`, the last of which is urgent.
pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) {
    assert_eq!(rustix::net::send(stream, bytes, SendFlags::OOB).unwrap(), bytes.len());
}

/// Waits for urgent data, and returns the received bytes up to the urgent byte, which is the last.
pub(crate) fn receive(mut stream: &TcpStream) -> Vec<u8> {
    socket::set_urgent_inline(&stream, true).unwrap();
    let clock = Monotonic::start();
    let until = clock.now() + Duration::from_secs(10);
    let mut urgent = [PollFd::new(&stream, PollFlags::PRI)];
    let wake = wait(&mut urgent, &clock, Some(until)).unwrap();
    assert_eq!(wake, Wake::Ready(1), "no urgent data");
    let mut received = Vec::new();
    let mut byte = [0; 1];
    loop {
        let is_at_mark = socket::is_at_urgent_mark(&stream).unwrap();
        stream.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
        if is_at_mark {
            return received;
        }
    }
}

/// Resets the connection, as the kernel does when a program is killed with unread data.
pub(crate) fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}
