//! One mutant: a small fault that replaces an expression or a statement.

use std::collections::BTreeMap;
use std::ops::Range;

/// Path of the function in the copied crate that returns whether a mutant is active.
pub(super) const SWITCH: &str = "crate::mutation_switch::is_active";

/// The fault of a mutant, as source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The expression has this value instead.
    Replace(String),
    /// The statement is not executed.
    Delete,
    /// The function returns this value at once. The range of the mutant is empty.
    Return(&'static str),
}

/// A mutant of one source file.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// Path of the file, relative to the root.
    pub(super) path: String,
    /// Bytes of the file that the fault replaces.
    pub(super) range: Range<usize>,
    /// Lines of the replaced bytes, from 1.
    pub(super) lines: Range<usize>,
    /// Lines of the function that contains them.
    pub(super) function: Range<usize>,
    pub(super) fault: Fault,
    /// The change, for the user.
    pub(super) description: String,
}

/// The mutants of a run, by number.
pub(super) type Mutants = BTreeMap<usize, Mutant>;

impl Mutant {
    /// Returns the text before and after the original code that makes the fault depend on `id`.
    ///
    /// The text contains no newline, so compiler errors have the lines of the original file.
    pub(super) fn wrapping(&self, id: usize) -> (String, &'static str) {
        match &self.fault {
            Fault::Replace(code) => (format!("(if {SWITCH}({id}) {{ {code} }} else {{ "), " })"),
            Fault::Delete => (format!("if !{SWITCH}({id}) {{ "), " }"),
            Fault::Return(value) => (format!(" if {SWITCH}({id}) {{ return {value}; }} "), ""),
        }
    }

    /// Returns `PATH:LINE`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.path, self.lines.start)
    }
}

/// Returns `text` with the mutants of `mutants`, which have the number before them.
pub(super) fn insert(text: &str, mutants: &[(usize, &Mutant)]) -> String {
    let mut insertions = Vec::new();
    for (id, mutant) in mutants {
        let (before, after) = mutant.wrapping(*id);
        let Range { start, end } = mutant.range;
        // At one offset: inner suffixes, outer suffixes, outer prefixes, inner prefixes.
        let outermost = matches!(mutant.fault, Fault::Return(_));
        let width = if outermost { usize::MAX } else { end - start };
        insertions.push(((start, 1, usize::MAX - width, *id), before));
        if !outermost {
            insertions.push(((end, 0, width, usize::MAX - *id), after.to_owned()));
        }
    }
    insertions.sort();
    let mut output = String::with_capacity(text.len() * 2);
    let mut copied = 0;
    for ((offset, ..), inserted) in insertions {
        output.push_str(text.get(copied..offset).unwrap_or_default());
        output.push_str(&inserted);
        copied = offset;
    }
    output.push_str(text.get(copied..).unwrap_or_default());
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(range: Range<usize>, fault: Fault) -> Mutant {
        Mutant {
            path: "a.rs".to_owned(),
            range,
            lines: 1..2,
            function: 1..2,
            fault,
            description: String::new(),
        }
    }

    #[test]
    fn nested_mutants_are_inserted_from_the_outside_to_the_inside() {
        let text = "fn f() -> bool {a+1==b}";
        let returned = mutant(16..16, Fault::Return("true"));
        let compared = mutant(16..22, Fault::Replace("(a+1)!=(b)".to_owned()));
        let added = mutant(16..19, Fault::Replace("(a)-(1)".to_owned()));
        let active = |id| format!("{SWITCH}({id})");
        let expected = format!(
            "fn f() -> bool {{ if {} {{ return true; }} (if {} {{ (a+1)!=(b) }} else {{ \
             (if {} {{ (a)-(1) }} else {{ a+1 }})==b }})}}",
            active(3),
            active(2),
            active(1)
        );
        assert_eq!(insert(text, &[(1, &added), (2, &compared), (3, &returned)]), expected);
    }

    #[test]
    fn two_mutants_of_one_expression_nest() {
        let text = "if a{}";
        let [yes, no] = ["true", "false"].map(|it| mutant(3..4, Fault::Replace(it.to_owned())));
        let expected = format!(
            "if (if {SWITCH}(1) {{ true }} else {{ (if {SWITCH}(2) {{ false }} else {{ a }}) }}){{}}"
        );
        assert_eq!(insert(text, &[(1, &yes), (2, &no)]), expected);
    }

    #[test]
    fn a_deleted_statement_is_executed_unless_its_mutant_is_active() {
        let statement = mutant(0..4, Fault::Delete);
        assert_eq!(insert("f();", &[(7, &statement)]), format!("if !{SWITCH}(7) {{ f(); }}"));
    }
}
