//! Bookmarks of FTP servers: a name for the URL of a server, with its user and directory.
//!
//! The file in the state directory has one bookmark per line: the name, a space and the URL. It never
//! contains a password.

use crate::url::Url;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The bookmarks of the user.
#[derive(Debug)]
pub struct Bookmarks {
    path: PathBuf,
    urls: BTreeMap<String, String>,
}

impl Bookmarks {
    /// Reads the file `path`. A missing file has no bookmarks, and invalid lines are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn read(path: PathBuf) -> Result<Self> {
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let urls = lines.map(|(name, url)| (name.to_owned(), url.trim().to_owned())).collect();
        Ok(Self { path, urls })
    }

    /// Returns the URL of a server: that of the bookmark `text`, or `text` itself, which may have no
    /// scheme.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn resolve(&self, text: &str) -> Result<Url> {
        Url::parse_ftp_host(self.urls.get(text).map_or(text, String::as_str))
    }

    /// Adds or replaces a bookmark, and writes the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid or the file cannot be written.
    pub fn add(&mut self, name: &str, url: &Url) -> Result<()> {
        let is_valid = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(is_valid) {
            bail!("'{}' is not a name: use letters, digits, - and _", name.escape_debug());
        }
        self.urls.insert(name.to_owned(), url.with_user());
        self.write()
    }

    /// Deletes a bookmark, and writes the file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such bookmark or the file cannot be written.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        if self.urls.remove(name).is_none() {
            bail!("there is no bookmark '{}'", name.escape_debug());
        }
        self.write()
    }

    /// Returns the bookmarks as lines, sorted by their names.
    pub fn text(&self) -> String {
        self.urls.iter().map(|(name, url)| format!("{name} {url}\n")).collect()
    }

    /// Replaces the file, so that a reader never sees a part of it.
    fn write(&self) -> Result<()> {
        let context = || format!("cannot write {}", self.path.display());
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).with_context(context)?;
        }
        let draft = self.path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&draft, self.text()).with_context(context)?;
        fs::rename(&draft, &self.path).with_context(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_keeps_the_user_and_the_directory_but_no_password() {
        let directory = std::env::temp_dir().join(format!("plumb-marks-{}", std::process::id()));
        let path = directory.join("ftp_bookmarks");
        let mut bookmarks = Bookmarks::read(path.clone()).unwrap();
        let url = "ftpes://a%40b:secret@example.net:2121//pub/a%20b".parse().unwrap();
        bookmarks.add("work", &url).unwrap();
        assert!(bookmarks.add("a/b", &url).is_err());
        let mut read = Bookmarks::read(path).unwrap();
        assert_eq!(read.text(), "work ftpes://a%40b@example.net:2121//pub/a%20b\n");
        let resolved = read.resolve("work").unwrap();
        assert_eq!(resolved.login.user.as_deref(), Some(&b"a@b"[..]));
        assert_eq!((resolved.target.port, resolved.name), (2121, b"/pub/a b".to_vec()));
        assert_eq!(read.resolve("other").unwrap().to_string(), "ftp://other/");
        read.delete("work").unwrap();
        assert!(read.delete("work").is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
