//! Data connections in TLS: the server accepts only a data connection that resumes the TLS session
//! of its own control connection.

use super::ftp_harness::{ControlConnection, Server, TestDirectories};
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
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ProtocolVersion, SignatureScheme,
    StreamOwned, SupportedProtocolVersion,
};

/// Accepts any certificate: the server's is self-signed.
#[derive(Debug)]
struct AcceptAnyCertificate;

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

/// Returns the settings of a client with its own cache of TLS sessions.
fn client(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap().dangerous();
    Arc::new(
        builder
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate))
            .with_no_client_auth(),
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
    fn logged_in(server: &Server, client: &Arc<ClientConfig>, user: &str) -> Self {
        let mut line = ControlConnection::connect(server);
        assert_eq!(line.send("AUTH TLS"), 234);
        let mut control = Self(BufReader::new(in_tls(client, line.0.into_inner())));
        let user = format!("USER {user}");
        let commands = [&user, "PASS secret", "PBSZ 0", "PROT P", "TYPE I"];
        let codes = commands.map(|command| control.send_and_read(command)[..3].to_owned());
        assert_eq!(codes, ["331", "230", "200", "200", "200"]);
        control
    }

    fn send_and_read(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.read_reply()
    }

    fn read_reply(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0);
        line
    }

    /// Retrieves `file` over a data connection with the TLS settings `client`, and returns the data
    /// and the last reply.
    fn retrieve(&mut self, client: &Arc<ClientConfig>) -> (Vec<u8>, String) {
        let reply = self.send_and_read("EPSV");
        let port = reply.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        let data = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(self.send_and_read("RETR file").starts_with("150"));
        let mut received = Vec::new();
        // The server may close a refused data connection at any point of its handshake.
        _ = in_tls(client, data).read_to_end(&mut received);
        (received, self.read_reply())
    }
}

fn assert_only_own_sessions_are_accepted(versions: &[&'static SupportedProtocolVersion]) {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"secret").unwrap();
    let users =
        directories.users_file(&format!("root = \"{}\"", directories.remote_path("").display()));
    let server = Server::configured(&directories, "anonymous = true\n", &["--ftp-users", &users]);
    let user = client(versions);
    let other_client = client(versions);
    let mut control = Control::logged_in(&server, &user, "ftp");
    for _ in 0..5 {
        let (came, reply) = control.retrieve(&user);
        assert_eq!(came, b"secret", "{reply}");
        assert!(reply.starts_with("226"), "{reply}");
    }
    // A TLS session of another control connection is not accepted for this connection's data.
    let mut other = Control::logged_in(&server, &other_client, "ann");
    assert_eq!(other.retrieve(&other_client).0, b"secret");
    for fresh in [other_client, client(versions)] {
        let (came, reply) = control.retrieve(&fresh);
        assert_eq!(came, b"", "{reply}");
        assert!(reply.starts_with("522") && reply.contains("requires-session-reuse"), "{reply}");
    }
    server.wait_for_log("did not resume the TLS session");
}

// attack row 97
#[test]
fn a_data_connection_must_resume_the_tls_session() {
    assert_only_own_sessions_are_accepted(&[&TLS13]);
}

// attack row 97
#[test]
fn a_data_connection_must_resume_the_tls_1_2_session() {
    assert_only_own_sessions_are_accepted(&[&TLS12]);
}

// attack row 97
#[test]
fn a_client_that_offers_tls_1_2_gets_it_unless_no_reuse_is_required() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"secret").unwrap();
    for (lines, versions, expected) in [
        ("", &[&TLS12, &TLS13][..], ProtocolVersion::TLSv1_2),
        ("", &[&TLS13], ProtocolVersion::TLSv1_3),
        ("requires-session-reuse = false\n", &[&TLS12, &TLS13], ProtocolVersion::TLSv1_3),
    ] {
        let server = Server::configured(&directories, lines, &[]);
        let user = client(versions);
        let mut control = Control::logged_in(&server, &user, "ftp");
        assert_eq!(control.0.get_ref().conn.protocol_version(), Some(expected));
        assert_eq!(control.retrieve(&user).0, b"secret");
    }
}

#[test]
fn the_sessions_of_anonymous_users_at_one_address_accept_each_others_tls() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"secret").unwrap();
    let server = Server::configured(&directories, "", &[]);
    let user = client(&[&TLS12]);
    let mut controls = [(); 3].map(|()| Control::logged_in(&server, &user, "ftp"));
    for control in &mut controls {
        assert_eq!(control.retrieve(&user).0, b"secret");
    }
}
