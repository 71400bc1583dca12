//! Reader of the TOML files that administrators and users write: configuration and user files.
//!
//! The errors of an unknown key suggest the nearest known key. This crate knows no key of any file,
//! writes nothing and prints nothing.
#![forbid(unsafe_code)]

mod suggest;
mod toml_file;

pub use suggest::nearest;
pub use toml_file::{TomlFile, parse};
