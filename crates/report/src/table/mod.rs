//! The writer of tables: text for a terminal, CSV and JSON.
//!
//! A [`Table`] has cells of text and is laid out for the width of a terminal. A [`Grid`] has typed
//! cells: it is written as CSV and JSON with its values, and as text through a [`Table`].

mod grid;
mod layout;

pub(crate) use grid::{
    COSTS, CPU_TIMES_PER_BIT, FILE_COSTS, FILE_RATES, FILE_SIZES, NamedUnit, PRICES, figure_text,
};
pub(crate) use layout::MIN_WIDTH;

pub use grid::{BITS, Cell, Grid, RATES};
pub use layout::{Align, Table, wrap};
