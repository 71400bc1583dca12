//! Settings of the command line, which override the configuration file.

use super::ftp::Protection;
use super::log::Log;
use super::root::Rights;
use super::start_tls_policy::StartTls;
use carrier::Route;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of the command line. An empty list or `None` leaves the setting to the file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Configuration file.
    pub config: Option<PathBuf>,
    /// Settings of the login server and of a serial console.
    pub login: LoginFlags,
    /// Root directory of the file servers.
    pub root: RootFlags,
    /// Settings of the FTP server.
    pub ftp: FtpFlags,
    /// Settings of the TFTP server.
    pub tftp: TftpFlags,
    /// Route to the clients.
    pub via: Route,
    /// Prefixes of clients that are accepted.
    pub allow: Vec<IpNet>,
    /// Prefixes of clients that are rejected.
    pub deny: Vec<IpNet>,
    /// Whether transfers are never recorded.
    pub no_record: bool,
    /// Address of the metrics endpoint.
    pub metrics: Option<SocketAddr>,
    /// Additional host names that the metrics endpoint accepts.
    pub metrics_hosts: Vec<String>,
    /// Whether the meters are not published.
    pub no_meters_socket: bool,
    /// Whether events are logged as JSON.
    pub json: bool,
    /// Whether only errors are logged.
    pub quiet: bool,
    /// File of the log instead of standard error.
    pub log_file: Option<PathBuf>,
    /// Whether a log in a file is also written to standard error.
    pub log_stderr: bool,
}

/// Settings of the login server and of a serial console.
#[derive(Clone, Debug, Default)]
pub struct LoginFlags {
    /// Cleartext listen addresses.
    pub listen: Vec<SocketAddr>,
    /// TLS listen addresses.
    pub listen_tls: Vec<SocketAddr>,
    /// START_TLS policy for clients that connect in cleartext.
    pub tls: Option<StartTls>,
    /// User file.
    pub users: Option<PathBuf>,
    /// Serial device to serve as a console.
    pub console: Option<String>,
    /// Program to run for every client, with its arguments.
    pub exec: Option<Vec<String>>,
    /// Time without input after which a session ends, in seconds.
    pub idle_timeout_s: Option<u64>,
}

/// Root directory of the file servers.
#[derive(Clone, Debug, Default)]
pub struct RootFlags {
    /// The directory.
    pub root: Option<PathBuf>,
    /// Access mode of the directory.
    pub rights: Option<Rights>,
}

/// Settings of the FTP server.
#[derive(Clone, Debug, Default)]
pub struct FtpFlags {
    /// Whether FTP is requested.
    pub is_requested: bool,
    /// Listen addresses in cleartext and AUTH TLS.
    pub listen: Vec<SocketAddr>,
    /// Listen addresses with implicit TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// TLS policy for clients that connect in cleartext.
    pub tls: Option<Protection>,
    /// User file.
    pub users: Option<PathBuf>,
    /// Whether the users of this machine may log in.
    pub system_users: bool,
}

/// Settings of the TFTP server.
#[derive(Clone, Debug, Default)]
pub struct TftpFlags {
    /// Whether TFTP is requested.
    pub is_requested: bool,
    /// Listen addresses.
    pub listen: Vec<SocketAddr>,
}

impl Flags {
    pub(super) const fn log(&self) -> Log {
        Log { is_json: self.json, is_quiet: self.quiet }
    }
}

impl LoginFlags {
    /// Returns whether a flag requests logins or a console.
    pub(super) const fn is_requested(&self) -> bool {
        !self.listen.is_empty()
            || !self.listen_tls.is_empty()
            || self.users.is_some()
            || self.exec.is_some()
            || self.console.is_some()
    }
}
