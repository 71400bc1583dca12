//! TFTP measurements for `plumb measure`: the first block of a file, or transfers.
//!
//! TFTP cannot start within a file. Therefore the probe observes the beginning of a larger transfer
//! instead of a transfer of a smaller size. The beginning takes as long as a transfer of the
//! smaller size without its last acknowledgment. A written file stays on the server, since TFTP
//! cannot delete files; the file always has the same name.

use super::error::TftpError;
use super::transfer::Stop;
use super::transfer_stats::TftpTransferStats;
use super::user::{Operation, TftpReport, TransferSpec, run};
use crate::FailureClass;
use crate::escaped;
use crate::ftp::probe::{FailureStage, ProbeError, pattern_file};
use crate::local::{LocalSource, Sink};
use crate::recorder::{TransferRecorder, nanos};
use crate::termination::TerminationSignals;
use anyhow::Result;
use os::schedule::run_queue_wait;
use records::accuracy::{Accuracy, Comparison, pattern};
use records::arrivals::{Arrival, ArrivalSeries};
use records::sizes::Direction;
use records::transfer::Transfer;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Maximum number of recorded arrivals per transfer.
const ARRIVALS_MAX: usize = 4096;
/// Block size in bytes of the control transfer, whose blocks are shorter than the blocks of the
/// measured transfers.
const CONTROL_BLOCK_BYTES: u16 = 512;
/// Number of blocks of the control transfer.
const CONTROL_BLOCKS: u64 = 12;
/// Name of the written file, if the URL has none.
const DEFAULT_FILE_NAME: &[u8] = b"plumb-measure";
/// Transfer duration beyond which no larger size is tried.
const SLOW_TRANSFER_NS: u64 = 10_000_000_000;

/// Direction, record and arrivals of a transfer.
pub type Run = (Direction, Transfer, Vec<Arrival>);

/// Result of a probe.
#[derive(Debug, Default)]
pub struct ProbeResult {
    /// Remote address of the last transfer.
    pub address: Option<SocketAddr>,
    /// Time from the request to the first block, ns.
    pub first_block_ns: Option<u64>,
    /// Records of the transfers, in order, each with its arrivals.
    pub transfers: Vec<Run>,
    /// Time at which the options of each transfer were agreed, ns.
    pub agreed_ns: Vec<Option<u64>>,
    /// Control transfer, which reads the beginning of the file in shorter blocks; with the time at
    /// which the options of this transfer were agreed, ns.
    pub control: Option<(Run, Option<u64>)>,
    /// Run-queue wait of this process during each transfer, ns.
    pub own_waits_ns: Vec<Option<u64>>,
    /// Result of comparing the written files with the data read back.
    pub accuracy: Option<Accuracy>,
    /// Notes on operations that failed, and on files left on the server.
    pub notes: Vec<String>,
}

/// Requests the file of `spec`, and receives its first block.
///
/// # Errors
///
/// Returns [`ProbeError`] if the file cannot be read.
pub fn probe_availability(spec: &TransferSpec) -> Result<ProbeResult, ProbeError> {
    in_runtime(async {
        let sink = discard()?;
        let stop = Arc::new(Stop::default());
        let stop_handle = Arc::clone(&stop);
        let progress = move |stats: &TftpTransferStats| {
            if stats.first_byte.is_some() {
                stop_handle.request();
            }
        };
        let recorder = TransferRecorder::off();
        let report = run(spec, Operation::Get(sink), &stop, &Arc::new(progress), &recorder).await;
        let report = report.map_err(local_error)?;
        match &report.error {
            Some(error) if report.stats.first_byte.is_none() => {
                Err(probe_error(error, &report.stats, &spec.name))
            }
            _ => Ok(ProbeResult {
                address: Some(report.stats.remote),
                first_block_ns: first_block_ns(&report),
                ..ProbeResult::default()
            }),
        }
    })
}

/// Reads the file of `spec` `rounds` times. If `sizes` is given, instead writes and reads back a
/// file of each size `rounds` times. If `compares`, compares the data read back with the written
/// data.
///
/// # Errors
///
/// Returns [`ProbeError`] if no transfer succeeded.
pub fn probe(
    spec: &TransferSpec,
    sizes: Option<&[u64]>,
    rounds: u32,
    compares: bool,
    report_progress: impl FnMut(&str),
) -> Result<ProbeResult, ProbeError> {
    let mut spec = spec.clone();
    if sizes.is_some() && (spec.name.is_empty() || spec.name.ends_with(b"/")) {
        spec.name.extend_from_slice(DEFAULT_FILE_NAME);
    }
    in_runtime(async {
        let result = ProbeResult::default();
        let mut probe =
            Probe { spec: &spec, probe_result: result, stop: stop_by_signals()?, report_progress };
        let outcome = match sizes {
            None => probe.read(rounds).await,
            Some(sizes) => probe.write(sizes, rounds, compares).await,
        };
        match outcome {
            Err(refused) if probe.probe_result.transfers.is_empty() => Err(refused),
            Err(ProbeError { why, .. }) => {
                probe.probe_result.notes.push(why);
                Ok(probe.probe_result)
            }
            Ok(()) => Ok(probe.probe_result),
        }
    })
}

struct Probe<'a, ReportProgress> {
    spec: &'a TransferSpec,
    probe_result: ProbeResult,
    stop: Arc<Stop>,
    report_progress: ReportProgress,
}

impl<ReportProgress: FnMut(&str)> Probe<'_, ReportProgress> {
    async fn read(&mut self, rounds: u32) -> Result<(), ProbeError> {
        for round in 1..=rounds {
            (self.report_progress)(&format!("reading the file, {round} of {rounds}"));
            self.run(Operation::Get(discard()?), Direction::Received).await?;
        }
        self.measure_short_blocks().await;
        Ok(())
    }

    /// Reads the beginning of the file in shorter blocks, one at a time. On a slow link shorter
    /// blocks take less time than long blocks; at a slow server they take the same time. A failure
    /// is ignored.
    async fn measure_short_blocks(&mut self) {
        let was_last_transfer_slow =
            self.probe_result.transfers.last().is_some_and(|(_, last, _)| {
                last.tftp
                    .block_bytes
                    .is_some_and(|bytes| bytes >= 2 * u64::from(CONTROL_BLOCK_BYTES))
            });
        let Ok(sink) = discard() else { return };
        if !was_last_transfer_slow || self.stop.is_requested() {
            return;
        }
        (self.report_progress)("reading the file in shorter blocks");
        let spec =
            TransferSpec { block_size: CONTROL_BLOCK_BYTES, window_size: 1, ..self.spec.clone() };
        let arrival_recorder = ArrivalRecorder::begin();
        let stop = Arc::new(Stop::default());
        let stop_handle = Arc::clone(&stop);
        let progress = arrival_recorder.progress();
        let progress = move |stats: &TftpTransferStats| {
            progress(stats);
            if stats.file_bytes >= CONTROL_BLOCKS * u64::from(CONTROL_BLOCK_BYTES) {
                stop_handle.request();
            }
        };
        let recorder = TransferRecorder::off();
        let operation = Operation::Get(sink);
        if let Ok(report) = run(&spec, operation, &stop, &Arc::new(progress), &recorder).await {
            let (arrivals, agreed_ns) = arrival_recorder.end();
            let transfer = report.record.transfer;
            self.probe_result.control =
                Some(((Direction::Received, transfer, arrivals), agreed_ns));
        }
    }

    async fn write(
        &mut self,
        sizes: &[u64],
        rounds: u32,
        compares: bool,
    ) -> Result<(), ProbeError> {
        for size in sizes {
            let file = pattern_file(*size).map_err(local_error)?;
            let count = records::format::count(*size);
            for _ in 0..rounds {
                (self.report_progress)(&format!("writing {count} bytes"));
                let file = reopened_at_start(&file).map_err(local_error)?;
                let operation = Operation::Put(LocalSource::File(file), Some(*size));
                self.run(operation, Direction::Sent).await?;
                (self.report_progress)(&format!("reading {count} bytes"));
                self.read_back(*size, compares).await?;
            }
            let last =
                self.probe_result.transfers.last().and_then(|(_, last, _)| last.time.total_ns);
            if last.is_some_and(|ns| ns > SLOW_TRANSFER_NS) {
                break;
            }
        }
        let name = escaped(&self.spec.name);
        self.probe_result
            .notes
            .push(format!("'{name}' remains on the server: TFTP cannot remove it"));
        Ok(())
    }

    async fn read_back(&mut self, size: u64, compares: bool) -> Result<(), ProbeError> {
        let memory = memfd_create("plumb-measure", MemfdFlags::CLOEXEC)
            .map_err(|e| local_error(e.into()))?;
        let memory = File::from(memory);
        let sink = Sink::from_file(memory.try_clone().map_err(|error| local_error(error.into()))?);
        self.run(Operation::Get(sink), Direction::Received).await?;
        if compares {
            let mut received = Vec::new();
            let read_result = reopened_at_start(&memory)
                .and_then(|mut file| Ok(file.read_to_end(&mut received)?));
            read_result.map_err(local_error)?;
            let mut comparison = Comparison::new(pattern, size);
            comparison.compare(&received);
            let accuracy = self.probe_result.accuracy.unwrap_or_default();
            self.probe_result.accuracy = Some(accuracy.plus(comparison.finish()));
        }
        Ok(())
    }

    async fn run(&mut self, operation: Operation, direction: Direction) -> Result<(), ProbeError> {
        let arrival_recorder = ArrivalRecorder::begin();
        let wait_before = run_queue_wait();
        let progress = arrival_recorder.progress();
        let recorder = TransferRecorder::off();
        let outcome = run(self.spec, operation, &self.stop, &Arc::new(progress), &recorder).await;
        let report = outcome.map_err(local_error)?;
        if let Some(error) = &report.error {
            return Err(probe_error(error, &report.stats, &self.spec.name));
        }
        self.probe_result.address = Some(report.stats.remote);
        let wait =
            run_queue_wait().zip(wait_before).map(|(now, before)| now.saturating_sub(before));
        self.probe_result.own_waits_ns.push(wait.map(nanos));
        let first_block_ns = first_block_ns(&report);
        self.probe_result.first_block_ns = self.probe_result.first_block_ns.or(first_block_ns);
        let (arrivals, agreed_ns) = arrival_recorder.end();
        self.probe_result.agreed_ns.push(agreed_ns);
        self.probe_result.transfers.push((direction, report.record.transfer, arrivals));
        Ok(())
    }
}

/// Observations of a running transfer.
struct ArrivalRecorder {
    began: Instant,
    observed: Arc<Mutex<(ArrivalSeries, Option<u64>)>>,
}

impl ArrivalRecorder {
    fn begin() -> Self {
        let observed = Arc::new(Mutex::new((ArrivalSeries::new(ARRIVALS_MAX), None)));
        Self { began: Instant::now(), observed }
    }

    /// Returns the callback that records the progress.
    fn progress(&self) -> impl Fn(&TftpTransferStats) + Send + Sync + 'static {
        let observed = Arc::clone(&self.observed);
        let began = self.began;
        move |stats: &TftpTransferStats| {
            let at_ns = nanos(began.elapsed());
            let (log, agreed_ns) = &mut *observed.lock().unwrap_or_else(PoisonError::into_inner);
            log.record(at_ns, stats.file_bytes);
            // A server that ignores the options answers with the first block.
            if stats.agreed.is_some() && stats.file_bytes == 0 {
                agreed_ns.get_or_insert(at_ns);
            }
        }
    }

    /// Returns the arrivals, and the time at which the options were agreed, ns.
    fn end(&self) -> (Vec<Arrival>, Option<u64>) {
        let (log, agreed_ns) = &*self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        (log.clone().into_arrivals(), *agreed_ns)
    }
}

fn first_block_ns(report: &TftpReport) -> Option<u64> {
    report.record.transfer.time.first_byte_ns
}

fn reopened_at_start(file: &File) -> Result<File> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn discard() -> Result<Sink, ProbeError> {
    let file = File::options().write(true).open("/dev/null");
    file.map(Sink::from_file).map_err(|error| local_error(error.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn local_error(error: anyhow::Error) -> ProbeError {
    let why = format!("{error:#}");
    ProbeError { failure: FailureClass::ThisMachine, reached: FailureStage::Address, why }
}

fn probe_error(error: &TftpError, stats: &TftpTransferStats, name: &[u8]) -> ProbeError {
    ProbeError {
        failure: error.failure(),
        reached: match error.is_address_specific() {
            true => FailureStage::Address,
            false => FailureStage::Server,
        },
        why: error.sentence(stats, name),
    }
}

/// Returns a handle that ends transfers on SIGINT, SIGTERM and SIGHUP.
fn stop_by_signals() -> Result<Arc<Stop>, ProbeError> {
    let stop = Arc::new(Stop::default());
    let mut signals = TerminationSignals::new().map_err(|error| local_error(error.into()))?;
    let stop_handle = Arc::clone(&stop);
    tokio::spawn(async move {
        signals.recv().await;
        stop_handle.request();
    });
    Ok(stop)
}

fn in_runtime<T>(work: impl Future<Output = Result<T, ProbeError>>) -> Result<T, ProbeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| local_error(error.into()))?;
    let result = runtime.block_on(work);
    // A thread that is blocked on a pipe keeps running until the process exits.
    runtime.shutdown_background();
    result
}
