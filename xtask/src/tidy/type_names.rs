//! Rule: a type name occurs once in a crate, or is used through its module.
//!
//! A type whose name is defined in several files of a crate is imported by its bare name only in
//! the directory of its definition, and below it. Other files import the module and write
//! `module::Type`. Test code, examples, and a `mod.rs` that re-exports the type are exempt. If the
//! last module of a path is not the file of a definition, the path is accepted if any definition
//! permits it.

use super::finding::Finding;
use super::paths::imports;
use super::source::{Source, is_name};
use std::collections::{BTreeMap, BTreeSet};

/// Beginnings of the declarations of types, without their visibility.
const DECLARATIONS: [&str; 5] = ["struct ", "enum ", "trait ", "union ", "type "];

/// Files that define a type, by crate and name.
type Definitions<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

/// Applies the rule to all files. The test files must be marked before.
pub(super) fn check(sources: &[Source]) -> Vec<(String, Vec<Finding>)> {
    let sources: Vec<&Source> = sources.iter().filter(|source| has_one_crate(source)).collect();
    let mut definitions = Definitions::new();
    for source in &sources {
        for name in types_of(source) {
            definitions.entry((source.crate_name(), name)).or_default().insert(&source.path);
        }
    }
    definitions.retain(|_, paths| paths.len() > 1);
    sources
        .into_iter()
        .map(|source| (source.path.clone(), violations(source, &definitions)))
        .collect()
}

/// Returns whether the file is part of a crate's library or program, and not of a test or example.
fn has_one_crate(source: &Source) -> bool {
    let path = source.path.strip_prefix("crates/").unwrap_or(&source.path);
    path.split('/').nth(1) == Some("src")
}

/// Returns the names of the types that the file defines at its top level, outside of tests.
fn types_of(source: &Source) -> Vec<&str> {
    let mut names = Vec::new();
    for declaration in DECLARATIONS {
        for place in source.places_of(declaration) {
            let line = source.code.get(..place).unwrap_or_default();
            let line = line.rsplit('\n').next().unwrap_or_default();
            let is_associated = declaration == "type " && line.starts_with(' ');
            let is_declaration = line.is_empty() || line.trim_start().starts_with("pub");
            let is_indented = line.trim().is_empty();
            if source.is_test(place) || is_associated || !(is_declaration || is_indented) {
                continue;
            }
            let rest = source.code.get(place + declaration.len()..).unwrap_or_default();
            names.extend(rest.split(|c| !is_name(c)).next());
        }
    }
    names
}

/// Returns the imports of the file that break the rule.
fn violations(source: &Source, definitions: &Definitions<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for import in imports(source) {
        let is_reexport = import.is_public && source.path.ends_with("/mod.rs");
        if is_reexport || import.alias.is_some() || source.is_test(import.position) {
            continue;
        }
        let [.., module, name] = import.segments[..] else { continue };
        let Some(files) = definitions.get(&(source.crate_name(), name)) else { continue };
        let first = import.segments.first();
        let is_local = first.is_some_and(|first| ["crate", "super", "self"].contains(first));
        if is_local && !is_permitted(&source.path, module, files) {
            let message = format!("{} files define {name}: write {module}::{name}", files.len());
            findings.push(Finding::new(source.line_of(import.position), message));
        }
    }
    findings
}

/// Returns whether the file at `path` may import a type of `module` by its bare name, if the type
/// is defined in `files`.
fn is_permitted(path: &str, module: &str, files: &BTreeSet<&str>) -> bool {
    let directory = |file: &str| file.rsplit_once('/').map_or(0, |(directory, _)| directory.len());
    let is_of_module = |file: &str| {
        let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
        stem.rsplit('/').next() == Some(module)
    };
    let is_below = |file: &str| path.starts_with(file.get(..=directory(file)).unwrap_or_default());
    let is_known = files.iter().any(|file| is_of_module(file));
    files.iter().any(|file| (is_of_module(file) || !is_known) && is_below(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences_in(path: &str, text: &str) -> Vec<String> {
        let sources = [
            Source::new("crates/a/src/tcp/status.rs", "pub struct Event;\nenum Own {}\n"),
            Source::new("crates/a/src/udp.rs", "    pub(crate) enum Event {}\nstruct Own;\n"),
            Source::new(path, text),
        ];
        let findings = check(&sources).into_iter().flat_map(|(_, findings)| findings);
        findings.map(|finding| finding.sentence).collect()
    }

    #[test]
    fn a_bare_import_from_another_directory_is_found() {
        let message = ["2 files define Event: write status::Event"];
        assert_eq!(sentences_in("crates/a/src/b.rs", "use crate::tcp::status::Event;"), message);
        assert_eq!(
            sentences_in("crates/a/src/b.rs", "use crate::tcp::{c, status::{Event}};"),
            message
        );
        assert_eq!(sentences_in("crates/a/src/b.rs", "use crate::tcp::status;"), [""; 0]);
    }

    #[test]
    fn files_below_the_definition_import_it() {
        let text = "use super::status::Event;";
        assert_eq!(sentences_in("crates/a/src/tcp/recovery.rs", text), [""; 0]);
        assert_eq!(sentences_in("crates/a/src/tcp/loss/rack.rs", text), [""; 0]);
        assert_eq!(sentences_in("crates/a/src/b.rs", "use crate::udp::Event;"), [""; 0]);
    }

    #[test]
    fn tests_renamed_imports_and_other_crates_are_exempt() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::tcp::status::Event;\n}\n";
        assert_eq!(sentences_in("crates/a/src/b.rs", text), [""; 0]);
        let text = "use crate::tcp::status::Event as TcpEvent;";
        assert_eq!(sentences_in("crates/a/src/b.rs", text), [""; 0]);
        assert_eq!(sentences_in("crates/b/src/b.rs", "use a::tcp::status::Event;"), [""; 0]);
    }
}
