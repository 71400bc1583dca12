//! Entries that a name denotes for the user: the content of a directory, a file, or the matches of a
//! pattern.

use super::client::FtpClient;
use super::error::FtpError;
use super::remote_path::{is_pattern, path_in};
use crate::escaped;
use protocols::ftp::listing::{Entry, Kind};

impl FtpClient {
    /// Returns the entries for a name in a directory, sorted by their names: the content of a
    /// directory, a file, or all matches of a pattern.
    pub async fn named_entries(
        &mut self,
        directory: &[u8],
        name: &[u8],
    ) -> Result<Vec<Entry>, FtpError> {
        let path = path_in(directory, name);
        let mut entries = if is_pattern(name) {
            self.matching_entries(directory, name, &path).await?
        } else if name.is_empty() || name.ends_with(b"/") {
            self.list_existing(&path, None).await?
        } else {
            match self.find_entry(&path).await? {
                Some(entry) if entry.kind == Kind::File => vec![Entry { name: path, ..entry }],
                found => self.list_existing(&path, found.as_ref()).await?,
            }
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    async fn matching_entries(
        &mut self,
        directory: &[u8],
        pattern: &[u8],
        path: &[u8],
    ) -> Result<Vec<Entry>, FtpError> {
        let matches = self.expand_below(directory, pattern).await?;
        match matches.as_slice() {
            [] => {
                let sentence = format!("nothing on the server matches '{}'", escaped(pattern));
                Err(FtpError::NotFound(sentence))
            }
            // The single match is a directory whose name is the pattern itself.
            [single]
                if single.entry.kind.is_directory()
                    && path.strip_suffix(b"/").unwrap_or(path) == single.path =>
            {
                self.list_recorded(&single.path).await
            }
            _ => Ok(matches
                .into_iter()
                .map(|found| Entry { name: found.path, ..found.entry })
                .collect()),
        }
    }

    /// Lists a directory. `found` is the directory's entry in its parent, if known. Without an
    /// entry, an empty listing is checked, because some servers list a missing directory as an empty
    /// directory.
    async fn list_existing(
        &mut self,
        path: &[u8],
        found: Option<&Entry>,
    ) -> Result<Vec<Entry>, FtpError> {
        let entries = self.list_recorded(path).await?;
        let is_certain = found.is_some() || path.iter().all(|&byte| byte == b'/');
        let is_silent = entries.is_empty() && self.unparsed.lines == 0 && !self.is_reported_empty;
        if is_silent && !is_certain && !self.advertises("MLST") && !self.is_directory(path).await? {
            let escaped = escaped(path);
            let sentence = format!("there is no directory '{escaped}' on the server");
            return Err(FtpError::NotFound(sentence));
        }
        Ok(entries)
    }
}
