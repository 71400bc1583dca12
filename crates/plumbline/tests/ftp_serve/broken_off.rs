//! Transfers and logins that end early: by a Synch, an invalid local file, or wrong passwords.

use super::ftp_desk::{Desk, Line, Server, pattern};
use rustix::net::SendFlags;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::thread;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Sends a command after a Synch (RFC 959 §4.1.3: Telnet's IP, and DM as urgent data).
fn say_behind_a_synch(line: &mut Line, command: &[u8]) {
    let stream = line.0.get_mut();
    rustix::net::send(&*stream, b"\xff\xf4\xff", SendFlags::OOB).unwrap();
    stream.write_all(&[b"\xf2", command, b"\r\n"].concat()).unwrap();
}

#[test]
fn a_synch_ends_a_transfer_that_nobody_reads() {
    let desk = Desk::new();
    let file = fs::File::create(desk.there("large")).unwrap();
    file.set_len(300 << 20).unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    for _ in 0..5 {
        let mut line = Line::logged_in(&server);
        line.says("TYPE I");
        let _unread = line.passive();
        assert_eq!(line.says("RETR large"), 150);
        say_behind_a_synch(&mut line, b"ABOR");
        assert_eq!((line.hears(), line.hears()), (426, 226));
        assert_eq!(line.says("NOOP"), 200);
    }
}

#[test]
fn a_synch_where_nothing_moves_is_answered() {
    let desk = Desk::new();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let mut line = Line::logged_in(&server);
    for _ in 0..20 {
        say_behind_a_synch(&mut line, b"NOOP");
        assert_eq!(line.hears(), 200);
    }
}

#[test]
fn a_file_of_ours_that_is_not_so_leaves_the_old_one_there_and_is_not_tried_again() {
    let desk = Desk::new();
    fs::write(desk.there("keep"), b"old").unwrap();
    // The last word has more than 36 bits.
    let words = [[0; 4605].as_slice(), &[0, 0, 0, 0, 0x10]].concat();
    fs::write(desk.here("bad"), words).unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let url = server.url("127.0.0.1", "keep");
    let tried = desk.tries(PLUMB, &["put", "--store", "c36", "--force", "bad", &url], "");
    let said = String::from_utf8(tried.stderr).unwrap();
    assert!(!tried.status.success() && !said.contains("attempt"), "{said}");
    assert_eq!(fs::read(desk.there("keep")).unwrap(), b"old", "{said}");
}

#[test]
fn the_pieces_of_a_file_come_without_a_wait_at_their_ends() {
    let desk = Desk::new();
    fs::write(desk.there("file"), pattern(3_000_000)).unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let url = server.url("127.0.0.1", "file");
    // A wait for the timeout would take an hour, and the test would not finish.
    let words = ["get", "--segments", "3", "--timeout", "3600", &url, "came"];
    desk.runs(PLUMB, &words, "");
    assert!(fs::read(desk.here("came")).unwrap() == pattern(3_000_000));
}

fn anonymous_memory_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.program.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn passwords_that_were_checked_keep_no_memory() {
    let desk = Desk::new();
    let users = desk.here("users.toml");
    let hash = desk.runs(PLUMB, &["serve", "--hash-password"], "secret");
    let root = desk.there("");
    let text = format!("[ann]\npassword = \"{}\"\nroot = \"{}\"\n", hash.trim(), root.display());
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--ftp-listen", "127.0.0.1:0", "--ftp-users", users.to_str().unwrap()];
    let server = Server::start(&desk, &words);
    let before_kib = anonymous_memory_kib(&server);
    // Checks from one source would run one after the other.
    let sources = (1..13).map(|host| std::net::Ipv4Addr::new(127, 0, 4, host));
    let mut lines: Vec<Line> = sources.map(|source| Line::from_address(source, &server)).collect();
    thread::scope(|scope| {
        for line in &mut lines {
            scope
                .spawn(|| assert_eq!((line.says("USER ann"), line.says("PASS guess")), (331, 530)));
        }
    });
    // Each check uses 19 MiB of its own while it runs.
    let kept_kib = anonymous_memory_kib(&server).saturating_sub(before_kib);
    assert!(kept_kib < 16 * 1024, "{kept_kib} KiB");
}
