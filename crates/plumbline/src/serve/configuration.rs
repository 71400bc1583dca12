//! What the server is to do: from its file, and from flags, which beat the file.

use super::admission::Rules;
use super::certificate::Files;
use super::console::{ConsoleFile, Settings as Console};
use super::entrance::StartTls;
use super::spelling;
use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port of Telnet in TLS (RFC 7590 and the registry of ports).
const TELNETS_PORT: u16 = 992;
/// What is added to a port where only root may have the usual one.
const HIGH: u16 = 2300;

/// The file, as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    /// The login server; without this table there is one unless there is a table of another.
    pub(super) login: Option<Login>,
    pub(super) tftp: Option<super::tftp::Table>,
    pub(super) ftp: Option<super::ftp::Table>,
    pub(super) tls: Option<Tls>,
    /// Whether records of the transfers are kept; they are, if it is not said.
    pub(super) record: Option<bool>,
    /// Where it is told what the servers have done.
    pub(super) metrics: Option<SocketAddr>,
    /// By which names it is asked for, besides those of this machine.
    #[serde(default)]
    pub(super) metrics_hosts: Vec<String>,
    /// Whether the meters are shown to `plumb meters`; they are, if it is not said.
    pub(super) meters_socket: Option<bool>,
    #[serde(default, rename = "console")]
    pub(super) consoles: Vec<ConsoleFile>,
}

/// The login server.
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

/// The certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tls {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or has a word that means nothing.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the configuration {name} cannot be read"))?;
        toml::from_str(&text)
            .map_err(|error| spelling::explained(&error))
            .with_context(|| format!("the configuration {name} makes no sense"))
    }
}

/// What the server is to do, with nothing left open.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    /// In cleartext.
    pub(super) listen: Vec<SocketAddr>,
    /// In TLS.
    pub(super) listen_tls: Vec<SocketAddr>,
    /// What of TLS those hear who come in cleartext; where it is not said, it depends on the place.
    pub(super) start_tls: Option<StartTls>,
    pub(super) consoles: Vec<Console>,
    pub(super) exec: Option<Vec<String>>,
    pub(super) users: Option<PathBuf>,
    pub(super) rules: Rules,
    greeting: Option<String>,
    motd: Option<PathBuf>,
    pub(super) login_timeout: Duration,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) certificate: Files,
    /// Whether the certificate is made if there is none.
    pub(super) makes_certificate: bool,
}

impl Configuration {
    /// Completes what the file says.
    ///
    /// # Errors
    ///
    /// If two things exclude each other, or a number is out of range.
    pub(super) fn complete(file: File, is_root: bool) -> Result<Self> {
        let File { login, tls, consoles, .. } = file;
        let login = login.unwrap_or_default();
        let consoles = consoles.into_iter().map(Console::complete).collect::<Result<Vec<_>>>()?;
        if login.exec.is_some() && login.users.is_some() {
            bail!("a login server has either users or one program for everybody, not both");
        }
        if login.exec.as_ref().is_some_and(Vec::is_empty) {
            bail!("exec names no program");
        }
        let is_said = login.listen.is_some() || login.listen_tls.is_some();
        let is_login = is_said || login.exec.is_some() || login.users.is_some();
        let (listen, listen_tls) = if is_said {
            (login.listen.unwrap_or_default(), login.listen_tls.unwrap_or_default())
        } else if is_login || consoles.is_empty() {
            default_places(is_root)
        } else {
            // Consoles alone.
            (Vec::new(), Vec::new())
        };
        if listen.is_empty() && listen_tls.is_empty() && consoles.is_empty() {
            bail!("the login server listens nowhere: give it an address");
        }
        let makes_certificate = tls.is_none();
        let certificate = match tls {
            Some(Tls { certificate, key }) => Files { certificate, key },
            None => Files::of_our_own(),
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
            makes_certificate,
        })
    }

    /// Returns whether anybody can log in, and not only look at consoles.
    pub(super) fn serves_logins(&self) -> bool {
        !self.listen.is_empty() || !self.listen_tls.is_empty()
    }

    /// Returns what is said to everybody who comes.
    pub(super) fn greeting(&self) -> Vec<u8> {
        self.greeting.as_deref().map(lines).unwrap_or_default()
    }

    /// Returns what is said to who has logged in; a file that is not there says nothing.
    pub(super) fn motd(&self) -> Vec<u8> {
        let path = self.motd.as_deref().unwrap_or(Path::new("/etc/motd"));
        std::fs::read_to_string(path).map(|text| lines(&text)).unwrap_or_default()
    }
}

/// Returns where a server listens that was told nothing: in cleartext at loopback, in TLS
/// everywhere.
fn default_places(is_root: bool) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let add = if is_root { 0 } else { HIGH };
    let at_loopback = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, crate::carry::TELNET_PORT + add)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, crate::carry::TELNET_PORT + add)),
    ];
    let everywhere = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, TELNETS_PORT + add))];
    (at_loopback.to_vec(), everywhere.to_vec())
}

/// Returns text as a terminal wants it, which ends lines by CR LF.
fn lines(text: &str) -> Vec<u8> {
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
    fn without_a_word_cleartext_is_at_loopback_alone() {
        let configuration = complete("").unwrap();
        assert!(configuration.listen.iter().all(|place| place.ip().is_loopback()));
        assert_eq!(configuration.listen[0].port(), 2323);
        assert_eq!(configuration.listen_tls[0].port(), 3292);
        assert!(configuration.makes_certificate);
    }

    #[test]
    fn what_is_said_is_done_and_nothing_else() {
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
    fn what_makes_no_sense_is_refused() {
        assert!(complete("[login]\nexce = [\"menu\"]\n").is_err());
        assert!(complete("[login]\nexec = []\n").is_err());
        assert!(complete("[login]\nexec = [\"a\"]\nusers = \"b\"\n").is_err());
        assert!(complete("[login]\nlisten = []\n").is_err());
        assert!(complete("[login]\nlisten = [\"nowhere\"]\n").is_err());
    }

    #[test]
    fn consoles_alone_are_no_login_server() {
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
    fn lines_end_as_a_terminal_wants_it() {
        assert_eq!(lines("a\nb\n"), b"a\r\nb\r\n");
        assert_eq!(lines(""), b"");
    }
}
