//! The control socket: its clients, their requests and the replies.

use crate::capture_file::{CaptureFile, CaptureStatus, SIZE_MIN_BYTES};
use crate::control::{CaptureSummary, ControlLines, ControlReply, ControlRequest};
use crate::program_error::ProgramError;
use crate::unix_socket;
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
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Option<Client>>,
    /// Number of the listener in the event loop. The clients have the following numbers.
    first_number: usize,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    lines: ControlLines,
}

/// A gateway with a control socket.
pub(crate) trait Controlled {
    /// Reports the readiness of a descriptor of the control socket with `number`.
    fn watch(&self, descriptor: BorrowedFd<'_>, number: usize) -> io::Result<()>;

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
            Ok(listener) => Ok(Self { path, listener, clients: Vec::new(), first_number }),
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
                let is_open = is_open.is_some_and(|client| client.serve(gateway));
                if !is_open && let Some(slot) = self.clients.get_mut(index) {
                    *slot = None;
                }
            }
            None => {}
        }
    }

    fn accept(&mut self, gateway: &dyn Controlled) {
        let Ok((mut stream, _)) = self.listener.accept() else { return };
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
            *slot = Some(Client { stream, lines: ControlLines::default() });
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Another gateway would remove the file too.
        _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Reads requests and writes their replies. Returns whether the client is still connected.
    fn serve(&mut self, gateway: &mut dyn Controlled) -> bool {
        let mut buffer = [0; READ_LEN];
        let (received, is_open) = match would_block_as_pending(self.stream.read(&mut buffer)) {
            Poll::Pending => return true,
            Poll::Ready(Err(_)) => return false,
            Poll::Ready(Ok(0)) => (self.lines.end(), false),
            Poll::Ready(Ok(len)) => {
                (self.lines.receive(buffer.get(..len).unwrap_or_default()), true)
            }
        };
        if let Err(error) = received {
            // The client is closed for this reason, whether it reads the reply or not.
            _ = self.stream.write_all(ControlReply::from(error).line().as_bytes());
            return false;
        }
        while let Some(request) = self.lines.next_request() {
            let reply = match request {
                Ok(request) => gateway.execute(&request),
                Err(error) => error.into(),
            };
            // A client that does not read its replies is closed.
            if self.stream.write_all(reply.line().as_bytes()).is_err() {
                return false;
            }
        }
        is_open
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
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    /// Number of the listener in the event loop.
    const LISTENER: usize = 7;

    /// A gateway that carries out every request.
    struct Willing;

    impl Controlled for Willing {
        fn watch(&self, _: BorrowedFd<'_>, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn execute(&mut self, _: &ControlRequest) -> ControlReply {
            ControlReply::DONE
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
        let mut socket = ControlSocket::bind(path.clone(), &Willing, LISTENER).unwrap();
        let mut connect = || {
            let mut client = UnixStream::connect(&path).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.serve(LISTENER, &mut Willing);
            _ = client.write_all(b"{\"command\":\"list\"}\n");
            client
        };
        let clients: Vec<_> = (0..CLIENTS_MAX).map(|_| connect()).collect();
        assert!(reply(&connect()).contains("more than 16 clients are connected"));
        for (index, client) in clients.iter().enumerate() {
            socket.serve(LISTENER + 1 + index, &mut Willing);
            assert_eq!(reply(client), ControlReply::DONE.line());
        }
        clients[3].shutdown(std::net::Shutdown::Both).unwrap();
        socket.serve(LISTENER + 1 + 3, &mut Willing);
        let mut client = UnixStream::connect(&path).unwrap();
        socket.serve(LISTENER, &mut Willing);
        client.write_all(b"{\"command\":\"list\"}\n").unwrap();
        socket.serve(LISTENER + 1 + 3, &mut Willing);
        assert_eq!(reply(&client), ControlReply::DONE.line());
        drop(socket);
        assert!(!path.exists());
    }
}
