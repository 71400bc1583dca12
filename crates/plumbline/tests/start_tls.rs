//! START_TLS, acknowledged echoes and urgent data at `plumb serve`.
//!
//! Each test has its own network, in which the server listens at 10.0.0.1, or at 10.0.0.2 on
//! plumb's own TCP/IP.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::served::{Caller, PORT, Served, unique};
use login_desk::{Person, SERVER, in_new_network, listen, plumb, within_the_limit};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

/// Address of plumb on the TUN.
const OURS: &str = "10.0.0.2";
/// Options that run a shell with a fixed prompt.
const SHELL: &[&str] = &["--exec", "env", "PS1=ready:", "/bin/sh"];
/// IAC WILL START_TLS, IAC SB START_TLS FOLLOWS IAC SE.
const WILL_FOLLOW: &[u8] = b"\xff\xfb\x2e\xff\xfa\x2e\x01\xff\xf0";

/// Starts a server with START_TLS in the mode `how`.
fn serve(how: &str, arguments: &[&str]) -> Served {
    let at = format!("{SERVER}:{PORT}");
    Served::start_with(&[&["--listen", &at, "--tls", how], arguments].concat())
}

/// Starts a client with an empty, temporary store of known certificates.
fn person_at(arguments: &[&str]) -> Person {
    let mut command = plumb();
    command.args(arguments).env("XDG_STATE_HOME", unique("known"));
    Person::running(command)
}

fn works_in_tls(person: &mut Person) {
    person.sees("known_hosts.");
    person.sees("ready:");
    person.types("echo $((6*7))\r");
    person.sees("\n42\n");
    person.types("\x1dstatus\r");
    person.sees("Encrypted by TLS 1.");
    person.types("close\r");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn where_others_can_come_start_tls_is_offered_without_a_word_about_it() {
    in_new_network(|| {
        let at = format!("{SERVER}:{PORT}");
        let _server = Served::start_with(&[&["--listen", &at], SHELL].concat());
        works_in_tls(&mut person_at(&[SERVER, PORT]));
        let mut person = person_at(&["--tls", "never", SERVER, PORT]);
        person.sees("ready:");
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn start_tls_goes_over_our_own_tcp_too() {
    in_new_network(|| {
        let places = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "required"];
        let _server = Served::start_with(&[&places, SHELL].concat());
        works_in_tls(&mut person_at(&[OURS, PORT]));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn who_stays_in_clear_where_tls_is_required_is_told_and_nothing_runs() {
    in_new_network(|| {
        let mark = unique("ran");
        let touch = format!("touch {}; cat", mark.display());
        let server = serve("required", &["--exec", "/bin/sh", "-c", &touch]);
        let mut caller = Caller::new();
        caller.says(
            b"\xff\xfc\x2e\xff\xfe\x01\xff\xfe\x03\xff\xfc\x18\xff\xfc\x1f\xff\xfe\xddls\r\n",
        );
        caller.hears(b"This server requires TLS");
        caller.hears_the_end();
        server.says("TLS is required, but the client did not start it");
        assert!(!mark.exists());
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn who_agrees_to_tls_and_does_not_begin_is_sent_away() {
    in_new_network(|| {
        let server = serve("offered", SHELL);
        let mut caller = Caller::new();
        caller.says(b"\xff\xfb\x2eid\r\n");
        caller.hears(b"\xff\xfa\x2e\x01\xff\xf0");
        caller.hears_the_end();
        server.says("TLS is required, but the client did not start it");
        assert!(!String::from_utf8_lossy(&caller.heard).contains("uid="));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn words_in_clear_behind_the_last_of_telnet_are_no_tls_and_end_the_connection() {
    in_new_network(|| {
        let server = serve("offered", SHELL);
        let mut caller = Caller::new();
        caller.says(&[WILL_FOLLOW, b"id\r\nid\r\nid\r\n"].concat());
        caller.hears_the_end();
        server.says("TLS handshake failed");
        assert!(!String::from_utf8_lossy(&caller.heard).contains("ready:"));
    });
}

/// Starts a man in the middle that inserts `words` before the client's first bytes; returns its
/// port.
fn stand_between(words: &'static [u8]) -> u16 {
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect((SERVER, 2323)).unwrap();
        let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = thread::spawn(move || carry(from, to, &[]));
        carry(client, server, words);
        back.join().unwrap();
    });
    port
}

fn carry(mut from: TcpStream, mut to: TcpStream, first: &[u8]) {
    let (mut bytes, mut first) = ([0; 4096], first.to_vec());
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        first.extend_from_slice(&bytes[..count]);
        if to.write_all(&first).is_err() {
            break;
        }
        first.clear();
    }
    // Fails if the peer has already closed.
    _ = to.shutdown(Shutdown::Write);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn words_that_somebody_puts_in_before_tls_are_forgotten_inside_of_it() {
    in_new_network(|| {
        let _server = serve("required", SHELL);
        let port = stand_between(b"\xff\xfb\x2eecho in''jected\r\n").to_string();
        let mut person = person_at(&[SERVER, &port]);
        works_in_tls(&mut person);
        assert!(!person.screen().contains("injected"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_echo_is_acknowledged_behind_what_it_brought() {
    in_new_network(|| {
        let _server = serve("off", SHELL);
        let mut caller = Caller::new();
        // DO ECHO-ACKNOWLEDGMENT.
        caller.says(b"\xff\xfd\xdd\r\n");
        caller.hears(b"ready:");
        caller.says(b"xyz");
        caller.hears(b"xyz");
        // The two bytes of the first line, and the three keystrokes.
        caller.hears(b"\xff\xfa\xdd\0\0\0\0\0\0\0\x05\xff\xf0");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn who_does_not_want_acknowledgments_has_none() {
    in_new_network(|| {
        let _server = serve("off", SHELL);
        let mut caller = Caller::new();
        caller.says(b"\xff\xfe\xdd\r\n");
        caller.hears(b"ready:");
        caller.says(b"sleep 0.2; echo do''ne\r\n");
        caller.hears(b"done");
        assert!(!caller.heard.windows(3).any(|window| window == b"\xff\xfa\xdd"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_over_our_own_tcp_throws_away_what_was_typed_before_it() {
    in_new_network(|| {
        let places = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "off"];
        let _server = Served::start_with(&[&places, SHELL].concat());
        let mut caller = Caller::at((OURS, 2323));
        caller.says(b"\r\n");
        caller.hears(b"ready:");
        let junk = b"echo ju''nk\r\n\xff\xf2";
        assert_eq!(send(&caller.stream, junk, SendFlags::OOB), Ok(junk.len()));
        caller.says(b"echo al''ive\r\n");
        caller.hears(b"alive");
        assert!(!String::from_utf8_lossy(&caller.heard).contains("junk"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_server_over_our_own_tcp_answers_abort_output_by_urgent_data() {
    in_new_network(|| {
        let places = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "off"];
        let _server = Served::start_with(&[&places, SHELL].concat());
        let mut caller = Caller::at((OURS, 2323));
        caller.says(b"\r\n");
        caller.hears(b"ready:");
        caller.says(b"\xff\xf5");
        let mut mark = [0; 1];
        within_the_limit(|| recv(&caller.stream, &mut mark, RecvFlags::OOB).ok());
        // The data mark.
        assert_eq!(mark, [0xF2]);
        caller.says(b"echo al''ive\r\n");
        caller.hears(b"alive");
    });
}

/// Returns the processor time of a process so far, in hundredths of a second.
fn processor_time(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_session_whose_alarm_has_rung_does_not_spin() {
    in_new_network(|| {
        let mut server = serve("off", SHELL);
        let mut caller = Caller::new();
        // The client answers no option, so that the negotiation timer expires.
        caller.hears(b"ready:");
        caller.says(b"\xff\xfd\xddx");
        caller.hears(b"\xff\xfa\xdd\0\0\0\0\0\0\0\x01\xff\xf0");
        let id = server.program.child().id();
        let before = processor_time(id);
        // No more data arrives: the server is idle during this time.
        caller.stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        assert!(caller.stream.read(&mut [0; 64]).is_err());
        // A busy loop would use all available time: 200 hundredths on an idle processor.
        assert!(processor_time(id) - before < 20);
    });
}
