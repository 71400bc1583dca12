//! Access rights of a user, by directory.
//!
//! ```toml
//! rights = "read-only"                       # the name of a set
//! rights = ["list", "read", "write"]         # or each right by its name
//! [folders]                                  # for anonymous users: [ftp.folders]
//! "/incoming" = "drop-box"
//! "/secret" = []
//! ```
//!
//! For a name, the rights of the nearest directory above it apply; the rights of higher directories
//! do not. A directory with rights of its own cannot be renamed or removed, because it would lose
//! these rights. For the same reason, a directory that contains it cannot be renamed or removed.
//! Renaming a file into another directory requires the right to delete in the old directory and
//! the right to write in the new one. A user that could not read a file before a rename cannot read
//! it afterwards either.
//!
//! Names are those that the user sees: the target of a symbolic link has the rights of the link's
//! location. A link from another directory into a directory with rights of its own therefore
//! bypasses these rights. The administrator must not create such a link; FTP has no command that
//! creates links.

use super::super::root;
use protocols::ftp::server::{FileError, Rights};
use protocols::ftp::{Right, VirtualPath};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Names of common sets of rights.
const NAMED_SETS: [(&str, Rights); 5] = [
    ("read-only", Rights::READ_ONLY),
    ("write-once", Rights::READ_ONLY.with(Right::Write).with(Right::MakeDirectory)),
    ("writable", Rights::ALL),
    ("no-delete", NO_DELETE),
    ("drop-box", Rights::NONE.with(Right::Write)),
];

/// Rights under which existing files are neither deleted, overwritten nor renamed.
const NO_DELETE: Rights =
    Rights::ALL.without(Right::Delete).without(Right::Overwrite).without(Right::Rename);

/// Rights in the configuration: the name of a set, or a list of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "RightsValue", into = "RightsValue")]
pub(super) struct ConfiguredRights(pub(super) Rights);

/// Value of `rights` in the configuration file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "rights must be a string or a list of strings")]
enum RightsValue {
    Set(String),
    List(Vec<String>),
}

impl Default for ConfiguredRights {
    fn default() -> Self {
        Self(Rights::READ_ONLY)
    }
}

impl From<root::Rights> for ConfiguredRights {
    fn from(rights: root::Rights) -> Self {
        let name = match rights {
            root::Rights::ReadOnly => "read-only",
            root::Rights::WriteOnce => "write-once",
            root::Rights::Writable => "writable",
        };
        Self(named_set(name).unwrap_or(Rights::READ_ONLY))
    }
}

impl TryFrom<RightsValue> for ConfiguredRights {
    type Error = String;

    fn try_from(value: RightsValue) -> Result<Self, String> {
        match value {
            RightsValue::Set(name) => named_set(&name).map(Self).ok_or_else(|| {
                let sets: Vec<&str> = NAMED_SETS.iter().map(|(set, _)| *set).collect();
                format!("unknown rights '{name}': use {}, or a list", sets.join(", "))
            }),
            RightsValue::List(names) => {
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

impl From<ConfiguredRights> for RightsValue {
    fn from(ConfiguredRights(rights): ConfiguredRights) -> Self {
        match NAMED_SETS.iter().find(|(_, known)| *known == rights) {
            Some((name, _)) => Self::Set((*name).to_owned()),
            None => {
                let granted = Right::NAMED.iter().filter(|(right, _)| rights.contains(*right));
                Self::List(granted.map(|(_, name)| (*name).to_owned()).collect())
            }
        }
    }
}

fn named_set(name: &str) -> Option<Rights> {
    NAMED_SETS.iter().find(|(known, _)| *known == name).map(|(_, rights)| *rights)
}

fn unknown(name: &str) -> String {
    let in_configuration = Right::NAMED.iter().filter(|(right, _)| *right != Right::Mail);
    let names: Vec<&str> = in_configuration.map(|(_, name)| *name).collect();
    format!("unknown right '{name}': use {}", names.join(", "))
}

/// Describes the rights for the log.
pub(super) fn describe(rights: Rights) -> Cow<'static, str> {
    match NAMED_SETS.iter().find(|(_, known)| *known == rights).map(|(name, _)| *name) {
        Some("read-only") => "read-only".into(),
        Some("write-once") => "write-once".into(),
        Some("writable") => "writable".into(),
        Some(name) => format!("rights {name}").into(),
        None => {
            let granted_rights = Right::NAMED.iter().filter(|(right, _)| rights.contains(*right));
            let names: Vec<&str> = granted_rights.map(|(_, name)| *name).collect();
            format!("rights {}", names.join(", ")).into()
        }
    }
}

/// Rights to a file or directory, and to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathRights {
    pub(super) rights: Rights,
    pub(super) name_rights: Rights,
}

/// Rights of a user by directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    everywhere: Rights,
    /// Directories with rights of their own, sorted by decreasing length of the name.
    directories: Vec<(Vec<u8>, Rights)>,
}

impl Access {
    /// Creates an access with the same rights in all directories.
    pub(super) const fn everywhere(rights: Rights) -> Self {
        Self { everywhere: rights, directories: Vec::new() }
    }

    /// Combines general rights and rights of single directories.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory name does not begin with `/`, has no component, or has an
    /// empty component, or the component `.` or `..`. Also returns an error if a directory is
    /// listed twice.
    pub(super) fn new(
        everywhere: ConfiguredRights,
        directories: &BTreeMap<String, ConfiguredRights>,
    ) -> Result<Self, String> {
        let mut sorted = Vec::with_capacity(directories.len());
        for (directory, rights) in directories {
            let name = directory.trim_end_matches('/');
            if !directory.starts_with('/') || name.is_empty() || name.contains("//") {
                return Err(format!(
                    "invalid directory '{directory}': specify / and the names of directories below \
                     the root, separated by single slashes"
                ));
            }
            if name.split('/').any(|component| matches!(component, "." | "..")) {
                return Err(format!("invalid directory '{directory}': it contains . or .."));
            }
            let name = name.as_bytes().to_vec();
            if sorted.iter().any(|(known, _)| *known == name) {
                return Err(format!("duplicate directory '{directory}'"));
            }
            sorted.push((name, rights.0));
        }
        sorted.sort_by_key(|(directory, _)| std::cmp::Reverse(directory.len()));
        Ok(Self { everywhere: everywhere.0, directories: sorted })
    }

    /// Adds `right` in every directory without rights of its own.
    #[must_use]
    pub(super) const fn with_right(self, right: Right) -> Self {
        let mut access = self;
        access.everywhere = access.everywhere.with(right);
        access
    }

    /// Returns the union of the rights of all directories.
    pub(super) fn rights_anywhere(&self) -> Rights {
        self.directories.iter().fold(self.everywhere, |all, (_, rights)| all.or(*rights))
    }

    /// Returns whether files may be written in any directory.
    pub(super) fn may_write_anywhere(&self) -> bool {
        let rights = self.rights_anywhere();
        [Right::Write, Right::Overwrite, Right::Append].iter().any(|right| rights.contains(*right))
    }

    /// Returns the directories with rights of their own.
    pub(super) fn directories(&self) -> impl Iterator<Item = &[u8]> {
        self.directories.iter().map(|(directory, _)| directory.as_slice())
    }

    /// Returns the rights to `path`.
    pub(super) fn rights_at(&self, path: &[u8]) -> Rights {
        let holds = |directory: &[u8]| is_at_or_below(path, directory);
        let nearest = self.directories.iter().find(|(directory, _)| holds(directory));
        nearest.map_or(self.everywhere, |(_, rights)| *rights)
    }

    /// Returns the rights to the file at `path` and to its name; see [`Self::require_for_name`].
    pub(super) fn path_rights(&self, path: &[u8]) -> PathRights {
        let rights = self.rights_at(path);
        let name_rights = if self.is_protected(path) { Rights::NONE } else { rights };
        PathRights { rights, name_rights }
    }

    /// Like [`Self::path_rights`], for the entry `name` of a directory.
    pub(super) fn entry_rights(&self, directory: &[u8], name: &[u8]) -> PathRights {
        if self.directories.is_empty() {
            return PathRights { rights: self.everywhere, name_rights: self.everywhere };
        }
        let directory = directory.strip_suffix(b"/").unwrap_or(directory);
        self.path_rights(&[directory, b"/", name].concat())
    }

    /// Checks for a right to `path`.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] if the user does not have the right.
    pub(super) fn require(&self, right: Right, path: &VirtualPath) -> Result<(), FileError> {
        let rights = match self.directories.is_empty() {
            true => self.everywhere,
            false => self.rights_at(&path.to_bytes()),
        };
        if rights.contains(right) { Ok(()) } else { Err(FileError::Missing(right)) }
    }

    /// Like [`Self::require`], for an operation on the name itself. Such an operation is not
    /// allowed on a directory with rights of its own, or on a directory that contains one.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] if the user does not have the right.
    pub(super) fn require_for_name(
        &self,
        right: Right,
        path: &VirtualPath,
    ) -> Result<(), FileError> {
        self.require(right, path)?;
        if self.is_protected(&path.to_bytes()) { Err(FileError::Missing(right)) } else { Ok(()) }
    }

    /// Returns whether `name` is, or contains, a directory with rights of its own.
    fn is_protected(&self, name: &[u8]) -> bool {
        self.directories.iter().any(|(directory, _)| is_at_or_below(directory, name))
    }

    /// Checks whether the rights by directory allow renaming `from` to `to`.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Missing`] with the missing right.
    pub(super) fn require_for_rename(
        &self,
        from: &VirtualPath,
        to: &VirtualPath,
    ) -> Result<(), FileError> {
        self.require_for_name(Right::Rename, from)?;
        self.require_for_name(Right::Rename, to)?;
        if from.parent() == to.parent() {
            return Ok(());
        }
        // The file leaves one directory and enters another.
        self.require(Right::Delete, from)?;
        self.require(Right::Write, to)?;
        if self.rights_at(&to.to_bytes()).contains(Right::Read) {
            self.require(Right::Read, from)?;
        }
        Ok(())
    }
}

/// Returns whether `path` is `directory` or lies below it.
fn is_at_or_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::Name;

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Table {
        rights: ConfiguredRights,
        #[serde(default)]
        folders: BTreeMap<String, ConfiguredRights>,
    }

    fn access(text: &str) -> Result<Access, String> {
        let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        Access::new(table.rights, &table.folders)
    }

    fn path(name: &str) -> VirtualPath {
        VirtualPath::root().join(&Name::new(name).unwrap()).unwrap()
    }

    #[test]
    fn named_sets_stand_for_lists_of_rights() {
        let rights = |text: &str| access(&format!("rights = {text}")).unwrap().rights_anywhere();
        assert_eq!(rights("\"read-only\""), rights("[\"list\", \"read\"]"));
        let once = "[\"list\", \"read\", \"write\", \"mkdir\"]";
        assert_eq!(rights("\"write-once\""), rights(once));
        assert_eq!(rights("\"writable\""), Rights::ALL);
        assert_eq!(rights("\"drop-box\""), rights("[\"write\"]"));
        assert_eq!(rights("[]"), Rights::NONE);
    }

    #[test]
    fn an_unknown_right_is_rejected_with_the_valid_names() {
        let parse_error = |text: &str| access(&format!("rights = {text}")).unwrap_err();
        assert!(parse_error("\"wriatble\"").contains("read-only, write-once, writable"));
        assert!(parse_error("[\"lits\"]").contains("unknown right 'lits': use list, read, write"));
        assert!(parse_error("7").contains("rights must be a string or a list"));
        assert!(access("rights = []\n[folders]\nincoming = []").is_err());
    }

    #[test]
    fn the_rights_of_the_nearest_directory_apply() {
        let text = "rights = \"read-only\"\n[folders]\n\"/in\" = \"drop-box\"\n\
                    \"/in/ann/\" = \"writable\"\n\"/no\" = []\n";
        let access = access(text).unwrap();
        assert_eq!(access.require(Right::Read, &path("/pub/file")), Ok(()));
        let missing = |right| Err(FileError::Missing(right));
        assert_eq!(access.require(Right::Read, &path("/in/file")), missing(Right::Read));
        assert_eq!(access.require(Right::List, &path("/in")), missing(Right::List));
        assert_eq!(access.require(Right::Write, &path("/in/deep/file")), Ok(()));
        assert_eq!(access.require(Right::Delete, &path("/in/ann/file")), Ok(()));
        assert_eq!(access.require(Right::List, &path("/no")), missing(Right::List));
        assert_eq!(access.require(Right::List, &path("/note")), Ok(()));
        assert_eq!(access.rights_anywhere(), Rights::ALL);
        let drop_box = Rights::NONE.with(Right::Write);
        let within = |directory: &[u8], name: &[u8]| access.entry_rights(directory, name).rights;
        assert_eq!((within(b"/", b"in"), within(b"/in", b"x")), (drop_box, drop_box));
        assert_eq!(within(b"/", b"pub"), Rights::READ_ONLY);
    }

    #[test]
    fn a_directory_with_its_own_rights_cannot_be_renamed() {
        let text = "rights = \"writable\"\n[folders]\n\"/a/in\" = \"drop-box\"\n";
        let access = access(text).unwrap();
        for name in ["/a/in", "/a"] {
            let result = access.require_for_name(Right::Rename, &path(name));
            assert_eq!(result, Err(FileError::Missing(Right::Rename)), "{name}");
        }
        assert_eq!(access.entry_rights(b"/", b"a").name_rights, Rights::NONE);
        assert_eq!(access.entry_rights(b"/a", b"in").name_rights, Rights::NONE);
        assert_eq!(access.entry_rights(b"/", b"b").name_rights, Rights::ALL);
        assert_eq!(access.require_for_name(Right::Rename, &path("/b")), Ok(()));
        assert_eq!(access.require_for_name(Right::Rename, &path("/a/inner")), Ok(()));
    }

    #[test]
    fn renaming_to_another_directory_requires_delete_and_write() {
        let text = "rights = \"writable\"\n[folders]\n\"/safe\" = \"no-delete\"\n\
                    \"/keep\" = [\"list\", \"read\", \"rename\", \"write\"]\n\
                    \"/still\" = [\"rename\", \"delete\"]\n\
                    \"/dark\" = [\"write\", \"delete\", \"rename\"]\n";
        let access = access(text).unwrap();
        let rename = |from: &str, to: &str| access.require_for_rename(&path(from), &path(to));
        let missing = |right| Err(FileError::Missing(right));
        assert_eq!(rename("/free/a", "/else/a"), Ok(()));
        assert_eq!(rename("/safe/a", "/free/a"), missing(Right::Rename));
        assert_eq!(rename("/keep/a", "/keep/b"), Ok(()));
        assert_eq!(rename("/keep/a", "/free/a"), missing(Right::Delete));
        assert_eq!(rename("/keep/deep/a", "/keep/a"), missing(Right::Delete));
        assert_eq!(rename("/free/a", "/still/a"), missing(Right::Write));
        assert_eq!(rename("/dark/a", "/free/a"), missing(Right::Read));
        assert_eq!(rename("/free/a", "/dark/a"), Ok(()));
    }

    #[test]
    fn invalid_directory_names_in_rights_are_rejected() {
        for (directory, why) in [
            ("/a/../in", "contains . or .."),
            ("/./in", "contains . or .."),
            ("/..", "contains . or .."),
            ("/in/", "duplicate directory"),
        ] {
            let text = format!("rights = []\n[folders]\n\"/in\" = []\n\"{directory}\" = []\n");
            let error = access(&text).unwrap_err();
            assert!(error.contains(why), "{directory}: {error}");
        }
        let unusual_name = access("rights = []\n[folders]\n\"/..in\" = []\n");
        assert!(unusual_name.is_ok());
    }

    #[test]
    fn the_right_to_overwrite_counts_as_writing() {
        assert!(access("rights = [\"overwrite\"]").unwrap().may_write_anywhere());
        assert!(!access("rights = \"read-only\"").unwrap().may_write_anywhere());
    }

    #[test]
    fn rights_are_described_by_set_name_or_list() {
        assert_eq!(describe(Rights::READ_ONLY), "read-only");
        assert_eq!(describe(Rights::NONE.with(Right::Write)), "rights drop-box");
        let read_and_delete = Rights::READ_ONLY.with(Right::Delete);
        assert_eq!(describe(read_and_delete), "rights list, read, delete");
    }
}
