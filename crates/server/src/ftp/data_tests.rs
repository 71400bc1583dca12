//! Tests of small transfers that run without a separate task, over the loopback interface.

use super::*;
use os::beneath::{Existing, RootDir};
use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::path::PathBuf;

/// An upload and both ends of its data connection.
struct Fixture {
    directory: PathBuf,
    upload: Upload,
    server: Stream,
    client: Option<std::net::TcpStream>,
    stats: ServerTransferStats,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("plumb-once-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let atomic_file =
            RootDir::open(&directory).unwrap().create(b"file", Existing::Replace).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let upload = Upload::new(atomic_file, None, 10_000);
        Self {
            directory,
            upload,
            server: Stream::Unregistered(server),
            client: Some(client),
            stats: ServerTransferStats::default(),
        }
    }

    fn receive(&mut self) -> Result<bool, TransferError> {
        let Self { server, upload, stats, .. } = self;
        receive_available(server, upload, &mut [0; 1000], stats)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

#[test]
fn received_data_with_end_of_stream_is_a_complete_file() {
    let mut fixture = Fixture::new("whole");
    fixture.client.as_ref().unwrap().write_all(&[7; 4096]).unwrap();
    fixture.client.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    assert_eq!(fixture.receive(), Ok(true));
    assert_eq!((fixture.upload.len_bytes(), fixture.stats.transfer.moved_bytes()), (4096, 4096));
}

#[test]
fn received_data_without_end_of_stream_is_incomplete() {
    let mut fixture = Fixture::new("part");
    fixture.client.as_ref().unwrap().write_all(&[7; 4096]).unwrap();
    assert_eq!(fixture.receive(), Ok(false));
    assert_eq!(fixture.upload.len_bytes(), 4096);
}

#[test]
fn a_connection_that_was_reset_has_no_end_of_file() {
    let mut fixture = Fixture::new("reset");
    let client = fixture.client.take().unwrap();
    ftp_data::reset_on_close(&client);
    drop(client);
    assert_eq!(fixture.receive(), Err(TransferError::ConnectionLost));
}

#[test]
fn a_file_larger_than_the_limit_is_rejected() {
    let mut fixture = Fixture::new("limit");
    fixture.client.as_ref().unwrap().write_all(&[7; 20_000]).unwrap();
    assert_eq!(fixture.receive(), Err(TransferError::File(FileError::Limit)));
}
