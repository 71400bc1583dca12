//! Certificate verification: trust on first use, or the certificates in the user's own file of
//! certificate authorities.

use super::pins::Pins;
use super::suites;
use super::tls_failure::TlsFailure;
use super::tls_parameters::TrustedBy;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError,
    RootCertStore, SignatureScheme,
};
/// Trust policy and client parameters for one server.
#[derive(Clone, Debug)]
pub struct Trust {
    server: String,
    name: ServerName<'static>,
    authorities: Option<Authorities>,
    pins: Pins,
    /// Whether certificates are verified.
    is_verifying: bool,
}

/// Certificates of a file: certificate authorities and server certificates.
#[derive(Clone, Debug)]
struct Authorities {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Creates the trust policy for `host` at `port`: trust on first use or, if `authorities` is
    /// given, trust in the certificates of that PEM file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or has no certificate.
    pub fn new(host: &str, port: u16, authorities: Option<&Path>) -> Result<Self> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // Without authorities the server name is not verified, so the client omits SNI: an IP
            // address is never sent as a server name.
            Err(_) if authorities.is_none() => {
                ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())
            }
            Err(_) => bail!("'{}' is not a valid name for a certificate", host.escape_debug()),
        };
        let server =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let authorities = authorities.map(read_authorities).transpose()?;
        Ok(Self { server, name, authorities, pins: Pins::of_user(), is_verifying: true })
    }

    /// Accepts any certificate of the server, and pins none. All connections of a [`TlsClient`] must
    /// still present the same certificate.
    #[must_use]
    pub fn without_verification(self) -> Self {
        Self { is_verifying: false, ..self }
    }

    /// Returns whether a certificate of the server is pinned.
    pub fn is_known(&self) -> bool {
        matches!(self.pins.find(&self.server), Ok(Some(_)))
    }

    #[cfg(test)]
    pub(super) fn with_pins(self, pins: Pins) -> Self {
        Self { pins, ..self }
    }

    /// Starts TLS with the server. The fingerprint of the server's certificate is stored in
    /// `presented_fingerprint`.
    ///
    /// # Errors
    ///
    /// Returns an error if the pinned certificates cannot be read.
    pub(super) fn connect(
        &self,
        presented_fingerprint: &Arc<OnceLock<String>>,
    ) -> Result<ClientConnection, TlsFailure> {
        let configuration = Arc::new(self.configuration(presented_fingerprint)?);
        ClientConnection::new(configuration, self.name.clone())
            .map_err(|error| TlsFailure::HandshakeFailed(error.to_string()))
    }

    /// Creates a client for several connections to the server. Later connections resume the TLS
    /// sessions of earlier connections. Without a file of authorities, the server must present the
    /// same certificate in all connections.
    ///
    /// # Errors
    ///
    /// Returns an error if the pinned certificates cannot be read.
    pub fn client(&self) -> Result<TlsClient, TlsFailure> {
        let presented_fingerprint = Arc::new(OnceLock::new());
        let configuration = Arc::new(self.configuration(&presented_fingerprint)?);
        Ok(TlsClient { trust: self.clone(), configuration, presented_fingerprint })
    }

    /// Converts the `error` that ended a handshake into a refusal. `presented_fingerprint`
    /// identifies the certificate that the server presented.
    pub(super) fn refusal_for(
        &self,
        error: &TlsError,
        presented_fingerprint: Option<&String>,
    ) -> TlsFailure {
        let TlsError::InvalidCertificate(reason) = error else {
            return TlsFailure::HandshakeFailed(error.to_string());
        };
        match (&self.authorities, presented_fingerprint, self.pins.find(&self.server)) {
            (None, Some(presented), Ok(Some(pinned))) => TlsFailure::CertificateChanged {
                server: self.server.clone(),
                pinned,
                presented: presented.clone(),
            },
            (Some(_), ..) => TlsFailure::VerificationFailed(reason.to_string()),
            _ => TlsFailure::HandshakeFailed(error.to_string()),
        }
    }

    /// Returns the basis of the trust in an accepted certificate. Pins the server's first
    /// certificate.
    pub(super) fn trust_basis(&self, fingerprint: &str) -> TrustedBy {
        if !self.is_verifying {
            return TrustedBy::NotVerified;
        }
        if self.authorities.is_some() {
            return TrustedBy::Authority;
        }
        if self.is_known() {
            return TrustedBy::Pin;
        }
        match self.pins.add(&self.server, fingerprint) {
            Ok(()) => TrustedBy::FirstUse,
            Err(error) => TrustedBy::FirstUseNotPinned(format!(
                "cannot write {}: {error}",
                self.pins.path().display()
            )),
        }
    }

    fn configuration(
        &self,
        presented_fingerprint: &Arc<OnceLock<String>>,
    ) -> Result<ClientConfig, TlsFailure> {
        let provider = Arc::new(suites::provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFailure::HandshakeFailed(error.to_string()))?;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.authorities {
            Some(Authorities { roots, certificates }) if self.is_verifying => {
                let authorities =
                    WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider)
                        .build()
                        .map_err(|error| TlsFailure::HandshakeFailed(error.to_string()))?;
                Arc::new(AuthorityVerifier { authorities, certificates: certificates.clone() })
            }
            _ => {
                let pins = self.is_verifying.then(|| self.pins.find(&self.server));
                let pinned = pins.transpose().map_err(|error| TlsFailure::Pins {
                    path: self.pins.path().display().to_string(),
                    error: error.to_string(),
                })?;
                let pinned = pinned.flatten();
                Arc::new(PinVerifier {
                    pinned,
                    presented_fingerprint: Arc::clone(presented_fingerprint),
                    provider,
                })
            }
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        Ok(builder.with_no_client_auth())
    }
}

/// Shared TLS client state of several connections to one server.
#[derive(Clone, Debug)]
pub struct TlsClient {
    trust: Trust,
    configuration: Arc<ClientConfig>,
    presented_fingerprint: Arc<OnceLock<String>>,
}

impl TlsClient {
    /// Returns the configuration and the name of the server.
    pub fn parts(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (Arc::clone(&self.configuration), self.trust.name.clone())
    }

    /// Returns the reason why TLS was not established.
    pub fn refusal(&self, error: &std::io::Error) -> TlsFailure {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        match of_tls {
            Some(error) => self.trust.refusal_for(error, self.presented_fingerprint.get()),
            None => TlsFailure::HandshakeFailed(error.to_string()),
        }
    }

    /// Returns the basis of the trust in an accepted certificate, and pins the server's first
    /// certificate.
    pub fn trust_basis(&self, fingerprint: &str) -> TrustedBy {
        // With a file of authorities each certificate is verified, so a server may present
        // different certificates.
        self.trust.trust_basis(fingerprint)
    }
}

fn read_authorities(file: &Path) -> Result<Authorities> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificates in {}", file.display()))?;
    let (added, _) = roots.add_parsable_certificates(certificates.clone());
    if added == 0 {
        bail!("no certificate in {}: the file must be PEM", file.display());
    }
    Ok(Authorities { roots: Arc::new(roots), certificates })
}

/// Verifier that accepts certificates signed by an authority in the user's file, and server
/// certificates contained in the file itself.
#[derive(Debug)]
struct AuthorityVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for AuthorityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if self.certificates.iter().any(|own| own.as_ref() == end_entity.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        let authorities = &self.authorities;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Verifier that accepts the pinned certificate; if no certificate is pinned, any certificate. The
/// server must always prove that it has the private key.
#[derive(Debug)]
struct PinVerifier {
    pinned: Option<String>,
    presented_fingerprint: Arc<OnceLock<String>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let presented = fingerprint(end_entity);
        let is_known = self.pinned.as_ref().is_none_or(|pinned| *pinned == presented);
        // All later handshakes must present the certificate of the first handshake.
        let is_same = *self.presented_fingerprint.get_or_init(|| presented.clone()) == presented;
        if is_known && is_same {
            return Ok(ServerCertVerified::assertion());
        }
        Err(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the SHA-256 of a certificate in hexadecimal, with a colon between the bytes.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ::ring::digest::digest(&::ring::digest::SHA256, certificate);
    let bytes: Vec<_> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}
