//! Configuration of the login server and of the serial consoles: flags, configuration file,
//! defaults.

use super::address_text;
use super::admission::Rules;
use super::certificate::CertificatePaths;
use super::console::{ConsoleFile, ConsoleSettings};
use super::flags::LoginFlags;
use super::listen_addresses::ListenAddresses;
use super::shared_settings::SharedSettings;
use super::start_tls_policy::StartTls;
use anyhow::{Result, bail};
use carrier::Route;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const SESSIONS_MAX: usize = 1024;
const SESSIONS_PER_SOURCE_MAX: usize = 64;
const LOGIN_TIMEOUT_S: u64 = 60;
/// Message of the day, unless the configuration names another file.
const MOTD: &str = "/etc/motd";
/// Maximum of a configured timeout in seconds. A deadline after a much longer time exceeds the range
/// of the clock.
const TIMEOUT_MAX_S: u64 = 1 << 30;

/// Table `[login]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct LoginTable {
    #[serde(deserialize_with = "address_text::optional_list")]
    listen: Option<Vec<SocketAddr>>,
    #[serde(deserialize_with = "address_text::optional_list")]
    listen_tls: Option<Vec<SocketAddr>>,
    tls: Option<StartTls>,
    exec: Option<Vec<String>>,
    users: Option<PathBuf>,
    #[serde(deserialize_with = "address_text::networks")]
    allow: Vec<IpNet>,
    #[serde(deserialize_with = "address_text::networks")]
    deny: Vec<IpNet>,
    greeting: Option<String>,
    motd: Option<PathBuf>,
    login_timeout_s: Option<u64>,
    idle_timeout_s: Option<u64>,
    sessions_max: Option<usize>,
    sessions_per_source_max: Option<usize>,
}

impl LoginTable {
    /// Returns the table of a configuration with all defaults.
    pub(super) fn effective(configuration: LoginConfiguration) -> Self {
        Self {
            listen: Some(configuration.addresses.listen),
            listen_tls: Some(configuration.addresses.listen_tls),
            tls: configuration.start_tls,
            exec: configuration.exec,
            users: configuration.users,
            allow: configuration.rules.allow,
            deny: configuration.rules.deny,
            greeting: configuration.greeting,
            motd: Some(configuration.motd),
            login_timeout_s: Some(configuration.login_timeout.as_secs()),
            idle_timeout_s: Some(configuration.idle_timeout.map_or(0, |time| time.as_secs())),
            sessions_max: Some(configuration.rules.sessions_max),
            sessions_per_source_max: Some(configuration.rules.sessions_per_source_max),
        }
    }
}

/// Configuration with all defaults applied.
#[derive(Clone, Debug)]
pub(super) struct LoginConfiguration {
    /// Listen addresses of logins; none if only consoles are served.
    pub(super) addresses: ListenAddresses,
    /// START_TLS policy of cleartext listeners; by default it depends on the listen address.
    pub(super) start_tls: Option<StartTls>,
    pub(super) consoles: Vec<ConsoleSettings>,
    pub(super) exec: Option<Vec<String>>,
    pub(super) users: Option<PathBuf>,
    pub(super) rules: Rules,
    greeting: Option<String>,
    motd: PathBuf,
    pub(super) login_timeout: Duration,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) certificate: CertificatePaths,
}

impl LoginConfiguration {
    /// Merges the flags and the tables of the configuration file, and applies defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if two settings exclude each other or no listen address remains.
    pub(super) fn complete(
        table: Option<LoginTable>,
        mut consoles: Vec<ConsoleFile>,
        flags: &LoginFlags,
        shared: &SharedSettings<'_>,
    ) -> Result<Self> {
        let mut table = table.unwrap_or_default();
        let mut addresses = ListenAddresses::given(
            (&flags.listen, &flags.listen_tls),
            (table.listen.take(), table.listen_tls.take()),
        );
        if *shared.via != Route::Kernel && addresses.is_none() {
            bail!(
                "no port for logins at {}: use --listen-tls '[::]:992' or --listen '[::]:23'",
                shared.via
            );
        }
        if let Some(device) = &flags.console {
            let has_flags = !flags.listen.is_empty() || !flags.listen_tls.is_empty();
            // The policy of `[login]` belongs to its addresses.
            let tls = flags.tls.or(table.tls.filter(|_| !has_flags && addresses.is_some()));
            consoles.push(console_of(device, addresses.take().unwrap_or_default(), tls));
        }
        check_console_addresses(&consoles, shared.via)?;
        if flags.users.is_some() || flags.exec.is_some() {
            table.users.clone_from(&flags.users);
            table.exec.clone_from(&flags.exec);
        }
        let consoles =
            consoles.into_iter().map(ConsoleSettings::complete).collect::<Result<Vec<_>>>()?;
        if table.exec.is_some() && table.users.is_some() {
            bail!("users and exec cannot be combined: set one of them for the login server");
        }
        if table.exec.as_ref().is_some_and(Vec::is_empty) {
            bail!("exec is empty: name a program");
        }
        let serves_logins = table.exec.is_some() || table.users.is_some() || consoles.is_empty();
        let addresses = match addresses {
            Some(addresses) => addresses,
            None if serves_logins => ListenAddresses::login(shared.is_root),
            None => ListenAddresses::default(),
        };
        if consoles.is_empty() {
            addresses.check("login", "listen or listen-tls")?;
        }
        let idle_timeout_s = flags.idle_timeout_s.or(table.idle_timeout_s);
        let login_timeout_s = table.login_timeout_s.unwrap_or(LOGIN_TIMEOUT_S);
        Ok(Self {
            addresses,
            start_tls: flags.tls.or(table.tls),
            consoles,
            exec: table.exec,
            users: table.users,
            rules: shared.extend(Rules {
                allow: table.allow,
                deny: table.deny,
                sessions_max: table.sessions_max.unwrap_or(SESSIONS_MAX),
                sessions_per_source_max: table
                    .sessions_per_source_max
                    .unwrap_or(SESSIONS_PER_SOURCE_MAX),
            }),
            greeting: table.greeting,
            motd: table.motd.unwrap_or_else(|| MOTD.into()),
            login_timeout: timeout(login_timeout_s.max(1)),
            idle_timeout: idle_timeout_s.filter(|s| *s > 0).map(timeout),
            certificate: shared.certificate.clone(),
        })
    }

    /// Returns whether the server accepts logins; false if it serves consoles only.
    pub(super) fn serves_logins(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Returns the greeting sent to every client.
    pub(super) fn greeting(&self) -> Vec<u8> {
        self.greeting.as_deref().map(with_cr_lf).unwrap_or_default()
    }

    /// Returns the message of the day, sent after a login. A file that cannot be read yields no
    /// message.
    pub(super) fn motd(&self) -> Vec<u8> {
        std::fs::read_to_string(&self.motd).map(|text| with_cr_lf(&text)).unwrap_or_default()
    }
}

/// Returns a configured timeout, at most [`TIMEOUT_MAX_S`].
fn timeout(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(TIMEOUT_MAX_S))
}

/// Checks that each console has addresses of its own unless it uses the kernel's TCP/IP: the default
/// address, loopback, would be every address of plumb's own TCP/IP stack.
///
/// # Errors
///
/// Returns an error that names a console without addresses.
fn check_console_addresses(consoles: &[ConsoleFile], via: &Route) -> Result<()> {
    if *via != Route::Kernel
        && let Some(console) = consoles.iter().find(|console| !console.has_addresses())
    {
        bail!(
            "no port for console {} at {via}: set listen or listen-tls in its [[console]] table",
            console.device
        );
    }
    Ok(())
}

/// Returns the console of `--console`, which gets the addresses of the flags or of `[login]`.
fn console_of(device: &str, addresses: ListenAddresses, tls: Option<StartTls>) -> ConsoleFile {
    ConsoleFile {
        device: device.to_owned(),
        listen: addresses.listen,
        listen_tls: addresses.listen_tls,
        tls,
        ..ConsoleFile::default()
    }
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
    use crate::configuration_file::ConfigurationFile;
    use crate::flags::RootFlags;

    fn complete_with(text: &str, flags: &LoginFlags) -> Result<LoginConfiguration> {
        complete_via(text, flags, &Route::Kernel)
    }

    fn complete_via(text: &str, flags: &LoginFlags, via: &Route) -> Result<LoginConfiguration> {
        let file: ConfigurationFile = toml::from_str(text)?;
        let shared = SharedSettings {
            root: &RootFlags::default(),
            allow: &[],
            deny: &[],
            via,
            certificate: CertificatePaths::configured(None, "/nonexistent".as_ref()),
            is_root: false,
        };
        LoginConfiguration::complete(file.login, file.consoles, flags, &shared)
    }

    fn complete(text: &str) -> Result<LoginConfiguration> {
        complete_with(text, &LoginFlags::default())
    }

    #[test]
    fn by_default_cleartext_listens_on_loopback_only() {
        let configuration = complete("").unwrap();
        let ListenAddresses { listen, listen_tls } = configuration.addresses;
        assert!(listen.iter().all(|address| address.ip().is_loopback()));
        assert_eq!((listen[0].port(), listen_tls[0].port()), (2323, 3292));
        assert!(configuration.certificate.is_generated());
    }

    #[test]
    fn given_settings_replace_the_defaults() {
        let configuration = complete(
            "[login]\nlisten = [\"192.0.2.1:23\"]\nexec = [\"menu\"]\nidle-timeout-s = 0\n\
             allow = [\"10.0.0.0/8\"]\n",
        );
        let configuration = configuration.unwrap();
        let ListenAddresses { listen, listen_tls } = configuration.addresses;
        assert_eq!(listen, ["192.0.2.1:23".parse().unwrap()]);
        assert!(listen_tls.is_empty());
        assert_eq!(configuration.idle_timeout, None);
        assert_eq!(configuration.rules.allow.len(), 1);
    }

    #[test]
    fn a_deadline_after_the_longest_timeout_is_within_the_range_of_the_clock() {
        let text = format!("[login]\nidle-timeout-s = {0}\nlogin-timeout-s = {0}\n", i64::MAX);
        let configuration = complete(&text).unwrap();
        let now = tokio::time::Instant::now();
        for timeout in [configuration.login_timeout, configuration.idle_timeout.unwrap()] {
            assert!(now.checked_add(timeout).is_some());
        }
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
    fn flags_override_the_file() {
        let text = "[login]\nusers = \"/users\"\ntls = \"off\"\nidle-timeout-s = 9\n";
        let flags = LoginFlags {
            exec: Some(vec!["menu".to_owned()]),
            tls: Some(StartTls::Required),
            idle_timeout_s: Some(5),
            ..LoginFlags::default()
        };
        let configuration = complete_with(text, &flags).unwrap();
        assert_eq!(configuration.users, None);
        assert_eq!(configuration.exec.as_deref(), Some(&["menu".to_owned()][..]));
        assert_eq!(configuration.start_tls, Some(StartTls::Required));
        assert_eq!(configuration.idle_timeout, Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_addresses_given_with_a_console_are_those_of_the_console() {
        let listen = vec!["[::1]:2217".parse().unwrap()];
        let console = Some("/dev/ttyS0".to_owned());
        let flags = LoginFlags { listen: listen.clone(), console, ..LoginFlags::default() };
        let configuration = complete_with("", &flags).unwrap();
        assert!(!configuration.serves_logins());
        assert_eq!(configuration.consoles[0].addresses.listen, listen);
    }

    #[test]
    fn a_console_at_the_addresses_of_the_login_table_has_its_tls_policy() {
        let text = "[login]\nlisten = [\"[::1]:2217\"]\ntls = \"required\"\n";
        let console = Some("/dev/ttyS0".to_owned());
        let flags = LoginFlags { console, ..LoginFlags::default() };
        let start_tls =
            |flags: &LoginFlags| complete_with(text, flags).unwrap().consoles[0].start_tls;
        assert_eq!(start_tls(&flags), Some(StartTls::Required));
        let listen = vec!["[::1]:2218".parse().unwrap()];
        assert_eq!(start_tls(&LoginFlags { listen, ..flags.clone() }), None);
        let tls = Some(StartTls::Offered);
        assert_eq!(start_tls(&LoginFlags { tls, ..flags.clone() }), tls);
        let without_addresses = complete_with("[login]\ntls = \"required\"\n", &flags).unwrap();
        assert_eq!(without_addresses.consoles[0].start_tls, None);
    }

    #[test]
    fn a_console_on_the_own_stack_needs_its_own_addresses() {
        let via: Route = "tun:plumb0".parse().unwrap();
        let complete = |text: &str| complete_via(text, &LoginFlags::default(), &via);
        let login = "[login]\nlisten = [\"[::]:23\"]\nexec = [\"menu\"]\n";
        let console = "[[console]]\ndevice = \"/dev/ttyS0\"\n";
        let error = complete(&format!("{login}{console}")).unwrap_err().to_string();
        let why = "set listen or listen-tls in its [[console]] table";
        assert_eq!(error, format!("no port for console /dev/ttyS0 at {via}: {why}"));
        assert!(complete(&format!("{login}{console}listen = [\"[::]:2217\"]\n")).is_ok());
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
