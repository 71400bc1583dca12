//! The report of a test run: the tests that are not configured, and the peers that tests ran.
//!
//! Each entry is printed as a line on stderr, bypassing libtest's capture, which hides the output
//! of passing tests. If the environment variable [`FILE`] is set, the entry is also appended to
//! that file, as a line of tab-separated fields that `./x` reads at the end of the run. The appends
//! of concurrent test programs do not mix: each entry is a single `write` to a file opened with
//! O_APPEND.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::{env, io, thread};

/// Environment variable with the path of the report file.
const FILE: &str = "PLUMB_TEST_REPORT";

/// Reports that the calling test is not configured: it needs `what`, which is missing for `reason`.
///
/// `what` is the environment variable that would name the missing program (`PLUMB_BROWSER`), or the
/// missing feature of the machine (`kernel: io_uring`). The caller must then return from the test.
pub fn not_configured(what: &str, reason: &str) {
    let test = current_test();
    let reason = single_line(reason);
    print(&format!("not configured: {test}: {what}: {reason}\n"));
    append(&["not configured", &test, what, &reason]);
}

/// Reports that the calling test runs the program `name`, which identifies itself as `version`.
pub(crate) fn peer(test: &str, name: &str, version: &str) {
    print(&format!("peer: {test}: {name}: {version}\n"));
    append(&["peer", test, name, version]);
}

/// Returns the names of the test program and of the calling test.
///
/// libtest names the thread of a test after the test. A thread spawned by the test needs the same
/// name; otherwise only the name of the program is returned.
#[must_use]
pub(crate) fn current_test() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let stem = Path::new(&program).file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the names of test programs.
    let binary = stem.rsplit_once('-').map_or(stem.as_ref(), |(name, _)| name);
    match thread::current().name() {
        Some(test) if test != "main" => format!("{binary}::{test}"),
        _ => binary.to_owned(),
    }
}

/// Returns `text` as one field of the report, without line breaks and tabs.
pub(crate) fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn print(line: &str) {
    // A closed stderr is no reason for a test to fail.
    _ = io::stderr().write_all(line.as_bytes());
}

fn append(fields: &[&str]) {
    let Some(path) = env::var_os(FILE) else { return };
    let line = fields.join("\t") + "\n";
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot append to {}: {written:?}", Path::new(&path).display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_program_and_its_thread() {
        let name = "report::tests::a_test_is_named_by_its_program_and_its_thread";
        let test = current_test();
        // If it runs a single thread, libtest runs the test in the main thread.
        assert!(test == format!("test_support::{name}") || test == "test_support", "{test}");
    }

    #[test]
    fn a_reason_of_several_lines_becomes_one_field() {
        assert_eq!(single_line("no\tring:\n  refused\n"), "no ring: refused");
    }
}
