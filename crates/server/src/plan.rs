//! The configuration of all servers, validated as far as possible without opening a listener.

use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use super::ftp::FtpPlan;
use super::log_output::LogFile;
use super::login_server::LoginPlan;
use super::metrics::EndpointSettings;
use super::tftp::TftpPlan;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use transfer::recorder::journal_directory_in;

/// Configuration of all servers. A server without a configuration does not run.
pub(crate) struct Plan {
    pub(super) login: Option<LoginPlan>,
    pub(super) ftp: Option<FtpPlan>,
    pub(super) tftp: Option<TftpPlan>,
    pub(super) metrics: Option<EndpointSettings>,
    pub(super) has_meters_socket: bool,
    /// Directory of the transfer records; `None` if none are written.
    pub(super) journal: Option<PathBuf>,
    pub(super) log_file: LogFile,
    /// Whether the configuration names no server, so that the logins are those of the defaults.
    is_default: bool,
}

impl Plan {
    /// Reads the configuration file, the files that it names, the roots and the certificates.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, or if the settings are invalid or contradict each
    /// other.
    pub(super) fn load(flags: &Flags) -> Result<Self> {
        let loader = ConfigurationLoader::open(flags)?;
        let path = loader.log_file();
        let failure = || {
            let path = path.as_deref().unwrap_or("".as_ref());
            format!("cannot open log file {}", path.display())
        };
        let log_file =
            LogFile::open(path.clone(), loader.logs_to_stderr()).with_context(failure)?;
        let ftp = loader.ftp()?.map(FtpPlan::prepare).transpose()?;
        let tftp = loader.tftp()?.map(TftpPlan::prepare).transpose()?;
        let login = loader.wants_logins().then(|| LoginPlan::prepare(loader.login()?));
        let records = loader.is_recording() && (ftp.is_some() || tftp.is_some());
        Ok(Self {
            login: login.transpose()?,
            ftp,
            tftp,
            metrics: loader.metrics(),
            has_meters_socket: loader.has_meters_socket(),
            journal: records.then(|| journal_directory_in(&loader.state_directory())),
            log_file,
            is_default: loader.names_no_server(),
        })
    }

    /// Reads the configuration again. A file without a table of a server is rejected, because it is
    /// more likely truncated than a request for the logins of the defaults.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Self::load`] does, or if the configuration names no server.
    pub(super) fn reload(flags: &Flags) -> Result<Self> {
        let plan = Self::load(flags)?;
        if plan.is_default && flags.config.is_some() {
            bail!(
                "the configuration has no table of a server: [login], [ftp], [tftp], [[console]]"
            );
        }
        Ok(plan)
    }

    /// Returns the number of connections that a user-space host needs.
    pub(super) fn connections_max(&self) -> usize {
        let logins = self.login.as_ref().map_or(0, |it| it.configuration().rules.sessions_max);
        logins + self.ftp.as_ref().map_or(0, FtpPlan::connections_max)
    }
}
