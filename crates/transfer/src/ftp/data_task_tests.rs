//! Tests of the local ends, threads and tasks of transfers, over the loopback interface.

use super::*;
use protocols::ftp::Mode;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};

/// Returns the two ends of a connection. The first end is registered with the runtime.
fn connected_sockets() -> (tokio::net::TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nonblocking(true).unwrap();
    let peer = listener.accept().unwrap().0;
    (tokio::net::TcpStream::from_std(client).unwrap(), peer)
}

fn file_of(len: usize) -> File {
    let fd = rustix::fs::memfd_create("small", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(fd);
    file.write_all(&vec![7; len]).unwrap();
    file.rewind().unwrap();
    file
}

fn request(local_end: LocalEnd, rate: Option<u64>) -> TransferRequest {
    TransferRequest {
        local_end,
        representation: Representation::IMAGE,
        expected_bytes: None,
        tls: None,
        pace: RateLimit::new(rate),
        progress: TransferProgress::default(),
        arrival_log: None,
        clock: Monotonic::start(),
    }
}

fn start(request: TransferRequest, stream: tokio::net::TcpStream) -> Started {
    request.start(TcpConnection::Kernel(stream)).unwrap()
}

fn running(started: Started) -> DataTask {
    match started {
        Started::Running(task) => task,
        Started::Ended(..) => panic!("the transfer has ended"),
    }
}

#[tokio::test]
async fn a_cancelled_transfer_does_not_drain_buffered_data_at_its_limited_rate() {
    let (data, mut server) = connected_sockets();
    // At ten bytes per second the transfer takes more than an hour. All bytes fit into the
    // kernel's buffers.
    server.write_all(&[7; 40_000]).unwrap();
    let local_end = LocalEnd::Memory(Vec::new());
    let mut task = running(start(request(local_end, Some(10)), data));
    // Without the shutdown of the connection, which only ends the data.
    task.cancellation.cancel();
    let moved = task.ended().await;
    assert!(moved.result.is_err());
    assert!(moved.wire_bytes < 40_000, "{}", moved.wire_bytes);
}

#[tokio::test]
async fn a_small_file_is_sent_from_its_position_with_the_end_of_the_stream() {
    let (data, mut server) = connected_sockets();
    let mut file = file_of(5000);
    file.seek(SeekFrom::Start(1000)).unwrap();
    let started = start(request(LocalEnd::ReadFrom(file), None), data);
    let Started::Ended(moved, Some(_)) = started else { panic!("the transfer needs a thread") };
    assert_eq!((moved.wire_bytes, moved.file_bytes, moved.is_sending), (4000, 4000, true));
    let mut received = Vec::new();
    assert_eq!(server.read_to_end(&mut received).unwrap(), 4000);
}

#[tokio::test]
async fn a_large_file_is_sent_by_a_thread() {
    let (data, mut server) = connected_sockets();
    let mut task = running(start(request(LocalEnd::ReadFrom(file_of(100_000)), None), data));
    let received = tokio::task::spawn_blocking(move || {
        let mut received = Vec::new();
        server.read_to_end(&mut received).map(|_| received)
    });
    let moved = task.ended().await;
    assert!(moved.result.is_ok());
    assert_eq!((moved.wire_bytes, moved.file_bytes), (100_000, 100_000));
    assert_eq!(received.await.unwrap().unwrap(), vec![7; 100_000]);
}

/// Sends `len` bytes of a file that should have one more byte. Returns whether the truncation was
/// detected, and the data and the error of the receiver.
async fn send_shortened_file(
    len: u16,
    representation: Representation,
    is_moved_by_kernel: bool,
) -> (bool, Vec<u8>, ErrorKind) {
    let (data, mut server) = connected_sockets();
    let (socket, _canceller) = BlockingSocket::new(TcpConnection::Kernel(data)).unwrap();
    let source = FileSource {
        file: file_of(usize::from(len)),
        offset: None,
        expected_bytes: Some(u64::from(len) + 1),
        skipped_bytes: 0,
        encoder: encoder(&representation).unwrap(),
    };
    let pace = RateLimit::new(None);
    let plan = TransferPlan::new(&representation, false, is_moved_by_kernel, &pace);
    let driver = ClientDriver {
        pace: Mutex::new(pace),
        clock: Monotonic::start(),
        progress: TransferProgress::default(),
        arrival_log: None,
        cancellation: Arc::default(),
    };
    let stats = TransferStats::default();
    let mut connection = DataConnection::plaintext(socket);
    let mut transfer = DataTransfer {
        connection: &mut connection,
        driver: &driver,
        stats: &stats,
        plan,
        sizes: PieceSizes::CLIENT,
    };
    let result = complete(transfer.send(source));
    drop(connection);
    let mut received = Vec::new();
    let error = server.read_to_end(&mut received).unwrap_err();
    (matches!(result, Err(TransferFailure::Truncated)), received, error.kind())
}

#[tokio::test]
async fn a_file_that_became_shorter_is_sent_with_a_reset_instead_of_an_end() {
    for is_moved_by_kernel in [true, false] {
        let (is_truncated, _, error) =
            send_shortened_file(60_000, Representation::IMAGE, is_moved_by_kernel).await;
        assert_eq!((is_truncated, error), (true, ErrorKind::ConnectionReset));
    }
}

#[test]
fn a_small_file_that_becomes_shorter_before_its_thread_starts_is_truncated() {
    // Another operation occupies the only thread.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let (release, occupied) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || occupied.recv());
    runtime.block_on(async {
        let (data, mut server) = connected_sockets();
        // The socket accepts no byte of the file until the peer reads.
        while rustix::io::write(&data, &[0; 4096]).is_ok() {}
        let file = file_of(60_000);
        let local_end = LocalEnd::ReadFrom(file.try_clone().unwrap());
        let mut task = running(start(request(local_end, None), data));
        file.set_len(0).unwrap();
        let receiver = std::thread::spawn(move || server.read_to_end(&mut Vec::new()));
        release.send(()).unwrap();
        assert!(task.ended().await.result.is_err());
        let error = receiver.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[tokio::test]
async fn a_file_that_became_shorter_is_sent_without_the_end_of_file_mark_of_its_mode() {
    let blocks = Representation { mode: Mode::Block, ..Representation::IMAGE };
    let (is_truncated, received, error) = send_shortened_file(100, blocks, false).await;
    let mut data_block = Vec::new();
    encoder(&blocks).unwrap().unwrap().encode(&[7; 100], &mut data_block).unwrap();
    assert_eq!((is_truncated, error), (true, ErrorKind::ConnectionReset));
    assert_eq!(received, data_block);
}

#[tokio::test]
async fn more_bytes_than_expected_are_received() {
    let (data, mut server) = connected_sockets();
    let sender = std::thread::spawn(move || server.write_all(&vec![3; 300_000]).unwrap());
    let local_end = LocalEnd::Memory(Vec::new());
    let request = TransferRequest { expected_bytes: Some(10), ..request(local_end, None) };
    let moved = running(start(request, data)).ended().await;
    assert!(moved.result.is_ok());
    assert_eq!((moved.wire_bytes, moved.memory.len()), (300_000, 300_000));
    sender.join().unwrap();
}

#[tokio::test]
async fn a_download_that_waits_for_data_can_be_cancelled() {
    let (data, _server) = connected_sockets();
    let mut task = running(start(request(LocalEnd::Memory(Vec::new()), None), data));
    task.cancel();
    assert!(task.ended().await.result.is_err());
}

#[test]
fn a_failed_attempt_never_makes_the_progress_negative() {
    let progress = TransferProgress::default();
    progress.expect_more(7);
    progress.clone().add(5);
    progress.subtract(3);
    assert_eq!((progress.moved_bytes(), progress.expected_bytes()), (2, Some(7)));
    progress.subtract(9);
    assert_eq!(progress.moved_bytes(), 0);
    progress.restart();
    assert_eq!(progress.expected_bytes(), None);
}
