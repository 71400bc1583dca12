//! Local paths of the command `send`: the home directory and file name patterns, as in a shell.

use protocols::ftp::listing::Pattern;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of files that a pattern matches. Our choice.
const MATCHES_MAX: usize = 1000;

/// Replaces a leading `~` by the home directory, and a pattern in the last component by the matching
/// files, sorted by name. A pattern that is the name of a file stands for this file.
///
/// # Errors
///
/// Returns a sentence if the home directory is unknown, or if no file or too many files match.
pub(super) fn expand(word: &str) -> Result<Vec<PathBuf>, String> {
    expand_with(word, std::env::var_os("HOME"))
}

fn expand_with(word: &str, home: Option<OsString>) -> Result<Vec<PathBuf>, String> {
    let path = match word.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = home.filter(|home| !home.is_empty());
            let home = home.ok_or("Cannot expand ~: HOME is not set.")?;
            PathBuf::from(home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(word),
    };
    let pattern = path.file_name().and_then(|name| Pattern::parse(name.as_bytes()));
    let Some(pattern) = pattern.filter(|_| path.symlink_metadata().is_err()) else {
        return Ok(vec![path]);
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("Cannot list {}: {error}.", directory.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut matching: Vec<_> = names
        .filter(|name| pattern.matches(name.as_bytes()))
        .map(|name| parent.join(name))
        .filter(|path| path.is_file())
        .take(MATCHES_MAX + 1)
        .collect();
    matching.sort();
    match matching.len() {
        0 => Err(format!("No file matches '{}'.", word.escape_debug())),
        1..=MATCHES_MAX => Ok(matching),
        _ => Err(format!("More than {MATCHES_MAX} files match '{}'.", word.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_and_patterns_are_expanded() {
        let home = std::env::temp_dir().join(format!("plumb-send-{}", std::process::id()));
        fs::create_dir_all(home.join("sub")).unwrap();
        for name in ["b.txt", "a.txt", ".txt", "c.zip", "odd[1]"] {
            fs::write(home.join(name), b"").unwrap();
        }
        let expanded = |word: &str| {
            let paths = expand_with(word, Some(home.clone().into_os_string()))?;
            let names = paths.iter().map(|path| path.strip_prefix(&home).unwrap().to_owned());
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        let paths = |names: &[&str]| Ok(names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(expanded("~/*.txt"), paths(&["a.txt", "b.txt"]));
        assert_eq!(expanded("~/s*").unwrap_err(), "No file matches '~/s*'.", "a directory");
        assert_eq!(expanded("~/new*.gif").unwrap_err(), "No file matches '~/new*.gif'.");
        assert_eq!(expanded("~/odd[1]"), paths(&["odd[1]"]));
        assert_eq!(expanded("~"), paths(&[""]));
        assert_eq!(expand_with("~", None).unwrap_err(), "Cannot expand ~: HOME is not set.");
        assert_eq!(expand_with("a~b", None), Ok(vec![PathBuf::from("a~b")]));
        fs::remove_dir_all(home).unwrap();
    }
}
