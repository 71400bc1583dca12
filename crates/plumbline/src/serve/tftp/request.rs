//! Handling of one request: opens the file, checks the rights, and runs the transfer.

use super::super::folder::Rights;
use super::log::Event;
use super::{Running, Server};
use crate::carry::Bench;
use crate::files::local::{Sink, Source};
use crate::files::pace::Pace;
use crate::files::tftp::{Facts, Terms, Transfer, Trouble, Work};
use crate::transfer_recorder::nanos;
use anyhow::Result;
use os::jail::Existing;
use protocols::application::tftp::{
    self, BLOCK_SIZE_DEFAULT, Direction, ErrorCode, Fault, Limits, Mode, Receiver, Request, Sender,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of bytes of a window that a transfer buffers.
const WINDOW_MAX_BYTES: usize = 1 << 20;
/// Maximum number of repetitions of the first packet to a client that never answers.
const UNANSWERED_MAX: u32 = 1;

const NOT_FOUND: Fault = Fault { code: ErrorCode::FileNotFound, text: "File not found." };
const NO_ACCESS: Fault = Fault { code: ErrorCode::AccessViolation, text: "Permission denied." };
const READ_ONLY: Fault = Fault { code: ErrorCode::AccessViolation, text: "Uploads are disabled." };
const EXISTS: Fault = Fault { code: ErrorCode::FileExists, text: "File already exists." };
const NO_ROOM: Fault = Fault { code: ErrorCode::DiskFull, text: "Not enough space." };
const FAILED: Fault = Fault { code: ErrorCode::NotDefined, text: "Cannot open the file." };

/// Decision about a request.
pub(super) enum Decision {
    /// Send this error.
    Decline(Fault),
    /// Transfer this file.
    Serve(OpenFile),
}

/// File to be transferred.
pub(super) enum OpenFile {
    /// To be sent, with its length in bytes.
    Out(Source, u64),
    /// To be received.
    In(Sink),
}

/// Decides about a request and opens its file.
pub(super) fn decide(server: &Server, request: &Request) -> Decision {
    let opened = match request.direction {
        Direction::Read => open(server, &request.name),
        Direction::Write => create(server, request),
    };
    opened.map_or_else(Decision::Decline, Decision::Serve)
}

fn open(server: &Server, name: &[u8]) -> Result<OpenFile, Fault> {
    let (file, status) = server.jail.read(name).map_err(|error| fault_of(&error))?;
    if server.is_root && !status.is_readable_by_all() {
        return Err(NO_ACCESS);
    }
    Ok(OpenFile::Out(Source::File(file), status.len))
}

fn create(server: &Server, request: &Request) -> Result<OpenFile, Fault> {
    let existing = match server.settings.rights {
        Rights::ReadOnly => return Err(READ_ONLY),
        Rights::WriteOnce => Existing::Keep,
        Rights::Writable => Existing::Replace,
    };
    let told = request.options.transfer_size.unwrap_or(0);
    let free = server.jail.free_bytes().unwrap_or(u64::MAX);
    if told > server.settings.file_max_bytes.min(free) {
        return Err(NO_ROOM);
    }
    let draft = server.jail.create(&request.name, existing).map_err(|error| fault_of(&error))?;
    Ok(OpenFile::In(Sink::of(draft)))
}

fn fault_of(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NOT_FOUND,
        io::ErrorKind::AlreadyExists => EXISTS,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => NO_ROOM,
        // A name that leaves the root is reported like one without permission.
        io::ErrorKind::CrossesDevices
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidFilename => NO_ACCESS,
        // ELOOP, which has no stable `ErrorKind`.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => NO_ACCESS,
        _ => FAILED,
    }
}

/// Runs the transfer and logs its result.
pub(super) async fn serve(
    server: &Server,
    from: SocketAddr,
    at: Option<IpAddr>,
    request: &Request,
    file: OpenFile,
    running: &Running,
) {
    let name = request.name.escape_ascii().to_string();
    let (facts, trouble) = match run(server, from, at, request, file, running).await {
        Ok(report) => report,
        Err(error) => {
            let why = format!("{error:#}");
            return server.log.say(&Event::Declined { from, name, why });
        }
    };
    let (is_read, bytes) = (request.direction == Direction::Read, facts.file_bytes);
    server.log.say(&match &trouble {
        None => {
            let milliseconds = u64::try_from(facts.total.as_millis()).unwrap_or(u64::MAX);
            Event::Moved { from, name, is_read, bytes, milliseconds }
        }
        Some(trouble) => Event::Failed { from, name, is_read, bytes, why: why_of(trouble) },
    });
}

/// Returns the reason in the words of the log, whose line already names peer and file.
fn why_of(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Refused(code, text) => {
            format!("the client sent error {} '{}'", code.to_wire(), text.escape_ascii())
        }
        Trouble::NoAnswer { .. } => "the client never answered".to_owned(),
        Trouble::Silence { seconds } => format!("no packet for {seconds} s"),
        Trouble::Unreachable(error) | Trouble::Network(error) | Trouble::Local(error) => {
            error.to_string()
        }
        Trouble::Short { told } | Trouble::Long { told } => {
            format!("the client announced {told} bytes")
        }
        Trouble::Protocol(why) => (*why).to_owned(),
        Trouble::Stopped => "stopped".to_owned(),
    }
}

async fn run(
    server: &Server,
    from: SocketAddr,
    at: Option<IpAddr>,
    request: &Request,
    file: OpenFile,
    running: &Running,
) -> Result<(Facts, Option<Trouble>)> {
    let mut record = server.transfer_log.begin(None);
    record.note_request(request.direction, request.mode, &request.name);
    let wire = server.wire(at, from)?;
    let bench = Bench::shown_on(&server.board, "TFTP")?;
    let (now, port, mode) = (bench.clock.now(), from.port(), request.mode);
    let settings = tftp::Settings { patience: server.settings.patience };
    let work = match file {
        OpenFile::Out(source, len) => {
            let limits = Limits { window_size_max: u16::MAX, ..limits() };
            // RFC 2349: the size on the wire, which differs in netascii.
            let told = (mode == Mode::Octet).then_some(len);
            let granted = request.options.grant(&limits, told);
            Work::Send(Sender::of_server(mode, port, granted, &settings, now), source)
        }
        OpenFile::In(sink) => {
            let block_size = request.options.block_size.unwrap_or(BLOCK_SIZE_DEFAULT);
            let window_size_max = wire.window_size_max(block_size);
            let limits = Limits { window_size_max, ..limits() };
            let granted = request.options.grant(&limits, request.options.transfer_size);
            Work::Receive(Receiver::of_server(mode, port, granted, &settings, now), Some(sink))
        }
    };
    let terms = Terms {
        direction: request.direction,
        mode,
        patience: server.settings.patience,
        opening: None,
        unanswered_max: Some(UNANSWERED_MAX),
        pace: Pace::new(None),
        lingers: true,
        file_max_bytes: server.settings.file_max_bytes,
    };
    let transfer = Transfer::new(work, wire, from, terms, bench);
    let has_answered = Arc::clone(&running.has_answered);
    let note = move |facts: &Facts| {
        if facts.datagrams_in > 0 {
            has_answered.store(true, Ordering::Relaxed);
        }
    };
    let (facts, trouble, _) = transfer.run(Arc::clone(&running.stop), note).await?;
    record.transfer.cpu.cpu_ns = facts.cpu.map(nanos);
    record.transfer.host = server.transfer_log.host();
    record.note_facts(&facts, trouble.as_ref(), &request.name);
    server.transfer_log.keep(&record);
    Ok((facts, trouble))
}

fn limits() -> Limits {
    Limits { window_max_bytes: WINDOW_MAX_BYTES, ..Limits::default() }
}
