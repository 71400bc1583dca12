//! Tests of terminal sessions over a path that silently drops long datagrams (RFC 2923 §2.1): the
//! additional delay of the output compared with a path that drops nothing, in virtual time.

use net::Cx;
use net::application::Stream;
use net::internet::addresses::Address;
use net::link::{Datagram, Link};
use net::meter::{Costs, Counter};
use net::rng::Rng;
use net::station::{Application, Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{BlackHoleDetection, Profile};
use simulator::medium::{Arrival, Medium};
use simulator::transmission_line::Line;
use simulator::{Host, Side, World};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const USER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
const PORT: u16 = 23;
const WINDOW_LEN: usize = 32 * 1024;
const SERVING: Profile = Profile::serving(WINDOW_LEN);
const TYPING: Profile = Profile::interactive(WINDOW_LEN);
/// Length of 24 lines of 80 characters with their line ends, in bytes.
const SCREENFUL: usize = 24 * 82;
/// Maximum additional delay that a black hole may cause.
const COST_MAX: Duration = Duration::from_secs(5);
const ROUND_TRIPS_MS: [u32; 4] = [1, 10, 100, 600];

/// A network that drops datagrams of more than `longest` bytes, without an ICMP error.
#[derive(Debug)]
struct BlackHole {
    longest: usize,
    delay: Duration,
}

impl Medium for BlackHole {
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        _rng: &mut Rng,
    ) -> Vec<Arrival> {
        let arrival = Arrival { to: from.other(), at: sent_at + self.delay, bytes };
        (arrival.bytes.len() <= self.longest).then_some(arrival).into_iter().collect()
    }
}

/// A client that sends its input in pieces, each after the echo of the previous one has arrived. It
/// records the time at which all echo and output has arrived.
#[derive(Debug)]
struct Typist {
    input: Vec<u8>,
    piece_len: usize,
    sent: usize,
    expected: usize,
    received: usize,
    finished_at: Option<Instant>,
}

impl Stream for Typist {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.received += data.len();
        if self.received == self.expected {
            self.finished_at = Some(cx.now);
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        let echoed = self.received.min(self.input.len());
        let end = (echoed / self.piece_len + 1) * self.piece_len;
        self.input.get(self.sent..end.min(self.input.len())).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// A server that echoes received data, and answers each line end with `output_len` bytes.
#[derive(Debug, Default)]
struct Shell {
    output_len: usize,
    output: Vec<u8>,
    sent: usize,
}

impl Stream for Shell {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.output.extend_from_slice(data);
        if data.contains(&b'\r') {
            self.output.resize(self.output.len() + self.output_len, b'.');
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

fn host<A: Application>(v4: Ipv4Addr, v6: Ipv6Addr, application: A) -> Host<A> {
    let settings = Settings { address: v4, prefix_len: 24, ..Settings::default() };
    let link = Link::Datagram(Datagram::new(1500));
    let seed = u64::from(v4.to_bits());
    let mut host = Host::new(link, settings, Costs::default(), seed, application);
    let added = host.station.internet_mut().add_address(Address::permanent(v6.into(), 64));
    assert_eq!(added, Ok(()));
    host
}

/// Parameters of a session: input, output, and path.
#[derive(Clone, Copy, Debug)]
struct Session {
    is_v6: bool,
    /// Maximum length of a datagram that the path delivers, in bytes.
    longest: usize,
    round_trip_ms: u32,
    input_len: usize,
    /// Number of bytes that are typed or pasted at once.
    piece_len: usize,
    output_len: usize,
    server: Profile,
}

impl Session {
    /// Creates a session with a command of one key and a screenful of output.
    fn screenful(is_v6: bool, longest: usize, round_trip_ms: u32) -> Self {
        let input_len = 1;
        let piece_len = 1;
        let output_len = SCREENFUL;
        let server = SERVING;
        Self { is_v6, longest, round_trip_ms, input_len, piece_len, output_len, server }
    }

    /// Runs the session for at most ten minutes. Returns the time at which all output had arrived,
    /// and the number of detected black holes.
    fn run(self) -> (Option<Instant>, u64) {
        let addresses: [IpAddr; 2] = match self.is_v6 {
            true => [USER_V6.into(), SERVER_V6.into()],
            false => [USER.into(), SERVER.into()],
        };
        let [local, remote] = addresses;
        let opening = Opening::Active { local, remote: SocketAddr::new(remote, PORT) };
        let mut input = vec![b'k'; self.input_len - 1];
        input.push(b'\r');
        let typist = Typist {
            input,
            piece_len: self.piece_len,
            sent: 0,
            expected: self.input_len + self.output_len,
            received: 0,
            finished_at: None,
        };
        let shell = Shell { output_len: self.output_len, ..Shell::default() };
        let shell = TcpStreamApp::new(shell, Opening::Passive { port: PORT }, self.server);
        let user = host(USER, USER_V6, TcpStreamApp::new(typist, opening, TYPING));
        let server = host(SERVER, SERVER_V6, shell);
        let mut world = World::new(user, server, Line::path(Duration::ZERO), 1);
        let delay = Duration::from_millis(1) * self.round_trip_ms / 2;
        world.set_medium(Box::new(BlackHole { longest: self.longest, delay }));
        let end = Instant::ZERO + Duration::from_secs(600);
        // If the server gives up the connection, no event is left.
        _ = world.drive(|world| {
            world.user.application.stream.finished_at.is_some() || world.now() >= end
        });
        let black_hole_count = [&world.user.meter, &world.server.meter]
            .map(|meter| meter.counted(Counter::TcpBlackHoles));
        (world.user.application.stream.finished_at, black_hole_count.iter().sum())
    }

    /// Returns the additional delay of the output compared with a path that drops nothing.
    fn additional_delay(self) -> Duration {
        let (finished_at, detected) = self.run();
        let (without_hole, _) = Self { longest: usize::MAX, ..self }.run();
        let without_hole = without_hole.expect("output arrives on a path without a black hole");
        assert!(detected > 0, "{self:?}");
        finished_at.expect("output arrives within ten minutes") - without_hole
    }
}

/// The tested black holes: whether the path is IPv6, and the maximum length of a datagram that it
/// delivers, in bytes.
const HOLES: [(bool, usize); 6] =
    [(false, 1300), (false, 1499), (false, 600), (false, 552), (true, 1400), (true, 1280)];

#[test]
fn a_screenful_arrives_at_most_five_seconds_late_behind_a_black_hole() {
    for (is_v6, longest) in HOLES {
        for round_trip_ms in ROUND_TRIPS_MS {
            let session = Session::screenful(is_v6, longest, round_trip_ms);
            let additional_delay = session.additional_delay();
            assert!(additional_delay <= COST_MAX, "{additional_delay:?} {session:?}");
        }
    }
}

#[test]
fn a_screenful_after_many_keys_arrives_at_most_five_seconds_late_behind_a_black_hole() {
    for (is_v6, longest) in HOLES {
        for round_trip_ms in ROUND_TRIPS_MS {
            let session = Session::screenful(is_v6, longest, round_trip_ms);
            let session = Session { input_len: 40, ..session };
            let additional_delay = session.additional_delay();
            assert!(additional_delay <= COST_MAX, "{additional_delay:?} {session:?}");
        }
    }
}

#[test]
fn a_pasted_screenful_and_its_echo_arrive_at_most_five_seconds_late_each() {
    for (is_v6, longest) in HOLES {
        for round_trip_ms in ROUND_TRIPS_MS {
            let session = Session::screenful(is_v6, longest, round_trip_ms);
            let input_len = SCREENFUL;
            let piece_len = SCREENFUL;
            let session = Session { input_len, piece_len, output_len: 0, ..session };
            let additional_delay = session.additional_delay();
            assert!(additional_delay <= COST_MAX * 2, "{additional_delay:?} {session:?}");
        }
    }
}

#[test]
fn long_output_behind_a_black_hole_arrives_within_seconds() {
    for (is_v6, longest) in HOLES {
        let session = Session::screenful(is_v6, longest, 10);
        let session = Session { output_len: 100_000, ..session };
        let additional_delay = session.additional_delay();
        assert!(additional_delay <= COST_MAX, "{additional_delay:?} {session:?}");
    }
}

#[test]
fn without_black_hole_detection_a_screenful_does_not_arrive() {
    let server = Profile { black_hole_detection: BlackHoleDetection::Off, ..SERVING };
    let session = Session { server, ..Session::screenful(false, 1300, 10) };
    assert_eq!(session.run(), (None, 0));
}
