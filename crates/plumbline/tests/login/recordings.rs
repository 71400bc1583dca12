//! Tests of recordings, logs and replays of sessions.

use crate::lines::SerialLine;
use crate::login_harness::{TerminalUser, listen};
use crate::{TempDirectory, assert_error, plumb};
use os::tty::WindowSize;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};
use std::thread;

/// Starts a server that writes `text` to one client and closes; returns its port.
fn serve_text_once(text: &'static [u8]) -> u16 {
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(text).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        // Closing with unread data would reset the connection.
        _ = client.read_to_end(&mut Vec::new());
    });
    port
}

#[test]
fn a_recording_is_replayed_byte_for_byte() {
    let directory = TempDirectory::new("record");
    let port = serve_text_once("caf\u{e9} \x1b[1mbold\x1b[0m\r\nbye\r\n".as_bytes()).to_string();
    let cast = directory.path("a.cast");
    let log = directory.path("a.log");
    let to = format!("tcp://127.0.0.1:{port}");
    let live_output = plumb(&["login", "--record", &cast, "--log", &log, &to]);
    assert_eq!(live_output.status.code(), Some(0), "{live_output:?}");
    let replayed_output = plumb(&["replay", &cast]);
    assert_eq!(replayed_output.status.code(), Some(0), "{replayed_output:?}");
    assert_eq!(replayed_output.stdout, live_output.stdout);
    assert_eq!(directory.read("a.log"), "caf\u{e9} bold\nbye\n");
}

#[test]
fn a_recording_contains_input_only_on_request_and_every_window_size() {
    let directory = TempDirectory::new("record-input");
    for (name, is_asked) in [("without", false), ("with", true)] {
        let cast = directory.path(name);
        let line = SerialLine::new();
        let destination = line.destination();
        let mut arguments = vec!["--record", &cast];
        arguments.extend(is_asked.then_some("--record-input"));
        arguments.push(&destination);
        let mut user = TerminalUser::with_arguments(&arguments);
        user.wait_for_text("Escape character");
        user.set_window_size(WindowSize { rows: 40, columns: 100 });
        user.type_keys("secret");
        line.wait_for(b"secret");
        line.send(b"done");
        user.wait_for_text("done");
        user.type_keys("\x1dclose\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        let text = directory.read(name);
        assert!(text.contains(r#""r", "100x40"]"#) && text.contains(r#""o", "done"]"#), "{text}");
        assert_eq!(text.contains("secret"), is_asked, "{text}");
    }
}

#[test]
fn a_recording_contains_the_telnet_negotiation() {
    let directory = TempDirectory::new("record-telnet");
    let port = serve_text_once(b"\xff\xfb\x01login: ");
    let cast = directory.path("a.cast");
    let to = format!("telnet://127.0.0.1:{port}");
    assert_eq!(plumb(&["login", "--record", &cast, &to]).status.code(), Some(0));
    assert!(directory.read("a.cast").contains("\"m\", \"received WILL ECHO"));
    let run_inspector = |arguments: &[&str]| {
        String::from_utf8(plumb(&[&["replay", &cast], arguments].concat()).stdout).unwrap()
    };
    assert_eq!(run_inspector(&[]), "login: ");
    assert!(run_inspector(&["--negotiation"]).contains("received WILL ECHO"));
}

#[test]
fn the_inspector_shows_the_negotiation_of_a_pipe_on_stderr() {
    let port = serve_text_once(b"\xff\xfb\x01login: ");
    let output = plumb(&["login", "--inspect", &format!("telnet://127.0.0.1:{port}")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "login: ");
    assert!(String::from_utf8_lossy(&output.stderr).contains("received WILL ECHO"));
}

#[test]
fn an_unwritable_recording_file_is_rejected_before_connecting() {
    let directory = TempDirectory::new("record-refused");
    let existing_file = directory.write("there", "mine");
    let run = |flag, file: &str| plumb(&["login", flag, file, "192.0.2.1"]);
    assert_error(&run("--record", "/dev/full"), 4, &["the disk is full"]);
    assert_error(&run("--record", &existing_file), 4, &["already exists", "use another name"]);
    assert_error(
        &run("--record", &directory.path("no/a.cast")),
        4,
        &["create its directory first"],
    );
    assert_error(&run("--log", &directory.path("no/a.log")), 4, &["create its directory first"]);
    assert_eq!(directory.read("there"), "mine");
}

#[test]
fn a_full_disk_ends_the_log_and_not_the_session() {
    let port = serve_text_once(b"one\r\ntwo\r\n");
    let output = plumb(&["login", "--log", "/dev/full", &format!("tcp://127.0.0.1:{port}")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\r\ntwo\r\n");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("The log has stopped: No space left on device"), "{messages}");
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn an_invalid_recording_is_reported_with_its_line_number() {
    let directory = TempDirectory::new("replay-broken");
    let header = r#"{"version": 2, "width": 80, "height": 24}"#;
    let event = r#"[0.1, "o", "one"]"#;
    let replay = |text: &str| plumb(&["replay", &directory.write("cast", text)]);
    assert_error(&replay(""), 1, &["is not a recording"]);
    assert_error(&replay("PNG"), 1, &["is not a recording"]);
    assert_error(&replay(r#"{"version": 3}"#), 1, &["version 3"]);
    assert_error(&replay(&format!("{header}\n[0.1, \"o\"]\n{event}\n")), 1, &["damaged in line 2"]);
    let truncated = replay(&format!("{header}\n{event}\n[0.2, \"o"));
    assert_error(&truncated, 1, &["truncated in line 3"]);
    assert_eq!(truncated.stdout, b"one");
    assert_error(&plumb(&["replay", &directory.path("none")]), 4, &["no such file"]);
    assert_error(&plumb(&["replay", "--speed", "0", "x"]), 2, &["from 0.01 to 1000"]);
}

#[test]
fn the_keys_of_a_replay_work_while_its_display_lags() {
    let directory = TempDirectory::new("replay-behind");
    let header = r#"{"version": 2, "width": 80, "height": 24}"#;
    let events = "[0.0, \"o\", \"0123456789\\r\\n\"]\n".repeat(100_000);
    let cast = directory.write("cast", &format!("{header}\n{events}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["replay", &cast]);
    let mut user = TerminalUser::run(command);
    user.wait_for_full_display();
    user.type_keys("q");
    assert_eq!(user.read_until_exit().code(), Some(0));
    let displayed_lines = user.all_output().matches("0123456789").count();
    assert!(displayed_lines < 50_000, "{displayed_lines}");
}

#[test]
fn a_recording_is_read_from_a_pipe_and_its_reader_may_exit() {
    let header = r#"{"version": 2, "width": 80, "height": 24}"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["replay", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut replay = command.spawn().unwrap();
    drop(replay.stdout.take());
    let mut pipe = replay.stdin.take().unwrap();
    let written = writeln!(pipe, "{header}\n[0.1, \"o\", \"one\"]");
    drop(pipe);
    written.unwrap();
    assert_eq!(replay.wait().unwrap().code(), Some(0));
}
