//! Content of the configuration file of `plumb serve`.

use super::address_text;
use super::certificate::TlsTable;
use super::console::ConsoleFile;
use super::ftp::FtpTable;
use super::login_configuration::LoginTable;
use super::tftp::TftpTable;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Content of the configuration file, without defaults.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ConfigurationFile {
    /// The login server. Without this table, logins are served only if no other server is
    /// configured.
    pub(super) login: Option<LoginTable>,
    pub(super) tftp: Option<TftpTable>,
    pub(super) ftp: Option<FtpTable>,
    pub(super) tls: Option<TlsTable>,
    /// Whether a record of each transfer is written; true by default.
    pub(super) record: Option<bool>,
    /// Directory of the generated certificate and of the transfer records; that of the service
    /// manager or of the user by default.
    pub(super) state_directory: Option<PathBuf>,
    /// File of the log; standard error by default.
    pub(super) log_file: Option<PathBuf>,
    /// Whether a log in a file is also written to standard error; false by default.
    pub(super) log_stderr: Option<bool>,
    /// Address of the metrics endpoint.
    #[serde(default, deserialize_with = "address_text::metrics")]
    pub(super) metrics: Option<SocketAddr>,
    /// Host names accepted by the metrics endpoint in addition to the names of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) metrics_hosts: Vec<String>,
    /// Whether the meters are available to `plumb meters`; true by default.
    pub(super) meters_socket: Option<bool>,
    #[serde(default, rename = "console", skip_serializing_if = "Vec::is_empty")]
    pub(super) consoles: Vec<ConsoleFile>,
}
