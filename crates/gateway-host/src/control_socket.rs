//! The control socket: its clients, their requests and the replies.

use crate::capture_file::{CaptureFile, CaptureStatus, SIZE_MIN_BYTES};
use crate::control::{CaptureSummary, ControlLines, ControlReply, ControlRequest};
use crate::program_error::ProgramError;
use crate::spare_descriptor::SpareDescriptor;
use crate::unix_socket::{self, SocketFile};
use os::readiness::would_block_as_pending;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::{fmt, fs};

/// Maximum number of clients that are connected at once.
pub(crate) const CLIENTS_MAX: usize = 16;
/// Maximum number of bytes that are read from a client in a turn.
const READ_LEN: usize = 4096;

/// The error of a request to end a capture that does not exist.
pub(crate) const NO_CAPTURE: &str = "no packets are being captured";

/// The control socket of a gateway. Its file is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    spare: SpareDescriptor,
    _file: SocketFile,
    clients: Vec<Option<Client>>,
    /// Number of the listener in the event loop. The clients have the following numbers.
    first_number: usize,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    lines: ControlLines,
    /// The rest of a reply that the socket did not accept. Until it is sent, no request is read.
    unsent: Vec<u8>,
    is_watching_output: bool,
    /// Whether the client has sent its last request.
    has_finished: bool,
}

/// A gateway with a control socket.
pub(crate) trait Controlled {
    /// Reports the readiness of a descriptor of the control socket with `number`.
    fn watch(&self, descriptor: BorrowedFd<'_>, number: usize) -> io::Result<()>;

    /// Reports the readiness of a watched descriptor for writing instead of for reading, or again for
    /// reading.
    fn watch_output(
        &self,
        descriptor: BorrowedFd<'_>,
        number: usize,
        is_output: bool,
    ) -> io::Result<()>;

    /// Carries out a request.
    fn execute(&mut self, request: &ControlRequest) -> ControlReply;
}

impl ControlSocket {
    /// Creates the socket at `path`, in place of that of an earlier gateway.
    pub(crate) fn bind(
        path: PathBuf,
        gateway: &dyn Controlled,
        first_number: usize,
    ) -> Result<Self, ProgramError> {
        let listen = || {
            let listener = unix_socket::listen(&path)?;
            gateway.watch(listener.as_fd(), first_number)?;
            Ok(listener)
        };
        match listen() {
            Ok(listener) => {
                let spare = SpareDescriptor::reserve();
                let file = SocketFile::of(&path);
                Ok(Self { listener, spare, _file: file, clients: Vec::new(), first_number })
            }
            Err(error) => Err(ProgramError::Socket(path, error)),
        }
    }

    /// Serves the descriptor with `number` in the event loop.
    pub(crate) fn serve(&mut self, number: usize, gateway: &mut dyn Controlled) {
        match number.checked_sub(self.first_number) {
            Some(0) => self.accept(gateway),
            Some(client) => {
                let index = client - 1;
                let is_open = self.clients.get_mut(index).and_then(Option::as_mut);
                let is_open = is_open.is_some_and(|client| client.serve(number, gateway));
                if !is_open && let Some(slot) = self.clients.get_mut(index) {
                    *slot = None;
                }
            }
            None => {}
        }
    }

    fn accept(&mut self, gateway: &dyn Controlled) {
        let Some((mut stream, _)) = self.spare.accept(|| self.listener.accept()) else { return };
        let index = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        if index >= CLIENTS_MAX {
            let error = format!("more than {CLIENTS_MAX} clients are connected");
            _ = stream.set_nonblocking(true);
            _ = stream.write_all(ControlReply::Error(error).line().as_bytes());
            return;
        }
        let number = self.first_number + 1 + index;
        let is_watched =
            stream.set_nonblocking(true).is_ok() && gateway.watch(stream.as_fd(), number).is_ok();
        if let Some(slot) = self.clients.get_mut(index).filter(|_| is_watched) {
            *slot = Some(Client {
                stream,
                lines: ControlLines::default(),
                unsent: Vec::new(),
                is_watching_output: false,
                has_finished: false,
            });
        }
    }
}

impl Client {
    /// Reads requests and writes their replies. Returns whether the client is still connected.
    fn serve(&mut self, number: usize, gateway: &mut dyn Controlled) -> bool {
        let is_open = self.exchange(gateway).is_ok();
        let is_blocked = !self.unsent.is_empty();
        if !is_open || self.has_finished && !is_blocked {
            return false;
        }
        if is_blocked == self.is_watching_output {
            return true;
        }
        self.is_watching_output = is_blocked;
        gateway.watch_output(self.stream.as_fd(), number, is_blocked).is_ok()
    }

    /// Sends the rest of a reply, then executes requests until the socket accepts no reply or no request
    /// is left.
    fn exchange(&mut self, gateway: &mut dyn Controlled) -> io::Result<()> {
        self.flush()?;
        if self.unsent.is_empty() && !self.has_finished {
            self.read()?;
        }
        while self.unsent.is_empty()
            && let Some(request) = self.lines.next_request()
        {
            let reply = match request {
                Ok(request) => gateway.execute(&request),
                Err(error) => error.into(),
            };
            self.unsent = reply.line().into_bytes();
            self.flush()?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ_LEN];
        let received = match would_block_as_pending(self.stream.read(&mut buffer)) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(0)) => {
                self.has_finished = true;
                self.lines.end()
            }
            Poll::Ready(result) => self.lines.receive(buffer.get(..result?).unwrap_or_default()),
        };
        received.map_err(|error| {
            // The client is closed for this reason, whether it reads the reply or not.
            _ = self.stream.write_all(ControlReply::from(error).line().as_bytes());
            io::ErrorKind::InvalidData.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match would_block_as_pending(self.stream.write(&self.unsent)) {
                Poll::Pending => return Ok(()),
                Poll::Ready(len) => _ = self.unsent.drain(..len?),
            }
        }
        Ok(())
    }
}

/// Creates the file of a capture at `path`, and starts the capture by `start`.
pub(crate) fn create_capture(
    path: &Path,
    limit_bytes: u64,
    start: impl FnOnce(File) -> io::Result<()>,
) -> Result<ControlReply, String> {
    // The current directory of the gateway is unknown to the client.
    if !path.is_absolute() {
        return Err("the path of the file must be absolute".to_owned());
    }
    if limit_bytes < SIZE_MIN_BYTES {
        return Err(format!("max_bytes must be at least {SIZE_MIN_BYTES}"));
    }
    let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let file = CaptureFile::create(path, false).map_err(|error| failed(&error))?;
    start(file).map(|()| ControlReply::DONE).map_err(|error| {
        // The file was created by this request.
        _ = fs::remove_file(path);
        match error.kind() {
            io::ErrorKind::AlreadyExists => "packets are being captured already".to_owned(),
            io::ErrorKind::Unsupported => {
                "the packets of a serial line can be captured only with --routed".to_owned()
            }
            io::ErrorKind::NotConnected => "the line has hung up".to_owned(),
            _ => failed(&error),
        }
    })
}

/// Returns the reply to a request to end a capture.
pub(crate) fn captured(status: CaptureStatus) -> ControlReply {
    let CaptureStatus { packets, size_bytes, dropped, failure } = status;
    ControlReply::Captured(CaptureSummary { packets, size_bytes, dropped, failure })
}

/// Returns the index of the guest that a request names. A request without a name means the only
/// guest.
pub(crate) fn named(name: Option<&str>, guests: &[&str]) -> Result<usize, String> {
    let names = || guests.join(", ");
    match name {
        None if guests.len() == 1 => Ok(0),
        None => Err(format!("name one of the guests: {}", names())),
        Some(name) => guests
            .iter()
            .position(|guest| *guest == name)
            .ok_or_else(|| format!("there is no guest '{}': use {}", name.escape_debug(), names())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    /// Number of the listener in the event loop.
    const LISTENER: usize = 7;

    /// Length of a reply that exceeds the buffer of a socket.
    const REPLY_LEN: usize = 3_000_000;

    /// A gateway that carries out every request, and records the changes of watched events.
    #[derive(Default)]
    struct Willing(RefCell<Vec<bool>>);

    impl Controlled for Willing {
        fn watch(&self, _: BorrowedFd<'_>, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn watch_output(
            &self,
            _: BorrowedFd<'_>,
            number: usize,
            is_output: bool,
        ) -> io::Result<()> {
            assert!(number > LISTENER);
            self.0.borrow_mut().push(is_output);
            Ok(())
        }

        /// A list of flows has a long reply.
        fn execute(&mut self, request: &ControlRequest) -> ControlReply {
            match request {
                ControlRequest::Flows { .. } => ControlReply::Error("x".repeat(REPLY_LEN)),
                _ => ControlReply::DONE,
            }
        }
    }

    fn reply(client: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn one_client_too_many_is_refused_until_another_one_leaves() {
        let path = std::env::temp_dir().join(format!("plumb-control-{}", std::process::id()));
        let mut socket = ControlSocket::bind(path.clone(), &Willing::default(), LISTENER).unwrap();
        let mut connect = || {
            let mut client = UnixStream::connect(&path).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.serve(LISTENER, &mut Willing::default());
            _ = client.write_all(b"{\"command\":\"list\"}\n");
            client
        };
        let clients: Vec<_> = (0..CLIENTS_MAX).map(|_| connect()).collect();
        assert!(reply(&connect()).contains("more than 16 clients are connected"));
        for (index, client) in clients.iter().enumerate() {
            socket.serve(LISTENER + 1 + index, &mut Willing::default());
            assert_eq!(reply(client), ControlReply::DONE.line());
        }
        clients[3].shutdown(std::net::Shutdown::Both).unwrap();
        socket.serve(LISTENER + 1 + 3, &mut Willing::default());
        let mut client = UnixStream::connect(&path).unwrap();
        socket.serve(LISTENER, &mut Willing::default());
        client.write_all(b"{\"command\":\"list\"}\n").unwrap();
        socket.serve(LISTENER + 1 + 3, &mut Willing::default());
        assert_eq!(reply(&client), ControlReply::DONE.line());
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_long_reply_is_sent_completely_to_a_client_that_reads_late() {
        let path = std::env::temp_dir().join(format!("plumb-control-long-{}", std::process::id()));
        let mut gateway = Willing::default();
        let mut socket = ControlSocket::bind(path.clone(), &gateway, LISTENER).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        socket.serve(LISTENER, &mut gateway);
        client.write_all(b"{\"command\":\"flows\"}\n{\"command\":\"guests\"}\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        // The reply fills the buffer of the socket before the client reads.
        socket.serve(LISTENER + 1, &mut gateway);
        assert_eq!(*gateway.0.borrow(), [true]);
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        });
        test_support::poll_until_timeout(|| {
            socket.serve(LISTENER + 1, &mut gateway);
            reader.is_finished().then_some(())
        });
        let text = reader.join().unwrap();
        let (first, second) = text.split_once('\n').unwrap();
        assert_eq!(first.len(), REPLY_LEN + r#"{"error":""}"#.len());
        assert_eq!(second, ControlReply::DONE.line());
    }
}
