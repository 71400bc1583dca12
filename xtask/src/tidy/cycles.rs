//! Rule: the files of a crate do not import each other in a cycle.
//!
//! A file that needs an item of another file depends on it. In a cycle, none of the files can be
//! read, tested or moved without the others. A file that only declares and re-exports another one
//! does not depend on it.

use super::finding::Finding;
use super::module_graph::{Edge, edges};
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Directories whose files count as one file, each with the reason.
const COUNTED_AS_ONE: [(&str, &str); 1] = [(
    "crates/net/src/transport/tcp",
    "the files are the sections of RFC 9293 that process one connection block",
)];

/// A file, or a directory of [`COUNTED_AS_ONE`].
type Node<'a> = &'a str;

/// The nodes that each node depends on, each with the first place at which it is named.
type Graph<'a> = BTreeMap<Node<'a>, BTreeMap<Node<'a>, Edge<'a>>>;

/// Applies the rule to all files. The test files must be marked before.
pub(super) fn check(sources: &[Source]) -> Vec<(String, Vec<Finding>)> {
    let roots: BTreeSet<&str> = sources.iter().filter_map(root_of).collect();
    let mut findings = Vec::new();
    for root in roots {
        let of_root: Vec<&Source> =
            sources.iter().filter(|source| root_of(source) == Some(root)).collect();
        findings.extend(cycles(&graph(&edges(&of_root, root))));
    }
    findings
}

/// Returns the directory of the root file of the crate that contains the source: `src`, or a
/// directory of a program in `src/bin`.
fn root_of(source: &Source) -> Option<&str> {
    let (directory, below) = source.path.split_once("/src/")?;
    let mut length = directory.len() + "/src".len();
    if let Some((program, _)) = below.strip_prefix("bin/").and_then(|below| below.split_once('/')) {
        length += "/bin/".len() + program.len();
    }
    source.path.get(..length)
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn graph<'a>(edges: &[Edge<'a>]) -> Graph<'a> {
    let mut graph = Graph::new();
    for edge in edges {
        let from = node_of(&edge.from.path);
        let to = node_of(&edge.to.path);
        if from != to {
            graph.entry(from).or_default().entry(to).or_insert(*edge);
        }
    }
    graph
}

fn node_of(path: &str) -> Node<'_> {
    let counted = COUNTED_AS_ONE.into_iter().map(|(directory, _)| directory);
    counted.into_iter().find(|directory| is_below(path, directory)).unwrap_or(path)
}

/// Returns a finding for each group of files that import each other: a shortest cycle through the
/// first file of the group.
fn cycles(graph: &Graph<'_>) -> Vec<(String, Vec<Finding>)> {
    let mut findings = Vec::new();
    let mut done: BTreeSet<Node<'_>> = BTreeSet::new();
    for start in graph.keys() {
        if done.contains(start) {
            continue;
        }
        let Some(cycle) = shortest_cycle(graph, start) else { continue };
        let after = reachable(graph, start);
        let group: BTreeSet<Node<'_>> =
            after.into_iter().filter(|node| reachable(graph, node).contains(start)).collect();
        findings.extend(finding(&cycle, group.len()));
        done.extend(group);
    }
    findings
}

/// Returns the nodes to which a path of at least one edge leads from `start`.
fn reachable<'a>(graph: &Graph<'a>, start: Node<'a>) -> BTreeSet<Node<'a>> {
    let mut found = BTreeSet::new();
    let mut pending = vec![start];
    while let Some(node) = pending.pop() {
        for next in graph.get(node).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(*next) {
                pending.push(next);
            }
        }
    }
    found
}

/// Returns the edges of a shortest cycle through `start`, if there is one.
fn shortest_cycle<'a>(graph: &Graph<'a>, start: Node<'a>) -> Option<Vec<Edge<'a>>> {
    let mut paths: BTreeMap<Node<'a>, Vec<Edge<'a>>> = BTreeMap::new();
    let mut pending = VecDeque::from([(start, Vec::new())]);
    while let Some((node, path)) = pending.pop_front() {
        for (next, edge) in graph.get(node).into_iter().flatten() {
            let path = [&path[..], &[*edge]].concat();
            if *next == start {
                return Some(path);
            }
            if !paths.contains_key(next) {
                paths.insert(next, path.clone());
                pending.push_back((next, path));
            }
        }
    }
    None
}

/// Returns the finding for a cycle in a group of `size` files, at its first edge.
fn finding(cycle: &[Edge<'_>], size: usize) -> Option<(String, Vec<Finding>)> {
    let first = cycle.first()?;
    let step = |edge: &Edge<'_>| format!("names {} of {}", edge.item, edge.to.path);
    let steps: Vec<String> = cycle.iter().map(step).collect();
    let mut sentence = format!("import cycle: {}", steps.join(", which "));
    if size > cycle.len() {
        sentence += &format!(" ({size} files import each other)");
    }
    let line = first.from.line_of(first.position);
    Some((first.from.path.clone(), vec![Finding::new(line, sentence)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for files of `crates/a/src`, each as its path and sentence.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        found_below("crates/a/src/", files)
    }

    fn found_below(directory: &str, files: &[(&str, &str)]) -> Vec<String> {
        let source = |(name, text): &(&str, &str)| Source::new(&format!("{directory}{name}"), text);
        let mut sources: Vec<Source> = files.iter().map(source).collect();
        let test_files = sources.iter().flat_map(Source::test_files).collect();
        sources.iter_mut().for_each(|source| source.mark_test_file(&test_files));
        let text = |(path, found): (String, Vec<Finding>)| {
            format!("{}:{}: {}", path.replace(directory, ""), found[0].line, found[0].sentence)
                .replace(directory, "")
        };
        check(&sources).into_iter().map(text).collect()
    }

    #[test]
    fn two_files_that_import_each_other_are_found() {
        let found = found(&[
            ("lib.rs", "mod b;\nmod c;\n"),
            ("b.rs", "\nuse crate::c::C;\npub struct B;\n"),
            ("c.rs", "use super::b;\npub struct C(b::B);\n"),
        ]);
        assert_eq!(found, ["b.rs:2: import cycle: names C of c.rs, which names B of b.rs"]);
    }

    #[test]
    fn a_path_without_an_import_is_found() {
        let found = found(&[
            ("b.rs", "fn b() { crate::c::c(); }"),
            ("c.rs", "use crate::b;\nfn c() { b::b(); }"),
        ]);
        assert_eq!(found, ["b.rs:1: import cycle: names c of c.rs, which names b of b.rs"]);
    }

    #[test]
    fn a_reexport_leads_to_the_file_that_defines_the_item() {
        let found = found(&[
            ("b/mod.rs", "mod d;\npub(crate) use d::D as Renamed;\n"),
            ("b/d.rs", "use crate::c::C;\npub(crate) struct D;\n"),
            ("c.rs", "use crate::b::Renamed;\npub(crate) struct C;\n"),
        ]);
        assert_eq!(found, ["b/d.rs:1: import cycle: names C of c.rs, which names D of b/d.rs"]);
    }

    #[test]
    fn a_parent_that_calls_a_child_which_names_the_parent_is_found() {
        let found = found(&[
            ("b.rs", "mod d;\npub struct B;\nfn b() { d::d(); }\n"),
            ("b/d.rs", "use super::B;\nfn d(b: B) {}\n"),
        ]);
        assert_eq!(found, ["b.rs:3: import cycle: names d of b/d.rs, which names B of b.rs"]);
    }

    #[test]
    fn a_parent_that_only_declares_and_publishes_its_children_is_in_no_cycle() {
        let files = [
            ("b.rs", "mod d;\npub use d::D;\npub struct B;\n"),
            ("b/d.rs", "use super::B;\npub struct D(B);\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
        // The names of a sibling that the parent imports are names of the parent's own code.
        let files = [
            ("b.rs", "mod d;\nmod e;\nuse d::D;\nfn b(d: D) {}\n"),
            ("b/d.rs", "use super::e;\nfn d() { e::e(); }\n"),
            ("b/e.rs", "fn e() {}\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn a_cycle_of_three_files_is_printed_once_with_the_size_of_its_group() {
        let found = found(&[
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::d::{D, e};"),
            ("d.rs", "use crate::b::B;\nuse crate::f::F;"),
            ("f.rs", "use crate::d::D;"),
        ]);
        let sentence = "b.rs:1: import cycle: names C of c.rs, which names D of d.rs, which names B of \
            b.rs (4 files import each other)";
        assert_eq!(found, [sentence]);
    }

    #[test]
    fn test_code_and_test_files_are_ignored() {
        let files = [
            ("b.rs", "use crate::c::C;\n"),
            ("c.rs", "#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod t { use crate::b::B; }\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
        let files = [
            ("b.rs", "#[cfg(test)]\nmod checks;\nfn b() { checks::c(); }\n"),
            ("b/checks.rs", "use super::*;\n"),
            ("c_tests.rs", "use crate::d::D;\n"),
            ("d.rs", "use crate::c_tests::C;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn names_in_comments_and_strings_are_ignored() {
        let files = [
            ("b.rs", "// use crate::c::C;\nconst B: &str = \"crate::c::C\";\n"),
            ("c.rs", "use crate::b::B;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn an_inline_module_belongs_to_its_file() {
        let files = [
            ("b.rs", "mod d { use super::super::c::C; use super::B; }\npub struct B;\n"),
            ("c.rs", "use crate::b::B;\n"),
        ];
        assert_eq!(found(&files), ["b.rs:1: import cycle: names C of c.rs, which names B of b.rs"]);
        let files = [("b.rs", "mod d { use super::c; }\n"), ("c.rs", "use crate::b::B;\n")];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn files_of_other_crates_and_programs_are_apart() {
        let files = [
            ("c.rs", "use crate::d::D;\n"),
            ("bin/b/main.rs", "mod c;\nuse c::C;\n"),
            ("bin/b/c.rs", "use super::d::D;\n"),
            ("bin/b/d.rs", "use ::c::C;\nuse serde::c::C;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
        let files = [("bin/b/c.rs", "use super::d::D;\n"), ("bin/b/d.rs", "use crate::c::C;\n")];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn the_files_of_an_exception_count_as_one() {
        let directory = "crates/net/src/transport/";
        let within = [
            ("tcp/mod.rs", "mod send;\npub struct Tcb;\nfn b() { send::send(); }\n"),
            ("tcp/send.rs", "use super::Tcb;\nuse crate::transport::udp::U;\n"),
            ("udp.rs", ""),
        ];
        assert_eq!(found_below(directory, &within), [""; 0]);
        let across = [within[0], within[1], ("udp.rs", "use super::tcp::Tcb;\n")];
        assert_eq!(found_below(directory, &across).len(), 1);
    }
}
