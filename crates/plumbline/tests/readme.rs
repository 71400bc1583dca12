//! The session in README.md: `plumb measure` of Debian's telnetd, over a relay that delays packets.
//!
//! `./x readme` rewrites the session from a run of the release build: the verdict and the parts in
//! [`KEPT`], with `[...]` for the others. The test compares only the parts that do not vary between
//! runs: the names of tables and of their rows. Figures and sentences depend on the machine and its
//! load.
#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::print_stdout, reason = "the relay prints how to repeat a round")]

#[expect(dead_code, reason = "the session needs a part of the networks")]
#[path = "measure_causes/way.rs"]
mod way;

use os::process::Program;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use way::{FAR, Way, at_the_far_side, over};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
/// Text before the session in README.md; [`ENDS`] follows it.
const BEGINS: &str = "<!-- ./x readme writes this session -->\n```\n";
const ENDS: &str = "```\n<!-- end of the session -->\n";
/// Beginnings of the parts of the report that are kept in addition to the first two.
const KEPT: [&str; 4] =
    ["Up to the login prompt", "Echo of one", "Where the median echo", "A screenful"];
/// Placeholder for omitted parts.
const LEFT_OUT: &str = "[...]";
/// One-way delay.
const DELAY: Duration = Duration::from_millis(10);
const PORT: u16 = 2323;

/// Returns the number in the variable `name`, if it is set.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Measures a login of inetutils telnetd, 20 ms away, and returns the command with its output.
fn session() -> String {
    over(Way { delay: DELAY, ..Way::default() }, |far| {
        let listener = at_the_far_side(far, || TcpListener::bind((FAR, PORT)).unwrap());
        let served = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut server = test_support::peers::INETUTILS_TELNETD.command();
            server.args(["-h", "-E", "/bin/sh"]);
            server.stdout(OwnedFd::from(stream.try_clone().unwrap()));
            Program::start(server.stdin(OwnedFd::from(stream))).unwrap()
        });
        let state = std::env::temp_dir().join(format!("plumb-readme-{}", std::process::id()));
        let target = format!("{FAR}:{PORT}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["measure", &target]).stdin(Stdio::null()).env("COLUMNS", "80");
        command.env("XDG_STATE_HOME", &state).env("HOME", &state);
        let output = command.output().unwrap();
        drop(served.join().unwrap());
        _ = std::fs::remove_dir_all(state);
        assert!(output.status.success(), "{output:?}");
        format!("$ plumb measure {target}\n{}", kept(&String::from_utf8(output.stdout).unwrap()))
    })
}

/// Returns the kept parts of a report, with placeholders for the others.
fn kept(report: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for (at, part) in report.trim_end().split("\n\n").enumerate() {
        if at < 2 || KEPT.iter().any(|beginning| part.starts_with(beginning)) {
            parts.push(part);
        } else if parts.last() != Some(&LEFT_OUT) {
            parts.push(LEFT_OUT);
        }
    }
    parts.join("\n\n") + "\n"
}

/// Returns the headings of the tables of a session, and the names of their rows.
fn shape(session: &str) -> Vec<&str> {
    let tables = session
        .split("\n\n")
        .filter(|part| KEPT.iter().any(|beginning| part.starts_with(beginning)));
    let rows = tables.flat_map(|table| {
        table.lines().enumerate().filter(|(at, line)| *at == 0 || line.contains("  "))
    });
    rows.map(|(_, line)| line.split("  ").next().unwrap_or_default()).filter(is_name).collect()
}

fn is_name(cell: &&str) -> bool {
    cell.starts_with(char::is_alphabetic)
}

#[test]
fn the_shape_of_a_session_is_its_names_and_neither_figures_nor_sentences() {
    let session = |ms: &str, verdict: &str| {
        let report = format!(
            "{verdict}\n\nthis machine\n\nCauses\ncause  costs\n\nEcho of one character\n  p50  p90\n\
             {ms} ms  {ms} ms\n\nWhere the median echo went\nTelnet  {ms} ms\nMeasured: {ms} ms.\n\n\
             TCP\nsegments  {ms}\n"
        );
        kept(&report)
    };
    let names = ["Echo of one character", "Where the median echo went", "Telnet"];
    assert_eq!(shape(&session("20", "The path costs 20 ms.")), names);
    assert_eq!(shape(&session("1.5", "Nothing stands out.")), names);
    assert_ne!(shape(&session("20", "").replace("Telnet", "telnet_")), names);
    let printed = session("20", "Verdict.");
    assert!(printed.starts_with("Verdict.\n\nthis machine\n\n[...]\n\nEcho"), "{printed}");
    assert!(printed.ends_with("\n\n[...]\n"), "{printed}");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnetd"]
fn the_session_in_the_readme_has_the_shape_of_a_real_run() {
    let session = session();
    let readme = std::fs::read_to_string(PathBuf::from(README)).unwrap();
    let (before, rest) =
        readme.split_once(BEGINS).expect("README.md has no beginning of a session");
    let (printed, after) = rest.split_once(ENDS).expect("README.md has no end of a session");
    if std::env::var_os("PLUMB_README").is_some_and(|what| what == "write") {
        std::fs::write(README, format!("{before}{BEGINS}{session}{ENDS}{after}")).unwrap();
        return;
    }
    assert_eq!(shape(&session), shape(printed), "./x readme writes README.md anew\n{session}");
}
