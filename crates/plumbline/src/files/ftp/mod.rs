//! FTP commands: arguments, the files that a command selects, and its output.

pub(crate) mod account;
mod batch;
mod command_options;
mod command_output;
mod listing;
mod mail;
mod manage;
mod mirror;
mod removal;
mod rules;
mod run_command;
mod shell;

pub(super) use batch::{get_files, put_files};
pub(super) use command_options::{ConnectionOptions, TransferArguments};
pub(crate) use mail::{MAIL_ABOUT, MAIL_PAGE, Mail, mail};
pub(crate) use manage::{
    CAT_PAGE, Cat, LIST_PAGE, List, MAKE_DIRECTORY_PAGE, MOVE_PAGE, MakeDirectory, Move,
    REMOVE_PAGE, Remove, cat, list, make_directory, move_file, remove,
};
pub(crate) use mirror::{MIRROR_ABOUT, MIRROR_PAGE, Mirror, mirror};
pub(crate) use shell::{FtpShell, SHELL_ABOUT, SHELL_PAGE, shell};
