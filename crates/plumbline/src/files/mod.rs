//! `plumb get`, `plumb put` and related commands: file transfers from and to other hosts.
//!
//! A remote file is a URL ([`url`]), and a local one a [`local::Source`] or a [`local::Sink`]. The
//! result of a transfer is its record (`crate::transfer_recorder`), from which the JSON output and the
//! summary line are made. Each protocol has its own module.

mod arguments;
mod command;
pub(crate) mod ftp;
mod hosts;
pub(crate) mod local;
pub(crate) mod pace;
mod progress;
mod shown;
pub(crate) mod tftp;
pub(crate) mod url;

pub(crate) use arguments::{GET_ABOUT, Get, PUT_ABOUT, Put};
pub(crate) use command::{get, put};
pub(crate) use ftp::{
    Cat, List, MAIL_ABOUT, MIRROR_ABOUT, Mail, MakeDirectory, Mirror, Move, Remove, SHELL_ABOUT,
    Shell, cat, list, mail, make_directory, mirror, move_file, remove, shell,
};
