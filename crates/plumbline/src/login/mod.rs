//! `plumb login`: interactive or scripted sessions over Telnet, plain TCP or a serial line.

mod arguments;
mod connect;
mod cursor_column;
mod display;
mod emulated_terminal;
mod file_transfer;
mod input;
mod line_editor;
mod linemode;
mod logging;
mod paging;
mod predicted;
mod prompt;
mod prompt_command;
mod protocol;
mod remote;
mod saved_login;
mod screen;
mod script;
mod session;
mod session_settings;
mod session_status;
mod status_page;
mod terminal_input;
mod transfer_state;
mod typing;

pub(crate) use arguments::{ABOUT, Arguments, PAGE};
pub(crate) use connect::run;
pub(crate) use saved_login::TypedLogin;

/// Prints a message on stderr.
fn say(sentence: &str) {
    use std::io::Write;
    // Ignored: stderr may be closed.
    let sentence = records::escape::message(&records::escape::without_error_numbers(sentence));
    _ = std::io::stderr().write_all(format!("{sentence}\n").as_bytes());
}
