//! Tests of transfers without a task of their own, over the loopback interface.

use super::*;
use os::jail::{Existing, Jail};
use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::path::PathBuf;

/// An upload and both ends of its data connection.
struct Desk {
    folder: PathBuf,
    upload: Upload,
    near: Stream,
    far: Option<std::net::TcpStream>,
    ledger: Ledger,
}

impl Desk {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plumb-once-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let draft = Jail::open(&folder).unwrap().create(b"file", Existing::Replace).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        let upload = Upload::new(draft, None, 10_000);
        Self {
            folder,
            upload,
            near: Stream::Fresh(near),
            far: Some(far),
            ledger: Ledger::default(),
        }
    }

    fn receive(&mut self) -> Result<bool> {
        let Self { near, upload, ledger, .. } = self;
        receive_at_once(near, upload, &mut [0; 1000], ledger, Monotonic::start())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[test]
fn what_has_come_with_its_end_is_all_of_a_file() {
    let mut desk = Desk::new("whole");
    desk.far.as_ref().unwrap().write_all(&[7; 4096]).unwrap();
    desk.far.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    assert_eq!(desk.receive(), Ok(true));
    assert_eq!((desk.upload.len_bytes(), desk.ledger.moved.get()), (4096, 4096));
}

#[test]
fn what_has_come_without_its_end_is_a_part() {
    let mut desk = Desk::new("part");
    desk.far.as_ref().unwrap().write_all(&[7; 4096]).unwrap();
    assert_eq!(desk.receive(), Ok(false));
    assert_eq!(desk.upload.len_bytes(), 4096);
}

#[test]
fn a_connection_that_was_reset_has_no_end_of_file() {
    let mut desk = Desk::new("reset");
    let far = desk.far.take().unwrap();
    reset(&far);
    drop(far);
    assert_eq!(desk.receive(), Err(TransferError::ConnectionLost));
}

#[test]
fn a_file_beyond_its_limit_is_refused() {
    let mut desk = Desk::new("limit");
    desk.far.as_ref().unwrap().write_all(&[7; 20_000]).unwrap();
    assert_eq!(desk.receive(), Err(TransferError::File(FileError::Limit)));
}

#[test]
fn what_comes_in_records_is_written_in_one_piece_and_in_order() {
    let (mut room, mut given) = (vec![0; 100], Vec::new());
    let mut each = |data: &[u8]| given.push(data.to_vec());
    let mut gathered = Gathered { room: &mut room, len: 0, each: &mut each };
    gathered.put(&[1; 60]);
    gathered.put(&[2; 40]);
    gathered.put(&[3; 30]);
    gathered.put(&[4; 80]);
    gathered.put(&[5; 120]);
    gathered.put(&[6; 10]);
    gathered.give();
    gathered.give();
    let wanted =
        [[vec![1; 60], vec![2; 40]].concat(), vec![3; 30], vec![4; 80], vec![5; 120], vec![6; 10]];
    assert_eq!(given, wanted);
}
