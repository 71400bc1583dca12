//! Creation of directories on the server, and errors for paths of directories.

use super::client::FtpClient;
use super::error::FtpError;
use super::remote_path::{join, name_of};
use crate::escaped;
use protocols::ftp::user::Task;

impl FtpClient {
    /// Returns the error for a path that the server refuses: that it names a directory, with the
    /// remedy, or else `refusal`. The refusal itself does not distinguish a directory from a missing
    /// file.
    pub async fn explained_refusal(
        &mut self,
        path: &[u8],
        refusal: FtpError,
        remedy: &str,
    ) -> FtpError {
        let entry = self.find_entry(path).await.ok().flatten();
        if !entry.is_some_and(|entry| entry.kind.is_directory()) {
            return refusal;
        }
        FtpError::IsDirectory(format!("'{}' is a remote directory: {remedy}", escaped(path)))
    }

    /// Creates a directory, which may exist already.
    pub async fn ensure_directory(&mut self, path: &[u8]) -> Result<(), FtpError> {
        let context = format!("cannot create the directory '{}'", escaped(path));
        match self.run(&context, Task::MakeDirectory(name_of(path)?)).await {
            Err(error) if !error.is_refusal() => Err(error),
            // If the directory does not exist, the transfers into it fail.
            _ => Ok(()),
        }
    }

    /// Creates a directory and its missing parent directories. Nothing is created if the server has
    /// an entry of that name.
    pub async fn ensure_directories(&mut self, path: &[u8]) -> Result<(), FtpError> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if path.is_empty() || self.find_entry(path).await?.is_some() {
            return Ok(());
        }
        let mut prefix = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
        for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            prefix = join(&prefix, part);
            self.ensure_directory(&prefix).await?;
        }
        Ok(())
    }
}
