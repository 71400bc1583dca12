//! TLS configuration of the FTP server.

use super::configuration::FtpSettings;
use super::protection::Protection;
use super::virtual_host::Certificates;
use anyhow::Result;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::Ticketer;

/// TLS options of a listener.
#[derive(Clone)]
pub(super) struct TlsOptions {
    pub(super) tls: Option<DefaultTls>,
    pub(super) is_implicit_tls: bool,
}

/// TLS configuration for clients that have not selected a virtual host yet.
#[derive(Clone)]
pub(super) struct DefaultTls {
    pub(super) configuration: Arc<ServerConfig>,
    pub(super) certificates: Arc<Certificates>,
}

/// TLS of a configuration.
#[derive(Clone, Default)]
pub(super) struct PreparedTls {
    /// TLS configuration; `None` if TLS is off or not available.
    pub(super) tls: Option<DefaultTls>,
    /// SHA-256 fingerprint of the certificate.
    pub(super) certificate: Option<String>,
    /// Reason for which TLS is not available, if it would be offered by default.
    pub(super) no_tls: Option<String>,
}

/// Returns the TLS configuration, if TLS is enabled. If TLS is only offered by default, the server
/// runs without TLS after an error.
///
/// # Errors
///
/// Returns an error if TLS is required and not available.
pub(super) fn prepare_tls(settings: &FtpSettings) -> Result<PreparedTls> {
    if settings.tls == Protection::Off {
        return Ok(PreparedTls::default());
    }
    match build_tls(settings) {
        Ok((tls, sha256)) => {
            Ok(PreparedTls { tls: Some(tls), certificate: Some(sha256), no_tls: None })
        }
        Err(error) => {
            let is_tls_required = settings.tls == Protection::Required
                || !settings.listen_tls.is_empty()
                || !settings.generates_certificate
                || settings.hosts.iter().any(|host| host.certificate.is_some());
            if is_tls_required {
                return Err(error);
            }
            Ok(PreparedTls { no_tls: Some(format!("{error:#}")), ..PreparedTls::default() })
        }
    }
}

fn build_tls(settings: &FtpSettings) -> Result<(DefaultTls, String)> {
    if settings.generates_certificate {
        settings.certificate.generate_if_missing()?;
    }
    let (mut tls, sha256) = settings.certificate.configuration()?;
    // Tickets contain the whole TLS session, so any number of sessions can be resumed.
    tls.ticketer = Ticketer::new()?;
    let default = Arc::clone(&tls.cert_resolver);
    let certificates = Arc::new(Certificates::new(default, &settings.hosts)?);
    tls.cert_resolver = Arc::clone(&certificates) as _;
    Ok((DefaultTls { configuration: Arc::new(tls), certificates }, sha256))
}
