//! FTP (RFC 959, RFC 1123 §4.1), user and server, over any streams of bytes.
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
