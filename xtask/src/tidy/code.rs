//! Rules about code: the length of functions, and forbidden calls per crate.

use super::finding::Finding;
use super::source::{Source, is_name};

const FUNCTION_LINES_MAX: usize = 70;

/// Crates with engines: the same inputs and the same seed must give the same run.
const ENGINES: [&str; 6] = ["net", "protocols", "simulator", "laboratory", "records", "report"];

/// The only crates that may print, and the directory of examples.
const MAY_PRINT: [&str; 4] = ["plumbline", "bench", "xtask", "examples"];

/// Applies the rules to one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = long_functions(source);
    findings.extend(banned(source));
    findings
}

fn long_functions(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for start in source.places_of("fn") {
        let item = source.item(start);
        let name = item.strip_prefix("fn").unwrap_or(item).trim_start();
        // An `fn` without a name is a function type.
        let name = name.split(|c| !is_name(c)).next().unwrap_or_default();
        let lines = item.lines().count();
        if !name.is_empty() && lines > FUNCTION_LINES_MAX {
            let sentence = format!("{name} has {lines} lines, more than {FUNCTION_LINES_MAX}");
            findings.push(Finding::new(source.line_of(start), sentence));
        }
    }
    findings
}

/// A forbidden piece of code.
struct ForbiddenCode {
    words: &'static [&'static str],
    /// Returns whether the ban applies to code of this crate, in a test or not.
    applies: fn(crate_name: &str, in_test: bool) -> bool,
    why: &'static str,
}

const BANS: [ForbiddenCode; 8] = [
    ForbiddenCode {
        words: &["todo!", "unimplemented!", "dbg!"],
        applies: |_, _| true,
        why: "is for unfinished work",
    },
    ForbiddenCode {
        words: &["unsafe"],
        // In crates/conformance the compiler restricts unsafe code to the file of the C interface,
        // and in crates/control to the files that switch stacks or reach a value across a switch.
        applies: |name, _| !["os", "conformance", "control"].contains(&name),
        why: "is for crates/os and the switch of stacks in crates/control only",
    },
    ForbiddenCode {
        words: &["println!", "print!", "eprintln!", "eprint!"],
        applies: |name, in_test| !in_test && !MAY_PRINT.contains(&name),
        why: "is for the binary only",
    },
    ForbiddenCode {
        words: &["std::", "extern crate std"],
        applies: |name, in_test| !in_test && ["net", "protocols"].contains(&name),
        why: "is not for an engine; use core, alloc and Cx",
    },
    ForbiddenCode {
        words: &["Instant::now", "SystemTime::now"],
        applies: |name, _| ENGINES.contains(&name),
        why: "reads a clock; an engine gets the time as an argument",
    },
    ForbiddenCode {
        words: &["thread::sleep"],
        applies: |name, in_test| ENGINES.contains(&name) || (in_test && name != "plumbline"),
        why: "waits; engines and their tests must not wait",
    },
    ForbiddenCode {
        words: &["rand::", "fastrand::", "getrandom", "thread_rng", "RandomState"],
        applies: |name, _| ENGINES.contains(&name),
        why: "is randomness without a seed; use the generator of Cx",
    },
    ForbiddenCode {
        words: &["HashMap", "HashSet"],
        applies: |name, in_test| {
            !in_test && ["net", "protocols", "simulator", "laboratory"].contains(&name)
        },
        why: "has a random iteration order; use a BTreeMap or BTreeSet",
    },
];

fn banned(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in &BANS {
        for word in ban.words {
            for place in source.places_of(word) {
                if (ban.applies)(source.crate_name(), source.is_test(place)) {
                    let sentence = format!("{word} {}", ban.why);
                    findings.push(Finding::new(source.line_of(place), sentence));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences_in(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|finding| finding.sentence).collect()
    }

    fn engine(text: &str) -> Vec<String> {
        sentences_in("crates/net/src/a.rs", text)
    }

    #[test]
    fn a_function_of_71_lines_is_too_long_and_one_of_70_is_not() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "x();\n".repeat(lines - 2));
        assert_eq!(engine(&function(71)), ["a has 71 lines, more than 70"]);
        assert!(engine(&function(70)).is_empty());
    }

    #[test]
    fn the_type_of_a_function_and_a_declaration_have_no_lines() {
        let text = format!("trait T {{\nfn b(&self);\nx: fn(u8),\n{}}}", "\n".repeat(90));
        assert!(engine(&text).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_even_in_a_test() {
        assert_eq!(engine("#[cfg(test)] mod t { fn a() { todo!() } }").len(), 1);
        assert_eq!(engine("fn a() { unimplemented!() }").len(), 1);
        assert_eq!(engine("fn a() { dbg!(1); }").len(), 1);
    }

    #[test]
    fn unsafe_is_found_outside_of_os() {
        assert_eq!(
            engine("fn a() { unsafe { b() } }"),
            ["unsafe is for crates/os and the switch of stacks in crates/control only"]
        );
        assert!(sentences_in("crates/os/src/a.rs", "fn a() { unsafe { b() } }").is_empty());
        assert!(engine("#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn only_the_binary_and_tests_print() {
        assert_eq!(engine("fn a() { println!(); }"), ["println! is for the binary only"]);
        assert!(sentences_in("crates/plumbline/src/main.rs", "fn a() { println!(); }").is_empty());
        assert!(engine("#[cfg(test)] mod t { fn a() { println!(); } }").is_empty());
    }

    #[test]
    fn std_is_found_in_an_engine_but_not_in_its_tests() {
        assert_eq!(engine("use std::fmt;").len(), 1);
        assert_eq!(engine("extern crate std;").len(), 1);
        assert!(engine("#[cfg(test)]\nextern crate std;\n").is_empty());
        assert!(engine("#![no_std]\nuse core::fmt;").is_empty());
    }

    #[test]
    fn a_clock_is_found_in_an_engine_and_not_in_a_driver() {
        assert_eq!(
            sentences_in("crates/simulator/src/a.rs", "fn a() { Instant::now(); }").len(),
            1
        );
        assert_eq!(
            sentences_in("crates/records/src/a.rs", "fn a() { SystemTime::now(); }").len(),
            1
        );
        assert!(sentences_in("crates/os/src/a.rs", "fn a() { Instant::now(); }").is_empty());
    }

    #[test]
    fn waiting_is_found_in_an_engine_and_in_a_test() {
        assert_eq!(engine("fn a() { core::thread::sleep(b); }").len(), 1);
        assert_eq!(sentences_in("crates/os/tests/a.rs", "fn a() { thread::sleep(b); }").len(), 1);
        assert!(sentences_in("crates/os/src/a.rs", "fn a() { thread::sleep(b); }").is_empty());
    }

    #[test]
    fn unseeded_randomness_is_found_in_an_engine() {
        assert_eq!(engine("fn a() { rand::random(); }").len(), 1);
        assert_eq!(
            sentences_in("crates/simulator/src/a.rs", "struct A(HashMap<u8, u8>);").len(),
            1
        );
        assert!(engine("fn a() { operand::random(); }").is_empty());
    }

    #[test]
    fn comments_and_strings_are_ignored() {
        assert!(engine("/// Like println! and std::fmt.\nconst A: &str = \"todo!\";").is_empty());
    }
}
