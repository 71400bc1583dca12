//! Paths on the remote host.

use super::error::FtpError;
use crate::escaped;
use protocols::ftp::Name;

/// Converts bytes to a name that a command can carry.
pub fn name_of(bytes: &[u8]) -> Result<Name, FtpError> {
    Name::new(bytes).map_err(|_| {
        let escaped = escaped(bytes);
        FtpError::InvalidRequest(match bytes {
            b"" => "no file name is given".to_owned(),
            _ => format!("'{escaped}': FTP cannot transfer a file name that contains a line break"),
        })
    })
}

/// Returns `directory/name`.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" => name.to_vec(),
        _ if directory.ends_with(b"/") => [directory, name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}

/// Returns the path of `name` in `directory`. An absolute name is returned unchanged.
pub fn path_in(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") { name.to_vec() } else { join(directory, name) }
}

/// Splits a path before its last component. The slash before the last component is dropped, except
/// the slash of the root.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        None => (b"", path),
        Some(at) => {
            let (directory, name) = path.split_at_checked(at).unwrap_or_default();
            let directory = if directory.is_empty() { b"/" } else { directory };
            (directory, name.get(1..).unwrap_or_default())
        }
    }
}

/// Returns whether a path contains a wildcard character (`*`, `?` or `[`).
pub fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_last_component() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"/c"), (&b"/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!((join(b"", b"c"), join(b"/", b"c")), (b"c".to_vec(), b"/c".to_vec()));
    }
}
