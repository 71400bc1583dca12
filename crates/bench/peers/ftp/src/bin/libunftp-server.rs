//! libunftp as a server: `libunftp-server ROOT HOST PORT CERTIFICATE KEY`. Every login is accepted.

use libunftp::ServerBuilder;
use libunftp::options::ActivePassiveMode;
use unftp_sbe_fs::Filesystem;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--version"] {
        println!("libunftp {}", version("libunftp"));
        return;
    }
    let [root, host, port, certificate, key] = &words[..] else {
        eprintln!("usage: libunftp-server ROOT HOST PORT CERTIFICATE KEY");
        std::process::exit(2);
    };
    let root = root.clone();
    let storage = Box::new(move || Filesystem::new(root.clone()).expect("the root is a directory"));
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let server = ServerBuilder::new(storage)
        .active_passive_mode(ActivePassiveMode::ActiveAndPassive)
        .passive_ports(50_000..=60_000)
        .ftps(certificate, key)
        .build()
        .expect("the certificate and its key are valid");
    if let Err(error) = server.listen(place).await {
        eprintln!("libunftp-server: {error}");
        std::process::exit(1);
    }
}

/// Returns the version of a library from the Cargo.lock with which this program was built.
fn version(library: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let entry = format!("name = \"{library}\"\nversion = \"");
    let rest = lock.split(&entry).nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}
