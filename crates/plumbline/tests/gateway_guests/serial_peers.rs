//! lwIP, a TCP/IP for embedded systems, as a guest at a serial line with its own SLIP and PPP.

use super::gateway_harness::{Gateway, HOST, accept, command, in_host_network, listen, test_data};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;
use test_support::{ProgramLog, peers};

const LEN: usize = 60_000;
const LINE_TIMEOUT: Duration = Duration::from_secs(120);

/// A running host with lwIP, which is killed at the end.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        // Fails if the host has ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Sends data to a host with lwIP at a line with this link, and receives the same data from it.
fn exchange(link: &str) {
    in_host_network(|| {
        let (listener, address) = listen(HOST);
        let mut host = peers::LWIP_SERIAL.command();
        let protocol = if link == "ppp" { "ppp" } else { "slip" };
        host.args([protocol, &HOST.to_string(), &address.port().to_string()]);
        host.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut host = Host(host.spawn().unwrap());
        let device = ProgramLog::read(host.0.stdout.take().unwrap()).wait_for("/dev/pts/");
        let guest = format!("serial:{device}?baud=460800&link={link}");
        let _gateway = Gateway::start_command(command(&guest, &["--allow", "10.99.0.0/16"]));
        let (mut stream, _) = accept(&listener);
        stream.set_read_timeout(Some(LINE_TIMEOUT)).unwrap();
        let sent = test_data(LEN, 1);
        let mut writer = stream.try_clone().unwrap();
        let copy = sent.clone();
        let writing = thread::spawn(move || writer.write_all(&copy).unwrap());
        let mut received = vec![0; LEN];
        stream.read_exact(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent);
        drop(stream);
        assert!(host.0.wait().unwrap().success());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and lwip-serial of this directory"]
fn lwip_exchanges_data_by_slip() {
    if super::is_long_run() {
        exchange("slip");
    }
}

#[test]
#[ignore = "needs root or a user namespace, and lwip-serial of this directory"]
fn lwip_exchanges_data_by_ppp() {
    if super::is_long_run() {
        exchange("ppp");
    }
}
