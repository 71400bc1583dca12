//! Server for the meters of a running plumb: a socket, and a thread that answers requests.
//!
//! The thread reads the counter blocks without any synchronization with the threads that write
//! them. A slow client therefore delays only the next client. A request is one short line, and its
//! answer is one document. Only the same user and root receive an answer: the directory excludes
//! other users, and the kernel reports the user of each client.

use super::meter_report::Readings;
use super::registry::MeterRegistry;
use super::socket_path;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags, would_block_as_pending};
use os::wakeup::Wakeup;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// The request for the meters.
pub(super) const REQUEST: &[u8] = b"meters 1\n";
/// Maximum length of a request; a longer one is invalid.
const REQUEST_MAX_BYTES: usize = 64;
/// Time limit for the complete exchange with a client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Stack size of the thread, which builds the document.
const STACK_BYTES: usize = 512 * 1024;

/// The server. Dropping this value stops the thread and removes the socket.
#[derive(Debug)]
pub struct MeterServer {
    path: PathBuf,
    stop_event: Arc<Wakeup>,
}

impl MeterServer {
    /// Starts to serve the meters of `registry`.
    ///
    /// # Errors
    ///
    /// Returns an error if no directory for the socket can be created, or the error of the kernel.
    pub fn open(registry: &Arc<MeterRegistry>) -> io::Result<Self> {
        Self::open_in(&socket_path::directories(), registry)
    }

    /// Like [`Self::open`], but prefers the runtime directory of the service manager, where root finds
    /// the socket.
    ///
    /// # Errors
    ///
    /// Returns an error if no directory for the socket can be created, or the error of the kernel.
    pub fn open_for_service(registry: &Arc<MeterRegistry>) -> io::Result<Self> {
        Self::open_in(&socket_path::directories_of_service(), registry)
    }

    fn open_in(directories: &[PathBuf], registry: &Arc<MeterRegistry>) -> io::Result<Self> {
        let directory = socket_path::create_private(directories)?;
        let (listener, path) = socket_path::listen(&directory, std::process::id())?;
        let stop_event = Arc::new(Wakeup::new()?);
        let server = Self { path, stop_event: Arc::clone(&stop_event) };
        listener.set_nonblocking(true)?;
        let registry = Arc::clone(registry);
        let thread = thread::Builder::new().name("meters".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || serve_clients(&listener, &stop_event, &registry))?;
        Ok(server)
    }
}

impl Drop for MeterServer {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
        // The thread is not joined, because a client may be slow to read.
        self.stop_event.signal();
    }
}

/// Answers clients one after the other until `stop_event` is signaled.
fn serve_clients(listener: &UnixListener, stop_event: &Wakeup, registry: &MeterRegistry) {
    let mut readings = Readings::default();
    let clock = Monotonic::start();
    loop {
        let mut descriptors =
            [PollFd::new(listener, PollFlags::IN), PollFd::new(stop_event, PollFlags::IN)];
        if readiness::wait(&mut descriptors, &clock, None).is_err() {
            return;
        }
        match descriptors.map(|descriptor| !descriptor.revents().is_empty()) {
            [_, true] => return,
            [true, _] => match would_block_as_pending(listener.accept()) {
                // Ignored: the client has gone or is too slow.
                Poll::Ready(Ok((stream, _))) => {
                    drop(answer(&stream, registry, readings));
                    readings.count += 1;
                    let cpu = os::clock::thread_cpu_time();
                    readings.cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
                }
                Poll::Pending => {}
                // No descriptors are left; retry later.
                Poll::Ready(Err(_)) => thread::sleep(CLIENT_TIMEOUT),
            },
            _ => {}
        }
    }
}

fn answer(stream: &UnixStream, registry: &MeterRegistry, readings: Readings) -> io::Result<()> {
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    if !is_authorized(os::socket::peer_user(stream)?, rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    stream.set_nonblocking(false)?;
    let mut request = [0; REQUEST_MAX_BYTES];
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    // A request is short enough to arrive in one piece.
    let length = (&*stream).read(&mut request)?;
    let document = match request.get(..length) {
        Some(REQUEST) => serde_json::to_vec(&registry.report(readings))?,
        _ => br#"{"error":"unknown request: send 'meters 1'"}"#.to_vec(),
    };
    let mut unsent = document.as_slice();
    while !unsent.is_empty() {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        if remaining_time.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(remaining_time))?;
        let count = (&*stream).write(unsent)?;
        unsent = unsent.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Returns whether the user ID `peer` may read the meters of the user ID `own`. Only the same user
/// and root may.
fn is_authorized(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const UNKNOWN_REQUEST: &str = r#"{"error":"unknown request: send 'meters 1'"}"#;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plumb-meter-server-{name}-{}", std::process::id()))
    }

    fn open(name: &str) -> (MeterServer, Arc<MeterRegistry>) {
        let registry = MeterRegistry::new(name);
        (MeterServer::open_in(&[directory(name)], &registry).unwrap(), registry)
    }

    fn connect(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    #[test]
    fn a_client_gets_the_report_of_this_process() {
        let (server, _board) = open("asks");
        let report = client::request_report(&server.path).unwrap();
        assert_eq!((report.pid, report.command.as_str()), (std::process::id(), "asks"));
    }

    #[test]
    fn a_reading_reports_the_cost_of_earlier_readings() {
        let (server, _board) = open("cost");
        let readings = || client::request_report(&server.path).unwrap().readings.unwrap();
        assert_eq!(readings(), Readings::default());
        let second_reading = readings();
        assert_eq!(second_reading.count, 1);
        assert!(
            second_reading.cpu_ns > 0 && second_reading.cpu_ns < 1_000_000_000,
            "{second_reading:?}"
        );
        let third_reading = readings();
        assert!(
            third_reading.count == 2 && third_reading.cpu_ns > second_reading.cpu_ns,
            "{third_reading:?}"
        );
    }

    #[test]
    fn a_dropped_server_removes_its_socket() {
        let (server, _board) = open("shut");
        let path = server.path.clone();
        assert!(path.exists());
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn an_unknown_request_gets_an_error() {
        let (server, _board) = open("other");
        let mut stream = connect(&server.path);
        stream.write_all(b"meters 2\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, UNKNOWN_REQUEST);
    }

    // attack row 115
    #[test]
    fn a_request_without_an_end_is_read_once_and_answered() {
        let (server, _board) = open("endless");
        let mut stream = connect(&server.path);
        stream.write_all(&[b'x'; 100 * REQUEST_MAX_BYTES]).unwrap();
        let mut answer = Vec::new();
        // Unread data resets the connection, perhaps before the answer is read.
        _ = stream.read_to_end(&mut answer);
        assert!(UNKNOWN_REQUEST.as_bytes().starts_with(&answer), "{}", answer.escape_ascii());
        let report = client::request_report(&server.path).unwrap();
        assert_eq!((report.command.as_str(), report.readings.unwrap().count), ("endless", 1));
    }

    // attack row 115
    #[test]
    fn silent_and_slow_clients_delay_the_next_one_only_briefly() {
        let (server, _board) = open("slow");
        let _silent = connect(&server.path);
        let mut slow_client = connect(&server.path);
        slow_client.write_all(REQUEST).unwrap();
        let report = client::request_report(&server.path).unwrap();
        // The server has finished with both of them.
        assert_eq!((report.command.as_str(), report.readings.unwrap().count), ("slow", 2));
    }

    // attack row 114
    #[test]
    fn only_the_same_user_and_root_may_read_the_meters() {
        let authorized =
            [(1000, 1000), (0, 1000), (0, 0)].map(|(peer, own)| is_authorized(peer, own));
        assert_eq!((authorized, is_authorized(1001, 1000)), ([true; 3], false));
        assert!(!is_authorized(1000, 0));
    }

    // attack row 114
    #[test]
    fn another_user_gets_no_answer_even_with_access_to_the_directory() {
        if !test_support::is_root_of_the_machine() {
            return;
        }
        let (server, _board) = open("others");
        let path = server.path.clone();
        let directory = directory("others");
        // Gives every user access to the directory.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let client = thread::spawn(move || {
            let nobody = rustix::thread::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut stream = connect(&path);
            _ = stream.write_all(REQUEST);
            let mut answer = Vec::new();
            _ = stream.read_to_end(&mut answer);
            answer
        });
        assert_eq!(client.join().unwrap(), b"");
    }
}
