//! Tests of the router, with the far ends of its lines.

mod forwarding;
mod links;
mod robustness;
mod soak;
mod windows;

use super::*;
use net::OwnedCx;
use net::link::{Event as LinkEvent, Link, Llp, Ppp, Slip, ppp};

pub(super) const ROUTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Returns an address of the network of the test datagrams.
pub(super) const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

pub(super) fn slip_line(host: u8) -> LineSettings {
    LineSettings {
        protocol: LineProtocol::Slip { compresses_headers: false },
        mtu: 1_500,
        rate_bps: None,
        ..LineSettings::llp(address(host), 9_600)
    }
}

/// A router, and the host at each of its lines.
pub(super) struct Fixture {
    pub(super) router: Router,
    pub(super) lines: Vec<(LineId, Link)>,
    pool: Pool,
    pub(super) context: OwnedCx,
}

impl Fixture {
    pub(super) fn new(lines: Vec<LineSettings>) -> Self {
        let settings = RouterSettings {
            address: ROUTER_ADDRESS,
            address_v6: Some("2001:db8::1".parse().unwrap()),
            ..RouterSettings::default()
        };
        let mut context = OwnedCx::default();
        let mut router = Router::new(settings, &mut context.cx());
        let lines = lines
            .into_iter()
            .map(|line| {
                let end = end_of(&line);
                (router.add_line(line, &mut context.cx()).unwrap(), end)
            })
            .collect();
        Self { router, lines, pool: Pool::new(10_000, 1_500), context }
    }

    /// Sends a datagram from the host at a line, and carries all bytes of all lines.
    pub(super) fn send(&mut self, line: usize, datagram: &[u8]) {
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(datagram);
        self.lines[line].1.send(packet, &mut self.context.cx()).unwrap();
        self.carry();
    }

    /// Passes a datagram from the host at a line to the router, without carrying output back.
    pub(super) fn inject(&mut self, line: usize, datagram: &[u8]) {
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(datagram);
        let (id, end) = &mut self.lines[line];
        if let Err(packet) = end.send(packet, &mut self.context.cx()) {
            self.pool.put(packet);
        }
        let mut wire = Vec::new();
        end.transmit_into(&mut wire, 10_000, &mut self.context.cx());
        self.router.receive(*id, &wire, &mut self.context.cx());
    }

    /// Passes a datagram of the host to the router, and carries all bytes of all lines.
    pub(super) fn send_from_host(&mut self, datagram: &[u8]) {
        self.enqueue_from_host(datagram);
        self.carry();
    }

    /// Passes a datagram of the host to the router.
    pub(super) fn enqueue_from_host(&mut self, datagram: &[u8]) {
        let mut packet = self.router.take_packet(&mut self.context.cx()).unwrap();
        packet.extend(datagram);
        self.router.receive_host(packet, &mut self.context.cx());
    }

    /// Carries bytes in both directions of each line until all lines are idle.
    pub(super) fn carry(&mut self) {
        loop {
            let mut is_idle = true;
            for (id, end) in &mut self.lines {
                let mut wire = Vec::new();
                end.transmit_into(&mut wire, 2_048, &mut self.context.cx());
                self.router.receive(*id, &wire, &mut self.context.cx());
                is_idle &= wire.is_empty();
                wire.clear();
                self.router.transmit_into(*id, &mut wire, 2_048, &mut self.context.cx());
                end.receive(&wire, &mut self.pool, &mut self.context.cx());
                is_idle &= wire.is_empty();
            }
            if is_idle {
                return self.assert_balanced();
            }
        }
    }

    /// Returns the datagrams that the host at a line has received since the last call.
    pub(super) fn received(&mut self, line: usize) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        while let Some(event) = self.lines[line].1.event() {
            let is_received = matches!(event, LinkEvent::Received(_));
            let Some(packet) = event.into_packet() else { continue };
            if is_received {
                received.push(packet.data().to_vec());
            }
            self.pool.put(packet);
        }
        received
    }

    /// Returns the datagrams for the host since the last call.
    pub(super) fn received_by_host(&mut self) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        while let Some(packet) = self.router.transmit_host(&mut self.context.cx()) {
            received.push(packet.data().to_vec());
            self.router.put_packet(packet);
        }
        self.assert_balanced();
        received
    }

    pub(super) fn assert_balanced(&self) {
        assert_balanced(&self.router);
    }
}

/// Asserts that each packet is counted once, and that no buffer is lost.
pub(super) fn assert_balanced(router: &Router) {
    let counters = router.counters();
    let held = router.held() as u64;
    assert_eq!(
        counters.received + counters.generated,
        counters.transmitted + counters.drops.total() + counters.dropped_in_queues + held,
        "{counters:?}"
    );
}

/// Returns the link of the host at a line.
pub(super) fn end_of(line: &LineSettings) -> Link {
    match &line.protocol {
        LineProtocol::Llp { compresses_headers } => {
            let llp = Llp::with_queue_limit(line.mtu, 1_000);
            Link::Llp(if *compresses_headers { llp.with_header_compression() } else { llp })
        }
        LineProtocol::Slip { compresses_headers } => {
            let slip = Slip::with_queue_limit(line.mtu, 1_000);
            Link::Slip(if *compresses_headers { slip.with_header_compression() } else { slip })
        }
        LineProtocol::Ppp(_) => {
            let settings = ppp::Settings { echo_interval: None, ..ppp::Settings::default() };
            Link::Ppp(Box::new(Ppp::with_queue_limit(line.mtu, 1_000, settings)))
        }
    }
}
