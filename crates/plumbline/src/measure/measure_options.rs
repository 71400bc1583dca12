//! Options of a measurement: the target, its connection, and the extent of the measurement.

use super::login_session::Login;
use super::prompt::Prompts;
use super::target::MeasureTarget;
use anyhow::Result;
use carrier::{AddressFamilies, Route};
use net::time::Duration;
use std::path::PathBuf;
use transfer::ftp::FtpCredentials;
use transfer::url::Url;

/// Options of a measurement.
pub(crate) struct MeasureOptions {
    /// Target; the URL of a file server includes the user name and the password, if known.
    pub(crate) target: MeasureTarget,
    /// Route to a host; other targets ignore it.
    pub(crate) via: Route,
    /// Address families allowed for a host.
    pub(crate) families: AddressFamilies,
    /// Timeout for the opening of the connection, and for any expected data.
    pub(crate) timeout: Duration,
    /// File of trusted certificate authorities (PEM), instead of the certificate of the first
    /// session.
    pub(crate) ca: Option<PathBuf>,
    /// Whether data is compared with a known pattern: the echo of typed keys, or written files.
    pub(crate) compares_pattern: bool,
    /// Options of a measured login.
    pub(crate) login: LoginOptions,
    /// Options of measured files.
    pub(crate) files: FileOptions,
    /// Observation time of a running plumb; `None` selects 2 s.
    pub(crate) observation_time: Option<Duration>,
    /// Displays the status of the measurement, on one line; an empty text erases it. `None`
    /// disables the display.
    pub(crate) progress: Option<fn(&str)>,
}

/// Options of a measured login.
pub(crate) struct LoginOptions {
    /// Credentials for a login prompt.
    pub(crate) credentials: Option<Login>,
    /// Endings of the shell's prompt.
    pub(crate) prompts: Prompts,
    /// Command that prints the screenful, instead of the default one.
    pub(crate) command: Option<String>,
    /// Number of keys whose echo is measured.
    pub(crate) keys: u32,
}

/// Options of measured files.
pub(crate) struct FileOptions {
    /// Size of the largest transfer, in bytes.
    pub(crate) largest_bytes: u64,
    /// Number of transfers of each size.
    pub(crate) rounds: u32,
    /// Whether files are written, read back and removed, instead of the transfer of existing files.
    pub(crate) writes: bool,
    /// Size of a file whose transfer time is predicted, in bytes.
    pub(crate) estimate_bytes: Option<u64>,
    /// Returns the credentials for the FTP server of a URL.
    pub(crate) credentials: fn(&Url) -> Result<FtpCredentials>,
    /// Receives messages for the user.
    pub(crate) message: fn(&str),
}
