//! Attacks on password checks and on session slots.

use super::login_harness::serve_process::{RawClient, ServeProcess};
use super::*;

/// Logs ann in by FTP from an address that is not the attacker's, and returns the processor time of
/// the password check.
fn measure_check_ticks(server: &Server) -> u64 {
    let before = processor_ticks(&server.program);
    let mut honest = Control::new(OTHER, server);
    assert_eq!(honest.log_in("ann", "secret"), WELCOME);
    assert_eq!(honest.send_and_read("QUIT"), 221);
    (processor_ticks(&server.program) - before).max(1)
}

// attack row 64
// attack row 116
#[test]
fn password_checks_of_ftp_end_with_their_connections() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    let check = measure_check_ticks(&server);
    let before = processor_ticks(&server.program);
    // From a single address only the first attempt would be checked; the other attempts would wait
    // until the delay between attempts has passed.
    for source in many_sources() {
        let mut attacker = Control::new(source, &server);
        attacker.send_without_waiting("USER ann\nPASS wrong\n");
        assert_eq!(attacker.read_reply_code(), 220);
        attacker.reset();
    }
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.log_in("ann", "secret"), WELCOME);
    let checks = (processor_ticks(&server.program) - before) / check;
    assert!(checks < 30, "{checks}");
    assert_exits(&mut server.program);
}

// attack row 116
#[test]
fn a_source_with_many_logins_is_refused_temporarily_and_another_is_served() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    let mut attackers: Vec<_> = (0..60).map(|_| Control::new(ATTACKER, &server)).collect();
    for attacker in &mut attackers {
        attacker.send_without_waiting("USER ann\nPASS wrong\n");
    }
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.log_in("ann", "secret"), WELCOME);
    // The server refuses a login whose password check would be too far in the future; the other
    // logins wait for their checks.
    for attacker in &mut attackers {
        attacker.0.get_mut().set_nonblocking(true).unwrap();
    }
    let is_refused = |attacker: &mut Control| {
        let mut messages = Vec::new();
        _ = attacker.0.get_mut().read_to_end(&mut messages);
        String::from_utf8(messages).unwrap().contains("421 Too many logins")
    };
    let count =
        attackers.iter_mut().filter_map(|attacker| is_refused(attacker).then_some(())).count();
    assert!(count >= 20, "{count}");
    assert_exits(&mut server.program);
}

/// Logs ann in by FTP 24 times from an address that is not the attacker's, and returns the total
/// processor time. `before` runs before each login.
fn measure_login_ticks(server: &Server, mut before: impl FnMut() -> Option<Control>) -> u64 {
    let start = processor_ticks(&server.program);
    for _ in 0..24 {
        let earlier = before();
        let mut honest = Control::new(OTHER, server);
        assert_eq!(honest.log_in("ann", "secret"), WELCOME);
        earlier.into_iter().for_each(Control::reset);
    }
    processor_ticks(&server.program) - start
}

// attack row 98
#[test]
fn disconnecting_does_not_shorten_the_delay_after_a_wrong_password() {
    let directories = TestDirectories::new();
    let server = ftp_server(&directories, "");
    let logins = measure_login_ticks(&server, || None);
    let with_guesses = measure_login_ticks(&server, || {
        let mut guesser = Control::new(ATTACKER, &server);
        guesser.send_without_waiting("USER ann\nPASS wrong\n");
        assert_eq!((guesser.read_reply_code(), guesser.read_reply_code()), (220, 331));
        // Only one password check runs at a time. If the guess were correct, its reply would arrive
        // before the reply to ann's login. Therefore the guesser disconnects after ann's login.
        Some(guesser)
    });
    // If each guess were checked, the guesses would cost as much processor time as ann's logins.
    assert!(with_guesses * 2 < logins * 3, "{with_guesses} {logins}");
}

/// Tries `name` with a wrong password from six addresses, and returns the processor time.
fn measure_failure_ticks(server: &Server, name: &str, network: u8) -> u64 {
    let before = processor_ticks(&server.program);
    let sources = (1..7).map(|host| Ipv4Addr::new(127, 0, network, host));
    let mut tries: Vec<_> = sources.map(|source| Control::new(source, server)).collect();
    for attempt in &mut tries {
        attempt.send_without_waiting(&format!("USER {name}\nPASS wrong\n"));
    }
    for attempt in &mut tries {
        assert_eq!(
            [attempt.read_reply_code(), attempt.read_reply_code(), attempt.read_reply_code()],
            [220, 331, 530]
        );
    }
    processor_ticks(&server.program) - before
}

// attack row 98
#[test]
fn an_unknown_name_takes_as_long_as_a_known_one() {
    let directories = TestDirectories::new();
    let server = ftp_server(&directories, "");
    let known_name_ticks = measure_failure_ticks(&server, "ann", 2);
    let unknown_name_ticks = measure_failure_ticks(&server, "unknown-user", 3);
    assert!(
        unknown_name_ticks * 2 > known_name_ticks && unknown_name_ticks < known_name_ticks * 2,
        "{known_name_ticks} {unknown_name_ticks}"
    );
}

/// Starts a login server at a free local port.
fn login_server(directories: &TestDirectories, words: &[&str]) -> (ServeProcess, u16) {
    let users = directories.users_file("exec = [\"/bin/sh\", \"-c\", \"echo is''in; cat\"]");
    let options = ["--listen", "127.0.0.1:0", "--tls", "off", "--users", &users];
    let server = ServeProcess::start_with(&[&options[..], words].concat());
    let line = server.wait_for_log("listening on 127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap();
    (server, port.parse().unwrap())
}

/// Logs ann in by Telnet from `source`.
fn telnet_login(source: Ipv4Addr, port: u16) -> RawClient {
    let mut client = RawClient::from_stream(connect(source, port));
    client.wait_for(b"login: ");
    client.send(b"ann\r\n");
    client.wait_for(b"Password: ");
    client.send(b"secret\r\n");
    client.wait_for(b"isin");
    client
}

// attack row 64
// attack row 116
#[test]
fn password_checks_of_logins_end_with_their_connections() {
    let directories = TestDirectories::new();
    let (mut server, port) = login_server(&directories, &[]);
    let before = processor_ticks(&server.program);
    drop(telnet_login(OTHER, port));
    let check = (processor_ticks(&server.program) - before).max(1);
    let before = processor_ticks(&server.program);
    for source in many_sources() {
        let mut attacker = RawClient::from_stream(connect(source, port));
        attacker.send(b"ann\r\nwrong\r\n");
        attacker.wait_for(b"Password: ");
        reset(attacker.stream);
    }
    let _honest = telnet_login(OTHER, port);
    let checks = (processor_ticks(&server.program) - before) / check;
    assert!(checks < 30, "{checks}");
    assert_exits(&mut server.program);
}

// attack row 119
#[test]
fn unauthenticated_sessions_are_limited_and_authenticated_sessions_continue() {
    let directories = TestDirectories::new();
    let limits = "sessions-max = 40\nsessions-per-source-max = 1000\n";
    let mut server = ftp_server(&directories, limits);
    let mut users: Vec<_> = (0..8).map(|_| Control::new(OTHER, &server)).collect();
    for user in &mut users {
        assert_eq!(user.log_in("ftp", "a@b"), WELCOME);
    }
    let mut silent: Vec<_> = (0..60).map(|_| Control::new(ATTACKER, &server)).collect();
    let greeting_count =
        silent.iter_mut().map(Control::read_reply_code).filter(|code| *code == 220).count();
    assert!((10..=20).contains(&greeting_count), "{greeting_count}");
    assert!(users.iter_mut().all(|user| user.send_and_read("NOOP") == 200));
    silent.into_iter().for_each(Control::reset);
    let mut late_client = login_harness::poll_until_timeout(|| {
        let mut late_client = Control::new(OTHER, &server);
        (late_client.read_reply_code() == 220).then_some(late_client)
    });
    assert_eq!(
        (late_client.send_and_read("USER ftp"), late_client.send_and_read("PASS a@b")),
        (331, 230)
    );
    assert_exits(&mut server.program);
}

// attack row 120
#[test]
fn sighup_reloads_the_users_without_ending_the_login_server() {
    let directories = TestDirectories::new();
    let (mut server, port) = login_server(&directories, &[]);
    let mut old_session = telnet_login(OTHER, port);
    let path = directories.local_path("users.toml");
    let users = fs::read_to_string(&path).unwrap();
    fs::write(&path, users.replace("[ann]", "[kim]")).unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.wait_for_log("configuration reloaded");
    let mut client = RawClient::from_stream(connect(OTHER, port));
    client.wait_for(b"login: ");
    client.send(b"kim\r\nsecret\r\n");
    client.wait_for(b"isin");
    fs::write(&path, "[kim]\nroot = 1\n  = nonsense\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    let line = server.wait_for_log("configuration not reloaded");
    assert!(line.contains("Z plumb: error: ") && line.contains("users.toml"), "{line}");
    old_session.send(b"still here\r\n");
    old_session.wait_for(b"still here");
    assert!(!server.lines().iter().any(|line| !line.contains("Z plumb: ")));
    assert_exits(&mut server.program);
}

// attack row 118
#[test]
fn an_unread_log_blocks_neither_sessions_nor_shutdown() {
    let directories = TestDirectories::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command
        .args(["serve", "--ftp", "--ftp-listen", "127.0.0.1:0", "--root"])
        .arg(directories.remote_path(""));
    command.env("XDG_STATE_HOME", directories.local_path("state"));
    let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
    let mut log = BufReader::new(program.child().stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving FTP at ") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0);
    }
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    // A pipe holds 64 KiB, and each session logs about a hundred bytes.
    for _ in 0..1500 {
        let mut control = Control(BufReader::new(connect(ATTACKER, port)));
        assert_eq!(control.log_in("ftp", "a@b"), WELCOME);
    }
    assert_exits(&mut program);
}
