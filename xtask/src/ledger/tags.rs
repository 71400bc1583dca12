//! The comment lines with which tests name the entries that they prove.

use std::collections::BTreeMap;

/// Prefix of the ids of attacks.
pub(super) const ATTACK: &str = "attack row ";

const REQUIREMENT_TAG: &str = "// req ";
const ATTACK_TAG: &str = "// attack row ";
const ATTACKS_TAG: &str = "// attack rows ";

/// A test with at least one tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Path and line.
    pub(super) place: String,
    pub(super) name: String,
}

/// All tests with tags, by id.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) tests: BTreeMap<String, Vec<Test>>,
    pub(super) errors: Vec<String>,
}

impl Tests {
    /// Adds the tests of the file at `path`.
    pub(super) fn scan(&mut self, path: &str, text: &str) {
        let mut head = FunctionHead::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            if let Some(name) = function_name(line) {
                self.take(core::mem::take(&mut head), path, number, name);
            } else if let Some(ids) = tag(line) {
                head.ids.extend(ids.into_iter().map(|id| (number, id)));
            } else if line.starts_with("//") || (head.is_open && !line.ends_with(']')) {
                continue;
            } else if line.starts_with("#[") || head.is_open {
                head.is_test |= line.contains("test]") || line.contains("::test(");
                head.is_open = !line.ends_with(']');
            } else {
                self.report_tags_without_test(core::mem::take(&mut head), path);
            }
        }
        self.report_tags_without_test(head, path);
    }

    fn take(&mut self, head: FunctionHead, path: &str, number: usize, name: &str) {
        if !head.is_test {
            return self.report_tags_without_test(head, path);
        }
        let test = Test { place: format!("{path}:{number}"), name: name.to_owned() };
        for (_, id) in head.ids {
            self.tests.entry(id).or_default().push(test.clone());
        }
    }

    fn report_tags_without_test(&mut self, head: FunctionHead, path: &str) {
        for (number, id) in head.ids {
            self.errors.push(format!("{path}:{number}: {id} is not above a test"));
        }
    }
}

/// The comments and attributes above a function.
#[derive(Debug, Default)]
struct FunctionHead {
    ids: Vec<(usize, String)>,
    is_test: bool,
    /// Whether the current line is within an attribute of several lines.
    is_open: bool,
}

/// Returns the name of the function that begins on the line, if there is one.
fn function_name(line: &str) -> Option<&str> {
    let is_before = |word: &str| {
        matches!(word, "async" | "const" | "unsafe" | "extern") || word.starts_with("pub")
    };
    let (before, after) = line.split_once("fn ")?;
    let name = after.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    before.split_whitespace().all(is_before).then_some(name)
}

/// Returns the ids in a comment line, if it is a tag.
fn tag(line: &str) -> Option<Vec<String>> {
    let ids = |list: &str, prefix: &str| {
        list.replace(" and ", ",").split(',').map(|id| format!("{prefix}{}", id.trim())).collect()
    };
    if let Some(list) = line.strip_prefix(REQUIREMENT_TAG) {
        return Some(ids(list, ""));
    }
    let rows = line.strip_prefix(ATTACKS_TAG).or_else(|| line.strip_prefix(ATTACK_TAG))?;
    Some(ids(rows, ATTACK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let mut found = Tests::default();
        found.scan("a.rs", text);
        let named = |(id, tests): (String, Vec<Test>)| {
            tests.into_iter().map(move |test| (id.clone(), test.name))
        };
        (found.tests.into_iter().flat_map(named).collect(), found.errors)
    }

    fn pairs(named: &[(String, String)]) -> Vec<(&str, &str)> {
        named.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect()
    }

    #[test]
    fn a_comment_above_the_attribute_or_the_function_names_what_it_proves() {
        let text =
            "    // req A:MUST-1, A:MUST-2\n    #[test]\n    // attack rows 3, 4\n    fn it() {\n";
        let (named, errors) = scan(text);
        let ids = ["A:MUST-1", "A:MUST-2", "attack row 3", "attack row 4"];
        assert_eq!(pairs(&named), ids.map(|id| (id, "it")));
        assert!(errors.is_empty());
    }

    #[test]
    fn other_comments_and_long_attributes_may_follow_the_tag() {
        let text = "// attack row 5\n/// Doc.\n#[tokio::test(\n    flavor = \"x\"\n)]\n#[ignore = \"y\"]\nasync fn it() {\n";
        assert_eq!(pairs(&scan(text).0), [("attack row 5", "it")]);
    }

    #[test]
    fn a_comment_above_a_non_test_is_an_error() {
        for text in [
            "// req A:MUST-1\nfn it() {\n",
            "// req A:MUST-1\n\n#[test]\nfn it() {\n",
            "// req A:MUST-1\nconst A: u8 = 1;\n",
            "// req A:MUST-1\n",
        ] {
            assert_eq!(scan(text).1, ["a.rs:1: A:MUST-1 is not above a test"], "{text}");
        }
    }

    #[test]
    fn code_that_declares_no_function_has_no_function_name() {
        for line in ["let f = fn_name();", "impl Fn (u8)", "// a fn that", "type F = fn (u8);"] {
            assert_eq!(function_name(line), None, "{line}");
        }
    }
}
