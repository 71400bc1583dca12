//! FTP (RFC 959, RFC 1123 §4.1), user and server, over any byte streams.
//!
//! FTP uses two connections. Commands and replies are lines of a Telnet stream on the control
//! connection. Each file has a data connection of its own, which is closed after the file. Neither
//! engine opens connections or files or runs TLS: both are state machines that send requests to
//! their owner and receive its answers.
//!
//! ```text
//!   user::User ── commands ──►  ◄── replies ── server::Server
//!       │                                          │
//!     owner ──── data::Encoder ── wire ── data::Decoder ──── owner
//!     files                                                 files
//! ```
//!
//! - [`user::User`] runs tasks and reports the result of each; [`server::Server`] serves one
//!   session.
//! - [`data`] converts between a file and the wire: types A, E, I and L n, modes S, B, C and Z,
//!   structures F, R and P, and the formats that store 36-bit words in octets.
//! - [`Command`] and [`Reply`] represent lines as types without invalid values; no name in them
//!   contains a line end.
//! - [`listing`] writes directories in three formats and parses every known dialect.
//!
//! The owner's loop is the same for both engines: pass received bytes (`receive`), answer every
//! event (`event`), send `output` in one piece and report it (`sent`), and call `timeout` at
//! `deadline`. Bytes of a data connection never pass through the engines. If
//! [`Representation::passes_through`] returns true, the owner may let the kernel move these bytes.
//!
//! Not implemented: security mechanisms other than TLS (ADAT, MIC, CONF, ENC), mounting (SMNT), and
//! data connections that stay open for the next file.

mod address;
mod command;
pub mod data;
mod line;
pub mod listing;
mod name;
mod reply;
mod representation;
pub mod server;
mod timestamp;
pub mod user;

#[cfg(test)]
mod ftp_attacks;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod requirements;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod session_fixture;
#[cfg(test)]
mod user_tests;

pub use address::{
    AddressError, Family, parse_eprt, parse_epsv_reply, parse_lprt, parse_pasv_reply, parse_port,
    write_eprt, write_lprt, write_port,
};
pub use command::{
    COMMAND_MAX_BYTES, Command, CommandError, Epsv, HashAlgorithm, ListArgument, Mechanism, Opts,
    Protection, Range, Right, Secret, SetFacts, Site, Verb,
};
pub use name::{COMPONENT_MAX_BYTES, COMPONENTS_MAX, PATH_MAX_BYTES};
pub use name::{LocalName, Name, NameError, VirtualPath};
pub use reply::{Code, Reply, ReplyError, ReplyReader, Severity};
pub use reply::{REPLY_LINE_MAX_BYTES, REPLY_LINES_MAX, REPLY_MAX_BYTES};
pub use representation::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};
pub use timestamp::{Civil, Timestamp};
