//! Options of the filter between a remote host, or a recording, and the user's terminal.

use crate::heading;
use protocols::terminal::filter::Policy;

/// Options of the terminal filter.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct TerminalFilter {
    /// Pass every sequence to the terminal
    ///
    /// By default plumb removes sequences that write or read the clipboard, make the terminal send
    /// a reply, print, or control the terminal emulator. Output to a file or a pipe is not
    /// filtered.
    #[arg(long, help_heading = heading::TERMINAL)]
    unfiltered: bool,
    /// Let the remote host write the clipboard (OSC 52), but not read it
    #[arg(long, conflicts_with = "unfiltered", help_heading = heading::TERMINAL)]
    allow_clipboard: bool,
}

impl TerminalFilter {
    /// Returns the filter policy for this terminal, whose character set follows from the locale.
    pub(crate) fn policy(self) -> Policy {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        Policy {
            passes_all: self.unfiltered,
            allows_clipboard: self.allow_clipboard,
            is_utf8: reads_utf8(locale.as_deref()),
            is_linux_console: set("TERM").as_deref() == Some("linux"),
        }
    }
}

/// Returns whether a terminal of this locale uses UTF-8. UTF-8 is assumed if the locale names no
/// character set.
fn reads_utf8(locale: Option<&str>) -> bool {
    let Some((_, charset)) = locale.and_then(|locale| locale.split_once('.')) else { return true };
    let charset = charset.split('@').next().unwrap_or_default();
    charset.to_ascii_lowercase().starts_with("utf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_reads_utf8_unless_its_locale_names_another_charset() {
        for locale in [None, Some("C"), Some("de_DE"), Some("de_DE.UTF-8@euro"), Some("C.utf8")] {
            assert!(reads_utf8(locale), "{locale:?}");
        }
        assert!(!reads_utf8(Some("de_DE.ISO-8859-1")));
    }
}
