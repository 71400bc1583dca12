//! Configuration of all servers: the configuration file, overridden by the command-line flags.
//!
//! A flag overrides a key of the file, and a key overrides a default. Prefixes of `--allow` and
//! `--deny`, and names of `--metrics-host`, add to those of the file.

use super::certificate::CertificatePaths;
use super::configuration_file::ConfigurationFile;
use super::console::ConsoleFile;
use super::flags::Flags;
use super::ftp::FtpSettings;
use super::login_configuration::{LoginConfiguration, LoginTable};
use super::metrics::{self, EndpointSettings};
use super::shared_settings::SharedSettings;
use super::tftp::TftpSettings;
use anyhow::Result;
use os::state_directory::{service_state_directory, state_directory};
use std::path::PathBuf;
use toml_file::TomlFile;

/// Flags and configuration file, from which the settings of each server are taken.
#[derive(Clone, Debug)]
pub(super) struct ConfigurationLoader<'a> {
    flags: &'a Flags,
    file: ConfigurationFile,
    /// Whether the server runs as root, which has other default ports.
    is_root: bool,
}

impl<'a> ConfigurationLoader<'a> {
    /// Reads the configuration file that the flags name, if any.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or contains an unknown key or an invalid value.
    pub(super) fn open(flags: &'a Flags) -> Result<Self> {
        let file = flags.config.as_deref().map(|path| TomlFile::CONFIGURATION.read(path));
        let file = file.transpose()?.unwrap_or_default();
        Ok(Self { flags, file, is_root: os::user::is_root() })
    }

    /// Returns whether the login server runs: if one of its own settings is given, or if no file
    /// server runs.
    pub(super) fn wants_logins(&self) -> bool {
        let has_files = self.wants_ftp() || self.wants_tftp();
        let is_in_file = self.file.login.is_some() || !self.file.consoles.is_empty();
        !has_files || is_in_file || self.flags.login.is_requested()
    }

    /// Returns whether neither a flag nor the file requests a server.
    pub(super) fn names_no_server(&self) -> bool {
        let is_in_file = self.file.login.is_some() || !self.file.consoles.is_empty();
        let is_requested = is_in_file || self.flags.login.is_requested();
        !is_requested && !self.wants_ftp() && !self.wants_tftp()
    }

    /// Returns whether the FTP server runs: if it is requested, or if a root directory is given
    /// and no protocol is requested.
    fn wants_ftp(&self) -> bool {
        let is_for_ftp = self.flags.root.root.is_some() && !self.wants_tftp();
        self.flags.ftp.is_requested || self.file.ftp.is_some() || is_for_ftp
    }

    fn wants_tftp(&self) -> bool {
        self.flags.tftp.is_requested || self.file.tftp.is_some()
    }

    /// Returns the configuration of the login server and of the serial consoles.
    ///
    /// # Errors
    ///
    /// Returns an error if two settings exclude each other or no listen address remains.
    pub(super) fn login(&self) -> Result<LoginConfiguration> {
        let table = self.file.login.clone();
        let consoles = self.file.consoles.clone();
        LoginConfiguration::complete(table, consoles, &self.flags.login, &self.shared())
    }

    /// Returns the settings of the FTP server; `None` if it does not run.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings contradict each other, no client could connect or log in,
    /// or the user file cannot be read.
    pub(super) fn ftp(&self) -> Result<Option<FtpSettings>> {
        let table = || self.file.ftp.clone().unwrap_or_default();
        let settings = self
            .wants_ftp()
            .then(|| FtpSettings::complete(table(), &self.flags.ftp, &self.shared()));
        settings.transpose()
    }

    /// Returns the settings of the TFTP server; `None` if it does not run.
    ///
    /// # Errors
    ///
    /// Returns an error if no root or no listen address is given.
    pub(super) fn tftp(&self) -> Result<Option<TftpSettings>> {
        let table = || self.file.tftp.clone().unwrap_or_default();
        let settings = self
            .wants_tftp()
            .then(|| TftpSettings::complete(table(), &self.flags.tftp, &self.shared()));
        settings.transpose()
    }

    /// Returns the settings of the metrics endpoint; `None` if there is none.
    pub(super) fn metrics(&self) -> Option<EndpointSettings> {
        let at = self.flags.metrics.or(self.file.metrics)?;
        let configured = self.file.metrics_hosts.iter().chain(&self.flags.metrics_hosts);
        Some(EndpointSettings { at, hosts: metrics::accepted_hosts(configured) })
    }

    /// Returns whether a record of each transfer is written.
    pub(super) fn is_recording(&self) -> bool {
        !self.flags.no_record && self.file.record.unwrap_or(true)
    }

    /// Returns the file of the log; `None` for standard error.
    pub(super) fn log_file(&self) -> Option<PathBuf> {
        self.flags.log_file.clone().or_else(|| self.file.log_file.clone())
    }

    /// Returns whether a log in a file is also written to standard error.
    pub(super) fn logs_to_stderr(&self) -> bool {
        self.flags.log_stderr || self.file.log_stderr.unwrap_or(false)
    }

    /// Returns the directory of the generated certificate and of the transfer records: that of the
    /// configuration file, of the service manager, or of the user.
    pub(super) fn state_directory(&self) -> PathBuf {
        let configured = self.file.state_directory.clone();
        configured.or_else(service_state_directory).unwrap_or_else(state_directory)
    }

    /// Returns whether the meters are available to `plumb meters`.
    pub(super) fn has_meters_socket(&self) -> bool {
        !self.flags.no_meters_socket && self.file.meters_socket.unwrap_or(true)
    }

    /// Returns the configuration with the flags and all defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings of a server are invalid.
    pub(super) fn effective(&self) -> Result<ConfigurationFile> {
        let shared = self.shared();
        let file = self.file.clone();
        let mut login = self.wants_logins().then(|| self.login()).transpose()?;
        let consoles = login.as_mut().map(|login| std::mem::take(&mut login.consoles));
        let consoles = consoles.unwrap_or_default();
        let tftp = self
            .wants_tftp()
            .then(|| file.tftp.unwrap_or_default().effective(&self.flags.tftp, &shared));
        let ftp = self
            .wants_ftp()
            .then(|| file.ftp.unwrap_or_default().effective(&self.flags.ftp, &shared));
        let hosts = file.metrics_hosts.iter().chain(&self.flags.metrics_hosts);
        Ok(ConfigurationFile {
            login: login.map(LoginTable::effective),
            tftp: tftp.transpose()?,
            ftp: ftp.transpose()?,
            tls: file.tls,
            record: Some(self.is_recording()),
            state_directory: Some(self.state_directory()),
            log_file: self.log_file(),
            log_stderr: Some(self.logs_to_stderr()),
            metrics: self.flags.metrics.or(file.metrics),
            metrics_hosts: hosts.cloned().collect(),
            meters_socket: Some(self.has_meters_socket()),
            consoles: consoles.into_iter().map(ConsoleFile::effective).collect(),
        })
    }

    fn shared(&self) -> SharedSettings<'_> {
        SharedSettings {
            root: &self.flags.root,
            allow: &self.flags.allow,
            deny: &self.flags.deny,
            via: &self.flags.via,
            certificate: CertificatePaths::configured(
                self.file.tls.as_ref(),
                &self.state_directory(),
            ),
            is_root: self.is_root,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{FtpFlags, LoginFlags, RootFlags, TftpFlags};

    /// Returns which servers run: logins, FTP, TFTP.
    fn servers(flags: &Flags, text: &str) -> [bool; 3] {
        let file = toml::from_str(text).unwrap();
        let loader = ConfigurationLoader { flags, file, is_root: false };
        [loader.wants_logins(), loader.wants_ftp(), loader.wants_tftp()]
    }

    #[test]
    fn without_a_request_there_are_only_logins() {
        assert_eq!(servers(&Flags::default(), ""), [true, false, false]);
        let loader = ConfigurationLoader {
            flags: &Flags::default(),
            file: toml::from_str("").unwrap(),
            is_root: false,
        };
        assert!(loader.ftp().unwrap().is_none() && loader.tftp().unwrap().is_none());
    }

    #[test]
    fn a_root_directory_without_a_protocol_is_served_by_ftp() {
        let root = RootFlags { root: Some("/srv".into()), rights: None };
        let flags = Flags { root, ..Flags::default() };
        assert_eq!(servers(&flags, ""), [false, true, false]);
        assert_eq!(servers(&flags, "[tftp]\n"), [false, false, true]);
        assert_eq!(servers(&flags, "[login]\n"), [true, true, false]);
        let tftp = TftpFlags { is_requested: true, ..TftpFlags::default() };
        let flags = Flags { tftp, ..flags };
        assert_eq!(servers(&flags, ""), [false, false, true]);
        let ftp = FtpFlags { is_requested: true, ..FtpFlags::default() };
        assert_eq!(servers(&Flags { ftp, ..flags }, ""), [false, true, true]);
    }

    #[test]
    fn a_setting_of_the_login_server_requests_logins_in_addition_to_files() {
        let with = |login: LoginFlags| {
            let flags = Flags { login, ..Flags::default() };
            servers(&flags, "[ftp]\nroot = \"/srv\"\n")
        };
        assert_eq!(with(LoginFlags::default()), [false, true, false]);
        let exec = Some(vec!["menu".to_owned()]);
        assert_eq!(with(LoginFlags { exec, ..LoginFlags::default() }), [true, true, false]);
        let listen = vec!["[::1]:23".parse().unwrap()];
        assert_eq!(with(LoginFlags { listen, ..LoginFlags::default() }), [true, true, false]);
    }

    #[test]
    fn flags_override_the_file_and_prefixes_add_to_it() {
        let file = "metrics = \"127.0.0.1:9\"\n[tftp]\nroot = \"/srv\"\nallow = [\"10.0.0.0/8\"]\n";
        let flags = Flags {
            allow: vec!["192.0.2.0/24".parse().unwrap()],
            metrics: Some("127.0.0.1:10".parse().unwrap()),
            no_record: true,
            ..Flags::default()
        };
        let loader = ConfigurationLoader {
            flags: &flags,
            file: toml::from_str(file).unwrap(),
            is_root: false,
        };
        assert_eq!(loader.metrics().unwrap().at.port(), 10);
        assert!(!loader.is_recording() && loader.has_meters_socket());
        let rules = loader.tftp().unwrap().unwrap().rules().allow.clone();
        assert_eq!(rules, ["10.0.0.0/8".parse().unwrap(), "192.0.2.0/24".parse().unwrap()]);
    }
}
