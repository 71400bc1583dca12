//! Random faults, transfers both ways and closes at random times, for both profiles.
//!
//! Each byte arrives once and in order, both sides come to an end, no packet is lost, and as long
//! as data is missing there is something to happen. A failure prints the seed.

use super::*;
use proptest::prelude::*;

/// What one side has to send and has received.
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

    /// Gives `tcp` what it takes, and closes behind the last byte.
    fn write(&mut self, tcp: &mut Tcp, id: ConnectionId) {
        self.sent += tcp.send(id, &self.data[self.sent..]).unwrap();
        if self.sent == self.data.len() && !self.is_closed {
            tcp.close(id).unwrap();
            self.is_closed = true;
        }
    }

    /// Reads up to `most` bytes of the other side's data; returns whether there were any.
    fn read(&mut self, tcp: &mut Tcp, id: ConnectionId, most: usize) -> bool {
        let data = tcp.received(id).unwrap();
        let count = data.len().min(most);
        self.received.extend_from_slice(&data[..count]);
        tcp.consume(id, count).unwrap();
        count > 0
    }
}

fn run(seed: u64, profile: Profile, lens: (usize, usize), faults: Faults) {
    let mut pair = Pair::new(seed);
    let ids = pair.connect(profile);
    pair.faults = faults;
    let (mut up, mut down) = (Flow::new(lens.0), Flow::new(lens.1));
    let end = pair.lab.now + Duration::from_secs(100_000);
    while up.received != up.data || down.received != down.data {
        let most = usize::try_from(pair.dice.below(3000)).unwrap() + 1;
        up.write(&mut pair.client, ids.0);
        down.write(&mut pair.server, ids.1);
        let has_read =
            up.read(&mut pair.server, ids.1, most) | down.read(&mut pair.client, ids.0, most);
        assert!(up.data.starts_with(&up.received), "seed {seed}: each byte once, in order");
        assert!(down.data.starts_with(&down.received), "seed {seed}: each byte once, in order");
        let happens = pair.step(end);
        if !happens && !has_read {
            let ends = (pair.client.status(ids.0), pair.server.status(ids.1));
            panic!("seed {seed}: data is missing and nothing happens: {ends:#?}");
        }
    }
    up.write(&mut pair.client, ids.0);
    down.write(&mut pair.server, ids.1);
    pair.run(Duration::from_secs(1000));
    let endings = (pair.client.status(ids.0), pair.server.status(ids.1));
    let (client, server) = (endings.0.unwrap(), endings.1.unwrap());
    assert_eq!((client.state, server.state), (State::Closed, State::Closed), "seed {seed}");
    assert_eq!(client.statistics.bytes_in, lens.1 as u64, "seed {seed}");
    pair.client.release(ids.0);
    pair.server.release(ids.1);
    assert_eq!((pair.client.connections(), pair.server.connections()), (0, 0), "seed {seed}");
}

fn any_faults() -> impl Strategy<Value = Faults> {
    (0..150_000_u32, 0..100_000_u32, 0..200_000_u32).prop_map(|(lost, doubled, late)| Faults {
        lost,
        doubled,
        late,
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn bulk_transfers_arrive_whole_and_end(
        seed: u64, up in 0..200_000_usize, down in 0..60_000_usize, faults in any_faults()
    ) {
        run(seed, Profile::BULK, (up, down), faults);
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
        let profile = Profile { receive_window: window, ..Profile::BULK };
        run(seed, profile, (up, up / 2), faults);
    }

    #[test]
    fn a_close_or_an_abort_at_any_time_ends_both_sides(
        seed: u64, steps in 0..200_usize, aborts: bool, faults in any_faults()
    ) {
        let mut pair = Pair::new(seed);
        let ids = pair.connect(Profile::BULK);
        pair.faults = faults;
        let end = pair.lab.now + Duration::from_secs(10_000);
        pair.client.send(ids.0, &pattern(100_000)).unwrap();
        pair.server.send(ids.1, &pattern(100_000)).unwrap();
        for _ in 0..steps {
            pair.step(end);
        }
        if aborts {
            pair.client.abort(ids.0, &mut pair.lab.cx()).unwrap();
        }
        pair.client.release(ids.0);
        pair.server.release(ids.1);
        pair.run(Duration::from_secs(1000));
        let left = (pair.client.connections(), pair.server.connections());
        prop_assert_eq!(left, (0, 0), "seed {}", seed);
    }
}
