//! TFTP measurements for `plumb measure`: the first block of a file, or transfers.
//!
//! TFTP cannot start within a file, so a smaller size is observed as the beginning of a larger
//! transfer. Its bytes take as long as in a transfer of this size, except for the last
//! acknowledgment. A written file stays on the server, since TFTP cannot delete it; it always has
//! the same name.

use super::transfer::{Facts, Stop};
use super::trouble::Trouble;
use super::user::{Errand, Order, Report, run};
use crate::exit;
use crate::files::ftp::{Reached, Refused, pattern_file};
use crate::files::local::{Sink, Source};
use crate::files::shown::shown;
use crate::transfer_recorder::{Recorder, nanos};
use anyhow::Result;
use os::schedule::run_queue_wait;
use records::accuracy::{Accuracy, Comparison, pattern};
use records::arrivals::{Arrival, Log};
use records::sizes::Direction;
use records::transfer::Transfer;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// Maximum number of arrivals kept of a transfer.
const LOOKS_MAX: usize = 4096;
/// Block size in bytes and number of blocks of the control run.
const CONTROL_BLOCK_BYTES: u16 = 512;
const CONTROL_BLOCKS: u64 = 12;
/// Name of the written file, if the URL has none.
const NAME: &[u8] = b"plumb-measure";
/// Transfer duration beyond which no larger size is tried.
const LONG_NS: u64 = 10_000_000_000;

/// A transfer with its arrivals.
pub(crate) type Run = (Direction, Transfer, Vec<Arrival>);

/// Result of a probe.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Remote address of the last transfer.
    pub(crate) address: Option<SocketAddr>,
    /// Time from the request to the first block, ns.
    pub(crate) first_block_ns: Option<u64>,
    /// Records of the transfers, in order, each with its arrivals.
    pub(crate) transfers: Vec<Run>,
    /// Time at which the options of each transfer were agreed, ns.
    pub(crate) agreed_ns: Vec<Option<u64>>,
    /// Beginning of one more transfer with shorter blocks, and the time at which its options were
    /// agreed, ns.
    pub(crate) control: Option<(Run, Option<u64>)>,
    /// Run-queue wait of this process during each transfer, ns.
    pub(crate) own_waits_ns: Vec<Option<u64>>,
    /// Result of comparing the written files with the data read back.
    pub(crate) accuracy: Option<Accuracy>,
    /// Notes on operations that failed, and on files left on the server.
    pub(crate) notes: Vec<String>,
}

/// Requests the file of `errand`, and receives its first block.
///
/// # Errors
///
/// Returns [`Refused`] if the file cannot be read.
pub(crate) fn probe_availability(errand: &Errand) -> Result<Found, Refused> {
    in_runtime(async {
        let sink = nowhere()?;
        let stop = Arc::new(Stop::default());
        let stopper = Arc::clone(&stop);
        let progress = move |facts: &Facts| {
            if facts.first_byte.is_some() {
                stopper.want();
            }
        };
        let recorder = Recorder::of_user(false);
        let report = run(errand, Order::Get(sink), &stop, &Arc::new(progress), &recorder).await;
        let report = report.map_err(ours)?;
        match &report.trouble {
            Some(trouble) if report.facts.first_byte.is_none() => {
                Err(refused(trouble, &report.facts, &errand.name))
            }
            _ => Ok(Found {
                address: Some(report.facts.remote),
                first_block_ns: first_block_ns(&report),
                ..Found::default()
            }),
        }
    })
}

/// Reads the file of `errand` `rounds` times. With `sizes`, writes files of these sizes instead,
/// reads them back, and compares them if `compares`.
///
/// # Errors
///
/// Returns [`Refused`] if no transfer succeeded.
pub(crate) fn probe(
    errand: &Errand,
    sizes: Option<&[u64]>,
    rounds: u32,
    compares: bool,
    say: impl FnMut(&str),
) -> Result<Found, Refused> {
    let mut errand = errand.clone();
    if sizes.is_some() && (errand.name.is_empty() || errand.name.ends_with(b"/")) {
        errand.name.extend_from_slice(NAME);
    }
    in_runtime(async {
        let found = Found::default();
        let mut probe = Probe { errand: &errand, found, stop: stop_by_signals()?, say };
        let moved = match sizes {
            None => probe.read(rounds).await,
            Some(sizes) => probe.write(sizes, rounds, compares).await,
        };
        match moved {
            Err(refused) if probe.found.transfers.is_empty() => Err(refused),
            Err(Refused { why, .. }) => {
                probe.found.notes.push(why);
                Ok(probe.found)
            }
            Ok(()) => Ok(probe.found),
        }
    })
}

struct Probe<'a, Say> {
    errand: &'a Errand,
    found: Found,
    stop: Arc<Stop>,
    say: Say,
}

impl<Say: FnMut(&str)> Probe<'_, Say> {
    async fn read(&mut self, rounds: u32) -> Result<(), Refused> {
        for round in 1..=rounds {
            (self.say)(&format!("reading, {round} of {rounds}"));
            self.run(Order::Get(nowhere()?), Direction::Received).await?;
        }
        self.control().await;
        Ok(())
    }

    /// Reads the beginning of the file in shorter blocks, one at a time. On a slow link these take
    /// less time, at a slow server the same. A failure is ignored.
    async fn control(&mut self) {
        let is_long = self.found.transfers.last().is_some_and(|(_, last, _)| {
            last.tftp.block_bytes.is_some_and(|bytes| bytes >= 2 * u64::from(CONTROL_BLOCK_BYTES))
        });
        let Ok(sink) = nowhere() else { return };
        if !is_long || self.stop.is_wanted() {
            return;
        }
        (self.say)("reading shorter blocks");
        let errand =
            Errand { block_size: CONTROL_BLOCK_BYTES, window_size: 1, ..self.errand.clone() };
        let watched = Watched::begin();
        let stop = Arc::new(Stop::default());
        let (stopper, progress) = (Arc::clone(&stop), watched.progress());
        let progress = move |facts: &Facts| {
            progress(facts);
            if facts.file_bytes >= CONTROL_BLOCKS * u64::from(CONTROL_BLOCK_BYTES) {
                stopper.want();
            }
        };
        let recorder = Recorder::of_user(false);
        let order = Order::Get(sink);
        if let Ok(report) = run(&errand, order, &stop, &Arc::new(progress), &recorder).await {
            let (arrivals, agreed_ns) = watched.end();
            let transfer = report.record.transfer;
            self.found.control = Some(((Direction::Received, transfer, arrivals), agreed_ns));
        }
    }

    async fn write(&mut self, sizes: &[u64], rounds: u32, compares: bool) -> Result<(), Refused> {
        for size in sizes {
            let file = pattern_file(*size).map_err(ours)?;
            let shown = records::figures::count(*size);
            for _ in 0..rounds {
                (self.say)(&format!("writing {shown} bytes"));
                let file = rewound(&file).map_err(ours)?;
                let order = Order::Put(Source::File(file), Some(*size));
                self.run(order, Direction::Sent).await?;
                (self.say)(&format!("reading {shown} bytes"));
                self.read_back(*size, compares).await?;
            }
            let last = self.found.transfers.last().and_then(|(_, last, _)| last.time.ns_total);
            if last.is_some_and(|ns| ns > LONG_NS) {
                break;
            }
        }
        let name = shown(&self.errand.name);
        self.found.notes.push(format!("'{name}' remains on the server: TFTP cannot remove it"));
        Ok(())
    }

    async fn read_back(&mut self, size: u64, compares: bool) -> Result<(), Refused> {
        let room =
            memfd_create("plumb-measure", MemfdFlags::CLOEXEC).map_err(|e| ours(e.into()))?;
        let room = File::from(room);
        let sink = Sink::plain(room.try_clone().map_err(|error| ours(error.into()))?);
        self.run(Order::Get(sink), Direction::Received).await?;
        if compares {
            let mut came = Vec::new();
            let read = rewound(&room).and_then(|mut file| Ok(file.read_to_end(&mut came)?));
            read.map_err(ours)?;
            let mut comparison = Comparison::new(pattern, size);
            comparison.take(&came);
            let accuracy = self.found.accuracy.unwrap_or_default();
            self.found.accuracy = Some(accuracy.and(comparison.finish()));
        }
        Ok(())
    }

    async fn run(&mut self, order: Order, direction: Direction) -> Result<(), Refused> {
        let (watched, waited) = (Watched::begin(), run_queue_wait());
        let progress = watched.progress();
        let recorder = Recorder::of_user(false);
        let ran = run(self.errand, order, &self.stop, &Arc::new(progress), &recorder).await;
        let report = ran.map_err(ours)?;
        if let Some(trouble) = &report.trouble {
            return Err(refused(trouble, &report.facts, &self.errand.name));
        }
        self.found.address = Some(report.facts.remote);
        let wait = run_queue_wait().zip(waited).map(|(now, before)| now.saturating_sub(before));
        self.found.own_waits_ns.push(wait.map(nanos));
        let first_block_ns = first_block_ns(&report);
        self.found.first_block_ns = self.found.first_block_ns.or(first_block_ns);
        let (arrivals, agreed_ns) = watched.end();
        self.found.agreed_ns.push(agreed_ns);
        self.found.transfers.push((direction, report.record.transfer, arrivals));
        Ok(())
    }
}

/// Observations of a running transfer.
struct Watched {
    began: Instant,
    seen: Arc<Mutex<(Log, Option<u64>)>>,
}

impl Watched {
    fn begin() -> Self {
        let seen = Arc::new(Mutex::new((Log::new(LOOKS_MAX), None)));
        Self { began: Instant::now(), seen }
    }

    /// Returns the callback that records the progress.
    fn progress(&self) -> impl Fn(&Facts) + Send + Sync + 'static {
        let (seen, began) = (Arc::clone(&self.seen), self.began);
        move |facts: &Facts| {
            let at_ns = nanos(began.elapsed());
            let (log, agreed_ns) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
            log.note(at_ns, facts.file_bytes);
            // A server that ignores the options answers with the first block.
            if facts.agreed.is_some() && facts.file_bytes == 0 {
                agreed_ns.get_or_insert(at_ns);
            }
        }
    }

    /// Returns the arrivals, and the time at which the options were agreed, ns.
    fn end(&self) -> (Vec<Arrival>, Option<u64>) {
        let (log, agreed_ns) = &*self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (log.clone().into_arrivals(), *agreed_ns)
    }
}

fn first_block_ns(report: &Report) -> Option<u64> {
    report.record.transfer.time.ns_first_byte
}

fn rewound(file: &File) -> Result<File> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn nowhere() -> Result<Sink, Refused> {
    let file = File::options().write(true).open("/dev/null");
    file.map(Sink::plain).map_err(|error| ours(error.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn ours(error: anyhow::Error) -> Refused {
    let why = format!("{error:#}");
    Refused { failure: exit::Failure::ThisMachine, reached: Reached::Address, why }
}

fn refused(trouble: &Trouble, facts: &Facts, name: &[u8]) -> Refused {
    Refused {
        failure: trouble.failure(),
        reached: match trouble.is_of_the_address() {
            true => Reached::Address,
            false => Reached::Server,
        },
        why: trouble.sentence(facts, name),
    }
}

/// Returns a handle that ends transfers on SIGINT, SIGTERM and SIGHUP.
fn stop_by_signals() -> Result<Arc<Stop>, Refused> {
    let stop = Arc::new(Stop::default());
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut comes = signal(kind).map_err(|error| ours(error.into()))?;
        let stopper = Arc::clone(&stop);
        tokio::spawn(async move {
            comes.recv().await;
            stopper.want();
        });
    }
    Ok(stop)
}

fn in_runtime<T>(work: impl Future<Output = Result<T, Refused>>) -> Result<T, Refused> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ours(error.into()))?;
    let result = runtime.block_on(work);
    // A thread that is blocked on a pipe is left behind.
    runtime.shutdown_background();
    result
}
