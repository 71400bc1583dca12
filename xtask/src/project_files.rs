//! The hand-written files of the project.

use anyhow::{Context, Result};
use std::path::Path;

/// A file of the project: its path relative to the root, with `/`, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads all hand-written files of the project.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    Ok(files)
}

/// Returns the text of the file at `path`; empty if there is no such file.
pub(crate) fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

/// Returns the part of the file's name after the last dot; empty if there is no dot.
pub(crate) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension,
        _ => "",
    }
}

/// Reads the hand-written files under `root`/`directory`.
fn collect(root: &Path, directory: &str, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(directory))
        .with_context(|| format!("cannot read {directory}/"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        let kind = entry.file_type()?;
        if GENERATED_NAMES.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() && HAND_WRITTEN_EXTENSIONS.contains(&extension(&path)) {
            let bytes =
                std::fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

/// Names of generated files and directories; `.git` is a file in a second worktree.
const GENERATED_NAMES: [&str; 4] = [".git", "target", "corpus", "artifacts"];

/// Extensions of hand-written files; those without one are scripts, licenses and settings.
const HAND_WRITTEN_EXTENSIONS: [&str; 9] =
    ["", "rs", "toml", "lock", "md", "sh", "yml", "snap", "txt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_begins_with_its_only_dot_has_no_extension() {
        assert_eq!(extension("a.b/.gitignore"), "");
        assert_eq!(extension("a.b/c.rs"), "rs");
    }
}
