//! Data transfer of FTP (RFC 959 §3), for the client and the server.
//!
//! # Theory of operation
//!
//! ```text
//!  file ──────── sendfile ──────────────► socket         the kernel moves the bytes
//!  file ◄─────── splice, pipe ─────────── socket
//!  file ◄─────── copy ──────────► [TLS] ◄─► socket       bytes are unchanged
//!  file ◄─ conversion, steps ───► [TLS] ◄─► socket       text, blocks, compression, words
//! ```
//!
//! A [`DataTransfer`] moves the bytes of one data connection. Its [`TransferPlan`] selects the
//! mechanism: the kernel moves unchanged bytes of a plain kernel socket, TLS and the user-space TCP
//! need a copy, and every other representation is converted. If the kernel does not support
//! `sendfile` or `splice` for a file, the transfer continues with copies.
//!
//! The code is asynchronous and exists once. Its environment differs in three places:
//!
//! - The *socket* ([`DataSocket`]) blocks or is polled. A future over a blocking socket is complete
//!   after one poll, so the client runs it in a thread. The server, and the client for a small
//!   file, poll the same future on tokio.
//! - The *driver* ([`TransferDriver`]) waits for the rate limit, counts progress, charges a meter,
//!   and chooses the thread of a conversion. Deflated data may expand to a thousand times its size,
//!   so a server that runs all sessions in one thread runs the [`Steps`] of a large conversion
//!   elsewhere.
//! - The *local end* is a [`FileSource`], a [`FileSink`], or, for listings, a source of [`Pieces`].
//!   A sink enforces its own limits and may need only a part of the file.
//!
//! A small file is moved without a thread or a task, as far as the socket accepts or contains the
//! data ([`send_immediately`], [`receive_immediately`]). The transfer continues with the rest.
//!
//! In stream mode the end of the connection is the end of the file. A [`DataConnection`] therefore
//! ends in an orderly way only after the whole file: by shutdown, and in TLS by close_notify. It is
//! closed if the sink needs no more data. In all other cases, dropping the connection resets it,
//! also if the future is dropped, so that the peer cannot mistake a truncated file for a complete
//! one. [`TransferStats`] is filled while the transfer runs and stays valid after an abort.
//!
//! ```text
//! data_transfer  send and receive: kernel, copy, conversion; small files at once
//! environment    plan, socket, driver and local end of a transfer
//! connection     cleartext or TLS, blocking and asynchronous sockets, orderly end, reset
//! conversion     steps between a file and its representation
//! splice_pipe    a pipe through which the kernel moves received data
//! tls_stream     TLS of a data connection, in either role
//! data_stats     observations of a data connection, for its record
//! ```

mod connection;
mod conversion;
mod data_stats;
mod data_transfer;
mod environment;
mod splice_pipe;
mod tls_stream;

pub(crate) use connection::{BlockingSocket, Canceller, complete};
pub use connection::{DataConnection, reset_on_close};
pub use data_stats::{DataStats, TransferStats, nanos_between};
pub use data_transfer::{DataTransfer, ReceiveBuffer, receive_immediately, send_immediately};
pub use environment::{
    DataSocket, EncodedPiece, FileSink, FileSource, PieceSizes, Pieces, Room, Steps,
    TransferDriver, TransferFailure, TransferPlan,
};
pub use splice_pipe::SplicePipe;
pub use tls_stream::DataTlsStream;
