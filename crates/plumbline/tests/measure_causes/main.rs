//! Tests that `plumb measure` names the cause of slowness with real servers: Debian's Telnet
//! servers, vsftpd and `plumb serve`, over a packet relay between two network namespaces.
//!
//! These tests run real programs in real time, so the result also depends on the load of the
//! machine. Therefore they run only with `./x test --long`. `crates/simulator/tests/causes` tests
//! the same causes in virtual time.
//!
//! Each cause is measured `PLUMB_CAUSES_ROUNDS` times, by default once. If one of the verdicts does
//! not name the cause first, the cause is measured at least three times. A line on stdout reports
//! the share of rounds whose verdict names the cause first. The relay drops packets at random; the
//! seed of each round is derived from `PLUMB_CAUSES_SEED` (by default 1). Each test has its own
//! network namespaces.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
#![expect(clippy::print_stdout, reason = "a test says how often a cause was named")]

mod measured_servers;
mod relayed_path;

use measured_servers::{BUSYBOX, INETUTILS, Telnetd};
use records::Measurement;
use relayed_path::RelayedPath;
use std::time::Duration;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

const NAGLE: &str = "Nagle's algorithm on the remote host costs";

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn rounds() -> usize {
    number("PLUMB_CAUSES_ROUNDS").map_or(1, |rounds| usize::try_from(rounds).unwrap())
}

/// Returns the number in the variable `name`, if it is set.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: '{text}'")))
}

/// Measures [`rounds`] times, and at least three times if a verdict does not begin with one of
/// `beginnings`, since other load on the machine may spoil one measurement. Returns the number of
/// measurements and the verdicts with another beginning.
fn measure_repeatedly(
    injected: &str,
    beginnings: &[&str],
    mut measure: impl FnMut() -> Measurement,
) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut wanted_count = rounds();
    let mut other_verdicts = Vec::new();
    while count < wanted_count {
        let record = measure();
        count += 1;
        if !beginnings.iter().any(|beginning| record.verdict.starts_with(beginning)) {
            other_verdicts.push(record.verdict);
            wanted_count = wanted_count.max(3);
        }
    }
    let named_count = count - other_verdicts.len();
    println!("{injected}: named first {named_count} of {count}; instead: {other_verdicts:?}");
    (count, other_verdicts)
}

/// Measures repeatedly, and checks that at least two of three verdicts begin with one of
/// `beginnings`.
fn assert_named_first(injected: &str, beginnings: &[&str], measure: impl FnMut() -> Measurement) {
    let (count, others) = measure_repeatedly(injected, beginnings, measure);
    assert!(others.len() * 3 <= count, "{injected}: {others:#?}");
}

/// Measures repeatedly, and checks that no verdict names Nagle's algorithm at the server.
fn assert_nagle_not_named(healthy: &str, mut measure: impl FnMut() -> Measurement) {
    for _ in 0..rounds() {
        let verdict = measure().verdict;
        assert!(!verdict.contains("Nagle"), "{healthy}: {verdict}");
    }
    println!("{healthy}: no Nagle in {}", rounds());
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn nagle_of_a_telnet_server_on_a_short_path_is_named_first() {
    assert_named_first("Nagle of busybox telnetd", &[NAGLE], || {
        measured_servers::measure_login(RelayedPath::default(), BUSYBOX)
    });
    assert_named_first("Nagle of inetutils telnetd", &[NAGLE], || {
        measured_servers::measure_login(RelayedPath::default(), INETUTILS)
    });
    assert_named_first("Nagle of busybox telnetd, for a TCP of plumb's own", &[NAGLE], || {
        measured_servers::measure_over_tun(BUSYBOX)
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn nagle_is_not_named_for_a_server_without_it() {
    assert_nagle_not_named("busybox telnetd with TCP_NODELAY", || {
        measured_servers::measure_login(RelayedPath::default(), BUSYBOX.with_nodelay())
    });
    assert_nagle_not_named("inetutils telnetd with TCP_NODELAY", || {
        measured_servers::measure_login(RelayedPath::default(), INETUTILS.with_nodelay())
    });
    assert_nagle_not_named("busybox telnetd with TCP_NODELAY, for a TCP of plumb's own", || {
        measured_servers::measure_over_tun(BUSYBOX.with_nodelay())
    });
    assert_nagle_not_named("plumb serve", || {
        measured_servers::measure_plumb_serve(RelayedPath::default())
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_long_path_is_named_together_with_nagle() {
    let path = RelayedPath { delay: ms(60), ..RelayedPath::default() };
    let measured = measured_servers::measure_login(path, BUSYBOX);
    // Nagle's algorithm adds one round trip to each screen and to keys typed in quick succession,
    // so the verdict names both causes.
    let accepted_verdicts = [NAGLE, "The round-trip time of the path costs 12"];
    assert!(
        accepted_verdicts.iter().all(|one| measured.verdict.contains(one)),
        "{}",
        measured.verdict
    );
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_long_path_to_a_server_without_nagle_is_named_first() {
    let path = RelayedPath { delay: ms(60), ..RelayedPath::default() };
    assert_named_first("distance", &["The round-trip time of the path costs 12"], || {
        measured_servers::measure_login(path, BUSYBOX.with_nodelay())
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_loss_of_one_packet_in_fifteen_is_named_first() {
    let path = RelayedPath { delay: ms(10), loss_divisor: Some(15), ..RelayedPath::default() };
    // The wording of the verdict depends on which packets were lost.
    let beginnings = [
        "Packet loss costs",
        "Occasional packet loss costs",
        "Waiting for retransmission timeouts costs",
    ];
    assert_named_first("loss", &beginnings, || {
        measured_servers::measure_login(path, BUSYBOX.with_nodelay())
    });
}

/// Accepted verdicts for a token bucket in front of a login: an empty bucket resembles a slow line.
const BUCKET_OF_LOGIN: [&str; 2] =
    ["A rate limiter on the path costs", "The rate of the slowest link costs"];
/// Accepted verdicts for a token bucket in front of file transfers.
const BUCKET_OF_FILES: [&str; 2] = [
    "A rate limiter (token bucket) on the path costs",
    "The rate of the path's slowest link costs",
];

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_token_bucket_in_front_of_a_login_is_named_first() {
    let limit = &["tbf", "rate", "1mbit", "burst", "40kb", "latency", "50ms"];
    let path = RelayedPath { limit, delay: ms(2), ..RelayedPath::default() };
    assert_named_first("tbf of 1 Mbit/s, a login", &BUCKET_OF_LOGIN, || {
        measured_servers::measure_login(path, BUSYBOX.with_nodelay())
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_token_bucket_in_front_of_files_is_named_first() {
    let limits: [(&str, &'static [&'static str], usize); 3] = [
        ("1", &["tbf", "rate", "1mbit", "burst", "20kb", "latency", "50ms"], 300_000),
        ("10", &["tbf", "rate", "10mbit", "burst", "40kb", "latency", "50ms"], 3_000_000),
        ("50", &["tbf", "rate", "50mbit", "burst", "100kb", "latency", "50ms"], 12_000_000),
    ];
    for (rate, limit, bytes) in limits {
        for delay in [Duration::ZERO, ms(5)] {
            let path = RelayedPath { limit, delay, ..RelayedPath::default() };
            let description = format!("tbf of {rate} Mbit/s, files, {delay:?}");
            let words = &["--rounds", "1", "ftp://10.0.0.1:2121/pub/file"];
            let measure = || measured_servers::measure_files(path, bytes, words);
            assert_named_first(&description, &BUCKET_OF_FILES, measure);
        }
    }
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_small_receive_buffer_of_the_server_is_named_first() {
    let buffers = [Some(4_096), None];
    let path = RelayedPath { buffers, delay: ms(10), ..RelayedPath::default() };
    let words = &["--write", "--bytes", "256K", "--rounds", "1", "ftp://10.0.0.1:2121/incoming/"];
    assert_named_first(
        "receive buffer of the server",
        &["The server's small receive window costs"],
        || measured_servers::measure_files(path, 1, words),
    );
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_small_local_receive_buffer_is_named_first() {
    let buffers = [None, Some(4_096)];
    let path = RelayedPath { buffers, delay: ms(10), ..RelayedPath::default() };
    let words = &["--rounds", "1", "ftp://10.0.0.1:2121/pub/file"];
    assert_named_first(
        "receive buffer of this host",
        &["This host's small receive window costs"],
        || measured_servers::measure_files(path, 200_000, words),
    );
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_server_that_takes_a_second_before_its_first_output_is_named_first() {
    let server = Telnetd { command: measured_servers::with_slow_start, has_nodelay: true };
    assert_named_first("slow prompt", &["The remote host's late prompt costs"], || {
        measured_servers::measure_login(RelayedPath::default(), server)
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_name_server_that_answers_late_is_named_first() {
    assert_named_first("name server", &["Name resolution costs"], || {
        measured_servers::measure_by_host_name(ms(600))
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_slow_tls_handshake_of_the_server_is_named_first() {
    assert_named_first("handshake of TLS", &["The remote host's TLS handshake costs"], || {
        measured_servers::measure_with_slow_tls(ms(800))
    });
}
