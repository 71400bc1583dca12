//! A campaign of faults: two stations send each other files over a path that loses, repeats,
//! overtakes and damages datagrams, each run drawn from its seed.
//!
//! `PLUMB_SEEDS=1000` runs that many seeds, `PLUMB_SEED=17` runs the one that failed.

use protocols::Cx;
use protocols::application::Stream;
use protocols::chance::Chance;
use protocols::link::{Datagram, Link};
use protocols::meter::{Costs, Counter, Meter, Work};
use protocols::packet::Pool;
use protocols::station::{Carried, Opening, Settings};
use protocols::time::{Duration, Instant};
use protocols::transport::tcp::Profile;
use simulator::faults::Faults;
use simulator::line::Line;
use simulator::{Host, World};
use std::net::{Ipv4Addr, SocketAddr};

/// As many as a test of every day may take.
const SEEDS: u64 = 50;
/// Bytes of the longest file.
const FILE_MAX: u64 = 100_000;
/// Everything has ended long before, unless two ends keep each other awake.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// More than happens in any run: a world that turns on the spot is found by it.
const HAPPENINGS_MAX: u64 = 20_000_000;
const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 20;

/// Sends a file, and compares what it receives with the one that it expects.
#[derive(Debug)]
struct Bulk {
    file: Vec<u8>,
    sent: usize,
    /// How much of the file there is to send, and when there is more: small segments that are
    /// lost go again in one large one.
    ready: usize,
    more_at: Instant,
    pace: Pace,
    chance: Chance,
    expected: Vec<u8>,
    received: usize,
    /// Where what came first differs from what was expected.
    differs_at: Option<usize>,
    /// What was received less what was expected, as 16-bit words add up.
    excess: i64,
    /// It closes when the peer has, and not as soon as the file has gone.
    closes_second: bool,
    peer_has_closed: bool,
}

/// How a file comes to be ready.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The most bytes at a time.
    piece_max: u64,
    /// The longest time between two pieces, in milliseconds.
    pause_max_ms: u64,
}

impl Bulk {
    fn new(file: Vec<u8>, expected: Vec<u8>, pace: Pace, closes_second: bool) -> Self {
        Self {
            chance: Chance::from_seed(file.len() as u64),
            file,
            sent: 0,
            ready: 0,
            more_at: Instant::ZERO,
            pace,
            expected,
            received: 0,
            differs_at: None,
            excess: 0,
            closes_second,
            peer_has_closed: false,
        }
    }
}

impl Stream for Bulk {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        let expected = self.expected.get(self.received..).unwrap_or_default();
        if !expected.starts_with(data) {
            let same = expected.iter().zip(data).take_while(|(a, b)| a == b).count();
            self.differs_at.get_or_insert(self.received + same);
            for (place, (got, wanted)) in (self.received..).zip(data.iter().zip(expected)) {
                let weight = if place % 2 == 0 { 256 } else { 1 };
                self.excess += weight * (i64::from(*got) - i64::from(*wanted));
            }
        }
        self.received += data.len();
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.file.get(self.sent..self.ready).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.ready == self.file.len() && (self.peer_has_closed || !self.closes_second)
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_some_and(|more_at| more_at <= cx.now) {
            let piece = self.chance.below(self.pace.piece_max) + 1;
            let piece = usize::try_from(piece).unwrap_or(usize::MAX);
            self.ready = self.file.len().min(self.ready + piece);
            let pause_ms = self.chance.below(self.pace.pause_max_ms) + 1;
            self.more_at = cx.now + Duration::from_millis(pause_ms);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        (self.ready < self.file.len()).then_some(self.more_at)
    }
}

type Party = Host<Carried<Bulk>>;

/// Everything about a run that its seed decides.
#[derive(Clone, Copy, Debug)]
struct Scene {
    seed: u64,
    faults: Faults,
    delay: Duration,
    file_len: u64,
    answer_len: u64,
    profiles: [Profile; 2],
    paces: [Pace; 2],
    closes_second: [bool; 2],
    packets: [usize; 2],
}

impl Scene {
    fn draw(seed: u64) -> Self {
        let mut chance = Chance::from_seed(seed);
        let mut below = |limit: u64| chance.below(limit);
        let mut ppm = |limit: u64| u32::try_from(below(limit + 1)).unwrap_or(0);
        let faults = Faults {
            loss_ppm: ppm(200_000),
            duplication_ppm: ppm(100_000),
            reordering_ppm: ppm(300_000),
            held_back: Duration::from_millis(u64::from(ppm(60)) + 1),
            bit_error_ppm: ppm(1),
        };
        let profile = |choice| if choice == 0 { Profile::INTERACTIVE } else { Profile::BULK };
        let first_to_close = below(3);
        let paces = [0; 2].map(|_| match below(3) {
            0 => Pace { piece_max: FILE_MAX, pause_max_ms: 1 },
            1 => Pace { piece_max: 3_000, pause_max_ms: 100 },
            _ => Pace { piece_max: 200, pause_max_ms: 20 },
        });
        Self {
            seed,
            faults,
            delay: Duration::from_millis(below(100)),
            file_len: below(FILE_MAX),
            answer_len: below(FILE_MAX),
            profiles: [profile(below(3)), profile(below(3))],
            paces,
            closes_second: [first_to_close == 1, first_to_close == 2],
            packets: [0; 2].map(|_| if below(4) == 0 { 4 } else { Pool::DEFAULT_LIMIT }),
        }
    }

    fn world(&self) -> World<Carried<Bulk>, Carried<Bulk>> {
        let mut chance = Chance::from_seed(!self.seed);
        let mut file = |len: u64| (0..len).map(|_| (chance.next_u32() >> 24) as u8).collect();
        let (there, back): (Vec<u8>, Vec<u8>) = (file(self.file_len), file(self.answer_len));
        let user = Bulk::new(there.clone(), back.clone(), self.paces[0], self.closes_second[0]);
        let server = Bulk::new(back, there, self.paces[1], self.closes_second[1]);
        let remote = SocketAddr::new(SERVER.into(), PORT);
        let active = Opening::Active { local: USER.into(), remote };
        let user = Carried::new(user, active, self.profiles[0]);
        let server = Carried::new(server, Opening::Passive { port: PORT }, self.profiles[1]);
        let line = Line { faults: self.faults, ..Line::path(self.delay) };
        let costs = Work::ALL.iter().fold(Costs::default(), |costs, work| costs.with(*work, 7));
        let host = |address, packets, seed, application| {
            let settings = Settings { address, prefix_len: 24, packets, ..Settings::default() };
            let link = Link::Datagram(Datagram::new(1500));
            Host::new(link, settings, costs, seed, application)
        };
        let [user_packets, server_packets] = self.packets;
        let user = host(USER, user_packets, self.seed ^ 1, user);
        let server = host(SERVER, server_packets, self.seed ^ 2, server);
        World::new(user, server, line, self.seed)
    }

    /// Runs until both connections have ended and nothing is on the way.
    fn run(&self) -> Result<World<Carried<Bulk>, Carried<Bulk>>, Failure> {
        let (mut world, mut happenings) = (self.world(), 0);
        let end = Instant::ZERO + LIMIT;
        let driven = world.drive(|world| {
            happenings += 1;
            let is_over = world.user.application.is_over() && world.server.application.is_over();
            is_over || world.now() > end || happenings > HAPPENINGS_MAX
        });
        driven.map_err(|stuck| Failure::of(&world, &stuck.to_string()))?;
        if world.now() > end || happenings > HAPPENINGS_MAX {
            return Err(Failure::of(&world, &format!("no end after {happenings} happenings")));
        }
        world.run_until(world.now() + Duration::from_secs(1));
        Ok(world)
    }

    fn judge(&self) -> Result<(), Failure> {
        let world = self.run()?;
        for (name, host) in [("user", &world.user), ("server", &world.server)] {
            self.judge_host(host)
                .map_err(|what| Failure::of(&world, &format!("{name}: {what}")))?;
        }
        Ok(())
    }

    fn judge_host(&self, host: &Party) -> Result<(), String> {
        let stream = &host.application.stream;
        // Two inverted bits of one segment can leave its checksum as it was. That is nobody's
        // fault, and is told from a fault by just this: the sums agree.
        let is_unseen_damage = self.faults.bit_error_ppm > 0 && stream.excess % 0xFFFF == 0;
        if let Some(place) = stream.differs_at.filter(|_| !is_unseen_damage) {
            return Err(format!("byte {place} is not the one that was sent"));
        }
        let (received, expected) = (stream.received, stream.expected.len());
        if received != expected {
            return Err(format!("{received} bytes received of {expected}"));
        }
        if !(host.application.has_closed() && host.application.peer_has_closed()) {
            return Err(format!("it ended by {:?}", host.application.ending()));
        }
        if host.station.packets_lent() != 0 {
            return Err(format!("{} packets have leaked", host.station.packets_lent()));
        }
        if host.meter.accounts().iter().sum::<u64>() != host.meter.total() {
            return Err("the accounts do not add up to the total".to_owned());
        }
        Ok(())
    }
}

/// What was wrong with a run.
#[derive(Debug)]
struct Failure {
    what: String,
    /// An end heard nothing for longer than RFC 9293 §3.8.3 has it wait.
    gave_up: bool,
}

impl Failure {
    fn of(world: &World<Carried<Bulk>, Carried<Bulk>>, what: &str) -> Self {
        let end = |host: &Party| format!("{:?}", host.application.status(&host.station.layers));
        let (user, server) = (end(&world.user), end(&world.server));
        let gave_up = |meter: &Meter| meter.counted(Counter::TcpGivenUp) > 0;
        Self {
            what: format!("{what} at {}\n  user {user}\n  server {server}", world.now()),
            gave_up: gave_up(&world.user.meter) || gave_up(&world.server.meter),
        }
    }
}

/// Returns the seeds that the environment asks for.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match number("PLUMB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PLUMB_SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_and_both_ends_end_whatever_the_path_does() {
    let seeds = seeds();
    // Where a fifth is lost each way, nine tries in a row are lost now and then: in less than one
    // of two thousand runs. More of them would be a fault.
    let mut give_ups_left = (seeds.end - seeds.start) / 500;
    let failures: Vec<String> = seeds
        .filter_map(|seed| {
            let scene = Scene::draw(seed);
            let failure = scene.judge().err()?;
            if failure.gave_up && give_ups_left > 0 {
                give_ups_left -= 1;
                return None;
            }
            Some(format!("{}\n  {scene:?}\n  repeat: {}", failure.what, command(seed)))
        })
        .collect();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn command(seed: u64) -> String {
    format!("PLUMB_SEED={seed} cargo test -p simulator --test campaign")
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_nanosecond() {
    let counts = |meter: &Meter| (meter.total(), format!("{meter:?}"));
    let run = || {
        let world = Scene::draw(3).run().expect("it ends");
        (world.now(), counts(&world.user.meter), counts(&world.server.meter))
    };
    assert_eq!(run(), run());
}
