//! Rules about any text: white space and machine-specific paths; for a Rust file also its first
//! comment and its length; for Markdown also the length of its lines.

use super::finding::Finding;
use crate::project_files::extension;

const FILE_LINES_MAX: usize = 800;
const MARKDOWN_COLUMNS_MAX: usize = 120;

/// File names that do not describe the contents.
const VAGUE_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];

/// Directories with personal or temporary files, which differ between machines. They are assembled
/// from pieces so that this file passes its own rule.
const MACHINE_DIRECTORIES: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

/// Applies the rules to the file at `path`.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let extension = extension(path);
    let mut findings = machine_paths(text);
    // A snapshot is kept exactly as the program wrote it.
    if extension != "snap" {
        findings.extend(trailing_space(text));
    }
    if extension == "md" {
        findings.extend(columns(text));
    }
    if extension == "rs" {
        findings.extend(missing_file_comment(text));
        findings.extend(length(text));
        findings.extend(name(path));
        findings.extend(skipped_tests(text));
    }
    findings
}

/// Beginning of a message about a skipped test. libtest counts a test that prints this and returns
/// as passed, so the skip would not be reported.
const SKIP_MESSAGE: &str = concat!("\"skip", "ped:");

fn skipped_tests(text: &str) -> Vec<Finding> {
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.contains('"') && line.contains(SKIP_MESSAGE));
    let sentence = "a test that cannot run fails, or calls test_support::not_configured";
    lines.map(|(line, _)| Finding::new(line, sentence)).collect()
}

fn trailing_space(text: &str) -> Vec<Finding> {
    let has_trailing_space = |line: &str| line.ends_with([' ', '\t', '\r']);
    let lines = (1..).zip(text.split('\n')).filter(|(_, line)| has_trailing_space(line));
    lines.map(|(line, _)| Finding::new(line, "the line ends with white space")).collect()
}

fn machine_paths(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Looking for one character first is faster.
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains('/'));
    for (number, line) in lines {
        for directory in MACHINE_DIRECTORIES {
            // After a name or a dot, the directory is in the middle of a longer path or of an
            // address.
            let is_start = |before: &str| {
                !before.ends_with(|c: char| c.is_alphanumeric() || "._-~}".contains(c))
            };
            if line.match_indices(directory).any(|(at, _)| line.get(..at).is_some_and(is_start)) {
                findings.push(Finding::new(
                    number,
                    format!("{directory} is a directory of one machine"),
                ));
            }
        }
    }
    findings
}

fn missing_file_comment(text: &str) -> Option<Finding> {
    let first = text.lines().find(|line| !line.starts_with("// SPDX"))?;
    let sentence = "the file does not begin with a //! comment on its purpose";
    (!first.starts_with("//!")).then(|| Finding::new(1, sentence))
}

fn length(text: &str) -> Option<Finding> {
    let count = text.lines().count();
    let sentence = format!("the file has {count} lines, more than {FILE_LINES_MAX}");
    (count > FILE_LINES_MAX).then(|| Finding::new(FILE_LINES_MAX + 1, sentence))
}

/// Returns the lines of Markdown that are too long, except those without a space to break them at.
fn columns(text: &str) -> Vec<Finding> {
    let is_too_long = |line: &str| line.chars().count() > MARKDOWN_COLUMNS_MAX;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_too_long(line) && line.contains(' '));
    let message = format!("the line has more than {MARKDOWN_COLUMNS_MAX} columns");
    lines.map(|(line, _)| Finding::new(line, &message)).collect()
}

fn name(path: &str) -> Option<Finding> {
    let stem = path.strip_suffix(".rs")?.split('/').find(|part| VAGUE_NAMES.contains(part))?;
    Some(Finding::new(1, format!("the module name {stem} does not describe the contents")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_markdown_is_found() {
        let line = format!("| {} |", "é".repeat(116));
        assert_eq!(check("docs/a.md", &line), []);
        let message = "the line has more than 120 columns";
        assert_eq!(check("docs/a.md", &format!("\n{line}é")), [Finding::new(2, message)]);
        assert_eq!(check("docs/a.md", &"a".repeat(121)), []);
    }

    #[test]
    fn white_space_at_the_end_of_a_line_is_found() {
        assert_eq!(trailing_space("a\nb \nc\t\nd\n").len(), 2);
        assert_eq!(trailing_space("a\nb \n")[0].line, 2);
    }

    #[test]
    fn a_recording_may_end_a_line_with_white_space() {
        assert_eq!(check("a.snap", "screen  \n"), []);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let text = format!("a\nsee {}me/file", concat!("/ho", "me/"));
        assert_eq!(machine_paths(&text)[0].line, 2);
    }

    #[test]
    fn a_directory_name_inside_an_address_or_a_longer_path_is_accepted() {
        let text = format!("https://a.example{0} and crates{0}", concat!("/ho", "me/"));
        assert_eq!(machine_paths(&text), []);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        assert!(missing_file_comment("use std::fmt;\n").is_some());
        assert!(missing_file_comment("//! What it is.\n").is_none());
        assert!(
            missing_file_comment(
                "// SPDX-License-Identifier: MIT OR Apache-2.0\n//! What it is.\n"
            )
            .is_none()
        );
    }

    #[test]
    fn a_file_of_801_lines_is_too_long_and_one_of_800_is_not() {
        assert!(length(&"a\n".repeat(801)).is_some());
        assert!(length(&"a\n".repeat(800)).is_none());
    }

    #[test]
    fn a_test_that_skips_itself_is_found() {
        let text = format!("//! A.\nreturn eprintln!({SKIP_MESSAGE} no program\");\n");
        assert_eq!(check("a.rs", &text)[0].line, 2);
        assert_eq!(skipped_tests("let skipped = 1; // skipped"), []);
    }

    #[test]
    fn a_module_called_util_is_found() {
        assert!(name("crates/a/src/util.rs").is_some());
        assert!(name("crates/a/src/common/b.rs").is_some());
        assert!(name("crates/a/src/utility.rs").is_none());
    }
}
