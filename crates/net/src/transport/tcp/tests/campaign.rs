//! Tests of transfers with random faults in both directions, with closes at random times, for two
//! profiles.
//!
//! Each byte must arrive once and in order, both ends must close, and no packet may be lost. While
//! data is missing, an event must be pending. A failure prints the seed.

use super::*;
use crate::internet::icmp::{ErrorKind, IcmpError};
use proptest::prelude::*;

/// The data that one end has to send, and the data that the other end has received.
#[derive(Debug, Default)]
struct Flow {
    data: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    is_closed: bool,
}

impl Flow {
    fn new(len: usize) -> Self {
        Self { data: pattern(len), ..Self::default() }
    }

    /// Sends as much as `tcp` accepts, and closes after the last byte.
    fn write(&mut self, tcp: &mut Tcp, id: ConnectionId) {
        self.sent += tcp.send(id, &self.data[self.sent..]).unwrap();
        // A close before the first answer would end the connection immediately.
        let is_answered = tcp.status(id).unwrap().state != State::SynSent;
        if self.sent == self.data.len() && is_answered && !self.is_closed {
            tcp.close(id).unwrap();
            self.is_closed = true;
        }
    }

    /// Reads up to `max_len` bytes of the other side's data. Returns whether any bytes were read.
    fn read(&mut self, tcp: &mut Tcp, id: ConnectionId, max_len: usize) -> bool {
        let data = tcp.received(id).unwrap();
        let count = data.len().min(max_len);
        self.received.extend_from_slice(&data[..count]);
        tcp.consume(id, count).unwrap();
        count > 0
    }
}

fn run(seed: u64, profile: Profile, lens: (usize, usize), faults: Faults) {
    let mut pair = Pair::new(seed);
    let ids = pair.connect(profile);
    pair.faults = faults;
    exchange(&mut pair, seed, ids, (lens, 0), |_| ());
}

/// Sends `lens.0` bytes from the client and `lens.1` bytes from the server, and closes both ends.
/// The client's TCP has already accepted `accepted_bytes` of its bytes. `before` is called before
/// every step.
fn exchange(
    pair: &mut Pair,
    seed: u64,
    ids: (ConnectionId, ConnectionId),
    (lens, accepted_bytes): ((usize, usize), usize),
    mut before: impl FnMut(&mut Pair),
) {
    let mut up = Flow::new(lens.0);
    let mut down = Flow::new(lens.1);
    up.sent = accepted_bytes;
    let end = pair.context.now + Duration::from_secs(100_000);
    while up.received != up.data || down.received != down.data {
        let max_len = usize::try_from(pair.dice.below(3000)).unwrap() + 1;
        up.write(&mut pair.client, ids.0);
        down.write(&mut pair.server, ids.1);
        let has_read =
            up.read(&mut pair.server, ids.1, max_len) | down.read(&mut pair.client, ids.0, max_len);
        assert!(up.data.starts_with(&up.received), "seed {seed}: each byte once, in order");
        assert!(down.data.starts_with(&down.received), "seed {seed}: each byte once, in order");
        before(pair);
        let has_event = pair.step(end);
        if !has_event && !has_read {
            let ends = (pair.client.status(ids.0), pair.server.status(ids.1));
            panic!("seed {seed}: data is missing and nothing happens: {ends:#?}");
        }
    }
    up.write(&mut pair.client, ids.0);
    down.write(&mut pair.server, ids.1);
    pair.run(Duration::from_secs(1000));
    let endings = (pair.client.status(ids.0), pair.server.status(ids.1));
    let client = endings.0.unwrap();
    let server = endings.1.unwrap();
    assert_eq!((client.state, server.state), (State::Closed, State::Closed), "seed {seed}");
    assert_eq!(client.statistics.bytes_in, lens.1 as u64, "seed {seed}");
    pair.client.release(ids.0);
    pair.server.release(ids.1);
    assert_eq!((pair.client.connections(), pair.server.connections()), (0, 0), "seed {seed}");
}

/// Delivers an ICMP error that reports a segment of the client as too long.
fn shrink_path(pair: &mut Pair, id: ConnectionId, next_hop_mtu: u16) {
    let connection = pair.client.table.get(id).unwrap();
    let local = connection.ends.local();
    let remote = connection.ends.remote();
    let ports = [local.port().to_be_bytes(), remote.port().to_be_bytes()];
    let mut first_bytes = [0; 8];
    first_bytes[..4].copy_from_slice(&ports.concat());
    first_bytes[4..].copy_from_slice(&connection.snd.una().0.to_be_bytes());
    let error = IcmpError {
        kind: ErrorKind::FragmentationNeeded { next_hop_mtu: Some(next_hop_mtu) },
        reporter: remote.ip(),
        protocol: Protocol::Tcp,
        source: local.ip(),
        destination: remote.ip(),
        first_bytes,
    };
    pair.client.icmp_error(&error, &mut pair.context.cx());
}

/// Runs a connection whose SYN carries data, with faults from the start. An earlier connection with
/// the same profile has obtained the Fast Open cookie.
fn run_early(seed: u64, lens: (usize, usize), faults: Faults) {
    let profile = Profile { fast_open: true, ..Profile::BULK };
    let mut pair = Pair::new(seed);
    let first_ids = pair.connect(profile);
    pair.client.abort(first_ids.0, &mut pair.context.cx()).unwrap();
    pair.client.release(first_ids.0);
    pair.server.release(first_ids.1);
    pair.drive();
    pair.events.clear();
    pair.faults = faults;
    let remote = SocketAddr::new(SERVER, PORT);
    let client = pair.client.open(CLIENT, remote, profile, &mut pair.context.cx()).unwrap();
    let accepted_bytes = pair.client.send(client, &pattern(lens.0.min(100))).unwrap();
    let is_accepted = |event: &&(Side, ConnectionId, Event)| {
        event.0 == Side::Server && event.2 == Event::Established
    };
    let end = pair.context.now + Duration::from_secs(1000);
    while pair.events.iter().find(is_accepted).is_none() {
        assert!(pair.step(end), "seed {seed}: nothing happens");
    }
    let server = pair.events.iter().find(is_accepted).unwrap().1;
    exchange(&mut pair, seed, (client, server), (lens, accepted_bytes), |_| ());
}

fn any_faults() -> impl Strategy<Value = Faults> {
    (0..150_000_u32, 0..100_000_u32, 0..200_000_u32).prop_map(|(lost, doubled, delayed)| Faults {
        lost,
        doubled,
        delayed,
    })
}

proptest! {
    #![proptest_config(cases(300))]

    // attack row 47
    #[test]
    fn attack_47_transfers_whose_numbers_soon_wrap_arrive_whole_and_end(
        seed: u64, up in 0..200_000_usize, down in 0..60_000_usize, faults in any_faults(),
        before_wrap in 0..100_000_u32, passes_zero: bool, is_client: bool, is_plain: bool,
    ) {
        let mut pair = Pair::new(seed);
        let wrap = if passes_zero { 0_u32 } else { 0x8000_0000 };
        let initial_number = wrap.wrapping_sub(before_wrap);
        if is_client {
            wrap::client_begins_at(&mut pair, initial_number);
        } else {
            wrap::server_begins_at(&mut pair, initial_number);
        }
        let ids = pair.connect(if is_plain { PLAIN } else { Profile::BULK });
        let numbers = pair.trace.iter().map(|sent| sent.2.seq);
        prop_assert!(numbers.take(2).any(|seq| seq == Seq(initial_number)));
        pair.faults = faults;
        exchange(&mut pair, seed, ids, ((up, down), 0), |_| ());
    }

    #[test]
    fn bulk_transfers_arrive_whole_and_end(
        seed: u64, up in 0..200_000_usize, down in 0..60_000_usize, faults in any_faults()
    ) {
        run(seed, Profile::BULK, (up, down), faults);
    }

    #[test]
    fn super_segments_over_a_path_that_shrinks_arrive_whole_and_end(
        seed: u64, up in 0..300_000_usize, down in 0..100_000_usize, faults in any_faults(),
        shrinks in prop::option::of((1..200_u32, 500..1500_u16)), nagle: bool, ecn: bool
    ) {
        let profile = Profile { nagle, ecn, ..Profile::BULK };
        let mut pair = Pair::new(seed);
        pair.client.lower.tso = true;
        pair.server.lower.tso = true;
        pair.keeps = true;
        let ids = pair.connect(profile);
        pair.faults = faults;
        let mut steps = 0;
        exchange(&mut pair, seed, ids, ((up, down), 0), |pair| {
            steps += 1;
            if let Some((_, mtu)) = shrinks.filter(|(at, _)| *at == steps) {
                shrink_path(pair, ids.0, mtu);
            }
        });
    }

    #[test]
    fn data_on_a_syn_and_before_its_answer_arrives_whole_and_ends(
        seed: u64, up in 100..20_000_usize, down in 0..20_000_usize, faults in any_faults()
    ) {
        run_early(seed, (up, down), faults);
    }

    #[test]
    fn plain_transfers_arrive_whole_and_end(
        seed: u64, up in 0..100_000_usize, down in 0..100_000_usize, faults in any_faults()
    ) {
        run(seed, PLAIN, (up, down), faults);
    }

    #[test]
    fn interactive_transfers_arrive_whole_and_end(
        seed: u64, up in 0..3_000_usize, down in 0..30_000_usize, faults in any_faults()
    ) {
        run(seed, Profile::INTERACTIVE, (up, down), faults);
    }

    #[test]
    fn a_silly_pair_of_tiny_windows_arrives_whole_and_ends(
        seed: u64, window in 1..700_usize, up in 0..5_000_usize, faults in any_faults()
    ) {
        let profile = Profile { receive_window: ReceiveWindow::Bytes(window), ..Profile::BULK };
        run(seed, profile, (up, up / 2), faults);
    }

    #[test]
    fn a_close_or_an_abort_at_any_time_ends_both_sides(
        seed: u64, steps in 0..200_usize, aborts: bool, faults in any_faults()
    ) {
        let mut pair = Pair::new(seed);
        let ids = pair.connect(Profile::BULK);
        pair.faults = faults;
        let end = pair.context.now + Duration::from_secs(10_000);
        pair.client.send(ids.0, &pattern(100_000)).unwrap();
        pair.server.send(ids.1, &pattern(100_000)).unwrap();
        for _ in 0..steps {
            pair.step(end);
        }
        if aborts {
            pair.client.abort(ids.0, &mut pair.context.cx()).unwrap();
        }
        pair.client.release(ids.0);
        pair.server.release(ids.1);
        pair.run(Duration::from_secs(1000));
        let connection_counts = (pair.client.connections(), pair.server.connections());
        prop_assert_eq!(connection_counts, (0, 0), "seed {}", seed);
    }
}
