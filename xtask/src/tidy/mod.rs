//! Rules about the project's own text that the compiler does not check.
//!
//! Every rule is a function from text to findings. A Rust file is first split into code and other
//! text ([`source::Source`]), so that a rule about code is not misled by a comment, a string or a
//! test; nothing is parsed further. The rules read the files of the directory and not those of the
//! version control system, so that a file counts before it is committed.

mod architecture;
mod code;
mod file_names;
mod layers;
mod manifests;
mod source;
mod text;
mod tuples;
mod type_names;
mod visibility;
mod words;

use anyhow::{Context, Result};
use source::Source;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    sentence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// A finding of a rule in one file: the line, counted from 1, and a message.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    sentence: String,
}

impl Finding {
    fn new(line: usize, sentence: impl Into<String>) -> Self {
        Self { line, sentence: sentence.into() }
    }
}

/// A file of the project: its path relative to the root, with `/`, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads all hand-written files of the project.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    Ok(files)
}

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
    for file in &files {
        add(&file.path, text::check(&file.path, &file.text));
        add(&file.path, words::check(&file.path, &file.text));
    }
    for (path, findings) in visibility::check(&sources) {
        add(&path, findings);
    }
    for (path, findings) in file_names::check(files.iter().map(|file| file.path.as_str())) {
        add(&path, findings);
    }
    for (path, findings) in type_names::check(&sources) {
        add(&path, findings);
    }
    for source in sources {
        add(&source.path, code::check(&source));
        add(&source.path, layers::check(&source));
        add(&source.path, tuples::check(&source));
    }
    for (path, findings) in manifests::check(&files) {
        add(&path, findings);
    }
    let exists = |path: &str| root.join(path).exists();
    add("ARCHITECTURE.md", architecture::check(text_of(&files, "ARCHITECTURE.md"), exists));
    violations.sort();
    Ok(violations)
}

/// Returns the text of the file at `path`; empty if there is no such file.
fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

/// Returns the part of the file's name after the last dot; empty if there is no dot.
fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension,
        _ => "",
    }
}

/// Reads the hand-written files under `root`/`directory`.
fn collect(root: &Path, directory: &str, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(directory))
        .with_context(|| format!("cannot read {directory}/"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        let kind = entry.file_type()?;
        if GENERATED_NAMES.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() && HAND_WRITTEN_EXTENSIONS.contains(&extension(&path)) {
            let bytes =
                std::fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

/// Names of generated files and directories; `.git` is a file in a second worktree.
const GENERATED_NAMES: [&str; 4] = [".git", "target", "corpus", "artifacts"];

/// Extensions of hand-written files; those without one are scripts, licenses and settings.
const HAND_WRITTEN_EXTENSIONS: [&str; 9] =
    ["", "rs", "toml", "lock", "md", "sh", "yml", "snap", "txt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_path_line_and_sentence() {
        let violation = Violation { path: "a/b.rs".into(), line: 7, sentence: "it is odd".into() };
        assert_eq!(violation.to_string(), "a/b.rs:7: it is odd");
    }

    #[test]
    fn a_name_that_begins_with_its_only_dot_has_no_extension() {
        assert_eq!(extension("a.b/.gitignore"), "");
        assert_eq!(extension("a.b/c.rs"), "rs");
    }
}
