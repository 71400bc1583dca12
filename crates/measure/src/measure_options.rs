//! Options of a measurement: the target, its connection, and the extent of the measurement.

use super::prompt::Prompts;
use super::session_parameters::Login;
use super::target::MeasureTarget;
use anyhow::Result;
use carrier::{AddressFamilies, Route};
use net::time::Duration;
use records::severity::Severity;
use std::path::PathBuf;
use transfer::ftp::FtpCredentials;
use transfer::url::Url;

/// Default number of keys whose echo is measured.
pub(super) const DEFAULT_KEYS: u32 = 200;

/// Options of a measurement.
pub struct MeasureOptions {
    /// Target; the URL of a file server includes the user name and the password, if known.
    pub target: MeasureTarget,
    /// Route to a host; other targets ignore it.
    pub via: Route,
    /// Address families allowed for a host.
    pub families: AddressFamilies,
    /// Timeout for the opening of the connection, and for any expected data.
    pub timeout: Duration,
    /// File of trusted certificate authorities (PEM), instead of the certificate of the first
    /// session.
    pub ca: Option<PathBuf>,
    /// Whether data is compared with a known pattern: the echo of typed keys, or written files.
    pub compares_pattern: bool,
    /// Options of a measured login.
    pub login: LoginOptions,
    /// Options of measured files.
    pub files: FileOptions,
    /// Observation time of a running plumb; `None` selects 2 s.
    pub observation_time: Option<Duration>,
    /// Displays the status of the measurement, on one line; an empty text erases it. `None`
    /// disables the display.
    pub progress: Option<fn(&str)>,
    /// Receives a wait of some seconds for a prompt, if there is no display. `None` disables this.
    pub report: Option<fn(&str)>,
}

/// Options of a measured login.
pub struct LoginOptions {
    /// Credentials for a login prompt.
    pub credentials: Option<Login>,
    /// Endings of the shell's prompt.
    pub prompts: Prompts,
    /// Command that prints the screenful, instead of the default one.
    pub command: Option<String>,
    /// Number of keys whose echo is measured; `None` selects 200, or fewer on a slow path.
    pub keys: Option<u32>,
}

/// Options of measured files.
pub struct FileOptions {
    /// Size of the largest transfer, in bytes.
    pub largest_bytes: u64,
    /// Number of transfers of each size.
    pub rounds: u32,
    /// Whether files are written, read back and removed, instead of the transfer of existing files.
    pub writes: bool,
    /// Size of a file whose transfer time is predicted, in bytes.
    pub estimate_bytes: Option<u64>,
    /// Returns the credentials for the FTP server of a URL.
    pub credentials: fn(&Url) -> Result<FtpCredentials>,
    /// Receives messages for the user.
    pub message: fn(Severity, &str),
}
