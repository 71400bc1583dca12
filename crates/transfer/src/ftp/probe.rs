//! FTP measurements for `plumb measure`: a login, or transfers of increasing sizes.
//!
//! A partial transfer reads the last bytes of a file on the server (REST, RFC 3659 §5), so each
//! size is a complete transfer with its own start and end. If the server cannot restart within a
//! file, the whole file is transferred. Received data is discarded; data that the probe itself
//! wrote is compared with the written pattern. Files that the probe wrote are deleted afterwards.

use super::arrival_log::ArrivalLog;
use super::client::FtpClient;
use super::connector::{self, ConnectionSettings, Connector, FtpCredentials, Interrupt};
use super::data_task::LocalEnd;
use super::data_task::TransferResult;
use super::error::FtpError;
use super::remote_path::{join, name_of};
use super::session_timing::{CommandOffsets, Opening};
use crate::FailureClass;
use crate::escaped;
use crate::recorder::{Record, nanos};
use crate::url::Url;
use carrier::{AddressFamilies, Route};
use os::schedule::{run_queue_wait, thread_run_queue_wait};
use os::tcp_counters::duplicate_segments_in;
use protocols::ftp::listing::{Entry, Kind};
use protocols::ftp::user::{StoreKind, Task};
use protocols::ftp::{LocalName, Representation};
use records::accuracy::{Accuracy, Comparison, pattern};
use records::arrivals::Arrival;
use records::severity::Severity;
use records::sizes::Direction;
use records::transfer::Transfer;
use records::verdict::{self, Aborted, DataTcp, Exchange, FileTransfer};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of entries in each arrival log of a transfer.
const ARRIVALS_MAX: usize = 4096;
/// Transfer duration beyond which no larger size is tried.
const SLOW_TRANSFER_TIME: Duration = Duration::from_secs(10);
/// Number of bytes requested if no byte of a longer file arrived. This many bytes fit into a short
/// packet.
const SHORT_READ_BYTES: u64 = 256;
/// Bytes of a pattern written at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Connection and login options for a server.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Transport: the kernel, or a user-space host on a device.
    pub via: Route,
    /// Address families allowed for the server.
    pub family: AddressFamilies,
    /// Timeout in seconds for the connection, for each reply and for a stalled transfer.
    pub timeout_s: u32,
    /// Credentials of the login.
    pub credentials: FtpCredentials,
    /// File of trusted certificate authorities (PEM).
    pub ca: Option<PathBuf>,
    /// Receives messages for the user.
    pub message: fn(Severity, &str),
}

/// Requested transfers.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// Sizes in bytes, in ascending order.
    pub sizes: Vec<u64>,
    /// Number of transfers of each size.
    pub rounds: u32,
    /// Whether the probe writes files and reads them back; otherwise the probe reads existing
    /// files.
    pub writes: bool,
    /// Whether the data read back is compared with the written data.
    pub compares: bool,
}

/// Durations of the steps before the first transfer.
#[derive(Clone, Debug, Default)]
pub struct SetupTimes {
    /// Resolution of the host name.
    pub resolve: Option<Duration>,
    /// Establishment of the control connection.
    pub connect: Option<Duration>,
    /// TLS handshake on the control connection.
    pub tls: Option<Duration>,
    /// Greeting and login, without the TLS handshake.
    pub login: Option<Duration>,
    /// Time from the connection to the greeting.
    pub greeting: Option<Duration>,
    /// The commands of the login.
    pub exchanges: Vec<Exchange>,
    /// Run-queue wait of this process until the end of the login.
    pub own_wait: Option<Duration>,
}

/// Last stage that a failed probe reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureStage {
    /// No address was found for the host name.
    Name,
    /// No connection to the address could be established.
    Address,
    /// The server answered, and a later step failed.
    Server,
}

/// Reason for a probe without a result.
#[derive(Clone, Debug)]
pub struct ProbeError {
    /// Failure class, which selects the exit code.
    pub failure: FailureClass,
    /// Last stage that the probe reached.
    pub reached: FailureStage,
    /// Error message, one sentence.
    pub why: String,
}

/// Result of a probe.
#[derive(Debug, Default)]
pub struct ProbeResult {
    /// Remote address of the control connection.
    pub address: Option<SocketAddr>,
    /// Durations of the steps before the first transfer.
    pub opening: SetupTimes,
    /// Records of the successful transfers, in order.
    pub transfers: Vec<(Direction, Transfer)>,
    /// Arrivals of the largest download.
    pub sequence: Vec<Arrival>,
    /// Times of the commands of each transfer, in the order of `transfers`. The records do not
    /// contain these times.
    pub command_offsets: Vec<CommandOffsets>,
    /// Observations of each transfer, in the order of `transfers`.
    pub observations: Vec<FileTransfer>,
    /// Transfer that stopped before its end.
    pub aborted: Option<Aborted>,
    /// Result of comparing the written files with the data read back.
    pub accuracy: Option<Accuracy>,
    /// Notes on operations that failed or were skipped, each a sentence without its final period.
    pub notes: Vec<String>,
}

/// Logs in at the server of `url`, and ends the session.
///
/// # Errors
///
/// Returns [`ProbeError`] if the server cannot be reached or rejects the login.
pub fn probe_availability(
    url: &Url,
    probe_options: &ProbeOptions,
) -> Result<ProbeResult, ProbeError> {
    run(url, probe_options, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.ready().await?;
        let setup_result = setup_result(&mut client);
        client.quit().await;
        Ok(setup_result)
    })
}

/// Runs the transfers of `plan` with the server of `url`, and passes progress messages to
/// `report_progress`. A failed transfer may end the probe early.
///
/// # Errors
///
/// Returns [`ProbeError`] if the login fails, if an argument is wrong, or if no transfer began.
pub fn probe(
    url: &Url,
    probe_options: &ProbeOptions,
    plan: &ProbePlan,
    report_progress: impl FnMut(&str),
) -> Result<ProbeResult, ProbeError> {
    let arrival_log = Arc::new(Mutex::new(ArrivalLog::begin(ARRIVALS_MAX)));
    let shared_log = Some(Arc::clone(&arrival_log));
    run(url, probe_options, shared_log, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.ready().await?;
        let probe_result = setup_result(&mut client);
        let mut probe = Probe {
            client,
            arrival_log,
            plan,
            probe_result,
            largest_download_bytes: 0,
            largest_upload_bytes: 0,
            report_progress,
        };
        let result = match plan.writes {
            true => probe.write(&url.name).await,
            false => probe.read(&url.name).await,
        };
        if result.is_err() && !plan.writes {
            probe.read_short_tail(&url.name).await;
        }
        match result {
            Err(FtpError::InvalidRequest(why)) => return Err(FtpError::InvalidRequest(why)),
            Err(error)
                if probe.probe_result.transfers.is_empty()
                    && probe.probe_result.aborted.is_none() =>
            {
                return Err(error);
            }
            Err(error) => probe.probe_result.notes.push(error.sentence()),
            Ok(()) => {}
        }
        let Probe { client, probe_result, .. } = probe;
        client.quit().await;
        Ok(probe_result)
    })
}

fn run(
    url: &Url,
    probe_options: &ProbeOptions,
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<ProbeResult, FtpError>,
) -> Result<ProbeResult, ProbeError> {
    let settings = ConnectionSettings {
        via: probe_options.via.clone(),
        families: probe_options.family,
        timeout_s: probe_options.timeout_s,
        attempts: Some(1),
        credentials: probe_options.credentials.clone(),
        is_insecure: false,
        is_active: false,
        ca: probe_options.ca.clone(),
        is_recording: false,
        is_quiet: true,
        is_verbose: false,
        bytes_per_second: None,
        message: probe_options.message,
    };
    let result = connector::run(url, &settings, arrival_log, Interrupt::CancelsCommand, work);
    result.map_err(|error| ProbeError {
        failure: error.failure(),
        reached: match error {
            FtpError::NoAddress(_) => FailureStage::Name,
            FtpError::NoConnection(_) | FtpError::NotFound(_) => FailureStage::Address,
            _ => FailureStage::Server,
        },
        why: error.sentence(),
    })
}

fn setup_result(client: &mut FtpClient) -> ProbeResult {
    let Some(session) = client.open_session() else { return ProbeResult::default() };
    let Opening { resolve, connect, tls, login, greeting, exchanges } =
        session.timing.opening.clone();
    let own_wait = run_queue_wait();
    let setup = SetupTimes { resolve, connect, tls, login, greeting, exchanges, own_wait };
    ProbeResult { address: Some(session.peer), opening: setup, ..ProbeResult::default() }
}

/// Part of a file to read, from an offset to the end of the file.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    path: &'a [u8],
    /// Offset of the first byte.
    from: u64,
    /// Size of the whole file in bytes, if known.
    whole: Option<u64>,
    /// Whether the probe wrote the file and compares the content with the written pattern.
    is_compared: bool,
}

struct Probe<'a, ReportProgress> {
    client: FtpClient,
    arrival_log: Arc<Mutex<ArrivalLog>>,
    plan: &'a ProbePlan,
    probe_result: ProbeResult,
    /// Size in bytes of the largest download so far.
    largest_download_bytes: u64,
    /// Size in bytes of the largest upload so far.
    largest_upload_bytes: u64,
    report_progress: ReportProgress,
}

impl<ReportProgress: FnMut(&str)> Probe<'_, ReportProgress> {
    /// Reads the file or directory at `path`.
    async fn read(&mut self, path: &[u8]) -> Result<(), FtpError> {
        if path.is_empty() || path.ends_with(b"/") {
            return self.read_directory(path).await;
        }
        match self.client.find_entry(path).await? {
            Some(Entry { kind: Kind::Directory, .. }) => return self.read_directory(path).await,
            None => {
                let escaped = escaped(path);
                return Err(FtpError::InvalidRequest(format!(
                    "the server has no '{escaped}': use the name of an existing file or directory"
                )));
            }
            Some(_) => {}
        }
        let (size, _) = self.client.size_and_time(path).await?;
        let Some(size) = size else {
            self.note("the server reports no file size: whole files were transferred");
            let part = Part { path, from: 0, whole: None, is_compared: false };
            return self.rounds(part).await;
        };
        let mut part_sizes: Vec<u64> =
            self.plan.sizes.iter().copied().filter(|part| *part < size).collect();
        if size <= self.plan.sizes.last().copied().unwrap_or(u64::MAX) {
            part_sizes.push(size);
        }
        for part in part_sizes {
            let part = Part { path, from: size - part, whole: Some(size), is_compared: false };
            match self.rounds(part).await {
                Err(error) if error.denies_restart() => {
                    self.note("the server does not support REST: the whole file was transferred");
                    return self.rounds(Part { from: 0, ..part }).await;
                }
                other => other?,
            }
            if self.was_last_transfer_slow() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the last bytes of a file after a transfer that delivered no byte. These bytes fit into
    /// a short packet, which passes even a path that drops long packets.
    async fn read_short_tail(&mut self, path: &[u8]) {
        let is_silent = |Aborted { transfer, .. }: &Aborted| {
            transfer.connected_ns.is_some() && transfer.arrivals.is_empty()
        };
        let Some(aborted) = self.probe_result.aborted.take_if(|aborted| is_silent(aborted)) else {
            return;
        };
        if self.probe_result.transfers.is_empty()
            && let Ok((Some(whole), _)) = self.client.size_and_time(path).await
        {
            let from = whole.saturating_sub(SHORT_READ_BYTES);
            let part = Part { path, from, whole: Some(whole), is_compared: false };
            // Ignored: a failed transfer has no transfer record.
            _ = self.receive(part).await;
        }
        self.probe_result.aborted = Some(aborted);
    }

    /// Reads the files of a directory whose sizes are nearest to the requested sizes. For each
    /// requested size without a file of similar size, reads that many bytes from the end of the
    /// largest file.
    async fn read_directory(&mut self, directory: &[u8]) -> Result<(), FtpError> {
        let entries = self.client.list(directory).await?;
        let nearest_files = nearest_files(&entries, &self.plan.sizes);
        let Some((largest, whole)) = nearest_files.last().cloned() else {
            let escaped = escaped(directory);
            return Err(FtpError::InvalidRequest(format!(
                "there is no readable file in the directory '/{escaped}': use another directory or \
                 --write"
            )));
        };
        let files = nearest_files.iter().map(|(name, size)| (name.clone(), *size, *size));
        let missing = missing_sizes(&nearest_files, &self.plan.sizes).into_iter();
        let missing = missing.map(|part| (largest.clone(), whole, part));
        let mut all: Vec<_> = files.chain(missing).collect();
        all.sort_by_key(|(_, _, part)| *part);
        for (name, whole, part) in all {
            let path = join(directory, &name);
            let from = whole - part;
            let part = Part { path: &path, from, whole: Some(whole), is_compared: false };
            match self.rounds(part).await {
                Err(error) if error.denies_restart() => {
                    self.note("the server does not support REST: whole files were transferred");
                }
                other => other?,
            }
            if self.was_last_transfer_slow() {
                break;
            }
        }
        Ok(())
    }

    /// Writes a file of each requested size into a directory, reads the file back, and finally
    /// deletes the file.
    async fn write(&mut self, directory: &[u8]) -> Result<(), FtpError> {
        if !directory.is_empty() && !directory.ends_with(b"/") {
            return Err(FtpError::InvalidRequest(
                "--write requires a directory, whose name ends with '/': files are created and \
                 removed there"
                    .to_owned(),
            ));
        }
        let rng = os::entropy::seed().map_err(anyhow::Error::new)?;
        let path = join(directory, format!("plumb-measure-{rng:016x}").as_bytes());
        let mut result = Ok(());
        for size in self.plan.sizes.clone() {
            result = self.write_and_read(&path, size).await;
            if result.is_err() || self.was_last_transfer_slow() {
                break;
            }
        }
        let removal = async {
            let context = format!("cannot remove '{}'", escaped(&path));
            self.client.run(&context, Task::Delete(name_of(&path)?)).await
        };
        if let Err(error) = removal.await
            && result.is_ok()
        {
            self.probe_result.notes.push(error.sentence());
        }
        result
    }

    async fn write_and_read(&mut self, path: &[u8], size: u64) -> Result<(), FtpError> {
        let file = pattern_file(size)?;
        for _ in 0..self.plan.rounds {
            (self.report_progress)(&format!("writing {} bytes", records::format::count(size)));
            self.send(path, &file, size).await?;
        }
        let is_compared = self.plan.compares;
        self.rounds(Part { path, from: 0, whole: Some(size), is_compared }).await
    }

    /// Reads `part` once per requested round.
    async fn rounds(&mut self, part: Part<'_>) -> Result<(), FtpError> {
        for _ in 0..self.plan.rounds {
            let bytes = part.whole.map(|whole| whole - part.from);
            let bytes = records::format::count_or_unknown(bytes);
            (self.report_progress)(&format!("reading {bytes} bytes"));
            self.receive(part).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, part: Part<'_>) -> Result<(), FtpError> {
        let local_end = match part.is_compared {
            true => LocalEnd::Memory(Vec::new()),
            false => {
                let null_device = File::options().write(true).open("/dev/null");
                let file = null_device.map_err(anyhow::Error::new)?;
                let max_bytes = part.whole.map(|whole| whole.saturating_sub(part.from));
                LocalEnd::WriteTo { file, at: None, stop_after: None, max_bytes }
            }
        };
        let task = Task::Retrieve {
            name: name_of(part.path)?,
            representation: Representation::IMAGE,
            offset_bytes: part.from,
            expected_bytes: part.whole,
        };
        let context = format!("cannot download '{}'", escaped(part.path));
        let bytes = part.whole.map(|whole| whole - part.from);
        let moved =
            self.run_transfer(Direction::Received, (&context, part.path), task, local_end, bytes);
        let moved = moved.await?;
        if let (true, Some(whole)) = (part.is_compared, part.whole) {
            let mut comparison = Comparison::new(pattern, whole);
            comparison.compare(&moved.map(|moved| moved.memory).unwrap_or_default());
            let accuracy = self.probe_result.accuracy.unwrap_or_default();
            self.probe_result.accuracy = Some(accuracy.plus(comparison.finish()));
        }
        Ok(())
    }

    async fn send(&mut self, path: &[u8], file: &File, size: u64) -> Result<(), FtpError> {
        let mut file = file.try_clone().map_err(anyhow::Error::new)?;
        file.seek(SeekFrom::Start(0)).map_err(anyhow::Error::new)?;
        let task = Task::Store {
            name: Some(name_of(path)?),
            kind: StoreKind::Replace,
            representation: Representation::IMAGE,
            offset_bytes: 0,
            // ALLO is sent only if the server advertises SITE PARTIAL, as in `plumb put`.
            allocation_bytes: Some(size).filter(|_| self.client.advertises("SITE PARTIAL")),
        };
        let context = format!("cannot upload '{}'", escaped(path));
        let local_end = LocalEnd::ReadFrom(file);
        self.run_transfer(Direction::Sent, (&context, path), task, local_end, Some(size))
            .await
            .map(|_| ())
    }

    /// Runs one transfer. Keeps the record of a successful transfer.
    async fn run_transfer(
        &mut self,
        direction: Direction,
        (context, path): (&str, &[u8]),
        task: Task,
        local_end: LocalEnd,
        bytes: Option<u64>,
    ) -> Result<Option<TransferResult>, FtpError> {
        self.client.ready().await?;
        let is_received = direction == Direction::Received;
        let offset = match &task {
            Task::Retrieve { offset_bytes, .. } => *offset_bytes,
            _ => 0,
        };
        let is_largest = is_received && bytes > Some(self.largest_download_bytes);
        let is_largest_sent = !is_received && bytes > Some(self.largest_upload_bytes);
        let counters_before = CountersBefore::read();
        *self.arrival_log.lock().unwrap_or_else(PoisonError::into_inner) =
            ArrivalLog::begin(ARRIVALS_MAX);
        let representation = Representation::IMAGE;
        let began = self.arrival_log.lock().unwrap_or_else(PoisonError::into_inner).began;
        let mut record = Record::begin(&self.client, is_received, path, representation);
        let (result, moved) = self.client.run_once(context, task, Some(local_end)).await;
        record.add_attempt(&mut self.client, moved.as_ref(), offset);
        record.conclude(result.as_ref().err());
        let mut observations =
            self.observations(direction, bytes, began, moved.as_ref(), &counters_before);
        let sampled = self.arrival_log.lock().unwrap_or_else(PoisonError::into_inner).tcp.clone();
        let tcp = &record.transfer.tcp;
        // For an upload the last sample may be newer than the counters read after the last write.
        let sampled = sampled.filter(|sampled| !is_received && sampled.segs_out >= tcp.segs_out);
        observations.tcp = DataTcp::from(sampled.as_ref().unwrap_or(tcp));
        if let Err(error) = result {
            // Only a stalled or lost transfer is kept for the analysis, not a transfer that the
            // server refused.
            let is_stopped = match observations.connected_ns {
                Some(_) => !error.is_refusal(),
                None => error.is_without_data_connection(),
            };
            let why = error.sentence();
            self.probe_result.aborted =
                is_stopped.then_some(Aborted { transfer: observations, reason: why });
            return Err(error);
        }
        if !is_largest && !is_largest_sent {
            observations.arrivals.clear();
            observations.segments.clear();
        }
        self.probe_result.observations.push(observations);
        if is_largest_sent {
            self.largest_upload_bytes = bytes.unwrap_or(0);
        }
        if is_largest {
            let log = self.arrival_log.lock().unwrap_or_else(PoisonError::into_inner).log.clone();
            self.largest_download_bytes = bytes.unwrap_or(0);
            self.probe_result.sequence = log.into_arrivals();
        }
        let session = self.client.open_session();
        let offsets =
            session.map(|session| session.timing.command_offsets_since(began)).unwrap_or_default();
        self.probe_result.command_offsets.push(offsets);
        self.probe_result.transfers.push((direction, record.transfer));
        Ok(moved)
    }

    /// Returns the observations of the transfer that has just ended.
    fn observations(
        &mut self,
        direction: Direction,
        bytes: Option<u64>,
        began: Instant,
        moved: Option<&TransferResult>,
        before: &CountersBefore,
    ) -> FileTransfer {
        let total_ns = nanos(began.elapsed());
        let session = self.client.open_session();
        let data = moved.map(|moved| &moved.stats);
        let observations = session.map(|session| session.timing.transfer_since(began, data));
        let observations = observations.unwrap_or_default();
        let arrival_log = self.arrival_log.lock().unwrap_or_else(PoisonError::into_inner);
        let arrivals = arrival_log.log.clone().into_arrivals();
        let segments = arrival_log.segments.clone().into_arrivals();
        FileTransfer {
            direction: direction.into(),
            bytes: moved.map(|moved| moved.file_bytes).or(bytes).unwrap_or(0),
            total_ns,
            arrivals: arrivals.iter().map(verdict::Arrival::from).collect(),
            segments: segments.iter().map(verdict::Arrival::from).collect(),
            first_loss_bytes: arrival_log.first_loss_bytes,
            peer_window_bytes: arrival_log.peer_window_bytes,
            upper_rtt_ns: arrival_log.upper_rtt_ns(),
            own_window_bytes: arrival_log.own_window_bytes,
            duplicates_in: before.duplicates(),
            own_wait_ns: before.run_queue_wait().map(|wait| {
                // Another thread moved the data; the run-queue wait of that thread counts too.
                let data_wait = data.and_then(|data| data.run_queue_wait).unwrap_or_default();
                nanos(wait.saturating_sub(arrival_log.sampling_wait).saturating_add(data_wait))
            }),
            ..observations
        }
    }

    /// Returns whether the last transfer took longer than [`SLOW_TRANSFER_TIME`], so that larger
    /// transfers are skipped.
    fn was_last_transfer_slow(&self) -> bool {
        let last = self.probe_result.transfers.last().and_then(|(_, last)| last.time.total_ns);
        last.is_some_and(|ns| u128::from(ns) > SLOW_TRANSFER_TIME.as_nanos())
    }

    fn note(&mut self, what: &str) {
        self.probe_result.notes.push(what.to_owned());
    }
}

/// Kernel counters at the start of a transfer.
struct CountersBefore {
    run_queue: Option<Duration>,
    duplicates: Option<u64>,
}

impl CountersBefore {
    fn read() -> Self {
        Self { run_queue: thread_run_queue_wait(), duplicates: duplicate_segments_in() }
    }

    /// Returns the run-queue wait of this thread since the start of the transfer. This thread
    /// drives the control connection.
    fn run_queue_wait(&self) -> Option<Duration> {
        Some(thread_run_queue_wait()?.saturating_sub(self.run_queue?))
    }

    /// Returns the number of duplicate segments received since the start of the transfer.
    fn duplicates(&self) -> Option<u64> {
        Some(duplicate_segments_in()?.saturating_sub(self.duplicates?))
    }
}

/// Returns the requested sizes below the size of the largest file that are not within a factor of 2
/// of the size of any file.
fn missing_sizes(files: &[(Vec<u8>, u64)], sizes: &[u64]) -> Vec<u64> {
    let largest = files.last().map_or(0, |(_, size)| *size);
    let is_similar =
        |one: u64, other: u64| one <= other.saturating_mul(2) && other <= one.saturating_mul(2);
    let sizes = sizes.iter().copied().filter(|wished| *wished < largest);
    sizes.filter(|wished| !files.iter().any(|(_, size)| is_similar(*size, *wished))).collect()
}

/// Returns names and sizes of the files nearest to the requested sizes, in ascending order of size.
fn nearest_files(entries: &[Entry], sizes: &[u64]) -> Vec<(Vec<u8>, u64)> {
    let largest_size = sizes.last().copied().unwrap_or(u64::MAX);
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    let files = files.filter(|entry| LocalName::new(&entry.name).is_ok());
    let files: Vec<_> = files.filter_map(|entry| Some((entry.name.clone(), entry.size?))).collect();
    let files: Vec<_> =
        files.into_iter().filter(|(_, size)| (1..=largest_size).contains(size)).collect();
    // Distance of two sizes: the absolute value of the logarithm of their ratio.
    let distance =
        |one: u64, other: u64| (one.max(other) as f64 / one.min(other).max(1) as f64).ln().abs();
    let mut chosen: Vec<(Vec<u8>, u64)> = Vec::new();
    for wished in sizes {
        let best = files.iter().min_by(|(_, one), (_, other)| {
            distance(*one, *wished).total_cmp(&distance(*other, *wished))
        });
        chosen.extend(best.filter(|best| !chosen.contains(best)).cloned());
    }
    chosen.sort_by_key(|(_, size)| *size);
    chosen
}

/// Creates a file in memory (`memfd_create(2)`) that holds `size` bytes of the pattern.
pub fn pattern_file(size: u64) -> anyhow::Result<File> {
    let mut file = File::from(memfd_create("plumb-measure", MemfdFlags::CLOEXEC)?);
    let mut at = 0;
    while at < size {
        let end = size.min(at + PIECE_BYTES as u64);
        file.write_all(&(at..end).map(pattern).collect::<Vec<_>>())?;
        at = end;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, size: u64) -> Entry {
        Entry {
            name: name.as_bytes().to_vec(),
            kind: Kind::File,
            size: Some(size),
            ..Entry::default()
        }
    }

    #[test]
    fn the_files_nearest_to_the_sizes_are_chosen_once_each() {
        let directory = Entry { kind: Kind::Directory, ..file("d", 1_000) };
        let entries =
            [file("large", 900_000), file("small", 900), file("huge", 1 << 40), directory];
        let chosen = nearest_files(&entries, &[1_024, 4_096, 1_048_576]);
        let names: Vec<_> = chosen.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"small".as_slice(), b"large"]);
    }

    #[test]
    fn missing_sizes_become_parts_of_the_largest_file() {
        let files = [(b"small".to_vec(), 900), (b"large".to_vec(), 300_000)];
        let sizes = [1_024, 4_096, 16_384, 262_144, 1_048_576];
        assert_eq!(missing_sizes(&files, &sizes), [4_096, 16_384]);
    }

    #[test]
    fn empty_files_are_not_chosen() {
        assert!(nearest_files(&[file("empty", 0)], &[1_024]).is_empty());
    }

    #[test]
    fn a_pattern_file_has_its_size_and_is_positioned_at_its_start() {
        let mut file = pattern_file(100_000).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        assert!(bytes.iter().zip(0..).all(|(byte, at)| *byte == pattern(at)));
        assert_eq!(bytes.len(), 100_000);
    }
}
