//! Server for the meters of a running plumb: a socket, and a thread that answers requests.
//!
//! The thread reads the sheets without any synchronization with the threads that write them. A slow
//! client therefore delays only the next client. A request is one short line, and its answer is one
//! document. Only the same user and root receive one: the directory excludes other users, and the
//! kernel reports the user of each client.

use super::registry::Registry;
use super::report::Readings;
use super::socket_path;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The request for the meters.
pub(super) const REQUEST: &[u8] = b"meters 1\n";
/// Maximum length of a request; a longer one is invalid.
const REQUEST_MAX_BYTES: usize = 64;
/// Time limit for the complete exchange with a client.
const PATIENCE: Duration = Duration::from_secs(1);
/// Stack size of the thread, which builds the document.
const STACK_BYTES: usize = 512 * 1024;

/// The server. Dropping it stops the thread and removes the socket.
#[derive(Debug)]
pub(crate) struct MeterServer {
    path: PathBuf,
    bell: Arc<OwnedFd>,
}

impl MeterServer {
    /// Starts to serve the meters of `board`.
    ///
    /// # Errors
    ///
    /// Returns an error if no directory for the socket can be created, or the error of the kernel.
    pub(crate) fn open(board: &Arc<Registry>) -> io::Result<Self> {
        Self::open_in(&socket_path::folders(), board)
    }

    fn open_in(folders: &[PathBuf], board: &Arc<Registry>) -> io::Result<Self> {
        let folder = socket_path::make_one(folders)?;
        let (listener, path) = socket_path::listen(&folder, std::process::id())?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let door = Self { path, bell: Arc::clone(&bell) };
        listener.set_nonblocking(true)?;
        let board = Arc::clone(board);
        let thread = thread::Builder::new().name("meters".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || attend(&listener, &bell, &board))?;
        Ok(door)
    }
}

impl Drop for MeterServer {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
        // The thread is not joined, because a client may be slow to read.
        _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

/// Answers clients one after the other until `bell` is signaled.
fn attend(listener: &UnixListener, bell: &OwnedFd, board: &Registry) {
    let mut readings = Readings::default();
    loop {
        let mut waited = [PollFd::new(listener, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        let waited = match poll(&mut waited, None) {
            Ok(_) => waited.map(|descriptor| !descriptor.revents().is_empty()),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        match waited {
            [_, true] => return,
            [true, _] => match listener.accept() {
                // Ignored: the client has gone or is too slow.
                Ok((stream, _)) => {
                    drop(answer(&stream, board, readings));
                    readings.count += 1;
                    let cpu = os::clock::thread_cpu_time();
                    readings.cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // No descriptors are left; retry later.
                Err(_) => thread::sleep(PATIENCE),
            },
            _ => {}
        }
    }
}

fn answer(stream: &UnixStream, board: &Registry, readings: Readings) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    if !is_welcome(os::socket::peer_user(stream)?, rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    stream.set_nonblocking(false)?;
    let mut request = [0; REQUEST_MAX_BYTES];
    stream.set_read_timeout(Some(PATIENCE))?;
    // A request is short enough to arrive in one piece.
    let length = (&*stream).read(&mut request)?;
    let document = match request.get(..length) {
        Some(REQUEST) => serde_json::to_vec(&board.report(readings))?,
        _ => br#"{"error":"this plumb tells its meters to 'meters 1' alone"}"#.to_vec(),
    };
    let mut rest = document.as_slice();
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        let count = (&*stream).write(rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Returns whether user `peer` may read the meters of user `own`: only the same user and root.
fn is_welcome(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plumb-door-{name}-{}", std::process::id()))
    }

    fn open(name: &str) -> (MeterServer, Arc<Registry>) {
        let board = Registry::new(name);
        (MeterServer::open_in(&[folder(name)], &board).unwrap(), board)
    }

    fn connect(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    #[test]
    fn who_asks_gets_the_report_of_this_process() {
        let (door, _board) = open("asks");
        let report = client::ask(&door.path).unwrap();
        assert_eq!((report.pid, report.command.as_str()), (std::process::id(), "asks"));
    }

    #[test]
    fn a_reading_reports_what_those_before_it_cost_their_thread() {
        let (door, _board) = open("cost");
        let readings = || client::ask(&door.path).unwrap().readings.unwrap();
        assert_eq!(readings(), Readings::default());
        let second = readings();
        assert_eq!(second.count, 1);
        assert!(second.cpu_ns > 0 && second.cpu_ns < 1_000_000_000, "{second:?}");
        let third = readings();
        assert!(third.count == 2 && third.cpu_ns > second.cpu_ns, "{third:?}");
    }

    #[test]
    fn a_shut_door_leaves_no_socket() {
        let (door, _board) = open("shut");
        let path = door.path.clone();
        assert!(path.exists());
        drop(door);
        assert!(!path.exists());
    }

    #[test]
    fn another_request_is_told_what_would_be_one() {
        let (door, _board) = open("other");
        let mut stream = connect(&door.path);
        stream.write_all(b"meters 2\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("error"), "{answer}");
    }

    // attack row 115
    #[test]
    fn a_request_without_an_end_is_read_once_and_answered() {
        let (door, _board) = open("endless");
        let mut stream = connect(&door.path);
        stream.write_all(&[b'x'; 100 * REQUEST_MAX_BYTES]).unwrap();
        let mut answer = Vec::new();
        // Unread data resets the connection, perhaps before the answer is read.
        _ = stream.read_to_end(&mut answer);
        assert!(client::ask(&door.path).is_ok());
    }

    // attack row 115
    #[test]
    fn those_who_never_ask_and_never_read_keep_the_next_from_nothing_for_long() {
        let (door, _board) = open("slow");
        let _silent = connect(&door.path);
        let mut deaf = connect(&door.path);
        deaf.write_all(REQUEST).unwrap();
        assert!(client::ask(&door.path).is_ok());
    }

    // attack row 114
    #[test]
    fn the_meters_are_told_to_their_user_and_to_root() {
        let welcome = [(1000, 1000), (0, 1000), (0, 0)].map(|(peer, own)| is_welcome(peer, own));
        assert_eq!((welcome, is_welcome(1001, 1000)), ([true; 3], false));
        assert!(!is_welcome(1000, 0));
    }

    // attack row 114
    #[test]
    fn another_user_who_comes_past_the_folder_hears_nothing() {
        if !test_support::is_root_of_the_machine() {
            return;
        }
        let (door, _board) = open("others");
        let (path, folder) = (door.path.clone(), folder("others"));
        // As if the owner had opened the directory to everyone.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let heard = thread::spawn(move || {
            let nobody = rustix::thread::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut stream = connect(&path);
            _ = stream.write_all(REQUEST);
            let mut answer = Vec::new();
            _ = stream.read_to_end(&mut answer);
            answer
        });
        assert_eq!(heard.join().unwrap(), b"");
    }
}
