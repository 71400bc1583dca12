//! What `plumb measure` asks of a server: one login, or transfers of growing sizes.
//!
//! A part of a file is had from the server's end of it (REST, RFC 3659 §5), so that each size is a
//! whole transfer with its own beginning and end. Where a server does not begin within a file, that
//! file goes as it is. What comes is thrown away, or, if it is a pattern of ours, compared. What was
//! written is removed again.

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
use crate::transfers::{Keeping, Record, nanos};
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

/// What is kept of what came when.
const ARRIVALS_MAX: usize = 4096;
/// Sizes are not grown further once a transfer takes so long.
const LONG: Duration = Duration::from_secs(10);
/// Bytes that are requested where nothing came of a longer file: they fit into any packet.
const CONTROL_BYTES: u64 = 256;
/// What is written at a time to a pattern.
const PIECE_BYTES: usize = 64 * 1024;

/// How a server is reached.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// What carries it.
    pub(crate) via: Via,
    /// Of which family its address may be.
    pub(crate) family: Family,
    /// How long nothing may be heard.
    pub(crate) timeout_s: u32,
    /// Who logs in, if the URL does not say it.
    pub(crate) user: Option<String>,
    /// Authorities to trust.
    pub(crate) ca: Option<PathBuf>,
}

/// What is to be moved.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The sizes, from the smallest.
    pub(crate) sizes: Vec<u64>,
    /// How often each.
    pub(crate) rounds: u32,
    /// Whether files are written, and read back.
    pub(crate) writes: bool,
    /// Whether what was written is compared when it is read back.
    pub(crate) compares: bool,
}

/// How long the steps took until files could be moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    /// Name to address.
    pub(crate) resolve: Option<Duration>,
    /// The control connection.
    pub(crate) connect: Option<Duration>,
    /// TLS on it.
    pub(crate) tls: Option<Duration>,
    /// Greeting and login.
    pub(crate) login: Option<Duration>,
    /// From the connection to the greeting.
    pub(crate) greeting: Option<Duration>,
    /// The commands of the login.
    pub(crate) exchanges: Vec<Exchange>,
    /// For how long this process waited for a processor until then.
    pub(crate) own_wait: Option<Duration>,
}

/// Times since the beginning of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spans {
    /// Until a data connection was asked for.
    pub(crate) before: Option<Duration>,
    /// Until the command.
    pub(crate) command_at: Option<Duration>,
}

/// How far a try at a server went that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Its name has no address.
    Name,
    /// There is no connection to its address.
    Address,
    /// It has answered.
    Server,
}

/// Why nothing was found.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// What the exit code is to tell.
    pub(crate) failure: exit::Failure,
    /// How far it went.
    pub(crate) reached: Reached,
    /// Why, in a sentence.
    pub(crate) why: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The far end of the control connection.
    pub(crate) address: Option<SocketAddr>,
    /// The steps until files could be moved.
    pub(crate) opening: Moment,
    /// The records of the transfers, in their order.
    pub(crate) transfers: Vec<(Direction, Transfer)>,
    /// What came when, of the largest transfer.
    pub(crate) sequence: Vec<Arrival>,
    /// What no record has of the time of each transfer, in its order.
    pub(crate) spans: Vec<Spans>,
    /// The observations of each transfer, in the order of the transfers.
    pub(crate) seen: Vec<FileTransfer>,
    /// The transfer that did not end.
    pub(crate) aborted: Option<Aborted>,
    /// How exactly what was written came back.
    pub(crate) accuracy: Option<Accuracy>,
    /// What could not be done, each a sentence without its end.
    pub(crate) notes: Vec<String>,
}

/// Logs in at the server of `url` and out again.
///
/// # Errors
///
/// Why the server cannot be used.
pub(crate) fn knock(url: &Url, way: &Way) -> Result<Found, Refused> {
    run(url, way, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.ready().await?;
        let found = opened(&mut dialogue);
        dialogue.quit().await;
        Ok(found)
    })
}

/// Moves what is wished from or to the server of `url`, as far as it goes.
///
/// # Errors
///
/// As [`knock`], if not even a login was possible.
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

/// A part of a file that is to come.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    path: &'a [u8],
    /// Where it begins.
    from: u64,
    /// The size of the whole file, if it is known.
    whole: Option<u64>,
    /// Whether it is a pattern of ours that is to be compared.
    is_compared: bool,
}

struct Probe<'a, Say> {
    dialogue: Dialogue,
    watch: Arc<Mutex<Watch>>,
    wish: &'a Wish,
    found: Found,
    /// The size of what was looked at.
    largest: u64,
    /// The size of the largest file that was sent.
    largest_sent: u64,
    say: Say,
}

impl<Say: FnMut(&str)> Probe<'_, Say> {
    /// Reads from the file or folder at `path`.
    async fn read(&mut self, path: &[u8]) -> Result<(), Trouble> {
        if path.is_empty() || path.ends_with(b"/") {
            return self.read_folder(path).await;
        }
        match self.dialogue.look_at(path).await? {
            Some(Entry { kind: Kind::Directory, .. }) => return self.read_folder(path).await,
            None => {
                let shown = shown(path);
                return Err(Trouble::Wrong(format!(
                    "there is no '{shown}' at this server: name a file or a folder that it has"
                )));
            }
            Some(_) => {}
        }
        let (size, _) = self.dialogue.size_and_time(path).await?;
        let Some(size) = size else {
            self.note("the server does not tell the size of the file, which went whole each time");
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
                    self.note("the server does not begin within a file, which went whole");
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

    /// Where nothing came of a file, asks for its last bytes, which fit into a short packet: they pass
    /// a path on which long packets vanish.
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
            // Its failure says as much as its success.
            _ = self.receive(part).await;
        }
        self.found.aborted = Some(aborted);
    }

    /// Reads those files of a folder that are nearest to the sizes, and of the largest one a part of
    /// each size that no file has.
    async fn read_folder(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        let entries = self.dialogue.list(folder).await?;
        let chosen = nearest(&entries, &self.wish.sizes);
        let Some((largest, whole)) = chosen.last().cloned() else {
            let shown = shown(folder);
            return Err(Trouble::Wrong(format!(
                "there is no file in the folder '/{shown}' that could be read: name another one, \
                 or say --write"
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
                    self.note("the server does not begin within a file: whole files alone went");
                }
                other => other?,
            }
            if self.is_long() {
                break;
            }
        }
        Ok(())
    }

    /// Writes files of the sizes into a folder, reads each back, and removes it.
    async fn write(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        if !folder.is_empty() && !folder.ends_with(b"/") {
            return Err(Trouble::Wrong(
                "--write takes a folder, whose name ends with '/': files are made and removed \
                 there"
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
            let wanted = format!("to remove '{}'", shown(&path));
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

    /// Gets a part as often as is wished.
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
        let wanted = format!("to get '{}'", shown(part.path));
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
            // As `plumb put` does.
            allocation_bytes: Some(size).filter(|_| self.dialogue.has("SITE PARTIAL")),
        };
        let wanted = format!("to put '{}'", shown(path));
        let near = Near::From(file);
        self.move_by(Direction::Sent, (&wanted, path), task, near, Some(size)).await.map(|_| ())
    }

    /// Runs one transfer, and keeps its record if it succeeds.
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
        // Of an upload the last sample may know more than the moment at which all was written.
        let sampled = sampled.filter(|sampled| !is_received && sampled.segs_out >= tcp.segs_out);
        seen.tcp = DataTcp::from(sampled.as_ref().unwrap_or(tcp));
        if let Err(trouble) = result {
            // A refusal is an answer; a transfer that stops is what is looked at.
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

    /// Returns what was seen of the transfer that has just ended.
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
                // Another thread has moved the data.
                let of_data = data.and_then(|data| data.run_queue_wait).unwrap_or_default();
                nanos(wait.saturating_sub(watch.sampling_wait).saturating_add(of_data))
            }),
            ..seen
        }
    }

    /// Returns whether larger transfers would take too long.
    fn is_long(&self) -> bool {
        let last = self.found.transfers.last().and_then(|(_, last)| last.time.ns_total);
        last.is_some_and(|ns| u128::from(ns) > LONG.as_nanos())
    }

    fn note(&mut self, what: &str) {
        self.found.notes.push(what.to_owned());
    }
}

/// The counters of the kernel when a transfer began.
struct CountersBefore {
    run_queue: Option<Duration>,
    duplicates: Option<u64>,
}

impl CountersBefore {
    fn read() -> Self {
        Self { run_queue: thread_run_queue_wait(), duplicates: duplicate_segments_in() }
    }

    /// Returns for how long this thread, which speaks on the control connection, has waited for a
    /// processor since.
    fn wait(&self) -> Option<Duration> {
        Some(thread_run_queue_wait()?.saturating_sub(self.run_queue?))
    }

    /// Returns how many segments have come twice since.
    fn duplicates(&self) -> Option<u64> {
        Some(duplicate_segments_in()?.saturating_sub(self.duplicates?))
    }
}

/// Returns those of `sizes` that are below the largest of the files and not near any of them.
fn missing(files: &[(Vec<u8>, u64)], sizes: &[u64]) -> Vec<u64> {
    let largest = files.last().map_or(0, |(_, size)| *size);
    let is_near =
        |one: u64, other: u64| one <= other.saturating_mul(2) && other <= one.saturating_mul(2);
    let sizes = sizes.iter().copied().filter(|wished| *wished < largest);
    sizes.filter(|wished| !files.iter().any(|(_, size)| is_near(*size, *wished))).collect()
}

/// Returns names and sizes of those files that are nearest to the sizes that are wished, from the
/// smallest.
fn nearest(entries: &[Entry], sizes: &[u64]) -> Vec<(Vec<u8>, u64)> {
    let most = sizes.last().copied().unwrap_or(u64::MAX);
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    let files = files.filter(|entry| LocalName::new(&entry.name).is_ok());
    let files: Vec<_> = files.filter_map(|entry| Some((entry.name.clone(), entry.size?))).collect();
    let files: Vec<_> = files.into_iter().filter(|(_, size)| (1..=most).contains(size)).collect();
    // How many times as large one is as the other.
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

/// Makes a file of `size` bytes of the pattern, in memory alone.
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
