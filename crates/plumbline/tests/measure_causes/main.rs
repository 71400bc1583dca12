//! `plumb measure` names the cause of slowness with real servers: Debian's Telnet servers, vsftpd
//! and `plumb serve`, over a path of two networks with a packet relay between them.
//!
//! These are trials: real programs in real time, whose result also depends on the load of the
//! machine. So they run only with `./x test --long`; `crates/simulator/tests/causes` has the same
//! causes in virtual time. Each cause is measured `PLUMB_CAUSES_ROUNDS` times (by default once, and
//! three times if it was missed), and a line on stdout has the share of the rounds that named it
//! first. The relay drops packets by a seed for each round, derived from `PLUMB_CAUSES_SEED` (by
//! default 1). Each test has its own networks.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
#![expect(clippy::print_stdout, reason = "a test says how often a cause was named")]

mod servers;
mod way;

use records::Measurement;
use servers::{BUSYBOX, INETUTILS, Telnetd};
use std::time::Duration;
use way::Way;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

const NAGLE: &str = "The far side's Nagle algorithm costs";

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

/// Measures repeatedly. Returns the number of measurements and the verdicts that did not begin with
/// one of `beginnings`. Other load on the machine may spoil one measurement, so a cause that is not
/// named first is measured twice more.
fn named(
    planted: &str,
    beginnings: &[&str],
    mut measure: impl FnMut() -> Measurement,
) -> (usize, Vec<String>) {
    let (mut all, mut wanted, mut instead) = (0, rounds(), Vec::new());
    while all < wanted {
        let measured = measure();
        all += 1;
        if !beginnings.iter().any(|beginning| measured.verdict.starts_with(beginning)) {
            instead.push(measured.verdict);
            wanted = wanted.max(3);
        }
    }
    println!("{planted}: named first {} of {all}; instead: {instead:?}", all - instead.len());
    (all, instead)
}

/// Measures repeatedly, and checks that at least two of three verdicts begin with one of
/// `beginnings`.
fn names_first(planted: &str, beginnings: &[&str], measure: impl FnMut() -> Measurement) {
    let (all, instead) = named(planted, beginnings, measure);
    assert!(instead.len() * 3 <= all, "{planted}: {instead:#?}");
}

/// Measures repeatedly, and checks that no verdict names Nagle's algorithm at the server.
fn no_nagle(healthy: &str, mut measure: impl FnMut() -> Measurement) {
    for _ in 0..rounds() {
        let verdict = measure().verdict;
        assert!(!verdict.contains("Nagle"), "{healthy}: {verdict}");
    }
    println!("{healthy}: no Nagle in {}", rounds());
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn nagle_of_a_telnet_server_on_a_short_way_is_named_first() {
    names_first("Nagle of busybox telnetd", &[NAGLE], || {
        servers::measured(Way::default(), BUSYBOX)
    });
    names_first("Nagle of inetutils telnetd", &[NAGLE], || {
        servers::measured(Way::default(), INETUTILS)
    });
    names_first("Nagle of busybox telnetd, for a TCP of plumb's own", &[NAGLE], || {
        servers::measured_on_a_tun(BUSYBOX)
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn where_the_far_side_has_no_nagle_none_is_named() {
    no_nagle("busybox telnetd with TCP_NODELAY", || {
        servers::measured(Way::default(), BUSYBOX.promptly())
    });
    no_nagle("inetutils telnetd with TCP_NODELAY", || {
        servers::measured(Way::default(), INETUTILS.promptly())
    });
    no_nagle("busybox telnetd with TCP_NODELAY, for a TCP of plumb's own", || {
        servers::measured_on_a_tun(BUSYBOX.promptly())
    });
    no_nagle("plumb serve", || servers::measured_at_plumb(Way::default()));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_long_way_is_named_beside_what_nagle_makes_of_it() {
    let way = Way { delay: ms(60), ..Way::default() };
    let measured = servers::measured(way, BUSYBOX);
    // Nagle adds one round trip for each screen and while the user types fast.
    assert!(measured.verdict.contains("The far side's Nagle algorithm"), "{}", measured.verdict);
    assert!(measured.verdict.contains("The network's round trip costs 12"), "{}", measured.verdict);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_long_way_to_a_server_without_nagle_is_named_first() {
    let way = Way { delay: ms(60), ..Way::default() };
    names_first("distance", &["The network's round trip costs 12"], || {
        servers::measured(way, BUSYBOX.promptly())
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_way_that_loses_one_packet_in_fifteen_is_named_first() {
    let way = Way { delay: ms(10), loses_one_in: Some(15), ..Way::default() };
    // The verdict depends on the packets that were lost.
    let beginnings =
        ["Loss costs", "A lost packet now and then costs", "Waiting for retransmission timers"];
    names_first("loss", &beginnings, || servers::measured(way, BUSYBOX.promptly()));
}

/// Accepted verdicts for a token bucket in front of a login: an empty bucket resembles a slow line.
const BUCKET_OF_LOGIN: [&str; 2] = ["A rate limiter on the way costs", "The line costs"];
/// Accepted verdicts for a token bucket in front of file transfers.
const BUCKET_OF_FILES: [&str; 2] = [
    "A rate limiter (token bucket) on the path costs",
    "The rate of the path's slowest link costs",
];

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_token_bucket_in_front_of_a_login_is_named_first() {
    let limit = &["tbf", "rate", "1mbit", "burst", "40kb", "latency", "50ms"];
    let way = Way { limit, delay: ms(2), ..Way::default() };
    names_first("tbf of 1 Mbit/s, a login", &BUCKET_OF_LOGIN, || {
        servers::measured(way, BUSYBOX.promptly())
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
            let way = Way { limit, delay, ..Way::default() };
            let planted = format!("tbf of {rate} Mbit/s, files, {delay:?}");
            let words = &["--rounds", "1", "ftp://10.0.0.1:2121/pub/file"];
            let measure = || servers::measured_files(way, bytes, words);
            names_first(&planted, &BUCKET_OF_FILES, measure);
        }
    }
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_small_receive_buffer_of_the_far_side_is_named_first() {
    let buffers = [Some(4_096), None];
    let way = Way { buffers, delay: ms(10), ..Way::default() };
    let words = &["--write", "--bytes", "256K", "--rounds", "1", "ftp://10.0.0.1:2121/incoming/"];
    names_first(
        "receive buffer of the far side",
        &["The server's small receive window costs"],
        || servers::measured_files(way, 1, words),
    );
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_small_receive_buffer_of_this_side_is_named_first() {
    let buffers = [None, Some(4_096)];
    let way = Way { buffers, delay: ms(10), ..Way::default() };
    let words = &["--rounds", "1", "ftp://10.0.0.1:2121/pub/file"];
    names_first("receive buffer of this side", &["This host's small receive window costs"], || {
        servers::measured_files(way, 200_000, words)
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_server_that_takes_a_second_before_it_says_anything_is_named_first() {
    let server = Telnetd { command: servers::slow_at_first, is_prompt: true };
    names_first("slow prompt", &["The far side's first question"], || {
        servers::measured(Way::default(), server)
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_name_server_that_answers_late_is_named_first() {
    names_first("name server", &["The name server costs"], || servers::measured_by_name(ms(600)));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_far_side_that_is_late_with_its_handshake_of_tls_is_named_first() {
    names_first("handshake of TLS", &["The far side's handshake of TLS costs"], || {
        servers::measured_in_late_tls(ms(800))
    });
}
