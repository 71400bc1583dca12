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
    /// Names in the code.
    names: NameFilter,
}

impl Source {
    /// Splits `text`, the content of the file at `path`.
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = blank_comments_and_literals(text);
        let tests = test_items(&code);
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        let is_for_tests = |part: &str| matches!(part, "tests" | "benches");
        let is_test_file = stem.split('/').any(is_for_tests) || stem.ends_with("_tests");
        let mut names = NameFilter::new();
        for_each_name(&code, |name| names.insert(name));
        Self { path: path.to_owned(), code, tests, is_test_file, names }
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

    /// Returns whether the whole file exists only for tests.
    pub(super) fn is_test_file(&self) -> bool {
        self.is_test_file
    }

    /// Returns whether the position is in code that exists only for tests.
    pub(super) fn is_test(&self, position: usize) -> bool {
        self.is_test_file || self.tests.iter().any(|range| range.contains(&position))
    }

    /// Returns the positions of `word` in the code where it is not part of a longer name.
    pub(super) fn places_of(&self, word: &str) -> Vec<usize> {
        let first_name = word.split(|c| !is_name(c)).next().unwrap_or_default();
        if !self.names.may_contain(first_name) {
            return Vec::new();
        }
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

// A check reads all files, and the program is built without optimization: loops over every character
// of a file are over bytes.

/// Like [`is_name`], for a byte of UTF-8; a character outside of ASCII is taken for a letter.
pub(super) fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | 0x80..)
}

/// Calls `visit` with every name, keyword and number in `code`.
pub(super) fn for_each_name<'a>(code: &'a str, mut visit: impl FnMut(&'a str)) {
    let mut start = 0;
    let mut at = 0;
    for &byte in code.as_bytes() {
        if !is_name_byte(byte) {
            if at > start {
                visit(code.get(start..at).unwrap_or_default());
            }
            start = at + 1;
        }
        at += 1;
    }
    if at > start {
        visit(code.get(start..).unwrap_or_default());
    }
}

/// A set of names that is quick to build. It may also contain names that were never inserted.
#[derive(Debug)]
pub(super) struct NameFilter([u64; 64]);

impl NameFilter {
    /// Creates an empty set.
    pub(super) fn new() -> Self {
        Self([0; 64])
    }

    /// Adds a name.
    pub(super) fn insert(&mut self, name: &str) {
        let (word, bit) = Self::place_of(name);
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= bit;
        }
    }

    /// Returns whether the set may contain `name`.
    pub(super) fn may_contain(&self, name: &str) -> bool {
        let (word, bit) = Self::place_of(name);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns the place of a name, which depends on its length, first and last byte.
    fn place_of(name: &str) -> (usize, u64) {
        let (Some(first), Some(last)) = (name.as_bytes().first(), name.as_bytes().last()) else {
            return (0, 1);
        };
        let hash = usize::from(*first) * 31 + usize::from(*last) * 7 + name.len() * 97;
        (hash / 64 % 64, 1 << (hash % 64))
    }
}

fn blank_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    let mut before = b' ';
    while let Some(&byte) = text.as_bytes().get(at) {
        let length = match byte {
            b'/' | b'"' | b'\'' => literal_length(text.get(at..).unwrap_or_default()),
            b'r' | b'b' | b'c' if !is_name_byte(before) => {
                prefixed_length(text.get(at..).unwrap_or_default())
            }
            _ => None,
        };
        if let Some(length) = length {
            code.push_str(text.get(copied..at).unwrap_or_default());
            push_blank(&mut code, text.get(at..at + length).unwrap_or_default());
            at += length;
            copied = at;
            before = b' ';
        } else {
            at += 1;
            before = byte;
        }
    }
    code.push_str(text.get(copied..).unwrap_or_default());
    code
}

/// Appends a space for every byte of `token`, and its line ends.
fn push_blank(code: &mut String, token: &str) {
    for (number, line) in token.split('\n').enumerate() {
        if number > 0 {
            code.push('\n');
        }
        code.push_str(&" ".repeat(line.len()));
    }
}

/// Returns the length in bytes of the comment or the literal without a prefix at the start of
/// `text`, if there is one.
fn literal_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_length(text));
    }
    if text.starts_with('"') {
        return Some(quoted_length(text, b'"'));
    }
    character_length(text)
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
fn quoted_length(text: &str, quote: u8) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'\\' {
            is_escaped = true;
        } else if byte == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Returns the length of a character literal, or `None` for a lifetime or another character.
fn character_length(text: &str) -> Option<usize> {
    let mut after = text.strip_prefix('\'')?.chars();
    let first = after.next()?;
    let second = after.next()?;
    (first == '\\' || second == '\'').then(|| quoted_length(text, b'\''))
}

/// Returns the length of a literal that begins with `b`, `c`, `r`, `br` or `cr`.
fn prefixed_length(text: &str) -> Option<usize> {
    let prefix_len = text.chars().take_while(|c| matches!(c, 'b' | 'c' | 'r')).count();
    let body = text.get(prefix_len..)?;
    match text.get(..prefix_len)? {
        "b" if body.starts_with('\'') => Some(prefix_len + quoted_length(body, b'\'')),
        "b" | "c" if body.starts_with('"') => Some(prefix_len + quoted_length(body, b'"')),
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
    for (offset, byte) in code.get(start..).unwrap_or_default().bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        let ends = depth < 0 || (depth == 0 && matches!(byte, b'}' | b';'));
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
