//! TFTP server: files below one root, without authentication.
//!
//! Each listen address has one socket for requests (`request_socket`); each transfer has a socket,
//! a port and a task of its own. Requests received by broadcast or multicast are silently dropped
//! (RFC 1123 §4.2.3.5). The source address of a request may be forged, so a client that does not
//! answer gets little data: the first packet and one repetition. A declined request gets one short
//! error packet; a request that is not admitted gets no answer.
//!
//! When all transfer slots are in use, a new request displaces the oldest transfer that has never
//! been answered. Such a transfer holds no buffers except for its first packet.
//!
//! Names are resolved below the root only (`os::beneath`). Like traditional servers, a server that
//! runs as root sends only files that every user of the machine may read. Depending on its
//! configuration, the server accepts no uploads (the default), only uploads of new files, or all
//! uploads. An uploaded file appears under its name when it is complete.

mod configuration;
mod request;
mod request_socket;
mod running_transfer;
mod serve;
mod tftp_log;
mod tftp_server;

pub(super) use configuration::{TftpSettings, TftpTable};
pub(super) use request_socket::RequestSocket;
pub(super) use tftp_server::{TftpPlan, TftpServer};
