//! `plumb get`, `plumb put` and their like: files to and from other hosts.
//!
//! A place is a URL ([`url`]), a file of this machine is a [`local::Source`] or a [`local::Sink`],
//! and what is known of a transfer at its end is its record (`crate::transfers`), out of which the
//! JSON and the line for a person are made. Each protocol has its folder.

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
