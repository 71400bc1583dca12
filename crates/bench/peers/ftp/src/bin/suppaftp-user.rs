//! suppaftp as a client: `suppaftp-user send|get IN_TLS PASSIVE HOST PORT USER PASSWORD NAME`,
//! where IN_TLS and PASSIVE are `yes` or `no`. An upload goes into the directory `in`. Any
//! certificate is accepted.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use suppaftp::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use suppaftp::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use suppaftp::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use suppaftp::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use suppaftp::types::{FileType, Mode};
use suppaftp::{FtpResult, RustlsConnector, RustlsFtpStream};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--version"] {
        println!("suppaftp {}", version("suppaftp"));
        return;
    }
    let [direction, in_tls, passive, host, port, user, password, name] = &words[..] else {
        eprintln!("usage: suppaftp-user send|get IN_TLS PASSIVE HOST PORT USER PASSWORD NAME");
        std::process::exit(2);
    };
    let port = port.parse().expect("the port is a number");
    let moved = (|| -> FtpResult<()> {
        let mut ftp = RustlsFtpStream::connect((host.as_str(), port))?;
        if in_tls == "yes" {
            ftp = ftp.into_secure(connector(), "localhost")?;
        }
        ftp = match (passive.as_str(), host.contains(':')) {
            ("no", _) => ftp.active_mode(Duration::from_secs(30)),
            (_, true) => {
                ftp.set_mode(Mode::ExtendedPassive);
                ftp
            }
            (_, false) => ftp,
        };
        ftp.login(user, password)?;
        ftp.transfer_type(FileType::Binary)?;
        if direction == "send" {
            let mut file = File::open(name).expect("the file exists");
            ftp.put_file(format!("in/{name}"), &mut file)?;
        } else {
            let data = ftp.retr_as_buffer(name)?;
            std::fs::write(name, data.into_inner()).expect("the file can be written");
        }
        ftp.quit()
    })();
    if let Err(error) = moved {
        eprintln!("suppaftp-user: {error}");
        std::process::exit(1);
    }
}

fn connector() -> RustlsConnector {
    let provider = Arc::new(ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default TLS versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        .with_no_client_auth();
    RustlsConnector::from(Arc::new(configuration))
}

/// Certificate verifier that accepts any certificate. Only the signature of the TLS handshake is
/// verified, with the key of the certificate.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the version of a library from the Cargo.lock with which this program was built.
fn version(library: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let entry = format!("name = \"{library}\"\nversion = \"");
    let rest = lock.split(&entry).nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}
