//! The servers of `plumb serve`: the login server, serial consoles, and the file servers (`tftp`,
//! `ftp`).
//!
//! A Telnet session is a task (`telnet_session`) between a byte stream to the client
//! (`client_stream`) and a back end (`session_backend`): a login (`login_session`), which runs a
//! program on a pseudo-terminal (`program`), or a serial console (`console`). With a user file, a
//! login prompt comes first (`login_prompt`, `users`). Admission control limits the number of
//! sessions and the rate of password checks (`admission`). One thread runs the listeners and
//! all sessions on tokio.
//!
//! The flags and the configuration file are merged in one place (`configuration_loader`), which
//! returns the settings of each server. The start and each reload load a `plan`, open its listeners,
//! and apply it to the `running_servers`: completely, or after an error not at all.

mod address_text;
mod admission;
mod are_you_there;
mod certificate;
mod certificate_validity;
mod check;
mod client_stream;
mod configuration_file;
mod configuration_loader;
mod console;
mod effective_configuration;
pub mod examples;
mod fair_queue;
mod flags;
mod ftp;
mod go_ahead;
mod inherited_sockets;
mod line_writer;
mod listen_addresses;
mod listener;
mod log;
mod log_file;
mod log_line;
mod log_output;
mod log_text;
mod login_configuration;
mod login_connection;
mod login_listeners;
mod login_prompt;
mod login_server;
mod login_session;
mod metered;
mod metrics;
mod plan;
mod prepare;
mod program;
mod reaper;
mod resources;
mod root;
mod run;
mod running_servers;
mod send_queue;
mod session_backend;
mod session_end;
mod session_id;
mod session_shutdown;
mod shared_settings;
mod socket_set;
mod source;
mod start_tls_policy;
mod telnet_client;
mod telnet_session;
mod tftp;
mod throttle;
mod traffic;
mod transfer_log;
mod user_file;
mod users;
mod userspace_tcp;

pub use check::check;
pub use effective_configuration::effective_configuration;
pub use flags::{Flags, FtpFlags, LoginFlags, RootFlags, TftpFlags};
pub use ftp::{Protection, prove_system_user};
pub use log::flush as flush_log;
pub use metrics::parse_address as parse_metrics_address;
pub use prepare::{Prepared, prepare};
pub use root::Rights;
pub use run::serve;
pub use start_tls_policy::StartTls;
pub use user_file::hash as hash_password;
