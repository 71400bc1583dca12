//! `plumb get`, `plumb put` and related commands: file transfers from and to other hosts.
//!
//! The transfers themselves are in the crate `transfer`. The result of a transfer is its record,
//! the source of the JSON output and the summary line.

pub(crate) mod ftp;
mod get_put;
mod get_put_arguments;
mod hosts;
mod location;
mod progress;
mod representation;

pub(crate) use ftp::account::credentials;
pub(crate) use ftp::{
    CAT_PAGE, Cat, FtpShell, LIST_PAGE, List, MAIL_ABOUT, MAIL_PAGE, MAKE_DIRECTORY_PAGE,
    MIRROR_ABOUT, MIRROR_PAGE, MOVE_PAGE, Mail, MakeDirectory, Mirror, Move, REMOVE_PAGE, Remove,
    SHELL_ABOUT, SHELL_PAGE, cat, list, mail, make_directory, mirror, move_file, remove, shell,
};
pub(crate) use get_put::{get, put};
pub(crate) use get_put_arguments::{GET_ABOUT, GET_PAGE, Get, PUT_ABOUT, PUT_PAGE, Put};
