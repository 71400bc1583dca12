//! Random networks: lines with faults, hosts that vanish, and a host output that stalls. The seed
//! determines a run.

use super::*;
use crate::queue::testing::{tcp4, udp4, udp6};
use crate::queue::{Concentrator1982, Discipline};
use net::rng::Rng;
use net::time::Duration;

/// Number of runs; ten times as many with PLUMB_LONG.
const SEEDS: u64 = 1_000;
const STEPS: u64 = 120;
const PACKETS_MAX: usize = 150;
const LINES_MAX: usize = 5;
/// Hosts 2 to 9 are at lines.
const HOSTS: u64 = 8;
const MILLION: u64 = 1_000_000;

/// A line, and its host while it is present.
struct Line {
    id: LineId,
    settings: LineSettings,
    end: Option<Link>,
}

struct Soak {
    router: Router,
    lines: Vec<Line>,
    pool: Pool,
    context: OwnedCx,
    /// Random choices of the test; the router has its own generator.
    choices: Rng,
    /// Probability of a lost and of a damaged byte, in parts per million.
    faults_ppm: [u64; 2],
}

impl Soak {
    fn new(seed: u64) -> Self {
        let settings = RouterSettings {
            address: ROUTER_ADDRESS,
            address_v6: Some("2001:db8::1".parse().unwrap()),
            lines_max: LINES_MAX,
            packets_max: PACKETS_MAX,
            ..RouterSettings::default()
        };
        let mut context = OwnedCx::with_seed(seed);
        let mut choices = Rng::from_seed(!seed);
        let faults_ppm = [0, 0].map(|_: u64| match choices.below(3) {
            0 => 0,
            1 => 1_000,
            _ => 20_000,
        });
        let router = Router::new(settings, &mut context.cx());
        let pool = Pool::new(10_000, 1_500);
        Self { router, lines: Vec::new(), pool, context, choices, faults_ppm }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.choices.below(limit as u64)).unwrap()
    }

    fn host(&mut self) -> u8 {
        u8::try_from(2 + self.choices.below(HOSTS)).unwrap()
    }

    fn step(&mut self) {
        match self.below(20) {
            0 => self.add_line(),
            1 => self.vanish_or_return(),
            2 if self.below(4) == 0 => self.remove_line(),
            2..=6 => self.send_from_host(),
            7..=11 => self.send_from_line(),
            12 => self.drain_host(),
            13 | 14 => {
                let ms = self.choices.below(2_000);
                self.advance(Duration::from_millis(ms));
            }
            _ => self.carry(),
        }
        assert_balanced(&self.router);
        // The router lends no more than its limit.
        assert!(self.router.packets_in_use() <= PACKETS_MAX);
    }

    fn add_line(&mut self) {
        let host = self.host();
        let compresses_headers = self.below(2) == 0;
        let protocol = match self.below(3) {
            0 => LineProtocol::Llp { compresses_headers },
            1 => LineProtocol::Slip { compresses_headers },
            _ => LineProtocol::Ppp(Box::default()),
        };
        let has_prefix = self.below(2) == 0;
        let prefix = std::net::Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, u16::from(host));
        let settings = LineSettings {
            protocol,
            mtu: if has_prefix { 1_280 } else { 296 + self.below(1_000) },
            rate_bps: Some(9_600 << self.below(8)),
            prefix: has_prefix.then_some((prefix, 128)),
            discipline: match self.below(3) {
                0 => Discipline::Of1982(Concentrator1982::default()),
                _ => Discipline::Fair,
            },
            marks_ecn: self.below(2) == 0,
            ..LineSettings::llp(address(host), 9_600)
        };
        let result = self.router.add_line(settings.clone(), &mut self.context.cx());
        let is_expected = self.lines.len() >= LINES_MAX
            || self.lines.iter().any(|line| line.settings.address == settings.address);
        assert_eq!(result.is_err(), is_expected, "{result:?}");
        if let Ok(id) = result {
            self.lines.push(Line { id, settings, end: None });
            let index = self.lines.len() - 1;
            self.set_present(index, true);
        }
    }

    fn remove_line(&mut self) {
        if !self.lines.is_empty() {
            let index = self.below(self.lines.len());
            self.set_present(index, false);
            self.router.remove_line(self.lines.remove(index).id);
        }
    }

    fn vanish_or_return(&mut self) {
        if !self.lines.is_empty() {
            let index = self.below(self.lines.len());
            let is_present = self.lines[index].end.is_none();
            self.set_present(index, is_present);
        }
    }

    fn set_present(&mut self, index: usize, is_present: bool) {
        let line = &mut self.lines[index];
        if let Some(end) = &mut line.end {
            end.reset(&mut self.pool);
        }
        line.end = is_present.then(|| end_of(&line.settings));
        if let Some(Link::Ppp(ppp)) = &mut line.end {
            ppp.open(&mut self.context.cx());
        }
    }

    fn datagram(&mut self, source: u8) -> Vec<u8> {
        let destination =
            if self.below(3) == 0 { 200 - u8::from(self.below(2) == 0) * 199 } else { self.host() };
        let len = 8 + self.below(1_400);
        let port = u16::try_from(self.below(5)).unwrap();
        let mut datagram = match self.below(3) {
            0 => udp4(source, destination, port, len),
            1 => tcp4(source, destination, port, len),
            _ => udp6(source, destination, port, len),
        };
        if self.below(10) == 0 {
            let at = self.below(datagram.len());
            datagram[at] ^= 1 << self.below(8);
        }
        datagram
    }

    fn send_from_host(&mut self) {
        for _ in 0..=self.below(40) {
            let datagram = self.datagram(200);
            let Some(mut packet) = self.router.take_packet(&mut self.context.cx()) else { return };
            packet.extend(&datagram);
            self.router.receive_host(packet, &mut self.context.cx());
        }
    }

    fn send_from_line(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let index = self.below(self.lines.len());
        let [.., host] = self.lines[index].settings.address.octets();
        for _ in 0..=self.below(10) {
            let datagram = self.datagram(host);
            let Some(end) = &mut self.lines[index].end else { return };
            let mut packet = self.pool.take(&mut self.context.meter).unwrap();
            packet.extend(&datagram);
            if let Err(packet) = end.send(packet, &mut self.context.cx()) {
                self.pool.put(packet);
            }
        }
    }

    fn drain_host(&mut self) {
        while let Some(packet) = self.router.transmit_host(&mut self.context.cx()) {
            self.router.put_packet(packet);
        }
    }

    fn advance(&mut self, time: Duration) {
        self.context.advance(time);
        self.router.timeout(&mut self.context.cx());
        for line in &mut self.lines {
            if let Some(end) = &mut line.end {
                end.timeout(&mut self.context.cx());
            }
        }
    }

    /// Carries some bytes of each line in both directions, with faults.
    fn carry(&mut self) {
        let limit = 1 + self.below(4_000);
        for index in 0..self.lines.len() {
            let mut wire = Vec::new();
            let id = self.lines[index].id;
            self.router.transmit_into(id, &mut wire, limit, &mut self.context.cx());
            self.damage(&mut wire);
            let line = &mut self.lines[index];
            let Some(end) = &mut line.end else { continue };
            end.receive(&wire, &mut self.pool, &mut self.context.cx());
            wire.clear();
            end.transmit_into(&mut wire, limit, &mut self.context.cx());
            while let Some(event) = end.event() {
                if let Some(packet) = event.into_packet() {
                    self.pool.put(packet);
                }
            }
            self.damage(&mut wire);
            self.router.receive(id, &wire, &mut self.context.cx());
        }
    }

    fn damage(&mut self, wire: &mut Vec<u8>) {
        let [loss_ppm, error_ppm] = self.faults_ppm;
        let choices = &mut self.choices;
        wire.retain_mut(|byte| {
            if choices.below(MILLION) < error_ppm {
                *byte ^= 1 << choices.below(8);
            }
            choices.below(MILLION) >= loss_ppm
        });
    }

    /// Ends the faults, and carries until the lines of hosts that are present have sent everything.
    fn finish(mut self) -> RouterCounters {
        self.faults_ppm = [0, 0];
        for index in 0..self.lines.len() {
            self.set_present(index, false);
            self.set_present(index, true);
        }
        for _ in 0..400 {
            if self.router.held() == 0 {
                break;
            }
            self.carry();
            self.drain_host();
            self.advance(Duration::from_millis(500));
        }
        assert_eq!(self.router.held(), 0, "lines: {:?}", self.lines.len());
        for index in 0..self.lines.len() {
            self.set_present(index, false);
            self.router.remove_line(self.lines[index].id);
        }
        assert_balanced(&self.router);
        assert_eq!((self.router.packets_in_use(), self.pool.lent()), (0, 0));
        self.router.counters()
    }
}

fn run(seed: u64) -> RouterCounters {
    let mut soak = Soak::new(seed);
    (0..STEPS).for_each(|_| soak.step());
    soak.finish()
}

#[test]
fn nothing_leaks_and_every_packet_is_counted_in_random_networks() {
    let factor = if std::env::var_os("PLUMB_LONG").is_some() { 10 } else { 1 };
    let mut sum = RouterCounters::default();
    for seed in 0..SEEDS * factor {
        let counters = std::panic::catch_unwind(|| run(seed))
            .unwrap_or_else(|_| panic!("the run with seed {seed} has failed"));
        sum.received += counters.received;
        sum.transmitted += counters.transmitted;
        sum.errors_sent += counters.errors_sent;
        sum.windows_lowered += counters.windows_lowered;
        sum.dropped_in_queues += counters.dropped_in_queues;
        sum.generated += counters.generated;
    }
    // The runs reach the rare branches.
    assert!(sum.received > 100_000 && sum.transmitted > 50_000, "{sum:?}");
    assert!(sum.errors_sent > 1_000 && sum.dropped_in_queues > 1_000, "{sum:?}");
    assert!(sum.generated > sum.errors_sent + 1_000, "{sum:?}");
}

#[test]
fn a_repeated_run_has_the_same_counters() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}
