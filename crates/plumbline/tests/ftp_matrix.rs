//! Tests of plumb with FTP servers and clients of other projects: in cleartext and TLS, passive and
//! active, over IPv4 and IPv6, with uploads and downloads. The transferred bytes are compared.
//!
//! Each test has its own network namespace, in which all servers listen at 127.0.0.1 and fd00::1.
//! The test writes a matrix of the results to stderr. A cell is `ok`, `-` if the peer does not
//! support the transfer mode, `no root` if only root of the machine can start the server, or
//! `FAILED`. With `PLUMB_LONG=1` each cell transfers files of more sizes.

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
use ftp_matrix::matrix::{Matrix, Outcome, TransferMode};
use login_harness::in_configured_network;
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
        for size in file_sizes() {
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

/// Size of a file that is larger than one TCP window, so that the client still has unsent data when
/// it closes the connection after its last write.
const LARGE_FILE_BYTES: usize = 300_001;

/// Returns the file sizes to transfer.
fn file_sizes() -> &'static [usize] {
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    if is_long { &[0, 1, 4096, 30_001, LARGE_FILE_BYTES, 8_000_000] } else { &[LARGE_FILE_BYTES] }
}

/// Returns `len` bytes with every byte value and every kind of line end.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// Uploads and downloads the files with a client program, and compares the bytes.
fn transfer_and_compare(
    server: &Server,
    client: ClientProgram,
    case: TransferMode,
    directory: &TempDirectory,
) -> Outcome {
    let local_directory =
        directory.0.join(format!("here-{}-{}-{case}", server.kind.name(), client.name()));
    fs::create_dir_all(&local_directory).unwrap();
    for &size in file_sizes() {
        let name = format!("{}-{}-{case}-{size}", server.kind.name(), client.name());
        let source = local_directory.join(&name);
        fs::write(&source, content(size)).unwrap();
        let Some(outcome) = client.upload(server, case, &local_directory, &name) else {
            return Outcome::Unsupported;
        };
        if let Err(messages) = outcome {
            return Outcome::Failed(format!("to send {size} bytes: {messages}"));
        }
        let uploaded_path = directory.0.join("root/in").join(&name);
        if fs::read(&uploaded_path).ok() != Some(content(size)) {
            return Outcome::Failed(format!("{size} bytes are others at the server"));
        }
        _ = fs::remove_file(&source);
        let Some(outcome) = client.download(server, case, &local_directory, &format!("f{size}"))
        else {
            return Outcome::Unsupported;
        };
        if let Err(messages) = outcome {
            return Outcome::Failed(format!("to get {size} bytes: {messages}"));
        }
        if fs::read(local_directory.join(format!("f{size}"))).ok() != Some(content(size)) {
            return Outcome::Failed(format!("{size} bytes are others here"));
        }
    }
    Outcome::Done
}

/// Tests all transfer modes between one client program and the two servers of a kind.
fn test_client(
    servers: &[Server],
    kind: Kind,
    client: ClientProgram,
    directory: &TempDirectory,
) -> Vec<(TransferMode, Outcome)> {
    let find_server =
        |is_v6| servers.iter().find(|server| server.kind == kind && server.is_v6 == is_v6);
    TransferMode::ALL
        .into_iter()
        .map(|case| {
            let outcome = match find_server(case.is_v6) {
                Some(server) => transfer_and_compare(server, client, case, directory),
                None => Outcome::NoRoot,
            };
            (case, outcome)
        })
        .collect()
}

#[test]
#[ignore = "needs root or a user namespace, and the FTP servers"]
fn plumb_transfers_files_with_every_server() {
    in_configured_network(NETWORK, || {
        let directory = TempDirectory::new("servers");
        let servers = Server::start_all(&directory.0, &Kind::ALL);
        let mut matrix = Matrix::new("plumb get and put at these servers");
        let rows: Vec<_> = thread::scope(|scope| {
            let row = |kind| {
                let servers = &servers;
                let directory = &directory;
                (
                    kind,
                    scope
                        .spawn(move || test_client(servers, kind, ClientProgram::Plumb, directory)),
                )
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
    in_configured_network(NETWORK, || {
        let directory = TempDirectory::new("users");
        let servers = Server::start_all(&directory.0, &[Kind::Plumb]);
        let mut matrix = Matrix::new("these programs at plumb serve --ftp");
        let rows: Vec<_> = thread::scope(|scope| {
            let row = |client: ClientProgram| {
                let servers = &servers;
                let directory = &directory;
                client.find_programs();
                (client, scope.spawn(move || test_client(servers, Kind::Plumb, client, directory)))
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
