//! A list of requirements or attacks, read from its text file.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;

/// One list: the requirements of a document, or the attacks.
#[derive(Debug)]
pub(super) struct Book {
    title: String,
    pub(super) entries: Vec<Entry>,
}

/// One line of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Id of the requirement or attack, as a test's comment names it.
    pub(super) id: String,
    pub(super) weight: Weight,
    pub(super) section: String,
    pub(super) words: String,
    pub(super) exception: Option<String>,
}

/// Whether an entry must have a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// A MUST, a MUST NOT, or an attack.
    Must,
    /// A SHOULD, a MAY or a recommendation.
    Other,
}

const EXCEPTION: &str = "exception: ";

impl Book {
    /// Reads a list whose first line is its title, and whose ids begin with `prefix` in tests.
    pub(super) fn parse(path: &str, prefix: &str, text: &str) -> Result<Self> {
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{path} does not begin with a title"))?;
        let title = title.split(". ").next().and_then(|title| title.split(": ").next());
        let title = title.unwrap_or_default().to_owned();
        let mut entries = Vec::new();
        let mut ids = BTreeSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(prefix, line).with_context(|| format!("{path}:{number}"))?;
            ensure!(ids.insert(entry.id.clone()), "{path}:{number}: {} is listed twice", entry.id);
            entries.push(entry);
        }
        Ok(Self { title, entries })
    }

    /// Returns the title of the list.
    pub(super) fn title(&self) -> &str {
        &self.title
    }
}

impl Entry {
    fn parse(prefix: &str, line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(" | ").collect();
        let (id, section, words, rest) = match fields.as_slice() {
            [id, section, words, rest @ ..] if rest.len() <= 1 => (*id, *section, *words, rest),
            _ => bail!("the line is not of the form 'id | section | words | exception: reason'"),
        };
        let exception = match rest.first() {
            Some(field) => Some(field.strip_prefix(EXCEPTION).context("the reason is missing")?),
            None => None,
        };
        let is_other = ["SHLD-", "MAY-", "REC-"].iter().any(|weight| id.contains(weight));
        Ok(Self {
            id: format!("{prefix}{id}"),
            weight: if is_other { Weight::Other } else { Weight::Must },
            section: section.to_owned(),
            words: words.to_owned(),
            exception: exception.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_id_section_words_and_perhaps_an_exception() {
        let text = "# RFC 1, the list\n\nMUST-1 | 3.1 | one\nMAY-2 | 3 | two | exception: why\n";
        let book = Book::parse("list.txt", "RFC1:", text).unwrap();
        assert_eq!(book.title(), "RFC 1, the list");
        let [one, two] = book.entries.as_slice() else { panic!("two entries") };
        assert_eq!(
            (one.id.as_str(), one.weight, &one.exception),
            ("RFC1:MUST-1", Weight::Must, &None)
        );
        assert_eq!((two.weight, two.exception.as_deref()), (Weight::Other, Some("why")));
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_its_number() {
        for line in ["MUST-1", "MUST-1 | 3.1 | one | why", "MUST-1 | 3 | a | exception: b | c"] {
            let error = Book::parse("list.txt", "", &format!("# Title\n{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), "list.txt:2");
        }
    }

    #[test]
    fn a_duplicate_id_is_rejected() {
        let text = "# Title\n1 | a | b\n1 | c | d\n";
        let error = Book::parse("list.txt", "", text).unwrap_err().to_string();
        assert_eq!(error, "list.txt:3: 1 is listed twice");
    }
}
