//! `plumb login`: interactive or scripted sessions over Telnet, plain TCP or a serial line.

mod arguments;
mod call;
mod column;
mod command;
mod destination;
mod encoding;
mod far;
mod line;
mod linemode;
mod log;
mod near;
mod page;
mod painted;
mod painting;
mod predicted;
mod prompt;
mod screen;
mod script;
mod session;
mod settings;
mod status;
mod tape;
mod typing;

pub(crate) use arguments::{ABOUT, Arguments};
pub(crate) use call::run;
pub(crate) use destination::line_settings;

/// Prints a message on stderr.
fn say(sentence: &str) {
    use std::io::Write;
    // Ignored: stderr may be closed.
    let sentence = records::escape::message(sentence);
    _ = std::io::stderr().write_all(format!("{sentence}\n").as_bytes());
}
