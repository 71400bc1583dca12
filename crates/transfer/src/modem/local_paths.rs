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

/// Completion of a partial path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathCompletion {
    /// Text to append to the path.
    pub addition: String,
    /// Names that match, if the path stays ambiguous.
    pub names: Vec<String>,
}

/// Completes the last component of a path whose beginning is `word`, as a shell does. Names that
/// cannot be typed unchanged are ignored.
#[must_use]
pub fn complete_path(word: &str) -> PathCompletion {
    complete_with(word, std::env::var_os("HOME"))
}

fn complete_with(word: &str, home: Option<OsString>) -> PathCompletion {
    let (parent, start) = word
        .rsplit_once('/')
        .map_or(("", word), |(_, start)| (word.strip_suffix(start).unwrap_or_default(), start));
    let directory = match with_home(parent, home) {
        Ok(directory) if directory.as_os_str().is_empty() => PathBuf::from("."),
        Ok(directory) => directory,
        Err(_) => return PathCompletion::default(),
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MATCHES_MAX);
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            let is_typed =
                !name.contains(|it: char| it.is_whitespace() || it.is_control() || it == '"');
            let end = if entry.path().is_dir() { "/" } else { " " };
            (name.starts_with(start) && !is_hidden && is_typed).then(|| name + end)
        })
        .collect();
    names.sort();
    let common = names.iter().skip(1).fold(names.first().cloned(), |common, name| {
        let pairs = common.as_deref().unwrap_or_default().chars().zip(name.chars());
        Some(pairs.take_while(|(one, other)| one == other).map(|(one, _)| one).collect())
    });
    let common = common.unwrap_or_default();
    let addition = common.strip_prefix(start).unwrap_or_default().to_owned();
    let is_ambiguous = addition.is_empty() && names.len() > 1;
    PathCompletion { addition, names: if is_ambiguous { names } else { Vec::new() } }
}

/// Replaces a leading `~` by the home directory.
fn with_home(word: &str, home: Option<OsString>) -> Result<PathBuf, String> {
    Ok(match word.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = home.filter(|home| !home.is_empty());
            let home = home.ok_or("Cannot expand ~: HOME is not set.")?;
            PathBuf::from(home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(word),
    })
}

fn expand_with(word: &str, home: Option<OsString>) -> Result<Vec<PathBuf>, String> {
    let path = with_home(word, home)?;
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
    fn a_path_is_completed_up_to_the_first_difference() {
        let home = std::env::temp_dir().join(format!("plumb-complete-{}", std::process::id()));
        fs::create_dir_all(home.join("pictures")).unwrap();
        for name in ["pictures/owl-1.gif", "pictures/owl-2.gif", "pictures/.hidden", "notes.txt"] {
            fs::write(home.join(name), b"").unwrap();
        }
        let complete = |word: &str| {
            let completion = complete_with(word, Some(home.clone().into_os_string()));
            (completion.addition, completion.names)
        };
        let addition = |text: &str| (text.to_owned(), vec![]);
        assert_eq!(complete("~/pic"), addition("tures/"));
        assert_eq!(complete("~/pictures/o"), addition("wl-"));
        let names = ["owl-1.gif ", "owl-2.gif "].map(str::to_owned).to_vec();
        assert_eq!(complete("~/pictures/owl-"), (String::new(), names));
        assert_eq!(complete("~/pictures/owl-2"), addition(".gif "));
        assert_eq!(complete("~/pictures/.h"), addition("idden "));
        assert_eq!(complete("~/nothing"), addition(""));
        assert_eq!(complete(&format!("{}/no", home.display())), addition("tes.txt "));
        fs::remove_dir_all(home).unwrap();
    }

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
