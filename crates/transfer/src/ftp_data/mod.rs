//! Data connections of FTP (RFC 959 §3), for the client and the server.
//!
//! ```text
//! tls_stream       TLS of a data connection, in either role
//! data_socket      the socket below TLS
//! blocking_socket  a socket that the thread of a transfer reads and writes
//! ```
//!
//! The client moves the bytes in a thread that blocks, the server in a task.

mod blocking_socket;
mod data_socket;
mod tls_stream;

pub(crate) use blocking_socket::{BlockingSocket, Canceller, complete};
pub use data_socket::DataSocket;
pub use tls_stream::DataTlsStream;
