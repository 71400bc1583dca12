//! Reading and parsing a file, and the errors that name it.

use super::suggest;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Kind of a TOML file, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct TomlFile(&'static str);

impl TomlFile {
    /// A configuration file of a server or of the client.
    pub const CONFIGURATION: Self = Self("configuration file");
    /// A file of users.
    pub const USERS: Self = Self("user file");

    /// Reads and parses the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or contains an unknown key or an invalid value.
    pub fn read<T: DeserializeOwned>(self, path: &Path) -> Result<T> {
        let text = self.read_text(path)?;
        parse(&text).with_context(|| self.invalid(path))
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn read_text(self, path: &Path) -> Result<String> {
        let text = std::fs::read_to_string(path);
        text.with_context(|| format!("cannot read {} {}", self.0, path.display()))
    }

    /// Returns the first line of an error of the content.
    pub fn invalid(self, path: &Path) -> String {
        format!("invalid {} {}", self.0, path.display())
    }
}

/// Parses the text of a TOML file. The error of an unknown key suggests the nearest known key.
///
/// # Errors
///
/// Returns an error if the text contains an unknown key or an invalid value.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| suggest::with_suggestion(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Content {
        root: Option<String>,
    }

    #[test]
    fn errors_name_the_file_and_suggest_a_key() {
        let path = std::env::temp_dir().join(format!("plumb-toml-{}", std::process::id()));
        let name = path.display();
        let read = || TomlFile::CONFIGURATION.read::<Content>(&path);
        let error = format!("{:#}", read().unwrap_err());
        assert!(error.starts_with(&format!("cannot read configuration file {name}: ")), "{error}");
        std::fs::write(&path, "rot = \"/srv\"\n").unwrap();
        let error = format!("{:#}", read().unwrap_err());
        assert!(error.starts_with(&format!("invalid configuration file {name}: ")), "{error}");
        assert!(error.ends_with("did you mean 'root'?"), "{error}");
        std::fs::write(&path, "root = \"/srv\"\n").unwrap();
        assert_eq!(read().unwrap().root.as_deref(), Some("/srv"));
        std::fs::remove_file(&path).unwrap();
    }
}
