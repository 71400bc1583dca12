//! Width, character set and colors of the terminals at stdout and stderr.

use clap::ColorChoice;
use os::tty;
use report::bar_chart::{Charset, Style};
use std::io::IsTerminal;
use std::sync::OnceLock;

/// The value of --color; unset until the arguments are parsed.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Selects colors for all further output.
pub(crate) fn set_color(choice: ColorChoice) {
    _ = COLOR.set(choice);
}

/// Returns the capabilities of the terminal at stdout.
pub(crate) fn style() -> Style {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let is_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_uppercase();
        locale.contains("UTF-8") || locale.contains("UTF8")
    });
    Style {
        width: stdout_columns(),
        charset: if is_unicode { Charset::Unicode } else { Charset::Ascii },
        color: has_color(tty::is_stdout_terminal()),
    }
}

/// Returns whether messages on stderr are colored.
pub(crate) fn colors_stderr() -> bool {
    has_color(std::io::stderr().is_terminal())
}

fn has_color(is_terminal: bool) -> bool {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match COLOR.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        _ => is_terminal && !has("NO_COLOR") && std::env::var("TERM").as_deref() != Ok("dumb"),
    }
}

/// Returns the width of the terminal on stdout, else `COLUMNS`, else 80. The result is at least 40
/// and at most 200.
pub(crate) fn stdout_columns() -> usize {
    known_stdout_columns().unwrap_or(80).clamp(40, 200)
}

/// Returns the width of the terminal on stdout, else `COLUMNS`, else the maximum, so that each row of
/// a table is one line in a pipe or a file. The result is at least 40.
pub(crate) fn stdout_columns_of_table() -> usize {
    known_stdout_columns().map_or(usize::MAX, |columns| columns.clamp(40, 200))
}

fn known_stdout_columns() -> Option<usize> {
    let size = tty::WindowSize::of(std::io::stdout());
    let columns_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    size.map(|size| usize::from(size.columns)).or_else(columns_variable)
}
