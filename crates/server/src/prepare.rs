//! Preparation of all servers: the configuration file, overridden by the command-line flags.

use super::configuration::File;
use super::flags::Flags;
use super::log::Log;
use super::login_server::{LoginState, prepare_logins};
use super::transfer_log::TransferLog;
use super::{ftp, metrics, tftp};
use anyhow::Result;
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
    carrier::check_host_supported(&flags.via)?;
    let mut file = flags.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let prefixes = (flags.allow.as_slice(), flags.deny.as_slice());
    let is_root = os::user::is_root();
    let ftp = ftp_settings(flags, &file)?;
    let table = file.tftp.take();
    let root = &flags.root;
    let settings = tftp::TftpSettings::complete(table, &flags.tftp, root, prefixes, is_root)?;
    let log = Log { is_json: flags.json, is_quiet: flags.quiet };
    let is_recording = !flags.no_record && file.record.unwrap_or(true);
    let journal = (is_recording && (settings.is_some() || ftp.is_some())).then(journal_directory);
    let transfer_log = Rc::new(TransferLog::new(journal.as_deref(), log));
    let registry = MeterRegistry::new("serve");
    let has_meters_socket = !flags.no_meters_socket && file.meters_socket.unwrap_or(true);
    let files = settings
        .map(|settings| tftp::TftpServer::new(settings, log, Rc::clone(&transfer_log), &registry));
    let files = files.transpose()?;
    let ftp =
        ftp.map(|settings| ftp::FtpServer::new(settings, log, Rc::clone(&transfer_log), &registry));
    let ftp = ftp.transpose()?;
    let metrics = flags.metrics.or(file.metrics).map(|at| {
        let configured = file.metrics_hosts.iter().chain(&flags.metrics_hosts);
        metrics::EndpointSettings { at, hosts: metrics::accepted_hosts(configured) }
    });
    let has_files = files.is_some() || ftp.is_some();
    let wants_logins = flags.wants_logins(&file, has_files);
    let login_state = wants_logins.then(|| prepare_logins(flags, file)).transpose()?;
    let flags = flags.clone();
    Ok(Prepared {
        login_state,
        files,
        ftp,
        transfer_log,
        metrics,
        registry,
        has_meters_socket,
        flags,
    })
}

/// Merges the configuration file and the command-line flags for FTP.
pub(crate) fn ftp_settings(flags: &Flags, file: &File) -> Result<Option<ftp::FtpSettings>> {
    let root = &flags.root;
    let has_tftp = flags.tftp.is_requested || file.tftp.is_some();
    let shared = ftp::Shared {
        root,
        is_for_ftp: root.root.is_some() && !has_tftp,
        prefixes: (&flags.allow, &flags.deny),
        certificate: file.tls.as_ref(),
        is_root: os::user::is_root(),
    };
    ftp::FtpSettings::complete(file.ftp.clone(), &flags.ftp, &shared)
}

impl Flags {
    /// Returns whether the login server runs: if one of its own settings is given, or if no file
    /// server runs.
    pub(crate) fn wants_logins(&self, file: &File, has_files: bool) -> bool {
        !has_files
            || file.login.is_some()
            || !file.consoles.is_empty()
            || !self.listen.is_empty()
            || !self.listen_tls.is_empty()
            || self.users.is_some()
            || self.exec.is_some()
            || self.console.is_some()
    }
}
