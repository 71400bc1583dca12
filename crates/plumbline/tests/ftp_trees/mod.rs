//! A tree of files and directories that the tested clients copy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns `len` bytes of numbered lines, which compress well.
pub(crate) fn text(len: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|line| format!("line {line} of a text\n").into_bytes());
    lines.take(len).collect()
}

/// Returns `len` bytes that do not compress, always the same for one length.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = len as u64 | 1;
    let next = || {
        // Xorshift, from Marsaglia, "Xorshift RNGs" (2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Returns the content of each file of the tree, by its path relative to the root.
fn files() -> BTreeMap<String, Vec<u8>> {
    let files = [
        ("a text", text(100_000)),
        ("empty", Vec::new()),
        ("deep/noise", noise(70_000)),
        ("deep/deeper/line", b"one line\n".to_vec()),
    ];
    files.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

/// Creates the tree at `root`.
pub(crate) fn make_tree(root: &Path) {
    for (name, bytes) in files() {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}

/// Checks that the tree at `root` has exactly the files of [`make_tree`].
pub(crate) fn check_tree(root: &Path) {
    let mut found_files = BTreeMap::new();
    collect(root, "", &mut found_files);
    // A client (wget) may leave its listings in the directory.
    found_files.retain(|name, _| !name.ends_with(".listing"));
    let expected_files = files();
    assert!(found_files.keys().eq(expected_files.keys()), "{:?}", found_files.keys());
    for (name, bytes) in expected_files {
        assert!(found_files.get(&name) == Some(&bytes), "{name} has other bytes");
    }
}

fn collect(root: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}
