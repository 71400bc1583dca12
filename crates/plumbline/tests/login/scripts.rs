//! Tests of login scripts on a pseudo-terminal.

use crate::lines::SerialLine;
use crate::{TempDirectory, assert_error, plumb};
use std::thread;

const LOGIN: &str = "\
expect /login: $/
send \"mike\\r\"
expect /word: $/
send \"${PLUMB_TEST_WORD}\\r\"
expect /Last login (\\w+)/
say \"it was ${1}\"
send break
exit 3
";

/// Runs this script on the `line`, and returns plumb's output and exit status.
fn run(directory: &TempDirectory, script: &str, line: &SerialLine) -> std::process::Output {
    let script = directory.write("script", script);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["login", "--env", "PLUMB_TEST_WORD", "--script", &script]);
    command.arg(line.destination()).env("PLUMB_TEST_WORD", "a $word");
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

#[test]
fn a_script_logs_in_and_its_exit_code_is_that_of_plumb() {
    let directory = TempDirectory::new("script-login");
    let line = SerialLine::new();
    thread::scope(|scope| {
        let peer = scope.spawn(|| {
            line.wait_for(b"\r");
            line.send(b"\x1b[2J\x1b[Hhost login: ");
            line.wait_for(b"mike\r");
            line.send(b"\r\npassword: ");
            line.wait_for(b"a $word\r");
            line.send(b"\r\nLast login yesterday\r\n");
        });
        // plumb discards data that the line received before it was opened.
        let output = run(&directory, &format!("send \"\\r\"\n{LOGIN}"), &line);
        peer.join().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "it was yesterday\n");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Last login yesterday"));
    });
}

#[test]
fn a_missing_prompt_is_reported_with_exit_code_5_and_the_line_of_the_script() {
    let directory = TempDirectory::new("script-late");
    let line = SerialLine::new();
    let output = run(&directory, "timeout 0.1\n\nexpect /never/", &line);
    assert_error(&output, 5, &["script line 3: /never/ was not received within 0.1 s"]);
}

#[test]
fn an_invalid_script_is_rejected_before_connecting() {
    let directory = TempDirectory::new("script-wrong");
    let script = directory.write("script", "send \"a\"\nexpect /(/\n");
    let run = |arguments: &[&str]| plumb(&[&["login", "serial:/dev/ttyNONE"], arguments].concat());
    assert_error(&run(&["--script", &script]), 2, &["script line 2: invalid pattern"]);
    assert_error(&run(&["--script", &directory.path("none")]), 2, &["cannot read the script"]);
    let script = directory.write("home", "send \"${HOME}\"");
    assert_error(&run(&["--script", &script]), 2, &["line 1", "--env HOME"]);
    let output = run(&["--script", &script, "--env", "PLUMB_TEST_UNSET"]);
    assert_error(&output, 2, &["PLUMB_TEST_UNSET", "environment variable not found"]);
}
