//! Location of a remote file: `tftp://host[:port]/name[;mode=netascii]` (RFC 3617) or
//! `ftp://[user[:password]@]host[:port]/name[;type=a]` (RFC 1738 §3.2).
//!
//! The name in an FTP URL is relative to the directory after the login. If the name itself begins
//! with a slash, it is relative to the root.
//!
//! A password is never printed.

use anyhow::{Context, Result, bail};
use carrier::{HostTarget, Scheme};
use protocols::ftp::user::TlsUse;
use protocols::tftp::{Mode, SERVER_PORT};
use std::fmt;
use std::str::FromStr;

/// Default port of FTP control connections.
pub const FTP_PORT: u16 = 21;
/// Default port of FTP control connections that begin with a TLS handshake (`ftps://`).
pub const FTPS_PORT: u16 = 990;

/// Location on a remote host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Protocol, with its parameters.
    pub scheme: UrlScheme,
    /// User and password, if the URL has them.
    pub login: Login,
    /// The host and its port.
    pub target: HostTarget,
    /// Name of the file: any bytes except control characters; empty if the URL has no name.
    pub name: Vec<u8>,
}

/// User and password of a URL.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub user: Option<Vec<u8>>,
    /// Password of the user.
    pub password: Option<Vec<u8>>,
}

impl Login {
    /// Parses `user` or `user:password`, without percent escapes.
    pub fn from_argument(text: &str) -> Self {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (text, None),
        };
        Self { user: Some(user.into()), password: password.map(Into::into) }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.user.is_some() { "Login(user)" } else { "Login(none)" })
    }
}

/// A protocol, with its parameters in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlScheme {
    /// `tftp://`.
    Tftp(Mode),
    /// `ftp://`, `ftpes://`, `ftps://`, with the type if the URL has a type.
    Ftp(TlsUse, Option<UrlType>),
}

/// Type of an FTP URL (RFC 1738 §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlType {
    /// `;type=a`: text.
    Text,
    /// `;type=i`: octets.
    Image,
    /// `;type=d`: the names in a directory.
    Directory,
}

impl UrlScheme {
    fn port(self) -> u16 {
        match self {
            Self::Tftp(_) => SERVER_PORT,
            Self::Ftp(TlsUse::Implicit, _) => FTPS_PORT,
            Self::Ftp(..) => FTP_PORT,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tftp(_) => "tftp",
            Self::Ftp(TlsUse::Implicit, _) => "ftps",
            Self::Ftp(TlsUse::Required, _) => "ftpes",
            Self::Ftp(..) => "ftp",
        }
    }
}

impl FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::parse(text)? {
            Some(url) => Ok(url),
            None => bail!("'{}' is not a URL: use ftp://host/name", text.escape_debug()),
        }
    }
}

/// Splits off `;mode=netascii`.
fn tftp_scheme(path: &str) -> Result<(&str, UrlScheme)> {
    let (path, mode) = match path.rsplit_once(";mode=") {
        None => (path, Mode::Octet),
        Some((path, "octet")) => (path, Mode::Octet),
        Some((path, "netascii")) => (path, Mode::Netascii),
        Some((_, mode)) => {
            bail!("'{}' is not a mode: use octet or netascii", mode.escape_debug())
        }
    };
    Ok((path, UrlScheme::Tftp(mode)))
}

/// Splits off `;type=a`.
fn ftp_scheme(path: &str, tls: TlsUse) -> Result<(&str, UrlScheme)> {
    let (path, kind) = match path.rsplit_once(";type=") {
        None => (path, None),
        Some((path, "a" | "A")) => (path, Some(UrlType::Text)),
        Some((path, "i" | "I")) => (path, Some(UrlType::Image)),
        Some((path, "d" | "D")) => (path, Some(UrlType::Directory)),
        Some((_, wrong)) => {
            bail!("'{}' is not a type of a URL: use a, i or d", wrong.escape_debug())
        }
    };
    Ok((path, UrlScheme::Ftp(tls, kind)))
}

fn parse_login(text: &str) -> Result<Login> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let decode = |part: &str| {
        percent_decoded(part).context("the user in the URL has a % without hex digits")
    };
    Ok(Login { user: Some(decode(user)?), password: password.map(decode).transpose()? })
}

impl Url {
    /// Parses a URL. Returns `None` if `text` has no scheme, and thus may be a local path.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is unknown or the URL is invalid.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let (scheme, rest) = Scheme::split(text, Scheme::FILES, &[])?;
        scheme.map(|scheme| Self::with_scheme(scheme, rest)).transpose()
    }

    /// Parses a URL of an FTP server, or a host without a scheme, which is reached by FTP.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is unknown or the URL is invalid.
    pub fn parse_ftp_host(text: &str) -> Result<Self> {
        let (scheme, rest) = Scheme::split(text, Scheme::FILES, &[])?;
        Self::with_scheme(scheme.unwrap_or(Scheme::Ftp), rest)
    }

    /// Parses the part of a URL after the scheme.
    fn with_scheme(scheme: Scheme, rest: &str) -> Result<Self> {
        let tls = match scheme {
            Scheme::Ftpes => Some(TlsUse::Required),
            Scheme::Ftps => Some(TlsUse::Implicit),
            Scheme::Tftp => None,
            _ => Some(TlsUse::Never),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // The part before the host may contain a password, so no error message contains that part.
        let (login, host) = match authority.rsplit_once('@').filter(|_| tls.is_some()) {
            Some((login, host)) => (parse_login(login)?, host),
            None => (Login::default(), authority),
        };
        let location =
            format!("{}://{}/{}", scheme.name(), host.escape_debug(), path.escape_debug());
        let (path, scheme) = match tls {
            Some(tls) => ftp_scheme(path, tls)?,
            None => tftp_scheme(path)?,
        };
        let target = HostTarget::parse(host, Some(scheme.port()))?;
        let name = percent_decoded(path)
            .with_context(|| format!("'{location}' has a % without two hex digits"))?;
        // In some protocols and logs, a line break in a name would begin another command or line.
        if name.iter().any(u8::is_ascii_control) {
            bail!("'{location}' has a control character in its name");
        }
        Ok(Self { scheme, login, target, name })
    }

    /// Returns the URL with its user, but without its password and type.
    pub fn with_user(&self) -> String {
        let user =
            self.login.user.as_deref().map(|user| format!("{}@", percent_encoded(user, b"")));
        let host = match self.target.host.contains(':') {
            true => format!("[{}]", self.target.host),
            false => self.target.host.clone(),
        };
        format!(
            "{}://{}{host}:{}/{}",
            self.scheme.name(),
            user.unwrap_or_default(),
            self.target.port,
            percent_encoded(&self.name, b"/")
        )
    }

    /// Returns the last component of the name, which may be empty.
    pub fn last_component(&self) -> &[u8] {
        self.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, target, name, .. } = self;
        let host = &target.host;
        let is_ipv6 = host.contains(':');
        let (open, close) = if is_ipv6 { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{host}{close}", scheme.name())?;
        if target.port != scheme.port() {
            write!(f, ":{}", target.port)?;
        }
        write!(f, "/{}", name.escape_ascii())?;
        f.write_str(match scheme {
            UrlScheme::Tftp(Mode::Netascii) => ";mode=netascii",
            UrlScheme::Ftp(_, Some(UrlType::Text)) => ";type=a",
            UrlScheme::Ftp(_, Some(UrlType::Directory)) => ";type=d",
            _ => "",
        })
    }
}

/// Encodes all bytes except letters, digits, `-`, `.`, `_`, `~` (RFC 3986 §2.3) and those in `kept`.
fn percent_encoded(bytes: &[u8], kept: &[u8]) -> String {
    let encode = |&byte: &u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// Decodes percent escapes such as `%2F`; `None` for an invalid escape.
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?].map(char::from);
                let [high, low] = digits.map(|digit| digit.to_digit(16));
                u8::try_from(high? * 16 + low?).ok()?
            }
            other => other,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn a_tftp_url_has_a_host_a_port_a_name_and_a_mode() {
        let parsed = url("tftp://example.net:6969/boot/pxe%20linux.0;mode=netascii");
        assert_eq!((parsed.target.host.as_str(), parsed.target.port), ("example.net", 6969));
        assert_eq!(parsed.name, b"boot/pxe linux.0");
        assert_eq!(parsed.last_component(), b"pxe linux.0");
        assert_eq!(parsed.scheme, UrlScheme::Tftp(Mode::Netascii));
    }

    #[test]
    fn the_defaults_are_port_69_and_octet_mode() {
        let parsed = url("tftp://[2001:db8::1]//etc/motd");
        assert_eq!((parsed.target.host.as_str(), parsed.target.port), ("2001:db8::1", 69));
        assert_eq!(
            (parsed.name.as_slice(), parsed.scheme),
            (&b"/etc/motd"[..], UrlScheme::Tftp(Mode::Octet))
        );
        assert_eq!(parsed.to_string(), "tftp://[2001:db8::1]//etc/motd");
    }

    // attack row 92
    #[test]
    fn control_characters_in_a_name_are_refused() {
        for text in ["tftp://a/b%0d%0ac", "tftp://a/b%00", "tftp://a/b%1b[2J"] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "a/b",
            "gopher://a/b",
            "tftp:///b",
            "tftp://a/%4",
            "tftp://a/%zz",
            "tftp://a/b;mode=mail",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_parsed_and_never_printed() {
        let parsed = url("ftp://me:se%40cret@example.net:2121//etc/motd;type=a");
        assert_eq!(parsed.login.user.as_deref(), Some(&b"me"[..]));
        assert_eq!(parsed.login.password.as_deref(), Some(&b"se@cret"[..]));
        assert_eq!(parsed.to_string(), "ftp://example.net:2121//etc/motd;type=a");
        assert!(!format!("{parsed:?}").contains("cret"));
        let error = "ftp://me:secret@example.net/%zz".parse::<Url>().unwrap_err();
        assert!(!format!("{error:#}").contains("secret"));
    }

    #[test]
    fn a_login_in_an_argument_has_no_percent_escapes_and_ends_at_the_first_colon() {
        let login = Login::from_argument("a%40b:se:cret");
        assert_eq!(login.user.as_deref(), Some(&b"a%40b"[..]));
        assert_eq!(login.password.as_deref(), Some(&b"se:cret"[..]));
        assert_eq!(Login::from_argument("ann").password, None);
    }

    #[test]
    fn the_case_of_types_and_schemes_is_ignored() {
        for (text, expected) in [
            ("FTP://a/b;type=A", Some(UrlType::Text)),
            ("ftp://a/b;type=a", Some(UrlType::Text)),
            ("Ftp://a/b;type=I", Some(UrlType::Image)),
            ("ftp://a/b;type=i", Some(UrlType::Image)),
            ("ftp://a/b;type=D", Some(UrlType::Directory)),
            ("ftp://a/b;type=d", Some(UrlType::Directory)),
            ("ftp://a/b", None),
        ] {
            let parsed = url(text);
            assert_eq!(parsed.scheme, UrlScheme::Ftp(TlsUse::Never, expected), "{text}");
            assert_eq!(parsed.name, b"b", "{text}");
        }
        assert!("ftp://a/b;type=x".parse::<Url>().is_err());
        assert_eq!(url("TFTP://a/b;mode=netascii").scheme, UrlScheme::Tftp(Mode::Netascii));
    }

    #[test]
    fn each_ftp_scheme_has_its_default_port() {
        let ports = ["ftp", "ftpes", "ftps"].map(|name| url(&format!("{name}://a/b")).target.port);
        assert_eq!(ports, [21, 21, 990]);
    }

    #[test]
    fn a_host_name_alone_is_an_ftp_url() {
        let url = |text| Url::parse_ftp_host(text).unwrap().to_string();
        assert_eq!(url("example.net:2121"), "ftp://example.net:2121/");
        assert_eq!(url("ftps://example.net"), "ftps://example.net/");
    }

    #[test]
    fn a_text_without_a_scheme_is_no_url() {
        assert_eq!(Url::parse("a/b").unwrap(), None);
        assert_eq!(Url::parse("ftp://a/b").unwrap(), Some(url("ftp://a/b")));
        let error = Url::parse("telnet://a").unwrap_err().to_string();
        assert!(error.contains("use ftp://, ftpes://, ftps:// or tftp://"), "{error}");
    }

    proptest! {
        #[test]
        fn a_url_with_its_user_is_parsed_back(user: Vec<u8>, name in "[^\\pC]{0,20}") {
            let mut url = url("ftps://[fd00::1]:2121/");
            url.login.user = Some(user);
            url.name = name.into_bytes();
            prop_assert_eq!(url.with_user().parse::<Url>().unwrap(), url);
        }

        #[test]
        fn any_encoded_login_and_name_are_decoded(user: Vec<u8>, password: Vec<u8>, name: Vec<u8>) {
            let encoded = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            let [user_text, password_text, name_text]: [String; 3] =
                [&user, &password, &name].map(|bytes| encoded(bytes));
            let parsed = format!("ftp://{user_text}:{password_text}@a/{name_text}").parse::<Url>();
            if name.iter().any(u8::is_ascii_control) {
                prop_assert!(parsed.is_err());
            } else {
                let parsed = parsed.unwrap();
                let login = Login { user: Some(user), password: Some(password) };
                prop_assert_eq!((parsed.login, parsed.name), (login, name));
            }
        }
    }
}
