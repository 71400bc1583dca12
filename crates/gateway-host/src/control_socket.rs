//! The control socket: its clients, their requests and the replies.

use crate::capture_file::{
    CaptureFile, CaptureFormat, CaptureStatus, SIZE_DEFAULT_BYTES, SIZE_MIN_BYTES,
};
use crate::control::{
    CaptureSummary, ControlLines, ControlReply, ControlRequest, ListedFlow, ListedForward,
    ListedGuest, ListedOutput,
};
use crate::event_loop::EventLoop;
use crate::forwards::ForwardId;
use crate::program_error::ProgramError;
use crate::unix_socket;
use gateway::Guest;
use gateway::relay::tcp_flows::{Limit, Phase};
use os::readiness::would_block_as_pending;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::{fmt, fs};

/// Maximum number of clients that are connected at once.
pub(crate) const CLIENTS_MAX: usize = 16;
/// Maximum number of bytes that are read from a client in a turn.
const READ_LEN: usize = 4096;

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

/// A guest that can be named in requests.
#[derive(Clone, Debug)]
pub(crate) struct NamedGuest {
    /// The text with which the guest was given.
    pub(crate) name: String,
    /// The addresses of its lease.
    pub(crate) addresses: Vec<IpAddr>,
}

impl ControlSocket {
    /// Creates the socket at `path`, in place of that of an earlier gateway.
    pub(crate) fn bind(
        path: PathBuf,
        event_loop: &EventLoop,
        first_number: usize,
    ) -> Result<Self, ProgramError> {
        let listen = || {
            let listener = unix_socket::listen(&path)?;
            event_loop.watch(&listener, first_number)?;
            Ok(listener)
        };
        match listen() {
            Ok(listener) => Ok(Self { path, listener, clients: Vec::new(), first_number }),
            Err(error) => Err(ProgramError::Socket(path, error)),
        }
    }

    /// Serves the descriptor with `number` in the event loop.
    pub(crate) fn serve(
        &mut self,
        number: usize,
        event_loop: &mut EventLoop,
        guests: &[NamedGuest],
    ) {
        match number.checked_sub(self.first_number) {
            Some(0) => self.accept(event_loop),
            Some(client) => {
                let index = client - 1;
                let is_open = self.clients.get_mut(index).and_then(Option::as_mut);
                let is_open = is_open.is_some_and(|client| client.serve(event_loop, guests));
                if !is_open && let Some(slot) = self.clients.get_mut(index) {
                    *slot = None;
                }
            }
            None => {}
        }
    }

    fn accept(&mut self, event_loop: &EventLoop) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let index = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let number = self.first_number + 1 + index;
        let is_watched = index < CLIENTS_MAX
            && stream.set_nonblocking(true).is_ok()
            && event_loop.watch(stream.as_fd(), number).is_ok();
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
    fn serve(&mut self, event_loop: &mut EventLoop, guests: &[NamedGuest]) -> bool {
        let mut buffer = [0; READ_LEN];
        let read = match would_block_as_pending(self.stream.read(&mut buffer)) {
            Poll::Pending => return true,
            Poll::Ready(Ok(0) | Err(_)) => return false,
            Poll::Ready(Ok(len)) => self.lines.receive(buffer.get(..len).unwrap_or_default()),
        };
        if let Err(error) = read {
            // The client is closed for this reason, whether it reads the reply or not.
            _ = self.stream.write_all(ControlReply::from(error).line().as_bytes());
            return false;
        }
        while let Some(request) = self.lines.next_request() {
            let reply = match request {
                Ok(request) => execute(&request, event_loop, guests),
                Err(error) => error.into(),
            };
            // A client that does not read its replies is closed.
            if self.stream.write_all(reply.line().as_bytes()).is_err() {
                return false;
            }
        }
        true
    }
}

fn execute(
    request: &ControlRequest,
    event_loop: &mut EventLoop,
    guests: &[NamedGuest],
) -> ControlReply {
    let result = match request {
        ControlRequest::Add { guest, forward } => number_of(guest.as_deref(), guests)
            .and_then(|guest| {
                let forward = forward.forward().map_err(|error| error.to_string())?;
                event_loop.add_forward(guest, forward).map_err(|error| error.to_string())
            })
            .map(|ForwardId(id)| ControlReply::Added(id)),
        ControlRequest::Remove { guest, id } => {
            number_of(guest.as_deref(), guests).and_then(|guest| {
                let existed = event_loop.remove_forward(guest, ForwardId(*id));
                existed.then_some(ControlReply::DONE).ok_or(format!("there is no forward {id}"))
            })
        }
        ControlRequest::List { guest } => number_of(guest.as_deref(), guests).map(|guest| {
            let forwards = event_loop.forwards(guest);
            ControlReply::Forwards(forwards.map(|(id, f)| ListedForward::of(id, f)).collect())
        }),
        ControlRequest::Guests => Ok(ControlReply::Guests(
            guests
                .iter()
                .enumerate()
                .filter_map(|(number, named)| Some((named, event_loop.guest(number)?)))
                .map(|(named, guest)| listed_guest(named, guest))
                .collect(),
        )),
        ControlRequest::Flows { guest } => number_of(guest.as_deref(), guests).map(|guest| {
            let guest = event_loop.guest(guest);
            ControlReply::Flows(guest.map(listed_flows).unwrap_or_default())
        }),
        ControlRequest::Capture { guest, file, max_bytes } => number_of(guest.as_deref(), guests)
            .and_then(|guest| {
                let limit_bytes = max_bytes.unwrap_or(SIZE_DEFAULT_BYTES);
                start_capture(event_loop, guest, file, limit_bytes)
            }),
        ControlRequest::StopCapture { guest } => {
            number_of(guest.as_deref(), guests).and_then(|guest| {
                let status = event_loop.stop_capture(guest);
                let status = status.ok_or("no packets are being captured")?;
                let CaptureStatus { packets, size_bytes, dropped, failure } = status;
                let summary = CaptureSummary { packets, size_bytes, dropped, failure };
                Ok(ControlReply::Captured(summary))
            })
        }
    };
    result.unwrap_or_else(ControlReply::Error)
}

fn start_capture(
    event_loop: &mut EventLoop,
    guest: usize,
    path: &Path,
    limit_bytes: u64,
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
    let started = event_loop.start_capture(guest, (file, CaptureFormat::PcapNg), limit_bytes);
    started.map(|()| ControlReply::DONE).map_err(|error| {
        // The file was created by this request.
        _ = fs::remove_file(path);
        match error.kind() {
            io::ErrorKind::AlreadyExists => "packets are being captured already".to_owned(),
            io::ErrorKind::Unsupported => "the guest's device has no packets".to_owned(),
            _ => failed(&error),
        }
    })
}

/// Returns the number of the guest that a request names. A request without a name means the only
/// guest.
fn number_of(name: Option<&str>, guests: &[NamedGuest]) -> Result<usize, String> {
    let names = || guests.iter().map(|guest| guest.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        None if guests.len() == 1 => Ok(0),
        None => Err(format!("name one of the guests: {}", names())),
        Some(name) => guests
            .iter()
            .position(|guest| guest.name == name)
            .ok_or_else(|| format!("there is no guest '{}': use {}", name.escape_debug(), names())),
    }
}

fn listed_guest(named: &NamedGuest, guest: &Guest) -> ListedGuest {
    let tcp = guest.tcp().counters();
    let udp = guest.udp().counters();
    ListedGuest {
        guest: named.name.clone(),
        addresses: named.addresses.clone(),
        flows: (guest.tcp().len() + guest.udp().len()) as u64,
        sent_bytes: tcp.bytes_to_host + udp.bytes_to_host,
        received_bytes: tcp.bytes_to_guest + udp.bytes_to_guest,
        failed_connections: tcp.failed,
        denied: tcp.denied + udp.denied + guest.echo().counters().denied,
        errors: guest.error_counters().sent,
        errors_over_rate: guest.error_counters().over_rate,
        output: guest.output_counters().map(|counters| ListedOutput {
            packets: counters.packets_out,
            bytes: counters.bytes_out,
            dropped_for_delay: counters.dropped_for_delay,
            dropped_when_full: counters.dropped_when_full,
            marked: counters.marked,
        }),
    }
}

fn listed_flows(guest: &Guest) -> Vec<ListedFlow> {
    let tcp = guest.tcp_statuses().map(|(_, status)| ListedFlow {
        protocol: "tcp".to_owned(),
        guest: status.guest,
        host: status.remote,
        state: match status.phase {
            Phase::Connecting => "connecting",
            Phase::Opening => "opening",
            Phase::Open => "open",
        }
        .to_owned(),
        sent_bytes: status.bytes_to_host,
        received_bytes: status.bytes_to_guest,
        limit: match status.limit {
            Limit::Application | Limit::Opening => "idle",
            Limit::RemoteHost => "host",
            Limit::Guest => "guest",
        }
        .to_owned(),
    });
    let unknown = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
    let udp = guest.udp().statuses().map(|(_, status)| ListedFlow {
        protocol: "udp".to_owned(),
        guest: status.guest,
        host: status.remote.unwrap_or(unknown),
        state: "open".to_owned(),
        sent_bytes: status.bytes_to_host,
        received_bytes: status.bytes_to_guest,
        limit: if status.queued_bytes > 0 { "queue" } else { "idle" }.to_owned(),
    });
    tcp.chain(udp).collect()
}
