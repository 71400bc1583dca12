//! Attacks on password checks and on session slots.

use super::login_desk::served::{Caller, Served};
use super::*;

/// Logs ann in by FTP from another address, and returns the processor time of that one check.
fn cost_of_a_check(server: &Server) -> u64 {
    let before = ticks(&server.program);
    let mut honest = Control::new(OTHER, server);
    assert_eq!(honest.logs_in("ann", "secret"), WELCOME);
    assert_eq!(honest.asks("QUIT"), 221);
    (ticks(&server.program) - before).max(1)
}

// attack row 64
// attack row 116
#[test]
fn password_checks_of_ftp_end_with_their_connections() {
    let desk = Desk::new();
    let mut server = ftp_server(&desk, "");
    let check = cost_of_a_check(&server);
    let before = ticks(&server.program);
    // From a single address only the first attempt would be checked; the others would wait for the
    // delay.
    for source in many_sources() {
        let mut attacker = Control::new(source, &server);
        attacker.sends("USER ann\nPASS wrong\n");
        assert_eq!(attacker.reply(), 220);
        attacker.resets();
    }
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.logs_in("ann", "secret"), WELCOME);
    let checks = (ticks(&server.program) - before) / check;
    assert!(checks < 30, "{checks}");
    ends(&mut server.program);
}

// attack row 116
#[test]
fn one_source_of_many_logins_is_told_to_come_later_and_another_is_served() {
    let desk = Desk::new();
    let mut server = ftp_server(&desk, "");
    let mut attackers: Vec<_> = (0..60).map(|_| Control::new(ATTACKER, &server)).collect();
    for attacker in &mut attackers {
        attacker.sends("USER ann\nPASS wrong\n");
    }
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.logs_in("ann", "secret"), WELCOME);
    // Logins whose scheduled check is too far in the future are refused; the others wait for their
    // checks.
    for attacker in &mut attackers {
        attacker.0.get_mut().set_nonblocking(true).unwrap();
    }
    let refused = |attacker: &mut Control| {
        let mut said = Vec::new();
        _ = attacker.0.get_mut().read_to_end(&mut said);
        String::from_utf8(said).unwrap().contains("421 Too many logins")
    };
    let count = attackers.iter_mut().filter_map(|attacker| refused(attacker).then_some(())).count();
    assert!(count >= 20, "{count}");
    ends(&mut server.program);
}

/// Logs ann in by FTP from another address 24 times, each time after `before`, and returns the
/// total processor time.
fn cost_of_logins(server: &Server, mut before: impl FnMut() -> Option<Control>) -> u64 {
    let start = ticks(&server.program);
    for _ in 0..24 {
        let earlier = before();
        let mut honest = Control::new(OTHER, server);
        assert_eq!(honest.logs_in("ann", "secret"), WELCOME);
        earlier.into_iter().for_each(Control::resets);
    }
    ticks(&server.program) - start
}

// attack row 98
#[test]
fn hanging_up_saves_a_guesser_nothing_of_the_delay() {
    let desk = Desk::new();
    let server = ftp_server(&desk, "");
    let logins = cost_of_logins(&server, || None);
    let with_guesses = cost_of_logins(&server, || {
        let mut guesser = Control::new(ATTACKER, &server);
        guesser.sends("USER ann\nPASS wrong\n");
        assert_eq!((guesser.reply(), guesser.reply()), (220, 331));
        // Only one check runs at a time. By the time the next login gets its reply, a correct guess
        // would have got its own, so the guesser disconnects only after that.
        Some(guesser)
    });
    // A check of each guess would cost as much as the logins do.
    assert!(with_guesses * 2 < logins * 3, "{with_guesses} {logins}");
}

/// Tries `name` with a wrong password from six addresses, and returns the processor time.
fn cost_of_failures(server: &Server, name: &str, network: u8) -> u64 {
    let before = ticks(&server.program);
    let sources = (1..7).map(|host| Ipv4Addr::new(127, 0, network, host));
    let mut tries: Vec<_> = sources.map(|source| Control::new(source, server)).collect();
    for attempt in &mut tries {
        attempt.sends(&format!("USER {name}\nPASS wrong\n"));
    }
    for attempt in &mut tries {
        assert_eq!([attempt.reply(), attempt.reply(), attempt.reply()], [220, 331, 530]);
    }
    ticks(&server.program) - before
}

// attack row 98
#[test]
fn a_name_that_nobody_has_costs_as_much_as_a_known_one() {
    let desk = Desk::new();
    let server = ftp_server(&desk, "");
    let known = cost_of_failures(&server, "ann", 2);
    let unknown = cost_of_failures(&server, "nobody-has-this", 3);
    assert!(unknown * 2 > known && unknown < known * 2, "{known} {unknown}");
}

/// Starts a login server at a free local port.
fn login_server(desk: &Desk, words: &[&str]) -> (Served, u16) {
    let users = desk.users_file("exec = [\"/bin/sh\", \"-c\", \"echo is''in; cat\"]");
    let usual = ["--listen", "127.0.0.1:0", "--tls", "off", "--users", &users];
    let served = Served::start_with(&[&usual[..], words].concat());
    let line = served.says("listening on 127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap();
    (served, port.parse().unwrap())
}

/// Logs ann in by Telnet from `source`.
fn telnet_login(source: Ipv4Addr, port: u16) -> Caller {
    let mut caller = Caller::on(connect(source, port));
    caller.hears(b"login: ");
    caller.says(b"ann\r\n");
    caller.hears(b"Password: ");
    caller.says(b"secret\r\n");
    caller.hears(b"isin");
    caller
}

// attack row 64
// attack row 116
#[test]
fn password_checks_of_logins_end_with_their_connections() {
    let desk = Desk::new();
    let (mut server, port) = login_server(&desk, &[]);
    let before = ticks(&server.program);
    drop(telnet_login(OTHER, port));
    let check = (ticks(&server.program) - before).max(1);
    let before = ticks(&server.program);
    for source in many_sources() {
        let mut attacker = Caller::on(connect(source, port));
        attacker.says(b"ann\r\nwrong\r\n");
        attacker.hears(b"Password: ");
        reset(attacker.stream);
    }
    let _honest = telnet_login(OTHER, port);
    let checks = (ticks(&server.program) - before) / check;
    assert!(checks < 30, "{checks}");
    ends(&mut server.program);
}

// attack row 119
#[test]
fn sessions_without_a_login_have_a_share_of_the_places_and_those_with_one_stay() {
    let desk = Desk::new();
    let limits = "sessions-max = 40\nsessions-per-source-max = 1000\n";
    let mut server = ftp_server(&desk, limits);
    let mut users: Vec<_> = (0..8).map(|_| Control::new(OTHER, &server)).collect();
    for user in &mut users {
        assert_eq!(user.logs_in("ftp", "a@b"), WELCOME);
    }
    let mut silent: Vec<_> = (0..60).map(|_| Control::new(ATTACKER, &server)).collect();
    let greeted = silent.iter_mut().map(Control::reply).filter(|code| *code == 220).count();
    assert!((10..=20).contains(&greeted), "{greeted}");
    assert!(users.iter_mut().all(|user| user.asks("NOOP") == 200));
    silent.into_iter().for_each(Control::resets);
    let mut late = login_desk::within_the_limit(|| {
        let mut late = Control::new(OTHER, &server);
        (late.reply() == 220).then_some(late)
    });
    assert_eq!((late.asks("USER ftp"), late.asks("PASS a@b")), (331, 230));
    ends(&mut server.program);
}

// attack row 120
#[test]
fn a_hangup_reads_the_users_again_and_ends_no_login_server() {
    let desk = Desk::new();
    let (mut server, port) = login_server(&desk, &[]);
    let mut old = telnet_login(OTHER, port);
    let path = desk.here("users.toml");
    let users = fs::read_to_string(&path).unwrap();
    fs::write(&path, users.replace("[ann]", "[kim]")).unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.says("login users and prefixes reloaded");
    let mut caller = Caller::on(connect(OTHER, port));
    caller.hears(b"login: ");
    caller.says(b"kim\r\nsecret\r\n");
    caller.hears(b"isin");
    fs::write(&path, "[kim]\nroot = 1\n  = nonsense\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    let line = server.says("configuration not reloaded");
    assert!(line.starts_with("plumb: ") && line.contains("users.toml"), "{line}");
    old.says(b"still here\r\n");
    old.hears(b"still here");
    assert!(!server.lines().iter().any(|line| !line.starts_with("plumb: ")));
    ends(&mut server.program);
}

// attack row 118
#[test]
fn a_log_that_is_not_read_stops_no_session_and_no_end() {
    let desk = Desk::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["serve", "--ftp", "--ftp-listen", "127.0.0.1:0", "--root"]).arg(desk.there(""));
    command.env("XDG_STATE_HOME", desk.here("state"));
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
        assert_eq!(control.logs_in("ftp", "a@b"), WELCOME);
    }
    ends(&mut program);
}
