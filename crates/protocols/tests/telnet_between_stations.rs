//! Tests of two directly connected stations, each with its own scheduler and meter, and a Telnet
//! session between them.
//!
//! The wire has no delay: time advances only where a test advances it, to the next deadline.

use net::application::Stream;
use net::internet::icmp::{ErrorKind, Unreachable};
use net::internet::ipv4::{self, Protocol};
use net::internet::{self, Event as InternetEvent, Internet};
use net::link::{Datagram, Link, Llp, Slip};
use net::meter::{Account, Clock, Counter, Meter};
use net::packet::{Packet, Pool};
use net::rng::Rng;
use net::station::{Application, Opening, Scheduler, Settings, Station, TcpStreamApp};
use net::transport::tcp::header::{Flags, Header};
use net::transport::tcp::{CloseReason, Profile, State};
use net::transport::udp::Udp;
use net::{Cx, Instant};
use plumbline_protocols::telnet::{
    Command, Event, OptionCode, ServerSettings, Side, Telnet, UserSettings,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const TELNET_PORT: u16 = 23;
/// Maximum number of bytes that a serial line transfers per exchange; less than the length of any
/// packet.
const SERIAL_CHUNK: usize = 30;
/// Maximum number of exchanges per test, more than any session needs.
const EXCHANGES_MAX: usize = 100_000;

/// One end of the Telnet session: the user's terminal, or the remote host.
#[derive(Debug)]
struct SessionEnd {
    telnet: Telnet,
    echoes: bool,
    /// Data to send.
    typed: Vec<u8>,
    commands: Vec<Command>,
    closes: bool,
    /// Data received.
    received: Vec<u8>,
    received_commands: Vec<Command>,
    window: Option<(u16, u16)>,
    /// Whether received data is rejected, as if a buffer were full.
    is_full: bool,
}

impl SessionEnd {
    fn new(telnet: Telnet, echoes: bool) -> Self {
        Self {
            telnet,
            echoes,
            typed: Vec::new(),
            commands: Vec::new(),
            closes: false,
            received: Vec::new(),
            received_commands: Vec::new(),
            window: None,
            is_full: false,
        }
    }

    fn user(starts_negotiation: bool) -> Self {
        let settings = UserSettings { starts_negotiation, ..UserSettings::default() };
        Self::new(Telnet::user(&settings), false)
    }

    fn server(starts_negotiation: bool) -> Self {
        let settings = ServerSettings { starts_negotiation, ..ServerSettings::default() };
        Self::new(Telnet::server(&settings), true)
    }

    fn handle_event(&mut self, event: &Event<'_>, cx: &mut Cx<'_>) {
        match *event {
            Event::Data(data) => {
                self.received.extend_from_slice(data);
                if self.echoes {
                    self.telnet.send(data, cx);
                }
            }
            Event::Command(command) => self.received_commands.push(command),
            Event::WindowSize { columns, rows } => self.window = Some((columns, rows)),
            _ => {}
        }
    }
}

impl Stream for SessionEnd {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.telnet.start(cx);
    }

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            self.handle_event(&event, cx);
        }
    }

    fn wants_data(&self) -> bool {
        !self.is_full
    }

    fn urgent(&mut self, is_ahead: bool) {
        if is_ahead { self.telnet.urgent() } else { self.telnet.urgent_ended() }
    }

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.telnet.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.closes = true;
    }

    fn is_closing(&self) -> bool {
        self.closes
    }

    fn wants_to_run(&self) -> bool {
        !self.typed.is_empty() || !self.commands.is_empty()
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        for command in self.commands.drain(..) {
            self.telnet.command(command, cx);
        }
        let taken = self.telnet.send(&self.typed, cx);
        self.typed.drain(..taken);
    }
}

struct Host {
    station: Station,
    meter: Meter,
    rng: Rng,
    scheduler: Scheduler,
    application: TcpStreamApp<SessionEnd>,
}

impl Host {
    fn new(
        link: Link,
        address: Ipv4Addr,
        packets: usize,
        application: TcpStreamApp<SessionEnd>,
    ) -> Self {
        let mut meter = Meter::new(Clock::Counter(uneven_clock));
        let mut rng = Rng::from_seed(u64::from(u32::from(address)));
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        let settings = Settings { address, prefix_len: 24, packets, ..Settings::default() };
        let station = Station::new(link, settings, &mut cx);
        Self { station, meter, rng, scheduler: Scheduler::default(), application }
    }

    fn run(&mut self, now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.scheduler.run(&mut self.station, &mut self.application, &mut cx);
    }

    fn transmit(&mut self, now: Instant) -> Vec<u8> {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let mut wire = Vec::new();
        self.station.transmit_into(&mut wire, SERIAL_CHUNK, &mut cx);
        wire
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive(bytes, &mut cx);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.station.deadline(), self.application.deadline()].into_iter().flatten().min()
    }

    fn session_end(&mut self) -> &mut SessionEnd {
        &mut self.application.stream
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.meter.counted(counter)
    }

    fn state(&self) -> Option<State> {
        self.application.status(&self.station.layers).map(|status| status.state)
    }
}

fn uneven_clock() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    TICKS.fetch_add(13, Ordering::Relaxed) + 13
}

/// A user's host and a server, with the wire between them.
struct Pair {
    user: Host,
    server: Host,
    now: Instant,
}

/// Numbers of packet buffers of the two hosts.
#[derive(Clone, Copy)]
struct Packets {
    user: usize,
    server: usize,
}

impl Packets {
    const DEFAULT: Self = Self { user: Pool::DEFAULT_LIMIT, server: Pool::DEFAULT_LIMIT };
}

impl Pair {
    fn new(link: fn() -> Link, profile: Profile, packets: Packets, negotiates: bool) -> Self {
        let remote = SocketAddr::new(SERVER.into(), TELNET_PORT);
        let active = Opening::Active { local: USER.into(), remote };
        let passive = Opening::Passive { port: TELNET_PORT };
        let user = TcpStreamApp::new(SessionEnd::user(negotiates), active, profile);
        let server = TcpStreamApp::new(SessionEnd::server(negotiates), passive, profile);
        let server = Host::new(link(), SERVER, packets.server, server);
        let user = Host::new(link(), USER, packets.user, user);
        Self { user, server, now: Instant::ZERO }
    }

    /// Returns an established Telnet session without option negotiation.
    fn open(link: fn() -> Link) -> Self {
        let mut pair = Self::new(link, Profile::INTERACTIVE, Packets::DEFAULT, false);
        pair.run_until_idle();
        assert_eq!((pair.user.state(), pair.server.state()), OPEN);
        pair
    }

    /// Runs both hosts and transfers one chunk or datagram in each direction. Returns false if
    /// nothing was pending.
    fn exchange_once(&mut self) -> bool {
        // The server runs first, or the first SYN finds no listener.
        self.server.run(self.now);
        self.user.run(self.now);
        let to_server = self.user.transmit(self.now);
        let to_user = self.server.transmit(self.now);
        self.server.receive(&to_server, self.now);
        self.user.receive(&to_user, self.now);
        !to_server.is_empty() || !to_user.is_empty()
    }

    /// Runs both hosts until nothing is pending at the current time.
    fn run_until_idle(&mut self) {
        let is_quiet = (0..EXCHANGES_MAX).any(|_| !self.exchange_once());
        assert!(is_quiet, "the hosts come to rest");
    }

    /// Advances time until `is_done` returns true.
    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        self.run_until_idle();
        while !is_done(self) {
            let deadlines = [self.user.deadline(), self.server.deadline()];
            let next = deadlines.into_iter().flatten().min();
            self.now = next.expect("no event and no timer is left");
            self.run_until_idle();
        }
    }

    fn type_key(&mut self, keys: &[u8]) {
        self.user.session_end().typed.extend_from_slice(keys);
        self.run_until_idle();
    }

    fn segments_out(&self) -> (u64, u64) {
        let counter = Counter::TcpSegmentsOut;
        (self.user.counted(counter), self.server.counted(counter))
    }

    fn is_over(&self) -> bool {
        self.user.application.is_over() && self.server.application.is_over()
    }

    fn has_every_packet_back(&self) {
        assert_eq!(
            (self.user.station.packets_in_use(), self.server.station.packets_in_use()),
            (0, 0)
        );
    }
}

const OPEN: (Option<State>, Option<State>) = (Some(State::Established), Some(State::Established));

fn datagram() -> Link {
    Link::Datagram(Datagram::new(1500))
}

fn llp() -> Link {
    Link::Llp(Llp::new(700))
}

fn slip() -> Link {
    Link::Slip(Slip::new(1006))
}

/// A screen of 24 lines of 80 characters.
fn screenful() -> Vec<u8> {
    let line: Vec<u8> = (0..78).map(|column| b'!' + column).chain(*b"\r\n").collect();
    line.repeat(24)
}

/// Runs a session with negotiation, echo, a screenful of output with all escaped bytes, and the
/// close.
fn run_session_over(link: fn() -> Link) {
    let mut pair = Pair::new(link, Profile::INTERACTIVE, Packets::DEFAULT, true);
    pair.run_until_idle();
    assert!(pair.user.session_end().telnet.negotiation_is_quiet());
    assert!(pair.user.session_end().telnet.is_enabled(Side::Remote, OptionCode::ECHO));
    assert_eq!(pair.server.session_end().window, Some((80, 24)));
    pair.type_key(b"ls -l");
    assert_eq!(pair.user.session_end().received, b"ls -l");
    pair.user.session_end().received.clear();
    let screen = [&screenful()[..], &[192, 219, 220, 221, 242, 243, 244, 245, 255]].concat();
    pair.server.session_end().typed = screen.clone();
    pair.run_until_idle();
    assert!(pair.user.session_end().received == screen, "the screenful is whole");
    pair.user.session_end().closes = true;
    pair.user.application.notice();
    pair.run_until(Pair::is_over);
    assert_eq!(pair.user.application.close_reason(), Some(CloseReason::Closed));
    assert_eq!(pair.server.application.close_reason(), Some(CloseReason::Closed));
    assert_eq!(pair.user.counted(Counter::TcpRetransmissions), 0);
    pair.has_every_packet_back();
}

#[test]
fn rejected_data_stays_in_the_window_while_keys_are_sent() {
    let mut pair = Pair::open(datagram);
    pair.user.session_end().is_full = true;
    pair.server.session_end().typed = [b'x'; 10_000].to_vec();
    pair.run_until_idle();
    pair.type_key(b"k");
    assert_eq!(pair.server.session_end().received, b"k");
    assert_eq!(pair.user.session_end().received, b"");
    pair.user.session_end().is_full = false;
    pair.user.application.notice();
    pair.run_until(|pair| pair.user.application.stream.received.len() == 10_001);
}

#[test]
fn data_accepted_late_precedes_the_end_of_the_connection() {
    let mut pair = Pair::open(datagram);
    pair.user.session_end().is_full = true;
    pair.server.session_end().typed = b"last words".to_vec();
    pair.run_until_idle();
    pair.server.session_end().closes = true;
    pair.server.application.notice();
    pair.run_until_idle();
    assert!(!pair.user.application.peer_has_closed());
    pair.user.session_end().is_full = false;
    pair.user.application.notice();
    pair.run_until(Pair::is_over);
    assert_eq!(pair.user.session_end().received, b"last words");
    assert_eq!(pair.user.application.close_reason(), Some(CloseReason::Closed));
}

#[test]
fn a_session_is_carried_over_whole_datagrams() {
    run_session_over(datagram);
}

#[test]
fn a_session_is_carried_over_llp() {
    run_session_over(llp);
}

#[test]
fn a_session_is_carried_over_slip() {
    run_session_over(slip);
}

/// Sends a keystroke, and returns the numbers of resulting segments from the user and from the
/// server.
fn count_segments_of_a_key(link: fn() -> Link) -> (u64, u64) {
    let mut pair = Pair::open(link);
    pair.type_key(b"a");
    let (from_user, from_server) = pair.segments_out();
    pair.type_key(b"b");
    assert_eq!(pair.user.session_end().received, b"ab");
    let after = pair.segments_out();
    (after.0 - from_user, after.1 - from_server)
}

// The user's two segments are the key and the acknowledgment of its echo.
#[test]
fn echo_acknowledgment_and_window_share_one_datagram() {
    assert_eq!(count_segments_of_a_key(datagram), (2, 1));
}

#[test]
fn echo_acknowledgment_and_window_share_one_llp_packet() {
    assert_eq!(count_segments_of_a_key(llp), (2, 1));
}

#[test]
fn echo_acknowledgment_and_window_share_one_slip_packet() {
    assert_eq!(count_segments_of_a_key(slip), (2, 1));
}

#[test]
fn a_key_typed_when_an_echo_arrives_carries_its_acknowledgment() {
    let mut pair = Pair::open(datagram);
    let before = pair.segments_out();
    let keys = b"abcdefghij";
    for key in keys {
        pair.user.session_end().typed.push(*key);
        // The keystroke is sent, and its echo reaches the user's link.
        pair.exchange_once();
        pair.exchange_once();
    }
    pair.run_until_idle();
    assert_eq!(pair.user.session_end().received, keys);
    // One segment per key in each direction, and the acknowledgment of the last echo.
    let after = pair.segments_out();
    assert_eq!((after.0 - before.0, after.1 - before.1), (11, 10));
}

#[test]
fn the_segment_of_an_echo_acknowledges_its_key_and_updates_the_window() {
    let mut pair = Pair::open(datagram);
    pair.user.session_end().typed.push(b'x');
    pair.user.run(pair.now);
    let key = pair.user.transmit(pair.now);
    pair.server.receive(&key, pair.now);
    pair.server.run(pair.now);
    let echo = pair.server.transmit(pair.now);
    let (_, key, _) = segment_in(&key);
    let (data, echo, len) = segment_in(&echo);
    assert_eq!((data, len), (b"x".to_vec(), 1));
    // The window is not opened again before half of the window is used (TM-233 §5.6).
    assert_eq!((echo.ack, echo.window), (key.seq + 1, 2499));
    assert!(echo.flags.has(Flags::ACK.with(Flags::PSH)));
    assert!(pair.server.transmit(pair.now).is_empty());
}

/// Returns the payload, the TCP header and the payload length of the segment in a datagram.
fn segment_in(datagram: &[u8]) -> (Vec<u8>, Header, usize) {
    let parsed = ipv4::Header::parse(datagram).expect("an IPv4 header");
    let segment = datagram.get(parsed.header_len..).expect("a segment");
    let source = parsed.header.source;
    let destination = parsed.header.destination;
    let len = u16::try_from(segment.len()).expect("a segment of at most 64 KiB");
    let pseudo = internet::pseudo_header(source.into(), destination.into(), Protocol::Tcp, len);
    let sum = pseudo.bytes(segment);
    let (header, len) = Header::parse(segment, sum, &mut Meter::off()).expect("a TCP header");
    (segment.get(len..).expect("the data").to_vec(), header, segment.len() - len)
}

#[test]
fn a_screenful_needs_no_window_update_before_its_end() {
    let mut pair = Pair::open(datagram);
    pair.server.session_end().typed = screenful();
    pair.run_until_idle();
    assert!(pair.user.session_end().received == screenful());
    // Two data segments of 1448 and 472 bytes, each acknowledged as it arrives, because the server
    // can buffer only one.
    assert_eq!(pair.segments_out(), (2 + 2, 1 + 2));
}

/// One line of the output that the user aborts.
const OUTPUT: &[u8] = b"output that is no longer wanted after the abort. ";

/// Returns a pair in which the user has aborted a long output of the server.
fn abort_output_in_the_middle() -> Pair {
    let mut pair = Pair::open(datagram);
    pair.server.session_end().typed = OUTPUT.repeat(200);
    (0..4).for_each(|_| _ = pair.exchange_once());
    pair.user.session_end().commands.push(Command::AbortOutput);
    pair.run_until_idle();
    pair
}

#[test]
fn the_user_sends_abort_output_and_the_server_answers_by_urgent_data_and_data_mark() {
    let mut pair = abort_output_in_the_middle();
    assert_eq!(pair.server.session_end().received_commands, [Command::AbortOutput]);
    assert_eq!(pair.user.session_end().received_commands, [Command::DataMark]);
    assert!(pair.server.counted(Counter::TcpUrgentOut) > 0);
    assert!(pair.user.counted(Counter::TcpUrgentIn) > 0);
}

#[test]
fn a_display_discards_data_from_the_urgent_notice_to_the_data_mark() {
    let mut pair = abort_output_in_the_middle();
    let displayed_bytes = pair.user.session_end().received.len() as u64;
    let discarded = pair.user.counted(Counter::TelnetBytesDiscarded);
    assert!(discarded > 1000, "{discarded}");
    assert_eq!(displayed_bytes + discarded, 200 * OUTPUT.len() as u64);
    assert!(!pair.user.session_end().telnet.is_discarding());
    pair.user.session_end().received.clear();
    pair.server.session_end().typed = b"% ".to_vec();
    pair.run_until_idle();
    assert_eq!(pair.user.session_end().received, b"% ");
}

#[test]
fn an_interrupt_sent_as_synch_makes_the_server_discard_earlier_input() {
    let mut pair = Pair::open(datagram);
    let session_end = pair.user.session_end();
    session_end.commands.extend([Command::InterruptProcess, Command::DataMark]);
    pair.run_until_idle();
    assert_eq!(
        pair.server.session_end().received_commands,
        [Command::InterruptProcess, Command::DataMark]
    );
    pair.type_key(b"next");
    assert_eq!(pair.server.session_end().received, b"next");
}

#[test]
fn a_session_that_the_user_closes_ends_at_both_hosts() {
    let mut pair = Pair::open(datagram);
    pair.user.session_end().closes = true;
    pair.user.application.notice();
    pair.run_until_idle();
    assert_eq!((pair.user.state(), pair.server.state()), (Some(State::TimeWait), CLOSED));
    pair.run_until(Pair::is_over);
    assert_eq!(pair.user.application.close_reason(), Some(CloseReason::Closed));
    pair.has_every_packet_back();
}

#[test]
fn a_session_that_the_server_closes_ends_at_both_hosts() {
    let mut pair = Pair::open(datagram);
    pair.server.session_end().typed = b"logout\r\n".to_vec();
    pair.server.session_end().closes = true;
    pair.run_until_idle();
    assert_eq!(pair.user.session_end().received, b"logout\r\n");
    assert_eq!((pair.user.state(), pair.server.state()), (CLOSED, Some(State::TimeWait)));
    pair.run_until(Pair::is_over);
    assert_eq!(pair.server.application.close_reason(), Some(CloseReason::Closed));
    pair.has_every_packet_back();
}

#[test]
fn a_session_closed_by_both_hosts_at_once_ends_at_both() {
    let mut pair = Pair::open(datagram);
    pair.user.session_end().closes = true;
    pair.server.session_end().closes = true;
    pair.user.application.notice();
    pair.server.application.notice();
    pair.run_until(Pair::is_over);
    assert_eq!(pair.user.application.close_reason(), Some(CloseReason::Closed));
    assert_eq!(pair.server.application.close_reason(), Some(CloseReason::Closed));
    pair.has_every_packet_back();
}

const CLOSED: Option<State> = Some(State::Closed);

#[test]
fn a_session_to_a_closed_port_is_refused() {
    let mut pair = Pair::new(datagram, Profile::INTERACTIVE, Packets::DEFAULT, true);
    pair.server.application.set_opening(Opening::Passive { port: TELNET_PORT + 1 });
    pair.run_until_idle();
    assert_eq!(pair.user.application.close_reason(), Some(CloseReason::Refused));
    pair.has_every_packet_back();
}

/// The layers of a host without a station, to send packets that an application cannot send.
struct Prober {
    internet: Internet,
    pool: Pool,
    udp: Udp,
    meter: Meter,
    rng: Rng,
}

impl Prober {
    fn new() -> Self {
        let pool = Pool::new(4, 1500);
        let udp = Udp::default();
        let meter = Meter::new(Clock::None);
        let rng = Rng::from_seed(3);
        Self { internet: Internet::new(USER, 24, 1500), pool, udp, meter, rng }
    }

    /// Delivers `request` to `host` and returns the event caused by the reply.
    fn ask(&mut self, request: &Packet, host: &mut Host) -> Option<InternetEvent> {
        host.receive(request.data(), Instant::ZERO);
        host.run(Instant::ZERO);
        let answer = host.transmit(Instant::ZERO);
        host.run(Instant::ZERO);
        assert_eq!(host.station.packets_in_use(), 0);
        let mut packet = self.pool.take(&mut self.meter)?;
        packet.extend(&answer);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut self.rng, meter: &mut self.meter };
        assert!(self.internet.receive(packet, &mut self.pool, &mut cx).is_none());
        self.internet.event()
    }
}

#[test]
fn a_ping_of_a_station_is_answered() {
    let mut prober = Prober::new();
    let mut pair = Pair::open(datagram);
    let Prober { internet, pool, rng, meter, .. } = &mut prober;
    let mut cx = Cx { now: Instant::ZERO, rng, meter };
    let request = internet.make_echo_request(SERVER.into(), 7, 1, 56, pool, &mut cx);
    let request = request.unwrap().unwrap();
    let Some(InternetEvent::EchoReply(reply)) = prober.ask(&request, &mut pair.server) else {
        panic!("an echo reply")
    };
    assert_eq!((reply.source, reply.identifier, reply.payload_len), (SERVER.into(), 7, 56));
}

// req RFC1122:3.4-MUST-4
#[test]
fn a_datagram_for_a_udp_port_without_a_socket_is_answered_by_port_unreachable() {
    let mut prober = Prober::new();
    let mut pair = Pair::open(datagram);
    let Prober { internet, pool, udp, rng, meter } = &mut prober;
    let mut cx = Cx { now: Instant::ZERO, rng, meter };
    let socket = udp.bind(0, &mut cx).unwrap();
    let mut packet = pool.take(cx.meter).unwrap();
    packet.extend(b"anybody?");
    let port_69 = SocketAddr::new(SERVER.into(), 69);
    let request = udp.send(socket, packet, port_69, internet, pool, &mut cx).unwrap().unwrap();
    let Some(InternetEvent::Error(error)) = prober.ask(&request, &mut pair.server) else {
        panic!("an error")
    };
    prober.udp.receive_error(&error);
    let unreachable = ErrorKind::Unreachable(Unreachable::Port);
    assert_eq!(prober.udp.take_error(socket), Some((port_69, unreachable)));
}

#[test]
fn a_host_continues_after_a_lack_of_packet_buffers() {
    let mut pair = Pair::open(datagram);
    let junk = [0x45; 40];
    (0..100).for_each(|_| pair.user.receive(&junk, pair.now));
    assert_eq!(pair.user.station.packets_in_use(), Pool::DEFAULT_LIMIT);
    assert!(pair.user.counted(Counter::LinkPacketsRefused) > 0);
    pair.type_key(b"still here");
    assert_eq!(pair.user.session_end().received, b"still here");
    pair.has_every_packet_back();
}

#[test]
fn a_flight_of_more_segments_than_packet_buffers_arrives_completely() {
    let packets = Packets { user: 2, server: 32 };
    let mut pair = Pair::new(datagram, Profile::BULK, packets, false);
    pair.run_until_idle();
    let text = screenful().repeat(8);
    pair.server.session_end().typed = text.clone();
    // Ten segments reach the user's link before it runs again.
    pair.server.run(pair.now);
    (0..10).for_each(|_| {
        let flight = pair.server.transmit(pair.now);
        pair.user.receive(&flight, pair.now);
    });
    assert!(pair.user.counted(Counter::PacketsRefused) > 0);
    pair.run_until(|pair| pair.user.application.stream.received.len() >= text.len());
    assert!(pair.user.session_end().received == text);
    pair.has_every_packet_back();
}

#[test]
fn a_session_completes_with_two_packet_buffers_per_host() {
    let packets = Packets { user: 2, server: 2 };
    let mut pair = Pair::new(datagram, Profile::INTERACTIVE, packets, true);
    pair.run_until(|pair| pair.server.application.stream.window.is_some());
    pair.user.session_end().typed = b"x".to_vec();
    pair.server.session_end().typed = screenful();
    pair.run_until(|pair| pair.user.application.stream.received.len() > screenful().len());
    pair.server.session_end().closes = true;
    pair.server.application.notice();
    pair.run_until(Pair::is_over);
    pair.has_every_packet_back();
}

/// Checks that the accounts of one host's meter add up to its total after a session.
fn assert_accounts_add_up(host: &mut Host) {
    host.meter.settle();
    assert_eq!(host.meter.accounts().iter().sum::<u64>(), host.meter.total());
    let charged = |account| host.meter.charged(account) > 0;
    let [link, internet, fixed, byte, telnet] =
        [Account::Link, Account::Internet, Account::TcpFixed, Account::TcpByte, Account::Telnet]
            .map(charged);
    assert!(link && internet && fixed && byte && telnet, "every layer took its time");
    assert_eq!(host.meter.enter(Account::Outside), Account::Outside, "every layer was left");
}

#[test]
fn the_accounts_of_both_hosts_add_up_to_their_totals_through_a_whole_session() {
    let mut pair = Pair::open(llp);
    pair.type_key(b"cat");
    pair.server.session_end().typed = screenful();
    pair.run_until_idle();
    pair.user.session_end().commands.push(Command::AbortOutput);
    pair.run_until_idle();
    pair.user.session_end().closes = true;
    pair.user.application.notice();
    pair.run_until(Pair::is_over);
    assert_accounts_add_up(&mut pair.user);
    assert_accounts_add_up(&mut pair.server);
}
