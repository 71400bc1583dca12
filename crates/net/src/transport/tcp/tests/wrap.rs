//! Row 47 of the attack table: transfers whose sequence numbers pass 2^31 and 2^32.
//!
//! The initial sequence number is a clock plus a hash. The tests set the clock so that the sum is
//! the desired number. The scripts of all other files run again with such numbers in `past_zero.rs`
//! and `past_middle.rs`.

use super::*;

/// Returns the local end of the client's next connection.
fn end_of_client(pair: &Pair) -> SocketAddr {
    next_local_end(&pair.client, CLIENT, SocketAddr::new(SERVER, PORT), &pair.context)
}

/// Sets the initial sequence number of the client's next connection to `isn`.
pub(super) fn client_begins_at(pair: &mut Pair, isn: u32) {
    let ends = (end_of_client(pair), SocketAddr::new(SERVER, PORT));
    begin_at(&mut pair.client, ends, Instant::ZERO, Seq(isn));
}

/// Sets the initial sequence number of the server's next connection to `isn`.
pub(super) fn server_begins_at(pair: &mut Pair, isn: u32) {
    let ends = (SocketAddr::new(SERVER, PORT), end_of_client(pair));
    let arrival = Instant::ZERO + pair.delay;
    begin_at(&mut pair.server, ends, arrival, Seq(isn));
}

fn transfers_both_ways(mut pair: Pair, begin: Seq) {
    pair.faults = Faults { lost: 20_000, doubled: 10_000, delayed: 50_000 };
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

/// Modules that are not run again: those without scripts, and those that run the scripts.
const WITHOUT_SCRIPTS: [&str; 5] = ["mod", "script", "past_zero", "past_middle", "wrap"];

// attack row 47
#[test]
fn attack_47_every_file_of_scripts_runs_again_past_zero_and_past_the_middle() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/transport/tcp/tests");
    let read = |name: &str| std::fs::read_to_string(std::format!("{directory}/{name}.rs")).unwrap();
    let again = ["past_zero", "past_middle"].map(read);
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let has_scripts = path.is_file() && read(name).contains("Script::");
        if !has_scripts || WITHOUT_SCRIPTS.contains(&name) {
            continue;
        }
        for list in &again {
            assert!(list.contains(&std::format!("\nmod {name};\n")), "{name} does not run again");
        }
        count += 1;
    }
    assert_eq!(count, 25);
}

// attack row 47
#[test]
fn attack_47_client_sequence_numbers_cross_2_to_the_32() {
    let mut pair = Pair::new(1);
    client_begins_at(&mut pair, 0xFFFF_FF00);
    transfers_both_ways(pair, Seq(0xFFFF_FF00));
}

// attack row 47
#[test]
fn attack_47_client_sequence_numbers_cross_2_to_the_31() {
    let mut pair = Pair::new(2);
    client_begins_at(&mut pair, 0x7FFF_FF00);
    transfers_both_ways(pair, Seq(0x7FFF_FF00));
}

// attack row 47
#[test]
fn attack_47_server_sequence_numbers_cross_2_to_the_32() {
    let mut pair = Pair::new(3);
    server_begins_at(&mut pair, 0xFFFF_FF00);
    transfers_both_ways(pair, Seq(0xFFFF_FF00));
}

// attack row 47
#[test]
fn attack_47_server_sequence_numbers_cross_2_to_the_31() {
    let mut pair = Pair::new(4);
    server_begins_at(&mut pair, 0x7FFF_FF00);
    transfers_both_ways(pair, Seq(0x7FFF_FF00));
}

// attack row 47
#[test]
fn attack_47_the_initial_sequence_number_may_be_the_maximum() {
    let mut pair = Pair::new(5);
    client_begins_at(&mut pair, 0xFFFF_FFFF);
    transfers_both_ways(pair, Seq(0xFFFF_FFFF));
}
