//! `plumb serve` with real clients: plumb's own, and Debian's.
//!
//! Each test has its own network, in which the server listens at 10.0.0.1. A simulated user types
//! on a pseudo-terminal and waits at most ten seconds for each text on the screen.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::served::{Caller, PORT, Served, unique};
use login_desk::{Person, SERVER, in_new_network, within_the_limit};
use os::tty::WindowSize;
use rustix::process::Signal;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::thread;
use test_support::is_root_of_the_machine;
use test_support::peers::{self, Peer};

/// Address of plumb on the TUN.
const OURS: &str = "10.0.0.2";
const TLS_PORT: &str = "2992";
/// Options that run a shell with a fixed prompt.
const SHELL: &[&str] = &["--exec", "env", "PS1=ready:", "/bin/sh"];

/// Works at a shell as a user does, with any client.
fn work(person: &mut Person) {
    person.sees("ready:");
    person.types("echo $((6*7))\r");
    person.sees("\n42\n");
    person.types("stty size\r");
    person.sees("24 80");
    person.types("seq 1 3000; echo do''ne\r");
    person.sees("done\nready:");
    // The interrupt ends the program and its output.
    person.types("cat\r");
    person.sees("cat\n");
    person.types("meow\r");
    person.sees("meow\nmeow\n");
    person.types("\x03");
    // A shell discards input typed before it has handled the interrupt.
    person.sees("^C\nready:");
    person.types("echo a''live\r");
    person.sees("alive");
}

fn client(program: Peer, arguments: &[&str]) -> Person {
    let mut command = program.command();
    command.args(arguments).env("TERM", "xterm");
    Person::running(command)
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_person_works_at_our_server_with_our_client() {
    in_new_network(|| {
        let server = Served::start(SHELL);
        let mut person = Person::over(&[SERVER, PORT]);
        work(&mut person);
        person.types("echo term-is-$TERM\r");
        person.sees("term-is-dumb");
        person.resizes(WindowSize { rows: 40, columns: 100 });
        person.types("stty size\r");
        person.sees("40 100");
        person.types("\x1dsend ayt\r");
        person.sees("[plumb: yes]");
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
        server.says("disconnected");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_person_works_at_our_server_over_our_own_tcp() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut person = Person::over(&["--via", "tun:plumb0", SERVER, PORT]);
        work(&mut person);
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_person_works_at_our_server_on_our_own_host_in_cleartext_and_in_tls() {
    in_new_network(|| {
        let places = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--listen-tls", "[::]:2992"];
        let server = Served::start_with(&[&places[..], &["--tls", "off"], SHELL].concat());
        server.says("port 2992 of plumb's own TCP/IP stack, with TLS");
        let mut person = Person::over(&[OURS, PORT]);
        work(&mut person);
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
        server.says("10.0.0.1:");
        let mut person =
            client(peers::OPENSSL, &["s_client", "-quiet", "-connect", "10.0.0.2:2992"]);
        person.sees("ready:");
        person.types("echo $((6*7))\r");
        person.sees("42");
        person.types("exit\r");
        person.leaves();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_server_on_our_own_host_ends_with_its_device_and_says_so() {
    in_new_network(|| {
        let places = ["--via", "tun:plumb0", "--listen", "[::]:2323"];
        let mut server = Served::start_with(&[&places, SHELL].concat());
        let status = Command::new("ip").args(["link", "delete", "plumb0"]).status().unwrap();
        assert!(status.success());
        server.says("cannot accept connections");
        let ended = server.program.wait_for_end(protocols::time::Duration::from_secs(10)).unwrap();
        assert_eq!(ended.unwrap().code(), Some(4));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet clients"]
fn a_person_works_at_our_server_with_the_client_of_inetutils() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut person = client(peers::INETUTILS_TELNET, &[SERVER, PORT]);
        work(&mut person);
        person.types("echo term-is-$TERM\r");
        person.sees("term-is-xterm");
        person.types("exit\r");
        person.sees("closed by foreign host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet clients"]
fn a_person_works_at_our_server_with_the_client_of_busybox() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut person = client(peers::BUSYBOX, &["telnet", SERVER, PORT]);
        work(&mut person);
        person.types("exit\r");
        person.sees("Connection closed by foreign host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn a_client_of_tls_works_and_one_without_is_turned_away() {
    in_new_network(|| {
        let at = format!("{SERVER}:{TLS_PORT}");
        let server = Served::start_with(&[&["--listen-tls", &at], SHELL].concat());
        let mut person = client(peers::OPENSSL, &["s_client", "-quiet", "-connect", &at]);
        person.sees("ready:");
        person.types("echo $((6*7))\r");
        person.sees("42");
        person.types("exit\r");
        person.leaves();
        server.says("disconnected");
        let mut plain = within_the_limit(|| TcpStream::connect((SERVER, 2992)).ok());
        plain.write_all(b"\xff\xfb\x18\r\n\r\n").unwrap();
        server.says("TLS handshake failed");
    });
}

/// WONT TERMINAL-TYPE and WONT NAWS, so that the server waits for no further negotiation.
const NO_TERMINAL: &[u8] = b"\xff\xfc\x18\xff\xfc\x1f";

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_refuses_sga_gets_a_go_ahead_behind_each_prompt() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut caller = Caller::new();
        // DO ECHO, DONT SUPPRESS-GO-AHEAD.
        caller.says(&[b"\xff\xfd\x01\xff\xfe\x03", NO_TERMINAL].concat());
        caller.hears(b"ready:");
        caller.hears(b"\xff\xf9");
        caller.says(b"echo $((6*7))\r\n");
        caller.hears(b"42\r\n");
        caller.hears(b"ready:");
        caller.hears(b"\xff\xf9");
        // DO SUPPRESS-GO-AHEAD: from then on the server sends none.
        caller.says(b"\xff\xfd\x03");
        caller.hears(b"\xff\xfb\x03");
        caller.says(b"echo $((7*7)); sleep 0.2; echo $((8*8))\r\n");
        caller.hears(b"49\r\n64\r\nready:");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_refuses_echo_sees_what_it_types_once_until_it_asks_for_echo() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut caller = Caller::new();
        // DONT ECHO, DO SUPPRESS-GO-AHEAD.
        caller.says(&[b"\xff\xfe\x01\xff\xfd\x03", NO_TERMINAL].concat());
        caller.hears(b"ready:");
        caller.says(b"echo A$((1+1))\r\n");
        caller.hears(b"A2\r\nready:");
        assert!(!caller.heard.windows(3).any(|typed| typed == b"A$("));
        // DO ECHO.
        caller.says(b"\xff\xfd\x01");
        caller.hears(b"\xff\xfb\x01");
        caller.says(b"echo B$((1+1))\r\n");
        caller.hears(b"echo B$((1+1))\r\nB2\r\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_window_of_65535_columns_and_rows_is_bounded() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut caller = Caller::new();
        caller.says(b"\xff\xfd\x01\xff\xfd\x03\xff\xfc\x18\xff\xfb\x1f");
        caller.says(&[b"\xff\xfa\x1f", &[0xff; 8][..], b"\xff\xf0"].concat());
        caller.hears(b"ready:");
        caller.says(b"stty size\r\n");
        caller.hears(b"1000 1000\r\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn what_a_pipe_types_is_answered_before_the_program_is_hung_up_on() {
    in_new_network(|| {
        let server = Served::start(SHELL);
        let mut caller = Caller::new();
        caller.says(b"echo $((6*7))\r\n");
        caller.stream.shutdown(Shutdown::Write).unwrap();
        caller.hears(b"42\r\n");
        caller.hears_the_end();
        server.says("the client closed the connection");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_long_paste_reaches_a_slow_program_whole() {
    in_new_network(|| {
        let script = "stty raw -echo; echo ready; head -c 300000 | tr -d x | wc -c";
        let _server = Served::start(&["--exec", "/bin/sh", "-c", script]);
        let mut caller = Caller::new();
        caller.says(b"\r\n");
        caller.hears(b"ready");
        let mut stream = caller.stream.try_clone().unwrap();
        let typing = thread::spawn(move || {
            let paste: Vec<u8> = (0..300_000).map(|at| b"xy"[at % 2]).collect();
            stream.write_all(&paste).unwrap();
        });
        // The CR typed before the paste is among the counted bytes; it is not an x.
        caller.hears(b"15000");
        typing.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_user_of_our_own_proves_who_he_is_and_one_who_cannot_does_not_get_in() {
    in_new_network(|| {
        let users = Served::users("mike", "kon opelski", "exec = [\"/bin/echo\", \"inside\"]");
        let server = Served::start(&["--users", &users]);
        let mut person = Person::over(&[SERVER, PORT]);
        person.sees("login: ");
        person.types("mike\r");
        person.sees("Password: ");
        person.types("wrong\r");
        person.sees("Login incorrect");
        server.says("login failed for 'mike'");
        person.types("mike\rkon opelski\r");
        person.sees("inside");
        assert_eq!(person.leaves().code(), Some(0));
        server.says(" logged in as 'mike'");
        assert!(!server.has_said("opelski") && !person.screen().contains("opelski"));
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root, to become another user"]
// attack row 63
fn a_users_program_runs_as_the_user_that_it_is_to_run_as() {
    if !is_root_of_the_machine() {
        return;
    }
    in_new_network(|| {
        let rest = "runs-as = \"nobody\"\nexec = [\"/bin/sh\", \"-c\", \"id -un; id -G; test -w $(tty) && echo its-own\"]";
        let users = Served::users("kim", "x", rest);
        let _server = Served::start(&["--users", &users]);
        let mut person = Person::over(&[SERVER, PORT]);
        person.sees("login: ");
        person.types("kim\rx\r");
        person.sees("nobody\n");
        person.sees("its-own");
        person.leaves();
        assert!(!person.screen().lines().any(|line| line.trim() == "0"));
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn three_wrong_passwords_end_a_session() {
    in_new_network(|| {
        let users = Served::users("mike", "right", "exec = [\"/bin/echo\", \"inside\"]");
        let server = Served::start(&["--users", &users]);
        let mut caller = Caller::new();
        caller.says(b"mike\r\na\r\nmike\r\nb\r\nmike\r\nc\r\nmike\r\nright\r\n");
        caller.hears_the_end();
        assert!(!String::from_utf8_lossy(&caller.heard).contains("inside"));
        server.says("too many failed logins");
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack rows 51, 57
fn nothing_that_a_client_sends_is_an_argument_or_in_the_environment_of_what_runs() {
    in_new_network(|| {
        let script = "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' ' ' < /proc/$$/cmdline; \
                      echo the-end";
        let _server = Served::start(&["--exec", "/bin/sh", "-c", script]);
        let mut caller = Caller::new();
        // WILL NEW-ENVIRON, ENVIRON, X-DISPLAY-LOCATION, TERMINAL-TYPE; then the value of each.
        caller.says(b"\xff\xfb\x27\xff\xfb\x24\xff\xfb\x23\xff\xfb\x18");
        for name in ["USER", "LD_PRELOAD", "IFS", "CREDENTIALS_DIRECTORY", "TTYPROMPT"] {
            for option in [0x27, 0x24] {
                let said = [&b"\xff\xfa"[..], &[option], b"\0\0", name.as_bytes(), b"\x01-froot"];
                caller.says(&[said.concat(), b"\xff\xf0".to_vec()].concat());
            }
        }
        caller.says(b"\xff\xfa\x23\0-froot:0\xff\xf0\xff\xfa\x18\0-froot\xff\xf0\r\n");
        caller.hears(b"the-end");
        let heard = String::from_utf8_lossy(&caller.heard).into_owned();
        for never in ["froot", "LD_PRELOAD", "IFS=", "CREDENTIALS_DIRECTORY", "TTYPROMPT", "USER="]
        {
            assert!(!heard.contains(never), "{never} in:\n{heard}");
        }
        assert!(heard.contains("TERM=dumb"));
    });
}

#[test]
#[ignore = "needs root, for the system's login"]
// attack row 52
fn the_systems_login_asks_itself_and_has_nothing_of_the_clients_in_its_arguments() {
    if !is_root_of_the_machine() {
        return;
    }
    in_new_network(|| {
        let _server = Served::start(&[]);
        let mut caller = Caller::new();
        caller.hears(b"login: ");
        let arguments = within_the_limit(|| {
            let processes = std::fs::read_dir("/proc").ok()?;
            processes.filter_map(Result::ok).find_map(|entry| {
                let text = std::fs::read(entry.path().join("cmdline")).ok()?;
                text.starts_with(b"/bin/login\0").then_some(text)
            })
        });
        assert_eq!(arguments, b"/bin/login\0-h\x0010.0.0.1\0");
        caller.says(b"-f root\r\n");
        caller.hears(b"Login incorrect");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack row 64
fn one_who_says_nothing_is_sent_away_and_one_source_has_only_its_share() {
    in_new_network(|| {
        let users = Served::users("mike", "right", "");
        let file = unique("limits.toml");
        let text = format!(
            "[login]\nlisten = [\"{SERVER}:{PORT}\"]\nusers = \"{users}\"\n\
             login-timeout-s = 4\nsessions-per-source-max = 2\n"
        );
        std::fs::write(&file, text).unwrap();
        let server = Served::start_with(&["--config", file.to_str().unwrap()]);
        let (mut first, mut second, mut third) = (Caller::new(), Caller::new(), Caller::new());
        third.hears(b"too many sessions from this address");
        third.hears_the_end();
        first.hears_the_end();
        assert!(String::from_utf8_lossy(&first.heard).contains("Login timed out"));
        second.hears_the_end();
        server.says("login timed out");
        // Their session slots become free a moment after the connections end.
        within_the_limit(|| Caller::new().is_asked().then_some(()));
        std::fs::remove_file(file).unwrap();
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_denied_prefix_is_told_so_and_logged() {
    in_new_network(|| {
        let server = Served::start(&[&["--deny", "10.0.0.0/24"], SHELL].concat());
        let mut caller = Caller::new();
        caller.hears(b"connections from this address are not allowed");
        server.says(" refused: connections from this address are not allowed");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack row 58
fn a_flood_of_are_you_there_is_answered_a_few_times_and_the_session_lives() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut caller = Caller::new();
        caller.says(b"\r\n");
        caller.hears(b"ready:");
        for _ in 0..100 {
            caller.says(&b"\xff\xf6".repeat(10_000));
        }
        caller.says(b"echo al''ive\r\n");
        caller.hears(b"\r\nalive");
        let answers = caller.heard.windows(6).filter(|window| *window == b"[plumb").count();
        assert!((1..400).contains(&answers), "{answers} answers");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_interrupt_in_the_telnet_way_stops_a_program_and_throws_its_output_away() {
    in_new_network(|| {
        let _server = Served::start(SHELL);
        let mut caller = Caller::new();
        caller.says(b"\r\n");
        caller.hears(b"ready:");
        caller.says(b"yes\r\n");
        caller.hears(b"y\r\ny\r\n");
        // IP, then DM urgent.
        caller.says(b"\xff\xf4\xff");
        assert_eq!(rustix::net::send(&caller.stream, b"\xf2", rustix::net::SendFlags::OOB), Ok(1));
        caller.hears(b"ready:");
        caller.says(b"echo al''ive\r\n");
        caller.hears(b"\r\nalive");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_server_that_is_told_to_end_hangs_up_on_all_that_runs() {
    in_new_network(|| {
        let mut server = Served::start(SHELL);
        let mut caller = Caller::new();
        caller.says(b"echo pid-$$-\r\n");
        caller.hears(b"ready:");
        server.program.signal(Signal::TERM).unwrap();
        let status = server.program.wait_for_end(protocols::time::Duration::from_secs(10)).unwrap();
        assert_eq!(status.unwrap().code(), Some(0));
        caller.hears_the_end();
        server.says("shutting down, open sessions: 1");
    });
}
