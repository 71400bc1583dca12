//! `plumb measure` names what is wrong with a real login: Debian's Telnet servers, over a way of
//! two networks with a relay of packets between them, which is late or loses some.
//!
//! Each test has networks of its own: the server's with 10.0.0.1, plumb's with 10.0.0.2.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::namespace::{Network, enter_new_network};
use os::process::Program;
use os::tun::Tun;
use records::Measurement;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");
const PACKET_LEN: usize = 1_600;

/// What is between the two networks.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Each packet is so late.
    delay: Duration,
    /// One packet in so many is lost.
    loses_one_in: Option<u64>,
    /// How the server's interface is limited, as `tc` has it.
    limit: &'static [&'static str],
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Makes a TUN with an address in the network of this thread.
fn tun(name: &str, address: &str) -> Arc<Tun> {
    let tun = Tun::open(Some(name)).unwrap();
    tun.set_blocking(true).unwrap();
    run("ip", &["address", "add", address, "dev", name]);
    run("ip", &["link", "set", name, "up"]);
    Arc::new(tun)
}

/// Carries packets from one TUN to the other, for as long as the test's process lives.
fn relay(from: Arc<Tun>, to: Arc<Tun>, way: Way) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut count = 0_u64;
        let mut packet = vec![0; PACKET_LEN];
        while let Ok(read) = from.read(&mut packet) {
            let Some(packet) = read.and_then(|length| packet.get(..length)) else { continue };
            count += 1;
            // A sequence without a pattern that would meet the same packet of every exchange.
            let draw = count.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            if way.loses_one_in.is_some_and(|one_in| count > 20 && draw.is_multiple_of(one_in)) {
                continue;
            }
            if sender.send((Instant::now() + way.delay, packet.to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        let (_never, alarm) = mpsc::channel::<()>();
        while let Ok((due, packet)) = receiver.recv() {
            let left = due.saturating_duration_since(Instant::now());
            // Nothing is ever sent there: it is the time alone that is waited for.
            if left.is_zero() || alarm.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                _ = to.write(&packet);
            }
        }
    });
}

/// Measures the login at a server that runs `server` for the one who calls, over `way`.
fn measured(way: Way, server: fn() -> Command, arguments: &'static [&'static str]) -> Measurement {
    let tested = thread::spawn(move || {
        enter_new_network().unwrap_or_else(|refused| panic!("{refused}"));
        let far = tun("far0", "10.0.0.1/24");
        if !way.limit.is_empty() {
            run("tc", &[&["qdisc", "add", "dev", "far0", "root"], way.limit].concat());
        }
        let far_network = Network::of_this_thread().unwrap();
        enter_new_network().unwrap();
        let near = tun("near0", "10.0.0.2/24");
        relay(Arc::clone(&far), Arc::clone(&near), way);
        relay(near, far, way);
        let (told, hears) = mpsc::channel();
        let served = thread::spawn(move || {
            far_network.enter().unwrap();
            let listener = TcpListener::bind("10.0.0.1:2323").unwrap();
            told.send(()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let mut server = server();
            server.stdout(OwnedFd::from(stream.try_clone().unwrap()));
            Program::start(server.stdin(OwnedFd::from(stream))).unwrap()
        });
        hears.recv().unwrap();
        let mut command = Command::new(PLUMB);
        command.args(["measure", "10.0.0.1:2323", "--json", "--keys", "60"]).args(arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        drop(served.join().unwrap());
        assert!(output.status.success(), "{output:?}");
        Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
    });
    tested.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn busybox() -> Command {
    let mut command = Command::new("busybox");
    command.args(["telnetd", "-i", "-l", "/bin/sh"]);
    command
}

fn slow_at_first() -> Command {
    let script = PathBuf::from(format!("/tmp/plumb-slow-{}", std::process::id()));
    fs::write(&script, "#!/bin/sh\nsleep 1\nexec /bin/sh -i\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("busybox");
    command.args(["telnetd", "-i", "-l"]).arg(script);
    command
}

fn names_first(measured: &Measurement, beginning: &str) {
    assert!(measured.verdict.starts_with(beginning), "{}", measured.verdict);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_long_way_is_named_beside_what_nagle_makes_of_it() {
    let way = Way { delay: Duration::from_millis(60), ..Way::default() };
    let measured = measured(way, busybox, &[]);
    // For each screen and for who types fast, the server waits one round trip more.
    assert!(measured.verdict.contains("The far side's Nagle algorithm"), "{}", measured.verdict);
    assert!(measured.verdict.contains("The network's round trip costs 12"), "{}", measured.verdict);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_way_that_loses_one_packet_in_fifteen_is_named() {
    let delay = Duration::from_millis(10);
    let way = Way { delay, loses_one_in: Some(15), ..Way::default() };
    let measured = measured(way, busybox, &[]);
    let is_named = ["Loss costs", "A lost packet now and then costs"]
        .iter()
        .any(|beginning| measured.verdict.contains(beginning));
    assert!(is_named, "{}", measured.verdict);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_token_bucket_or_the_queue_in_front_of_it_is_named() {
    let limit = &["tbf", "rate", "1mbit", "burst", "40kb", "latency", "50ms"];
    let way = Way { limit, delay: Duration::from_millis(2), ..Way::default() };
    let measured = measured(way, busybox, &[]);
    // What the shell before has left in the bucket decides which of the two shows itself.
    let is_named = ["A rate limiter on the way costs", "The queue in front of the slowest link"]
        .iter()
        .any(|beginning| measured.verdict.starts_with(beginning));
    assert!(is_named, "{}", measured.verdict);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_server_that_takes_a_second_before_it_says_anything_is_named() {
    names_first(&measured(Way::default(), slow_at_first, &[]), "The far side's first question");
}
