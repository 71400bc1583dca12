//! FTP measurements for `plumb measure`: one login, or transfers of increasing sizes.
//!
//! A partial transfer reads the last bytes of a file on the server (REST, RFC 3659 §5), so each
//! size is a complete transfer with its own start and end. If the server cannot restart within a
//! file, the whole file is transferred. Received data is discarded, or compared if it is the
//! probe's own pattern. Files that the probe wrote are deleted afterwards.

use super::desk::{Interrupt, carry_out_silently};
use super::dialogue::{Caller, Dialogue};
use super::facts::Opening;
use super::mover::{Moved, Near, Watch};
use super::options::Reach;
use super::remote::{join, name_of};
use super::trouble::Trouble;
use crate::carry::{Family, Via};
use crate::exit;
use crate::files::shown::shown;
use crate::files::url::Url;
use crate::transfer_recorder::{Keeping, Record, nanos};
use os::schedule::{run_queue_wait, thread_run_queue_wait};
use os::tcp_counters::duplicate_segments_in;
use protocols::application::ftp::listing::{Entry, Kind};
use protocols::application::ftp::user::{StoreKind, Task};
use protocols::application::ftp::{LocalName, Representation};
use records::accuracy::{Accuracy, Comparison, pattern};
use records::arrivals::Arrival;
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
const LONG: Duration = Duration::from_secs(10);
/// Bytes requested when nothing of a longer file arrived: they fit into any packet.
const CONTROL_BYTES: u64 = 256;
/// Bytes of a pattern written at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Connection and login options for a server.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Transport: the kernel, or a user-space host on a device.
    pub(crate) via: Via,
    /// Address families allowed for the server.
    pub(crate) family: Family,
    /// Timeout in seconds for the connection, for each reply and for a stalled transfer.
    pub(crate) timeout_s: u32,
    /// User name for a URL without one.
    pub(crate) user: Option<String>,
    /// File of trusted certificate authorities (PEM).
    pub(crate) ca: Option<PathBuf>,
}

/// Requested transfers.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Sizes in bytes, in ascending order.
    pub(crate) sizes: Vec<u64>,
    /// Number of transfers of each size.
    pub(crate) rounds: u32,
    /// Whether files are written and then read back; otherwise existing files are read.
    pub(crate) writes: bool,
    /// Whether a written file is compared when it is read back.
    pub(crate) compares: bool,
}

/// Durations of the steps before the first transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    /// Resolution of the host name.
    pub(crate) resolve: Option<Duration>,
    /// Establishment of the control connection.
    pub(crate) connect: Option<Duration>,
    /// TLS handshake on the control connection.
    pub(crate) tls: Option<Duration>,
    /// Greeting and login, without the TLS handshake.
    pub(crate) login: Option<Duration>,
    /// Time from the connection to the greeting.
    pub(crate) greeting: Option<Duration>,
    /// The commands of the login.
    pub(crate) exchanges: Vec<Exchange>,
    /// Run-queue wait of this process until the end of the login.
    pub(crate) own_wait: Option<Duration>,
}

/// Offsets from the start of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spans {
    /// Time at which the command for a data connection was sent.
    pub(crate) before: Option<Duration>,
    /// Time at which the transfer command was sent.
    pub(crate) command_at: Option<Duration>,
}

/// Progress of a connection attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// No address was found for the host name.
    Name,
    /// No connection to the address could be established.
    Address,
    /// The server answered.
    Server,
}

/// Reason for a probe without a result.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// Failure class, which selects the exit code.
    pub(crate) failure: exit::Failure,
    /// Progress of the attempt before it failed.
    pub(crate) reached: Reached,
    /// Error message, one sentence.
    pub(crate) why: String,
}

/// Result of a probe.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Remote address of the control connection.
    pub(crate) address: Option<SocketAddr>,
    /// Durations of the steps before the first transfer.
    pub(crate) opening: Moment,
    /// Records of the successful transfers, in order.
    pub(crate) transfers: Vec<(Direction, Transfer)>,
    /// Arrivals of the largest download.
    pub(crate) sequence: Vec<Arrival>,
    /// Offsets that the records do not hold, one entry per transfer in the same order.
    pub(crate) spans: Vec<Spans>,
    /// Observations of each transfer, in the same order.
    pub(crate) seen: Vec<FileTransfer>,
    /// Transfer that stopped before its end.
    pub(crate) aborted: Option<Aborted>,
    /// Result of comparing the written files with the data read back.
    pub(crate) accuracy: Option<Accuracy>,
    /// Notes on operations that failed or were skipped, each a sentence without its final period.
    pub(crate) notes: Vec<String>,
}

/// Logs in at the server of `url` and out again.
///
/// # Errors
///
/// Returns [`Refused`] if the server cannot be reached or rejects the login.
pub(crate) fn probe_availability(url: &Url, way: &Way) -> Result<Found, Refused> {
    run(url, way, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.ready().await?;
        let found = opened(&mut dialogue);
        dialogue.quit().await;
        Ok(found)
    })
}

/// Runs the transfers of `wish` with the server of `url`, as far as possible, and reports progress
/// to `say`.
///
/// # Errors
///
/// Returns [`Refused`] if the login fails, if an argument is wrong, or if no transfer at all was
/// begun.
pub(crate) fn probe(
    url: &Url,
    way: &Way,
    wish: &Wish,
    say: impl FnMut(&str),
) -> Result<Found, Refused> {
    let watch = Arc::new(Mutex::new(Watch::begin(ARRIVALS_MAX)));
    let kept = Some(Arc::clone(&watch));
    run(url, way, kept, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.ready().await?;
        let found = opened(&mut dialogue);
        let mut probe = Probe { dialogue, watch, wish, found, largest: 0, largest_sent: 0, say };
        let moved = match wish.writes {
            true => probe.write(&url.name).await,
            false => probe.read(&url.name).await,
        };
        if moved.is_err() && !wish.writes {
            probe.control(&url.name).await;
        }
        match moved {
            Err(Trouble::Wrong(why)) => return Err(Trouble::Wrong(why)),
            Err(trouble) if probe.found.transfers.is_empty() && probe.found.aborted.is_none() => {
                return Err(trouble);
            }
            Err(trouble) => probe.found.notes.push(trouble.sentence()),
            Ok(()) => {}
        }
        let Probe { dialogue, found, .. } = probe;
        dialogue.quit().await;
        Ok(found)
    })
}

fn run(
    url: &Url,
    way: &Way,
    watch: Option<Arc<Mutex<Watch>>>,
    work: impl AsyncFnOnce(Arc<Caller>) -> Result<Found, Trouble>,
) -> Result<Found, Refused> {
    let reach = Reach {
        via: way.via.clone(),
        family: way.family,
        timeout: way.timeout_s,
        user: way.user.clone(),
        ca: way.ca.clone(),
        active: false,
        tries: Some(1),
        json: false,
        quiet: true,
        verbose: false,
        keeping: Keeping { no_record: true },
    };
    let result = carry_out_silently(url, &reach, None, watch, Interrupt::EndsAll, work);
    result.map_err(|trouble| Refused {
        failure: trouble.failure(),
        reached: match trouble {
            Trouble::NoAddress(_) => Reached::Name,
            Trouble::NoConnection(_) | Trouble::NotThere(_) => Reached::Address,
            _ => Reached::Server,
        },
        why: trouble.sentence(),
    })
}

fn opened(dialogue: &mut Dialogue) -> Found {
    let Some(session) = dialogue.open_session() else { return Found::default() };
    let Opening { resolve, connect, tls, login, greeting, exchanges } =
        session.facts.opening.clone();
    let own_wait = run_queue_wait();
    let opening = Moment { resolve, connect, tls, login, greeting, exchanges, own_wait };
    Found { address: Some(session.peer), opening, ..Found::default() }
}

/// A range of a file to read, up to the end of the file.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    path: &'a [u8],
    /// Offset of the first byte.
    from: u64,
    /// Size of the whole file in bytes, if known.
    whole: Option<u64>,
    /// Whether the content is the probe's pattern and is compared with it.
    is_compared: bool,
}

struct Probe<'a, Say> {
    dialogue: Dialogue,
    watch: Arc<Mutex<Watch>>,
    wish: &'a Wish,
    found: Found,
    /// Size in bytes of the largest download so far.
    largest: u64,
    /// Size in bytes of the largest upload so far.
    largest_sent: u64,
    say: Say,
}

impl<Say: FnMut(&str)> Probe<'_, Say> {
    /// Reads the file or directory at `path`.
    async fn read(&mut self, path: &[u8]) -> Result<(), Trouble> {
        if path.is_empty() || path.ends_with(b"/") {
            return self.read_folder(path).await;
        }
        match self.dialogue.look_at(path).await? {
            Some(Entry { kind: Kind::Directory, .. }) => return self.read_folder(path).await,
            None => {
                let shown = shown(path);
                return Err(Trouble::Wrong(format!(
                    "the server has no '{shown}': use the name of an existing file or directory"
                )));
            }
            Some(_) => {}
        }
        let (size, _) = self.dialogue.size_and_time(path).await?;
        let Some(size) = size else {
            self.note("the server reports no file size: each transfer was of the whole file");
            let part = Part { path, from: 0, whole: None, is_compared: false };
            return self.rounds(part).await;
        };
        let mut parts: Vec<u64> =
            self.wish.sizes.iter().copied().filter(|part| *part < size).collect();
        if size <= self.wish.sizes.last().copied().unwrap_or(u64::MAX) {
            parts.push(size);
        }
        for part in parts {
            let part = Part { path, from: size - part, whole: Some(size), is_compared: false };
            match self.rounds(part).await {
                Err(trouble) if trouble.is_restart() => {
                    self.note("the server does not support REST: the whole file was transferred");
                    return self.rounds(Part { from: 0, ..part }).await;
                }
                other => other?,
            }
            if self.is_long() {
                break;
            }
        }
        Ok(())
    }

    /// If nothing of a file arrived, reads its last bytes. They fit into a short packet, which
    /// passes a path that drops long packets.
    async fn control(&mut self, path: &[u8]) {
        let is_silent = |Aborted { transfer, .. }: &Aborted| {
            transfer.connected_ns.is_some() && transfer.arrivals.is_empty()
        };
        let Some(aborted) = self.found.aborted.take_if(|aborted| is_silent(aborted)) else {
            return;
        };
        if self.found.transfers.is_empty()
            && let Ok((Some(whole), _)) = self.dialogue.size_and_time(path).await
        {
            let from = whole.saturating_sub(CONTROL_BYTES);
            let part = Part { path, from, whole: Some(whole), is_compared: false };
            // A failure needs no handling: it shows by the missing transfer record.
            _ = self.receive(part).await;
        }
        self.found.aborted = Some(aborted);
    }

    /// Reads the files of a directory whose sizes are nearest to the requested sizes. For each size
    /// that no file has, reads that many bytes from the end of the largest file.
    async fn read_folder(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        let entries = self.dialogue.list(folder).await?;
        let chosen = nearest(&entries, &self.wish.sizes);
        let Some((largest, whole)) = chosen.last().cloned() else {
            let shown = shown(folder);
            return Err(Trouble::Wrong(format!(
                "there is no readable file in the directory '/{shown}': use another one, or \
                 --write"
            )));
        };
        let files = chosen.iter().map(|(name, size)| (name.clone(), *size, *size));
        let missing = missing(&chosen, &self.wish.sizes).into_iter();
        let missing = missing.map(|part| (largest.clone(), whole, part));
        let mut all: Vec<_> = files.chain(missing).collect();
        all.sort_by_key(|(_, _, part)| *part);
        for (name, whole, part) in all {
            let path = join(folder, &name);
            let from = whole - part;
            let part = Part { path: &path, from, whole: Some(whole), is_compared: false };
            match self.rounds(part).await {
                Err(trouble) if trouble.is_restart() => {
                    self.note("the server does not support REST: whole files were transferred");
                }
                other => other?,
            }
            if self.is_long() {
                break;
            }
        }
        Ok(())
    }

    /// Writes files of the requested sizes into a directory, reads each back, and deletes the file.
    async fn write(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        if !folder.is_empty() && !folder.ends_with(b"/") {
            return Err(Trouble::Wrong(
                "--write requires a directory, whose name ends with '/': files are created and \
                 removed there"
                    .to_owned(),
            ));
        }
        let chance = os::entropy::seed().map_err(anyhow::Error::new)?;
        let path = join(folder, format!("plumb-measure-{chance:016x}").as_bytes());
        let mut result = Ok(());
        for size in self.wish.sizes.clone() {
            result = self.write_and_read(&path, size).await;
            if result.is_err() || self.is_long() {
                break;
            }
        }
        let removed = async {
            let wanted = format!("cannot remove '{}'", shown(&path));
            self.dialogue.run(&wanted, Task::Delete(name_of(&path)?)).await
        };
        if let Err(trouble) = removed.await
            && result.is_ok()
        {
            self.found.notes.push(trouble.sentence());
        }
        result
    }

    async fn write_and_read(&mut self, path: &[u8], size: u64) -> Result<(), Trouble> {
        let file = pattern_file(size)?;
        for _ in 0..self.wish.rounds {
            (self.say)(&format!("writing {} bytes", records::figures::count(size)));
            self.send(path, &file, size).await?;
        }
        let is_compared = self.wish.compares;
        self.rounds(Part { path, from: 0, whole: Some(size), is_compared }).await
    }

    /// Reads `part` as often as requested.
    async fn rounds(&mut self, part: Part<'_>) -> Result<(), Trouble> {
        for _ in 0..self.wish.rounds {
            let bytes = part.whole.map(|whole| whole - part.from);
            let bytes = records::figures::count_or_unknown(bytes);
            (self.say)(&format!("reading {bytes} bytes"));
            self.receive(part).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, part: Part<'_>) -> Result<(), Trouble> {
        let near = match part.is_compared {
            true => Near::Memory(Vec::new()),
            false => {
                let nowhere = File::options().write(true).open("/dev/null");
                let file = nowhere.map_err(anyhow::Error::new)?;
                let most = part.whole.map(|whole| whole.saturating_sub(part.from));
                Near::Into { file, at: None, enough: None, most }
            }
        };
        let task = Task::Retrieve {
            name: name_of(part.path)?,
            representation: Representation::IMAGE,
            offset_bytes: part.from,
            expected_bytes: part.whole,
        };
        let wanted = format!("cannot download '{}'", shown(part.path));
        let bytes = part.whole.map(|whole| whole - part.from);
        let moved = self.move_by(Direction::Received, (&wanted, part.path), task, near, bytes);
        let moved = moved.await?;
        if let (true, Some(whole)) = (part.is_compared, part.whole) {
            let mut comparison = Comparison::new(pattern, whole);
            comparison.take(&moved.map(|moved| moved.memory).unwrap_or_default());
            let accuracy = self.found.accuracy.unwrap_or_default();
            self.found.accuracy = Some(accuracy.and(comparison.finish()));
        }
        Ok(())
    }

    async fn send(&mut self, path: &[u8], file: &File, size: u64) -> Result<(), Trouble> {
        let mut file = file.try_clone().map_err(anyhow::Error::new)?;
        file.seek(SeekFrom::Start(0)).map_err(anyhow::Error::new)?;
        let task = Task::Store {
            name: Some(name_of(path)?),
            kind: StoreKind::Replace,
            representation: Representation::IMAGE,
            offset_bytes: 0,
            // Same condition as in `plumb put`.
            allocation_bytes: Some(size).filter(|_| self.dialogue.has("SITE PARTIAL")),
        };
        let wanted = format!("cannot upload '{}'", shown(path));
        let near = Near::From(file);
        self.move_by(Direction::Sent, (&wanted, path), task, near, Some(size)).await.map(|_| ())
    }

    /// Runs one transfer. Keeps its record if it succeeds.
    async fn move_by(
        &mut self,
        direction: Direction,
        (wanted, path): (&str, &[u8]),
        task: Task,
        near: Near,
        bytes: Option<u64>,
    ) -> Result<Option<Moved>, Trouble> {
        self.dialogue.ready().await?;
        let is_received = direction == Direction::Received;
        let offset = match &task {
            Task::Retrieve { offset_bytes, .. } => *offset_bytes,
            _ => 0,
        };
        let is_largest = is_received && bytes > Some(self.largest);
        let is_largest_sent = !is_received && bytes > Some(self.largest_sent);
        let before = CountersBefore::read();
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Watch::begin(ARRIVALS_MAX);
        let representation = Representation::IMAGE;
        let began = self.watch.lock().unwrap_or_else(PoisonError::into_inner).began;
        let mut record = Record::begin(&self.dialogue, is_received, path, representation);
        let (result, moved) = self.dialogue.run_once(wanted, task, Some(near)).await;
        record.take(&mut self.dialogue, moved.as_ref(), offset);
        record.conclude(result.as_ref().err());
        let mut seen = self.seen(direction, bytes, began, moved.as_ref(), &before);
        let sampled = self.watch.lock().unwrap_or_else(PoisonError::into_inner).tcp.clone();
        let tcp = &record.transfer.tcp;
        // For an upload the last sample may be newer than the counters read after the last write.
        let sampled = sampled.filter(|sampled| !is_received && sampled.segs_out >= tcp.segs_out);
        seen.tcp = DataTcp::from(sampled.as_ref().unwrap_or(tcp));
        if let Err(trouble) = result {
            // A refusal is an answer. Only a transfer that stops is kept for the analysis.
            let is_stopped = match seen.connected_ns {
                Some(_) => !trouble.is_refusal(),
                None => trouble.is_without_data_connection(),
            };
            let why = trouble.sentence();
            self.found.aborted = is_stopped.then_some(Aborted { transfer: seen, why });
            return Err(trouble);
        }
        if !is_largest && !is_largest_sent {
            seen.arrivals.clear();
            seen.segments.clear();
        }
        self.found.seen.push(seen);
        if is_largest_sent {
            self.largest_sent = bytes.unwrap_or(0);
        }
        if is_largest {
            let log = self.watch.lock().unwrap_or_else(PoisonError::into_inner).log.clone();
            (self.largest, self.found.sequence) = (bytes.unwrap_or(0), log.into_arrivals());
        }
        let session = self.dialogue.open_session();
        let spans = session.map(|session| session.facts.spans_since(began)).unwrap_or_default();
        self.found.spans.push(spans);
        self.found.transfers.push((direction, record.transfer));
        Ok(moved)
    }

    /// Returns the observations of the transfer that has just ended.
    fn seen(
        &mut self,
        direction: Direction,
        bytes: Option<u64>,
        began: Instant,
        moved: Option<&Moved>,
        before: &CountersBefore,
    ) -> FileTransfer {
        let total_ns = nanos(began.elapsed());
        let session = self.dialogue.open_session();
        let data = moved.map(|moved| &moved.data);
        let seen = session.map(|session| session.facts.transfer_since(began, data));
        let seen = seen.unwrap_or_default();
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let arrivals = watch.log.clone().into_arrivals();
        let segments = watch.segments.clone().into_arrivals();
        FileTransfer {
            direction: direction.into(),
            bytes: moved.map(|moved| moved.file_bytes).or(bytes).unwrap_or(0),
            total_ns,
            arrivals: arrivals.iter().map(verdict::Arrival::from).collect(),
            segments: segments.iter().map(verdict::Arrival::from).collect(),
            first_loss_bytes: watch.first_loss_bytes,
            peer_window_bytes: watch.peer_window_bytes,
            upper_rtt_ns: watch.upper_rtt_ns(),
            own_window_bytes: watch.own_window_bytes,
            duplicates_in: before.duplicates(),
            own_wait_ns: before.wait().map(|wait| {
                // Another thread moved the data; its wait counts too.
                let of_data = data.and_then(|data| data.run_queue_wait).unwrap_or_default();
                nanos(wait.saturating_sub(watch.sampling_wait).saturating_add(of_data))
            }),
            ..seen
        }
    }

    /// Returns whether the last transfer took so long that larger ones are skipped.
    fn is_long(&self) -> bool {
        let last = self.found.transfers.last().and_then(|(_, last)| last.time.ns_total);
        last.is_some_and(|ns| u128::from(ns) > LONG.as_nanos())
    }

    fn note(&mut self, what: &str) {
        self.found.notes.push(what.to_owned());
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

    /// Returns the run-queue wait of this thread, which drives the control connection, since the
    /// start.
    fn wait(&self) -> Option<Duration> {
        Some(thread_run_queue_wait()?.saturating_sub(self.run_queue?))
    }

    /// Returns the number of duplicate segments received since the start.
    fn duplicates(&self) -> Option<u64> {
        Some(duplicate_segments_in()?.saturating_sub(self.duplicates?))
    }
}

/// Returns those of `sizes` that are below the largest file and not within a factor of 2 of any
/// file.
fn missing(files: &[(Vec<u8>, u64)], sizes: &[u64]) -> Vec<u64> {
    let largest = files.last().map_or(0, |(_, size)| *size);
    let is_near =
        |one: u64, other: u64| one <= other.saturating_mul(2) && other <= one.saturating_mul(2);
    let sizes = sizes.iter().copied().filter(|wished| *wished < largest);
    sizes.filter(|wished| !files.iter().any(|(_, size)| is_near(*size, *wished))).collect()
}

/// Returns names and sizes of the files nearest to the requested sizes, in ascending order of size.
fn nearest(entries: &[Entry], sizes: &[u64]) -> Vec<(Vec<u8>, u64)> {
    let most = sizes.last().copied().unwrap_or(u64::MAX);
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    let files = files.filter(|entry| LocalName::new(&entry.name).is_ok());
    let files: Vec<_> = files.filter_map(|entry| Some((entry.name.clone(), entry.size?))).collect();
    let files: Vec<_> = files.into_iter().filter(|(_, size)| (1..=most).contains(size)).collect();
    // Distance of two sizes: the absolute value of the logarithm of their ratio.
    let apart =
        |one: u64, other: u64| (one.max(other) as f64 / one.min(other).max(1) as f64).ln().abs();
    let mut chosen: Vec<(Vec<u8>, u64)> = Vec::new();
    for wished in sizes {
        let best = files
            .iter()
            .min_by(|(_, one), (_, other)| apart(*one, *wished).total_cmp(&apart(*other, *wished)));
        chosen.extend(best.filter(|best| !chosen.contains(best)).cloned());
    }
    chosen.sort_by_key(|(_, size)| *size);
    chosen
}

/// Creates a file in memory (`memfd_create(2)`) that holds `size` bytes of the pattern.
pub(in crate::files) fn pattern_file(size: u64) -> anyhow::Result<File> {
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
    fn files_of_a_folder_are_those_nearest_to_the_sizes_once_each() {
        let folder = Entry { kind: Kind::Directory, ..file("d", 1_000) };
        let entries = [file("large", 900_000), file("small", 900), file("huge", 1 << 40), folder];
        let chosen = nearest(&entries, &[1_024, 4_096, 1_048_576]);
        let names: Vec<_> = chosen.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"small".as_slice(), b"large"]);
    }

    #[test]
    fn sizes_that_no_file_has_are_parts_of_the_largest() {
        let files = [(b"small".to_vec(), 900), (b"large".to_vec(), 300_000)];
        let sizes = [1_024, 4_096, 16_384, 262_144, 1_048_576];
        assert_eq!(missing(&files, &sizes), [4_096, 16_384]);
    }

    #[test]
    fn an_empty_file_says_nothing_of_a_rate() {
        assert!(nearest(&[file("empty", 0)], &[1_024]).is_empty());
    }

    #[test]
    fn a_file_of_the_pattern_has_its_size_and_begins_at_its_start() {
        let mut file = pattern_file(100_000).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        assert!(bytes.iter().zip(0..).all(|(byte, at)| *byte == pattern(at)));
        assert_eq!(bytes.len(), 100_000);
    }
}
