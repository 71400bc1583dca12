//! Access rights of a user, by directory.
//!
//! ```toml
//! rights = "read-only"                       # a word for a usual set
//! rights = ["list", "read", "write"]         # or each right by its name
//! [folders]                                  # of the user, or ftp.folders of anonymous ones
//! "/incoming" = "drop-box"
//! "/secret" = []
//! ```
//!
//! The rights of the nearest directory above a name apply and replace those of the directories
//! above it. Names are those that the user sees: the target of a symbolic link has the rights of
//! the link's location. A directory with rights of its own can be neither renamed nor removed, nor
//! can a directory that contains it, because that would take it out of its rights. Renaming from
//! one directory to another requires the right to delete in the first and to write in the second,
//! and never makes a file readable to a user that could not read it before.
//!
//! A symbolic link from elsewhere into a directory with rights of its own therefore bypasses them;
//! the administrator must not create one. FTP has no command that creates links.

use super::super::folder;
use protocols::application::ftp::server::{FileError, Rights};
use protocols::application::ftp::{Right, VirtualPath};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Names of common sets of rights.
const WORDS: [(&str, Rights); 5] = [
    ("read-only", Rights::READ_ONLY),
    ("write-once", Rights::READ_ONLY.with(Right::Write).with(Right::MakeDirectory)),
    ("writable", Rights::ALL),
    ("no-delete", NO_DELETE),
    ("drop-box", Rights::NONE.with(Right::Write)),
];

/// Existing files remain, under their names.
const NO_DELETE: Rights =
    Rights::ALL.without(Right::Delete).without(Right::Overwrite).without(Right::Rename);

/// Rights in the configuration: the name of a set, or a list of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Said")]
pub(super) struct Granted(pub(super) Rights);

/// Value in the configuration file.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "rights must be a string or a list of strings")]
enum Said {
    Word(String),
    Each(Vec<String>),
}

impl Default for Granted {
    fn default() -> Self {
        Self(Rights::READ_ONLY)
    }
}

impl From<folder::Rights> for Granted {
    fn from(rights: folder::Rights) -> Self {
        let word = match rights {
            folder::Rights::ReadOnly => "read-only",
            folder::Rights::WriteOnce => "write-once",
            folder::Rights::Writable => "writable",
        };
        Self(of_word(word).unwrap_or(Rights::READ_ONLY))
    }
}

impl TryFrom<Said> for Granted {
    type Error = String;

    fn try_from(said: Said) -> Result<Self, String> {
        match said {
            Said::Word(word) => of_word(&word).map(Self).ok_or_else(|| {
                let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
                format!("unknown rights '{word}': use {}, or a list", words.join(", "))
            }),
            Said::Each(names) => {
                let mut rights = Rights::NONE;
                for name in names {
                    // The right to send mail follows from the spool, not from this setting.
                    let right = Right::from_name(&name).filter(|right| *right != Right::Mail);
                    rights = rights.with(right.ok_or_else(|| unknown(&name))?);
                }
                Ok(Self(rights))
            }
        }
    }
}

fn of_word(word: &str) -> Option<Rights> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, rights)| *rights)
}

fn unknown(name: &str) -> String {
    let named = Right::NAMED.iter().filter(|(right, _)| *right != Right::Mail);
    let names: Vec<&str> = named.map(|(_, name)| *name).collect();
    format!("unknown right '{name}': use {}", names.join(", "))
}

/// Returns the rights in the words of the log.
pub(super) fn in_words(rights: Rights) -> Cow<'static, str> {
    match WORDS.iter().find(|(_, known)| *known == rights).map(|(word, _)| *word) {
        Some("read-only") => "read-only".into(),
        Some("write-once") => "write-once".into(),
        Some("writable") => "writable".into(),
        Some(word) => format!("rights {word}").into(),
        None => {
            let held = Right::NAMED.iter().filter(|(right, _)| rights.contains(*right));
            let names: Vec<&str> = held.map(|(_, name)| *name).collect();
            format!("rights {}", names.join(", ")).into()
        }
    }
}

/// Rights to a file or directory, and to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) rights: Rights,
    pub(super) of_name: Rights,
}

/// Rights of a user by directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    everywhere: Rights,
    /// Directories with rights of their own, sorted by decreasing length of the name.
    folders: Vec<(Vec<u8>, Rights)>,
}

impl Access {
    /// Returns the same rights for all directories.
    pub(super) const fn everywhere(rights: Rights) -> Self {
        Self { everywhere: rights, folders: Vec::new() }
    }

    /// Combines general rights and rights of single directories.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory name does not begin with `/`, contains `.` or `..`, or is
    /// listed twice.
    pub(super) fn new(
        everywhere: Granted,
        folders: &BTreeMap<String, Granted>,
    ) -> Result<Self, String> {
        let mut of_folders = Vec::with_capacity(folders.len());
        for (folder, rights) in folders {
            let name = folder.trim_end_matches('/');
            if !folder.starts_with('/') || name.is_empty() || name.contains("//") {
                return Err(format!("invalid directory '{folder}': it must begin with /"));
            }
            if name.split('/').any(|component| matches!(component, "." | "..")) {
                return Err(format!("invalid directory '{folder}': it contains . or .."));
            }
            let name = name.as_bytes().to_vec();
            if of_folders.iter().any(|(known, _)| *known == name) {
                return Err(format!("duplicate directory '{folder}'"));
            }
            of_folders.push((name, rights.0));
        }
        of_folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Ok(Self { everywhere: everywhere.0, folders: of_folders })
    }

    /// Returns the rights with one more right in every directory without rights of its own.
    #[must_use]
    pub(super) const fn with(self, right: Right) -> Self {
        let mut access = self;
        access.everywhere = access.everywhere.with(right);
        access
    }

    /// Returns the union of the rights of all directories.
    pub(super) fn anywhere(&self) -> Rights {
        self.folders.iter().fold(self.everywhere, |all, (_, rights)| all.or(*rights))
    }

    /// Returns whether files may be written in any directory.
    pub(super) fn writes(&self) -> bool {
        let rights = self.anywhere();
        [Right::Write, Right::Overwrite, Right::Append].iter().any(|right| rights.contains(*right))
    }

    /// Returns the directories with rights of their own.
    pub(super) fn folders(&self) -> impl Iterator<Item = &[u8]> {
        self.folders.iter().map(|(folder, _)| folder.as_slice())
    }

    /// Returns the rights to `path`.
    pub(super) fn at(&self, path: &[u8]) -> Rights {
        let holds = |folder: &[u8]| is_in(path, folder);
        let nearest = self.folders.iter().find(|(folder, _)| holds(folder));
        nearest.map_or(self.everywhere, |(_, rights)| *rights)
    }

    /// Returns the rights to `path` and to its name; see [`Self::need_of_name`].
    pub(super) fn with_name(&self, path: &[u8]) -> Held {
        let rights = self.at(path);
        let of_name = if self.keeps(path) { Rights::NONE } else { rights };
        Held { rights, of_name }
    }

    /// Like [`Self::with_name`], for the entry `name` of a directory.
    pub(super) fn within(&self, folder: &[u8], name: &[u8]) -> Held {
        if self.folders.is_empty() {
            return Held { rights: self.everywhere, of_name: self.everywhere };
        }
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        self.with_name(&[folder, b"/", name].concat())
    }

    /// Checks for a right to `path`.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] if the user does not have it.
    pub(super) fn need(&self, right: Right, path: &VirtualPath) -> Result<(), FileError> {
        let rights = match self.folders.is_empty() {
            true => self.everywhere,
            false => self.at(&path.to_bytes()),
        };
        if rights.contains(right) { Ok(()) } else { Err(FileError::Missing(right)) }
    }

    /// Like [`Self::need`], for an operation on the name itself, which is not allowed for a
    /// directory with rights of its own and the directories that contain it.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] if the user does not have the right.
    pub(super) fn need_of_name(&self, right: Right, path: &VirtualPath) -> Result<(), FileError> {
        self.need(right, path)?;
        if self.keeps(&path.to_bytes()) { Err(FileError::Missing(right)) } else { Ok(()) }
    }

    /// Returns whether `name` is, or contains, a directory with rights of its own.
    fn keeps(&self, name: &[u8]) -> bool {
        self.folders.iter().any(|(folder, _)| is_in(folder, name))
    }

    /// Checks whether the rights by directory allow renaming `from` to `to`.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] with the missing right.
    pub(super) fn need_to_rename(
        &self,
        from: &VirtualPath,
        to: &VirtualPath,
    ) -> Result<(), FileError> {
        self.need_of_name(Right::Rename, from)?;
        self.need_of_name(Right::Rename, to)?;
        if from.parent() == to.parent() {
            return Ok(());
        }
        // The file leaves one directory and enters another.
        self.need(Right::Delete, from)?;
        self.need(Right::Write, to)?;
        if self.at(&to.to_bytes()).contains(Right::Read) {
            self.need(Right::Read, from)?;
        }
        Ok(())
    }
}

/// Returns whether `path` is `folder` or lies below it.
fn is_in(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::application::ftp::Name;

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Table {
        rights: Granted,
        #[serde(default)]
        folders: BTreeMap<String, Granted>,
    }

    fn access(text: &str) -> Result<Access, String> {
        let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        Access::new(table.rights, &table.folders)
    }

    fn path(name: &str) -> VirtualPath {
        VirtualPath::root().join(&Name::new(name).unwrap()).unwrap()
    }

    #[test]
    fn the_words_of_old_are_sets_of_rights() {
        let rights = |text: &str| access(&format!("rights = {text}")).unwrap().anywhere();
        assert_eq!(rights("\"read-only\""), rights("[\"list\", \"read\"]"));
        let once = "[\"list\", \"read\", \"write\", \"mkdir\"]";
        assert_eq!(rights("\"write-once\""), rights(once));
        assert_eq!(rights("\"writable\""), Rights::ALL);
        assert_eq!(rights("\"drop-box\""), rights("[\"write\"]"));
        assert_eq!(rights("[]"), Rights::NONE);
    }

    #[test]
    fn what_is_no_right_is_refused_with_those_that_are() {
        let refused = |text: &str| access(&format!("rights = {text}")).unwrap_err();
        assert!(refused("\"wriatble\"").contains("read-only, write-once, writable"));
        assert!(refused("[\"lits\"]").contains("unknown right 'lits': use list, read, write"));
        assert!(refused("7").contains("rights must be a string or a list"));
        assert!(access("rights = []\n[folders]\nincoming = []").is_err());
    }

    #[test]
    fn the_nearest_folder_says_what_may_be_done() {
        let text = "rights = \"read-only\"\n[folders]\n\"/in\" = \"drop-box\"\n\
                    \"/in/ann/\" = \"writable\"\n\"/no\" = []\n";
        let access = access(text).unwrap();
        assert_eq!(access.need(Right::Read, &path("/pub/file")), Ok(()));
        let missing = |right| Err(FileError::Missing(right));
        assert_eq!(access.need(Right::Read, &path("/in/file")), missing(Right::Read));
        assert_eq!(access.need(Right::List, &path("/in")), missing(Right::List));
        assert_eq!(access.need(Right::Write, &path("/in/deep/file")), Ok(()));
        assert_eq!(access.need(Right::Delete, &path("/in/ann/file")), Ok(()));
        assert_eq!(access.need(Right::List, &path("/no")), missing(Right::List));
        assert_eq!(access.need(Right::List, &path("/note")), Ok(()));
        assert_eq!(access.anywhere(), Rights::ALL);
        let drop_box = Rights::NONE.with(Right::Write);
        let within = |folder: &[u8], name: &[u8]| access.within(folder, name).rights;
        assert_eq!((within(b"/", b"in"), within(b"/in", b"x")), (drop_box, drop_box));
        assert_eq!(within(b"/", b"pub"), Rights::READ_ONLY);
    }

    #[test]
    fn a_folder_with_rights_of_its_own_keeps_its_name_and_its_place() {
        let text = "rights = \"writable\"\n[folders]\n\"/a/in\" = \"drop-box\"\n";
        let access = access(text).unwrap();
        for name in ["/a/in", "/a"] {
            let refused = access.need_of_name(Right::Rename, &path(name));
            assert_eq!(refused, Err(FileError::Missing(Right::Rename)), "{name}");
        }
        assert_eq!(access.within(b"/", b"a").of_name, Rights::NONE);
        assert_eq!(access.within(b"/a", b"in").of_name, Rights::NONE);
        assert_eq!(access.within(b"/", b"b").of_name, Rights::ALL);
        assert_eq!(access.need_of_name(Right::Rename, &path("/b")), Ok(()));
        assert_eq!(access.need_of_name(Right::Rename, &path("/a/inner")), Ok(()));
    }

    #[test]
    fn from_folder_to_folder_a_name_takes_what_taking_away_and_writing_take() {
        let text = "rights = \"writable\"\n[folders]\n\"/safe\" = \"no-delete\"\n\
                    \"/keep\" = [\"list\", \"read\", \"rename\", \"write\"]\n\
                    \"/still\" = [\"rename\", \"delete\"]\n\
                    \"/dark\" = [\"write\", \"delete\", \"rename\"]\n";
        let access = access(text).unwrap();
        let asked = |from: &str, to: &str| access.need_to_rename(&path(from), &path(to));
        let missing = |right| Err(FileError::Missing(right));
        assert_eq!(asked("/free/a", "/else/a"), Ok(()));
        assert_eq!(asked("/safe/a", "/free/a"), missing(Right::Rename));
        assert_eq!(asked("/keep/a", "/keep/b"), Ok(()));
        assert_eq!(asked("/keep/a", "/free/a"), missing(Right::Delete));
        assert_eq!(asked("/keep/deep/a", "/keep/a"), missing(Right::Delete));
        assert_eq!(asked("/free/a", "/still/a"), missing(Right::Write));
        assert_eq!(asked("/dark/a", "/free/a"), missing(Right::Read));
        assert_eq!(asked("/free/a", "/dark/a"), Ok(()));
    }

    #[test]
    fn a_folder_of_a_rule_that_nothing_is_called_is_refused() {
        for (folder, why) in [
            ("/a/../in", "contains . or .."),
            ("/./in", "contains . or .."),
            ("/..", "contains . or .."),
            ("/in/", "duplicate directory"),
        ] {
            let text = format!("rights = []\n[folders]\n\"/in\" = []\n\"{folder}\" = []\n");
            let refused = access(&text).unwrap_err();
            assert!(refused.contains(why), "{folder}: {refused}");
        }
        let odd = access("rights = []\n[folders]\n\"/..in\" = []\n");
        assert!(odd.is_ok());
    }

    #[test]
    fn who_may_only_overwrite_writes() {
        assert!(access("rights = [\"overwrite\"]").unwrap().writes());
        assert!(!access("rights = \"read-only\"").unwrap().writes());
    }

    #[test]
    fn a_log_says_rights_in_words() {
        assert_eq!(in_words(Rights::READ_ONLY), "read-only");
        assert_eq!(in_words(Rights::NONE.with(Right::Write)), "rights drop-box");
        let two = Rights::READ_ONLY.with(Right::Delete);
        assert_eq!(in_words(two), "rights list, read, delete");
    }
}
