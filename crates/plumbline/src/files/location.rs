//! Location of a file, as an argument of a command: a local path or a URL.

use std::path::PathBuf;
use std::str::FromStr;
use transfer::url::Url;

/// A local path or a URL.
#[derive(Clone, Debug)]
pub(super) enum Location {
    Local(PathBuf),
    Remote(Url),
}

impl FromStr for Location {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let url = Url::parse(text)?;
        Ok(url.map_or_else(|| Self::Local(PathBuf::from(text)), Self::Remote))
    }
}
