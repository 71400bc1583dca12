//! Preparation of all servers: the configuration file, overridden by the command-line flags.

use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use super::inherited_sockets;
use super::log_output;
use super::login_server::LoginState;
use super::transfer_log::TransferLog;
use super::{ftp, metrics, tftp};
use anyhow::{Context, Result};
use carrier::meters::MeterRegistry;
use std::rc::Rc;
use std::sync::Arc;
use transfer::recorder::journal_directory;

/// All servers of the command, ready to start.
pub struct Prepared {
    pub(crate) login_state: Option<LoginState>,
    pub(crate) files: Option<tftp::TftpServer>,
    pub(crate) ftp: Option<ftp::FtpServer>,
    pub(crate) transfer_log: Rc<TransferLog>,
    pub(crate) metrics: Option<metrics::EndpointSettings>,
    pub(crate) registry: Arc<MeterRegistry>,
    pub(crate) has_meters_socket: bool,
    pub(crate) flags: Flags,
}

/// Merges the configuration file and the command-line flags.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the settings are invalid or contradict each
/// other.
pub fn prepare(flags: &Flags) -> Result<Prepared> {
    // First, because descriptors that are opened later have other numbers.
    inherited_sockets::receive().context("cannot use the sockets of the service manager")?;
    carrier::check_host_supported(&flags.via)?;
    let loader = ConfigurationLoader::open(flags)?;
    if let Some(path) = &flags.log_file {
        let failure = || format!("cannot open log file {}", path.display());
        log_output::open_file(path).with_context(failure)?;
    }
    let ftp = loader.ftp()?;
    let tftp = loader.tftp()?;
    let log = flags.log();
    let has_files = ftp.is_some() || tftp.is_some();
    let journal = (loader.is_recording() && has_files).then(journal_directory);
    let transfer_log = Rc::new(TransferLog::new(journal.as_deref(), log));
    let registry = MeterRegistry::new("serve");
    let files = tftp
        .map(|settings| tftp::TftpServer::new(settings, log, Rc::clone(&transfer_log), &registry));
    let files = files.transpose()?;
    let ftp =
        ftp.map(|settings| ftp::FtpServer::new(settings, log, Rc::clone(&transfer_log), &registry));
    let ftp = ftp.transpose()?;
    let logins = loader.wants_logins().then(|| LoginState::prepare(loader.login()?, flags));
    Ok(Prepared {
        login_state: logins.transpose()?,
        files,
        ftp,
        transfer_log,
        metrics: loader.metrics(),
        registry,
        has_meters_socket: loader.has_meters_socket(),
        flags: flags.clone(),
    })
}
