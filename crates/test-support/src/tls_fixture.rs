//! A TLS server and a client that trusts it.

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Name in the certificate of a [`TlsFixture`].
const SERVER_NAME: &str = "host";

/// Configurations of a server that issues tickets, and of a client that trusts its certificate and
/// remembers its sessions.
#[derive(Debug)]
pub struct TlsFixture {
    /// Configuration of the server.
    pub server: Arc<ServerConfig>,
    /// Configuration of the client.
    pub client: Arc<ClientConfig>,
}

impl TlsFixture {
    /// Creates a new certificate and both configurations for one version of TLS.
    ///
    /// # Panics
    ///
    /// Panics if no certificate or configuration can be created.
    pub fn new(version: &'static SupportedProtocolVersion) -> Self {
        let CertifiedKey { cert, signing_key }: CertifiedKey<KeyPair> =
            generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a private key");
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version of the provider")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a key that belongs to the certificate");
        server.ticketer = Ticketer::new().expect("random bytes");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a valid certificate");
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version of the provider")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { server: Arc::new(server), client: Arc::new(client) }
    }

    /// Returns the name in the server's certificate.
    ///
    /// # Panics
    ///
    /// Never: the name is valid.
    pub fn server_name() -> ServerName<'static> {
        ServerName::try_from(SERVER_NAME).expect("a valid name")
    }
}
