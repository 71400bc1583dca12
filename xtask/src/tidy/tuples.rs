//! Rule: a statement assigns one value.
//!
//! `let (a, b) = (1, 2);` and `(a, b) = (b, a);` pack several statements into one. A tuple that is
//! only on the left is a pattern, and is allowed.

use super::finding::Finding;
use super::source::Source;

/// Applies the rule to one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut start = 0;
    for line in source.code.split_inclusive('\n') {
        let statement = line.trim_start();
        let position = start + line.len() - statement.len();
        let statement = statement.strip_prefix("let ").unwrap_or(statement);
        if statement.starts_with('(') && is_packed(source.code.get(position..).unwrap_or_default())
        {
            let sentence = "one statement assigns several values: use one statement for each";
            findings.push(Finding::new(source.line_of(position), sentence));
        }
        start += line.len();
    }
    findings
}

/// Returns whether `code` begins with an assignment of a literal tuple to a tuple.
fn is_packed(code: &str) -> bool {
    let code = code.strip_prefix("let ").unwrap_or(code);
    let Some(after) = after_brackets(code) else { return false };
    let after = after.trim_start();
    let typed = after.strip_prefix(':').and_then(|rest| after_brackets(rest.trim_start()));
    let Some(value) = typed.unwrap_or(after).trim_start().strip_prefix('=') else { return false };
    let value = value.trim_start();
    value.starts_with('(')
        && after_brackets(value).is_some_and(|rest| rest.trim_start().starts_with(';'))
}

/// Returns the text after the bracket that closes the first one, if `code` begins with a
/// parenthesis.
fn after_brackets(code: &str) -> Option<&str> {
    let mut depth = 0_usize;
    if !code.starts_with('(') {
        return None;
    }
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return code.get(at + c.len_utf8()..);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("a.rs", text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_literal_tuple_on_both_sides_is_found() {
        assert_eq!(lines("fn a() {\n    let (mut b, c) = (1, f(2));\n}\n"), [2]);
        assert_eq!(lines("fn a() {\n    (b, self.c) = (\n        c, b,\n    );\n}\n"), [2]);
        assert_eq!(lines("fn a() {\n    let (b, c): (u8, u8) = (1, 2);\n}\n"), [2]);
    }

    #[test]
    fn a_pattern_is_allowed() {
        assert!(lines("let (b, c) = f();\nlet (b, c) = (1, 2).swap();\n").is_empty());
        assert!(
            lines("let b = (1, 2);\nlet (Some(b), c) = (f(), 1) else { return };\n").is_empty()
        );
        assert!(lines("f((1, 2));\n(b)(c);\n").is_empty());
    }
}
