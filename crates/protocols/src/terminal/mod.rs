//! The terminal: what the eye sees.
//!
//! Bytes from the host fall through four files. `ansi` cuts them into runs of text, controls and
//! sequences; `dispatch` knows their names, and `screen` what each does to cursor, margins and
//! modes; `grid` holds the rows of cells and moves them. The front end of the Heath-19 (`heath19`) stands beside `ansi` and uses the
//! same grid. A `picture` is what is seen of either, and `draw` makes of one picture the next on a
//! modern terminal.
//!
//! Nothing is ever echoed from the input to the output. The replies are a closed list of fixed
//! forms, in which stand numbers: the cursor's place, the size, a mode that is known and whether it
//! is set, a setting that is known, and, for a host that may read the screen, a checksum. Only a page of the Heath-19
//! holds what the host has written, and that is sent only where the person has allowed it.

mod ansi;
mod cell;
#[cfg(test)]
mod differential;
mod dispatch;
mod draw;
pub mod filter;
mod grid;
pub mod heath19;
mod input;
mod kept;
pub mod line_discipline;
mod parameters;
mod picture;
pub mod prediction;
mod reflow;
mod reports;
mod screen;
mod sgr;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vt420_tests;

pub use ansi::{Terminal, Written};
pub use cell::{Attributes, Cell, Color, Style};
pub use draw::draw;
pub use grid::LineSize;
pub use input::{InputModes, MouseEncoding, MouseReports};
pub use picture::{CursorShape, Picture, PictureCursor};

/// The largest number of columns and of rows that a terminal may have.
pub const SIDE_MAX: u16 = 1000;
