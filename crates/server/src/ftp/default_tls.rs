//! TLS configuration of the FTP server.

use super::configuration::FtpSettings;
use super::ftp_log::FtpEvent;
use super::protection::Protection;
use super::virtual_host::Certificates;
use crate::log::Log;
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

/// Returns the TLS configuration, if TLS is enabled. If TLS is only offered by default, an error is
/// logged and the server runs without TLS.
pub(super) fn tls(settings: &FtpSettings, log: Log) -> Result<Option<DefaultTls>> {
    if settings.tls == Protection::Off {
        return Ok(None);
    }
    match build_tls(settings) {
        Ok((tls, sha256)) => {
            log.write(&FtpEvent::Certificate { sha256 });
            Ok(Some(tls))
        }
        Err(error) => {
            let is_tls_required = settings.tls == Protection::Required
                || !settings.listen_tls.is_empty()
                || !settings.generates_certificate
                || settings.hosts.iter().any(|host| host.certificate.is_some());
            if is_tls_required {
                return Err(error);
            }
            log.write(&FtpEvent::NoTls { why: format!("{error:#}") });
            Ok(None)
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
