//! Tests of `plumb login` while output floods a terminal that is not read: keystrokes, commands at
//! the prompt and window changes still reach the server.
//!
//! The tests assert the order of events, not times. They do not read the terminal until the server
//! has received the keystroke, so a client that first displays all received data fails the test.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{PORT, ServeProcess, unique};
use login_harness::{SERVER, TerminalUser, in_new_network, poll_until_timeout};
use os::tty::WindowSize;
use std::path::Path;

const TLS_PORT: &str = "2992";

/// Returns a shell script that floods the output with different lines. For each typed line it
/// appends the line and the window size to a file.
fn flood_script(path: &Path) -> String {
    let path = path.display();
    format!(
        "stty -echo; seq 1 9999999999 & while read line; do echo $line $(stty size) >> {path}; done"
    )
}

/// Waits until the script has written this line to the file.
fn wait_for_line_in_file(path: &Path, line: &str) {
    poll_until_timeout(|| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|written| written == line).then_some(())
    });
}

fn the_keyboard_is_served_during_a_flood(listen: &str, port: &str, arguments: &[&str]) {
    // The status line takes one row.
    let status_rows = u16::from(arguments.contains(&"--status-line"));
    let path = unique("flood");
    let script = flood_script(&path);
    let address = format!("{SERVER}:{port}");
    let server = ServeProcess::start_with(&[
        listen, &address, "--tls", "off", "--exec", "sh", "-c", &script,
    ]);
    let state = unique("client");
    let mut command = login_harness::plumb();
    command.args(arguments).env("XDG_STATE_HOME", &state);
    let mut user = TerminalUser::run(command);
    user.wait_for_full_display();
    user.type_keys("first\r");
    wait_for_line_in_file(&path, &format!("first {} 80", 24 - status_rows));
    user.set_window_size(WindowSize { rows: 40, columns: 100 });
    user.type_keys("second\r");
    wait_for_line_in_file(&path, &format!("second {} 100", 40 - status_rows));
    user.wait_for_full_display();
    // plumb's command prompt cannot be displayed, but its commands work.
    user.type_keys("\x1dquit\r");
    user.wait_for_text("Connection closed here");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    server.wait_for_log("disconnected");
    _ = std::fs::remove_file(&path);
    _ = std::fs::remove_dir_all(&state);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_keyboard_is_served_during_a_flood_over_kernel_tcp() {
    in_new_network(|| {
        the_keyboard_is_served_during_a_flood("--listen", PORT, &[SERVER, PORT]);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_keyboard_is_served_during_a_flood_over_userspace_tcp() {
    in_new_network(|| {
        let arguments = ["--via", "tun:plumb0", SERVER, PORT];
        the_keyboard_is_served_during_a_flood("--listen", PORT, &arguments);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_keyboard_is_served_during_a_flood_in_tls() {
    in_new_network(|| {
        let place = format!("telnets://{SERVER}:{TLS_PORT}");
        the_keyboard_is_served_during_a_flood("--listen-tls", TLS_PORT, &[&place]);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_keyboard_is_served_during_a_flood_with_a_status_line() {
    in_new_network(|| {
        let arguments = ["--status-line", SERVER, PORT];
        the_keyboard_is_served_during_a_flood("--listen", PORT, &arguments);
    });
}
