//! Attack row 47: transfers whose numbers pass 2^31 and 2^32.
//!
//! The initial number is a clock plus a hash, so the clock is set to where the number is wanted.

use super::*;

/// Sets the clock so that the next connection of the client begins at `isn`.
fn client_begins_at(pair: &mut Pair, isn: u32) {
    let ports = u64::from(EPHEMERAL_PORTS.end - EPHEMERAL_PORTS.start);
    let offset = u16::try_from(pair.lab.chance.clone().below(ports)).unwrap();
    let local = SocketAddr::new(CLIENT, EPHEMERAL_PORTS.start + offset);
    let hash = pair.client.secret.isn(local, SocketAddr::new(SERVER, PORT), Instant::ZERO);
    let ticks = Seq(isn).since(hash);
    pair.lab.now = Instant::from_nanos(u64::from(ticks) * 4_000);
}

/// The same for the answer of the server.
fn server_begins_at(pair: &mut Pair, isn: u32) {
    let ports = u64::from(EPHEMERAL_PORTS.end - EPHEMERAL_PORTS.start);
    let offset = u16::try_from(pair.lab.chance.clone().below(ports)).unwrap();
    let remote = SocketAddr::new(CLIENT, EPHEMERAL_PORTS.start + offset);
    let hash = pair.server.secret.isn(SocketAddr::new(SERVER, PORT), remote, Instant::ZERO);
    let ticks = Seq(isn).since(hash);
    pair.lab.now = Instant::from_nanos(u64::from(ticks) * 4_000 - 5_000_000);
}

fn transfers_both_ways(mut pair: Pair, begin: Seq) {
    pair.faults = Faults { lost: 20_000, doubled: 10_000, late: 50_000 };
    let (client, server) = pair.connect(Profile::BULK);
    let numbers = pair.trace.iter().map(|sent| sent.2.seq);
    assert!(numbers.take(2).any(|seq| seq == begin), "it begins where it should");
    let data = pattern(150_000);
    assert!(pair.transfer(Side::Client, (client, server), &data) == data);
    assert!(pair.transfer(Side::Server, (server, client), &data) == data);
    pair.client.release(client);
    pair.server.release(server);
    pair.run(Duration::from_secs(400));
    assert_eq!((pair.client.connections(), pair.server.connections()), (0, 0));
}

#[test]
fn attack_47_the_numbers_of_the_client_pass_zero() {
    let mut pair = Pair::new(1);
    client_begins_at(&mut pair, 0xFFFF_FF00);
    transfers_both_ways(pair, Seq(0xFFFF_FF00));
}

#[test]
fn attack_47_the_numbers_of_the_client_pass_the_middle() {
    let mut pair = Pair::new(2);
    client_begins_at(&mut pair, 0x7FFF_FF00);
    transfers_both_ways(pair, Seq(0x7FFF_FF00));
}

#[test]
fn attack_47_the_numbers_of_the_server_pass_zero() {
    let mut pair = Pair::new(3);
    server_begins_at(&mut pair, 0xFFFF_FF00);
    transfers_both_ways(pair, Seq(0xFFFF_FF00));
}

#[test]
fn attack_47_the_numbers_of_the_server_pass_the_middle() {
    let mut pair = Pair::new(4);
    server_begins_at(&mut pair, 0x7FFF_FF00);
    transfers_both_ways(pair, Seq(0x7FFF_FF00));
}

#[test]
fn attack_47_the_first_number_of_all_may_be_the_last() {
    let mut pair = Pair::new(5);
    client_begins_at(&mut pair, 0xFFFF_FFFF);
    transfers_both_ways(pair, Seq(0xFFFF_FFFF));
}
