//! Words that the project does not use, in identifiers, comments, strings and Markdown.
//!
//! `words.txt` has one line for each: the word or phrase, a tab, and the term to use instead. A
//! second tab precedes the paths, with spaces between them, of files and directories that may use
//! the word, for example to read the old names of keys and options. An identifier is read as the
//! words it consists of, so that `far side` finds `far_side`, `FarSide` and `FAR_SIDE` as well.
//! Quotations in Markdown (lines that begin with `>`) are not checked.

use super::finding::Finding;
use crate::project_files::extension;

/// The list.
const LIST: &str = include_str!("words.txt");

/// Words that a comment does not begin with: its subject is a component or a value.
const FIRST_WORDS: [&str; 5] = ["who", "whoever", "what", "nobody", "somebody"];

/// The list in the form that is compared with lines of text.
pub(super) struct WordList {
    entries: Vec<Entry>,
    /// The longest word of each entry, by its first letter.
    longest_words: [Vec<String>; 256],
}

/// A line of the list.
struct Entry {
    /// The words in lower case, with a space before and after each.
    words: String,
    instead: &'static str,
    /// Files and directories that may use the words.
    exempt: Vec<&'static str>,
}

impl WordList {
    /// Parses the list.
    pub(super) fn new() -> Self {
        let mut entries = Vec::new();
        let mut longest_words = [const { Vec::new() }; 256];
        for (word, rest) in LIST.lines().filter_map(|line| line.split_once('\t')) {
            let (instead, paths) = rest.split_once('\t').unwrap_or((rest, ""));
            let words = plain(word);
            let longest = words.split(' ').max_by_key(|word| word.len()).unwrap_or_default();
            let first = longest.bytes().next().unwrap_or_default();
            if let Some(same_letter) = longest_words.get_mut(usize::from(first)) {
                same_letter.push(longest.to_owned());
            }
            let exempt = paths.split(' ').collect();
            entries.push(Entry { words: padded(&words), instead, exempt });
        }
        Self { entries, longest_words }
    }

    /// Applies the rules to the file at `path`.
    pub(super) fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        if !matches!(extension(path), "rs" | "md" | "toml" | "sh") {
            return Vec::new();
        }
        let is_quotation = |line: &str| extension(path) == "md" && line.starts_with('>');
        let mut findings = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if !self.may_match(line) || is_quotation(line) {
                continue;
            }
            let words = padded(&plain(line));
            for entry in self.entries.iter().filter(|entry| words.contains(&entry.words)) {
                if !entry.exempt.iter().any(|start| is_below(path, start)) {
                    let sentence = format!("\"{}\": use {}", entry.words.trim(), entry.instead);
                    findings.push(Finding::new(number, sentence));
                }
            }
        }
        if extension(path) == "rs" {
            findings.extend(first_words(text));
        }
        findings
    }

    /// Returns whether a word of the line may be in the list. This is much faster than the
    /// comparison with all entries, and few lines pass.
    fn may_match(&self, line: &str) -> bool {
        if !line.is_ascii() {
            return true;
        }
        let mut start = 0;
        let mut was_lower = false;
        for (at, byte) in line.bytes().enumerate() {
            let is_lower = matches!(byte, b'a'..=b'z' | b'0'..=b'9');
            if !is_lower && (was_lower || !byte.is_ascii_alphanumeric()) {
                if self.has_longest_word(line.as_bytes().get(start..at)) {
                    return true;
                }
                start = if byte.is_ascii_alphanumeric() { at } else { at + 1 };
            }
            was_lower = is_lower;
        }
        self.has_longest_word(line.as_bytes().get(start..))
    }

    fn has_longest_word(&self, word: Option<&[u8]>) -> bool {
        let Some(word @ [first, ..]) = word else { return false };
        let same_letter = self.longest_words.get(usize::from(first.to_ascii_lowercase()));
        let is_word = |known: &String| known.as_bytes().eq_ignore_ascii_case(word);
        same_letter.is_some_and(|same_letter| same_letter.iter().any(is_word))
    }
}

/// Returns whether `path` is `start`, or a file below the directory `start`.
fn is_below(path: &str, start: &str) -> bool {
    let rest = path.strip_prefix(start);
    !start.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn padded(words: &str) -> String {
    format!(" {words} ")
}

/// Returns the words of `text` in lower case with one space between them; an underscore, a hyphen
/// and a capital inside of an identifier separate words.
fn plain(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(' ');
        }
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// Returns the comments that begin with one of [`FIRST_WORDS`].
fn first_words(text: &str) -> Vec<Finding> {
    let comment = |line: &str| {
        // Looking for one character first is faster.
        let line = Some(line).filter(|line| line.contains('/'))?;
        let line = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']);
        Some(line.trim_start().to_owned())
    };
    let mut was_comment = false;
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = comment(line);
        let first = words.as_deref().and_then(|words| words.split(' ').next()).unwrap_or("");
        let first = first.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if !was_comment && FIRST_WORDS.contains(&first.as_str()) {
            let sentence = format!("a comment begins with \"{first}\" instead of its subject");
            findings.push(Finding::new(number, sentence));
        }
        // An empty comment line separates paragraphs.
        was_comment = words.is_some_and(|words| !words.is_empty());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(plain("FarSide::far_side, \"the far-side\""), "far side far side the far side");
        assert_eq!(plain("TCP_NODELAY"), "tcp nodelay");
    }

    #[test]
    fn a_word_of_the_list_is_found_with_its_line_and_no_part_of_a_longer_one() {
        let (word, instead) = LIST.lines().find_map(|line| line.split_once('\t')).unwrap();
        let found = WordList::new().check("a.rs", &format!("//! A.\nlet a = {word};\n"));
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(found[0].sentence.ends_with(instead), "{found:?}");
        assert_eq!(WordList::new().check("a.rs", &format!("//! A.\nlet a = {word}ist;\n")), []);
        assert_eq!(WordList::new().check("a.md", &format!("> {word}\n")), []);
    }

    #[test]
    fn a_word_is_permitted_in_the_files_of_its_line() {
        let text = "//! A.\nconst OLD: &str = \"foretell\";\n";
        assert_eq!(WordList::new().check("crates/plumbline/src/measure/arguments.rs", text), []);
        assert_eq!(
            WordList::new().check("crates/plumbline/src/measure/schedule.rs", text).len(),
            1
        );
        assert!(is_below("crates/records/src/a.rs", "crates/records"));
        assert!(!is_below("crates/recordsets/src/a.rs", "crates/records"));
    }

    #[test]
    fn a_word_is_found_in_every_form_of_a_name_and_beside_other_characters() {
        let words = WordList::new();
        for text in ["FarSide", "far_side", "FAR_SIDE", "the far side.", "→ far side", "x-far-side"]
        {
            assert_eq!(words.check("a.md", text).len(), 1, "{text}");
        }
        assert_eq!(words.check("a.md", "far besides, FARSIDE, sidefar"), []);
    }

    #[test]
    fn a_comment_starting_with_what_is_found() {
        assert_eq!(first_words("//! What it is.\n").len(), 1);
        assert_eq!(first_words("x();\n    // Who reads\n").len(), 1);
        assert_eq!(first_words("//! A sentence that says\n//! what it is.\n"), []);
        assert_eq!(first_words("/// A.\n///\n/// What.\n").len(), 1);
    }
}
