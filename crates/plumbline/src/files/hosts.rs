//! Settings of remote hosts for file transfers, from the user's configuration.
//!
//! On a PDP-10, TYPE I means words of 36 bits (RFC 959 §3.1.1.3 lets the host define the image
//! type). A client that treats such words as octets receives files that no local program can read.

use super::representation::{RequestedType, parse_requested_type, parse_word_format};
use anyhow::{Context, Result, bail};
use carrier::host_configuration::{self, Configuration, HostTable};
use protocols::ftp::{ByteSize, Type, WordFormat};

/// Settings of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::files) struct HostSettings {
    /// Configured meaning of TYPE I.
    image: Option<RequestedType>,
    /// Format of the host's words in local files.
    pub(in crate::files) store: Option<WordFormat>,
}

impl HostSettings {
    /// Returns the meaning of TYPE I. If only the format of words in local files is configured,
    /// TYPE I means words of 36 bits.
    pub(in crate::files) fn image(&self) -> RequestedType {
        let words = self.store.map(|_| Type::Local(ByteSize::WORD36));
        self.image.unwrap_or(RequestedType::This(words.unwrap_or(Type::Image)))
    }

    /// Returns the settings of `host`, or default settings if the configuration has none for
    /// `host`.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be read or is invalid.
    pub(in crate::files) fn of(host: &str) -> Result<Self> {
        host_configuration::evaluate(|file| find(file, host))
    }
}

fn find(file: &Configuration, host: &str) -> Result<HostSettings> {
    let mut host_settings = HostSettings::default();
    for (name, table) in file.hosts() {
        let settings = settings(table).with_context(|| format!("[host.{name:?}]"))?;
        if name.eq_ignore_ascii_case(host) {
            host_settings = settings;
        }
    }
    Ok(host_settings)
}

fn settings(table: &HostTable) -> Result<HostSettings> {
    let image = table.image.as_deref().map(parse_requested_type).transpose()?;
    if matches!(image, Some(RequestedType::This(of_text)) if of_text.is_text()) {
        bail!(
            "the image type must not be a text type: use I, L with the bits of a word (such as \
             L36), or auto"
        );
    }
    Ok(HostSettings { image, store: table.store.as_deref().map(parse_word_format).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(text: &str, host: &str) -> Result<HostSettings> {
        super::find(&toml::from_str(text)?, host)
    }

    const TEXT: &str = "[host.\"Its.example\"]\nimage = \"L 36\"\nstore = \"c36\"\n\
        [host.other]\nimage = \"auto\"\n";

    #[test]
    fn settings_apply_only_to_the_host_of_their_table() {
        let its = find(TEXT, "its.EXAMPLE").unwrap();
        let image = Some(RequestedType::This(Type::Local(ByteSize::WORD36)));
        assert_eq!(its, HostSettings { image, store: Some(WordFormat::C36) });
        assert_eq!(find(TEXT, "other").unwrap().image, Some(RequestedType::Auto));
        assert_eq!(find(TEXT, "third").unwrap(), HostSettings::default());
    }

    #[test]
    fn a_configured_word_format_implies_36_bit_words() {
        let words = RequestedType::This(Type::Local(ByteSize::WORD36));
        assert_eq!(find("[host.a]\nstore = \"c36\"\n", "a").unwrap().image(), words);
        assert_eq!(find("", "a").unwrap().image(), RequestedType::This(Type::Image));
    }

    #[test]
    fn errors_name_the_invalid_value() {
        let error = |text| format!("{:#}", find(text, "a").unwrap_err());
        assert!(error("[host.a]\nimage = \"A\"\n").contains("must not be a text type"));
        assert!(error("[host.a]\nstore = \"c37\"\n").contains("'c37' is not a word format"));
        assert!(error("[host.a]\nimag = \"I\"\n").contains("unknown field"));
    }

    proptest! {
        #[test]
        fn printed_settings_apply_to_their_host_only(
            host in "[a-z !#-&(-,.:;<=>?@]{1,20}", bits in 1..=64_u8
        ) {
            let text = format!("[host.{host:?}]\nimage = \"L{bits}\"\nstore = \"c36\"\n");
            let found = find(&text, &host.to_ascii_uppercase()).unwrap();
            let image = ByteSize::new(bits).map(|size| RequestedType::This(Type::Local(size)));
            prop_assert_eq!(found, HostSettings { image, store: Some(WordFormat::C36) });
            let other = find(&text, &format!("{host}x")).unwrap();
            prop_assert_eq!(other, HostSettings::default());
        }
    }
}
