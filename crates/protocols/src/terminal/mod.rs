//! Terminal emulation: the state of the display.
//!
//! Bytes from the host pass through four modules. `ansi` splits the bytes into runs of text,
//! controls and sequences; `dispatch` maps these to operations; `screen` implements the operations
//! on cursor, margins and modes; `grid` stores the rows of cells and moves them. The front end of
//! the Heath-19 (`heath19`) is an alternative to `ansi` and uses the same grid. A `picture` is a
//! snapshot of either display, and `render::draw` computes the output that changes the display of a
//! modern terminal from one picture to the next.
//!
//! Input is never echoed to the output. The replies have fixed forms and contain only numbers and
//! known settings: the cursor position, the size, a setting, and whether a known mode is set. A
//! checksum of the screen is sent only to a host that may read the screen. The page of the Heath-19
//! is the only reply that contains text written by the host. It is sent only with the permission of
//! the user.

mod ansi;
mod cell;
#[cfg(test)]
mod differential;
mod dispatch;
pub mod encoding;
pub mod filter;
mod grid;
pub mod heath19;
mod inert_modes;
mod input;
pub mod line_discipline;
mod parameters;
mod picture;
pub mod prediction;
mod reflow;
mod render;
mod reports;
mod screen;
mod sgr;
mod status_request;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vt420_tests;

pub use ansi::{ScreenEffect, Terminal};
pub use cell::{Attributes, Cell, Color, Style};
pub use grid::LineSize;
pub use input::{InputModes, MouseEncoding, MouseReports};
pub use picture::{CursorShape, Picture, PictureCursor};
pub use render::draw;

/// Maximum number of columns and of rows of a terminal.
pub const SIDE_MAX: u16 = 1000;
