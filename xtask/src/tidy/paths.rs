//! The paths in a Rust file: those of `use` declarations, and qualified paths such as `a::b::C`.

use super::source::{Source, is_name_byte};

/// A path that a `use` declaration imports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import<'a> {
    /// Position of the declaration in the code.
    pub(super) position: usize,
    /// Segments of the path; the last one may be `self` or `*`.
    pub(super) segments: Vec<&'a str>,
    /// Name after `as`.
    pub(super) alias: Option<&'a str>,
    /// Whether the declaration has a visibility, so that other modules can use the name.
    pub(super) is_public: bool,
}

/// A path with at least two segments outside of `use` declarations.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QualifiedPath<'a> {
    /// Position in the code.
    pub(super) position: usize,
    pub(super) segments: Vec<&'a str>,
}

/// Returns the imports of the file, also those in functions and tests. Groups are expanded. A path
/// that starts with `::` names another crate and is omitted.
pub(super) fn imports(source: &Source) -> Vec<Import<'_>> {
    let mut imports = Vec::new();
    for position in source.places_of("use ") {
        let before = source.code.get(..position).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_public = line.trim_start().starts_with("pub");
        let tree = source.code.get(position + "use ".len()..).unwrap_or_default();
        let tree = tree.split(';').next().unwrap_or_default();
        for (segments, alias) in leaves(tree) {
            imports.push(Import { position, segments, alias, is_public });
        }
    }
    imports
}

/// Returns the paths of a `use` tree, each with the name after `as`.
fn leaves(tree: &str) -> Vec<(Vec<&str>, Option<&str>)> {
    let mut leaves = Vec::new();
    // Segments before each open brace.
    let mut groups: Vec<Vec<&str>> = vec![Vec::new()];
    let mut start = 0;
    for (at, byte) in tree.bytes().enumerate().chain([(tree.len(), b',')]) {
        if !matches!(byte, b'{' | b',' | b'}') {
            continue;
        }
        let text = tree.get(start..at).unwrap_or_default();
        start = at + 1;
        let (path, alias) = match text.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.trim())),
            None => (text, None),
        };
        let own = path.split("::").map(str::trim).filter(|segment| !segment.is_empty());
        let mut segments = groups.last().cloned().unwrap_or_default();
        let is_of_other_crate = segments.is_empty() && path.trim_start().starts_with("::");
        segments.extend(own);
        match byte {
            b'{' => groups.push(segments),
            _ if !path.trim().is_empty() && !is_of_other_crate => leaves.push((segments, alias)),
            _ => {}
        }
        if byte == b'}' {
            groups.pop();
        }
    }
    leaves
}

/// Returns the qualified paths in the code outside of `use` declarations, also those in tests.
/// Generic arguments end a path.
pub(super) fn qualified_paths(source: &Source) -> Vec<QualifiedPath<'_>> {
    let code = source.code.as_str();
    let mut declarations = source.places_of("use ").into_iter().peekable();
    let mut paths = Vec::new();
    let mut end = 0;
    for (separator, _) in code.match_indices("::") {
        while let Some(declaration) = declarations.next_if(|start| *start < separator) {
            let rest = code.get(declaration..).unwrap_or_default();
            end = end.max(declaration + rest.find(';').unwrap_or(rest.len()));
        }
        if separator < end {
            continue;
        }
        let start = start_of_name(code, separator);
        let before = code.get(..start).unwrap_or_default();
        // Without a name, or after another separator, the path has no beginning that can be
        // resolved: `<T>::A`, `::other_crate::A`.
        if start == separator || before.ends_with("::") {
            end = separator + "::".len();
            continue;
        }
        let mut segments = vec![code.get(start..separator).unwrap_or_default()];
        end = separator;
        while let Some(rest) = code.get(end..).and_then(|rest| rest.strip_prefix("::")) {
            let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
            if length == 0 {
                break;
            }
            segments.extend(rest.get(..length));
            end += "::".len() + length;
        }
        if segments.len() > 1 {
            paths.push(QualifiedPath { position: start, segments });
        }
    }
    paths
}

/// Returns the start of the name that ends at `end`; `end` if there is none.
fn start_of_name(code: &str, end: usize) -> usize {
    let before = code.as_bytes().get(..end).unwrap_or_default();
    end - before.iter().rev().take_while(|byte| is_name_byte(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &str) -> Vec<String> {
        let source = Source::new("crates/a/src/a.rs", text);
        let text = |import: &Import<'_>| import.segments.join("::");
        imports(&source).iter().map(text).collect()
    }

    fn qualified(text: &str) -> Vec<String> {
        let source = Source::new("crates/a/src/a.rs", text);
        let text = |path: &QualifiedPath<'_>| path.segments.join("::");
        qualified_paths(&source).iter().map(text).collect()
    }

    #[test]
    fn groups_are_expanded() {
        let paths = imported("use crate::{a, b::{self, c as d, G}, e::f};");
        assert_eq!(
            paths,
            ["crate::a", "crate::b::self", "crate::b::c", "crate::b::G", "crate::e::f"]
        );
        assert_eq!(imported("use a::{\n    b,\n    c::*,\n};\nuse ::d::e;"), ["a::b", "a::c::*"]);
    }

    #[test]
    fn an_alias_and_a_visibility_are_recognized() {
        let source = Source::new("crates/a/src/a.rs", "pub(crate) use a::b as c;\nuse d;\n");
        let found = imports(&source);
        assert_eq!((found[0].alias, found[0].is_public), (Some("c"), true));
        assert_eq!((found[1].alias, found[1].is_public), (None, false));
    }

    #[test]
    fn a_path_ends_at_generic_arguments() {
        assert_eq!(qualified("let a = b::C::<u8>::new(d::E { f: g });"), ["b::C", "d::E"]);
        assert_eq!(
            qualified("fn a() -> super::super::B { Self::c() }"),
            ["super::super::B", "Self::c"]
        );
    }

    #[test]
    fn declarations_and_paths_without_a_beginning_are_omitted() {
        assert_eq!(qualified("use a::b;\nfn f() { c::d(); }\nuse e::{f, g::h};"), ["c::d"]);
        assert_eq!(qualified("<T as a::U>::b::c(); ::d::e(); vec![]"), ["a::U"]);
    }
}
