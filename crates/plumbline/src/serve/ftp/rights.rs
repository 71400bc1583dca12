//! What a user may do with files, and in which folder.
//!
//! ```toml
//! rights = "read-only"                       # a word for a usual set
//! rights = ["list", "read", "write"]         # or each right by its name
//! [folders]                                  # of the user, or ftp.folders of anonymous ones
//! "/incoming" = "drop-box"
//! "/secret" = []
//! ```
//!
//! The nearest folder above a name says what may be done there, and replaces what those above it
//! say. A name is what the user sees: what a link leads to has the rights of where the link stands.
//! A folder that has rights of its own is neither renamed nor removed, nor is one that it is in,
//! which would take it out of its rights. To rename from one folder to another takes the rights to
//! delete there and to write here, and gives nobody to read what he could not.
//!
//! So a link from elsewhere into a folder with rights of its own is a way around them: whoever serves
//! sees to it that there is none. By FTP nobody makes a link.

use super::super::folder;
use protocols::application::ftp::server::{FileError, Rights};
use protocols::application::ftp::{Right, VirtualPath};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The words for usual sets, with what they stand for.
const WORDS: [(&str, Rights); 5] = [
    ("read-only", Rights::READ_ONLY),
    ("write-once", Rights::READ_ONLY.with(Right::Write).with(Right::MakeDirectory)),
    ("writable", Rights::ALL),
    ("no-delete", NO_DELETE),
    ("drop-box", Rights::NONE.with(Right::Write)),
];

/// What is there stays, under its name.
const NO_DELETE: Rights =
    Rights::ALL.without(Right::Delete).without(Right::Overwrite).without(Right::Rename);

/// Rights, as the configuration says them: by a word, or one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Said")]
pub(super) struct Granted(pub(super) Rights);

/// What stands in the file.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "rights are a word, or a list of the names of rights")]
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
                format!("'{word}' are no rights: say {}, or a list", words.join(", "))
            }),
            Said::Each(names) => {
                let mut rights = Rights::NONE;
                for name in names {
                    // Who has a mailbox may be sent mail: that is said of the spool.
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
    format!("'{name}' is no right: there are {}", names.join(", "))
}

/// Returns rights as a log has them.
pub(super) fn in_words(rights: Rights) -> Cow<'static, str> {
    match WORDS.iter().find(|(_, known)| *known == rights).map(|(word, _)| *word) {
        Some("read-only") => "to be read".into(),
        Some("write-once") => "to be read, and written once".into(),
        Some("writable") => "to be read and written".into(),
        Some(word) => format!("with the rights {word}").into(),
        None => {
            let held = Right::NAMED.iter().filter(|(right, _)| rights.contains(*right));
            let names: Vec<&str> = held.map(|(_, name)| *name).collect();
            format!("with the rights {}", names.join(", ")).into()
        }
    }
}

/// What may be done with a file or a folder, and with the name that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) rights: Rights,
    pub(super) of_name: Rights,
}

/// What a user may in each folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    everywhere: Rights,
    /// Folders that have rights of their own, the longest names first.
    folders: Vec<(Vec<u8>, Rights)>,
}

impl Access {
    /// The same everywhere.
    pub(super) const fn everywhere(rights: Rights) -> Self {
        Self { everywhere: rights, folders: Vec::new() }
    }

    /// Puts together what is said of all and of single folders.
    ///
    /// # Errors
    ///
    /// If a folder's name does not begin with `/`, leads through `.` or `..`, or is said twice.
    pub(super) fn new(
        everywhere: Granted,
        folders: &BTreeMap<String, Granted>,
    ) -> Result<Self, String> {
        let mut of_folders = Vec::with_capacity(folders.len());
        for (folder, rights) in folders {
            let name = folder.trim_end_matches('/');
            if !folder.starts_with('/') || name.is_empty() || name.contains("//") {
                return Err(format!("'{folder}' is no folder below the root: it begins with /"));
            }
            if name.split('/').any(|component| matches!(component, "." | "..")) {
                return Err(format!("'{folder}' leads through . or ..: say where it leads to"));
            }
            let name = name.as_bytes().to_vec();
            if of_folders.iter().any(|(known, _)| *known == name) {
                return Err(format!("'{folder}' is said twice"));
            }
            of_folders.push((name, rights.0));
        }
        of_folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Ok(Self { everywhere: everywhere.0, folders: of_folders })
    }

    /// Returns it with one more right everywhere.
    #[must_use]
    pub(super) const fn with(self, right: Right) -> Self {
        let mut access = self;
        access.everywhere = access.everywhere.with(right);
        access
    }

    /// Returns what may be done anywhere.
    pub(super) fn anywhere(&self) -> Rights {
        self.folders.iter().fold(self.everywhere, |all, (_, rights)| all.or(*rights))
    }

    /// Returns whether files may come in anywhere.
    pub(super) fn writes(&self) -> bool {
        let rights = self.anywhere();
        [Right::Write, Right::Overwrite, Right::Append].iter().any(|right| rights.contains(*right))
    }

    /// Returns the folders that have rights of their own.
    pub(super) fn folders(&self) -> impl Iterator<Item = &[u8]> {
        self.folders.iter().map(|(folder, _)| folder.as_slice())
    }

    /// Returns what may be done with what is called `path`.
    pub(super) fn at(&self, path: &[u8]) -> Rights {
        let holds = |folder: &[u8]| is_in(path, folder);
        let nearest = self.folders.iter().find(|(folder, _)| holds(folder));
        nearest.map_or(self.everywhere, |(_, rights)| *rights)
    }

    /// Returns what may be done with what is called `path`, and with its name: see
    /// [`Self::need_of_name`].
    pub(super) fn with_name(&self, path: &[u8]) -> Held {
        let rights = self.at(path);
        let of_name = if self.keeps(path) { Rights::NONE } else { rights };
        Held { rights, of_name }
    }

    /// As [`Self::with_name`], of what is called `name` in a folder.
    pub(super) fn within(&self, folder: &[u8], name: &[u8]) -> Held {
        if self.folders.is_empty() {
            return Held { rights: self.everywhere, of_name: self.everywhere };
        }
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        self.with_name(&[folder, b"/", name].concat())
    }

    /// Looks whether `right` is there for what is called `path`.
    ///
    /// # Errors
    ///
    /// [`FileError::Missing`] if it is not.
    pub(super) fn need(&self, right: Right, path: &VirtualPath) -> Result<(), FileError> {
        let rights = match self.folders.is_empty() {
            true => self.everywhere,
            false => self.at(&path.to_bytes()),
        };
        if rights.contains(right) { Ok(()) } else { Err(FileError::Missing(right)) }
    }

    /// As [`Self::need`], of what is done to the name itself, which a folder with rights of its own
    /// and those that it is in keep.
    ///
    /// # Errors
    ///
    /// [`FileError::Missing`] if it is not.
    pub(super) fn need_of_name(&self, right: Right, path: &VirtualPath) -> Result<(), FileError> {
        self.need(right, path)?;
        if self.keeps(&path.to_bytes()) { Err(FileError::Missing(right)) } else { Ok(()) }
    }

    /// Returns whether a folder with rights of its own has this name, or is in what has it.
    fn keeps(&self, name: &[u8]) -> bool {
        self.folders.iter().any(|(folder, _)| is_in(folder, name))
    }

    /// Looks whether what is called `from` may be called `to`, as far as rights go by folder.
    ///
    /// # Errors
    ///
    /// [`FileError::Missing`] with the right that is not there.
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
        // It goes from one folder, and comes into another.
        self.need(Right::Delete, from)?;
        self.need(Right::Write, to)?;
        if self.at(&to.to_bytes()).contains(Right::Read) {
            self.need(Right::Read, from)?;
        }
        Ok(())
    }
}

/// Returns whether `path` is `folder`, or in it.
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
        assert!(refused("[\"lits\"]").contains("'lits' is no right: there are list, read, write"));
        assert!(refused("7").contains("rights are a word, or a list"));
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
            ("/a/../in", "leads through"),
            ("/./in", "leads through"),
            ("/..", "leads through"),
            ("/in/", "is said twice"),
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
        assert_eq!(in_words(Rights::READ_ONLY), "to be read");
        assert_eq!(in_words(Rights::NONE.with(Right::Write)), "with the rights drop-box");
        let two = Rights::READ_ONLY.with(Right::Delete);
        assert_eq!(in_words(two), "with the rights list, read, delete");
    }
}
