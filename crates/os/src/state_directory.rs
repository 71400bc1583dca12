//! Location of plumb's persistent state, such as its own certificates, the certificates of known
//! servers and the transfer records.

use std::path::PathBuf;

/// Returns the directory for persistent state (XDG, or /var/lib for root).
pub fn state_directory() -> PathBuf {
    if let Some(directory) =
        std::env::var_os("XDG_STATE_HOME").filter(|directory| !directory.is_empty())
    {
        return PathBuf::from(directory).join("plumb");
    }
    match std::env::var_os("HOME") {
        Some(home) if !crate::user::is_root() => PathBuf::from(home).join(".local/state/plumb"),
        _ => PathBuf::from("/var/lib/plumb"),
    }
}
