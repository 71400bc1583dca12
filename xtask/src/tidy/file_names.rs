//! Rule: at most three Rust files have the same name, so that a file name identifies a file well
//! enough.

use super::finding::Finding;
use std::collections::BTreeMap;

/// Maximum number of files with the same name.
const SAME_NAME_MAX: usize = 3;

/// File names with a meaning for the compiler or for the project, which may occur more often.
const EXEMPT_NAMES: [&str; 4] = ["mod.rs", "tests.rs", "main.rs", "lib.rs"];

/// Applies the rule to all paths. Each file of a name that occurs too often has a finding.
pub(super) fn check<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<(String, Vec<Finding>)> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths.filter(|path| path.ends_with(".rs")) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !EXEMPT_NAMES.contains(&name) {
            by_name.entry(name).or_default().push(path);
        }
    }
    let too_many = by_name.into_iter().filter(|(_, paths)| paths.len() > SAME_NAME_MAX);
    let findings = too_many.flat_map(|(name, paths)| {
        let sentence = format!("{} files are named {name}, more than {SAME_NAME_MAX}", paths.len());
        paths.into_iter().map(move |path| (path.to_owned(), vec![Finding::new(1, &sentence)]))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_occurs_three_times_but_not_four() {
        let paths = ["a/line.rs", "b/line.rs", "c/line.rs"];
        assert!(check(paths.into_iter()).is_empty());
        let found = check(paths.into_iter().chain(["d/line.rs"]));
        let sentence = "4 files are named line.rs, more than 3";
        assert_eq!(found.len(), 4);
        assert_eq!(found[3], ("d/line.rs".to_owned(), vec![Finding::new(1, sentence)]));
    }

    #[test]
    fn exempt_names_may_occur_any_number_of_times() {
        assert!(check(["a/mod.rs", "b/mod.rs", "c/mod.rs", "d/mod.rs"].into_iter()).is_empty());
    }
}
