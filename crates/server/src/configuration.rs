//! Configuration of the login server: the configuration file, overridden by command-line flags.

use super::admission::Rules;
use super::certificate::{CertificatePaths, TlsTable};
use super::console::{ConsoleFile, ConsoleSettings as Console};
use super::start_tls_policy::StartTls;
use super::suggest;
use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Port of Telnet over TLS (RFC 7590, IANA port registry).
const TELNETS_PORT: u16 = 992;
/// Offset added to the default port numbers when the server does not run as root.
const UNPRIVILEGED_PORT_OFFSET: u16 = 2300;

/// Content of the configuration file, without defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    /// The login server. Without this table, logins are served only if no other server is
    /// configured.
    pub(super) login: Option<Login>,
    pub(super) tftp: Option<super::tftp::TftpTable>,
    pub(super) ftp: Option<super::ftp::FtpTable>,
    pub(super) tls: Option<TlsTable>,
    /// Whether a record of each transfer is written; true by default.
    pub(super) record: Option<bool>,
    /// Address of the metrics endpoint.
    pub(super) metrics: Option<SocketAddr>,
    /// Host names accepted by the metrics endpoint in addition to the names of this machine.
    #[serde(default)]
    pub(super) metrics_hosts: Vec<String>,
    /// Whether the meters are available to `plumb meters`; true by default.
    pub(super) meters_socket: Option<bool>,
    #[serde(default, rename = "console")]
    pub(super) consoles: Vec<ConsoleFile>,
}

/// Table `[login]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Login {
    pub(super) listen: Option<Vec<SocketAddr>>,
    pub(super) listen_tls: Option<Vec<SocketAddr>>,
    pub(super) tls: Option<StartTls>,
    pub(super) exec: Option<Vec<String>>,
    pub(super) users: Option<PathBuf>,
    pub(super) allow: Vec<IpNet>,
    pub(super) deny: Vec<IpNet>,
    pub(super) greeting: Option<String>,
    pub(super) motd: Option<PathBuf>,
    pub(super) login_timeout_s: Option<u64>,
    pub(super) idle_timeout_s: Option<u64>,
    pub(super) sessions_max: Option<usize>,
    pub(super) sessions_per_source_max: Option<usize>,
}

impl File {
    /// Reads and parses the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or contains an unknown key or an invalid value.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read configuration file {name}"))?;
        toml::from_str(&text)
            .map_err(|error| suggest::with_suggestion(&error))
            .with_context(|| format!("invalid configuration file {name}"))
    }
}

/// Configuration with all defaults applied.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    /// Cleartext listen addresses.
    pub(super) listen: Vec<SocketAddr>,
    /// TLS listen addresses.
    pub(super) listen_tls: Vec<SocketAddr>,
    /// START_TLS policy of cleartext listeners; by default it depends on the listen address.
    pub(super) start_tls: Option<StartTls>,
    pub(super) consoles: Vec<Console>,
    pub(super) exec: Option<Vec<String>>,
    pub(super) users: Option<PathBuf>,
    pub(super) rules: Rules,
    greeting: Option<String>,
    motd: Option<PathBuf>,
    pub(super) login_timeout: Duration,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) certificate: CertificatePaths,
    /// Whether a missing certificate is generated.
    pub(super) generates_certificate: bool,
}

impl Configuration {
    /// Applies defaults to the configuration file.
    ///
    /// # Errors
    ///
    /// Returns an error if two settings exclude each other or no listen address remains.
    pub(super) fn complete(file: File, is_root: bool) -> Result<Self> {
        let File { login, tls, consoles, .. } = file;
        let login = login.unwrap_or_default();
        let consoles = consoles.into_iter().map(Console::complete).collect::<Result<Vec<_>>>()?;
        if login.exec.is_some() && login.users.is_some() {
            bail!("users and exec cannot be combined: set one of them for the login server");
        }
        if login.exec.as_ref().is_some_and(Vec::is_empty) {
            bail!("exec is empty: name a program");
        }
        let has_addresses = login.listen.is_some() || login.listen_tls.is_some();
        let is_login_configured = has_addresses || login.exec.is_some() || login.users.is_some();
        let (listen, listen_tls) = if has_addresses {
            (login.listen.unwrap_or_default(), login.listen_tls.unwrap_or_default())
        } else if is_login_configured || consoles.is_empty() {
            default_addresses(is_root)
        } else {
            // Only consoles are configured.
            (Vec::new(), Vec::new())
        };
        if listen.is_empty() && listen_tls.is_empty() && consoles.is_empty() {
            bail!("no address for the login server: set listen or listen-tls");
        }
        let generates_certificate = tls.is_none();
        let certificate = match tls {
            Some(TlsTable { certificate, key }) => CertificatePaths { certificate, key },
            None => CertificatePaths::self_signed(),
        };
        Ok(Self {
            listen,
            listen_tls,
            start_tls: login.tls,
            consoles,
            exec: login.exec,
            users: login.users,
            rules: Rules {
                allow: login.allow,
                deny: login.deny,
                sessions_max: login.sessions_max.unwrap_or(1024),
                sessions_per_source_max: login.sessions_per_source_max.unwrap_or(64),
            },
            greeting: login.greeting,
            motd: login.motd,
            login_timeout: Duration::from_secs(login.login_timeout_s.unwrap_or(60).max(1)),
            idle_timeout: login.idle_timeout_s.filter(|s| *s > 0).map(Duration::from_secs),
            certificate,
            generates_certificate,
        })
    }

    /// Returns whether the server accepts logins; false if it serves consoles only.
    pub(super) fn serves_logins(&self) -> bool {
        !self.listen.is_empty() || !self.listen_tls.is_empty()
    }

    /// Returns the greeting sent to every client.
    pub(super) fn greeting(&self) -> Vec<u8> {
        self.greeting.as_deref().map(with_cr_lf).unwrap_or_default()
    }

    /// Returns the message of the day, sent after a login. A file that cannot be read yields no
    /// message.
    pub(super) fn motd(&self) -> Vec<u8> {
        let path = self.motd.as_deref().unwrap_or(Path::new("/etc/motd"));
        std::fs::read_to_string(path).map(|text| with_cr_lf(&text)).unwrap_or_default()
    }
}

/// Returns the default listen addresses: cleartext on loopback only, TLS on all addresses.
fn default_addresses(is_root: bool) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let offset = if is_root { 0 } else { UNPRIVILEGED_PORT_OFFSET };
    let on_loopback = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, carrier::TELNET_PORT + offset)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, carrier::TELNET_PORT + offset)),
    ];
    let on_all_addresses = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, TELNETS_PORT + offset))];
    (on_loopback.to_vec(), on_all_addresses.to_vec())
}

/// Returns text with CR LF line ends, as a terminal needs.
fn with_cr_lf(text: &str) -> Vec<u8> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Vec::new();
    }
    format!("{}\r\n", text.replace('\n', "\r\n")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> Result<Configuration> {
        Configuration::complete(toml::from_str(text)?, false)
    }

    #[test]
    fn by_default_cleartext_listens_on_loopback_only() {
        let configuration = complete("").unwrap();
        assert!(configuration.listen.iter().all(|address| address.ip().is_loopback()));
        assert_eq!(configuration.listen[0].port(), 2323);
        assert_eq!(configuration.listen_tls[0].port(), 3292);
        assert!(configuration.generates_certificate);
    }

    #[test]
    fn given_settings_replace_the_defaults() {
        let configuration = complete(
            "[login]\nlisten = [\"192.0.2.1:23\"]\nexec = [\"menu\"]\nidle-timeout-s = 0\n\
             allow = [\"10.0.0.0/8\"]\n",
        );
        let configuration = configuration.unwrap();
        assert_eq!(configuration.listen, ["192.0.2.1:23".parse().unwrap()]);
        assert!(configuration.listen_tls.is_empty());
        assert_eq!(configuration.idle_timeout, None);
        assert_eq!(configuration.rules.allow.len(), 1);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(complete("[login]\nexce = [\"menu\"]\n").is_err());
        assert!(complete("[login]\nexec = []\n").is_err());
        assert!(complete("[login]\nexec = [\"a\"]\nusers = \"b\"\n").is_err());
        assert!(complete("[login]\nlisten = []\n").is_err());
        assert!(complete("[login]\nlisten = [\"nowhere\"]\n").is_err());
    }

    #[test]
    fn a_server_with_only_consoles_serves_no_logins() {
        let consoles = "[[console]]\ndevice = \"/dev/ttyS0\"\n";
        assert!(!complete(consoles).unwrap().serves_logins());
        let both = format!("[login]\nexec = [\"menu\"]\n{consoles}");
        let both = complete(&both).unwrap();
        assert!(both.serves_logins() && both.consoles.len() == 1);
    }

    #[test]
    fn tls_is_off_offered_or_required() {
        let configuration = complete("[login]\ntls = \"required\"").unwrap();
        assert_eq!(configuration.start_tls, Some(StartTls::Required));
        assert!(complete("[login]\ntls = \"perhaps\"").is_err());
    }

    #[test]
    fn lines_end_with_cr_lf() {
        assert_eq!(with_cr_lf("a\nb\n"), b"a\r\nb\r\n");
        assert_eq!(with_cr_lf(""), b"");
    }
}
