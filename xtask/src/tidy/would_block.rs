//! Rule: an operation without a result yet is `Poll::Pending` or `None`, never an error.
//!
//! EAGAIN is converted once, where the system call is made, by
//! `os::readiness::would_block_as_pending`. Tests and benchmarks may use sockets of the standard
//! library directly.

use super::finding::Finding;
use super::source::Source;

const NAME: &str = "WouldBlock";

/// The only files that may name the error.
const MAY_NAME: [&str; 2] = [
    // The conversion, and a closure that tokio requires to return the error.
    "crates/os/src/readiness.rs",
    // `std::fs::TryLockError`: another process has locked the file.
    "crates/records/src/journal/mod.rs",
];

/// Applies the rule to one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("crates/") || source.crate_name() == "bench" {
        return Vec::new();
    }
    let mut places = source.places_of(NAME);
    places.retain(|place| !source.is_test(*place));
    if !MAY_NAME.contains(&source.path.as_str()) {
        let sentence = "WouldBlock is not an error here; return Poll::Pending, and convert EAGAIN \
                        with os::readiness::would_block_as_pending";
        let lines = places.into_iter().map(|place| source.line_of(place));
        return lines.map(|line| Finding::new(line, sentence)).collect();
    }
    if places.is_empty() {
        let sentence = "this file does not name WouldBlock; remove it from MAY_NAME of tidy";
        return vec![Finding::new(1, sentence)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIOLATION: &str =
        "fn a() -> io::Result<()> {\n    Err(ErrorKind::WouldBlock.into())\n}\n";

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_pending_operation_that_is_an_error_is_found() {
        assert_eq!(lines("crates/server/src/a.rs", VIOLATION), [2]);
        let own_error = "enum SendError {\n    Refused,\n    WouldBlock,\n}\n";
        assert_eq!(lines("crates/net/src/a.rs", own_error), [3]);
    }

    #[test]
    fn the_listed_files_may_name_the_error_and_must_need_it() {
        assert!(lines(MAY_NAME[0], VIOLATION).is_empty());
        assert_eq!(lines(MAY_NAME[0], "fn a() {}\n"), [1]);
    }

    #[test]
    fn tests_benchmarks_and_comments_may_name_the_error() {
        let test = format!("#[cfg(test)]\nmod tests {{\n{VIOLATION}}}\n");
        assert!(lines("crates/server/src/a.rs", &test).is_empty());
        assert!(lines("crates/plumbline/tests/a.rs", VIOLATION).is_empty());
        assert!(lines("crates/bench/src/a.rs", VIOLATION).is_empty());
        assert!(lines("crates/server/src/a.rs", "// Not WouldBlock.\n").is_empty());
    }
}
