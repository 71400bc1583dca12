//! A gateway in this process: its event loop runs in a thread, and its guests are threads in network
//! namespaces of their own.

#![allow(dead_code, reason = "each test program uses a part of the harness")]

use gateway_host::forwards::Forward;
use gateway_host::guest_network::{GuestNetwork, Network4};
use gateway_host::{EventLoop, GuestDevice, GuestSettings, Notice, Turn, bit_rate};
use ipnet::IpNet;
use net::link::ethernet::MacAddress;
use os::device::Device;
use os::namespace::enter_new_network;
use os::outbound::Outbound;
use os::target_namespace::TargetNamespaces;
use os::tun::{Kind, Options};
use os::tun_in_namespace::{self, TunSetup};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use test_support::NetworkThread;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
const MTU: u16 = 1500;

/// A guest: a thread in a network namespace of its own, which runs what it is given.
pub(crate) struct Guest {
    pub(crate) namespace: String,
    thread: NetworkThread,
}

impl Guest {
    pub(crate) fn new() -> Self {
        let thread = NetworkThread::start(enter_new_network);
        Self { namespace: thread.namespace().to_owned(), thread }
    }

    /// Runs `work` in the namespace of the guest, and returns its result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.thread.run(TIMEOUT, work)
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.run(move || {
            let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        })
    }
}

/// Returns the network of guest `number`, which may reach `permitted`.
pub(crate) fn network(number: u8, permitted: &[&str]) -> GuestNetwork {
    let host = |host| Ipv4Addr::new(10, 0, 2 + number, host);
    let permitted: Vec<IpNet> = permitted.iter().map(|prefix| prefix.parse().unwrap()).collect();
    GuestNetwork {
        mtu_bytes: MTU,
        v4: Some(Network4 {
            guest: host(100),
            prefix_bits: 24,
            gateway: host(2),
            dns: Some(host(3)),
        }),
        v6: None,
        represented: gateway::segment::Represented::Gateway,
        mac: MacAddress::new([0x52, 0x55, 10, 0, 2, 2]),
        permits_host_loopback: false,
        rules: gateway_host::gateway_program::rules(&permitted, &[]),
        outbound4: Outbound::default(),
        outbound6: Outbound::default(),
        rate_bps: None,
    }
}

/// A step that sets up a gateway in its thread.
type SetUp = Box<dyn FnOnce(&mut EventLoop) + Send>;

/// A gateway that is not running yet.
#[derive(Default)]
pub(crate) struct Gateway {
    set_up: Vec<SetUp>,
    guests: usize,
}

/// A running gateway. Its end is that of the value.
pub(crate) struct Running {
    _stop: UnixStream,
    pub(crate) lost: Receiver<(usize, String)>,
    pub(crate) notices: Receiver<Notice>,
}

impl Gateway {
    pub(crate) fn new(total_rate: Option<&str>) -> Self {
        let mut gateway = Self::default();
        if let Some(rate) = total_rate.map(|rate| bit_rate::parse(rate).unwrap()) {
            gateway.set_up.push(Box::new(move |event_loop| event_loop.limit_total_rate(rate)));
        }
        gateway
    }

    /// Adds a guest in a namespace.
    pub(crate) fn add(&mut self, guest: &Guest, network: &GuestNetwork) -> usize {
        self.add_with_resolvers(guest, network, Vec::new())
    }

    pub(crate) fn add_with_resolvers(
        &mut self,
        guest: &Guest,
        network: &GuestNetwork,
        resolvers: Vec<SocketAddr>,
    ) -> usize {
        let path = guest.namespace.clone();
        let network = network.clone();
        self.add_by(move |event_loop| add(event_loop, &path, &network, resolvers))
    }

    /// Adds a guest by a function, and returns its number.
    pub(crate) fn add_by(
        &mut self,
        add: impl FnOnce(&mut EventLoop) -> usize + Send + 'static,
    ) -> usize {
        self.set_up.push(Box::new(move |event_loop| _ = add(event_loop)));
        self.guests += 1;
        self.guests - 1
    }

    pub(crate) fn forward(&mut self, guest: usize, text: &str) {
        let forward: Forward = gateway_host::published_port::parse(text).unwrap();
        self.set_up.push(Box::new(move |event_loop| {
            event_loop.add_forward(guest, forward).unwrap();
        }));
    }

    /// Runs the event loop in a thread of the namespace of the caller.
    pub(crate) fn start(self) -> Running {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (lost, receiver) = channel();
        let (notice, notices) = channel();
        let (ready, is_ready) = channel();
        thread::spawn(move || {
            let mut event_loop = EventLoop::new().unwrap();
            self.set_up.into_iter().for_each(|set_up| set_up(&mut event_loop));
            event_loop.watch(&stopped, 0).unwrap();
            ready.send(()).unwrap();
            loop {
                match event_loop.turn(None).unwrap() {
                    Turn::Continue => {}
                    Turn::Ready(_) => return,
                    // The test may not be interested.
                    Turn::Lost(number, error) => _ = lost.send((number, error.to_string())),
                    Turn::Notice(text) => _ = notice.send(text),
                }
            }
        });
        is_ready.recv_timeout(TIMEOUT).unwrap();
        Running { _stop: stop, lost: receiver, notices }
    }
}

/// Adds the guest in the namespace at `path` to an event loop, and returns its number.
pub(crate) fn add(
    event_loop: &mut EventLoop,
    path: &str,
    network: &GuestNetwork,
    resolvers: Vec<SocketAddr>,
) -> usize {
    let mut settings = network.for_frames();
    settings.engine.dns.resolvers = resolvers;
    settings.follows_resolv_conf = false;
    add_with_settings(event_loop, path, network, settings)
}

/// Adds a guest like [`add`], with other settings.
pub(crate) fn add_with_settings(
    event_loop: &mut EventLoop,
    path: &str,
    network: &GuestNetwork,
    settings: GuestSettings,
) -> usize {
    let target = TargetNamespaces::at_path(Path::new(path)).unwrap();
    let options = Options { kind: Kind::Tap, is_offloading: true, ..Options::default() };
    let v4 = network.v4.unwrap();
    let setup = TunSetup {
        hardware_address: None,
        mtu_bytes: Some(network.mtu_bytes),
        addresses: vec![(v4.guest.into(), v4.prefix_bits)],
        gateways: vec![v4.gateway.into()],
    };
    let opened = tun_in_namespace::open(&target, "tap0", options, Some(&setup)).unwrap();
    event_loop.add_guest(settings, GuestDevice::Packets(Device::Tun(opened.tun))).unwrap()
}

/// Returns bytes that repeat only after a long period.
pub(crate) fn test_data(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = net::rng::Rng::from_seed(seed);
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes()).flatten().take(len).collect()
}

/// Parses an address.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
