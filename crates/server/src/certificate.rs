//! TLS certificate of a server: configured by the administrator, or generated and self-signed.
//!
//! The self-signed certificate is generated once and kept in the state directory, so that clients
//! that pin the certificate at first use receive the same certificate later. Its private key is
//! readable by the owner only. It names the host, and is valid for ten years.

use super::certificate_validity::Validity;
use anyhow::{Context, Result};
use carrier::fingerprint;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Validity period of a generated certificate: ten years. Clients that pin it do not accept a new one.
const VALIDITY: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Time before its generation from which a certificate is valid, for clients whose clock is behind.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(24 * 3600);

/// Table `[tls]`: the certificate and its key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TlsTable {
    certificate: PathBuf,
    key: PathBuf,
}

/// Paths of a certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(super) struct CertificatePaths {
    certificate: PathBuf,
    key: PathBuf,
    /// Whether a missing certificate is generated.
    is_generated: bool,
}

impl CertificatePaths {
    /// Returns the paths of the configuration file, or else those of the self-signed certificate in
    /// the state directory.
    pub(super) fn configured(table: Option<&TlsTable>, state_directory: &Path) -> Self {
        match table {
            Some(TlsTable { certificate, key }) => Self::new(certificate.clone(), key.clone()),
            None => Self::self_signed(state_directory),
        }
    }

    /// Returns the paths of a certificate and its key.
    pub(super) const fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, is_generated: false }
    }

    /// Returns the paths of the self-signed certificate.
    fn self_signed(directory: &Path) -> Self {
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| directory.join(name));
        Self { certificate, key, is_generated: true }
    }

    /// Returns whether a missing certificate is generated.
    pub(super) const fn is_generated(&self) -> bool {
        self.is_generated
    }

    /// Checks a configured certificate and its key. A self-signed certificate is not checked,
    /// because it is generated when it is needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read or do not match.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_generated {
            self.configuration()?;
        }
        Ok(())
    }

    /// Generates a self-signed certificate if the certificate or its key does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be written.
    pub(super) fn generate_if_missing(&self) -> Result<()> {
        if self.certificate.exists() && self.key.exists() {
            return Ok(());
        }
        let (certificate, key) = generate(SystemTime::now())?;
        if let Some(directory) = self.key.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create directory {}", directory.display()))?;
        }
        write(&self.key, &key, 0o600)?;
        write(&self.certificate, &certificate, 0o644)
    }

    /// Returns a warning if a certificate of the chain is not valid at `now`, or expires soon. Returns
    /// `None` if the file cannot be read, which [`Self::check`] reports.
    pub(super) fn validity_warning(&self, now: SystemTime) -> Option<String> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let chain = CertificateDer::pem_file_iter(&self.certificate).ok()?.flatten();
        let warning = chain.filter_map(|it| Validity::of(&it)?.warning(now)).next()?;
        let remedy = match self.is_generated {
            true => "; without the file and its key, the next start generates a new certificate",
            false => "",
        };
        Some(format!("certificate {} {warning}{remedy}", self.certificate.display()))
    }

    /// Reads certificate and key. Returns the TLS acceptor and the fingerprint of the certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read or do not match.
    pub(super) fn acceptor(&self) -> Result<(TlsAcceptor, String)> {
        let (configuration, fingerprint) = self.configuration()?;
        Ok((TlsAcceptor::from(Arc::new(configuration)), fingerprint))
    }

    /// Like [`Self::acceptor`], but returns the configuration for further TLS settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read or do not match.
    pub(super) fn configuration(&self) -> Result<(ServerConfig, String)> {
        let name = self.certificate.display();
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .with_context(|| format!("cannot read certificate {name}"))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("cannot read key {}", self.key.display()))?;
        let first_certificate =
            chain.first().with_context(|| format!("no certificate found in {name}"))?;
        let fingerprint = fingerprint(first_certificate);
        let configuration = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("the certificate and the key do not match")?;
        Ok((configuration, fingerprint))
    }
}

/// Returns a new self-signed certificate of this host and its key, in PEM.
fn generate(now: SystemTime) -> Result<(String, String)> {
    let host = host_name();
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([host.clone(), "localhost".to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, host);
    let now = date_time_ymd(1970, 1, 1) + now.duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = now - CLOCK_TOLERANCE;
    params.not_after = now + VALIDITY;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(mode).open(path);
    let write_result = file.and_then(|mut file| file.write_all(text.as_bytes()));
    write_result.with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the host name of this machine, or `localhost`.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
    if is_name { name } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_self_signed_certificate_is_generated_once_and_its_key_is_private() {
        let directory = std::env::temp_dir().join(format!("plumb-tls-{}", std::process::id()));
        let files = CertificatePaths::self_signed(&directory);
        files.generate_if_missing().unwrap();
        let (_, first) = files.acceptor().unwrap();
        files.generate_if_missing().unwrap();
        assert_eq!(files.acceptor().unwrap().1, first);
        assert_eq!(first.len(), 32 * 3 - 1);
        let mode = fs::metadata(&files.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let der = CertificateDer::from_pem_file(&files.certificate).unwrap();
        let contains = |name: &[u8]| der.windows(name.len()).any(|window| window == name);
        // The name of the host is issuer, subject (each a UTF8String) and subjectAltName (a dNSName).
        let host = host_name();
        let with_tag =
            |tag: u8| [&[tag, u8::try_from(host.len()).unwrap()], host.as_bytes()].concat();
        assert!(contains(&with_tag(0x0c)) && contains(&with_tag(0x82)));
        assert!(!contains(b"rcgen"));
        let warning_after = |days: u64| {
            let now = SystemTime::now() + Duration::from_secs(days * 24 * 3600);
            files.validity_warning(now).unwrap_or_default()
        };
        assert_eq!(warning_after(3619), "");
        assert!(warning_after(3621).contains("certificate.pem expires on "));
        assert!(warning_after(3651).contains("certificate.pem expired on "));
        assert!(files.validity_warning(UNIX_EPOCH).unwrap().contains("is not valid before "));
        fs::remove_dir_all(&directory).unwrap();
    }
}
