//! Directory and limits of the downloads of a session.

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};
use std::path::PathBuf;

/// Default limit for the bytes that a session downloads.
pub const DOWNLOAD_LIMIT_BYTES: u64 = 1 << 30;

/// Maximum number of files that a session downloads. Our choice: more than a user can want from a
/// terminal session.
const DOWNLOAD_LIMIT_FILES: u32 = 1000;

/// Directory and limits of the downloads of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadPolicy {
    /// Directory of the files.
    pub directory: PathBuf,
    /// Number of bytes that may still be downloaded.
    pub remaining_bytes: u64,
    /// Number of files that may still be downloaded.
    pub(super) remaining_files: u32,
}

impl DownloadPolicy {
    /// Creates a policy that allows this number of bytes per session.
    #[must_use]
    pub const fn new(directory: PathBuf, limit_bytes: u64) -> Self {
        Self { directory, remaining_bytes: limit_bytes, remaining_files: DOWNLOAD_LIMIT_FILES }
    }

    /// Checks that files can be created in the directory.
    ///
    /// # Errors
    ///
    /// Returns an error that names the directory and the reason.
    pub fn check_directory(&self) -> Result<()> {
        let context = || format!("cannot save files in {}", self.directory.display());
        if !self.directory.metadata().with_context(context)?.is_dir() {
            bail!("cannot save files in {}: it is not a directory", self.directory.display());
        }
        access(&self.directory, Access::WRITE_OK | Access::EXEC_OK).with_context(context)
    }
}

impl Default for DownloadPolicy {
    fn default() -> Self {
        Self::new(PathBuf::from("."), DOWNLOAD_LIMIT_BYTES)
    }
}

/// Parses a limit in bytes such as `700M` or `10G`, with powers of 1024.
///
/// # Errors
///
/// Returns a sentence if `text` is not a number of bytes.
pub fn parse_limit(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let shift = match unit {
        "" => Some(0),
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        "G" | "g" => Some(30),
        "T" | "t" => Some(40),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(shift);
    let bytes = bytes.and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("invalid size '{}': use e.g. 700M or 10G", text.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_exist_and_a_file_are_rejected() {
        let check = |path: &str| DownloadPolicy::new(path.into(), 0).check_directory();
        assert!(check("/tmp").is_ok());
        let missing = format!("{:#}", check("/nonexistent").unwrap_err());
        assert!(missing.starts_with("cannot save files in /nonexistent: No such"), "{missing}");
        let file = check("/dev/null").unwrap_err().to_string();
        assert_eq!(file, "cannot save files in /dev/null: it is not a directory");
    }

    #[test]
    fn a_limit_has_a_unit() {
        assert_eq!(parse_limit("700M"), Ok(700 << 20));
        assert_eq!(parse_limit("10"), Ok(10));
        for text in ["", "M", "5X", "-1", "99999999T"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }
}
