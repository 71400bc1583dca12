//! The servers of `plumb serve`: the login server, serial consoles, and the file servers (`tftp`,
//! `ftp`).
//!
//! A login session is a task (`login_session`) between a byte stream to the client
//! (`client_stream`) and a program on a pseudo-terminal (`program`). With a user file, a login
//! prompt comes first (`login_prompt`, `users`). Admission control limits the number of sessions
//! and the rate of password checks (`admission`). One thread runs the listeners and everything else
//! on tokio, except cleartext logins on kernel sockets, which run on a second thread (`executor`).
//! `descriptor` lets a session run on either thread.

mod admission;
mod certificate;
mod check;
mod client_stream;
mod configuration;
mod console;
mod descriptor;
pub mod examples;
mod executor;
mod fair_queue;
mod flags;
mod ftp;
mod line_writer;
mod listener;
mod log;
mod login_connection;
mod login_listeners;
mod login_prompt;
mod login_server;
mod login_session;
mod metered;
mod metrics;
mod prepare;
mod program;
mod reaper;
mod root;
mod run;
mod session_end;
mod source;
mod start_tls_policy;
mod suggest;
mod tftp;
mod throttle;
mod traffic;
mod transfer_log;
mod user_file;
mod users;
mod userspace_tcp;

pub use check::check;
pub use flags::{Flags, FtpFlags, RootFlags, TftpFlags};
pub use ftp::{Protection, prove_system_user};
pub use log::flush as flush_log;
pub use metrics::parse_address as parse_metrics_address;
pub use prepare::{Prepared, prepare};
pub use root::Rights;
pub use run::serve;
pub use start_tls_policy::StartTls;
pub use user_file::hash as hash_password;
