//! Data connections in TLS: those that resume the session's TLS are its own, and no others are.

use super::configured;
use super::ftp_desk::{Desk, Line, Server};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

/// Takes any certificate: the server makes its own.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client that remembers TLS sessions.
fn client(version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[version]).unwrap().dangerous();
    Arc::new(
        builder.with_custom_certificate_verifier(Arc::new(AnyCertificate)).with_no_client_auth(),
    )
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn in_tls(client: &Arc<ClientConfig>, stream: TcpStream) -> Tls {
    let name = ServerName::try_from("host").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(client), name).unwrap(), stream)
}

/// A control connection in TLS.
struct Control(BufReader<Tls>);

impl Control {
    fn logged_in(server: &Server, client: &Arc<ClientConfig>) -> Self {
        let mut line = Line::to(server);
        assert_eq!(line.says("AUTH TLS"), 234);
        let mut control = Self(BufReader::new(in_tls(client, line.0.into_inner())));
        let commands = ["USER ftp", "PASS a@b", "PBSZ 0", "PROT P", "TYPE I"];
        let codes = commands.map(|command| control.asks(command)[..3].to_owned());
        assert_eq!(codes, ["331", "230", "200", "200", "200"]);
        control
    }

    fn asks(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.hears()
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0);
        line
    }

    /// Retrieves `file` by a data connection of `client`, and returns what came and the last reply.
    fn retrieves(&mut self, client: &Arc<ClientConfig>) -> (Vec<u8>, String) {
        let told = self.asks("EPSV");
        let port = told.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        let data = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(self.asks("RETR file").starts_with("150"));
        let mut came = Vec::new();
        // A data connection that is refused ends at some point of its handshake.
        _ = in_tls(client, data).read_to_end(&mut came);
        (came, self.hears())
    }
}

fn only_sessions_of_the_control_connection(version: &'static SupportedProtocolVersion) {
    let desk = Desk::new();
    fs::write(desk.there("file"), b"secret").unwrap();
    let server = configured(&desk, "requires-session-reuse = true\n", &[]);
    let (user, stranger) = (client(version), client(version));
    let mut control = Control::logged_in(&server, &user);
    for _ in 0..5 {
        let (came, reply) = control.retrieves(&user);
        assert_eq!(came, b"secret", "{reply}");
        assert!(reply.starts_with("226"), "{reply}");
    }
    // A session of another control connection is a stranger's too.
    let mut other = Control::logged_in(&server, &stranger);
    assert_eq!(other.retrieves(&stranger).0, b"secret");
    for fresh in [stranger, client(version)] {
        let (came, reply) = control.retrieves(&fresh);
        assert_eq!(came, b"", "{reply}");
        assert!(reply.starts_with("522") && reply.contains("requires-session-reuse"), "{reply}");
    }
    server.says("did not resume this session's");
}

// attack row 97
#[test]
fn a_data_connection_has_to_resume_the_sessions_tls() {
    only_sessions_of_the_control_connection(&TLS13);
}

// attack row 97
#[test]
fn a_data_connection_has_to_resume_the_sessions_older_tls() {
    only_sessions_of_the_control_connection(&TLS12);
}
