//! FTP (RFC 959, RFC 1123 §4.1), user and server, over any streams of bytes.
//!
//! Two connections: commands and replies go over one, as lines of a Telnet stream; a file over
//! another, which is made for it and closed behind it. Neither end here opens a connection, a file
//! or TLS: both are state machines that ask their owner, and are told.
//!
//! ```text
//!   user::User ── commands ──►  ◄── replies ── server::Server
//!       │                                          │
//!     owner ──── data::Encoder ── wire ── data::Decoder ──── owner
//!     files                                                 files
//! ```
//!
//! - [`user::User`] takes tasks and gives each a verdict, [`server::Server`] serves one session.
//! - [`data`] holds what is between a file and the wire: types A, E, I and L n, modes S, B, C and Z,
//!   structures F, R and P, and the word formats in which 36 bits lie in octets.
//! - [`Command`] and [`Reply`] are the lines as types that cannot be wrong; no name in them has an
//!   end of line.
//! - [`listing`] writes directories in three forms and reads them in every dialect known.
//!
//! An owner's loop, for either engine: give what came (`receive`), answer every event (`event`), send
//! `output` in one piece and report it (`sent`), and call `timeout` at `deadline`. Bytes of a data
//! connection never pass through the engines: where [`Representation::passes_through`], the kernel may
//! move them.
//!
//! Left out: protection by other means than TLS (ADAT, MIC, CONF, ENC), mounting (SMNT), and data
//! connections that stay open for the next file.

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
mod attacks;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod requirements;
#[cfg(test)]
mod testing;

pub use address::{
    AddressError, Family, parse_eprt, parse_epsv_reply, parse_lprt, parse_pasv_reply, parse_port,
    write_eprt, write_lprt, write_port,
};
pub use command::{
    COMMAND_MAX_BYTES, Command, CommandError, Epsv, HashAlgorithm, Listed, Mechanism, Opts,
    Protection, Range, Right, Secret, SetFacts, Site, Verb,
};
pub use name::{COMPONENT_MAX_BYTES, COMPONENTS_MAX, PATH_MAX_BYTES};
pub use name::{LocalName, Name, NameError, VirtualPath};
pub use reply::{Code, Reply, ReplyError, ReplyReader, Severity};
pub use reply::{REPLY_LINE_MAX_BYTES, REPLY_LINES_MAX, REPLY_MAX_BYTES};
pub use representation::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};
pub use timestamp::{Civil, Timestamp};
