//! Command-line arguments of `plumb serve`.

use crate::heading;
use crate::record_options::RecordOptions;
use carrier::Route;
use ipnet::IpNet;
use server::{Flags, FtpFlags, LoginFlags, Protection, Rights, RootFlags, StartTls, TftpFlags};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Command-line arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("files").multiple(true))]
pub(crate) struct Arguments {
    /// Read this configuration file [default: none]
    #[arg(long, value_name = "file")]
    pub(super) config: Option<PathBuf>,
    /// Check the configuration and the other arguments, report the result, and exit
    #[arg(long)]
    pub(super) check: bool,
    /// Check as --check does, but with the rights of this user, such as the user of the service; needs
    /// root
    #[arg(long, value_name = "user")]
    pub(super) check_as: Option<String>,
    /// Print the configuration with the other arguments and all defaults as TOML, and exit
    #[arg(long)]
    pub(super) print_config: bool,
    /// Read a password from standard input, print its hash for the user file, and exit
    #[arg(long)]
    pub(super) hash_password: bool,
    /// Authenticate the user that standard input names with PAM, and exit
    #[arg(long, hide = true)]
    pub(super) prove_system_user: bool,
    /// Listen on this address and port in cleartext; may be repeated [default: loopback, port 23;
    /// 2323 without root]
    #[arg(long, value_name = "address:port", help_heading = heading::LOGIN)]
    listen: Vec<SocketAddr>,
    /// Listen on this address and port with TLS; may be repeated [default: all addresses, port 992;
    /// 3292 without root]
    #[arg(long, value_name = "address:port", help_heading = heading::LOGIN)]
    listen_tls: Vec<SocketAddr>,
    /// START_TLS policy for clients that connect in cleartext [default: offered, except on loopback
    /// addresses]
    #[arg(long, value_name = "off|offered|required", help_heading = heading::LOGIN)]
    tls: Option<StartTlsArgument>,
    /// Log in the users of this file instead of the system's users
    #[arg(long, value_name = "file", conflicts_with = "exec", help_heading = heading::LOGIN)]
    users: Option<PathBuf>,
    /// Serve this serial line instead of logins, such as /dev/ttyUSB0 or
    /// '/dev/ttyUSB0?baud=115200'; one client has write access, any number of clients watch
    #[arg(long, value_name = "device", conflicts_with_all = ["users", "exec"],
          help_heading = heading::LOGIN)]
    console: Option<String>,
    /// Run this program with all remaining arguments for every client, without a login
    #[arg(long, value_name = "program", num_args = 1.., allow_hyphen_values = true,
          help_heading = heading::LOGIN)]
    exec: Option<Vec<String>>,
    #[command(flatten)]
    root: RootArguments,
    #[command(flatten)]
    ftp: FtpArguments,
    #[command(flatten)]
    tftp: TftpArguments,
    /// Serve on plumb's own TCP/IP stack on this device, at all addresses of the stack
    #[arg(long, value_name = "kernel|tun:name|tap:name", default_value = "kernel",
          help_heading = heading::CONNECTION)]
    via: Route,
    /// Accept only clients in this prefix; may be repeated [default: all clients]
    #[arg(long, value_name = "prefix", help_heading = heading::LIMITS)]
    allow: Vec<IpNet>,
    /// Reject clients in this prefix; may be repeated
    #[arg(long, value_name = "prefix", help_heading = heading::LIMITS)]
    deny: Vec<IpNet>,
    /// End a session after this many seconds without input [default: never]
    #[arg(long, value_name = "seconds", help_heading = heading::LIMITS)]
    idle_timeout: Option<u64>,
    #[command(flatten)]
    record_options: RecordOptions,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "address:port", value_parser = server::parse_metrics_address,
          help_heading = heading::METERS)]
    metrics: Option<SocketAddr>,
    /// Accept this host name in requests for metrics, besides this machine's name and addresses;
    /// may be repeated
    #[arg(long, value_name = "name", help_heading = heading::METERS)]
    metrics_host: Vec<String>,
    /// Do not publish the meters to plumb meters
    #[arg(long, help_heading = heading::METERS)]
    no_meters_socket: bool,
    /// Append the log to this file instead of standard error; SIGUSR1 opens it again
    #[arg(long, value_name = "file", help_heading = heading::OUTPUT)]
    log_file: Option<PathBuf>,
    /// With --log-file, also log on standard error, which is the journal of a service
    #[arg(long, help_heading = heading::OUTPUT)]
    log_stderr: bool,
    /// Log events as JSON, one object per line
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    /// Log nothing but errors
    #[arg(short, long, help_heading = heading::OUTPUT)]
    quiet: bool,
}

/// Command-line arguments shared by the file servers.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct RootArguments {
    /// Serve this directory: by FTP, or by the protocols selected with --ftp and --tftp
    #[arg(long, value_name = "directory", group = "files", help_heading = heading::FILES)]
    root: Option<PathBuf>,
    /// Allow downloads only, which is the default
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    read_only: bool,
    /// Also allow uploads of new files
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    write_once: bool,
    /// Also allow uploads that replace existing files
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    writable: bool,
}

/// Command-line arguments of the FTP server.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct FtpArguments {
    /// Serve files by FTP
    #[arg(long, group = "files", help_heading = heading::FTP)]
    ftp: bool,
    /// Listen for FTP on this address and port, in cleartext and AUTH TLS; may be repeated
    /// [default: loopback, port 21; 2121 without root]
    #[arg(long, value_name = "address:port", requires = "ftp", help_heading = heading::FTP)]
    ftp_listen: Vec<SocketAddr>,
    /// Listen for FTP on this address and port with implicit TLS; may be repeated
    #[arg(long, value_name = "address:port", requires = "ftp", help_heading = heading::FTP)]
    ftp_listen_tls: Vec<SocketAddr>,
    /// TLS policy for clients that connect in cleartext [default: offered]
    #[arg(long, value_name = "off|offered|required", requires = "ftp",
          help_heading = heading::FTP)]
    ftp_tls: Option<ProtectionArgument>,
    /// Serve the users of this file instead of anonymous users
    #[arg(long, value_name = "file", requires = "ftp", help_heading = heading::FTP)]
    ftp_users: Option<PathBuf>,
    /// Serve the home directories of this machine's users by FTP, with PAM authentication
    #[arg(long, requires = "ftp", help_heading = heading::FTP)]
    ftp_system_users: bool,
}

/// Command-line arguments of the TFTP server.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct TftpArguments {
    /// Serve files by TFTP
    #[arg(long, group = "files", help_heading = heading::TFTP)]
    tftp: bool,
    /// Listen for TFTP on this address and port; may be repeated [default: loopback, port 69; 6969
    /// without root]
    #[arg(long, value_name = "address:port", requires = "tftp", help_heading = heading::TFTP)]
    tftp_listen: Vec<SocketAddr>,
}

/// START_TLS policy for clients that connect in cleartext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StartTlsArgument {
    /// START_TLS is not offered.
    Off,
    /// START_TLS is offered; clients that do not support it continue in cleartext.
    Offered,
    /// Clients that do not support START_TLS are rejected.
    Required,
}

impl From<StartTlsArgument> for StartTls {
    fn from(argument: StartTlsArgument) -> Self {
        match argument {
            StartTlsArgument::Off => Self::Off,
            StartTlsArgument::Offered => Self::Offered,
            StartTlsArgument::Required => Self::Required,
        }
    }
}

/// TLS policy of FTP sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProtectionArgument {
    /// TLS is not available.
    Off,
    /// Clients may use TLS.
    Offered,
    /// TLS is required for logins and for data connections.
    Required,
}

impl From<ProtectionArgument> for Protection {
    fn from(argument: ProtectionArgument) -> Self {
        match argument {
            ProtectionArgument::Off => Self::Off,
            ProtectionArgument::Offered => Self::Offered,
            ProtectionArgument::Required => Self::Required,
        }
    }
}

impl RootArguments {
    fn to_flags(&self) -> RootFlags {
        let rights = match self {
            Self { read_only: true, .. } => Some(Rights::ReadOnly),
            Self { write_once: true, .. } => Some(Rights::WriteOnce),
            Self { writable: true, .. } => Some(Rights::Writable),
            _ => None,
        };
        RootFlags { root: self.root.clone(), rights }
    }
}

impl FtpArguments {
    fn to_flags(&self) -> FtpFlags {
        FtpFlags {
            is_requested: self.ftp,
            listen: self.ftp_listen.clone(),
            listen_tls: self.ftp_listen_tls.clone(),
            tls: self.ftp_tls.map(Protection::from),
            users: self.ftp_users.clone(),
            system_users: self.ftp_system_users,
        }
    }
}

impl TftpArguments {
    fn to_flags(&self) -> TftpFlags {
        TftpFlags { is_requested: self.tftp, listen: self.tftp_listen.clone() }
    }
}

impl Arguments {
    fn login_flags(&self) -> LoginFlags {
        LoginFlags {
            listen: self.listen.clone(),
            listen_tls: self.listen_tls.clone(),
            tls: self.tls.map(StartTls::from),
            users: self.users.clone(),
            console: self.console.clone(),
            exec: self.exec.clone(),
            idle_timeout_s: self.idle_timeout,
        }
    }

    /// Returns the settings that override the configuration file.
    pub(super) fn to_flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            login: self.login_flags(),
            root: self.root.to_flags(),
            ftp: self.ftp.to_flags(),
            tftp: self.tftp.to_flags(),
            via: self.via.clone(),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            no_record: self.record_options.no_record,
            metrics: self.metrics,
            metrics_hosts: self.metrics_host.clone(),
            no_meters_socket: self.no_meters_socket,
            json: self.json,
            quiet: self.quiet,
            log_file: self.log_file.clone(),
            log_stderr: self.log_stderr,
        }
    }
}
