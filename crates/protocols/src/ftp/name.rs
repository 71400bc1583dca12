//! Names in commands, and the virtual paths that they resolve to.
//!
//! A [`Name`] is the argument of a command: any bytes but CR, LF and NUL, so that no name can end
//! its line early (RFC 959 §5.3.1). A [`VirtualPath`] is a position in the tree that a server
//! presents (RFC 3659 §6, TVFS): components between slashes, none of which is empty, `.` or `..`. A
//! `..` at the root stays at the root, so no path leaves the tree; the owner handles symbolic links
//! when it resolves the real directories. A [`LocalName`] is a name from a listing that may become
//! the name of a local file.

use alloc::vec::Vec;
use core::fmt;

/// Maximum length of a name or a path in bytes.
pub const PATH_MAX_BYTES: usize = 4096;
/// Maximum length of one component in bytes, as on most file systems.
pub const COMPONENT_MAX_BYTES: usize = 255;
/// Maximum number of components of a path (our choice).
pub const COMPONENTS_MAX: usize = 256;

/// Reason why bytes are not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name exceeds [`PATH_MAX_BYTES`], or a component or the number of components exceeds its
    /// limit.
    TooLong,
    /// The name contains a CR, an LF or a NUL, which would end the command line.
    Control,
    /// The name is not allowed for a local file.
    Unsafe,
}

/// Argument of a command: at least one byte, without CR, LF and NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// Creates a name, usually in UTF-8 (RFC 2640).
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name is empty, too long, or contains a byte that would end the
    /// command line.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > PATH_MAX_BYTES {
            return Err(NameError::TooLong);
        }
        if has_control(&bytes) {
            return Err(NameError::Control);
        }
        Ok(Self(bytes))
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&alloc::string::String::from_utf8_lossy(&self.0), f)
    }
}

/// Returns whether `bytes` contains a CR, an LF or a NUL, which cannot be part of a line.
pub(super) fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Path in the tree of files that a server presents.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPath {
    components: Vec<Vec<u8>>,
}

impl VirtualPath {
    /// Returns the root of the tree, `/`.
    #[must_use]
    pub const fn root() -> Self {
        Self { components: Vec::new() }
    }

    /// Resolves `name` relative to this path, or to the root if it begins with a slash.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the result exceeds a limit.
    pub fn join(&self, name: &Name) -> Result<Self, NameError> {
        let bytes = name.as_bytes();
        let mut path = if bytes.first() == Some(&b'/') { Self::root() } else { self.clone() };
        for component in bytes.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => _ = path.components.pop(),
                _ if component.len() > COMPONENT_MAX_BYTES => return Err(NameError::TooLong),
                _ if path.components.len() >= COMPONENTS_MAX => return Err(NameError::TooLong),
                _ => path.components.push(component.to_vec()),
            }
        }
        if path.components.iter().map(|part| part.len() + 1).sum::<usize>() > PATH_MAX_BYTES {
            return Err(NameError::TooLong);
        }
        Ok(path)
    }

    /// Returns the parent directory; the parent of the root is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        let mut parent = self.clone();
        parent.components.pop();
        parent
    }

    /// Returns the components of the path, starting below the root. None is empty, `.` or `..`, or
    /// contains a slash.
    pub fn components(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.components.iter().map(Vec::as_slice)
    }

    /// Returns the last component; the root has none.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.components.last().map(Vec::as_slice)
    }

    /// Returns whether the path is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.components.is_empty()
    }

    /// Returns the path as text that begins with a slash.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_root() {
            return b"/".to_vec();
        }
        self.components.iter().flat_map(|part| [b"/", part.as_slice()].concat()).collect()
    }
}

impl fmt::Debug for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.to_bytes().escape_ascii())
    }
}

/// A name from a listing that is safe as the name of a file in a local directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalName(Vec<u8>);

impl LocalName {
    /// Creates a local name from one component that a server sent.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name refers to another directory or drive (a slash or a
    /// backslash, `.` and `..`, a drive letter), looks like an option (a leading `-`), has a
    /// control character or is too long.
    pub fn new(name_text: &[u8]) -> Result<Self, NameError> {
        match name_text {
            b"" => return Err(NameError::Empty),
            b"." | b".." | [b'-', ..] | [_, b':', ..] => return Err(NameError::Unsafe),
            _ if name_text.len() > COMPONENT_MAX_BYTES => return Err(NameError::TooLong),
            _ => {}
        }
        if name_text.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
            return Err(NameError::Unsafe);
        }
        if name_text.iter().any(u8::is_ascii_control) {
            return Err(NameError::Control);
        }
        Ok(Self(name_text.to_vec()))
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(bytes: &[u8]) -> Name {
        Name::new(bytes).unwrap()
    }

    // attack row 93
    #[test]
    fn row_93_a_name_that_would_end_its_command_is_invalid() {
        for bytes in [&b"a\r\nDELE b"[..], b"a\nb", b"a\rb", b"a\0b"] {
            assert_eq!(Name::new(bytes), Err(NameError::Control));
        }
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new([b'a'; PATH_MAX_BYTES + 1]), Err(NameError::TooLong));
    }

    #[test]
    fn dot_components_do_not_lead_out_of_the_root() {
        let home = VirtualPath::root().join(&name(b"users/ann")).unwrap();
        for (name_text, meant) in [
            (&b".."[..], &b"/users"[..]),
            (b"../../../../etc/passwd", b"/etc/passwd"),
            (b"/..", b"/"),
            (b"./a//b/.", b"/users/ann/a/b"),
            (b"...", b"/users/ann/..."),
            (b"%2e%2e", b"/users/ann/%2e%2e"),
            (b"..\\..", b"/users/ann/..\\.."),
        ] {
            assert_eq!(home.join(&name(name_text)).unwrap().to_bytes(), meant);
        }
    }

    // attack row 81
    #[test]
    fn row_81_a_listed_name_cannot_leave_the_local_directory() {
        for name_text in [
            &b"../x"[..],
            b"..",
            b".",
            b"/etc/passwd",
            b"a/b",
            b"-rf",
            b"a\\b",
            b"C:x",
            b"a\nb",
            b"",
            b"a\x1b[2J",
        ] {
            assert!(LocalName::new(name_text).is_err(), "{}", name_text.escape_ascii());
        }
        assert!(LocalName::new("grün ☃ .txt".as_bytes()).is_ok());
    }

    proptest! {
        // attack row 79
        #[test]
        fn row_79_every_path_is_below_the_root(
            names in prop::collection::vec("(/|\\.|\\.\\.|a|%2f|\\\\|é|/\\.\\./){1,12}", 1..6)
        ) {
            let mut path = VirtualPath::root();
            for name_text in names {
                path = path.join(&name(name_text.as_bytes())).unwrap();
                let is_below = path.components().all(|part| {
                    !part.is_empty() && part != b"." && part != b".." && !part.contains(&b'/')
                });
                prop_assert!(is_below);
                prop_assert_eq!(VirtualPath::root().join(&name(&path.to_bytes())), Ok(path.clone()));
            }
        }
    }
}
