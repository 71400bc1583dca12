//! Tests of a station on an Ethernet segment, with the kernel and Debian's servers as its peers.
//!
//! Each test has its own network namespace with a TAP: the kernel has 10.0.0.1 on one end, and the
//! station is on the other end. The station runs in the test's thread until the expected event, for
//! at most thirty seconds; DHCP and Duplicate Address Detection take several seconds.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
#[path = "login_harness/names.rs"]
mod names;

use names::Names;
use net::application::{Stream, dhcp};
use net::internet::slaac::Secret;
use net::link::ethernet::MacAddress;
use net::link::{Ethernet, Link};
use net::meter::{Clock, Counter, Meter};
use net::rng::Rng;
use net::station::ethernet::{Ipv4, Ipv6, Settings};
use net::station::{Application, Opening, Scheduler, Station, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::Profile;
use net::{Cx, station};
use os::clock::Monotonic;
use os::interface::Interface;
use os::process::Program;
use os::readiness::{PollFd, PollFlags, wait};
use os::tun::{Kind, Options, Tun};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::task::Poll;
use std::thread;
use test_support::peers;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 7, 0, 0, 0, 0, 1);
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const PORT: u16 = 7;
const RUN_TIMEOUT: Duration = Duration::from_secs(30);
const TAP: &str = "plumb0";

/// Sends `outgoing`, records received data, and echoes it if `echoes` is set.
#[derive(Debug, Default)]
struct TestApplication {
    outgoing: Vec<u8>,
    received: Vec<u8>,
    echoes: bool,
    /// Number of received bytes after which the application closes its connection. The application
    /// also closes the connection after the peer has closed it.
    close_after_bytes: usize,
    has_closed: bool,
}

impl Stream for TestApplication {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
        if self.echoes {
            self.outgoing.extend_from_slice(data);
        }
        self.has_closed |=
            self.close_after_bytes > 0 && self.received.len() >= self.close_after_bytes;
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.outgoing
    }

    fn sent(&mut self, count: usize) {
        self.outgoing.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.has_closed && self.outgoing.is_empty()
    }
}

/// A station on the TAP.
struct Host {
    tap: Tun,
    station: Station,
    scheduler: Scheduler,
    application: TcpStreamApp<TestApplication>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
}

impl Host {
    fn new(ipv4: Ipv4, ipv6: Ipv6, application_state: TestApplication, opening: Opening) -> Self {
        let options = Options { kind: Kind::Tap, ..Options::default() };
        let tap = Tun::open_with(Some(TAP), options).unwrap();
        let interface = Interface::named(TAP).unwrap();
        interface.bring_up().unwrap();
        let mut rng = Rng::from_seed(1);
        let mut meter = Meter::new(Clock::None);
        let clock = Monotonic::start();
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        let link = Link::Ethernet(Ethernet::new(1500));
        let mut station = Station::new(link, station::Settings::default(), &mut cx);
        let secret = Secret([1, 2]);
        let host_name = b"plumb".to_vec();
        let settings = Settings { mac: MAC, ipv4, ipv6, secret, host_name };
        station.join_segment(settings, &mut cx);
        let application = TcpStreamApp::new(application_state, opening, Profile::BULK);
        let scheduler = Scheduler::default();
        Self { tap, station, scheduler, application, clock, rng, meter }
    }

    /// Returns a host at 10.0.0.2 that echoes received data.
    fn at_fixed_address() -> Self {
        let application_state = TestApplication { echoes: true, ..TestApplication::default() };
        Self::new(fixed_address(), Ipv6::Off, application_state, Opening::Passive { port: PORT })
    }

    /// Runs the station until `is_done` returns true; panics after thirty seconds.
    fn run_until(&mut self, condition: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        let until = self.clock.now() + RUN_TIMEOUT;
        loop {
            self.run();
            if is_done(self) {
                return;
            }
            assert!(self.clock.now() < until, "no {condition} within thirty seconds");
            let deadlines = [self.station.deadline(), self.application.deadline()];
            // No descriptor reports the test's own conditions, so they are polled every 20 ms.
            let next_poll = self.clock.now() + Duration::from_millis(20);
            let next = deadlines.into_iter().flatten().fold(next_poll, Instant::min);
            let mut ready = [PollFd::new(&self.tap, PollFlags::IN)];
            wait(&mut ready, &self.clock, Some(next)).unwrap();
            self.read();
        }
    }

    fn run(&mut self) {
        loop {
            let now = self.clock.now();
            let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
            self.scheduler.run(&mut self.station, &mut self.application, &mut cx);
            let mut wire = Vec::new();
            if self.station.transmit_into(&mut wire, usize::MAX, &mut cx) == 0 {
                return;
            }
            self.tap.write(&wire).unwrap();
        }
    }

    fn read(&mut self) {
        let mut frame = [0; 2048];
        while let Some(count) = self.tap.read(&mut frame).unwrap() {
            let now = self.clock.now();
            let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
            self.station.receive(&frame[..count], &mut cx);
            self.scheduler.run(&mut self.station, &mut self.application, &mut cx);
        }
    }

    fn ping(&mut self, destination: IpAddr) {
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let sent = self.station.layers.ping(destination, (1, 1), 56, &mut cx);
        assert_eq!(sent, Poll::Ready(Ok(())));
        self.run_until("echo reply", |host| host.station.take_echo_reply().is_some());
    }

    /// Runs the station until a busybox program has ended, and checks that it succeeded.
    fn run_with_station(&mut self, arguments: &[&str]) {
        let mut command = peers::BUSYBOX.command();
        command.args(arguments).stdout(Stdio::null());
        let mut program = Program::start(&mut command).unwrap();
        let mut status = None;
        self.run_until(arguments[0], |_| {
            status = program.exit_status().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{arguments:?}");
    }
}

fn fixed_address() -> Ipv4 {
    Ipv4::Static { address: OURS, prefix_len: 24, router: Some(KERNEL) }
}

/// Runs `test` in a new network namespace with a TAP.
fn in_network_with_tap(test: impl FnOnce() + Send + 'static) {
    let arguments: [&[&str]; 3] = [
        &["tuntap", "add", TAP, "mode", "tap"],
        &["address", "add", "10.0.0.1/24", "dev", TAP],
        &["link", "set", TAP, "up"],
    ];
    test_support::in_configured_network(os::namespace::enter_new_network, &arguments, test);
}

/// A temporary directory for a server, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("plumb-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| i.to_be_bytes()[3] ^ i.to_be_bytes()[2]).collect()
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_kernel_and_the_station_ping_each_other() {
    in_network_with_tap(|| {
        let mut host = Host::at_fixed_address();
        host.run_with_station(&["ping", "-c", "3", "-i", "0.1", "10.0.0.2"]);
        host.ping(KERNEL.into());
        assert_eq!(host.station.packets_in_use(), 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_connection_that_the_kernel_opens_carries_a_megabyte_both_ways() {
    in_network_with_tap(|| {
        let mut host = Host::at_fixed_address();
        let client = thread::spawn(|| {
            let mut socket = TcpStream::connect((OURS, PORT)).unwrap();
            let payload = pattern(1_000_000);
            let mut writing = socket.try_clone().unwrap();
            let written = payload.clone();
            let writer = thread::spawn(move || writing.write_all(&written).unwrap());
            let mut received = vec![0; payload.len()];
            socket.read_exact(&mut received).unwrap();
            writer.join().unwrap();
            assert!(received == payload);
        });
        host.run_until("echo", |_| client.is_finished());
        client.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_connection_that_the_station_opens_carries_a_megabyte_both_ways() {
    in_network_with_tap(|| {
        let listener = TcpListener::bind((KERNEL, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let echo = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut received = vec![0; 1_000_000];
            client.read_exact(&mut received).unwrap();
            client.write_all(&received).unwrap();
        });
        let payload = pattern(1_000_000);
        let application_state = TestApplication {
            outgoing: payload.clone(),
            close_after_bytes: payload.len(),
            ..TestApplication::default()
        };
        let opening = Opening::Active { local: OURS.into(), remote };
        let mut host = Host::new(fixed_address(), Ipv6::Off, application_state, opening);
        host.run_until("echo", |host| host.application.stream.received.len() == payload.len());
        assert!(host.application.stream.received == payload);
        host.run_until("end", |_| echo.is_finished());
        echo.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_neighbor_that_does_not_exist_is_not_reached() {
    in_network_with_tap(|| {
        let remote = SocketAddr::from(([10, 0, 0, 77], PORT));
        let opening = Opening::Active { local: OURS.into(), remote };
        let mut host = Host::new(fixed_address(), Ipv6::Off, TestApplication::default(), opening);
        host.run_until("failure", |host| host.meter.counted(Counter::NeighborsUnreachable) > 0);
        assert!(host.meter.counted(Counter::TcpIcmpErrors) > 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_address_conflict_with_the_kernel_is_detected() {
    in_network_with_tap(|| {
        let ipv4 = Ipv4::Static { address: KERNEL, prefix_len: 24, router: None };
        let application_state = TestApplication::default();
        let mut host =
            Host::new(ipv4, Ipv6::Off, application_state, Opening::Passive { port: PORT });
        // The kernel does not answer our announcement, but it sends ARP requests with our address
        // as the sender.
        let mut socket = None;
        host.run_until("conflict", |host| {
            let call = || thread::spawn(|| TcpStream::connect((OURS, PORT)).is_ok());
            socket.get_or_insert_with(call);
            host.meter.counted(Counter::ArpConflicts) > 0
        });
    });
}

/// Waits for a lease with an address in `range`, and checks that the address works.
fn assert_address_is_leased(range: std::ops::RangeInclusive<u8>) {
    let application_state = TestApplication::default();
    let opening = Opening::Passive { port: PORT };
    let mut host = Host::new(Ipv4::Dhcp, Ipv6::Off, application_state, opening);
    host.run_until("lease", |host| !host.station.address().is_unspecified());
    let lease = host.station.layers.ethernet().unwrap().lease().cloned().unwrap();
    assert!(range.contains(&lease.address.octets()[3]), "{lease:?}");
    assert_eq!((lease.server, lease.prefix_len), (KERNEL, 24));
    assert_eq!(lease.routers, [KERNEL]);
    assert_eq!(lease.dns_servers, [Ipv4Addr::new(10, 0, 0, 53)]);
    host.ping(KERNEL.into());
    let address = lease.address.to_string();
    host.run_with_station(&["ping", "-c", "1", &address]);
    assert_eq!(host.meter.counted(Counter::DhcpErrors), 0);
}

/// Starts Debian's dnsmasq, which leases 10.0.0.100 to 10.0.0.109.
fn start_dnsmasq(directory: &TempDirectory) -> Program {
    let leases = format!("--dhcp-leasefile={}", directory.0.join("leases").display());
    let mut command = peers::DNSMASQ.command();
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", &leases]);
    command.args(["--interface=plumb0", "--bind-interfaces", "--user=root", "--no-ping"]);
    command.args(["--dhcp-range=10.0.0.100,10.0.0.109,1h", "--dhcp-option=6,10.0.0.53"]);
    command.args(["--dhcp-authoritative", "--pid-file="]).stderr(Stdio::null());
    Program::start(&mut command).unwrap()
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's dnsmasq"]
fn dnsmasq_leases_an_address() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("dnsmasq");
        let _server = start_dnsmasq(&directory);
        assert_address_is_leased(100..=109);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's busybox"]
fn the_dhcp_server_of_busybox_leases_an_address() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("udhcpd");
        let leases = directory.file("leases", "");
        let pid = directory.0.join("pid").display().to_string();
        let text = format!(
            "start 10.0.0.120\nend 10.0.0.129\ninterface plumb0\nlease_file {leases}\n\
             pidfile {pid}\noption subnet 255.255.255.0\noption router 10.0.0.1\n\
             option dns 10.0.0.53\noption lease 3600\n"
        );
        let configuration = directory.file("conf", &text);
        let mut command = peers::BUSYBOX.command();
        command.args(["udhcpd", "-f", &configuration]).stderr(Stdio::null());
        let _server = Program::start(&mut command).unwrap();
        assert_address_is_leased(120..=129);
    });
}

const ROGUE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 66);
const HONEST_LEASE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 110);

/// Returns the messages that a hostile server sends before the honest answer to `asked`.
fn hostile_answers(asked: &dhcp::Message, honest: &dhcp::Message) -> Vec<Vec<u8>> {
    let rogue = |your_address: Ipv4Addr, change: &dyn Fn(&mut dhcp::Message)| {
        let mut forged = dhcp::Message { your_address, ..honest.clone() };
        forged.options.server = Some(ROGUE);
        forged.options.routers = vec![ROGUE];
        change(&mut forged);
        forged
    };
    let mut answers: Vec<Vec<u8>> =
        [0, 1, 239, 240, 250].map(|len| honest.emit().into_iter().take(len).collect()).into();
    // Options that extend past the end of the message, and options overloaded into each other's
    // fields.
    let mut bytes = honest.emit();
    bytes.truncate(240);
    answers.push([&bytes[..], &[53, 200, 2]].concat());
    bytes[44..236].fill(52);
    answers.push([&bytes[..], &[53, 1, 2, 52, 1, 3, 54, 4, 0, 0, 0, 0, 255]].concat());
    let mut forged = vec![
        rogue("10.0.0.255".parse().unwrap(), &|_| {}),
        rogue("10.0.0.0".parse().unwrap(), &|_| {}),
        rogue(Ipv4Addr::BROADCAST, &|_| {}),
        rogue(ROGUE, &|_| {}),
        rogue(HONEST_LEASE, &|forged| forged.options.lease_s = Some(0)),
        rogue(HONEST_LEASE, &|forged| forged.transaction ^= 1),
    ];
    if asked.kind == dhcp::Kind::Request {
        // Any host on the segment can read the transaction ID, so the rogue can send an
        // acknowledgment with this ID and its own server identifier.
        forged.push(rogue(HONEST_LEASE, &|_| {}));
        forged.push(rogue(HONEST_LEASE, &|forged| forged.options.server = None));
        forged.push(rogue(Ipv4Addr::UNSPECIFIED, &|forged| forged.kind = dhcp::Kind::Nak));
    } else {
        // An offer that the rogue does not confirm later.
        forged.push(rogue("10.0.0.67".parse().unwrap(), &|_| {}));
    }
    answers.extend(forged.iter().map(dhcp::Message::emit));
    answers
}

/// Answers as a hostile and an honest DHCP server, hostile messages first, until the test ends.
fn serve_dhcp_beside_a_rogue(socket: &UdpSocket) {
    let mut room = [0; 2000];
    while let Ok((len, _)) = socket.recv_from(&mut room) {
        let Ok(request) = dhcp::Message::parse(&room[..len]) else { continue };
        let kind = match request.kind {
            dhcp::Kind::Discover => dhcp::Kind::Offer,
            dhcp::Kind::Request => dhcp::Kind::Ack,
            _ => continue,
        };
        let options = dhcp::Options {
            prefix_len: Some(24),
            routers: vec![KERNEL],
            lease_s: Some(3600),
            server: Some(KERNEL),
            ..dhcp::Options::default()
        };
        let op = dhcp::Op::Reply;
        let your_address = HONEST_LEASE;
        let honest_reply = dhcp::Message { op, kind, your_address, options, ..request.clone() };
        let mut answers = hostile_answers(&request, &honest_reply);
        if request.options.server.is_none_or(|server| server == KERNEL) {
            answers.push(honest_reply.emit());
        } else {
            // The rogue rejects the request for its own offer.
            let mut refusal = dhcp::Message { kind: dhcp::Kind::Nak, ..honest_reply.clone() };
            refusal.options.server = Some(ROGUE);
            answers.push(refusal.emit());
        }
        for answer in answers {
            socket.send_to(&answer, (Ipv4Addr::BROADCAST, dhcp::CLIENT_PORT)).unwrap();
        }
    }
}

// attack row 136
#[test]
#[ignore = "needs root or a user namespace"]
fn a_rogue_dhcp_offer_does_not_prevent_a_valid_lease() {
    in_network_with_tap(|| {
        let route = ["route", "add", "255.255.255.255/32", "dev", TAP];
        test_support::ip(&route);
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, dhcp::SERVER_PORT)).unwrap();
        socket.set_broadcast(true).unwrap();
        let server = socket.try_clone().unwrap();
        // The thread ends with the test process.
        thread::spawn(move || serve_dhcp_beside_a_rogue(&server));
        let application_state = TestApplication::default();
        let opening = Opening::Passive { port: PORT };
        let mut host = Host::new(Ipv4::Dhcp, Ipv6::Off, application_state, opening);
        host.run_until("lease", |host| !host.station.address().is_unspecified());
        let lease = host.station.layers.ethernet().unwrap().lease().cloned().unwrap();
        assert_eq!((lease.address, lease.server), (HONEST_LEASE, KERNEL));
        assert_eq!((lease.prefix_len, &lease.routers[..]), (24, &[KERNEL][..]));
        host.ping(KERNEL.into());
        assert!(host.meter.counted(Counter::DhcpIgnored) > 10);
        assert!(host.meter.counted(Counter::DhcpErrors) > 5);
    });
}

/// Starts Debian's router daemon, which advertises 2001:db8:7::/64.
fn start_radvd(directory: &TempDirectory) -> Program {
    let address = ["-6", "address", "add", "2001:db8:7::1/64", "dev", TAP, "nodad"];
    test_support::ip(&address);
    let text = "interface plumb0 { AdvSendAdvert on; IgnoreIfMissing on; MinRtrAdvInterval 3;\n\
                MaxRtrAdvInterval 4; AdvLinkMTU 1400; AdvDefaultPreference high;\n\
                prefix 2001:db8:7::/64 { AdvOnLink on; AdvAutonomous on; };\n\
                RDNSS 2001:db8:7::53 { }; };\n";
    let configuration = directory.file("radvd.conf", text);
    let pid = directory.0.join("pid").display().to_string();
    let mut command = peers::RADVD.command();
    command.args(["-n", "-C", &configuration, "-p", &pid, "-u", "root", "-m", "stderr"]);
    Program::start(command.stderr(Stdio::null())).unwrap()
}

/// Waits for the address that the station forms from the router's prefix, and returns it.
fn wait_for_global_address(host: &mut Host) -> Ipv6Addr {
    let mut global_address = None;
    host.run_until("address", |host| {
        let ours = host.station.layers.internet.addresses().as_slice().iter();
        global_address = ours.map(|ours| ours.address).find_map(|ours| match ours {
            IpAddr::V6(v6) if v6.segments()[0] == 0x2001 => Some(v6),
            _ => None,
        });
        global_address.is_some()
    });
    global_address.unwrap()
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's radvd"]
fn the_kernel_and_the_station_ping_each_other_over_ipv6() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("radvd-ping");
        let _router = start_radvd(&directory);
        let opening = Opening::Passive { port: PORT };
        let mut host =
            Host::new(Ipv4::Off, Ipv6::Autoconfigured, TestApplication::default(), opening);
        let ours = wait_for_global_address(&mut host).to_string();
        host.run_with_station(&["ping6", "-c", "3", "-i", "0.1", &ours]);
        host.ping(ROUTER.into());
        assert_eq!(host.station.packets_in_use(), 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's radvd"]
fn a_connection_over_ipv6_that_the_kernel_opens_carries_a_megabyte_both_ways() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("radvd-called");
        let _router = start_radvd(&directory);
        let application_state = TestApplication { echoes: true, ..TestApplication::default() };
        let opening = Opening::Passive { port: PORT };
        let mut host = Host::new(Ipv4::Off, Ipv6::Autoconfigured, application_state, opening);
        let ours = wait_for_global_address(&mut host);
        let client = thread::spawn(move || {
            let mut socket = TcpStream::connect((ours, PORT)).unwrap();
            let payload = pattern(1_000_000);
            let mut writing = socket.try_clone().unwrap();
            let written = payload.clone();
            let writer = thread::spawn(move || writing.write_all(&written).unwrap());
            let mut received = vec![0; payload.len()];
            socket.read_exact(&mut received).unwrap();
            writer.join().unwrap();
            assert!(received == payload);
        });
        host.run_until("echo", |_| client.is_finished());
        client.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_connection_over_ipv6_that_the_station_opens_carries_a_megabyte_both_ways() {
    in_network_with_tap(|| {
        let address = ["-6", "address", "add", "2001:db8:7::1/64", "dev", TAP, "nodad"];
        test_support::ip(&address);
        let listener = TcpListener::bind((ROUTER, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let echo = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut received = vec![0; 1_000_000];
            client.read_exact(&mut received).unwrap();
            client.write_all(&received).unwrap();
        });
        let payload = pattern(1_000_000);
        let application_state = TestApplication {
            outgoing: payload.clone(),
            close_after_bytes: payload.len(),
            ..TestApplication::default()
        };
        let ours = Ipv6Addr::new(0x2001, 0xDB8, 7, 0, 0, 0, 0, 2);
        let opening = Opening::Active { local: ours.into(), remote };
        let ipv6 = Ipv6::Static { address: ours, prefix_len: 64, router: Some(ROUTER) };
        let mut host = Host::new(Ipv4::Off, ipv6, application_state, opening);
        host.run_until("echo", |host| host.application.stream.received.len() == payload.len());
        assert!(host.application.stream.received == payload);
        host.run_until("end", |_| echo.is_finished());
        echo.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's radvd"]
fn radvd_gives_a_prefix_a_router_and_a_name_server() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("radvd");
        let _router = start_radvd(&directory);
        let application_state = TestApplication::default();
        let opening = Opening::Passive { port: PORT };
        let mut host = Host::new(Ipv4::Off, Ipv6::Autoconfigured, application_state, opening);
        host.run_until("address", |host| {
            let discovery = host.station.layers.ethernet().unwrap().discovery().unwrap();
            discovery.addresses().iter().count() == 2
        });
        let discovery = host.station.layers.ethernet().unwrap().discovery().unwrap();
        let ours = discovery.addresses().iter().map(|ours| ours.address.to_string());
        assert!(ours.into_iter().any(|ours| ours.starts_with("2001:db8:7:")));
        assert_eq!((discovery.routers().len(), discovery.mtu()), (1, 1400));
        assert_eq!(discovery.dns_servers().next().unwrap().to_string(), "2001:db8:7::53");
        assert_eq!(host.meter.counted(Counter::NdErrors), 0);
    });
}

/// Runs `plumb login` to a server of the kernel at `address`, which sends a greeting and closes.
fn assert_login_works(way: &str, address: IpAddr) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    assert_greeting_is_printed(command, way, &address.to_string(), listener);
}

/// Runs the plumb executable `command` as `plumb login` to the server behind `listener`, with the
/// host name `host` and the `--via` argument `way`. Checks that the output contains the greeting.
fn assert_greeting_is_printed(mut command: Command, way: &str, host: &str, listener: TcpListener) {
    let port = listener.local_addr().unwrap().port().to_string();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"hello from far away\r\n").unwrap();
    });
    command.args(["login", host, &port, "--via", way, "--timeout", "30"]);
    let output = command.env("TERM", "dumb").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("hello from far away"), "{text}\n{errors}");
    server.join().unwrap();
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_login_over_ipv6_and_a_tap_reaches_the_kernel() {
    in_network_with_tap(|| {
        let address = ["-6", "address", "add", "2001:db8:7::1/64", "dev", TAP, "nodad"];
        test_support::ip(&address);
        assert_login_works("tap:plumb0?address=2001:db8:7::2/64", ROUTER.into());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's dnsmasq"]
fn a_login_with_an_address_from_dnsmasq_reaches_the_kernel() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("dnsmasq-login");
        let _server = start_dnsmasq(&directory);
        assert_login_works("tap:plumb0", KERNEL.into());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's dnsmasq and radvd"]
fn a_host_with_dead_ipv6_is_reached_over_ipv4_once_dnsmasq_has_leased_an_address() {
    in_network_with_tap(|| {
        let directory = TempDirectory::new("both-login");
        let _router = start_radvd(&directory);
        let _server = start_dnsmasq(&directory);
        // The IPv6 address lies behind the kernel, which does not forward and sends no ICMP error.
        let names = Names::new("both-login-names", "2001:db8:99::9 far\n10.0.0.1 far\n", "");
        let listener = TcpListener::bind((KERNEL, 0)).unwrap();
        assert_greeting_is_printed(names.plumb(&[]), "tap:plumb0", "far", listener);
    });
}
