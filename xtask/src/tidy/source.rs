//! A Rust file, split into code, tests and other text.
//!
//! The scanner knows comments, strings, raw strings, character literals and lifetimes (The Rust
//! Reference, "Lexical structure"). Of the grammar the scanner knows only that brackets come in
//! pairs, and that an item ends with its closing brace or with a semicolon outside of brackets.

use std::collections::BTreeSet;
use std::ops::Range;

/// A Rust file as the rules see it.
#[derive(Debug)]
pub(super) struct Source {
    /// Path relative to the root of the project.
    pub(super) path: String,
    /// Text with every comment and literal blanked; the lines are those of the original.
    pub(super) code: String,
    tests: Vec<Range<usize>>,
    is_test_file: bool,
}

impl Source {
    /// Splits `text`, the content of the file at `path`.
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = blank_comments_and_literals(text);
        let tests = test_items(&code);
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        let is_for_tests = |part: &str| matches!(part, "tests" | "benches");
        let is_test_file = stem.split('/').any(is_for_tests) || stem.ends_with("_tests");
        Self { path: path.to_owned(), code, tests, is_test_file }
    }

    /// Returns the name of the crate's directory below `crates`; for a file elsewhere, the first
    /// directory of its path.
    pub(super) fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or(path)
    }

    /// Returns the line of a position in the code, counted from 1.
    pub(super) fn line_of(&self, position: usize) -> usize {
        self.code.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns whether the position is in code that exists only for tests.
    pub(super) fn is_test(&self, position: usize) -> bool {
        self.is_test_file || self.tests.iter().any(|range| range.contains(&position))
    }

    /// Returns the positions of `word` in the code where it is not part of a longer name.
    pub(super) fn places_of(&self, word: &str) -> Vec<usize> {
        let is_whole = |start: &usize| {
            let before = self.code.get(..*start).and_then(|text| text.chars().next_back());
            let after = self.code.get(start + word.len()..).and_then(|text| text.chars().next());
            let ends_open = !word.ends_with(is_name);
            !before.is_some_and(is_name) && (ends_open || !after.is_some_and(is_name))
        };
        self.code.match_indices(word).map(|(start, _)| start).filter(is_whole).collect()
    }

    /// Returns the text of the item that begins at `start`, to its last brace or semicolon.
    pub(super) fn item(&self, start: usize) -> &str {
        self.code.get(item_range(&self.code, start)).unwrap_or_default()
    }

    /// Returns the possible paths of modules declared here for tests only, without `.rs`.
    pub(super) fn test_files(&self) -> Vec<String> {
        let directory = match self.path.strip_suffix(".rs").unwrap_or(&self.path).rsplit_once('/') {
            Some((directory, "mod" | "lib" | "main")) => directory.to_owned(),
            Some((directory, stem)) => format!("{directory}/{stem}"),
            None => String::new(),
        };
        let declared = |range: &Range<usize>| {
            let item = self.code.get(range.clone())?.strip_suffix(';')?;
            let (before, name) = item.rsplit_once(' ')?;
            before.ends_with("mod").then(|| format!("{directory}/{name}"))
        };
        self.tests.iter().filter_map(declared).collect()
    }

    /// Marks the whole file as a test if it is one of the modules in `paths` or inside one.
    pub(super) fn mark_test_file(&mut self, paths: &BTreeSet<String>) {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let is_inside = |path: &String| {
            stem.strip_prefix(path.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        self.is_test_file |= paths.iter().any(is_inside);
    }
}

/// Returns whether `c` may be part of a name.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_name = code.chars().next_back().is_some_and(is_name);
        let length = literal_length(rest, after_name);
        let (token, after) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length {
            None => code.push(c),
            Some(_) => code.extend(token.chars().map(|c| if c == '\n' { c } else { ' ' })),
        }
        rest = after;
    }
    code
}

/// Returns the length in bytes of the comment or literal at the start of `text`, if there is one.
fn literal_length(text: &str, after_name: bool) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_length(text));
    }
    if text.starts_with('"') {
        return Some(quoted_length(text, '"'));
    }
    if text.starts_with('\'') {
        return character_length(text);
    }
    if !after_name && text.starts_with(['r', 'b', 'c']) {
        return prefixed_length(text);
    }
    None
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let step = rest.chars().next().map_or(1, char::len_utf8);
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += step;
        }
    }
    text.len()
}

/// Returns the length of a literal between two `quote`s, in which a backslash escapes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Returns the length of a character literal, or `None` for a lifetime.
fn character_length(text: &str) -> Option<usize> {
    let mut after = text.chars().skip(1);
    let first = after.next()?;
    let second = after.next()?;
    (first == '\\' || second == '\'').then(|| quoted_length(text, '\''))
}

/// Returns the length of a literal that begins with `b`, `c`, `r`, `br` or `cr`.
fn prefixed_length(text: &str) -> Option<usize> {
    let prefix_len = text.chars().take_while(|c| matches!(c, 'b' | 'c' | 'r')).count();
    let body = text.get(prefix_len..)?;
    match text.get(..prefix_len)? {
        "b" if body.starts_with('\'') => Some(prefix_len + quoted_length(body, '\'')),
        "b" | "c" if body.starts_with('"') => Some(prefix_len + quoted_length(body, '"')),
        "r" | "br" | "cr" => {
            let hashes = body.chars().take_while(|c| *c == '#').count();
            let content = body.get(hashes..)?.strip_prefix('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            let length = content.find(&end).map_or(content.len(), |at| at + end.len());
            Some(prefix_len + hashes + 1 + length)
        }
        _ => None,
    }
}

/// Returns the ranges of items compiled only for tests: those under a `cfg` that names `test`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let is_for_tests = |start: &usize| {
        let condition = code.get(*start..).and_then(|text| text.split(']').next());
        let mut words = condition.unwrap_or_default().split(|c| !is_name(c));
        words.clone().any(|word| word == "test") && !words.any(|word| word == "not")
    };
    let starts = code.match_indices("#[cfg(").map(|(start, _)| start).filter(is_for_tests);
    starts.map(|start| item_range(code, start)).collect()
}

fn item_range(code: &str, start: usize) -> Range<usize> {
    let mut depth = 0_i32;
    for (offset, c) in code.get(start..).unwrap_or_default().char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        let ends = depth < 0 || (depth == 0 && matches!(c, '}' | ';'));
        if ends {
            return start..start + offset + 1;
        }
    }
    start..code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text = "a // todo!\n/* b /* c */ d */ e \"todo! \\\" \n\" f '\"' 'x g b'\\'' h";
        let code = blank_comments_and_literals(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "e", "f", "'x", "g", "h"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn a_raw_string_ends_at_its_own_hashes() {
        let code = blank_comments_and_literals("a r#\"b \" c\"# d r#type br\"e\" for\"f\"");
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "d", "r#type", "for"]);
    }

    #[test]
    fn an_item_under_cfg_test_is_a_test_and_what_follows_is_not() {
        let source = Source::new("a.rs", "#[cfg(test)]\nmod t { fn x(a: [u8; 2]) {} }\nfn y() {}");
        assert!(source.is_test(source.places_of("x")[0]));
        assert!(!source.is_test(source.places_of("y")[0]));
    }

    #[test]
    fn an_item_under_cfg_not_test_is_no_test() {
        let source = Source::new("a.rs", "#[cfg(not(test))]\nfn x() {}");
        assert!(!source.is_test(source.places_of("x")[0]));
    }

    #[test]
    fn a_module_declared_for_tests_makes_its_whole_file_a_test() {
        let parent = Source::new("crates/a/src/tcp.rs", "#[cfg(test)]\nmod walk;\n");
        let mut child = Source::new("crates/a/src/tcp/walk.rs", "fn x() {}");
        assert!(!child.is_test(0));
        child.mark_test_file(&parent.test_files().into_iter().collect());
        assert!(child.is_test(0));
    }

    #[test]
    fn a_file_named_for_tests_is_a_test() {
        assert!(Source::new("crates/a/src/tty_tests.rs", "fn x() {}").is_test(0));
        assert!(Source::new("crates/a/tests/peers.rs", "fn x() {}").is_test(0));
        assert!(!Source::new("crates/a/src/protests.rs", "fn x() {}").is_test(0));
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_name() {
        let source = Source::new("a.rs", "unsafe_code; my_unsafe; unsafe {}");
        assert_eq!(source.places_of("unsafe").len(), 1);
    }
}
