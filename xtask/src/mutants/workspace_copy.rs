//! A copy of the workspace whose crate contains the mutants.
//!
//! A mutant is inserted as `if crate::mutation_switch::is_active(N) { fault } else { original }`, so
//! that one build contains all of them. The copied crate has one more module, which reads the number
//! of the active mutant from the environment.

use super::mutant::{Mutant, Mutants, insert};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable with the number of the active mutant.
pub(super) const ACTIVE: &str = "PLUMB_MUTANT";
/// Variable with the path of the file to which the numbers of the reached mutants are appended.
pub(super) const REACHED: &str = "PLUMB_MUTANT_REACHED";

/// Directory of the copy into which cargo builds.
const TARGET: &str = "target";

/// The copy.
#[derive(Debug)]
pub(super) struct WorkspaceCopy {
    pub(super) root: PathBuf,
    /// Original texts of the files that contain mutants, by path.
    originals: BTreeMap<String, String>,
}

impl WorkspaceCopy {
    /// Returns the directory into which cargo builds.
    pub(super) fn target(&self) -> PathBuf {
        self.root.join(TARGET)
    }

    /// Returns the directory for temporary files of the tests.
    pub(super) fn temporary_directory(&self) -> PathBuf {
        self.target().join("tmp")
    }

    /// Copies the sources of the workspace at `from` to `root`, where an earlier copy may exist.
    ///
    /// `crates` are the directories of the crates with `mutants`.
    pub(super) fn create(
        from: &Path,
        root: PathBuf,
        crates: BTreeSet<&str>,
        mutants: &Mutants,
    ) -> Result<Self> {
        let libraries: Vec<_> = crates.iter().map(|it| format!("{it}/src/lib.rs")).collect();
        let mut originals = BTreeMap::new();
        let mut paths = source_paths(from)?;
        for path in &paths {
            let mut bytes =
                std::fs::read(from.join(path)).with_context(|| format!("cannot read {path}"))?;
            if mutants.values().any(|mutant| mutant.path == *path) {
                let text =
                    String::from_utf8(bytes).with_context(|| format!("{path} is no text"))?;
                originals.insert(path.clone(), text);
                continue;
            }
            if libraries.contains(path) {
                bytes.extend_from_slice(b"\n#[allow(missing_docs)]\npub mod mutation_switch;\n");
            }
            write_if_changed(&root.join(path), &bytes)?;
        }
        let limit = mutants.keys().max().map_or(0, |id| id + 1);
        for directory in crates {
            let path = format!("{directory}/src/mutation_switch.rs");
            let text = SWITCH_MODULE.replace("MUTANTS", &limit.to_string());
            write_if_changed(&root.join(&path), text.as_bytes())?;
            paths.push(path);
        }
        remove_others(&root, &root, &paths)?;
        std::fs::create_dir_all(root.join(TARGET).join("tmp"))?;
        Ok(Self { root, originals })
    }

    /// Writes the files that contain mutants.
    pub(super) fn write_mutants(&self, mutants: &Mutants) -> Result<()> {
        for (path, text) in &self.originals {
            let here = mutants.iter().filter(|(_, mutant)| mutant.path == *path);
            let here: Vec<(usize, &Mutant)> = here.map(|(id, mutant)| (*id, mutant)).collect();
            write_if_changed(&self.root.join(path), insert(text, &here).as_bytes())?;
        }
        Ok(())
    }
}

/// Source of the module `mutation_switch`. It works in crates without the standard library too.
const SWITCH_MODULE: &str = r#"//! The active mutant.
extern crate std;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io::Write;

const UNREAD: usize = usize::MAX;
const REPORTS: usize = usize::MAX - 1;
static ACTIVE: AtomicUsize = AtomicUsize::new(UNREAD);
static REACHED: [AtomicBool; MUTANTS] = [const { AtomicBool::new(false) }; MUTANTS];

pub fn is_active(id: usize) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    active == id || (active >= REPORTS && is_active_slow(id))
}

#[cold]
fn is_active_slow(id: usize) -> bool {
    if ACTIVE.load(Ordering::Relaxed) == UNREAD {
        let number = std::env::var("PLUMB_MUTANT").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
        let reports = std::env::var_os("PLUMB_MUTANT_REACHED").is_some();
        ACTIVE.store(if reports { REPORTS } else { number }, Ordering::Relaxed);
        return is_active(id);
    }
    if !REACHED[id].swap(true, Ordering::Relaxed) {
        let path = std::env::var_os("PLUMB_MUTANT_REACHED").unwrap();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(std::format!("{id}\n").as_bytes()).unwrap();
    }
    false
}
"#;

/// Returns the paths of all files that git tracks or would track.
fn source_paths(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.split('\0').filter(|path| root.join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// Writes a file if its content differs, so that cargo compiles only what changed.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the Rust files below `directory` that are not among `paths`. Build scripts have written
/// those in the target directory, which cargo does not restore.
fn remove_others(root: &Path, directory: &Path, paths: &[String]) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if path != root.join(TARGET) {
                remove_others(root, &path, paths)?;
            }
            continue;
        }
        let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
        if relative.ends_with(".rs") && !paths.contains(&relative) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_sources_of_the_workspace_that_no_longer_exist_are_removed() {
        let name = format!("plumb-workspace-copy-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let generated = root.join("target/debug/build/out");
        fs::create_dir_all(&generated).unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        let files = ["target/debug/build/out/private.rs", "src/kept.rs", "src/old.rs", "src/text"];
        for file in files {
            fs::write(root.join(file), "").unwrap();
        }
        remove_others(&root, &root, &["src/kept.rs".to_owned()]).unwrap();
        let present: Vec<_> = files.into_iter().filter(|file| root.join(file).exists()).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(present, ["target/debug/build/out/private.rs", "src/kept.rs", "src/text"]);
    }
}
