//! Location of plumb's persistent state: its own certificates, and those that it knows.

use std::path::PathBuf;

/// Returns the directory for persistent state (XDG, or /var/lib for root).
pub(crate) fn state_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder).join("plumb");
    }
    match std::env::var_os("HOME") {
        Some(home) if !os::user::is_root() => PathBuf::from(home).join(".local/state/plumb"),
        _ => PathBuf::from("/var/lib/plumb"),
    }
}
