//! Input: a script of segments, user calls and time steps into a TCP that begins in any of its
//! states. Checked: all output can be parsed, no packet leaks, no timer stays due, and every state
//! that waits for the peer has a timer.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER, US, repair_transport};
use fuzz::peer::Peer;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::internet::ipv4::Protocol;
use net::internet::{self, pseudo_header};
use net::packet::{Packet, Pool};
use net::transport::tcp::header::{Flags, Header};
use net::transport::tcp::{ConnectionId, LowerLevel, Profile, State, Tcp};
use std::net::SocketAddr;

const PORT: u16 = 23;
const PEER_PORT: u16 = 4000;
const LINK_MSS: u16 = 1460;
/// Upper bound on the segments of one output, even if the buffers are sent in the smallest
/// segments.
const MAX_SEGMENTS: usize = 8192;
/// Number of states in which a script may begin.
const INITIAL_STATES: u8 = 12;

struct Host {
    bench: Bench,
    pool: Pool,
    tcp: Tcp,
    profile: Profile,
    peer: Peer,
    id: Option<ConnectionId>,
    with_options: bool,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let (Some(beginning), Some(kind)) = (script.byte(), script.byte()) else { return };
    let mut host = Host::new(kind);
    host.begin(beginning % INITIAL_STATES);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.output();
        host.assert_no_wait_without_timer();
    }
});

impl Host {
    fn new(kind: u8) -> Self {
        let mut bench = Bench::default();
        let tcp = Tcp::new(LowerLevel::plain(LINK_MSS + 40), &mut bench.cx());
        Self {
            bench,
            pool: Pool::new(2, 1600),
            tcp,
            profile: if kind & 1 == 0 { Profile::BULK } else { Profile::INTERACTIVE },
            peer: Peer::new(PORT, PEER_PORT),
            id: None,
            with_options: kind & 2 != 0,
        }
    }

    /// Brings the connection into the initial state of the script.
    fn begin(&mut self, beginning: u8) {
        let is_passive = matches!(beginning, 0 | 2 | 11);
        if is_passive {
            self.tcp.listen(PORT, self.profile).expect("the port is free");
        } else {
            self.open();
        }
        let fin = Flags::FIN.with(Flags::ACK);
        match beginning {
            0 | 1 => {}
            2 | 3 | 11 => self.syn(Flags::default()),
            _ => self.syn(Flags::ACK),
        }
        if beginning == 11 {
            self.receive_expected(Flags::ACK);
        }
        if matches!(beginning, 5 | 6 | 8 | 10) {
            self.close();
        }
        match beginning {
            6 | 10 => self.receive_expected(Flags::ACK),
            7 | 9 => self.receive_expected(fin),
            8 => self.receive(&self.peer.all_but_one(fin)),
            _ => {}
        }
        match beginning {
            9 => self.close(),
            10 => self.receive_expected(fin),
            _ => {}
        }
        assert_eq!(self.state(), expected(beginning));
    }

    fn state(&self) -> Option<State> {
        self.tcp.status(self.id?).ok().map(|status| status.state)
    }

    fn open(&mut self) {
        let remote = SocketAddr::from((PEER, PEER_PORT));
        self.id = self.tcp.open(US.into(), remote, self.profile, &mut self.bench.cx()).ok();
        self.output();
    }

    fn syn(&mut self, flags: Flags) {
        self.receive(&self.peer.synchronize(flags, self.with_options));
    }

    fn receive_expected(&mut self, flags: Flags) {
        self.receive(&self.peer.expected_segment(flags, &[]));
    }

    fn close(&mut self) {
        self.id.map(|id| self.tcp.close(id));
        self.output();
    }

    fn receive(&mut self, segment: &[u8]) {
        let lower = internet::Header {
            source: PEER.into(),
            ..internet::Header::to(US.into(), Protocol::Tcp)
        };
        let packet = Packet::from_slice(segment);
        assert!(self.tcp.receive(&lower, packet, false, &mut self.bench.cx()).is_some());
        self.output();
    }

    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let count = usize::from(verb >> 4);
        match verb & 15 {
            0..=4 => {
                if let Some(segment) = self.peer.scripted(script) {
                    self.receive(&segment);
                }
            }
            5 => self.syn(if count & 1 == 0 { Flags::ACK } else { Flags::default() }),
            6 => self.receive(&self.peer.expected_segment(Flags::ACK, &vec![b'd'; count * 90])),
            7 => self.receive_raw(script.piece(count * 4 + 20), count & 1 == 0),
            8 | 9 => self.send(count * count * 40, verb & 1 != 0),
            10 => _ = self.id.map(|id| self.tcp.consume(id, count * 100)),
            11 => self.close(),
            12 => self.give_up(count),
            13 => self.wait(),
            14 => self.bench.advance_millis(1 << count),
            _ => {
                self.bench.advance_millis(1);
                self.receive_expected(Flags::ACK);
            }
        }
    }

    fn receive_raw(&mut self, bytes: &[u8], is_repaired: bool) {
        let mut segment = bytes.to_vec();
        if is_repaired {
            repair_transport(Protocol::Tcp, PEER, US, &mut segment);
        }
        self.receive(&segment);
    }

    fn send(&mut self, len: usize, is_urgent: bool) {
        let Some(id) = self.id else { return };
        let data = vec![b'u'; len];
        let sent =
            if is_urgent { self.tcp.send_urgent(id, &data) } else { self.tcp.send(id, &data) };
        assert!(sent.is_err() || sent.is_ok_and(|sent| sent <= len));
    }

    fn give_up(&mut self, way: usize) {
        let Some(id) = self.id else { return self.open() };
        match way {
            0 => _ = self.tcp.abort(id, &mut self.bench.cx()),
            1 => self.tcp.release(id),
            2 => self.tcp.stop_listening(PORT),
            3 => _ = self.tcp.listen(PORT, self.profile),
            _ if self.state().is_none_or(|state| state == State::Closed) => self.open(),
            _ => {}
        }
    }

    fn wait(&mut self) {
        self.bench.advance_to(self.tcp.deadline());
        self.tcp.timeout(&mut self.bench.cx());
        self.output();
        assert!(
            self.tcp.deadline().is_none_or(|next| next > self.bench.now),
            "the next deadline is in the future"
        );
    }

    /// Drains all segments and events.
    fn output(&mut self) {
        let mut segments = 0;
        while let Some(segment) = self.tcp.transmit(&mut self.pool, &mut self.bench.cx()) {
            segments += 1;
            assert!(segments < MAX_SEGMENTS, "output ends");
            let bytes = segment.packet.data();
            let len = u16::try_from(bytes.len()).expect("sent data is a segment in a datagram");
            let from = segment.lower.source;
            let to = segment.lower.destination;
            let sum = pseudo_header(from, to, Protocol::Tcp, len).bytes(bytes);
            let parsed = Header::parse(bytes, sum, &mut self.bench.meter);
            let (header, header_len) = parsed.expect("sent segments can be parsed");
            assert!(bytes.len() - header_len <= usize::from(LINK_MSS));
            self.peer.process_segment(&header, bytes.len() - header_len);
            self.pool.put(segment.packet);
        }
        assert_eq!(self.pool.lent(), 0, "no packet leaks");
        while let Some((id, _)) = self.tcp.event() {
            if self.id.is_none_or(|own| self.tcp.status(own).is_err()) {
                self.id = Some(id);
            }
        }
    }

    fn assert_no_wait_without_timer(&self) {
        let Some(status) = self.id.and_then(|id| self.tcp.status(id).ok()) else { return };
        let state = status.state;
        let queue = status.send_queue;
        let waits = match state {
            State::Established | State::CloseWait => queue > 0,
            State::FinWait2 | State::Closed => false,
            _ => true,
        };
        assert!(!waits || self.tcp.deadline().is_some(), "stuck in {state}, {queue} bytes wait");
        let window = status.receive_buffer;
        assert!(window <= self.profile.receive_window.limit());
        // The advertised window may be rounded up, and the buffer also accepts the additional data.
        assert!(status.receive_queue <= window + (window / 8).max(1 << 8));
    }
}

fn expected(beginning: u8) -> Option<State> {
    match beginning {
        // A passive connection is not reported to the user before it is established.
        0 | 2 => None,
        1 => Some(State::SynSent),
        3 => Some(State::SynReceived),
        5 => Some(State::FinWait1),
        6 => Some(State::FinWait2),
        7 => Some(State::CloseWait),
        8 => Some(State::Closing),
        9 => Some(State::LastAck),
        10 => Some(State::TimeWait),
        _ => Some(State::Established),
    }
}

/// Returns, for every state, a transfer in both directions with a close, and a script with one
/// invalid segment of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let transfer = [0x98, 0x0F, 0x56, 0x0F, 0x5A, 0x29, 0x0F, 0x0D, 0x0B, 0x0F, 0x0D];
    let scripted = |flags: u8, deviates: u8, rest: &[u8]| [&[0, flags, deviates], rest].concat();
    let invalid_segments = [
        scripted(0x04, 0x01, &[0x80, 1]),
        scripted(0x12, 0x00, &[]),
        scripted(0x10, 0x02, &[0x90, 0]),
        scripted(0x30, 0x48, &[0, 9, 0, 20]),
        scripted(0x10, 0x41, &[0x81, 0, 1, 0]),
        scripted(0x10, 0x04, &[0, 0]),
        scripted(0x11, 0x40, &[0, 5]),
    ]
    .concat();
    let scripts = (0..INITIAL_STATES).flat_map(|beginning| {
        let kind = beginning % 4;
        [
            [&[beginning, kind][..], &transfer].concat(),
            [&[beginning, kind], &invalid_segments[..]].concat(),
        ]
    });
    scripts.collect()
}
