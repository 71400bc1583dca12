//! The ledger: the tests of each requirement and attack, and the requirements and attacks without a
//! test.
//!
//! The requirements of RFC 9293, RFC 1122 and RFC 1123 and the attacks are lists under
//! `docs/ledger`, one line each. A test names the entries that it proves in a comment line among
//! its attributes:
//!
//! ```text
//! // req RFC9293:MUST-34, RFC9293:SHLD-14
//! // attack row 27
//! #[test]
//! fn only_a_reset_at_the_exact_edge_ends_a_connection() {
//! ```
//!
//! A MUST or an attack without a test is a hole. An entry whose line gives a reason as an exception
//! is no hole. An id that is in no list, a comment that is not above a test, and an exception for
//! an entry with a test are errors. Missing tests for a SHOULD or MAY are listed and are no error.

mod book;
mod tags;

use crate::project_files;
use anyhow::{Context, Result, ensure};
use book::{Book, Entry, Weight};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use tags::{Test, Tests};

/// The lists, each with the prefix of its ids in a comment.
const BOOKS: [(&str, &str); 4] = [
    ("docs/ledger/rfc9293.txt", "RFC9293:"),
    ("docs/ledger/rfc1122.txt", "RFC1122:"),
    ("docs/ledger/rfc1123.txt", "RFC1123:"),
    ("docs/ledger/attacks.txt", tags::ATTACK),
];

/// Lists and tests found in the project.
#[derive(Debug)]
struct Ledger {
    books: Vec<Book>,
    tests: BTreeMap<String, Vec<Test>>,
    errors: Vec<String>,
}

/// Prints every requirement and attack with the tests that name it, and fails if there is a hole.
pub(crate) fn run(root: &Path) -> Result<()> {
    let ledger = Ledger::read(root)?;
    let (summary, holes) = ledger.summary();
    writeln!(std::io::stdout().lock(), "{ledger}{summary}")?;
    for error in &ledger.errors {
        eprintln!("{error}");
    }
    let errors = ledger.errors.len();
    ensure!(holes == 0 && errors == 0, "ledger: {holes} holes and {errors} errors, listed above");
    Ok(())
}

impl Ledger {
    fn read(root: &Path) -> Result<Self> {
        let mut books = Vec::new();
        for (path, prefix) in BOOKS {
            let text = std::fs::read_to_string(root.join(path));
            let text = text.with_context(|| format!("cannot read {path}"))?;
            books.push(Book::parse(path, prefix, &text)?);
        }
        let files = project_files::files(root)?;
        let mut found = Tests::default();
        for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
            found.scan(&file.path, &file.text);
        }
        Ok(Self::new(books, found))
    }

    fn new(books: Vec<Book>, found: Tests) -> Self {
        let Tests { tests, mut errors } = found;
        let known = |id: &str| books.iter().flat_map(|b| &b.entries).find(|entry| entry.id == id);
        for (id, tests) in &tests {
            let places = tests.iter().map(|test| test.place.as_str()).collect::<Vec<_>>();
            match known(id) {
                None => errors.push(format!("{}: {id} is in no list", places.join(", "))),
                Some(entry) if entry.exception.is_some() => {
                    errors.push(format!("{}: {id} has an exception too", places.join(", ")));
                }
                Some(_) => {}
            }
        }
        Self { books, tests, errors }
    }

    fn is_tested(&self, entry: &Entry) -> bool {
        self.tests.contains_key(&entry.id)
    }

    fn is_hole(&self, entry: &Entry) -> bool {
        entry.weight == Weight::Must && entry.exception.is_none() && !self.is_tested(entry)
    }

    /// Returns one line for each list, and the total number of holes.
    fn summary(&self) -> (String, usize) {
        let mut lines = Vec::new();
        let mut all_holes = 0;
        for book in &self.books {
            let musts = || book.entries.iter().filter(|entry| entry.weight == Weight::Must);
            let others = || book.entries.iter().filter(|entry| entry.weight == Weight::Other);
            let tested = musts().filter(|entry| self.is_tested(entry)).count();
            let excepted = musts().filter(|entry| entry.exception.is_some()).count();
            let holes = musts().filter(|entry| self.is_hole(entry)).count();
            let mut line = format!(
                "{}: {} due: {tested} tested, {excepted} excepted, {holes} holes",
                book.title(),
                musts().count()
            );
            if others().count() > 0 {
                let tested = others().filter(|entry| self.is_tested(entry)).count();
                line += &format!("; {tested} of the {} others tested", others().count());
            }
            lines.push(line);
            all_holes += holes;
        }
        (lines.join("\n"), all_holes)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for book in &self.books {
            writeln!(f, "{}", book.title())?;
            for entry in &book.entries {
                let mark = if self.is_hole(entry) { "HOLE " } else { "" };
                writeln!(f, "  {mark}{}  {}: {}", entry.id, entry.section, entry.words)?;
                if let Some(reason) = &entry.exception {
                    writeln!(f, "      exception: {reason}")?;
                }
                for test in self.tests.get(&entry.id).into_iter().flatten() {
                    writeln!(f, "      {}: {}", test.place, test.name)?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(list: &str, source: &str) -> Ledger {
        let mut tests = Tests::default();
        tests.scan("a.rs", source);
        Ledger::new(vec![Book::parse("list.txt", "RFC1:", list).unwrap()], tests)
    }

    const LIST: &str = "# List\nMUST-1 | 3.1 | one\nMUST-2 | 3 | two | exception: none\n\
                        SHLD-1 | 3 | three\n";

    #[test]
    fn a_must_without_a_test_is_a_hole_and_a_should_is_none() {
        let (summary, holes) = ledger(LIST, "").summary();
        assert_eq!(holes, 1);
        let line = "List: 2 due: 0 tested, 1 excepted, 1 holes; 0 of the 1 others tested";
        assert_eq!(summary, line);
    }

    #[test]
    fn a_test_fills_the_hole() {
        let ledger = ledger(LIST, "// req RFC1:MUST-1\n#[test]\nfn it_is_one() {\n");
        assert_eq!((ledger.summary().1, ledger.errors.len()), (0, 0));
    }

    #[test]
    fn a_name_in_no_list_is_an_error() {
        let ledger = ledger(LIST, "// req RFC1:MUST-9\n#[test]\nfn it_is_one() {\n");
        assert_eq!(ledger.errors, ["a.rs:3: RFC1:MUST-9 is in no list"]);
    }

    #[test]
    fn an_exception_for_a_tested_requirement_is_an_error() {
        let ledger = ledger(LIST, "// req RFC1:MUST-2\n#[test]\nfn it_is_two() {\n");
        assert_eq!(ledger.errors, ["a.rs:3: RFC1:MUST-2 has an exception too"]);
    }
}
