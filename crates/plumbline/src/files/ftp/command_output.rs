//! Output of the FTP commands on the standard output.

use anyhow::Context;
use std::io::Write;
use transfer::ftp::FtpError;

/// Writes to the standard output.
pub(super) fn print(bytes: &[u8]) -> Result<(), FtpError> {
    Ok(std::io::stdout().write_all(bytes).context("cannot write to the standard output")?)
}

/// Returns the line of JSON about a name that a command changes, or would change.
pub(super) fn change_as_json(action: &str, name: &[u8], is_directory: bool) -> serde_json::Value {
    let kind = if is_directory { "directory" } else { "file" };
    serde_json::json!({ "what": action, "name": String::from_utf8_lossy(name), "kind": kind })
}
