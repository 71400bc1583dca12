//! Rule: in a library crate that is not published, each `pub` item is named by another crate.
//!
//! The rule compares names, not paths: an unused item is not found if another crate uses the same
//! name for anything. Types and modules are left to the compiler: a type may be part of a public
//! signature without being named.

use super::finding::Finding;
use super::source::{Source, is_name};
use std::collections::BTreeSet;

/// Library crates that are not published.
const INTERNAL: [&str; 4] = ["records", "simulator", "conformance", "test-support"];

/// Beginnings of the declarations to which the rule applies.
const DECLARATIONS: [&str; 5] =
    ["pub fn ", "pub const fn ", "pub const ", "pub static ", "pub type "];

/// Applies the rule to all files.
pub(super) fn check(sources: &[Source]) -> Vec<(String, Vec<Finding>)> {
    let mut findings = Vec::new();
    for name in INTERNAL {
        let own = format!("crates/{name}/src/");
        let (inside, outside): (Vec<_>, Vec<_>) =
            sources.iter().partition(|source| source.path.starts_with(&own));
        let named: BTreeSet<&str> =
            outside.iter().flat_map(|source| source.code.split(|c| !is_name(c))).collect();
        for source in inside {
            findings.push((source.path.clone(), unnamed(source, &named)));
        }
    }
    findings
}

/// Returns the public items of `source` that are not in `named`.
fn unnamed(source: &Source, named: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for declaration in DECLARATIONS {
        for (start, _) in source.code.match_indices(declaration) {
            let rest = source.code.get(start + declaration.len()..).unwrap_or_default();
            let name = rest.split(|c| !is_name(c)).next().unwrap_or_default();
            if !["", "fn", "unsafe"].contains(&name) && !named.contains(name) {
                let sentence = format!("{name} is pub, and only this crate names it");
                findings.push(Finding::new(source.line_of(start), sentence));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_with(outside: &str) -> Vec<Finding> {
        let own = "pub fn first() {}\npub const SECOND: u8 = 1;\npub(crate) fn third() {}\n";
        let sources = [
            Source::new("crates/records/src/a.rs", own),
            Source::new("crates/records/tests/a.rs", outside),
        ];
        check(&sources).into_iter().flat_map(|(_, findings)| findings).collect()
    }

    #[test]
    fn an_item_that_nothing_outside_names_is_found() {
        let sentence = "SECOND is pub, and only this crate names it";
        assert_eq!(findings_with("fn a() { first(); }"), [Finding::new(2, sentence)]);
        assert!(findings_with("fn a() { first(SECOND); }").is_empty());
        // A comment names nothing.
        assert_eq!(findings_with("fn a() { first(); } // SECOND").len(), 1);
    }

    #[test]
    fn a_published_crate_has_users_elsewhere() {
        let source = Source::new("crates/os/src/a.rs", "pub fn first() {}");
        assert!(check(&[source]).is_empty());
    }
}
