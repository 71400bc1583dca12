//! Tests of the output of `plumb login` and `plumb replay` to the user's terminal.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::relay::{self, Path};
use login_harness::serve_process::{PORT, ServeProcess, unique};
use login_harness::{SERVER, TerminalUser, in_new_network, listen, start_busybox};
use net::time::Duration;
use os::tty::WindowSize;
use protocols::terminal::{InputModes, Style};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;

/// Options of `plumb serve` that run bash with bracketed paste and a fixed prompt.
const BASH: &[&str] = &["--exec", "env", "PS1=ready:", "TERM=xterm", "bash", "--norc", "-i"];
/// Like [`BASH`], but for a Heath-19 terminal, which is a VT52 with more functions. TERM is vt52
/// because the terminfo entry of the Heath-19 may not be installed. On a terminal without an entry,
/// bash does not bracket pastes.
const BASH_AT_H19: &[&str] = &["--exec", "env", "PS1=ready:", "TERM=vt52", "bash", "--norc", "-i"];

/// Sequences that make a terminal reply with text, set its clipboard, print, or execute something.
const HOSTILE: &str = "\x1b]52;c;ZXZpbA==\x07\x05\x1b[21t\x1bP$qm\x1b\\\x1bP+q6578\x1b\\\x1b]11;?\x07\
    \x1b[5i\x1b]50;?\x07\x1b]1337;CopyToClipboard=\x07\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\\
    \u{9d}52;c;eA==\x07\x1b]777;notify;a;b\x07\x1b]46;/tmp/x\x07\x1b[>q\x1b[65535b";
/// Parts of the hostile sequences that must not reach the terminal.
const HOSTILE_PARTS: &[&str] = &[
    "]52;", "\x05", "[21t", "P$q", "P+q", "]11;?", "[5i", "]50", "]1337", "tmux", "\u{9d}", "]777",
    "]46", "[>q", "65535b",
];

/// Starts a server that writes `text` to one client and closes; returns its address.
fn serve_text_once(text: String) -> String {
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(text.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        _ = client.read_to_end(&mut Vec::new());
    });
    format!("tcp://127.0.0.1:{port}")
}

fn start_replay(path: &str, arguments: &[&str]) -> TerminalUser {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("replay").args(arguments).arg(path);
    TerminalUser::run(command)
}

fn assert_harmless(user: &TerminalUser) {
    for part in HOSTILE_PARTS {
        assert!(!user.all_output().contains(part), "{part:?} in {:?}", user.all_output());
    }
}

// attack row 65
// attack row 68
// attack row 70
// attack row 72
// attack row 73
// attack row 74
#[test]
fn hostile_sequences_reach_the_terminal_neither_from_a_login_nor_from_a_replay() {
    let cast = unique("hostile.cast");
    let text = format!("before {HOSTILE}behind\r\n");
    let path = cast.to_str().unwrap();
    let mut login = TerminalUser::with_arguments(&["--record", path, &serve_text_once(text)]);
    // In UTF-8 the 8-bit control is removed, and the rest of the sequence is plain text.
    login.wait_for_text("before 52;c;eA==behind");
    assert_eq!(login.wait_for_exit().code(), Some(0));
    assert_harmless(&login);
    let mut replay = start_replay(path, &["--speed", "100"]);
    replay.wait_for_text("before 52;c;eA==behind");
    assert_eq!(replay.wait_for_exit().code(), Some(0));
    assert_harmless(&replay);
    // With `--unfiltered` the whole text passes.
    let mut replay = start_replay(path, &["--speed", "100", "--unfiltered"]);
    assert_eq!(replay.wait_for_exit().code(), Some(0));
    for part in HOSTILE_PARTS {
        assert!(replay.all_output().contains(part), "{part:?} in {:?}", replay.all_output());
    }
    std::fs::remove_file(cast).unwrap();
}

// attack row 69
#[test]
fn endless_combining_marks_reach_the_terminal_neither_from_a_login_nor_from_a_replay() {
    let cast = unique("marks.cast");
    let marks = "\u{301}".repeat(10_000);
    let path = cast.to_str().unwrap();
    let to = serve_text_once(format!("e{marks}behind\r\n"));
    let mut login = TerminalUser::with_arguments(&["--record", path, &to]);
    login.wait_for_text("behind");
    assert_eq!(login.wait_for_exit().code(), Some(0));
    let mut replay = start_replay(path, &["--speed", "100"]);
    replay.wait_for_text("behind");
    assert_eq!(replay.wait_for_exit().code(), Some(0));
    for user in [login, replay] {
        let count = user.all_output().matches('\u{301}').count();
        assert!((1..=32).contains(&count), "{count}");
    }
    std::fs::remove_file(cast).unwrap();
}

#[test]
fn terminal_modes_set_by_a_dead_program_are_reset() {
    let set = "\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?1h\x1b=\x1b[?25l\
        \x1b[?2004h\x1b[?1004h\x1b[5;10r\x1b[31m\x1b(0";
    for arguments in [&[][..], &["--predict", "never"], &["--unfiltered"], &["--status-line"]] {
        let to = serve_text_once(format!("{set}dead"));
        let mut user = TerminalUser::with_arguments(&[arguments, &[to.as_str()]].concat());
        assert_eq!(user.wait_for_exit().code(), Some(0));
        let terminal = user.terminal();
        assert!(!terminal.is_alternate() && terminal.is_cursor_visible(), "{arguments:?}");
        assert_eq!(terminal.input_modes(), InputModes::default(), "{arguments:?}");
        assert_eq!(terminal.style(), Style::PLAIN, "{arguments:?}");
        // plumb has switched the terminal back from the line-drawing character set.
        assert!(user.screen().contains("Connection closed"), "{}", user.screen());
    }
}

#[test]
fn a_truncated_recording_leaves_no_terminal_mode_set() {
    let cast = unique("cut.cast");
    let header = r#"{"version": 2, "width": 80, "height": 24}"#;
    let event = r#"[0.1, "o", "\u001b[?1049h\u001b[?1000h\u001b[?25l\u001b[1mtext"]"#;
    std::fs::write(&cast, format!("{header}\n{event}\n")).unwrap();
    let mut replay = start_replay(cast.to_str().unwrap(), &["--speed", "100"]);
    assert_eq!(replay.wait_for_exit().code(), Some(0));
    let terminal = replay.terminal();
    assert!(!terminal.is_alternate() && terminal.is_cursor_visible());
    assert_eq!((terminal.input_modes(), terminal.style()), (InputModes::default(), Style::PLAIN));
    std::fs::remove_file(cast).unwrap();
}

#[test]
fn echoed_and_recorded_passwords_cause_a_warning_before_connecting() {
    let cast_path = unique("kept");
    let path = cast_path.to_str().unwrap();
    for option in ["--record", "--log"] {
        let to = serve_text_once("hello\r\n".to_owned()).replace("tcp:", "telnet:");
        let mut user = TerminalUser::with_arguments(&["--local-echo", option, path, &to]);
        user.wait_for_text("warning: typed passwords will be displayed, and saved by");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        let warning = user.all_output().find("warning");
        let connected = user.all_output().find("Conn");
        assert!(warning < connected, "{}", user.all_output());
        std::fs::remove_file(&cast_path).unwrap();
    }
}

#[test]
fn a_title_of_a_recording_is_escaped_by_measure() {
    let cast = unique("title.cast");
    let header = r#"{"version": 2, "width": 80, "height": 24, "title": "a\u001b]0;owned\u0007b"}"#;
    let events = "[0.1, \"o\", \"$ \"]\n[0.2, \"i\", \"a\"]\n[0.3, \"o\", \"a\"]\n";
    std::fs::write(&cast, format!("{header}\n{events}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    let output = command.arg("measure").arg(&cast).output().unwrap();
    let messages = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(messages.contains(r"a\x1b]0;owned\x07b"), "{messages}");
    assert!(!messages.contains('\x1b'), "{messages}");
    std::fs::remove_file(cast).unwrap();
}

#[test]
#[ignore = "needs root or a user namespace, and bash"]
fn a_heath_19_works_with_a_modern_shell() {
    in_new_network(|| {
        let _server = ServeProcess::start(BASH_AT_H19);
        let mut user = TerminalUser::with_arguments(&["--terminal", "heath19", SERVER, PORT]);
        user.wait_for_text("ready:");
        user.type_keys("seq 1 40; echo do''ne\r");
        user.wait_for_text("done");
        user.type_keys("echo 6''7\r");
        user.wait_for_text("67");
        let screen = user.screen();
        assert!(screen.contains("39") && !screen.contains("2004"), "{screen}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and bash"]
fn a_held_heath_19_names_the_key_that_releases_it() {
    in_new_network(|| {
        let _server = ServeProcess::start(BASH_AT_H19);
        let mut user =
            TerminalUser::with_arguments(&["--terminal", "heath19-strict", SERVER, PORT]);
        user.wait_for_text("ready:");
        user.type_keys("seq 1 40; echo do''ne\r");
        user.wait_for_text("held: F10 releases a line, F11 a screen");
        user.type_keys("\x1dstatus\r");
        user.wait_for_text("The screen is held: F10 releases a line, F11 a screen.");
        user.type_keys("\r");
        user.type_keys("\x1b[23~\x1b[23~");
        user.wait_for_text("done");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and bash"]
fn the_negotiation_is_displayed_above_the_status_line() {
    in_new_network(|| {
        let _server = ServeProcess::start(BASH);
        let mut user = TerminalUser::with_arguments(&["--inspect", "--status-line", SERVER, PORT]);
        user.wait_for_text("WILL ECHO");
        user.wait_for_text("ready:");
    });
}

/// Types lines into a shell over a path with delay, jitter or stalls, and returns the final screen.
fn work_over_path(path: Path, predict: &str) -> String {
    let server = format!("{SERVER}:{PORT}").parse().unwrap();
    let port = relay::start(server, path).to_string();
    let mut user = TerminalUser::with_arguments(&["--predict", predict, "127.0.0.1", &port]);
    user.wait_for_text("ready:");
    user.type_keys("clear\r");
    let lines = [
        "echo hello wrold\x7f\x7f\x7f\x7forld\r",
        "echo one\x1b[D\x1b[D\x1b[DX\x05 two\r",
        "\x1b[A\x1b[A\r",
        "read -r -s -p 'Password: ' word; echo\r",
        "QZXJ\r",
        "ls /et\t/host\t\x15\r",
        "printf 'fini%s\\n' shed\r",
    ];
    for key in lines.concat().split_inclusive(|c: char| !matches!(c, '\x1b' | '[')) {
        user.type_keys(key);
        user.read_for(Duration::from_millis(30));
    }
    user.wait_for_text("finished\nready:");
    // After this time the client has removed wrong predictions from the screen.
    user.read_for(Duration::from_millis(500));
    assert!(!user.all_output().contains("QZXJ"), "{}", user.all_output());
    user.screen()
}

#[test]
#[ignore = "needs root or a user namespace, and bash"]
fn prediction_does_not_change_the_screen_over_a_path_with_jitter_and_stalls() {
    in_new_network(|| {
        let _server = ServeProcess::start(BASH);
        for seed in [1, 2] {
            let path = Path { delay_ms: 60, jitter_ms: 20, stalls_percent: 2, stall_ms: 400, seed };
            let without_prediction = work_over_path(path, "never");
            for predict in ["auto", "always"] {
                assert_eq!(
                    work_over_path(path, predict),
                    without_prediction,
                    "seed {seed}, --predict {predict}"
                );
            }
        }
    });
}

/// Time between two keys of a fast typist.
const KEY_INTERVAL: Duration = Duration::from_millis(120);

/// Types `line` at the pace of a user.
fn type_line(user: &mut TerminalUser, line: &str) {
    for key in line.chars() {
        user.type_keys(&key.to_string());
        user.read_for(KEY_INTERVAL);
    }
}

/// Returns the count before `text` in the page of the command status.
fn status_count(page: &str, text: &str) -> u64 {
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = page.split(text).next().unwrap().trim_end();
    let word = before.rsplit(' ').next().unwrap();
    word.parse().unwrap_or_else(|_| panic!("{text}: {page}"))
}

#[test]
#[ignore = "needs root or a user namespace, bash and busybox"]
fn on_a_fast_path_typed_keys_names_and_passwords_are_not_wrong_predictions() {
    in_new_network(|| {
        let program = unique("login");
        let script = "#!/bin/sh\nprintf 'host login: '\nread -r name\nprintf 'Password: '\n\
            stty -echo\nread -r word\nstty echo\nexec env PS1=ready: TERM=xterm bash --norc -i\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let server = start_busybox(program.to_str().unwrap());
        let port = server.port().to_string();
        for predict in ["always", "auto"] {
            let mut user = TerminalUser::with_arguments(&["--predict", predict, SERVER, &port]);
            user.wait_for_text("login:");
            type_line(&mut user, "someone\r");
            user.wait_for_text("Password:");
            type_line(&mut user, "very secret\r");
            user.wait_for_text("ready:");
            let lines = [
                ("echo abcdefghij", "\nabcdefghij\nready:"),
                ("cd /usr/share", "cd /usr/share\nready:"),
                ("pwd", "\n/usr/share\nready:"),
            ];
            for (line, output) in lines {
                type_line(&mut user, line);
                user.type_keys("\r");
                user.wait_for_text(output);
            }
            assert!(!user.all_output().contains("very"), "{}", user.all_output());
            user.type_keys("\x1d");
            user.wait_for_text("plumb>");
            user.type_keys("status\r");
            user.wait_for_text("CPU time");
            let page = user.all_output().to_owned();
            if predict == "auto" {
                // After some fast echoes, the prediction is disabled.
                assert!(page.contains("Echo is not predicted."), "{page}");
                continue;
            }
            assert_eq!(status_count(&page, "were wrong"), 0, "{page}");
            assert!(status_count(&page, "were confirmed") > 20, "{page}");
        }
        std::fs::remove_file(program).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace, and bash"]
fn a_window_of_40_columns_has_room_for_the_keys_that_release_a_held_screen() {
    in_new_network(|| {
        let _server = ServeProcess::start(BASH_AT_H19);
        let mut user =
            TerminalUser::with_arguments(&["--terminal", "heath19-strict", SERVER, PORT]);
        user.wait_for_text("ready:");
        user.set_window_size(WindowSize { rows: 24, columns: 40 });
        user.type_keys("seq 1 40; echo do''ne\r");
        user.wait_for_text("held: F10, F11");
    });
}
