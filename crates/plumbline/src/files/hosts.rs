//! Settings of remote hosts in the user's configuration: `config.toml` in `$XDG_CONFIG_HOME/plumb`,
//! or in `~/.config/plumb`.
//!
//! ```toml
//! [host."its.example"]
//! image = "L36"      # what this host means by TYPE I; "auto" asks it by SYST
//! store = "c36"      # how its words lie in files here
//! ```
//!
//! On a PDP-10, TYPE I means words of 36 bits (RFC 959 §3.1.1.3 leaves the image to the host). A
//! client that treats them as octets receives files that no local program can read.

use super::ftp::{TypeWish, type_wish, word_format};
use anyhow::{Context, Result, bail};
use protocols::application::ftp::{ByteSize, Type, WordFormat};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    host: BTreeMap<String, Table>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    image: Option<String>,
    store: Option<String>,
}

/// Settings of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::files) struct HostSettings {
    /// Configured meaning of TYPE I.
    image: Option<TypeWish>,
    /// Format of its words in local files.
    pub(in crate::files) store: Option<WordFormat>,
}

impl HostSettings {
    /// Returns the meaning of TYPE I: words of 36 bits, if only their format in local files is
    /// configured.
    pub(in crate::files) fn image(&self) -> TypeWish {
        let words = self.store.map(|_| Type::Local(ByteSize::WORD36));
        self.image.unwrap_or(TypeWish::This(words.unwrap_or(Type::Image)))
    }

    /// Returns the settings of `host`; the default if there are none.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be read or is invalid.
    pub(in crate::files) fn of(host: &str) -> Result<Self> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let name = path.display();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let sentence = format!("cannot read the configuration {name}");
                return Err(anyhow::Error::new(error).context(sentence));
            }
        };
        find(&text, host).with_context(|| format!("invalid configuration {name}"))
    }
}

fn path() -> Option<PathBuf> {
    let said = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(said.map(PathBuf::from).or_else(home)?.join("plumb/config.toml"))
}

fn find(text: &str, host: &str) -> Result<HostSettings> {
    let file: Configuration = toml::from_str(text)?;
    let mut found = HostSettings::default();
    for (name, table) in &file.host {
        let settings = settings(table).with_context(|| format!("[host.{name:?}]"))?;
        if name.eq_ignore_ascii_case(host) {
            found = settings;
        }
    }
    Ok(found)
}

fn settings(table: &Table) -> Result<HostSettings> {
    let image = table.image.as_deref().map(type_wish).transpose()?;
    if matches!(image, Some(TypeWish::This(of_text)) if of_text.is_text()) {
        bail!("an image is not text: use I, L and the bits of a word, or auto");
    }
    Ok(HostSettings { image, store: table.store.as_deref().map(word_format).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "[host.\"Its.example\"]\nimage = \"L 36\"\nstore = \"c36\"\n\
        [host.other]\nimage = \"auto\"\n";

    #[test]
    fn a_host_has_what_its_table_says_and_another_has_nothing() {
        let its = find(TEXT, "its.EXAMPLE").unwrap();
        let image = Some(TypeWish::This(Type::Local(ByteSize::WORD36)));
        assert_eq!(its, HostSettings { image, store: Some(WordFormat::C36) });
        assert_eq!(find(TEXT, "other").unwrap().image, Some(TypeWish::Auto));
        assert_eq!(find(TEXT, "third").unwrap(), HostSettings::default());
    }

    #[test]
    fn a_host_of_which_it_is_said_how_its_words_lie_has_words() {
        let words = TypeWish::This(Type::Local(ByteSize::WORD36));
        assert_eq!(find("[host.a]\nstore = \"c36\"\n", "a").unwrap().image(), words);
        assert_eq!(find("", "a").unwrap().image(), TypeWish::This(Type::Image));
    }

    #[test]
    fn a_word_that_means_nothing_is_told_with_its_table() {
        let told = |text| format!("{:#}", find(text, "a").unwrap_err());
        assert!(told("[host.a]\nimage = \"A\"\n").contains("an image is not text"));
        assert!(told("[host.a]\nstore = \"c37\"\n").contains("'c37' is not a word format"));
        assert!(told("[host.a]\nimag = \"I\"\n").contains("unknown field"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[ -~\n]{0,200}") {
            _ = find(&text, "a");
        }
    }
}
