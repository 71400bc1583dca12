//! Rule: in a library crate that is not published, each `pub` item is named by another crate.
//!
//! The rule compares names, not paths: an unused item is not found if another crate uses the same
//! name for anything. Types and modules are left to the compiler: a type may be part of a public
//! signature without being named.

use super::finding::Finding;
use super::source::{NameFilter, Source, for_each_name, is_name};
use std::collections::HashMap;

/// Library crates that are not published.
const INTERNAL: [&str; 7] =
    ["records", "report", "measure", "simulator", "laboratory", "conformance", "test-support"];

/// Beginnings of the declarations to which the rule applies.
const DECLARATIONS: [&str; 5] =
    ["pub fn ", "pub const fn ", "pub const ", "pub static ", "pub type "];

/// A declaration of a public item.
#[derive(Debug)]
struct Item<'a> {
    source: &'a Source,
    position: usize,
    name: &'a str,
    is_named_outside: bool,
}

/// Applies the rule to all files.
pub(super) fn check(sources: &[Source]) -> Vec<(String, Vec<Finding>)> {
    let mut items: Vec<Item<'_>> = sources.iter().flat_map(public_items).collect();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut filter = NameFilter::new();
    for (number, item) in items.iter().enumerate() {
        filter.insert(item.name);
        by_name.entry(item.name).or_default().push(number);
    }
    for source in sources {
        for_each_name(&source.code, |name| {
            if !filter.may_contain(name) {
                return;
            }
            for number in by_name.get(name).into_iter().flatten() {
                if let Some(item) = items.get_mut(*number) {
                    item.is_named_outside |= library(&source.path) != library(&item.source.path);
                }
            }
        });
    }
    let unnamed = items.into_iter().filter(|item| !item.is_named_outside);
    let findings = unnamed.map(|item| {
        let sentence = format!("{} is pub, and only this crate names it", item.name);
        let finding = Finding::new(item.source.line_of(item.position), sentence);
        (item.source.path.clone(), vec![finding])
    });
    findings.collect()
}

/// Returns the directory of the library of an internal crate that contains the file at `path`.
fn library(path: &str) -> Option<&'static str> {
    let directory = path.strip_prefix("crates/")?;
    INTERNAL
        .into_iter()
        .find(|name| directory.strip_prefix(name).is_some_and(|rest| rest.starts_with("/src/")))
}

/// Returns the public items of a file of an internal crate.
fn public_items(source: &Source) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    if library(&source.path).is_none() {
        return items;
    }
    for declaration in DECLARATIONS {
        for (position, _) in source.code.match_indices(declaration) {
            let rest = source.code.get(position + declaration.len()..).unwrap_or_default();
            let name = rest.split(|c| !is_name(c)).next().unwrap_or_default();
            if !["", "fn", "unsafe"].contains(&name) {
                items.push(Item { source, position, name, is_named_outside: false });
            }
        }
    }
    items
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
