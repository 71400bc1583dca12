//! Input: arbitrary bytes and frames into one end of a PPP link, alone or after both ends have
//! opened it. Checked: no packet leaks, delivered packets fit the MTU, and the timers stop.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use net::link::ppp::{Credentials, ESCAPE, FLAG, Method, RequiredAuthentication, Settings};
use net::link::{Event, Ppp};
use net::packet::Pool;
use std::net::Ipv4Addr;

const MTU: usize = 128;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let Some((settings, mut rest)) = input.split_first() else { return };
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, MTU);
    let mut ends = [end(*settings), end(settings ^ 0x40)];
    ends.iter_mut().for_each(|end| end.open(&mut bench.cx()));
    let [us, other] = &mut ends;
    if settings & 0x80 != 0 {
        for _ in 0..100 {
            carry(us, other, &mut pool, &mut bench);
            carry(other, us, &mut pool, &mut bench);
        }
    }
    other.reset(&mut pool);
    while let Some((&[kind, len], after)) = rest.split_first_chunk() {
        let (piece, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;
        match kind % 4 {
            0 => us.receive(piece, &mut pool, &mut bench.cx()),
            1 => us.receive(&frame(piece), &mut pool, &mut bench.cx()),
            2 => {
                bench.advance_to(us.deadline());
                us.timeout(&mut bench.cx());
            }
            _ => send(us, piece, &mut pool, &mut bench),
        }
        us.transmit_into(&mut Vec::new(), usize::from(len), &mut bench.cx());
        collect(us, &mut pool);
    }
    us.close(&mut bench.cx());
    us.reset(&mut pool);
    assert_eq!(pool.lent(), 0, "no packet leaks");
});

fn end(settings: u8) -> Ppp {
    let guest = || Credentials { name: String::from("guest"), secret: String::from("secret") };
    let method = if settings & 2 != 0 { Method::Pap } else { Method::Chap };
    Ppp::new(
        MTU,
        Settings {
            address: (settings & 4 != 0).then_some(Ipv4Addr::new(10, 0, 0, 1)),
            spare_address: Some(Ipv4Addr::new(10, 0, 0, 2)),
            wants_name_servers: settings & 8 != 0,
            credentials: Some(guest()),
            required_authentication: (settings & 1 != 0)
                .then(|| RequiredAuthentication { method, accepted: vec![guest()] }),
            ..Settings::default()
        },
    )
}

fn carry(from: &mut Ppp, to: &mut Ppp, pool: &mut Pool, bench: &mut Bench) {
    let mut line = Vec::new();
    from.transmit_into(&mut line, 64, &mut bench.cx());
    to.receive(&line, pool, &mut bench.cx());
    collect(to, pool);
}

fn send(end: &mut Ppp, data: &[u8], pool: &mut Pool, bench: &mut Bench) {
    let Some(mut packet) = pool.take(&mut bench.meter) else { return };
    packet.extend(data);
    if let Err(packet) = end.send(packet, &mut bench.cx()) {
        pool.put(packet);
    }
}

fn collect(end: &mut Ppp, pool: &mut Pool) {
    while let Some(event) = end.event() {
        if let Event::Received(packet) = &event {
            assert!((1..=MTU).contains(&packet.len()));
        }
        event.into_packet().into_iter().for_each(|packet| pool.put(packet));
    }
}

/// Returns a frame with a valid check sequence and every byte escaped.
fn frame(information: &[u8]) -> Vec<u8> {
    let check = information.iter().fold(0xFFFF_u16, |fcs, byte| {
        (0..8).fold(fcs ^ u16::from(*byte), |fcs, _| fcs >> 1 ^ (0x8408 * (fcs & 1)))
    });
    let bytes = information.iter().copied().chain((!check).to_le_bytes());
    let escaped = bytes.flat_map(|byte| [ESCAPE, byte ^ 0x20]);
    std::iter::once(FLAG).chain(escaped).chain([FLAG]).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let packet = |protocol: u16, packet: &[u8]| {
        let information = [&[0xFF, 3][..], &protocol.to_be_bytes(), packet].concat();
        [&[1, u8::try_from(information.len()).expect("the frame is short")][..], &information]
            .concat()
    };
    let request = packet(0xC021, &[1, 1, 0, 14, 1, 4, 5, 220, 5, 6, 1, 2, 3, 4]);
    vec![
        [&[0][..], &request, &packet(0xC021, &[2, 1, 0, 4]), &[2, 0]].concat(),
        [&[0x84][..], &packet(0x8021, &[1, 9, 0, 10, 3, 6, 10, 0, 0, 9]), &request].concat(),
        [&[0x85][..], &packet(0xC223, &[1, 7, 0, 9, 4, 1, 2, 3, 4]), &[2, 0, 2, 0]].concat(),
        [&[0x84][..], &packet(0x002D, &[0x4F, 0, 1, 2, b'x']), &[3, 3, 0x45, 1, 2]].concat(),
    ]
}
