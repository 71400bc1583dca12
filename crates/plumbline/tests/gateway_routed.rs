//! Tests of `plumb gateway --routed`: hosts at serial lines with addresses of their own.
//!
//! The network namespace of a test stands for the host. A thread in another namespace is a host on
//! the local network behind `lan0`. A host at a line is the test itself, at the other end of a
//! pseudo-terminal with SLIP.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use gateway_host::control::{ControlReply, ListedRouter};
use net::checksum::Sum;
use os::clock::Monotonic;
use os::interface::Interface;
use os::interface_setting;
use os::namespace::enter_new_network;
use os::pty::Pty;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::tty::WindowSize;
use os::veth::make_pair;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use test_support::{
    ProgramLog, in_new_network, ip, is_root_of_the_machine, not_configured, poll_until_timeout,
};

const LAN_HOST: &str = "192.0.2.2";
const LAN_HOST6: &str = "2001:db8::2";
const ROUTER: &str = "192.0.2.9";
const FIRST: &str = "192.0.2.10";
const FIRST6: &str = "2001:db8::10";
const SECOND: &str = "192.0.2.11";
const TIMEOUT: Duration = Duration::from_secs(20);
/// Silence of a line after which the last datagram is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
const NOBODY: u32 = 65_534;
const UDP: u8 = 17;
const PORT: u16 = 4000;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The host at the other end of a serial line.
struct SerialHost {
    pty: Pty,
    received: Vec<u8>,
}

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Datagram {
    from: IpAddr,
    to: IpAddr,
    hops: u8,
    ports: [u16; 2],
    data: Vec<u8>,
}

impl SerialHost {
    fn new() -> Self {
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        Self { pty, received: Vec::new() }
    }

    /// Returns the argument of the gateway for this host.
    fn argument(&self, settings: &str) -> String {
        format!("serial:{}?link=slip&baud=115200&{settings}", self.pty.path().display())
    }

    fn send(&self, datagram: &Datagram) {
        let mut wire = vec![0xC0];
        for byte in datagram.packet() {
            match byte {
                0xC0 => wire.extend([0xDB, 0xDC]),
                0xDB => wire.extend([0xDB, 0xDD]),
                byte => wire.push(byte),
            }
        }
        wire.push(0xC0);
        assert_eq!(self.pty.write(&wire).unwrap(), Some(wire.len()));
    }

    /// Returns the next UDP datagram. Other packets, such as those of the kernel, are ignored.
    fn receive(&mut self) -> Datagram {
        poll_until_timeout(|| self.receive_now())
    }

    fn receive_now(&mut self) -> Option<Datagram> {
        let mut buffer = [0; 512];
        if let Some(length) = self.pty.read(&mut buffer).unwrap() {
            self.received.extend(&buffer[..length]);
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == 0xC0) {
            let frame: Vec<u8> = self.received.drain(..=end).collect();
            let packet = frame[..end]
                .split(|byte| *byte == 0xDB)
                .enumerate()
                .flat_map(|(number, part)| match (number, part) {
                    (0, part) => part.to_vec(),
                    (_, [0xDC, rest @ ..]) => [&[0xC0], rest].concat(),
                    (_, rest) => [&[0xDB], &rest[1..]].concat(),
                })
                .collect::<Vec<u8>>();
            if let Some(datagram) = Datagram::parse(&packet) {
                return Some(datagram);
            }
        }
        None
    }
}

impl Datagram {
    fn new(from: &str, to: &str, data: &[u8]) -> Self {
        let [from, to] = [from, to].map(address);
        Self { from, to, hops: 64, ports: [PORT, PORT], data: data.to_vec() }
    }

    fn packet(&self) -> Vec<u8> {
        let length = u16::try_from(8 + self.data.len()).unwrap();
        let words = [self.ports[0], self.ports[1], length, 0];
        let mut udp: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        udp.extend(&self.data);
        let addresses = [octets(self.from), octets(self.to)].concat();
        let sum = Sum::default().bytes(&addresses).word(length).word(UDP.into()).bytes(&udp);
        udp[6..8].copy_from_slice(&sum.finish().to_be_bytes());
        let header = if self.from.is_ipv4() {
            let total = (20 + length).to_be_bytes();
            let head = [0x45, 0, total[0], total[1], 0, 0, 0, 0, self.hops, UDP, 0, 0];
            let mut header = [&head[..], &addresses].concat();
            let checksum = Sum::default().bytes(&header).finish().to_be_bytes();
            header[10..12].copy_from_slice(&checksum);
            header
        } else {
            let length = length.to_be_bytes();
            let head = [0x60, 0, 0, 0, length[0], length[1], UDP, self.hops];
            [&head[..], &addresses].concat()
        };
        [header, udp].concat()
    }

    fn parse(packet: &[u8]) -> Option<Self> {
        let (hops, protocol, addresses, udp) = match packet.first()? >> 4 {
            4 => (packet[8], packet[9], &packet[12..20], &packet[20..]),
            _ => (packet[7], packet[6], &packet[8..40], &packet[40..]),
        };
        if protocol != UDP {
            return None;
        }
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        let data = udp[8..].to_vec();
        Some(Self { from: ip_of(from), to: ip_of(to), hops, ports: [word(0), word(2)], data })
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn ip_of(octets: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(octets) {
        Ok(v4) => v4.into(),
        Err(_) => <[u8; 16]>::try_from(octets).unwrap().into(),
    }
}

/// A host on the local network: a thread in a namespace, which runs what it is given.
struct LanHost {
    work: Sender<Box<dyn FnOnce() + Send>>,
}

impl LanHost {
    /// Connects a host to `lan0` of the calling thread's namespace, and configures both.
    fn connect() -> Self {
        let host_network = File::open("/proc/thread-self/ns/net").unwrap();
        let (work, queue) = channel::<Box<dyn FnOnce() + Send>>();
        let (ready, is_ready) = channel();
        thread::spawn(move || {
            enter_new_network().unwrap();
            make_pair("eth0", "lan0", Some(host_network.as_fd())).unwrap();
            let host = format!("{LAN_HOST}/24");
            let host6 = format!("{LAN_HOST6}/64");
            ip(&["addr", "add", &host, "dev", "eth0"]);
            ip(&["addr", "add", &host6, "dev", "eth0", "nodad"]);
            Interface::named("eth0").unwrap().bring_up().unwrap();
            ready.send(()).unwrap();
            queue.into_iter().for_each(|work| work());
        });
        is_ready.recv().unwrap();
        ip(&["addr", "add", "192.0.2.1/24", "dev", "lan0"]);
        ip(&["addr", "add", "2001:db8::1/64", "dev", "lan0", "nodad"]);
        Interface::named("lan0").unwrap().bring_up().unwrap();
        set("ipv6/conf/all/forwarding", "1");
        set("ipv4/conf/lan0/forwarding", "0");
        Self { work }
    }

    /// Runs `work` in the namespace of the host, and returns its result.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, receiver) = channel();
        self.work.send(Box::new(move || result.send(work()).unwrap())).unwrap();
        receiver.recv_timeout(TIMEOUT).unwrap()
    }
}

fn set(setting: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap();
}

/// A running gateway, which is killed at the end.
struct Gateway {
    child: Child,
    log: ProgramLog,
}

impl Gateway {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let log = ProgramLog::read(child.stderr.take().unwrap());
        log.wait_for(" is up");
        Self { child, log }
    }

    /// Ends the gateway with `signal`, and returns its exit code.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails if the gateway has ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["gateway", "--routed"]).args(arguments).stdin(Stdio::null());
    command
}

fn output_of_ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn bind(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, PORT)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2000];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

/// Exchanges a datagram between the host on the local network and the serial host in each
/// direction.
fn exchange(lan: &LanHost, serial: &mut SerialHost, [lan_host, serial_host]: [&'static str; 2]) {
    let socket = lan.run(move || {
        let socket = bind(lan_host);
        socket.send_to(b"request", (serial_host, PORT)).unwrap();
        socket
    });
    // The kernel and the router decrement the hops.
    let expected = Datagram { hops: 62, ..Datagram::new(lan_host, serial_host, b"request") };
    assert_eq!(serial.receive(), expected);
    serial.send(&Datagram::new(serial_host, lan_host, b"reply"));
    let from = SocketAddr::new(address(serial_host), PORT);
    assert_eq!(receive(&socket), (b"reply".to_vec(), from));
}

#[test]
fn a_serial_host_is_a_neighbor_of_the_local_network_with_its_own_address() {
    in_new_network(enter_new_network, || {
        let lan = LanHost::connect();
        let mut serial = SerialHost::new();
        let line = serial.argument(&format!("mtu=1280&address={FIRST}&prefix={FIRST6}/128"));
        let arguments =
            ["--proxy-arp", "lan0", "--router-address", ROUTER, "--router-address", "2001:db8::9"];
        let _gateway = Gateway::start(&[&[line.as_str()], &arguments[..]].concat());
        exchange(&lan, &mut serial, [LAN_HOST, FIRST]);
        exchange(&lan, &mut serial, [LAN_HOST6, FIRST6]);
    });
}

#[test]
fn hosts_at_two_lines_reach_each_other_through_the_router_alone() {
    in_new_network(enter_new_network, || {
        let first = SerialHost::new();
        let mut second = SerialHost::new();
        let lines = [
            first.argument(&format!("address={FIRST}")),
            second.argument(&format!("address={SECOND}")),
        ];
        let _gateway = Gateway::start(&[&lines[0], &lines[1]]);
        first.send(&Datagram::new(FIRST, SECOND, b"\xC0\xDB direct"));
        let expected = Datagram { hops: 63, ..Datagram::new(FIRST, SECOND, b"\xC0\xDB direct") };
        assert_eq!(second.receive(), expected);
        // The interface of the host has seen no packet with the address of a line.
        assert!(!output_of_ip(&["neigh"]).contains(FIRST));
    });
}

#[test]
fn a_serial_host_cannot_use_the_address_of_another() {
    in_new_network(enter_new_network, || {
        ip(&["addr", "add", "192.0.2.1/32", "dev", "lo"]);
        let serial = SerialHost::new();
        let line = serial.argument(&format!("address={FIRST}"));
        let _gateway = Gateway::start(&[&line]);
        let socket = bind("192.0.2.1");
        serial.send(&Datagram::new(SECOND, "192.0.2.1", b"forged"));
        serial.send(&Datagram::new(FIRST, "192.0.2.1", b"own"));
        assert_eq!(receive(&socket).0, b"own");
    });
}

#[test]
fn a_signal_ends_the_gateway_and_removes_its_configuration() {
    in_new_network(enter_new_network, || {
        let _lan = LanHost::connect();
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let serial = SerialHost::new();
            let line = serial.argument(&format!("mtu=1280&address={FIRST}&prefix={FIRST6}/128"));
            let router = ["--router-address", "2001:db8::9", "--proxy-arp", "lan0"];
            let mut gateway = Gateway::start(&[&[line.as_str()], &router[..]].concat());
            let neighbors = ["neigh", "show", "proxy"];
            let entries =
                output_of_ip(&neighbors) + &output_of_ip(&["-6", "neigh", "show", "proxy"]);
            assert!(entries.contains(FIRST) && entries.contains(FIRST6), "{entries}");
            assert!(output_of_ip(&["route"]).contains(&format!("{FIRST} dev plumb0")));
            assert_eq!(interface_setting::read("ipv4/conf/lan0/forwarding").unwrap(), "1");
            assert_eq!(gateway.end(signal), Some(code));
            let entries =
                output_of_ip(&neighbors) + &output_of_ip(&["-6", "neigh", "show", "proxy"]);
            assert_eq!(entries, "");
            assert!(!output_of_ip(&["route"]).contains(FIRST));
            assert!(Interface::named("plumb0").is_err());
            for setting in ["ipv4/conf/lan0/forwarding", "ipv6/conf/lan0/proxy_ndp"] {
                assert_eq!(interface_setting::read(setting).unwrap(), "0", "{setting}");
            }
        }
    });
}

#[test]
fn entries_of_a_killed_gateway_are_removed_by_the_next_one() {
    in_new_network(enter_new_network, || {
        let _lan = LanHost::connect();
        let serial = SerialHost::new();
        let line = |address: &str| serial.argument(&format!("address={address}"));
        let mut killed = Gateway::start(&[&line(FIRST), "--proxy-arp", "lan0"]);
        assert_eq!(killed.end(Signal::KILL), None);
        assert!(Interface::named("plumb0").is_err());
        ip(&["neigh", "add", "proxy", "192.0.2.77", "dev", "lan0"]);
        let _gateway = Gateway::start(&[&line(SECOND), "--proxy-arp", "lan0"]);
        let entries = output_of_ip(&["neigh", "show", "proxy"]);
        assert!(!entries.contains(FIRST) && entries.contains(SECOND), "{entries}");
        // An entry of the administrator is kept.
        assert!(entries.contains("192.0.2.77"), "{entries}");
    });
}

/// A client of the control socket.
struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    fn connect(path: &Path) -> Self {
        Self { stream: BufReader::new(UnixStream::connect(path).unwrap()) }
    }

    fn ask(&mut self, request: &str) -> ControlReply {
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.stream.read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{reply}: {error}"))
    }

    fn router(&mut self) -> ListedRouter {
        let reply = self.ask(r#"{"command":"router"}"#);
        let ControlReply::Router(router) = reply else { panic!("{reply:?}") };
        router
    }
}

/// Returns the name of a line that was given by this argument.
fn name_of(line: &str) -> &str {
    line.split_once('?').map_or(line, |(name, _)| name)
}

fn temporary_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("plumb-routed-{name}-{}", std::process::id()))
}

#[test]
fn the_control_socket_reports_each_line_and_what_was_dropped() {
    in_new_network(enter_new_network, || {
        // The kernel sends no packets of its own on the TUN, which would be dropped for their source.
        set("ipv6/conf/default/disable_ipv6", "1");
        let first = SerialHost::new();
        let mut second = SerialHost::new();
        let lines = [
            first.argument(&format!("address={FIRST}")),
            second.argument(&format!("address={SECOND}")),
        ];
        let path = temporary_path("control");
        let arguments = [&lines[0], &lines[1], "--control", path.to_str().unwrap()];
        let mut gateway = Gateway::start(&arguments);
        let mut control = Control::connect(&path);
        first.send(&Datagram::new("192.0.2.77", SECOND, b"forged"));
        first.send(&Datagram::new(FIRST, SECOND, b"own"));
        assert_eq!(second.receive().data, b"own");
        let router = control.router();
        let [of_first, of_second] = &router.lines[..] else { panic!("{router:?}") };
        assert_eq!((of_first.guest.as_str(), of_first.output.packets), (name_of(&lines[0]), 0));
        assert_eq!((of_first.queue_delay_ns, of_first.is_up), (None, true));
        assert_eq!((&of_second.addresses[..], of_second.output.packets), (&[SECOND.into()][..], 1));
        assert_eq!(of_second.output.bytes, 31);
        assert!(of_second.queue_delay_ns.is_some());
        assert_eq!(router.dropped["source"], 1);
        for request in [r#"{"command":"guests"}"#, r#"{"command":"list"}"#] {
            assert!(matches!(control.ask(request), ControlReply::Error(_)), "{request}");
        }
        assert_eq!(gateway.end(Signal::TERM), Some(143));
        assert!(!path.exists());
    });
}

#[test]
fn the_datagrams_of_one_line_are_captured_in_both_directions() {
    in_new_network(enter_new_network, || {
        let mut first = SerialHost::new();
        let mut second = SerialHost::new();
        let lines = [
            first.argument(&format!("address={FIRST}")),
            second.argument(&format!("address={SECOND}")),
        ];
        let [socket, file] = ["capture", "file"].map(temporary_path);
        let _gateway =
            Gateway::start(&[&lines[0], &lines[1], "--control", socket.to_str().unwrap()]);
        let mut control = Control::connect(&socket);
        let start = format!(
            r#"{{"command":"capture","guest":"{}","file":"{}"}}"#,
            name_of(&lines[0]),
            file.display()
        );
        assert_eq!(control.ask(&start), ControlReply::DONE);
        first.send(&Datagram::new(FIRST, SECOND, b"from the first"));
        second.receive();
        second.send(&Datagram::new(SECOND, FIRST, b"to the first"));
        first.receive();
        let stop = format!(r#"{{"command":"stop-capture","guest":"{FIRST}"}}"#);
        let reply = control.ask(&stop);
        let ControlReply::Captured(summary) = reply else { panic!("{reply:?}") };
        assert_eq!((summary.packets, summary.dropped, summary.failure), (2, 0, None));
        let capture = std::fs::read(&file).unwrap();
        assert_eq!(capture.len() as u64, summary.size_bytes);
        let contains = |text: &[u8]| capture.windows(text.len()).any(|part| part == text);
        assert!(contains(b"from the first") && contains(b"to the first"));
        assert_eq!(control.ask(&stop), ControlReply::Error("no packets are being captured".into()));
        std::fs::remove_file(&file).unwrap();
    });
}

#[test]
fn a_line_that_hangs_up_ends_and_the_other_lines_go_on() {
    in_new_network(enter_new_network, || {
        ip(&["addr", "add", "192.0.2.1/32", "dev", "lo"]);
        let [first, second] = [SerialHost::new(), SerialHost::new()];
        let lines = [
            first.argument(&format!("address={FIRST}")),
            second.argument(&format!("address={SECOND}")),
        ];
        let path = temporary_path("failed");
        let mut gateway =
            Gateway::start(&[&lines[0], &lines[1], "--control", path.to_str().unwrap()]);
        drop(first);
        let name = name_of(&lines[0]);
        let failure = format!("plumb: error: {name} has failed: the line has hung up");
        assert_eq!(gateway.log.wait_for("has failed").trim_end(), failure);
        let socket = bind("192.0.2.1");
        second.send(&Datagram::new(SECOND, FIRST, b"lost"));
        second.send(&Datagram::new(SECOND, "192.0.2.1", b"still here"));
        assert_eq!(receive(&socket).0, b"still here");
        let mut control = Control::connect(&path);
        assert_eq!(control.router().dropped["line_down"], 1);
        let file = temporary_path("of-failed");
        let capture =
            format!(r#"{{"command":"capture","guest":"{name}","file":"{}"}}"#, file.display());
        assert_eq!(control.ask(&capture), ControlReply::Error("the line has hung up".into()));
        assert!(!file.exists());
        drop(second);
        assert_eq!(gateway.child.wait().unwrap().code(), Some(4));
    });
}

/// Sends `count` datagrams to a serial host at once, and returns the numbers of those that arrive
/// and the report of the gateway.
fn burst(count: u8, options: &[&str]) -> (Vec<u8>, String) {
    ip(&["addr", "add", "192.0.2.1/32", "dev", "lo"]);
    let mut serial = SerialHost::new();
    let line = serial.argument(&format!("address={FIRST}"));
    let mut gateway = Gateway::start(&[&[line.as_str()], options].concat());
    let socket = bind("192.0.2.1");
    for number in 0..count {
        socket.send_to(&[number; 100], (FIRST, PORT)).unwrap();
    }
    let clock = Monotonic::start();
    let mut received = Vec::new();
    // The discipline of 1982 never drops a datagram that comes alone.
    loop {
        match serial.receive_now() {
            Some(datagram) if datagram.data == b"end" => break,
            Some(datagram) => received.push(datagram.data[0]),
            None => {
                let mut descriptors = [PollFd::new(&serial.pty, PollFlags::IN)];
                let until = clock.now() + RETRY_AFTER;
                if wait(&mut descriptors, &clock, Some(until)).unwrap() == Wake::Deadline {
                    socket.send_to(b"end", (FIRST, PORT)).unwrap();
                }
            }
        }
    }
    gateway.end(Signal::TERM);
    (received, gateway.log.wait_for("packets out"))
}

#[test]
fn the_discipline_of_1982_keeps_the_first_packet_of_a_burst_and_drops_others() {
    in_new_network(enter_new_network, || {
        let (received, report) = burst(40, &["--discipline", "1982", "--queue", "30"]);
        assert_eq!(received.first(), Some(&0), "{report}");
        assert!(received.len() < 40 && received.is_sorted(), "{received:?}");
        assert!(!report.contains("dropped: 0 of a burst"), "{report}");
    });
}

#[test]
fn the_fair_discipline_drops_packets_only_after_they_have_waited() {
    in_new_network(enter_new_network, || {
        let (received, report) = burst(40, &[]);
        assert_eq!(received.first(), Some(&0), "{report}");
        assert!(received.is_sorted(), "{received:?}");
        assert!(report.contains("dropped: 0 of a burst, 0 full"), "{report}");
    });
}

#[test]
fn without_root_the_refusal_names_it() {
    if !is_root_of_the_machine() {
        return not_configured("root", "another user cannot start a program as a third one");
    }
    in_new_network(enter_new_network, || {
        let mut command = command(&["serial:/dev/ptmx?link=slip&address=192.0.2.10"]);
        let Output { stderr, status, .. } = command.uid(NOBODY).gid(NOBODY).output().unwrap();
        let message = "plumb: error: no permission to create a TUN and its routes: run as root\n";
        assert_eq!(
            (String::from_utf8(stderr).unwrap().as_str(), status.code()),
            (message, Some(4))
        );
    });
}

#[test]
fn each_refusal_is_one_sentence_with_its_exit_code() {
    in_new_network(enter_new_network, || {
        let _lan = LanHost::connect();
        let serial = SerialHost::new();
        let line = serial.argument(&format!("address={FIRST}"));
        let other = SerialHost::new();
        let same = other.argument(&format!("address={FIRST}"));
        let prefix = serial.argument(&format!("address={FIRST}&prefix=2001:db8:1::/64&mtu=1280"));
        let inner = other.argument(&format!("address={SECOND}&prefix=2001:db8:1::5/128&mtu=1280"));
        let multicast = serial.argument("address=224.0.0.5");
        let own = serial.argument("address=192.0.2.1");
        let bare = serial.argument("mtu=296");
        let router6 = ["--router-address", "2001:db8::9"];
        let cases: [(&[&str], i32, &str); 12] = [
            (&[&line, &same], 2, "another guest"),
            (&[&prefix, &inner, router6[0], router6[1]], 2, "another guest"),
            (&[&line, "--router-address", FIRST], 2, "of the router"),
            (&[&multicast], 2, "not a unicast address"),
            (&[&bare], 2, "has no address"),
            (&[&prefix], 2, "no IPv6 address"),
            (&["netns:blue"], 2, "not a serial line"),
            (&[&own], 4, "an address of this host"),
            (&[&line, "--proxy-arp", "eth7"], 4, "there is no interface eth7"),
            (&["serial:/nonexistent?address=192.0.2.10"], 4, "/nonexistent"),
            (&[&line, "--metrics", "9559"], 2, "cannot be used with"),
            (&[&line, "--rate", "1mbit"], 2, "cannot be used with"),
        ];
        let refuse = |arguments: &[&str], expected: i32, text: &str| {
            let Output { stderr, status, .. } = command(arguments).output().unwrap();
            let message = String::from_utf8(stderr).unwrap();
            assert!(message.contains(text) && message.lines().count() == 1, "{message}");
            assert_eq!(status.code(), Some(expected), "{message}");
        };
        for (arguments, code, text) in cases {
            refuse(arguments, code, text);
        }
        set("ipv6/conf/all/forwarding", "0");
        refuse(&[&prefix, router6[0], router6[1]], 4, "does not forward IPv6");
        let _gateway = Gateway::start(&[&line]);
        refuse(&[&same], 4, "there is a route to 192.0.2.10 already");
    });
}
