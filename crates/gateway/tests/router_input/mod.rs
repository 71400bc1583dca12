//! Arbitrary bytes of serial lines, arbitrary datagrams of the host and arbitrary calls of the
//! driver. The fuzz target `gateway_router` and the test `arbitrary_input` run it.
//!
//! Checked: nothing panics, each packet is counted once after each step, output has at most the
//! length that was requested, and no buffer is left when all lines are removed.

use gateway::queue::{Concentrator1982, Discipline};
use gateway::router::{LineId, LineProtocol, LineSettings, Router, RouterCounters, RouterSettings};
use net::checksum::Sum;
use net::cx::OwnedCx;
use net::time::Duration;
use std::net::Ipv4Addr;

const LINES: u8 = 4;
const PACKETS: usize = 32;
const MTU: usize = 1_280;
const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;

/// Reads the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the next byte, or 0 at the end of the input.
    fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn piece(&mut self) -> Vec<u8> {
        let len = usize::from(u16::from_be_bytes([self.next(), self.next()]) % 1_500);
        let (piece, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        piece.to_vec()
    }
}

struct Driver {
    router: Router,
    context: OwnedCx,
    lines: [Option<LineId>; LINES as usize],
}

/// Runs the steps that `input` describes, and returns the counters of the router.
pub(crate) fn run(input: &[u8]) -> RouterCounters {
    let mut input = Input(input);
    let mut driver = Driver::new(input.next());
    while let Some(verb) = input.byte() {
        driver.step(verb, &mut input);
        driver.assert_counted();
    }
    driver.finish()
}

fn line_settings(number: u8) -> LineSettings {
    let llp = LineSettings::llp(Ipv4Addr::new(10, 0, 0, 2 + number), 19_200);
    let prefix = [0x20, 1, 0xd, 0xb8, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0].into();
    match number {
        0 => llp,
        1 => LineSettings {
            protocol: LineProtocol::Slip { compresses_headers: false },
            mtu: MTU,
            prefix: Some((prefix, 64)),
            ..llp
        },
        2 => LineSettings {
            protocol: LineProtocol::Slip { compresses_headers: true },
            mtu: 296,
            discipline: Discipline::Of1982(Concentrator1982 { buffers: 4, ..Default::default() }),
            ..llp
        },
        _ => LineSettings {
            protocol: LineProtocol::Ppp(Box::default()),
            mtu: MTU,
            prefix: Some((prefix, 64)),
            ..llp
        },
    }
}

impl Driver {
    fn new(seed: u8) -> Self {
        let mut context = OwnedCx::with_seed(seed.into());
        let settings = RouterSettings {
            address_v6: Some([0x20, 1, 0xd, 0xb8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1].into()),
            host_mtu: MTU,
            line_mtu_max: MTU,
            lines_max: LINES.into(),
            packets_max: PACKETS,
            ..RouterSettings::default()
        };
        let router = Router::new(settings, &mut context.cx());
        let mut driver = Self { router, context, lines: [None; LINES as usize] };
        (0..LINES).for_each(|number| driver.toggle_line(number));
        driver
    }

    /// Removes the line `number`, or adds it if it does not exist.
    fn toggle_line(&mut self, number: u8) {
        let Some(line) = self.lines.get_mut(usize::from(number)) else { return };
        match line.take() {
            Some(id) => self.router.remove_line(id),
            None => {
                *line = self.router.add_line(line_settings(number), &mut self.context.cx()).ok();
            }
        }
    }

    /// Returns a line that exists, if `choice` selects one.
    fn line(&self, choice: u8) -> Option<LineId> {
        self.lines.get(usize::from(choice % LINES)).copied().flatten()
    }

    fn step(&mut self, verb: u8, input: &mut Input<'_>) {
        match verb % 8 {
            0 => {
                let line = self.line(input.next());
                let bytes = input.piece();
                self.receive(line, &bytes);
            }
            1 => {
                let line = self.line(input.next());
                let datagram = datagram(input);
                self.receive(line, &slip_frame(&datagram));
            }
            2 => {
                let bytes = input.piece();
                self.receive_from_host(&bytes);
            }
            3 | 4 => {
                let bytes = datagram(input);
                self.receive_from_host(&bytes);
            }
            5 => {
                let Some(line) = self.line(input.next()) else { return };
                let limit = usize::from(input.next()) + 1;
                let mut wire = Vec::new();
                let count =
                    self.router.transmit_into(line, &mut wire, limit, &mut self.context.cx());
                assert!(count == wire.len() && count <= limit);
            }
            6 => {
                let millis = u64::from(input.next()).pow(2);
                self.context.now = self.context.now + Duration::from_millis(millis);
                self.router.timeout(&mut self.context.cx());
                self.drain();
            }
            _ => self.toggle_line(input.next() % LINES),
        }
    }

    fn receive(&mut self, line: Option<LineId>, bytes: &[u8]) {
        if let Some(line) = line {
            self.router.receive(line, bytes, &mut self.context.cx());
        }
    }

    fn receive_from_host(&mut self, bytes: &[u8]) {
        let Some(mut packet) = self.router.take_packet(&mut self.context.cx()) else { return };
        packet.extend(bytes.get(..MTU).unwrap_or(bytes));
        self.router.receive_host(packet, &mut self.context.cx());
    }

    fn drain(&mut self) {
        while let Some(packet) = self.router.transmit_host(&mut self.context.cx()) {
            self.router.put_packet(packet);
        }
        while self.router.event().is_some() {}
    }

    fn assert_counted(&self) {
        let counters = self.router.counters();
        let held = u64::try_from(self.router.held()).unwrap_or(u64::MAX);
        let accounted =
            counters.transmitted + counters.drops.total() + counters.dropped_in_queues + held;
        assert_eq!(counters.received + counters.generated, accounted, "{counters:?}");
        assert!(self.router.packets_in_use() <= PACKETS);
    }

    fn finish(mut self) -> RouterCounters {
        for line in self.lines.iter_mut().filter_map(Option::take) {
            self.router.remove_line(line);
        }
        self.drain();
        assert_eq!((self.router.held(), self.router.packets_in_use()), (0, 0));
        self.router.counters()
    }
}

/// Returns a datagram with a valid header between hosts of the lines, the router and others. One
/// byte of the header may be changed before its checksum is computed.
fn datagram(input: &mut Input<'_>) -> Vec<u8> {
    let [from, to, protocol, hops, change_at, change] = [(); 6].map(|()| input.next());
    let payload = input.piece();
    let protocol = *[1, 6, 17, 58].get(usize::from(protocol % 4)).unwrap_or(&17);
    let is_v6 = from & 0x80 != 0;
    let len = payload.len();
    let mut header = if is_v6 {
        let [len0, len1] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
        let address =
            |host: u8| [[0x20, 1, 0xd, 0xb8, 0, 0, 0, host % 8], [0, 0, 0, 0, 0, 0, 0, 1]].concat();
        let head = [0x60, 0, 0, 0, len0, len1, protocol, hops];
        [&head[..], &address(from), &address(to)].concat()
    } else {
        let total = u16::try_from(len + IPV4_HEADER_LEN).unwrap_or(u16::MAX);
        let [len0, len1] = total.to_be_bytes();
        let head = [0x45, 0, len0, len1, 0, 1, 0, 0, hops, protocol, 0, 0];
        [&head[..], &[10, 0, 0, from % 8], &[10, 0, 0, to % 8]].concat()
    };
    if let Some(byte) = header.get_mut(usize::from(change_at)) {
        *byte = change;
    }
    if !is_v6 {
        let checksum = Sum::default().bytes(&header).finish().to_be_bytes();
        header.get_mut(10..12).into_iter().for_each(|field| field.copy_from_slice(&checksum));
    }
    debug_assert!(header.len() == if is_v6 { IPV6_HEADER_LEN } else { IPV4_HEADER_LEN });
    [header, payload].concat()
}

/// Returns a datagram in the framing of SLIP. Other links take it for arbitrary bytes.
fn slip_frame(datagram: &[u8]) -> Vec<u8> {
    let escaped = datagram.iter().flat_map(|byte| match byte {
        0xC0 => vec![0xDB, 0xDC],
        0xDB => vec![0xDB, 0xDD],
        byte => vec![*byte],
    });
    [0xC0].into_iter().chain(escaped).chain([0xC0]).collect()
}
