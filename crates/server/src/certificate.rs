//! TLS certificate of a server: configured by the administrator, or generated and self-signed.
//!
//! The self-signed certificate is generated once and kept in the state directory, so that clients
//! that pin the certificate at first use receive the same certificate later. Its private key is
//! readable by the owner only.

use anyhow::{Context, Result};
use carrier::fingerprint;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
        let names = [host_name(), "localhost".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        if let Some(directory) = self.key.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create directory {}", directory.display()))?;
        }
        write(&self.key, &signing_key.serialize_pem(), 0o600)?;
        write(&self.certificate, &cert.pem(), 0o644)
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
        fs::remove_dir_all(&directory).unwrap();
    }
}
