//! The order of the layers in `crates/net`: a lower layer never names a higher one.
//!
//! Modules below all layers (time, rng, meter, packet, checksum, cx, and any other top-level
//! module) name no layer. The station may name all layers, and no layer names it. `lib.rs` names
//! all, because it declares them.

use super::finding::Finding;
use super::source::{Source, is_name};

const SOURCES: &str = "crates/net/src/";

/// Returns the height of a module's layer; `None` for a module below all layers.
fn height(module: &str) -> Option<u8> {
    match module {
        "link" => Some(1),
        "internet" => Some(2),
        "transport" => Some(3),
        "application" => Some(4),
        "station" => Some(5),
        _ => None,
    }
}

fn may_name(from: &str, to: &str) -> bool {
    from == to || height(to).is_none() || height(from) > height(to)
}

/// Applies the rule to one file, which may belong to another crate.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(path) = source.path.strip_prefix(SOURCES) else { return Vec::new() };
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    let Some(from) = parts.first().copied().filter(|part| *part != "lib") else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (place, names) in paths_from_the_top(source, parts.len()) {
        for to in names.into_iter().filter(|to| !may_name(from, to)) {
            let sentence = format!("{from} names {to}, which is not below it");
            findings.push(Finding::new(source.line_of(place), sentence));
        }
    }
    findings
}

/// Returns every path that starts at the top of the crate: its position, and the modules that it
/// names.
///
/// `depth` is the number of `super` that lead from this file to the top. A path in an inline module
/// needs one `super` more, so longer chains are accepted.
fn paths_from_the_top(source: &Source, depth: usize) -> Vec<(usize, Vec<&str>)> {
    let mut paths = Vec::new();
    for place in source.places_of("crate::") {
        let rest = source.code.get(place + "crate::".len()..).unwrap_or_default();
        paths.push((place, first_names(rest)));
    }
    for place in source.places_of("super::") {
        let before = source.code.get(..place).unwrap_or_default();
        let mut rest = source.code.get(place..).unwrap_or_default();
        let mut steps = 0;
        while let Some(after) = rest.strip_prefix("super::") {
            steps += 1;
            rest = after;
        }
        // Each chain is examined once, from its first `super`.
        if steps >= depth && !before.ends_with("super::") {
            paths.push((place, first_names(rest)));
        }
    }
    paths
}

/// Returns the first name of a path, or the first names of a group of paths.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return path.split(|c| !is_name(c)).take(1).collect();
    };
    let mut depth = 0_i32;
    let mut start = 0;
    let mut names = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth < 0 || (depth == 0 && c == ',') {
            let member = group.get(start..at).unwrap_or_default().trim_start();
            names.extend(member.split(|c| !is_name(c)).next());
            start = at + 1;
        }
        if depth < 0 {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences_in(path: &str, text: &str) -> Vec<String> {
        let source = Source::new(&format!("{SOURCES}{path}"), text);
        check(&source).into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn a_lower_layer_that_names_a_higher_one_is_found() {
        let sentences = sentences_in("link/llp.rs", "use crate::transport::tcp::Segment;");
        assert_eq!(sentences, ["link names transport, which is not below it"]);
    }

    #[test]
    fn a_higher_layer_may_name_a_lower_one() {
        assert!(sentences_in("transport/udp.rs", "use crate::internet::ipv4::Address;").is_empty());
        assert!(sentences_in("station/mod.rs", "use crate::{application, link};").is_empty());
    }

    #[test]
    fn all_members_of_a_group_are_checked() {
        let text = "use crate::{Cx, internet::{a, b}, transport::tcp};";
        assert_eq!(sentences_in("internet/icmp.rs", text).len(), 1);
    }

    #[test]
    fn a_path_with_super_is_resolved() {
        assert_eq!(sentences_in("internet/ipv4.rs", "use super::super::transport::tcp;").len(), 1);
        assert_eq!(sentences_in("internet/mod.rs", "use super::transport::tcp;").len(), 1);
        assert!(sentences_in("internet/ipv4.rs", "use super::transport::tcp;").is_empty());
    }

    #[test]
    fn modules_below_all_layers_name_none() {
        assert_eq!(sentences_in("packet.rs", "use crate::link::Frame;").len(), 1);
        assert!(sentences_in("packet.rs", "use crate::meter::Meter;").is_empty());
        assert!(sentences_in("lib.rs", "pub use crate::link::Frame;").is_empty());
    }

    #[test]
    fn nothing_names_the_station() {
        assert_eq!(sentences_in("application/dhcp.rs", "use crate::station::Station;").len(), 1);
    }

    #[test]
    fn other_crates_have_no_layers() {
        let source = Source::new("crates/os/src/link/a.rs", "use crate::transport::B;");
        assert_eq!(check(&source), []);
    }
}
