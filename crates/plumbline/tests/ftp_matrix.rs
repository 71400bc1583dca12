//! FTP servers and clients of other projects against plumb: in cleartext and TLS, passive and
//! active, over IPv4 and IPv6, uploads and downloads, with the bytes compared.
//!
//! Each test has its own network namespace, in which all servers listen at 127.0.0.1 and fd00::1.
//! The test writes its matrix to stderr: a cell is `ok`, `-` if the peer does not support the case,
//! `no root` if only root of the machine can start the server, or `FAILED`. With `PLUMB_LONG=1`
//! each cell transfers files of more sizes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod ftp_matrix {
    pub(crate) mod ftp_clients;
    pub(crate) mod ftp_servers;
    pub(crate) mod matrix;
}
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use ftp_matrix::ftp_clients::ClientProgram;
use ftp_matrix::ftp_servers::{Kind, Server};
use ftp_matrix::matrix::{Case, Matrix, Outcome};
use login_harness::in_network_of;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;

/// Commands of `ip` that set up the network namespace. lftp connects to ::1 only if another IPv6
/// address exists, and then sends `::` as its own address in EPRT; so the servers also listen at
/// fd00::1.
const NETWORK: &[&[&str]] =
    &[&["link", "set", "lo", "up"], &["address", "add", "fd00::1/128", "dev", "lo"]];

/// A temporary directory, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    /// Creates the directory with `root` for served files and `root/in` for uploads.
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("plumb-ftp-matrix-{name}-{}", std::process::id()));
        for (directory, mode) in
            [("", 0o755), ("root", 0o755), ("root/in", 0o777), ("empty", 0o755)]
        {
            let directory = path.join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        }
        for size in sizes() {
            let file = path.join(format!("root/f{size}"));
            fs::write(&file, content(*size)).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        }
        Self(path)
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// File size above one TCP window: a client that closes right after its last write has not yet sent
/// all of it.
const WINDOWS: usize = 300_001;

/// Returns the file sizes to transfer.
fn sizes() -> &'static [usize] {
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    if is_long { &[0, 1, 4096, 30_001, WINDOWS, 8_000_000] } else { &[WINDOWS] }
}

/// Returns `len` bytes with every byte value and every kind of line end.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// Has a client upload and download the files, and compares the bytes.
fn moves(server: &Server, client: ClientProgram, case: Case, directory: &TempDirectory) -> Outcome {
    let here = directory.0.join(format!("here-{}-{}-{case}", server.kind.name(), client.name()));
    fs::create_dir_all(&here).unwrap();
    for &size in sizes() {
        let name = format!("{}-{}-{case}-{size}", server.kind.name(), client.name());
        let source = here.join(&name);
        fs::write(&source, content(size)).unwrap();
        let Some(outcome) = client.sends(server, case, &here, &name) else {
            return Outcome::Unknown;
        };
        if let Err(messages) = outcome {
            return Outcome::Failed(format!("to send {size} bytes: {messages}"));
        }
        let sent = directory.0.join("root/in").join(&name);
        if fs::read(&sent).ok() != Some(content(size)) {
            return Outcome::Failed(format!("{size} bytes are others at the server"));
        }
        _ = fs::remove_file(&source);
        let Some(outcome) = client.gets(server, case, &here, &format!("f{size}")) else {
            return Outcome::Unknown;
        };
        if let Err(messages) = outcome {
            return Outcome::Failed(format!("to get {size} bytes: {messages}"));
        }
        if fs::read(here.join(format!("f{size}"))).ok() != Some(content(size)) {
            return Outcome::Failed(format!("{size} bytes are others here"));
        }
    }
    Outcome::Done
}

/// Has one client try every case at the two servers of a kind.
fn row(
    servers: &[Server],
    kind: Kind,
    client: ClientProgram,
    directory: &TempDirectory,
) -> Vec<(Case, Outcome)> {
    let of = |is_v6| servers.iter().find(|server| server.kind == kind && server.is_v6 == is_v6);
    Case::ALL
        .into_iter()
        .map(|case| {
            let outcome = match of(case.is_v6) {
                Some(server) => moves(server, client, case, directory),
                None => Outcome::NoRoot,
            };
            (case, outcome)
        })
        .collect()
}

#[test]
#[ignore = "needs root or a user namespace, and the FTP servers"]
fn plumb_transfers_files_with_every_server() {
    in_network_of(NETWORK, || {
        let directory = TempDirectory::new("servers");
        let servers = Server::start_all(&directory.0, &Kind::ALL);
        let mut matrix = Matrix::new("plumb get and put at these servers");
        let rows: Vec<_> = thread::scope(|scope| {
            let row = |kind| {
                let servers = &servers;
                let directory = &directory;
                (kind, scope.spawn(move || row(servers, kind, ClientProgram::Plumb, directory)))
            };
            let threads: Vec<_> = Kind::ALL.into_iter().map(row).collect();
            threads.into_iter().map(|(kind, thread)| (kind, thread.join().unwrap())).collect()
        });
        for (kind, row) in rows {
            matrix.add(kind.name(), row);
        }
        matrix.conclude();
    });
}

#[test]
#[ignore = "needs root or a user namespace, and the programs of FTP users"]
fn every_client_program_transfers_files_with_plumb_serve() {
    in_network_of(NETWORK, || {
        let directory = TempDirectory::new("users");
        let servers = Server::start_all(&directory.0, &[Kind::Plumb]);
        let mut matrix = Matrix::new("these programs at plumb serve --ftp");
        let rows: Vec<_> = thread::scope(|scope| {
            let row = |client: ClientProgram| {
                let servers = &servers;
                let directory = &directory;
                client.meet();
                (client, scope.spawn(move || row(servers, Kind::Plumb, client, directory)))
            };
            let threads: Vec<_> = ClientProgram::ALL.into_iter().map(row).collect();
            threads.into_iter().map(|(client, thread)| (client, thread.join().unwrap())).collect()
        });
        for (client, row) in rows {
            matrix.add(client.name(), row);
        }
        matrix.conclude();
    });
}
