//! Width, character set and colors of the terminal at stdout.

use crate::exit;
use os::tty;
use report::bar_chart::{Charset, Style};

/// Returns the capabilities of the terminal at stdout.
pub(crate) fn style() -> Style {
    let is_terminal = tty::is_stdout_terminal();
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let is_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_uppercase();
        locale.contains("UTF-8") || locale.contains("UTF8")
    });
    Style {
        width: exit::stdout_columns(),
        charset: if is_unicode { Charset::Unicode } else { Charset::Ascii },
        color: is_terminal && !has("NO_COLOR") && std::env::var("TERM").as_deref() != Ok("dumb"),
    }
}
