//! The log of a session: what the far side wrote as plain text, without the sequences that move the
//! cursor and set colours.
//!
//! A line is written when it ends. A backspace takes the last character of a line away; a return
//! that no line feed follows begins the line again, and what was there stays until it is
//! overwritten.

use crate::measure::rfc_3339;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// The longest line, in characters; ours. A longer one is cut in two.
const LINE_MAX: usize = 16 * 1024;

/// A log that is being written.
pub(super) struct Log {
    file: File,
    parser: vte::Parser,
    line: Line,
}

impl Log {
    /// Opens a log, to go on at its end; its owner alone can read it.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(super) fn open(path: &Path, has_times: bool) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self { file, parser: vte::Parser::new(), line: Line { has_times, ..Line::default() } })
    }

    /// Takes what the far side writes.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(super) fn put(&mut self, text: &[u8]) -> io::Result<()> {
        self.parser.advance(&mut self.line, text);
        let ended = std::mem::take(&mut self.line.ended);
        if ended.is_empty() { Ok(()) } else { self.file.write_all(ended.as_bytes()) }
    }

    /// Writes a last line that has no end.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.line.characters.is_empty() { Ok(()) } else { self.put(b"\n") }
    }
}

#[derive(Default)]
struct Line {
    has_times: bool,
    characters: Vec<char>,
    /// Where the next character goes.
    place: usize,
    /// The lines that are whole.
    ended: String,
}

impl Line {
    fn end(&mut self) {
        if self.has_times {
            self.ended.push_str(&rfc_3339(SystemTime::now()));
            self.ended.push(' ');
        }
        self.ended.extend(self.characters.drain(..));
        self.ended.push('\n');
        self.place = 0;
    }
}

impl vte::Perform for Line {
    fn print(&mut self, character: char) {
        if character.is_control() && character != '\t' {
            return;
        }
        match self.characters.get_mut(self.place) {
            Some(place) => *place = character,
            None => self.characters.push(character),
        }
        self.place += 1;
        if self.place >= LINE_MAX {
            self.end();
        }
    }

    fn execute(&mut self, control: u8) {
        match control {
            b'\n' => self.end(),
            b'\r' => self.place = 0,
            b'\t' => self.print('\t'),
            0x08 => {
                self.place = self.place.saturating_sub(1);
                self.characters.truncate(self.place);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logged(text: &[u8]) -> String {
        let (mut parser, mut line) = (vte::Parser::new(), Line::default());
        parser.advance(&mut line, text);
        line.ended
    }

    #[test]
    fn colours_and_motions_are_left_out() {
        assert_eq!(logged(b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07 text\r\n"), "red text\n");
    }

    #[test]
    fn a_rubout_takes_a_character_and_a_return_writes_over_the_line() {
        assert_eq!(logged(b"lz\x08 \x08s -l\r\n"), "ls -l\n");
        assert_eq!(logged(b" 10 %\r100 %\r\n"), "100 %\n");
    }

    proptest! {
        #[test]
        fn nothing_but_text_reaches_the_log(text: Vec<u8>) {
            let logged = logged(&text);
            let is_control = |c: char| c.is_ascii_control() && c != '\n' && c != '\t';
            prop_assert_eq!(logged.find(is_control), None);
        }
    }
}
