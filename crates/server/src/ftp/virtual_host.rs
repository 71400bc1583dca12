//! Virtual hosts (RFC 7151): separate files, users and certificates for other host names.
//!
//! ```toml
//! [ftp]
//! names = ["ftp.example.net"]        # for clients that select no virtual host
//! [[ftp.host]]
//! name = "ftp.example.org"
//! aliases = ["example.org"]
//! root = "/srv/org"
//! users = "/etc/plumb/org.toml"
//! certificate = "/etc/plumb/org.pem"
//! key = "/etc/plumb/org.key"
//! ```
//!
//! A client selects a host with HOST before USER, or when TLS begins (RFC 6066 §3, SNI). If a
//! client does both, in either order, both names must refer to the same host (RFC 7151 §4). A
//! client that names no host, or an address of this machine, gets the server's own files (§3.2.2).
//! An unknown name gets reply 504. Without virtual hosts, the known names are the configured names,
//! the names of the machine, and `localhost`. If a reload removes a host that a session has already
//! selected, the host accepts no further logins.
//!
//! System users exist only for the server's own files. The mailboxes of the spool also belong to
//! the server: users of a virtual host cannot send mail, because the sender in a message header
//! does not identify the host.

use super::super::certificate::{CertificatePaths, host_name};
use super::rights::{Access, ConfiguredRights};
use super::users::Users;
use anyhow::{Context, Result, anyhow, bail};
use protocols::ftp::Name;
use protocols::ftp::server::FileError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// Reply to HOST for a host without a greeting of its own.
const GREETING: &str = "Host accepted";

/// Table `[[ftp.host]]` of the configuration file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct VirtualHostTable {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    root: Option<PathBuf>,
    rights: Option<ConfiguredRights>,
    #[serde(default)]
    folders: BTreeMap<String, ConfiguredRights>,
    users: Option<PathBuf>,
    anonymous: Option<bool>,
    quota_bytes: Option<u64>,
    greeting: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Files and users of the server or of one virtual host.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Root of anonymous users.
    pub(super) root: Option<PathBuf>,
    /// Rights of anonymous users.
    pub(super) access: Access,
    pub(super) users: Option<Arc<Users>>,
    pub(super) has_anonymous: bool,
    /// Quota of anonymous users.
    pub(super) quota_bytes: Option<u64>,
    pub(super) has_system_users: bool,
    /// Whether users of this site may send mail if a mail spool is configured.
    pub(super) has_mail: bool,
}

impl Site {
    /// Returns the roots in which any user may write.
    pub(super) fn writable_roots(&self) -> impl Iterator<Item = PathBuf> {
        let users = self.users.as_deref().into_iter().flat_map(Users::accounts);
        let users = users
            .filter(|account| account.access().is_ok_and(|access| access.may_write_anywhere()));
        let anonymous =
            self.root.iter().filter(|_| self.has_anonymous && self.access.may_write_anywhere());
        anonymous.chain(users.map(|account| &account.root)).cloned()
    }
}

/// Virtual host.
#[derive(Clone, Debug)]
pub(super) struct VirtualHost {
    /// Lowercase names; the first one is displayed.
    names: Vec<String>,
    pub(super) site: Arc<Site>,
    greeting: Option<String>,
    pub(super) certificate: Option<CertificatePaths>,
}

impl VirtualHost {
    /// Applies defaults to the table.
    ///
    /// # Errors
    ///
    /// Returns an error if no user could log in, a name is invalid, or the user file cannot be
    /// read.
    pub(super) fn complete(table: VirtualHostTable) -> Result<Self> {
        let name = table.name;
        let complete = || {
            let users = table.users.as_ref().map(|path| Users::read(path)).transpose()?;
            let has_anonymous = table.anonymous.unwrap_or(users.is_none());
            if has_anonymous && table.root.is_none() {
                bail!("no directory to serve: set root = \"DIRECTORY\"");
            }
            if !has_anonymous && users.is_none() {
                bail!("no user can log in: set users, or anonymous = true");
            }
            let access = Access::new(table.rights.unwrap_or_default(), &table.folders);
            let site = Site {
                root: table.root,
                access: access.map_err(|reason| anyhow!(reason))?,
                users: users.map(Arc::new),
                has_anonymous,
                quota_bytes: table.quota_bytes,
                has_system_users: false,
                has_mail: false,
            };
            let certificate = match (table.certificate, table.key) {
                (Some(certificate), Some(key)) => Some(CertificatePaths::new(certificate, key)),
                (None, None) => None,
                _ => bail!("certificate and key must be set together"),
            };
            let names = std::iter::once(&name).chain(&table.aliases);
            let names = names.map(|name| normalized_name(name)).collect::<Result<Vec<_>>>()?;
            Ok(Self { names, site: Arc::new(site), greeting: table.greeting, certificate })
        };
        complete().with_context(|| format!("host '{}'", name.escape_debug()))
    }

    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

/// Returns a host name of the configuration in normalized form.
fn normalized_name(name: &str) -> Result<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_allowed) {
        bail!("'{}' is not a valid host name", name.escape_debug());
    }
    let name = normalized(name);
    if parse_address(&name).is_some() {
        bail!("'{name}' is an address: addresses always select the server's own files");
    }
    Ok(name)
}

/// Returns a name in lowercase, without a trailing period.
fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// All virtual hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct VirtualHosts {
    /// Names of the server itself, in addition to the names of the machine.
    names: Vec<String>,
    hosts: Vec<VirtualHost>,
}

/// Host name received when TLS began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsName {
    name: Box<str>,
    /// Whether the name referred to a virtual host when TLS began.
    is_of_host: bool,
}

/// Host that a name refers to.
#[derive(Clone, Copy, Debug)]
enum NamedHost<'a> {
    Server,
    Virtual(&'a VirtualHost),
}

impl VirtualHosts {
    /// Combines the server's names and the virtual hosts.
    ///
    /// # Errors
    ///
    /// Returns an error if two hosts have the same name, or a table is invalid.
    pub(super) fn complete(names: &[String], tables: Vec<VirtualHostTable>) -> Result<Self> {
        let names = names.iter().map(|name| normalized_name(name)).collect::<Result<Vec<_>>>()?;
        let hosts = tables.into_iter().map(VirtualHost::complete).collect::<Result<Vec<_>>>()?;
        let of_hosts = hosts.iter().flat_map(|host| &host.names);
        let mut all_names: Vec<&String> = names.iter().chain(of_hosts).collect();
        all_names.sort();
        let mut pairs = all_names.iter().zip(all_names.iter().skip(1));
        if let Some((duplicate, _)) = pairs.find(|(a, b)| a == b) {
            bail!("duplicate host name '{duplicate}'");
        }
        Ok(Self { names, hosts })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &VirtualHost> {
        self.hosts.iter()
    }

    fn find_host(&self, name: &str) -> Option<NamedHost<'_>> {
        let name = normalized(name);
        if let Some(host) = self.hosts.iter().find(|host| host.has_name(&name)) {
            return Some(NamedHost::Virtual(host));
        }
        let machine = normalized(&host_name());
        let label = machine.split('.').next().unwrap_or_default();
        let names_server = self.names.contains(&name)
            || [machine.as_str(), label, "localhost"].contains(&name.as_str());
        names_server.then_some(NamedHost::Server)
    }

    /// Returns the greeting for HOST. `tls_name` is the name received when TLS began, and
    /// `own_addresses` are the addresses that the client may name.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is unknown, or differs from the host named in TLS.
    pub(super) fn greeting_for(
        &self,
        name: &Name,
        tls_name: Option<&TlsName>,
        own_addresses: &[IpAddr],
    ) -> Result<&str, FileError> {
        let text = std::str::from_utf8(name.as_bytes()).map_err(|_| FileError::UnknownHost)?;
        if let Some(address) = parse_address(text)
            && !own_addresses.iter().any(|own| own.to_canonical() == address.to_canonical())
        {
            return Err(FileError::UnknownHost);
        }
        let host = self.select(Some(name), tls_name)?;
        Ok(host.and_then(|host| host.greeting.as_deref()).unwrap_or(GREETING))
    }

    /// Returns a record of the name received when TLS began.
    pub(super) fn tls_name(&self, name: &str) -> TlsName {
        TlsName { name: name.into(), is_of_host: !self.is_default(name) }
    }

    /// Returns whether two names refer to the same host.
    fn is_same_host(&self, a: &str, b: &str) -> bool {
        match (self.find_host(a), self.find_host(b)) {
            (Some(NamedHost::Virtual(a)), Some(NamedHost::Virtual(b))) => std::ptr::eq(a, b),
            (Some(NamedHost::Server), Some(NamedHost::Server)) => true,
            _ => false,
        }
    }

    /// Returns whether this name in TLS selects the server's own files.
    fn is_default(&self, tls_name: &str) -> bool {
        !matches!(self.find_host(tls_name), Some(NamedHost::Virtual(_)))
    }

    /// Returns the host selected by HOST, otherwise by TLS; `None` for the server itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is unknown or has been removed, or if HOST and TLS disagree.
    pub(super) fn select(
        &self,
        name: Option<&Name>,
        tls_name: Option<&TlsName>,
    ) -> Result<Option<&VirtualHost>, FileError> {
        if tls_name.is_some_and(|tls| tls.is_of_host && self.is_default(&tls.name)) {
            return Err(FileError::UnknownHost);
        }
        let tls_name = tls_name.map(|tls| &*tls.name);
        let selected = match name.map(Name::as_bytes).map(std::str::from_utf8) {
            None => tls_name.and_then(|tls| self.find_host(tls)),
            Some(Err(_)) => return Err(FileError::UnknownHost),
            Some(Ok(text)) if parse_address(text).is_some() => {
                if tls_name.is_some_and(|tls| !self.is_default(tls)) {
                    return Err(FileError::OtherHost);
                }
                None
            }
            Some(Ok(text)) => {
                let selected = self.find_host(text).ok_or(FileError::UnknownHost)?;
                if tls_name.is_some_and(|tls| !self.is_same_host(text, tls)) {
                    return Err(FileError::OtherHost);
                }
                Some(selected)
            }
        };
        Ok(match selected {
            Some(NamedHost::Virtual(host)) => Some(host),
            Some(NamedHost::Server) | None => None,
        })
    }
}

/// Parses a name that is an address; an IPv6 address may be in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    text.parse().ok()
}

/// Resolves certificates by the host name in TLS.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) default: Arc<dyn ResolvesServerCert>,
    /// Certificates of the hosts that have one, by host name.
    pub(super) by_name: BTreeMap<String, Arc<dyn ResolvesServerCert>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificate = hello.server_name().and_then(|name| self.by_name.get(&normalized(name)));
        certificate.unwrap_or(&self.default).resolve(hello)
    }
}

/// Resolves only the certificate of the host that is already selected.
#[derive(Debug)]
struct SelectedHostCertificate {
    inner: Arc<dyn ResolvesServerCert>,
    names: Vec<String>,
}

impl ResolvesServerCert for SelectedHostCertificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_other_host = |name| !self.names.contains(&normalized(name));
        if hello.server_name().is_some_and(is_other_host) {
            return None;
        }
        self.inner.resolve(hello)
    }
}

/// Returns the TLS configuration for sessions that have selected `host`, by HOST or in TLS.
pub(super) fn configuration_for(
    tls: &Arc<ServerConfig>,
    certificates: &Certificates,
    host: &VirtualHost,
) -> Arc<ServerConfig> {
    let inner = certificates.by_name.get(host.name()).unwrap_or(&certificates.default);
    let resolver = SelectedHostCertificate { inner: Arc::clone(inner), names: host.names.clone() };
    let mut tls = ServerConfig::clone(tls);
    tls.cert_resolver = Arc::new(resolver);
    Arc::new(tls)
}

impl Certificates {
    /// Reads the certificates of all virtual hosts that have one.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate cannot be read.
    pub(super) fn new(default: Arc<dyn ResolvesServerCert>, hosts: &VirtualHosts) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        for host in hosts.iter() {
            let Some(files) = &host.certificate else { continue };
            let (tls, _) = files.configuration()?;
            let names = host.names.iter().cloned();
            by_name.extend(names.map(|name| (name, Arc::clone(&tls.cert_resolver))));
        }
        Ok(Self { default, by_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Result<VirtualHosts> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            names: Vec<String>,
            #[serde(default)]
            host: Vec<VirtualHostTable>,
        }
        let file: File = toml::from_str(text)?;
        VirtualHosts::complete(&file.names, file.host)
    }

    const TWO_HOSTS: &str = "names = [\"ftp.example.net\"]\n\
        [[host]]\nname = \"FTP.example.org.\"\naliases = [\"example.org\"]\nroot = \"/srv/org\"\n\
        greeting = \"This is org\"\n[[host]]\nname = \"ftp.example.com\"\nroot = \"/srv/com\"\n";

    fn greeting(
        hosts: &VirtualHosts,
        name: &str,
        tls_name: Option<&str>,
    ) -> Result<String, FileError> {
        let own_addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let tls_name = tls_name.map(|name| hosts.tls_name(name));
        hosts
            .greeting_for(&Name::new(name).unwrap(), tls_name.as_ref(), &own_addresses)
            .map(str::to_owned)
    }

    fn select(
        hosts: &VirtualHosts,
        name: Option<&str>,
        tls_name: Option<&TlsName>,
    ) -> Result<Option<String>, FileError> {
        let name = name.map(|name| Name::new(name).unwrap());
        let host = hosts.select(name.as_ref(), tls_name)?;
        Ok(host.map(|host| host.name().to_owned()))
    }

    #[test]
    fn host_names_and_aliases_are_matched_without_regard_to_case() {
        let hosts = hosts(TWO_HOSTS).unwrap();
        for name in ["ftp.example.org", "Ftp.Example.Org.", "EXAMPLE.ORG"] {
            assert_eq!(greeting(&hosts, name, None).unwrap(), "This is org", "{name}");
        }
        assert_eq!(greeting(&hosts, "ftp.example.com", None).unwrap(), GREETING);
        assert_eq!(greeting(&hosts, "ftp.example.net", None).unwrap(), GREETING);
        assert_eq!(greeting(&hosts, "www.example.org", None), Err(FileError::UnknownHost));
    }

    #[test]
    fn without_virtual_hosts_the_names_and_addresses_of_the_machine_are_accepted() {
        let hosts = VirtualHosts::default();
        for name in [&host_name(), "localhost", "192.0.2.1", "[2001:db8::1]"] {
            assert!(greeting(&hosts, name, None).is_ok(), "{name}");
        }
        for name in ["ftp.example.org", "192.0.2.2", "[2001:db8::2]"] {
            assert_eq!(greeting(&hosts, name, None), Err(FileError::UnknownHost), "{name}");
        }
    }

    #[test]
    fn host_and_tls_server_name_must_agree() {
        let hosts = hosts(TWO_HOSTS).unwrap();
        let org = Some("ftp.example.org");
        assert!(greeting(&hosts, "ftp.example.org", org).is_ok());
        assert!(greeting(&hosts, "example.org", org).is_ok(), "an alias of the same host");
        assert_eq!(greeting(&hosts, "ftp.example.com", org), Err(FileError::OtherHost));
        assert_eq!(greeting(&hosts, "192.0.2.1", org), Err(FileError::OtherHost));
        let tls_name = hosts.tls_name("ftp.example.org");
        let org = Ok(org.map(str::to_owned));
        assert_eq!(select(&hosts, None, Some(&tls_name)), org);
        assert_eq!(select(&hosts, Some("example.org"), None), org);
        assert_eq!(select(&hosts, None, None), Ok(None));
        assert_eq!(select(&hosts, Some("localhost"), None), Ok(None));
    }

    #[test]
    fn a_client_that_selected_the_server_or_an_address_cannot_use_tls_with_a_virtual_host() {
        let hosts = hosts(TWO_HOSTS).unwrap();
        let org = hosts.tls_name("ftp.example.org");
        let own_name = hosts.tls_name("localhost");
        let unknown_name = hosts.tls_name("elsewhere.example");
        for name in ["ftp.example.net", "localhost", "192.0.2.1", "ftp.example.com"] {
            let result = select(&hosts, Some(name), Some(&org));
            assert_eq!(result, Err(FileError::OtherHost), "{name}");
        }
        assert_eq!(select(&hosts, Some("ftp.example.net"), Some(&own_name)), Ok(None));
        assert_eq!(select(&hosts, Some("192.0.2.1"), Some(&unknown_name)), Ok(None));
        assert_eq!(select(&hosts, None, Some(&unknown_name)), Ok(None));
    }

    #[test]
    fn a_removed_host_does_not_give_access_to_the_files_of_the_server() {
        let before = hosts(TWO_HOSTS).unwrap();
        let after = VirtualHosts::default();
        let unknown_host = Err(FileError::UnknownHost);
        assert_eq!(select(&after, Some("ftp.example.org"), None), unknown_host);
        let tls_name = before.tls_name("example.org");
        assert_eq!(select(&after, None, Some(&tls_name)), unknown_host);
    }

    #[test]
    fn an_invalid_host_table_is_rejected() {
        for text in [
            "[[host]]\nname = \"a b\"\nroot = \"/srv\"\n",
            "[[host]]\nname = \"192.0.2.1\"\nroot = \"/srv\"\n",
            "names = [\"192.0.2.1.\"]\n",
            "[[host]]\nname = \"a\"\n",
            "[[host]]\nname = \"a\"\nroot = \"/srv\"\nanonymous = false\n",
            "[[host]]\nname = \"a\"\nroot = \"/srv\"\ncertificate = \"/c\"\n",
            "[[host]]\nname = \"a\"\nroot = \"/srv\"\nroots = \"/srv\"\n",
            "names = [\"a\"]\n[[host]]\nname = \"A.\"\nroot = \"/srv\"\n",
        ] {
            assert!(hosts(text).is_err(), "{text}");
        }
    }
}
