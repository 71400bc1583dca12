//! Tests of the clients `plumb login telnets://` and `plumb get ftps://` with hostile certificates.
//! Each client runs with limits on its processor time and memory, and must refuse the server with
//! an error message.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The host name that every client expects.
const NAME: &str = "127.0.0.1";

/// Certificate resolver that presents a fixed chain, however invalid.
#[derive(Debug)]
struct Chain(Arc<CertifiedKey>);

impl ResolvesServerCert for Chain {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A certificate authority: its certificate parameters and its key.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { params, key: KeyPair::generate().unwrap() }
    }

    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::from_params(&self.params, &self.key)
    }

    fn own_certificate(&self) -> rcgen::Certificate {
        self.params.self_signed(&self.key).unwrap()
    }

    fn certify(&self, other: &Self) -> CertificateDer<'static> {
        other.params.signed_by(&other.key, &self.issuer()).unwrap().der().clone()
    }
}

fn leaf(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// A server's chain, and the only authority that the client trusts.
struct Attack {
    trusted: Authority,
    key: KeyPair,
    chain: Vec<CertificateDer<'static>>,
}

impl Attack {
    /// Creates a chain of one certificate with the given parameters, signed by the trusted
    /// authority.
    fn from_leaf(params: &CertificateParams) -> Self {
        let trusted = Authority::new("trusted");
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.signed_by(&key, &trusted.issuer()).unwrap().der().clone()];
        Self { trusted, key, chain }
    }

    /// Creates a chain of a leaf signed by `signer`, followed by `rest`.
    fn from_chain(signer: &Authority, rest: Vec<CertificateDer<'static>>) -> Self {
        let trusted = Authority::new("trusted");
        let key = KeyPair::generate().unwrap();
        let leaf = leaf(NAME).signed_by(&key, &signer.issuer()).unwrap().der().clone();
        Self { trusted, key, chain: [vec![leaf], rest].concat() }
    }

    /// Presents the chain to all clients, one after the other, and returns the clients' outputs.
    fn outputs(&self) -> Vec<Output> {
        let (port, server) = self.serve(2);
        let directory =
            std::env::temp_dir().join(format!("plumb-chain-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let authority = directory.join("ca.pem");
        std::fs::write(&authority, self.trusted.own_certificate().pem()).unwrap();
        let authority = authority.to_str().unwrap();
        let login = ["login", "--ca", authority, &format!("telnets://{NAME}:{port}")];
        let download = ["get", "--ca", authority, &format!("ftps://{NAME}:{port}/file")];
        let outputs = vec![run_limited(&login, &directory), run_limited(&download, &directory)];
        server.join().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        outputs
    }

    /// Presents the chain to `clients` connections; returns the port and the server's thread.
    fn serve(&self, clients: usize) -> (u16, thread::JoinHandle<()>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let key = ring::sign::any_supported_type(&key).unwrap();
        let chain = Chain(Arc::new(CertifiedKey::new(self.chain.clone(), key)));
        let configuration = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(chain));
        let configuration = Arc::new(configuration);
        let listener = TcpListener::bind((NAME, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            for _ in 0..clients {
                let (stream, _) = listener.accept().unwrap();
                let tls = ServerConnection::new(Arc::clone(&configuration)).unwrap();
                let mut stream = StreamOwned::new(tls, stream);
                // A client that refuses the chain closes without waiting for the greeting.
                if stream.write_all(b"220 ready\r\nlogin: ").and_then(|()| stream.flush()).is_ok() {
                    _ = std::io::copy(&mut stream, &mut std::io::sink());
                }
            }
        });
        (port, server)
    }
}

/// Runs plumb with limits of ten seconds of processor time and 2 GB of address space.
fn run_limited(words: &[&str], directory: &PathBuf) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t 10; ulimit -v 2000000; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_plumb")).args(words);
    command.env("XDG_STATE_HOME", directory).current_dir(directory).stdin(Stdio::null());
    command.output().unwrap()
}

/// Checks that every client refuses the attack with an error that contains one of `reasons`.
fn assert_refused(attack: &Attack, reasons: &[&str]) {
    for output in attack.outputs() {
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), None, "{messages}");
        assert_eq!(output.status.code(), Some(1), "{messages}");
        assert!(reasons.iter().any(|reason| messages.contains(reason)), "{messages}");
        assert!(messages.len() < 2_000 && !messages.contains("panicked"), "{messages}");
    }
}

// attack row 124
#[test]
fn a_certificate_of_another_time_or_name_is_refused() {
    let mut expired = leaf(NAME);
    expired.not_before = rcgen::date_time_ymd(1999, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2000, 1, 1);
    assert_refused(&Attack::from_leaf(&expired), &["expired"]);
    let mut future = leaf(NAME);
    future.not_before = rcgen::date_time_ymd(2999, 1, 1);
    future.not_after = rcgen::date_time_ymd(3000, 1, 1);
    assert_refused(&Attack::from_leaf(&future), &["not valid yet", "NotValidYet"]);
    assert_refused(&Attack::from_leaf(&leaf("other.example")), &["not valid for", "other.example"]);
}

// attack row 124
#[test]
fn an_untrusted_chain_is_refused_even_if_short_or_circular() {
    let first = Authority::new("one");
    let other = Authority::new("other");
    assert_refused(&Attack::from_chain(&first, Vec::new()), &["UnknownIssuer"]);
    let single_certificate = vec![first.own_certificate().der().clone()];
    assert_refused(&Attack::from_chain(&first, single_certificate), &["UnknownIssuer"]);
    // The two authorities have certified each other, and both certificates occur several times.
    let pair = [other.certify(&first), first.certify(&other)];
    let rest = pair.iter().cycle().take(12).cloned().collect();
    assert_refused(
        &Attack::from_chain(&first, rest),
        &["UnknownIssuer", "MaximumPathDepth", "budget"],
    );
}

// attack row 124
#[test]
fn a_chain_that_branches_everywhere_is_refused_within_a_bounded_amount_of_work() {
    // Authorities with the same name and different keys: by its name, each authority could have
    // issued each certificate of the next stage.
    let stages: Vec<Vec<Authority>> =
        (0..6).map(|_| (0..6).map(|_| Authority::new("same")).collect()).collect();
    let mut rest = Vec::new();
    for (below, above) in stages.iter().zip(stages.iter().skip(1)) {
        rest.extend(below.iter().zip(above).map(|(below, above)| above.certify(below)));
    }
    let signer = stages.first().and_then(|stage| stage.first()).unwrap();
    assert_refused(
        &Attack::from_chain(signer, rest),
        &["UnknownIssuer", "MaximumPathDepth", "Maximum"],
    );
}

// attack row 124
#[test]
fn an_endless_chain_and_an_endless_certificate_are_refused_before_they_are_read() {
    let authority = Authority::new("one");
    let certificate = authority.own_certificate().der().clone();
    let many = vec![certificate; 2_000];
    assert_refused(&Attack::from_chain(&authority, many), &["TLS", "large", "UnknownIssuer"]);
    let mut giant = leaf(NAME);
    let content = vec![0; 1_000_000];
    giant.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1], content));
    assert_refused(&Attack::from_leaf(&giant), &["TLS", "large"]);
}
