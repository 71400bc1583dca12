//! Tests of `plumb serve` with real clients: plumb's own, and Debian's.
//!
//! Each test has its own network namespace, in which the server listens at 10.0.0.1. A simulated
//! user types on a pseudo-terminal and waits at most ten seconds for each text on the screen.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{PORT, RawClient, ServeProcess, unique};
use login_harness::{SERVER, TerminalUser, in_new_network, poll_until_timeout};
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
/// Options of `plumb serve` that run a shell with a fixed prompt.
const SHELL: &[&str] = &["--exec", "env", "PS1=ready:", "/bin/sh"];

/// Runs commands at a shell, with any client.
fn work_at_shell(user: &mut TerminalUser) {
    user.wait_for_text("ready:");
    user.type_keys("echo $((6*7))\r");
    user.wait_for_text("\n42\n");
    user.type_keys("stty size\r");
    user.wait_for_text("24 80");
    user.type_keys("seq 1 3000; echo do''ne\r");
    user.wait_for_text("done\nready:");
    // The interrupt ends the program and its output.
    user.type_keys("cat\r");
    user.wait_for_text("cat\n");
    user.type_keys("meow\r");
    user.wait_for_text("meow\nmeow\n");
    user.type_keys("\x03");
    // A shell discards input typed before it has handled the interrupt.
    user.wait_for_text("^C\nready:");
    user.type_keys("echo a''live\r");
    user.wait_for_text("alive");
}

fn client(program: Peer, arguments: &[&str]) -> TerminalUser {
    let mut command = program.command();
    command.args(arguments).env("TERM", "xterm");
    TerminalUser::run(command)
}

#[test]
#[ignore = "needs root or a user namespace"]
fn plumb_login_works_with_plumb_serve() {
    in_new_network(|| {
        let server = ServeProcess::start(SHELL);
        let mut user = TerminalUser::with_arguments(&[SERVER, PORT]);
        work_at_shell(&mut user);
        user.type_keys("echo term-is-$TERM\r");
        user.wait_for_text("term-is-dumb");
        user.set_window_size(WindowSize { rows: 40, columns: 100 });
        user.type_keys("stty size\r");
        user.wait_for_text("40 100");
        user.type_keys("\x1dsend ayt\r");
        user.wait_for_text("[plumb: yes]");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        server.wait_for_log("disconnected");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn plumb_login_works_with_plumb_serve_over_userspace_tcp() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut user = TerminalUser::with_arguments(&["--via", "tun:plumb0", SERVER, PORT]);
        work_at_shell(&mut user);
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn logins_work_on_a_userspace_host_in_cleartext_and_in_tls() {
    in_new_network(|| {
        let listen_options =
            ["--via", "tun:plumb0", "--listen", "[::]:2323", "--listen-tls", "[::]:2992"];
        let server =
            ServeProcess::start_with(&[&listen_options[..], &["--tls", "off"], SHELL].concat());
        server.wait_for_log("port 2992 of plumb's own TCP/IP stack, with TLS");
        let mut user = TerminalUser::with_arguments(&[OURS, PORT]);
        work_at_shell(&mut user);
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        server.wait_for_log("10.0.0.1:");
        let mut user = client(peers::OPENSSL, &["s_client", "-quiet", "-connect", "10.0.0.2:2992"]);
        user.wait_for_text("ready:");
        user.type_keys("echo $((6*7))\r");
        user.wait_for_text("42");
        user.type_keys("exit\r");
        user.wait_for_exit();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_server_on_a_userspace_host_ends_with_its_device_and_reports_it() {
    in_new_network(|| {
        let listen_options = ["--via", "tun:plumb0", "--listen", "[::]:2323"];
        let mut server = ServeProcess::start_with(&[&listen_options, SHELL].concat());
        test_support::ip(&["link", "delete", "plumb0"]);
        server.wait_for_log("cannot accept connections");
        let end_status = server.program.wait_for_end(net::time::Duration::from_secs(10)).unwrap();
        assert_eq!(end_status.unwrap().code(), Some(4));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet clients"]
fn the_client_of_inetutils_works_with_plumb_serve() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut user = client(peers::INETUTILS_TELNET, &[SERVER, PORT]);
        work_at_shell(&mut user);
        user.type_keys("echo term-is-$TERM\r");
        user.wait_for_text("term-is-xterm");
        user.type_keys("exit\r");
        user.wait_for_text("closed by foreign host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet clients"]
fn the_client_of_busybox_works_with_plumb_serve() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut user = client(peers::BUSYBOX, &["telnet", SERVER, PORT]);
        work_at_shell(&mut user);
        user.type_keys("exit\r");
        user.wait_for_text("Connection closed by foreign host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn a_tls_client_is_served_and_a_cleartext_client_is_rejected() {
    in_new_network(|| {
        let address = format!("{SERVER}:{TLS_PORT}");
        let server = ServeProcess::start_with(&[&["--listen-tls", &address], SHELL].concat());
        let mut user = client(peers::OPENSSL, &["s_client", "-quiet", "-connect", &address]);
        user.wait_for_text("ready:");
        user.type_keys("echo $((6*7))\r");
        user.wait_for_text("42");
        user.type_keys("exit\r");
        user.wait_for_exit();
        server.wait_for_log("disconnected");
        let mut cleartext_client = poll_until_timeout(|| TcpStream::connect((SERVER, 2992)).ok());
        cleartext_client.write_all(b"\xff\xfb\x18\r\n\r\n").unwrap();
        server.wait_for_log("TLS handshake failed");
    });
}

/// WONT TERMINAL-TYPE and WONT NAWS, so that the server waits for no further negotiation.
const NO_TERMINAL: &[u8] = b"\xff\xfc\x18\xff\xfc\x1f";

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_refuses_sga_gets_a_go_ahead_after_each_prompt() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        // DO ECHO, DONT SUPPRESS-GO-AHEAD.
        client.send(&[b"\xff\xfd\x01\xff\xfe\x03", NO_TERMINAL].concat());
        client.wait_for(b"ready:");
        client.wait_for(b"\xff\xf9");
        client.send(b"echo $((6*7))\r\n");
        client.wait_for(b"42\r\n");
        client.wait_for(b"ready:");
        client.wait_for(b"\xff\xf9");
        // DO SUPPRESS-GO-AHEAD: after this command the server sends no Go-Ahead.
        client.send(b"\xff\xfd\x03");
        client.wait_for(b"\xff\xfb\x03");
        client.send(b"echo $((7*7)); sleep 0.2; echo $((8*8))\r\n");
        client.wait_for(b"49\r\n64\r\nready:");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_refuses_echo_sees_what_it_types_once_until_it_asks_for_echo() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        // DONT ECHO, DO SUPPRESS-GO-AHEAD.
        client.send(&[b"\xff\xfe\x01\xff\xfd\x03", NO_TERMINAL].concat());
        client.wait_for(b"ready:");
        client.send(b"echo A$((1+1))\r\n");
        client.wait_for(b"A2\r\nready:");
        assert!(!client.received.windows(3).any(|typed| typed == b"A$("));
        // DO ECHO.
        client.send(b"\xff\xfd\x01");
        client.wait_for(b"\xff\xfb\x01");
        client.send(b"echo B$((1+1))\r\n");
        client.wait_for(b"echo B$((1+1))\r\nB2\r\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_window_of_65535_columns_and_rows_is_bounded() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        client.send(b"\xff\xfd\x01\xff\xfd\x03\xff\xfc\x18\xff\xfb\x1f");
        client.send(&[b"\xff\xfa\x1f", &[0xff; 8][..], b"\xff\xf0"].concat());
        client.wait_for(b"ready:");
        client.send(b"stty size\r\n");
        client.wait_for(b"1000 1000\r\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn input_from_a_pipe_is_answered_before_the_program_is_hung_up() {
    in_new_network(|| {
        let server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        client.send(b"echo $((6*7))\r\n");
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.wait_for(b"42\r\n");
        client.read_to_end_of_stream();
        server.wait_for_log("the client closed the connection");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_long_paste_reaches_a_slow_program_completely() {
    in_new_network(|| {
        let script = "stty raw -echo; echo ready; head -c 300000 | tr -d x | wc -c";
        let _server = ServeProcess::start(&["--exec", "/bin/sh", "-c", script]);
        let mut client = RawClient::new();
        client.send(b"\r\n");
        client.wait_for(b"ready");
        let mut stream = client.stream.try_clone().unwrap();
        let typing = thread::spawn(move || {
            let paste: Vec<u8> = (0..300_000).map(|at| b"xy"[at % 2]).collect();
            stream.write_all(&paste).unwrap();
        });
        // The CR typed before the paste is one of the counted bytes, but is not an x.
        client.wait_for(b"15000");
        typing.join().unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_configured_user_logs_in_with_the_right_password_only() {
    in_new_network(|| {
        let users =
            ServeProcess::users("mike", "kon opelski", "exec = [\"/bin/echo\", \"inside\"]");
        let server = ServeProcess::start(&["--users", &users]);
        let mut user = TerminalUser::with_arguments(&[SERVER, PORT]);
        user.wait_for_text("login: ");
        user.type_keys("mike\r");
        user.wait_for_text("Password: ");
        user.type_keys("wrong\r");
        user.wait_for_text("Login incorrect");
        server.wait_for_log("login failed for 'mike'");
        user.type_keys("mike\rkon opelski\r");
        user.wait_for_text("inside");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        server.wait_for_log(" logged in as 'mike'");
        assert!(!server.has_logged("opelski") && !user.screen().contains("opelski"));
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root, to become another user"]
// attack row 63
fn a_program_runs_as_its_configured_system_user() {
    if !is_root_of_the_machine() {
        return;
    }
    in_new_network(|| {
        let rest = "runs-as = \"nobody\"\nexec = [\"/bin/sh\", \"-c\", \"id -un; id -G; test -w $(tty) && echo its-own\"]";
        let users = ServeProcess::users("kim", "x", rest);
        let _server = ServeProcess::start(&["--users", &users]);
        let mut user = TerminalUser::with_arguments(&[SERVER, PORT]);
        user.wait_for_text("login: ");
        user.type_keys("kim\rx\r");
        user.wait_for_text("nobody\n");
        user.wait_for_text("its-own");
        user.wait_for_exit();
        assert!(!user.screen().lines().any(|line| line.trim() == "0"));
        std::fs::remove_file(users).unwrap();
    });
}

/// Replaces the entry of nobody in /etc/shadow by one that has been expired since 2 January 1970, in a
/// mount namespace of the server.
const EXPIRED: &str = "sed '/^nobody:/d' /etc/shadow > $0 && echo 'nobody:*:19000:::::1:' >> $0 && \
     mount --bind $0 /etc/shadow && exec \"$@\"";
/// Forbids logins in a mount namespace of the server.
const NO_LOGIN: &str = "mount -t tmpfs none /run && touch /run/nologin && exec \"$@\"";

#[test]
#[ignore = "needs root, to become another user"]
fn an_expired_system_user_and_all_with_a_nologin_file_are_refused_with_the_right_password() {
    if !is_root_of_the_machine() {
        return;
    }
    in_new_network(|| {
        let rest = "runs-as = \"nobody\"\nexec = [\"/bin/echo\", \"inside\"]";
        let users = ServeProcess::users("kim", "x", rest);
        let shadow = format!("{users}.shadow");
        let cases = [
            (EXPIRED, "the account has expired"),
            (NO_LOGIN, "/var/run/nologin forbids logins"),
            ("exec \"$@\"", "inside"),
        ];
        for (script, expected) in cases {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", script, &shadow]);
            command.args([env!("CARGO_BIN_EXE_plumb"), "serve", "--tls", "off", "--listen"]);
            command.arg(format!("{SERVER}:{PORT}")).args(["--users", &users]);
            let server = ServeProcess::run(command);
            let mut client = RawClient::new();
            client.send(b"kim\r\nx\r\n");
            client.read_to_end_of_stream();
            let text = String::from_utf8_lossy(&client.received).into_owned();
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.contains("inside"), expected == "inside", "{text}");
            if expected != "inside" {
                server.wait_for_log(&format!("login refused for 'kim': {expected}"));
                assert!(!server.has_logged("logged in as"));
            }
        }
        std::fs::remove_file(users).unwrap();
        std::fs::remove_file(shadow).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn three_wrong_passwords_end_a_session() {
    in_new_network(|| {
        let users = ServeProcess::users("mike", "right", "exec = [\"/bin/echo\", \"inside\"]");
        let server = ServeProcess::start(&["--users", &users]);
        let mut client = RawClient::new();
        client.send(b"mike\r\na\r\nmike\r\nb\r\nmike\r\nc\r\nmike\r\nright\r\n");
        client.read_to_end_of_stream();
        assert!(!String::from_utf8_lossy(&client.received).contains("inside"));
        server.wait_for_log("too many failed logins");
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack rows 51, 57
fn client_data_reaches_neither_arguments_nor_environment_of_the_program() {
    in_new_network(|| {
        let script = "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' ' ' < /proc/$$/cmdline; \
                      echo the-end";
        let _server = ServeProcess::start(&["--exec", "/bin/sh", "-c", script]);
        let mut client = RawClient::new();
        // WILL NEW-ENVIRON, ENVIRON, X-DISPLAY-LOCATION, TERMINAL-TYPE; then the value of each.
        client.send(b"\xff\xfb\x27\xff\xfb\x24\xff\xfb\x23\xff\xfb\x18");
        for name in ["USER", "LD_PRELOAD", "IFS", "CREDENTIALS_DIRECTORY", "TTYPROMPT"] {
            for option in [0x27, 0x24] {
                let messages =
                    [&b"\xff\xfa"[..], &[option], b"\0\0", name.as_bytes(), b"\x01-froot"];
                client.send(&[messages.concat(), b"\xff\xf0".to_vec()].concat());
            }
        }
        client.send(b"\xff\xfa\x23\0-froot:0\xff\xf0\xff\xfa\x18\0-froot\xff\xf0\r\n");
        client.wait_for(b"the-end");
        let received = String::from_utf8_lossy(&client.received).into_owned();
        for never in ["froot", "LD_PRELOAD", "IFS=", "CREDENTIALS_DIRECTORY", "TTYPROMPT", "USER="]
        {
            assert!(!received.contains(never), "{never} in:\n{received}");
        }
        assert!(received.contains("TERM=dumb"));
    });
}

#[test]
#[ignore = "needs root, for the system's login"]
// attack row 52
fn the_login_program_prompts_itself_and_gets_no_client_data_as_arguments() {
    if !is_root_of_the_machine() {
        return;
    }
    in_new_network(|| {
        let _server = ServeProcess::start(&[]);
        let mut client = RawClient::new();
        client.wait_for(b"login: ");
        let arguments = poll_until_timeout(|| {
            let processes = std::fs::read_dir("/proc").ok()?;
            processes.filter_map(Result::ok).find_map(|entry| {
                let text = std::fs::read(entry.path().join("cmdline")).ok()?;
                text.starts_with(b"/bin/login\0").then_some(text)
            })
        });
        assert_eq!(arguments, b"/bin/login\0-h\x0010.0.0.1\0");
        client.send(b"-f root\r\n");
        client.wait_for(b"Login incorrect");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack row 64
fn a_silent_client_times_out_and_sessions_per_source_are_limited() {
    in_new_network(|| {
        let users = ServeProcess::users("mike", "right", "exec = [\"/bin/sh\"]");
        let file = unique("limits.toml");
        let text = format!(
            "[login]\nlisten = [\"{SERVER}:{PORT}\"]\nusers = \"{users}\"\n\
             login-timeout-s = 4\nsessions-per-source-max = 2\n"
        );
        std::fs::write(&file, text).unwrap();
        let server = ServeProcess::start_with(&["--config", file.to_str().unwrap()]);
        let mut first = RawClient::new();
        let mut second = RawClient::new();
        let mut third = RawClient::new();
        third.wait_for(b"too many sessions from this address");
        third.read_to_end_of_stream();
        first.read_to_end_of_stream();
        assert!(String::from_utf8_lossy(&first.received).contains("Login timed out"));
        second.read_to_end_of_stream();
        server.wait_for_log("login timed out");
        // The session slots become free a moment after the connections end.
        poll_until_timeout(|| RawClient::new().receives_login_prompt().then_some(()));
        std::fs::remove_file(file).unwrap();
        std::fs::remove_file(users).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_program_without_a_login_is_logged_with_its_user() {
    in_new_network(|| {
        let server = ServeProcess::start(SHELL);
        let line = server.wait_for_log("NO LOGIN");
        let expected = "warning: NO LOGIN: any client that reaches 10.0.0.1:2323 runs 'env' as root; \
                        restrict the clients with --allow";
        assert!(line.ends_with(expected), "{line}");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_denied_prefix_gets_a_message_and_is_logged() {
    in_new_network(|| {
        let server = ServeProcess::start(&[&["--deny", "10.0.0.0/24"], SHELL].concat());
        let mut client = RawClient::new();
        client.wait_for(b"connections from this address are not allowed");
        server.wait_for_log(" refused: connections from this address are not allowed");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
// attack row 58
fn a_flood_of_are_you_there_is_rate_limited_and_the_session_continues() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        client.send(b"\r\n");
        client.wait_for(b"ready:");
        for _ in 0..100 {
            client.send(&b"\xff\xf6".repeat(10_000));
        }
        client.send(b"echo al''ive\r\n");
        client.wait_for(b"\r\nalive");
        let answers = client.received.windows(6).filter(|window| *window == b"[plumb").count();
        assert!((1..400).contains(&answers), "{answers} answers");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_telnet_interrupt_stops_the_program_and_discards_its_output() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        client.send(b"\r\n");
        client.wait_for(b"ready:");
        client.send(b"yes\r\n");
        client.wait_for(b"y\r\ny\r\n");
        // IP, then DM urgent.
        client.send(b"\xff\xf4\xff");
        assert_eq!(rustix::net::send(&client.stream, b"\xf2", rustix::net::SendFlags::OOB), Ok(1));
        client.wait_for(b"ready:");
        client.send(b"echo al''ive\r\n");
        client.wait_for(b"\r\nalive");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn sigterm_hangs_up_all_sessions_of_the_server() {
    in_new_network(|| {
        let mut server = ServeProcess::start(SHELL);
        let mut client = RawClient::new();
        client.send(b"echo pid-$$-\r\n");
        client.wait_for(b"ready:");
        server.program.signal(Signal::TERM).unwrap();
        let status = server.program.wait_for_end(net::time::Duration::from_secs(10)).unwrap();
        assert_eq!(status.unwrap().code(), Some(0));
        client.read_to_end_of_stream();
        server.wait_for_log("shutting down, open sessions: 1");
    });
}
