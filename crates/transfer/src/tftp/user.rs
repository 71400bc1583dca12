//! TFTP client: one file, from or to the first address of a host that answers.
//!
//! The addresses are tried in the order of RFC 6724. If the network reports an address as
//! unreachable, the next address is tried at once; otherwise after a second without an answer. The
//! addresses are not tried in parallel, because two write requests are two transfers.
//!
//! If a server refuses a request for its options, one more request without options follows (RFC
//! 2347).

use super::error::TftpError;
use super::transfer::{Stop, TftpOptions, Transfer, TransferEngine};
use super::transfer_stats::TftpTransferStats;
use super::udp_transport::UdpTransport;
use crate::escaped;
use crate::local::{LocalSource, Sink};
use crate::pace::RateLimit;
use crate::recorder::{Record, TransferRecorder, nanos};
use anyhow::Result;
use carrier::meters::MeterRegistry;
use carrier::{self, EngineContext, Route};
use net::time::Duration;
use os::host::Host;
use protocols::tftp::{
    BLOCK_SIZE_DEFAULT, Direction, ErrorCode, Mode, Options, Receiver, Request, Sender, Settings,
};
use records::transfer::{Role, Stack, Text};
use std::net::SocketAddr;
use std::sync::Arc;

/// Time without an answer after which the next address is tried.
const NEXT_ADDRESS_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a window that a sender buffers.
const WINDOW_MAX_BYTES: u64 = 16 << 20;

/// A requested transfer.
#[derive(Clone, Debug)]
pub struct TransferSpec {
    /// Host name as the user specified it.
    pub host: String,
    /// Addresses of the host, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
    /// Name of the file on the server.
    pub name: Vec<u8>,
    /// Transfer mode.
    pub mode: Mode,
    /// Requested block size in bytes.
    pub block_size: u16,
    /// Requested window size in blocks.
    pub window_size: u16,
    /// Timeout for an answer of the server.
    pub answer_timeout: Duration,
    /// Rate limit, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Route to the server.
    pub via: Route,
    /// Duration of the name resolution.
    pub resolve_time: Duration,
    /// Registry on which the meters are displayed.
    pub registry: Arc<MeterRegistry>,
}

/// Result of a transfer.
#[derive(Debug)]
pub struct TftpReport {
    /// Record of the transfer.
    pub record: Record,
    /// Statistics of the last attempt.
    pub stats: TftpTransferStats,
    /// Error of the last attempt.
    pub error: Option<TftpError>,
}

/// Direction of a transfer, with its local end.
#[derive(Debug)]
pub enum Operation {
    /// Download.
    Get(Sink),
    /// Upload, with the number of bytes if known.
    Put(LocalSource, Option<u64>),
}

impl Operation {
    fn direction(&self) -> Direction {
        match self {
            Self::Get(_) => Direction::Read,
            Self::Put(..) => Direction::Write,
        }
    }
}

/// Transfers the file, and returns the report.
///
/// # Errors
///
/// Returns an error if a local resource is unavailable, if the file name is too long for a request,
/// or if there is no address.
pub async fn run(
    spec: &TransferSpec,
    operation: Operation,
    stop: &Arc<Stop>,
    progress: &Arc<impl Fn(&TftpTransferStats) + Send + Sync + 'static>,
    recorder: &TransferRecorder,
) -> Result<TftpReport> {
    let cpu_before = os::clock::process_cpu_time();
    let host = carrier::open_host(&spec.via, 1, carrier::FILES)?;
    let stack = if host.is_some() { Stack::Plumbline } else { Stack::Kernel };
    let mut record = recorder.begin(Role::User, stack, None);
    record.note_request(operation.direction(), spec.mode, &spec.name);
    let mut operation = Some(operation);
    let mut has_options = true;
    let mut addresses = spec.addresses.iter().copied().peekable();
    let mut last_report = None;
    while let (Some(address), Some(now)) = (addresses.peek().copied(), operation.take()) {
        if let Some(host) = &host {
            host.addressed(address.ip()).await?;
        }
        let is_last = spec.addresses.last() == Some(&address);
        let first_answer_timeout = (!is_last).then_some(NEXT_ADDRESS_DELAY);
        let attempt =
            Attempt { spec, address, first_answer_timeout, has_options, host: host.as_ref() };
        let (stats, error, engine, size) = attempt.run(now, stop, progress).await?;
        let is_unopened = stats.agreed.is_none();
        let is_option_refusal = matches!(
            error,
            Some(TftpError::Refused(
                ErrorCode::OptionsRefused | ErrorCode::IllegalOperation | ErrorCode::NotDefined,
                _
            ))
        );
        let is_address_specific = error.as_ref().is_some_and(TftpError::is_address_specific);
        last_report = Some((stats, error));
        if is_unopened && is_option_refusal && std::mem::take(&mut has_options) {
            operation = unused_operation(engine, size);
        } else if is_unopened && is_address_specific {
            addresses.next();
            operation = unused_operation(engine, size);
        }
    }
    let (stats, error) = last_report.ok_or_else(|| anyhow::anyhow!("no address to send to"))?;
    record.transfer.identity.remote_name = Some(Text::from(&spec.host));
    record.transfer.time.resolve_ns = Some(nanos(spec.resolve_time));
    record.transfer.host = recorder.host();
    record.note_stats(&stats, error.as_ref(), &spec.name);
    // The record gets the CPU time of the whole process, because the process does nothing else.
    record.transfer.cpu.cpu_ns = None;
    record.add_cpu(os::clock::process_cpu_time().saturating_sub(cpu_before));
    Ok(TftpReport { record, stats, error })
}

/// Returns the local end that an attempt has not used.
fn unused_operation(engine: TransferEngine, size: Option<u64>) -> Option<Operation> {
    match engine {
        TransferEngine::Send(_, source) => Some(Operation::Put(source, size)),
        TransferEngine::Receive(_, sink) => sink.map(Operation::Get),
    }
}

/// One attempt at one address.
struct Attempt<'a> {
    spec: &'a TransferSpec,
    address: SocketAddr,
    first_answer_timeout: Option<Duration>,
    has_options: bool,
    host: Option<&'a Host>,
}

impl Attempt<'_> {
    async fn run(
        self,
        operation: Operation,
        stop: &Arc<Stop>,
        progress: &Arc<impl Fn(&TftpTransferStats) + Send + Sync + 'static>,
    ) -> Result<(TftpTransferStats, Option<TftpError>, TransferEngine, Option<u64>)> {
        let spec = self.spec;
        let transport = UdpTransport::open(self.address, self.host)?;
        let engine_context = EngineContext::published(&spec.registry, "TFTP")?;
        let pace = RateLimit::new(spec.bytes_per_second);
        let size = match &operation {
            Operation::Get(_) => None,
            Operation::Put(_, size) => *size,
        };
        let requested = self.options(&operation, &transport, pace);
        let request = Request {
            direction: operation.direction(),
            name: spec.name.clone(),
            mode: spec.mode,
            options: if self.has_options { requested } else { Options::default() },
        };
        let settings = Settings { idle_timeout: spec.answer_timeout };
        let now = engine_context.clock.now();
        let engine = match operation {
            Operation::Get(sink) => Receiver::for_user(&request, &settings, now)
                .map(|receiver| TransferEngine::Receive(receiver, Some(sink))),
            Operation::Put(source, _) => Sender::for_user(&request, &settings, now)
                .map(|sender| TransferEngine::Send(sender, source)),
        };
        let engine = engine.ok_or_else(|| {
            anyhow::anyhow!("'{}' is too long for a TFTP request", escaped(&spec.name))
        })?;
        let transfer_options = TftpOptions {
            direction: request.direction,
            mode: spec.mode,
            answer_timeout: spec.answer_timeout,
            first_answer_timeout: self.first_answer_timeout,
            unanswered_max: None,
            pace,
            lingers: false,
            file_max_bytes: u64::MAX,
        };
        let transfer =
            Transfer::new(engine, transport, self.address, transfer_options, engine_context);
        let progress = Arc::clone(progress);
        let transfer_result = transfer.run(Arc::clone(stop), move |stats| progress(stats)).await;
        let (stats, error, engine) = transfer_result?;
        Ok((stats, error, engine, size))
    }

    /// Returns the options to request, limited by the receive buffer of the socket and the burst of
    /// the rate limit. Default values are not requested, because some servers know no options.
    fn options(&self, operation: &Operation, transport: &UdpTransport, pace: RateLimit) -> Options {
        let burst = pace.burst_bytes().unwrap_or(WINDOW_MAX_BYTES).min(WINDOW_MAX_BYTES);
        let max_block_size = u16::try_from(burst).unwrap_or(u16::MAX);
        let block_size = self.spec.block_size.min(max_block_size.max(BLOCK_SIZE_DEFAULT));
        let blocks = u16::try_from(burst / u64::from(block_size)).unwrap_or(u16::MAX).max(1);
        let max_window = match operation {
            Operation::Get(_) => transport.window_size_max(block_size),
            Operation::Put(..) => u16::MAX,
        };
        let window_size = self.spec.window_size.min(blocks).min(max_window);
        let is_octet = self.spec.mode == Mode::Octet;
        Options {
            block_size: (block_size != BLOCK_SIZE_DEFAULT).then_some(block_size),
            window_size: (window_size > 1).then_some(window_size),
            transfer_size: match operation {
                Operation::Get(_) => is_octet.then_some(0),
                Operation::Put(_, size) => size.filter(|_| is_octet),
            },
            timeout_s: None,
        }
    }
}
