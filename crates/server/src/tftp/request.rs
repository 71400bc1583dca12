//! Handling of one request: opens the file, checks the rights, and runs the transfer.

use super::super::root::Rights;
use super::running_transfer::RunningTransfer;
use super::tftp_log::TftpEvent;
use super::tftp_server::TftpServer;
use crate::log_line::Level;
use crate::log_text::{TransferAction, escape_name};
use anyhow::Result;
use carrier::EngineContext;
use net::meter::Counter;
use os::beneath::Existing;
use protocols::tftp::{
    self, BLOCK_SIZE_DEFAULT, Direction, ErrorCode, Fault, Limits, Mode, Receiver, Request, Sender,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transfer::local::{LocalSource, Sink};
use transfer::pace::RateLimit;
use transfer::recorder::nanos;
use transfer::tftp::{TftpError, TftpOptions, TftpTransferStats, Transfer, TransferEngine};

/// Maximum number of bytes of a window that a transfer buffers.
const WINDOW_MAX_BYTES: usize = 1 << 20;
/// Maximum number of repetitions of the first packet to a client that never answers.
const UNANSWERED_MAX: u32 = 1;

/// Reason for declining a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request is invalid.
    Invalid(Fault),
    NotFound,
    NoAccess,
    ReadOnly,
    Exists,
    NoSpace,
    OpenFailed,
}

impl Refusal {
    /// Returns the error that the client receives.
    pub(super) const fn fault(self) -> Fault {
        let (code, text) = match self {
            Self::Invalid(fault) => return fault,
            Self::NotFound => (ErrorCode::FileNotFound, "File not found."),
            Self::NoAccess => (ErrorCode::AccessViolation, "Permission denied."),
            Self::ReadOnly => (ErrorCode::AccessViolation, "Uploads are disabled."),
            Self::Exists => (ErrorCode::FileExists, "File already exists."),
            Self::NoSpace => (ErrorCode::DiskFull, "Not enough space."),
            Self::OpenFailed => (ErrorCode::NotDefined, "Cannot open the file."),
        };
        Fault { code, text }
    }

    /// Returns the counter of refused requests with this reason.
    pub(super) const fn counter(self) -> Counter {
        match self {
            Self::Invalid(_) => Counter::TftpRequestsInvalid,
            Self::NotFound => Counter::TftpFilesMissing,
            Self::NoAccess => Counter::TftpAccessRefused,
            Self::ReadOnly => Counter::TftpUploadsRefused,
            Self::Exists => Counter::TftpReplacementsRefused,
            Self::NoSpace => Counter::TftpSpaceRefused,
            Self::OpenFailed => Counter::TftpOpensFailed,
        }
    }
}

/// File to be transferred.
pub(super) enum OpenFile {
    /// File to be sent, and its length in bytes.
    Out(LocalSource, u64),
    /// File to be received.
    In(Sink),
}

/// Decides about a request and opens its file.
///
/// # Errors
///
/// Returns the reason if the request is declined.
pub(super) fn decide(server: &TftpServer, request: &Request) -> Result<OpenFile, Refusal> {
    match request.direction {
        Direction::Read => open(server, &request.name),
        Direction::Write => create(server, request),
    }
}

fn open(server: &TftpServer, name: &[u8]) -> Result<OpenFile, Refusal> {
    let (file, status) = server.plan().root_dir.read(name).map_err(|error| refusal_of(&error))?;
    if server.is_root && !status.is_readable_by_all() {
        return Err(Refusal::NoAccess);
    }
    Ok(OpenFile::Out(LocalSource::File(file), status.len))
}

fn create(server: &TftpServer, request: &Request) -> Result<OpenFile, Refusal> {
    let plan = server.plan();
    let existing = match plan.settings.rights {
        Rights::ReadOnly => return Err(Refusal::ReadOnly),
        Rights::WriteOnce => Existing::Keep,
        Rights::Writable => Existing::Replace,
    };
    let announced_bytes = request.options.transfer_size.unwrap_or(0);
    let free_bytes = plan.root_dir.free_bytes().unwrap_or(u64::MAX);
    if announced_bytes > plan.settings.file_max_bytes.min(free_bytes) {
        return Err(Refusal::NoSpace);
    }
    let atomic_file =
        plan.root_dir.create(&request.name, existing).map_err(|error| refusal_of(&error))?;
    Ok(OpenFile::In(Sink::from_atomic_file(atomic_file)))
}

fn refusal_of(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::NotFound,
        io::ErrorKind::AlreadyExists => Refusal::Exists,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::NoSpace,
        // A name that leaves the root is reported like a file without permission.
        io::ErrorKind::CrossesDevices
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidFilename => Refusal::NoAccess,
        // ELOOP, which has no stable `ErrorKind`.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Refusal::NoAccess
        }
        _ => Refusal::OpenFailed,
    }
}

/// Runs the transfer and logs its result.
pub(super) async fn serve(
    server: &TftpServer,
    from: SocketAddr,
    at: Option<IpAddr>,
    request: &Request,
    file: OpenFile,
    running: &RunningTransfer,
) {
    let name = escape_name(&request.name);
    let (stats, error) = match run(server, from, at, request, file, running).await {
        Ok(report) => report,
        Err(error) => {
            let why = format!("{error:#}");
            return server.log.write(&TftpEvent::Declined { from, name, why });
        }
    };
    let action = match request.direction {
        Direction::Read => TransferAction::Download,
        Direction::Write => TransferAction::Upload,
    };
    let bytes = stats.file_bytes;
    server.log.write(&match &error {
        None => {
            let duration_us = u64::try_from(stats.total.as_micros()).unwrap_or(u64::MAX);
            TftpEvent::Moved { from, name, action, bytes, duration_us }
        }
        Some(error) => {
            let level = level_of(error);
            TftpEvent::Failed { from, name, action, bytes, why: reason_of(error), level }
        }
    });
}

/// Returns the level of a failed transfer. An error packet of the client is no failure: a client may
/// request a file only for its size.
const fn level_of(error: &TftpError) -> Level {
    match error {
        TftpError::Refused(..) => Level::Info,
        TftpError::Stopped => Level::Notice,
        _ => Level::Warning,
    }
}

/// Describes the reason for the log, whose line already names peer and file.
fn reason_of(error: &TftpError) -> String {
    match error {
        TftpError::Refused(code, text) => {
            format!("the client sent error {} '{}'", code.to_wire(), text.escape_ascii())
        }
        TftpError::NoAnswer { .. } => "the client never answered".to_owned(),
        TftpError::Silence { seconds } => format!("no packet for {seconds} s"),
        TftpError::Unreachable(error) | TftpError::Network(error) | TftpError::Local(error) => {
            error.to_string()
        }
        TftpError::TooShort { announced_bytes } | TftpError::TooLong { announced_bytes } => {
            format!("the client announced {announced_bytes} bytes")
        }
        TftpError::Protocol(why) => (*why).to_owned(),
        TftpError::Stopped => "stopped".to_owned(),
    }
}

async fn run(
    server: &TftpServer,
    from: SocketAddr,
    at: Option<IpAddr>,
    request: &Request,
    file: OpenFile,
    running: &RunningTransfer,
) -> Result<(TftpTransferStats, Option<TftpError>)> {
    let mut record = server.transfer_log.begin(None);
    record.note_request(request.direction, request.mode, &request.name);
    let transport = server.transport(at, from)?;
    let context = EngineContext::published(&server.registry, "TFTP")?;
    let now = context.clock.now();
    let port = from.port();
    let mode = request.mode;
    let plan = server.plan();
    let settings = tftp::Settings { idle_timeout: plan.settings.timeout };
    let engine = match file {
        OpenFile::Out(source, len) => {
            let limits = Limits { window_size_max: u16::MAX, ..limits() };
            // RFC 2349: the option `tsize` is the size on the wire, which differs from the file
            // size in netascii.
            let size_bytes = (mode == Mode::Octet).then_some(len);
            let granted_options = request.options.grant(&limits, size_bytes);
            TransferEngine::Send(
                Sender::for_server(mode, port, granted_options, &settings, now),
                source,
            )
        }
        OpenFile::In(sink) => {
            let block_size = request.options.block_size.unwrap_or(BLOCK_SIZE_DEFAULT);
            let window_size_max = transport.window_size_max(block_size);
            let limits = Limits { window_size_max, ..limits() };
            let granted_options = request.options.grant(&limits, request.options.transfer_size);
            TransferEngine::Receive(
                Receiver::for_server(mode, port, granted_options, &settings, now),
                Some(sink),
            )
        }
    };
    let options = TftpOptions {
        direction: request.direction,
        mode,
        answer_timeout: plan.settings.timeout,
        first_answer_timeout: None,
        unanswered_max: Some(UNANSWERED_MAX),
        pace: RateLimit::new(None),
        lingers: true,
        file_max_bytes: plan.settings.file_max_bytes,
    };
    let transfer = Transfer::new(engine, transport, from, options, context);
    let has_answered = Arc::clone(&running.has_answered);
    let store_stats = move |stats: &TftpTransferStats| {
        if stats.datagrams_in > 0 {
            has_answered.store(true, Ordering::Relaxed);
        }
    };
    let (stats, error, _) = transfer.run(Arc::clone(&running.stop), store_stats).await?;
    record.transfer.cpu.cpu_ns = stats.cpu.map(nanos);
    record.transfer.host = server.transfer_log.host();
    record.note_stats(&stats, error.as_ref(), &request.name);
    server.transfer_log.keep(&record);
    Ok((stats, error))
}

fn limits() -> Limits {
    Limits { window_max_bytes: WINDOW_MAX_BYTES, ..Limits::default() }
}
