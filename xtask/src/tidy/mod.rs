//! Rules about the project's own text that the compiler does not check.
//!
//! Every rule is a function from text to findings. A Rust file is first split into code and other
//! text ([`source::Source`]), so that a rule about code is not misled by a comment, a string or a
//! test; nothing is parsed further. The rules read the files of the directory and not those of the
//! version control system, so that a file counts before it is committed.

mod architecture;
mod code;
mod cycles;
mod file_names;
mod finding;
mod layers;
mod manifests;
mod module_graph;
mod pages;
mod paths;
mod public_api;
mod source;
mod text;
mod tuples;
mod type_names;
mod visibility;
mod words;
mod would_block;

use crate::project_files::{extension, files, text_of};
use anyhow::Result;
use finding::{Finding, Violation};
use source::Source;
use std::collections::BTreeSet;
use std::path::Path;
use words::WordList;

/// Applies every rule to the project in `root`, and returns the violations by path and line.
pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    let files = files(root)?;
    let mut sources: Vec<Source> = files
        .iter()
        .filter(|file| extension(&file.path) == "rs")
        .map(|file| Source::new(&file.path, &file.text))
        .collect();
    let test_files: BTreeSet<String> = sources.iter().flat_map(Source::test_files).collect();
    sources.iter_mut().for_each(|source| source.mark_test_file(&test_files));

    let mut violations = Vec::new();
    let mut add = |path: &str, findings: Vec<Finding>| {
        violations.extend(findings.into_iter().map(|found| Violation {
            path: path.to_owned(),
            line: found.line,
            sentence: found.sentence,
        }));
    };
    let words = WordList::new();
    for file in &files {
        add(&file.path, text::check(&file.path, &file.text));
        add(&file.path, words.check(&file.path, &file.text));
    }
    for (path, findings) in visibility::check(&sources) {
        add(&path, findings);
    }
    for (path, findings) in file_names::check(files.iter().map(|file| file.path.as_str())) {
        add(&path, findings);
    }
    let texts: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    for (path, findings) in pages::check(&texts) {
        add(&path, findings);
    }
    for (path, findings) in type_names::check(&sources) {
        add(&path, findings);
    }
    for (path, findings) in cycles::check(&sources) {
        add(&path, findings);
    }
    for (path, findings) in public_api::check(root, &sources)? {
        add(&path, findings);
    }
    for source in sources {
        add(&source.path, code::check(&source));
        add(&source.path, layers::check(&source));
        add(&source.path, tuples::check(&source));
        add(&source.path, would_block::check(&source));
    }
    for (path, findings) in manifests::check(&files) {
        add(&path, findings);
    }
    let exists = |path: &str| root.join(path).exists();
    add("ARCHITECTURE.md", architecture::check(text_of(&files, "ARCHITECTURE.md"), exists));
    violations.sort();
    Ok(violations)
}
