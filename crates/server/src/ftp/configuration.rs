//! Configuration of the FTP server: the configuration file, overridden by command-line flags.

use super::super::address_text;
use super::super::admission::Rules;
use super::super::certificate::CertificatePaths;
use super::super::flags::FtpFlags;
use super::super::listen_addresses::ListenAddresses;
use super::super::root::write_warning;
use super::super::shared_settings::SharedSettings;
use super::ftp_log;
use super::mail::Spool;
use super::partial::Limits;
use super::passive_ports::Ports;
use super::protection::Protection;
use super::rights::{Access, ConfiguredRights, describe};
use super::system::{self, SystemUserSettings};
use super::user_files::WordFormats;
use super::users::{ANONYMOUS, Users};
use super::virtual_host::{self, Site, VirtualHost, VirtualHosts};
use anyhow::{Context, Result, anyhow, bail};
use ipnet::IpNet;
use net::time::Duration;
use os::beneath::{Kind, RootDir};
use protocols::ftp::WordFormat;
use protocols::ftp::server::{ServerSettings, TlsPolicy};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration as StdDuration;

const SESSIONS_MAX: usize = 10_000;
const SESSIONS_PER_SOURCE_MAX: usize = 1_000;
/// Default limit of the bytes that one command of an anonymous user may hash: a few seconds of CPU
/// time.
const ANONYMOUS_HASH_MAX_BYTES: u64 = 4 << 30;
/// Maximum number of seconds of a setting: 34 years. Later times may exceed the range of the clock.
const SECONDS_MAX: u64 = 1 << 30;
/// Time in seconds for transfers to finish when the server ends.
const STOP_GRACE_S: u64 = 1;
/// Default limits of partial uploads for each root. A day is enough to resume an interrupted
/// upload, and an attacker cannot fill the disk with hidden data.
const PARTIAL_UPLOADS_MAX: usize = 64;
const PARTIAL_UPLOADS_MAX_BYTES: u64 = 16 << 30;
const PARTIAL_UPLOADS_MAX_AGE_S: u64 = 24 * 3600;
const RECOUNT_S: u64 = 600;
const UPLOAD_GRACE_MAX_MS: u64 = 60_000;
/// Maximum size of one message and of one mailbox.
const MESSAGE_MAX_BYTES: u64 = 4 << 20;
const MAILBOX_MAX_BYTES: u64 = 64 << 20;

/// Table `[ftp]` of the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct FtpTable {
    root: Option<PathBuf>,
    rights: Option<ConfiguredRights>,
    folders: BTreeMap<String, ConfiguredRights>,
    #[serde(deserialize_with = "address_text::optional_list")]
    listen: Option<Vec<SocketAddr>>,
    #[serde(deserialize_with = "address_text::optional_list")]
    listen_tls: Option<Vec<SocketAddr>>,
    tls: Option<Protection>,
    requires_session_reuse: Option<bool>,
    users: Option<PathBuf>,
    system_users: bool,
    pam_service: Option<String>,
    root_may_log_in: bool,
    anonymous: Option<bool>,
    anonymous_in_cleartext: bool,
    #[serde(deserialize_with = "address_text::networks")]
    anonymous_allow: Vec<IpNet>,
    clear_control: bool,
    mail_spool: Option<PathBuf>,
    mail_from_anonymous: bool,
    mail_max_bytes: Option<u64>,
    mailbox_max_bytes: Option<u64>,
    word_formats: BTreeMap<String, String>,
    #[serde(deserialize_with = "address_text::networks")]
    allow: Vec<IpNet>,
    #[serde(deserialize_with = "address_text::networks")]
    deny: Vec<IpNet>,
    greeting: Option<String>,
    passive_ports: Option<(u16, u16)>,
    passive_address: Option<IpAddr>,
    sessions_max: Option<usize>,
    sessions_per_source_max: Option<usize>,
    login_timeout_s: Option<u64>,
    idle_timeout_s: Option<u64>,
    data_connect_timeout_s: Option<u64>,
    stall_timeout_s: Option<u64>,
    upload_grace_ms: Option<u64>,
    partial_uploads_max: Option<usize>,
    partial_uploads_max_bytes: Option<u64>,
    partial_uploads_max_age_s: Option<u64>,
    recount_s: Option<u64>,
    stop_grace_s: Option<u64>,
    bytes_per_second_max: Option<u64>,
    file_max_bytes: Option<u64>,
    quota_bytes: Option<u64>,
    anonymous_hash_max_bytes: Option<u64>,
    names: Vec<String>,
    #[serde(rename = "host")]
    hosts: Vec<virtual_host::VirtualHostTable>,
}

impl FtpTable {
    /// Returns this table with the flags and all defaults.
    ///
    /// # Errors
    ///
    /// Returns the error of [`FtpSettings::complete`].
    pub(in super::super) fn effective(
        self,
        flags: &FtpFlags,
        shared: &SharedSettings<'_>,
    ) -> Result<Self> {
        let settings = FtpSettings::complete(self.clone(), flags, shared)?;
        let rights = shared.root.rights.map(ConfiguredRights::from).or(self.rights);
        let seconds = |time: Duration| Some(time.as_secs());
        let engine = settings.engine;
        let partials = settings.partials;
        let service = settings.system.as_ref().map(|system| system.service.clone());
        Ok(Self {
            root: settings.site.root.clone(),
            rights: Some(rights.unwrap_or_default()),
            listen: Some(settings.listen),
            listen_tls: Some(settings.listen_tls),
            tls: Some(settings.tls),
            requires_session_reuse: Some(settings.requires_session_reuse),
            users: flags.users.clone().or(self.users),
            system_users: settings.system.is_some(),
            pam_service: service.or(self.pam_service),
            anonymous: Some(settings.site.has_anonymous),
            mail_max_bytes: self.mail_max_bytes.or(Some(MESSAGE_MAX_BYTES)),
            mailbox_max_bytes: self.mailbox_max_bytes.or(Some(MAILBOX_MAX_BYTES)),
            allow: settings.rules.allow,
            deny: settings.rules.deny,
            greeting: Some(engine.greeting),
            sessions_max: Some(settings.rules.sessions_max),
            sessions_per_source_max: Some(settings.rules.sessions_per_source_max),
            login_timeout_s: seconds(engine.login_timeout),
            idle_timeout_s: seconds(engine.idle_timeout),
            data_connect_timeout_s: seconds(engine.data_connect_timeout),
            stall_timeout_s: seconds(engine.stall_timeout),
            upload_grace_ms: u64::try_from(engine.upload_grace.as_millis()).ok(),
            partial_uploads_max: Some(partials.count_max),
            partial_uploads_max_bytes: Some(partials.bytes_max),
            partial_uploads_max_age_s: Some(partials.age_max.as_secs()),
            recount_s: Some(settings.recount_interval.as_secs()),
            stop_grace_s: Some(settings.grace_period.as_secs()),
            bytes_per_second_max: settings.bytes_per_second_max,
            file_max_bytes: Some(settings.file_max_bytes).filter(|max| *max < u64::MAX),
            anonymous_hash_max_bytes: Some(settings.anonymous_hash_max_bytes),
            ..self
        })
    }
}

/// Configuration with all defaults applied.
#[derive(Clone, Debug)]
pub(in super::super) struct FtpSettings {
    /// Files and users for clients that select no virtual host.
    pub(super) site: Arc<Site>,
    pub(super) hosts: Arc<VirtualHosts>,
    pub(super) rights_description: Cow<'static, str>,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) listen_tls: Vec<SocketAddr>,
    pub(super) tls: Protection,
    pub(super) requires_session_reuse: bool,
    pub(super) certificate: CertificatePaths,
    pub(super) generates_certificate: bool,
    /// Key whose presence excludes anonymous users, if `anonymous` is not set.
    pub(super) excludes_anonymous: Option<&'static str>,
    /// Whether anonymous users need no TLS although it is required for other users.
    pub(super) allows_cleartext_anonymous: bool,
    /// Prefixes from which anonymous users may log in; if empty, all.
    pub(super) anonymous_allow: Vec<IpNet>,
    /// Settings of system users, if system users may log in.
    pub(super) system: Option<SystemUserSettings>,
    pub(super) spool: Option<Arc<Spool>>,
    pub(super) has_anonymous_mail: bool,
    pub(super) word_formats: Arc<WordFormats>,
    pub(super) rules: Rules,
    pub(super) passive_ports: Ports,
    pub(super) passive_address: Option<IpAddr>,
    pub(super) grace_period: StdDuration,
    pub(super) bytes_per_second_max: Option<u64>,
    pub(super) file_max_bytes: u64,
    /// Maximum number of bytes that one command of an anonymous user may hash.
    pub(super) anonymous_hash_max_bytes: u64,
    pub(super) partials: Limits,
    /// Interval at which quotas are recounted and old partial uploads are removed.
    pub(super) recount_interval: StdDuration,
    /// Settings of the protocol engine. The TLS setting depends on the listener.
    pub(super) engine: ServerSettings,
}

impl FtpSettings {
    /// Merges the flags and the table of the configuration file, and applies defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings contradict each other, no client could connect or log in,
    /// or the user file cannot be read.
    pub(in super::super) fn complete(
        mut table: FtpTable,
        flags: &FtpFlags,
        shared: &SharedSettings<'_>,
    ) -> Result<Self> {
        let system = system_user_settings(&table, flags);
        let rights = shared.root.rights.map(ConfiguredRights::from).or(table.rights);
        let rights = rights.unwrap_or_default();
        let site = site_of(&mut table, flags, shared, rights, system.is_some())?;
        let excludes_anonymous = match (table.anonymous, site.has_anonymous, &site.users) {
            (None, false, Some(_)) => Some("users"),
            (None, false, None) => Some("system-users"),
            _ => None,
        };
        let file = (table.listen.take(), table.listen_tls.take());
        let addresses = ListenAddresses::given((&flags.listen, &flags.listen_tls), file);
        let addresses = addresses.unwrap_or_else(|| ListenAddresses::ftp(shared.is_root));
        addresses.check("FTP", "listen or listen-tls")?;
        let ListenAddresses { listen, listen_tls } = addresses;
        if table.passive_ports.is_some_and(|(first, last)| first > last) {
            bail!("invalid passive-ports: the first port exceeds the last one");
        }
        let passive_ports = table.passive_ports.map(|(first, last)| Ports::only(first..=last));
        let tls = flags.tls.or(table.tls).unwrap_or(Protection::Offered);
        let hosts = VirtualHosts::complete(&table.names, std::mem::take(&mut table.hosts))?;
        if tls == Protection::Off {
            check_without_tls(&listen_tls, &hosts)?;
        }
        check_anonymous_keys(&table, tls, &site, &hosts)?;
        Ok(Self {
            site: Arc::new(site),
            hosts: Arc::new(hosts),
            rights_description: describe(rights.0),
            listen,
            listen_tls,
            tls,
            requires_session_reuse: table.requires_session_reuse.unwrap_or(true),
            certificate: shared.certificate.clone(),
            generates_certificate: shared.certificate.is_generated(),
            excludes_anonymous,
            allows_cleartext_anonymous: table.anonymous_in_cleartext,
            anonymous_allow: std::mem::take(&mut table.anonymous_allow),
            system,
            spool: open_spool(&table)?,
            has_anonymous_mail: table.mail_from_anonymous,
            word_formats: Arc::new(parse_word_formats(&table)?),
            engine: engine(&table),
            passive_ports: passive_ports.unwrap_or_else(Ports::any),
            passive_address: table.passive_address,
            grace_period: StdDuration::from_secs(
                table.stop_grace_s.unwrap_or(STOP_GRACE_S).min(SECONDS_MAX),
            ),
            bytes_per_second_max: table.bytes_per_second_max.filter(|rate| *rate > 0),
            file_max_bytes: table.file_max_bytes.unwrap_or(u64::MAX),
            anonymous_hash_max_bytes: table
                .anonymous_hash_max_bytes
                .unwrap_or(ANONYMOUS_HASH_MAX_BYTES),
            partials: Limits {
                count_max: table.partial_uploads_max.unwrap_or(PARTIAL_UPLOADS_MAX),
                bytes_max: table.partial_uploads_max_bytes.unwrap_or(PARTIAL_UPLOADS_MAX_BYTES),
                age_max: StdDuration::from_secs(
                    table.partial_uploads_max_age_s.unwrap_or(PARTIAL_UPLOADS_MAX_AGE_S),
                ),
            },
            recount_interval: StdDuration::from_secs(
                table.recount_s.unwrap_or(RECOUNT_S).clamp(1, SECONDS_MAX),
            ),
            rules: shared.extend(admission_rules(table)),
        })
    }

    /// Returns the listen addresses.
    pub(in super::super) fn addresses(&self) -> ListenAddresses {
        ListenAddresses { listen: self.listen.clone(), listen_tls: self.listen_tls.clone() }
    }

    /// Checks that the roots of anonymous users can be served.
    ///
    /// # Errors
    ///
    /// Returns an error if a root is not a directory.
    pub(super) fn check_roots(&self) -> Result<()> {
        let hosts = self.hosts.iter().map(|host| &host.site);
        for root in std::iter::once(&self.site).chain(hosts).filter_map(|site| site.root.as_ref()) {
            let path = root.display();
            RootDir::open(root).with_context(|| format!("cannot open root directory {path}"))?;
        }
        Ok(())
    }

    /// Checks that all configured roots and certificates can be served.
    ///
    /// # Errors
    ///
    /// Returns an error for the first root or certificate that cannot be served.
    pub(in super::super) fn check_files(&self) -> Result<()> {
        self.check_roots()?;
        let hosts = self.hosts.iter().map(|host| &host.site);
        let sites = std::iter::once(&self.site).chain(hosts);
        for account in sites.filter_map(|site| site.users.as_deref()).flat_map(Users::accounts) {
            let path = account.root.display();
            RootDir::open(&account.root)
                .with_context(|| format!("cannot open root directory {path} of a user"))?;
        }
        self.certificates().try_for_each(CertificatePaths::check)
    }

    /// Returns the certificates of the server and of its virtual hosts.
    pub(in super::super) fn certificates(&self) -> impl Iterator<Item = &CertificatePaths> {
        let default = Some(&self.certificate).filter(|_| self.tls != Protection::Off);
        default.into_iter().chain(self.hosts.iter().filter_map(|host| host.certificate.as_ref()))
    }

    /// Describes that anonymous users cannot log in, if the configuration excludes them only implicitly.
    pub(in super::super) fn anonymous_note(&self) -> Option<String> {
        self.excludes_anonymous.map(ftp_log::no_anonymous)
    }

    /// Returns a warning if system users cannot log in, because the server does not run as root.
    pub(in super::super) fn system_users_note(&self) -> Option<&'static str> {
        (self.system.is_some() && !os::user::is_root()).then_some(ftp_log::NO_SYSTEM_USERS)
    }

    /// Returns a warning for each root that the server cannot write although its users may.
    pub(in super::super) fn unwritable_roots(&self) -> Vec<String> {
        self.writable_roots().iter().filter_map(|root| write_warning(root)).collect()
    }

    /// Returns a warning for each missing directory that has rights of its own.
    pub(in super::super) fn missing_directories(&self) -> Vec<String> {
        let hosts = self.hosts.iter().map(|host| &host.site);
        let mut warnings = Vec::new();
        for site in std::iter::once(&self.site).chain(hosts) {
            if let (Some(root), true) = (&site.root, site.has_anonymous) {
                note_missing(root, &site.access, &mut warnings);
            }
            for account in site.users.as_deref().into_iter().flat_map(Users::accounts) {
                note_missing(&account.root, &account.access().unwrap_or_default(), &mut warnings);
            }
        }
        warnings
    }

    /// Returns the roots in which uploads may have left temporary files before a crash.
    pub(super) fn writable_roots(&self) -> Vec<PathBuf> {
        let hosts = self.hosts.iter().map(|host| &host.site);
        let sites = std::iter::once(&self.site).chain(hosts);
        let mut roots: Vec<PathBuf> = sites.flat_map(|site| site.writable_roots()).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// Returns the files and users of `host`, or of the server itself if `host` is `None`.
    pub(super) fn site_of(&self, host: Option<&VirtualHost>) -> Arc<Site> {
        Arc::clone(host.map_or(&self.site, |host| &host.site))
    }

    /// Returns whether anonymous users may log in from `address`.
    pub(super) fn admits_anonymous(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let allow = &self.anonymous_allow;
        allow.is_empty() || allow.iter().any(|net| net.contains(&address))
    }

    /// Returns the engine settings of one session.
    pub(super) fn session_settings(&self, has_tls: bool, is_implicit_tls: bool) -> ServerSettings {
        let tls = match self.tls {
            Protection::Required => TlsPolicy::RequiredForData,
            _ if has_tls => TlsPolicy::Offered,
            _ => TlsPolicy::None,
        };
        let cleartext_users = if self.allows_cleartext_anonymous { ANONYMOUS } else { &[] };
        ServerSettings { tls, cleartext_users, is_implicit_tls, ..self.engine.clone() }
    }
}

/// Checks that no setting needs TLS.
///
/// # Errors
///
/// Returns an error if a listener or a virtual host needs TLS.
fn check_without_tls(listen_tls: &[SocketAddr], hosts: &VirtualHosts) -> Result<()> {
    if !listen_tls.is_empty() {
        bail!("listen-tls requires TLS, but tls is off");
    }
    if hosts.iter().any(|host| host.certificate.is_some()) {
        bail!("a virtual host has a certificate, but tls is off");
    }
    Ok(())
}

/// Checks that the keys for anonymous users have an effect, if they are set.
///
/// # Errors
///
/// Returns an error if there are no anonymous users, or if `anonymous-in-cleartext` is set and TLS is not
/// required.
fn check_anonymous_keys(
    table: &FtpTable,
    tls: Protection,
    site: &Site,
    hosts: &VirtualHosts,
) -> Result<()> {
    if table.anonymous_in_cleartext && tls != Protection::Required {
        bail!("anonymous-in-cleartext applies only to tls = \"required\": remove it");
    }
    let keys = [
        ("anonymous-in-cleartext", table.anonymous_in_cleartext),
        ("anonymous-allow", !table.anonymous_allow.is_empty()),
    ];
    let has_anonymous = site.has_anonymous || hosts.iter().any(|host| host.site.has_anonymous);
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) if !has_anonymous => {
            bail!("{key} requires anonymous users: set anonymous = true")
        }
        _ => Ok(()),
    }
}

fn note_missing(root: &Path, access: &Access, missing: &mut Vec<String>) {
    let Ok(root_dir) = RootDir::open(root) else { return };
    for directory in access.directories() {
        if !root_dir.status(directory).is_ok_and(|status| status.kind == Kind::Directory) {
            let directory = directory.escape_ascii();
            let root = root.display();
            missing.push(format!(
                "rights are set for '{directory}', which is not a directory in {root}"
            ));
        }
    }
}

/// Returns the files and users of clients that select no virtual host.
fn site_of(
    table: &mut FtpTable,
    flags: &FtpFlags,
    shared: &SharedSettings<'_>,
    rights: ConfiguredRights,
    has_system_users: bool,
) -> Result<Site> {
    let root = shared.root.root.clone().or(table.root.take());
    let users = flags.users.as_ref().or(table.users.as_ref());
    let users = users.map(|path| Users::read(path)).transpose()?.map(Arc::new);
    let has_anonymous = table.anonymous.unwrap_or(users.is_none() && !has_system_users);
    if has_anonymous && root.is_none() {
        bail!("no directory to serve by FTP: use --root DIRECTORY");
    }
    if !has_anonymous && users.is_none() && !has_system_users {
        bail!("no user can log in by FTP: set users, system-users = true or anonymous = true");
    }
    let access = Access::new(rights, &table.folders);
    let access = access.map_err(|reason| anyhow!("ftp.folders: {reason}"))?;
    let quota_bytes = table.quota_bytes;
    let has_mail = true;
    Ok(Site { root, access, users, has_anonymous, quota_bytes, has_system_users, has_mail })
}

fn system_user_settings(table: &FtpTable, flags: &FtpFlags) -> Option<SystemUserSettings> {
    let is_enabled = table.system_users || flags.system_users;
    is_enabled.then(|| SystemUserSettings {
        service: table.pam_service.clone().unwrap_or_else(|| system::SERVICE.to_owned()),
        allows_root: table.root_may_log_in,
    })
}

fn open_spool(table: &FtpTable) -> Result<Option<Arc<Spool>>> {
    let Some(directory) = &table.mail_spool else { return Ok(None) };
    let message = table.mail_max_bytes.unwrap_or(MESSAGE_MAX_BYTES);
    let mailbox = table.mailbox_max_bytes.unwrap_or(MAILBOX_MAX_BYTES);
    let spool = Spool::open(directory, message, mailbox);
    let path = directory.display();
    Ok(Some(Arc::new(spool.with_context(|| format!("cannot open mail spool {path}"))?)))
}

fn parse_word_formats(table: &FtpTable) -> Result<WordFormats> {
    let mut formats = Vec::new();
    for (directory, name) in &table.word_formats {
        let format = WordFormat::from_name(name);
        let format = format.with_context(|| format!("word-formats: unknown format '{name}'"))?;
        if !directory.starts_with('/') {
            bail!("word-formats: the directory '{directory}' must begin with /");
        }
        formats.push((directory.trim_end_matches('/').as_bytes().to_vec(), format));
    }
    Ok(WordFormats::new(formats))
}

fn admission_rules(table: FtpTable) -> Rules {
    Rules {
        allow: table.allow,
        deny: table.deny,
        sessions_max: table.sessions_max.unwrap_or(SESSIONS_MAX),
        sessions_per_source_max: table.sessions_per_source_max.unwrap_or(SESSIONS_PER_SOURCE_MAX),
    }
}

fn engine(table: &FtpTable) -> ServerSettings {
    let defaults = ServerSettings::default();
    let seconds = |configured: Option<u64>, default| {
        configured.map_or(default, |seconds| Duration::from_secs(seconds.clamp(1, SECONDS_MAX)))
    };
    ServerSettings {
        greeting: table.greeting.clone().unwrap_or(defaults.greeting),
        login_timeout: seconds(table.login_timeout_s, defaults.login_timeout),
        idle_timeout: seconds(table.idle_timeout_s, defaults.idle_timeout),
        data_connect_timeout: seconds(table.data_connect_timeout_s, defaults.data_connect_timeout),
        stall_timeout: seconds(table.stall_timeout_s, defaults.stall_timeout),
        upload_grace: table
            .upload_grace_ms
            .map_or(defaults.upload_grace, |ms| Duration::from_millis(ms.min(UPLOAD_GRACE_MAX_MS))),
        allows_clear_control: table.clear_control,
        accepts_mail: table.mail_spool.is_some(),
        ..ServerSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::RootFlags;
    use protocols::ftp::server::Rights;

    fn complete(text: &str, flags: &FtpFlags) -> Result<FtpSettings> {
        let shared = SharedSettings {
            root: &RootFlags::default(),
            allow: &[],
            deny: &[],
            via: &carrier::Route::Kernel,
            certificate: CertificatePaths::configured(None, "/nonexistent".as_ref()),
            is_root: false,
        };
        FtpSettings::complete(toml::from_str(text)?, flags, &shared)
    }

    #[test]
    fn by_default_anonymous_users_read_files_on_loopback_only() {
        let settings = complete("root = \"/srv\"\n", &FtpFlags::default()).unwrap();
        assert!(settings.listen.iter().all(|at| at.ip().is_loopback() && at.port() == 2121));
        assert!(settings.listen_tls.is_empty() && settings.site.has_anonymous);
        assert_eq!(settings.site.access, Access::everywhere(Rights::READ_ONLY));
        assert_eq!(settings.tls, Protection::Offered);
        assert!(settings.requires_session_reuse && settings.partials.count_max > 0);
    }

    #[test]
    fn a_deadline_after_the_longest_setting_is_within_the_range_of_the_clock() {
        let text = format!("root = \"/srv\"\nstop-grace-s = {0}\nrecount-s = {0}\n", i64::MAX);
        let settings = complete(&text, &FtpFlags::default()).unwrap();
        let now = tokio::time::Instant::now();
        for time in [settings.grace_period, settings.recount_interval] {
            assert!(now.checked_add(time).is_some());
        }
    }

    #[test]
    fn a_flag_overrides_the_configuration_file() {
        let text = "root = \"/srv\"\ntls = \"off\"\nlisten = [\"[::]:21\"]\n";
        let listen = "127.0.0.1:2121".parse().unwrap();
        let flags = FtpFlags {
            is_requested: true,
            listen: vec![listen],
            tls: Some(Protection::Required),
            ..FtpFlags::default()
        };
        let settings = complete(text, &flags).unwrap();
        assert_eq!((settings.listen, settings.tls), (vec![listen], Protection::Required));
    }

    #[test]
    fn only_anonymous_users_are_allowed_in_cleartext_and_only_by_their_key() {
        let names = |key: &str| {
            let text = format!("root = \"/srv\"\ntls = \"required\"\n{key}");
            let settings = complete(&text, &FtpFlags::default()).unwrap();
            settings.session_settings(true, false).cleartext_users
        };
        assert_eq!(names("anonymous-in-cleartext = true\n"), ANONYMOUS);
        assert!(names("").is_empty());
    }

    #[test]
    fn anonymous_users_log_in_only_from_the_networks_of_their_key() {
        let text = "root = \"/srv\"\nanonymous-allow = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n";
        let settings = complete(text, &FtpFlags::default()).unwrap();
        let addresses = ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "192.0.2.1", "::1"];
        let is_admitted = addresses.map(|at| settings.admits_anonymous(at.parse().unwrap()));
        assert_eq!(is_admitted, [true, true, true, false, false]);
        assert!(settings.rules.allow.is_empty());
        let settings = complete("root = \"/srv\"\n", &FtpFlags::default()).unwrap();
        assert!(settings.admits_anonymous("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn an_invalid_configuration_is_rejected() {
        for text in [
            "",
            "root = \"/srv\"\nlisten = []\n",
            "roots = \"/srv\"\n",
            "root = \"/srv\"\nanonymous = false\n",
            "root = \"/srv\"\nanonymous-in-cleartext = true\n",
            "root = \"/srv\"\nsystem-users = true\nanonymous-allow = [\"10.0.0.0/8\"]\n",
            "root = \"/srv\"\nanonymous-allow = [\"10.0.0.0/33\"]\n",
            "root = \"/srv\"\nsystem-users = true\ntls = \"required\"\nanonymous-in-cleartext = true\n",
            "root = \"/srv\"\npassive-ports = [2000, 1000]\n",
            "root = \"/srv\"\ntls = \"off\"\nlisten-tls = [\"[::]:990\"]\n",
            "root = \"/srv\"\nmail-spool = \"/no/such/directory\"\n",
            "root = \"/srv\"\n[word-formats]\n\"/its\" = \"c37\"\n",
        ] {
            assert!(complete(text, &FtpFlags::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_names_every_key() {
        for text in ["", "[[host]]\nname = \"a\"\n"] {
            let text = format!("{text}unknown-key = 1");
            let error = toml::from_str::<FtpTable>(&text).err().unwrap().to_string();
            let expected_keys = error.split("expected one of ").nth(1).unwrap();
            let keys: Vec<&str> = expected_keys.split('`').skip(1).step_by(2).collect();
            assert!(keys.len() > 10, "{error}");
            let help = crate::examples::CONFIGURATION;
            let missing: Vec<_> = keys.into_iter().filter(|key| !help.contains(key)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }
}
