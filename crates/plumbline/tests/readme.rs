//! The picture in README.md: `plumb measure` of Debian's telnetd, over a relay that delays packets.
//!
//! `./x readme` draws the picture from a run of the release build. The test compares only the parts
//! that do not vary between runs: the grade and the names of the rows. Figures and sentences depend
//! on the machine and its load.
#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::print_stdout, reason = "the relay prints how to repeat a round")]

#[expect(dead_code, reason = "the session needs a part of the networks")]
#[path = "measure_causes/relayed_path.rs"]
mod relayed_path;

use os::process::Program;
use relayed_path::{RelayedPath, SERVER_ADDRESS, in_server_network, run_over_path};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
/// Path of the picture, relative to README.md.
const PICTURE: &str = "docs/images/measure.svg";
/// Width of a character, height of a line and margin of the picture, in its units.
const COLUMN_WIDTH: usize = 9;
const LINE_HEIGHT: usize = 18;
const MARGIN: usize = 16;
/// One-way delay.
const ONE_WAY_DELAY: Duration = Duration::from_millis(10);
const PORT: u16 = 2323;

/// Returns the number in the variable `name`, if it is set.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Measures a login of inetutils telnetd, 20 ms away, and returns the command with its output.
fn session() -> String {
    run_over_path(RelayedPath { delay: ONE_WAY_DELAY, ..RelayedPath::default() }, |remote| {
        let listener =
            in_server_network(remote, || TcpListener::bind((SERVER_ADDRESS, PORT)).unwrap());
        let server_thread = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut server = test_support::peers::INETUTILS_TELNETD.command();
            server.args(["-h", "-E", "/bin/sh"]);
            server.stdout(OwnedFd::from(stream.try_clone().unwrap()));
            Program::start(server.stdin(OwnedFd::from(stream))).unwrap()
        });
        let state = std::env::temp_dir().join(format!("plumb-readme-{}", std::process::id()));
        let target = format!("{SERVER_ADDRESS}:{PORT}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["measure", &target]).stdin(Stdio::null()).env("COLUMNS", "80");
        command.env("XDG_STATE_HOME", &state).env("HOME", &state);
        let output = command.output().unwrap();
        drop(server_thread.join().unwrap());
        _ = std::fs::remove_dir_all(state);
        assert!(output.status.success(), "{output:?}");
        format!("$ plumb measure {target}\n{}", String::from_utf8(output.stdout).unwrap())
    })
}

/// Returns `session` as a picture of a terminal. The first line of the output is bold.
fn picture(session: &str) -> String {
    let columns = session.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = columns * COLUMN_WIDTH + 2 * MARGIN;
    let height = session.lines().count() * LINE_HEIGHT + 2 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\" fill=\"#d8dee9\">\n\
         <title>plumb measure of a login whose server uses Nagle's algorithm</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#20242c\"/>\n"
    );
    for (at, line) in session.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = MARGIN + (at + 1) * LINE_HEIGHT - LINE_HEIGHT / 4;
        let style = if at == 1 { " font-weight=\"bold\"" } else { "" };
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        out.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\"{style}>{text}</text>\n"
        ));
    }
    out + "</svg>\n"
}

/// Extracts the text of the terminal session from a picture. Empty lines are inferred from the
/// positions of the other lines.
fn session_of(picture: &str) -> String {
    let mut session = String::new();
    for line in picture.lines().filter(|line| line.starts_with("<text ")) {
        let y = line.split("y=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let row = (y.parse::<usize>().unwrap() + LINE_HEIGHT / 4 - MARGIN) / LINE_HEIGHT - 1;
        while session.lines().count() < row {
            session.push('\n');
        }
        let text = line.split_once('>').unwrap().1.strip_suffix("</text>").unwrap();
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        session.push_str(&(text + "\n"));
    }
    session
}

/// Returns the grade, and the names of the rows.
fn structure(session: &str) -> Vec<&str> {
    let mut lines = session.lines().skip(1);
    let grade = lines.next().and_then(|line| line.split(':').next());
    let names = lines.filter_map(|line| line.split_once("  ")).map(|(name, _)| name);
    grade.into_iter().chain(names.filter(|name| name.starts_with(char::is_alphabetic))).collect()
}

#[test]
fn the_structure_of_a_session_ignores_numbers_and_sentences() {
    let session = |ms: &str, remedy: &str| {
        format!(
            "$ plumb measure host\nSLOW: a screenful takes {ms} ms\n███·  █ remote host {ms} ms\n\
             Remedy: {remedy}\necho       {ms} ms  p90 {ms} ms\nTCP RTT  {ms} ms\n"
        )
    };
    let names = ["SLOW", "echo", "TCP RTT"];
    assert_eq!(structure(&session("20", "Set TCP_NODELAY there.")), names);
    assert_eq!(structure(&session("1.5", "Check the load.")), names);
    assert_ne!(structure(&session("20", "").replace("echo", "echo_")), names);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnetd"]
fn the_session_in_the_readme_has_the_structure_of_a_real_run() {
    let session = session();
    let readme = PathBuf::from(README);
    assert!(std::fs::read_to_string(&readme).unwrap().contains(&format!("({PICTURE})")));
    let path = readme.with_file_name(PICTURE);
    if std::env::var_os("PLUMB_README").is_some_and(|mode| mode == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, picture(&session)).unwrap();
        return;
    }
    let printed = session_of(&std::fs::read_to_string(path).unwrap());
    assert_eq!(
        structure(&session),
        structure(&printed),
        "./x readme draws the picture anew\n{session}"
    );
}

#[test]
fn a_session_is_read_back_from_its_picture() {
    let session =
        "$ plumb measure host\nNagle's algorithm costs <40 ms & more.\n\ntable  a > b\n\nTCP  1\n";
    assert_eq!(session_of(&picture(session)), session);
}
