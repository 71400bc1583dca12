//! Plan of a mirror: the changes that make a directory on one host equal to a directory on the other.
//!
//! A file is transferred if it does not exist at the destination, if its size differs, or if the
//! source is newer. Names that exist only at the destination are deleted if deletions are allowed.
//! Links, devices and left-out names are left alone on both hosts.

use protocols::ftp::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A device, or a symbolic link, whose target may be outside the directory.
    Other,
}

/// Properties of one name on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// Time of the last modification, if known.
    pub modified: Option<Timestamp>,
}

impl EntryInfo {
    /// Returns whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }
}

/// Entries by their names, which are relative to the mirrored directory.
pub type Tree = BTreeMap<Vec<u8>, EntryInfo>;
/// Names relative to the mirrored directory.
pub type Names = BTreeSet<Vec<u8>>;

/// Content of the mirrored directory on one host.
#[derive(Debug, Default)]
pub struct MirrorSide {
    /// Entries to mirror.
    pub tree: Tree,
    /// Names that exist but are not in `tree`, and are left alone on both hosts.
    pub left_out: Names,
}

impl MirrorSide {
    /// Keeps the selected names in `tree`, and moves the other names to `left_out`.
    pub fn retain(&mut self, mut is_selected: impl FnMut(&[u8], &EntryInfo) -> bool) {
        let left_out = &mut self.left_out;
        self.tree.retain(|name, info| {
            let is_kept = is_selected(name, info);
            if !is_kept {
                left_out.insert(name.clone());
            }
            is_kept
        });
    }

    /// Returns the names of links and devices.
    pub fn links_and_devices(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.tree.iter().filter(|(_, info)| info.kind == EntryKind::Other).map(|(name, _)| name)
    }
}

/// Changes to make at the destination, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MirrorPlan {
    /// Names to delete, each with `true` for a directory; the content of a directory precedes it.
    pub deleted: Vec<(Vec<u8>, bool)>,
    /// Directories to create.
    pub directories: Vec<Vec<u8>>,
    /// Files to transfer.
    pub files: Vec<Vec<u8>>,
    /// Names that are a directory on one host and not on the other host. Neither host's entry is
    /// changed.
    pub kind_conflicts: Vec<Vec<u8>>,
}

/// Changes that are permitted at the destination.
#[derive(Clone, Copy, Debug)]
pub struct AllowedChanges {
    /// Whether names that the source does not have are deleted.
    pub deletes: bool,
    /// Whether directories are deleted too.
    pub deletes_directories: bool,
    /// Whether files of different sizes differ.
    pub compares_sizes: bool,
}

/// Returns all parent directories of a name, the nearest last.
fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

/// Returns the changes that make `to` equal to `from`.
pub fn plan(from: &MirrorSide, to: &MirrorSide, allowed: AllowedChanges) -> MirrorPlan {
    let mut plan = MirrorPlan::default();
    let left_alone =
        [from, to].into_iter().flat_map(|side| side.links_and_devices().chain(&side.left_out));
    let left_alone: BTreeSet<&[u8]> = left_alone.map(Vec::as_slice).collect();
    // Names below the name of a link are left alone like the link itself.
    let is_left_alone = |name: &[u8]| {
        left_alone.contains(name) || ancestors(name).any(|name| left_alone.contains(name))
    };
    // A directory that contains a name to leave alone is not deleted.
    let kept_names = to.left_out.iter().chain(to.tree.keys().filter(|name| is_left_alone(name)));
    let parents_of_kept: BTreeSet<&[u8]> = kept_names.flat_map(|name| ancestors(name)).collect();
    let is_deleted = |name: &[u8], target: &EntryInfo| {
        let may_be_deleted = !target.is_directory()
            || allowed.deletes_directories && !parents_of_kept.contains(name);
        allowed.deletes && may_be_deleted && !is_left_alone(name)
    };
    let mut blocked_directories = BTreeSet::new();
    for (name, source) in from.tree.iter().filter(|(name, _)| !is_left_alone(name)) {
        let target = to.tree.get(name);
        let has_other_kind = target.is_some_and(|target| target.kind != source.kind);
        if ancestors(name).any(|directory| blocked_directories.contains(directory)) {
            continue;
        }
        if has_other_kind && !target.is_some_and(|target| is_deleted(name, target)) {
            // The destination has a file with the name of a directory, or a directory with the name
            // of a file. The entry at the destination stays, because it may not be deleted.
            plan.kind_conflicts.push(name.clone());
            blocked_directories.insert(name.as_slice());
            continue;
        }
        match (source.is_directory(), target.filter(|_| !has_other_kind)) {
            (true, Some(_)) => {}
            (true, None) => plan.directories.push(name.clone()),
            (false, Some(target)) if !is_newer(source, target, allowed.compares_sizes) => {}
            (false, _) => plan.files.push(name.clone()),
        }
    }
    let is_missing_at_source = |name: &[u8], target: &EntryInfo| {
        from.tree.get(name).is_none_or(|source| source.kind != target.kind)
    };
    // The content of a directory is deleted before the directory.
    let candidates = to.tree.iter().rev();
    let candidates = candidates
        .filter(|(name, target)| is_missing_at_source(name, target) && is_deleted(name, target));
    plan.deleted = candidates.map(|(name, target)| (name.clone(), target.is_directory())).collect();
    plan
}

fn is_newer(from: &EntryInfo, to: &EntryInfo, compares_sizes: bool) -> bool {
    let differs = compares_sizes && (from.size.is_none() || from.size != to.size);
    let newer = from.modified.zip(to.modified).is_none_or(|(from, to)| from.seconds > to.seconds);
    differs || newer
}

/// Removes from the plan the directories that receive no file.
pub fn leave_out_empty(plan: &mut MirrorPlan) {
    let files = &plan.files;
    let is_below = |name: &[u8], directory: &[u8]| {
        name.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
    };
    plan.directories.retain(|directory| files.iter().any(|name| is_below(name, directory)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETES: AllowedChanges =
        AllowedChanges { deletes: true, deletes_directories: true, compares_sizes: true };
    const ADDS: AllowedChanges = AllowedChanges { deletes: false, ..DELETES };

    /// Returns one side of a mirror with the given names, sizes and times. Size 0 means a
    /// directory, and a name that ends with `@` is a link.
    fn side(names: &[(&str, u64, i64)]) -> MirrorSide {
        let info = |(name, size, seconds): &(&str, u64, i64)| {
            let kind = match (name.strip_suffix('@'), size) {
                (Some(_), _) => EntryKind::Other,
                (None, 0) => EntryKind::Directory,
                (None, _) => EntryKind::File,
            };
            let modified = Some(Timestamp { seconds: *seconds, nanos: 0 });
            let name = name.trim_end_matches('@').as_bytes().to_vec();
            (name, EntryInfo { kind, size: Some(*size), modified })
        };
        MirrorSide { tree: names.iter().map(info).collect(), left_out: Names::new() }
    }

    fn deleted(plan: &MirrorPlan) -> Vec<String> {
        let text = |(name, _): &(Vec<u8>, bool)| String::from_utf8(name.clone()).unwrap();
        plan.deleted.iter().map(text).collect()
    }

    #[test]
    fn new_newer_and_differently_sized_files_are_transferred() {
        let from = side(&[("d", 0, 1), ("d/a", 1, 5), ("d/b", 2, 5), ("d/c", 3, 5), ("e", 4, 5)]);
        let to = side(&[("d", 0, 1), ("d/a", 1, 4), ("d/b", 1, 9), ("d/c", 3, 9)]);
        let plan = plan(&from, &to, ADDS);
        assert_eq!(plan.files, [b"d/a".to_vec(), b"d/b".to_vec(), b"e".to_vec()]);
        assert!(plan.deleted.is_empty() && plan.directories.is_empty());
    }

    #[test]
    fn extra_names_are_deleted_bottom_up_if_deletion_is_enabled() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        assert!(plan(&MirrorSide::default(), &to, ADDS).deleted.is_empty());
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, DELETES)), ["x/y", "x"]);
    }

    #[test]
    fn the_counterpart_of_a_link_is_kept_with_its_content() {
        let from = side(&[("d@", 1, 1), ("f@", 1, 1), ("g", 1, 1), ("h", 0, 1), ("h/i", 1, 1)]);
        let to = side(&[("d", 0, 1), ("d/x", 1, 1), ("f", 1, 1), ("g@", 1, 0), ("h@", 1, 0)]);
        assert_eq!(plan(&from, &to, DELETES), MirrorPlan::default());
    }

    #[test]
    fn directories_with_excluded_names_or_links_are_kept() {
        let mut to =
            side(&[("d", 0, 1), ("d/e", 0, 1), ("d/f", 1, 1), ("g", 0, 1), ("g/l@", 1, 1)]);
        to.left_out.insert(b"d/e/x.o".to_vec());
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, DELETES)), ["d/f"]);
    }

    #[test]
    fn a_file_does_not_replace_a_directory_that_is_kept() {
        let from = side(&[("d", 1, 1)]);
        let mut to = side(&[("d", 0, 1), ("d/y", 1, 1)]);
        to.left_out.insert(b"d/x.o".to_vec());
        let plan = plan(&from, &to, DELETES);
        assert_eq!(
            (deleted(&plan), &plan.kind_conflicts),
            (vec!["d/y".to_owned()], &vec![b"d".to_vec()])
        );
        assert!(plan.files.is_empty());
    }

    #[test]
    fn no_directory_is_deleted_if_the_rules_select_files() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        let allowed = AllowedChanges { deletes_directories: false, ..DELETES };
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, allowed)), ["x/y"]);
    }
}
