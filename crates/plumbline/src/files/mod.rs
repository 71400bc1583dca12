//! `plumb get`, `plumb put` and related commands: file transfers from and to other hosts.
//!
//! A remote file is named by a URL ([`url`]); a local file is a [`local::LocalSource`] or a
//! [`local::Sink`]. The result of a transfer is its record (`crate::transfer_recorder`), the source
//! of the JSON output and the summary line. Each protocol has its own module.

mod escape_name;
pub(crate) mod ftp;
mod get_put;
mod get_put_arguments;
mod hosts;
pub(crate) mod local;
pub(crate) mod pace;
mod progress;
pub(crate) mod tftp;
pub(crate) mod url;

pub(crate) use ftp::{
    Cat, FtpShell, List, MAIL_ABOUT, MIRROR_ABOUT, Mail, MakeDirectory, Mirror, Move, Remove,
    SHELL_ABOUT, cat, list, mail, make_directory, mirror, move_file, remove, shell,
};
pub(crate) use get_put::{get, put};
pub(crate) use get_put_arguments::{GET_ABOUT, Get, PUT_ABOUT, Put};
