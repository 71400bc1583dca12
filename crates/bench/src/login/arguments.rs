//! Arguments of clients and servers.

use std::ffi::OsString;

/// Converts `words` to arguments.
pub(super) fn os_strings(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
