//! Download of one file, with retries and recovery.
//!
//! A draft receives the data and takes the final name when the file is complete. If a transfer
//! breaks off, the next attempt resumes where the last one ended, provided that the remote file
//! still has the same size and time. When all attempts have failed, the received part is kept as
//! `name.part` with the time of the remote file, by which `--continue` recognizes it. A file
//! assembled from several transfers is compared by HASH if the server supports it.
//!
//! All of this requires a file that has the same octets on both hosts. For text, or for words that
//! are not octets, the server may store another form of another size. Such a file is downloaded
//! from its start.

use super::dialogue::{Caller, Dialogue};
use super::mover::Near;
use super::remote::{name_of, split};
use super::sample::Sample;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfer_recorder::Record;
use anyhow::{Context, anyhow};
use os::jail::{Draft, Existing, Jail, sweep};
use protocols::application::ftp::user::Task;
use protocols::application::ftp::{ByteSize, Mode, Representation, Structure, Timestamp, Type};
use records::figures::count;
use ring::digest;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

/// Destination of a download.
#[derive(Clone, Debug)]
pub(super) enum To {
    /// Standard output.
    Stdout,
    /// The file at this path.
    File(PathBuf),
    /// The file of this name below the directory, which the name cannot leave.
    Beneath(Arc<Jail>, Vec<u8>),
}

/// A file to download.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) path: Vec<u8>,
    /// Size in bytes, if a listing reported it.
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Timestamp>,
    /// Whether `modified` is the time of a LIST, to be replaced by that of MDTM.
    pub(super) has_rough_time: bool,
    /// Whether the server has another file named like the partial download of this one.
    pub(super) has_no_part: bool,
    pub(super) to: To,
}

/// Transfer options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) representation: Representation,
    pub(super) existing: Existing,
    /// Whether a partial file is resumed (`--continue`).
    pub(super) continues: bool,
    /// Number of segments that a file is divided into, each downloaded over its own session.
    pub(super) segments: u32,
    /// Whether the copy gets the time of the original.
    pub(super) keeps_time: bool,
    /// Whether the type follows from the system that the server reports.
    pub(super) asks_system: bool,
}

/// Outcome of a transfer without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The file was transferred.
    Moved,
    /// The destination already had the file.
    WasThere,
}

/// Downloads one file.
pub(super) async fn get(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    match fetch(dialogue, errand, terms, record).await {
        Err(trouble) if trouble.is_refused_command() && errand.is_alone() => {
            // The path may name a directory: the server's refusal does not distinguish the two.
            let found = dialogue.look_at(&errand.path).await.ok().flatten();
            let is_folder = found.is_some_and(|entry| entry.kind.is_directory());
            let shown = shown(&errand.path);
            let sentence = format!("'{shown}' is a remote directory: use -r to download it");
            Err(if is_folder { Trouble::IsFolder(sentence) } else { trouble })
        }
        result => result,
    }
}

/// Asks the server for the missing size and time of a file.
async fn learn_facts(
    dialogue: &mut Dialogue,
    errand: &mut Errand,
    terms: &Terms,
) -> Result<(), Trouble> {
    let is_image = terms.representation.keeps_octets();
    if is_image && errand.size.is_none() {
        (errand.size, errand.modified) = dialogue.size_and_time(&errand.path).await?;
        // The progress display can show the total now.
        let expected = errand.size.unwrap_or(0);
        dialogue.caller.shared.expected.fetch_add(expected, Ordering::Relaxed);
    } else if !is_image && errand.modified.is_none() {
        (errand.size, errand.modified) = match terms.representation.mode {
            // Deflated data may expand to any size, so the limit requires the size.
            Mode::Deflate => dialogue.size_and_time(&errand.path).await?,
            _ => dialogue.facts_of_text(&errand.path, terms.keeps_time).await?,
        };
    }
    if errand.has_rough_time {
        let exact = dialogue.told_time(&errand.path).await?;
        errand.modified = exact.or(errand.modified);
        errand.has_rough_time = false;
    }
    Ok(())
}

async fn fetch(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    let mut errand = errand.clone();
    let is_image = terms.representation.keeps_octets();
    let plain = plain_file(&errand.to)?;
    let needs_facts = terms.continues || terms.segments > 1 || plain.is_none();
    dialogue.ready().await?;
    if needs_facts {
        learn_facts(dialogue, &mut errand, terms).await?;
    }
    let most = most_bytes(&errand, terms);
    // For other types the reported size is that of another form of the file.
    errand.size = errand.size.filter(|_| is_image);
    if let Some(file) = plain {
        return into_plain(dialogue, &errand, terms, &file, record).await;
    }
    let Some((draft, from)) = open(&errand, terms, &dialogue.caller)? else {
        return Ok(Ending::WasThere);
    };
    let file = draft.file().try_clone().map_err(anyhow::Error::new)?;
    let sample = Sample::cut(&file, from).map_err(anyhow::Error::new)?;
    let mut came = sample.at;
    let moved = match segments(&errand, terms, from) {
        Some(size) => in_pieces(dialogue, &errand, terms, &file, size, record).await,
        None => within(dialogue, &mut errand, terms, &file, most, (&mut came, &mut *record)).await,
    };
    let moved = match moved {
        Ok(()) if !sample.is_in(&file) => {
            let shown = shown(&errand.path);
            say(&format!("the partial '{shown}' is of another file: downloading all of it"));
            file.set_len(0).map_err(anyhow::Error::new)?;
            came = 0;
            within(dialogue, &mut errand, terms, &file, most, (&mut came, &mut *record)).await
        }
        moved => moved,
    };
    let is_pieced = from > 0 || record.streams() > 1 || segments(&errand, terms, from).is_some();
    let moved = match moved {
        Ok(()) if is_pieced && is_image => compare(dialogue, &errand.path, &file, record).await,
        moved => moved,
    };
    if let Err(trouble) = moved {
        let is_wrong = matches!(trouble, Trouble::Differs(_)) || trouble.is_excess();
        let is_of_use = is_image && terms.segments <= 1 && !is_wrong;
        keep(draft, &errand, came, is_of_use, &dialogue.caller);
        return Err(trouble);
    }
    set_time(&file, errand.modified.filter(|_| terms.keeps_time));
    match draft.commit_soon() {
        Ok(()) => Ok(Ending::Moved),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&errand, terms)),
        Err(error) => Err(Trouble::Ours(anyhow::Error::new(error).context("cannot save the file"))),
    }
}

/// Maximum number of restarts of a download because the file has grown since its size was reported.
const GROWN_MAX: u32 = 3;

/// Returns the maximum number of bytes of the local file, if the server reports a size. For text
/// and words that size is of another form of the file; no conversion makes it four times as long.
fn most_bytes(errand: &Errand, terms: &Terms) -> Option<u64> {
    let Representation { data_type, structure, .. } = terms.representation;
    let is_octets = matches!(data_type, Type::Image | Type::Local(ByteSize::OCTET));
    match is_octets && structure == Structure::File {
        true => errand.size,
        false => errand.size.map(|size| size.saturating_mul(4).saturating_add(64 * 1024)),
    }
}

/// Downloads a file of at most `most` bytes. Starts again if the file has grown.
async fn within(
    dialogue: &mut Dialogue,
    errand: &mut Errand,
    terms: &Terms,
    file: &File,
    mut most: Option<u64>,
    (came, record): (&mut u64, &mut Record),
) -> Result<(), Trouble> {
    for _ in 0..GROWN_MAX {
        match whole(dialogue, errand, terms, file, most, (&mut *came, &mut *record)).await {
            Err(trouble) if trouble.is_excess() => {
                let (size, modified) = dialogue.size_and_time(&errand.path).await?;
                let grown = Errand { size, modified, ..errand.clone() };
                if most_bytes(&grown, terms) <= most {
                    return Err(trouble);
                }
                most = most_bytes(&grown, terms);
                let size = size.filter(|_| terms.representation.keeps_octets());
                *errand = Errand { size, ..grown };
                *came = 0;
                file.set_len(0).map_err(anyhow::Error::new)?;
            }
            result => return result,
        }
    }
    whole(dialogue, errand, terms, file, most, (came, record)).await
}

/// Downloads a file from offset `came` on. If the server refuses the path, changes to its directory
/// one component at a time.
async fn whole(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    file: &File,
    most: Option<u64>,
    (came, record): (&mut u64, &mut Record),
) -> Result<(), Trouble> {
    let piece = Piece { errand, terms, file, most, end: None, is_piece: false };
    let refused = match piece.get(dialogue, came, record).await {
        Err(trouble) if trouble.is_refused_command() && errand.path.contains(&b'/') => trouble,
        result => return result,
    };
    let last = split(&errand.path).1.to_vec();
    let result = match dialogue.enter_folder_of(&errand.path).await {
        Ok(true) => {
            let there = Errand { path: last, ..errand.clone() };
            let piece = Piece { errand: &there, ..piece };
            let result = piece.get(dialogue, came, record).await;
            result.map_err(|other| if other.is_refusal() { refused } else { other })
        }
        Ok(false) => Err(refused),
        Err(trouble) => Err(trouble),
    };
    // CWD changed the working directory. Later paths must resolve as before, so the session ends.
    dialogue.hang_up().await;
    result
}

/// Opens a destination that is written in place: standard output, a device or a pipe. A download
/// never replaces a file of that kind.
fn plain_file(to: &To) -> Result<Option<File>, Trouble> {
    match to {
        To::Stdout => {
            let stdout = rustix::io::dup(rustix::stdio::stdout()).map_err(anyhow::Error::new)?;
            Ok(Some(File::from(stdout)))
        }
        To::File(path)
            if fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()) =>
        {
            let opened = File::options().write(true).open(path);
            let sentence = || format!("cannot write {}", path.display());
            Ok(Some(opened.with_context(sentence)?))
        }
        _ => Ok(None),
    }
}

async fn into_plain(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    file: &File,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    let mut made = 0;
    loop {
        made += 1;
        let near = Near::Into {
            file: file.try_clone().map_err(anyhow::Error::new)?,
            at: None,
            enough: None,
            most: None,
        };
        let task = retrieve(errand, terms, 0)?;
        let (result, moved) = dialogue.run_once(&wanted(errand), task, Some(near)).await;
        record.take(dialogue, moved.as_ref(), 0);
        let is_begun = moved.is_some_and(|moved| moved.file_bytes > 0);
        match result {
            Ok(_) => return Ok(Ending::Moved),
            // Bytes that were written to the destination cannot be withdrawn.
            Err(trouble) if is_begun || !dialogue.caller.wait(made, &trouble).await => {
                return Err(trouble);
            }
            Err(_) => {}
        }
    }
}

fn wanted(errand: &Errand) -> String {
    format!("cannot download '{}'", shown(&errand.path))
}

fn retrieve(errand: &Errand, terms: &Terms, from: u64) -> Result<Task, Trouble> {
    Ok(Task::Retrieve {
        name: name_of(&errand.path)?,
        representation: terms.representation,
        offset_bytes: from,
        expected_bytes: errand.size,
    })
}

/// Returns the size of a file that is to be downloaded in several segments.
fn segments(errand: &Errand, terms: &Terms, from: u64) -> Option<u64> {
    let is_cut = terms.segments > 1 && from == 0 && terms.representation.keeps_octets();
    errand.size.filter(|size| is_cut && *size >= u64::from(terms.segments))
}

/// Number of attempts below which a download restarts at once when the server does not begin at the
/// requested offset. From then on, this failure is handled like others.
const RESTARTS_MAX: u32 = 32;

/// A range of a file, up to `end` or to the end of the file.
struct Piece<'a> {
    errand: &'a Errand,
    terms: &'a Terms,
    file: &'a File,
    /// Maximum number of bytes of the whole file.
    most: Option<u64>,
    end: Option<u64>,
    /// Whether other sessions download the rest of the file.
    is_piece: bool,
}

impl Piece<'_> {
    /// Downloads the range from offset `at` on. Advances `at` by the bytes received.
    async fn get(
        &self,
        dialogue: &mut Dialogue,
        at: &mut u64,
        record: &mut Record,
    ) -> Result<(), Trouble> {
        let is_image = self.terms.representation.keeps_octets();
        let mut made = 0;
        loop {
            made += 1;
            if !is_image {
                *at = 0;
                self.file.set_len(0).map_err(anyhow::Error::new)?;
            }
            let near = Near::Into {
                file: self.file.try_clone().map_err(anyhow::Error::new)?,
                at: Some(*at),
                enough: self.end.map(|end| end - *at),
                most: self.most.map(|most| most.saturating_sub(*at)),
            };
            let task = retrieve(self.errand, self.terms, *at)?;
            let (result, moved) = dialogue.run_once(&wanted(self.errand), task, Some(near)).await;
            record.take(dialogue, moved.as_ref(), *at);
            let mut is_enough = false;
            if let Some(moved) = moved {
                *at += moved.file_bytes;
                is_enough = moved.is_enough;
            }
            match result {
                Ok(_) => return Ok(()),
                Err(_) if is_enough => return Ok(()),
                // A segment alone is useless: the caller starts again with the whole file.
                Err(trouble) if trouble.is_restart() && self.is_piece => return Err(trouble),
                Err(trouble) if trouble.is_restart() && made < RESTARTS_MAX => self.again(at)?,
                Err(trouble) if !dialogue.caller.wait(made, &trouble).await => return Err(trouble),
                Err(_) if self.has_all(dialogue, at).await? => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// Truncates the file and resets the offset to 0.
    fn again(&self, at: &mut u64) -> Result<(), Trouble> {
        *at = 0;
        Ok(self.file.set_len(0).map_err(anyhow::Error::new)?)
    }

    /// Returns whether the file is complete although the server has not confirmed it. Resets the
    /// offset to 0 if the remote file has changed.
    async fn has_all(&self, dialogue: &mut Dialogue, at: &mut u64) -> Result<bool, Trouble> {
        let is_image = self.terms.representation.keeps_octets();
        if *at == 0 || self.end.is_some() || !is_image {
            return Ok(false);
        }
        let (size, modified) = dialogue.size_and_time(&self.errand.path).await?;
        let is_same = size == self.errand.size && modified == self.errand.modified;
        if !is_same {
            self.again(at)?;
        }
        Ok(is_same && size == Some(*at))
    }
}

/// Downloads a file in segments, each over its own session.
async fn in_pieces(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    file: &File,
    size: u64,
    record: &mut Record,
) -> Result<(), Trouble> {
    let count = u64::from(terms.segments);
    let mut pieces = tokio::task::JoinSet::new();
    for index in 1..count {
        let (errand, terms) = (errand.clone(), *terms);
        let file = file.try_clone().map_err(anyhow::Error::new)?;
        let caller = Arc::clone(&dialogue.caller);
        let (mut at, end) = (size / count * index, size / count * (index + 1));
        let mut record = record.clone();
        pieces.spawn(async move {
            let mut dialogue = Dialogue::new(&caller);
            let end = (index + 1 < count).then_some(end);
            let (errand, terms, file) = (&errand, &terms, &file);
            let piece = Piece { errand, terms, file, most: Some(size), end, is_piece: true };
            let result = piece.get(&mut dialogue, &mut at, &mut record).await;
            dialogue.quit().await;
            (result, record)
        });
    }
    let (most, end) = (Some(size), Some(size / count));
    let piece = Piece { errand, terms, file, most, end, is_piece: true };
    let mut result = piece.get(dialogue, &mut 0, record).await;
    while let Some(ended) = pieces.join_next().await {
        let (other, of_other) = ended.map_err(anyhow::Error::new)?;
        record.add(&of_other);
        result = match (result, other) {
            // A failed restart takes precedence: it makes all segments unusable.
            (Err(trouble), _) if trouble.is_restart() => Err(trouble),
            (_, Err(trouble)) if trouble.is_restart() => Err(trouble),
            (result, other) => result.and(other),
        };
    }
    match result {
        Err(trouble) if trouble.is_restart() => {
            file.set_len(0).map_err(anyhow::Error::new)?;
            whole(dialogue, errand, terms, file, Some(size), (&mut 0, record)).await
        }
        result => result,
    }
}

/// Opens the draft of a download and returns it with the offset at which to resume; `None` if the
/// local file is already complete.
fn open(errand: &Errand, terms: &Terms, caller: &Caller) -> Result<Option<(Draft, u64)>, Trouble> {
    if terms.continues && is_here(errand) {
        return Ok(None);
    }
    if terms.existing == Existing::Keep && errand.here().is_some() {
        return Err(exists(errand, terms));
    }
    caller.sweep_beside(&errand.to);
    let key = key_of(errand, terms, caller);
    let has_part = terms.continues && !errand.has_no_part && errand.part_is_its();
    if has_part && let Ok(draft) = take_up(errand, terms.existing, key) {
        let at = draft.file().metadata().map_err(anyhow::Error::new)?.len();
        return Ok(Some((draft, at)));
    }
    match begin(errand, terms.existing, key) {
        Ok(draft) if key.is_none() => Ok(Some((draft, 0))),
        Ok(draft) => {
            // Data left by a killed process, if any.
            let left = draft.file().metadata().map_err(anyhow::Error::new)?.len();
            let at = left * u64::from(terms.continues && errand.size.is_some_and(|it| left <= it));
            draft.file().set_len(at).map_err(anyhow::Error::new)?;
            Ok(Some((draft, at)))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(errand, terms)),
        Err(error) => {
            let sentence = format!("cannot write {}", errand.shown_here());
            Err(Trouble::Ours(anyhow::Error::new(error).context(sentence)))
        }
    }
}

/// Returns the key that names the draft of a download, if the server reports size and time of the
/// file. Another process with the same key resumes the draft. A segmented download has gaps and is
/// not resumed. Downloading a small file again takes no longer than resuming it.
fn key_of(errand: &Errand, terms: &Terms, caller: &Caller) -> Option<u64> {
    let (size, modified) = errand.size.zip(errand.modified)?;
    let name = match &errand.to {
        To::Stdout => return None,
        To::File(path) => path.file_name()?.as_bytes(),
        To::Beneath(_, name) => name.as_slice(),
    };
    let is_small = size < RESUMED_MIN_BYTES;
    if is_small || terms.segments > 1 || !terms.representation.keeps_octets() {
        return None;
    }
    let (user, target) = (caller.settings.user.as_bytes(), caller.target.to_string());
    let numbers = format!("{size} {}", modified.seconds);
    let parts = [target.as_bytes(), user, &errand.path, name, numbers.as_bytes()];
    let framed = |part: &&[u8]| [part.len().to_be_bytes().as_slice(), part].concat();
    let text: Vec<u8> = parts.iter().flat_map(framed).collect();
    let digest = digest::digest(&digest::SHA256, &text);
    let head = digest.as_ref().first_chunk::<8>()?;
    Some(u64::from_be_bytes(*head))
}

/// Returns the error for an existing file. It explains how to resume if the file may be the start
/// of the remote one, left by some other program.
fn exists(errand: &Errand, terms: &Terms) -> Trouble {
    let name = errand.shown_here();
    let told = errand.size.zip(errand.modified).zip(errand.here());
    if let (true, To::File(path), Some(((size, modified), (len, _)))) =
        (terms.continues, &errand.to, told)
        && len < size
    {
        let (whole, seconds) = (shown(path.as_os_str().as_bytes()), modified.seconds);
        let (len, size) = (count(len), count(size));
        return Trouble::Wrong(format!(
            "{name} exists, with {len} of {size} bytes: if it is the beginning of that file, run \
             mv '{whole}' '{whole}.part' && touch -d @{seconds} '{whole}.part' and then use \
             --continue; or use --force to download all of it"
        ));
    }
    Trouble::Wrong(format!("{name} exists: use --force to replace it, or name another file"))
}

/// Minimum size of a file whose download is resumed after its process was killed; our own choice.
const RESUMED_MIN_BYTES: u64 = 64 * 1024;
/// Suffix of the name of a partial download.
pub(super) const PART: &[u8] = b".part";

/// Opens the directory of a file, and returns it with the name of the file.
fn place_of(path: &Path) -> io::Result<(OwnedFd, Vec<u8>)> {
    // A symbolic link is followed: its target is the file to replace.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = OwnedFd::from(File::open(folder.unwrap_or(Path::new(".")))?);
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.as_bytes().to_vec();
    Ok((folder, name))
}

fn begin(errand: &Errand, existing: Existing, key: Option<u64>) -> io::Result<Draft> {
    match (&errand.to, key) {
        (To::Stdout, _) => Err(io::ErrorKind::Unsupported.into()),
        (To::Beneath(jail, name), Some(key)) => jail.create_resumable(name, existing, key),
        (To::Beneath(jail, name), None) => jail.create(name, existing),
        (To::File(path), _) => {
            let (folder, name) = place_of(path)?;
            match key {
                Some(key) => Draft::begin_resumable(folder, &name, existing, key),
                None => Draft::begin(folder, &name, existing),
            }
        }
    }
}

/// Opens the partial download that was kept under its own name, to resume it.
fn take_up(errand: &Errand, existing: Existing, key: Option<u64>) -> io::Result<Draft> {
    let part = |name: &[u8]| [name, PART].concat();
    match &errand.to {
        To::Stdout => Err(io::ErrorKind::Unsupported.into()),
        To::Beneath(jail, name) => jail.take_up(&part(name), name, existing, key),
        To::File(path) => {
            let (folder, name) = place_of(path)?;
            Draft::take_up(folder, &part(&name), &name, existing, key)
        }
    }
}

impl Caller {
    /// Removes the drafts that killed processes have left in the directory of a file, once per
    /// directory.
    fn sweep_beside(&self, to: &To) {
        let (key, swept) = match to {
            To::Stdout => return,
            To::File(path) => (path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes(), None),
            To::Beneath(jail, name) => (split(name).0, Some(jail)),
        };
        let is_new = {
            let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
            swept.insert(key.to_vec())
        };
        if !is_new {
            return;
        }
        // A draft that cannot be removed only takes disk space.
        match (swept, to) {
            (Some(jail), _) => _ = jail.sweep(if key.is_empty() { b"." } else { key }),
            (None, To::File(path)) => {
                if let Ok((folder, _)) = place_of(path) {
                    _ = sweep(&folder);
                }
            }
            _ => {}
        }
    }
}

fn time_of(about: &fs::Metadata) -> i64 {
    std::os::unix::fs::MetadataExt::mtime(about)
}

/// Returns whether the local file has the size and time of the remote one.
fn is_here(errand: &Errand) -> bool {
    let told = errand.size.zip(errand.modified.map(|modified| modified.seconds));
    told.is_some() && told == errand.here()
}

/// Keeps the received data as a partial download, if it can be resumed.
fn keep(draft: Draft, errand: &Errand, came: u64, is_of_use: bool, caller: &Caller) {
    let name = match &errand.to {
        To::Stdout => return,
        To::File(path) => path.file_name().map(|name| name.as_bytes().to_vec()),
        To::Beneath(_, name) => name.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec),
    };
    let Some(name) = name.filter(|_| is_of_use && came > 0 && errand.modified.is_some()) else {
        return;
    };
    set_time(draft.file(), errand.modified);
    let part = [name.as_slice(), PART].concat();
    let beside = match &errand.to {
        To::File(path) => path.with_file_name(std::ffi::OsStr::from_bytes(&part)).into_os_string(),
        _ => std::ffi::OsStr::from_bytes(&part).to_owned(),
    };
    // On failure the next download starts at 0. An existing file may be the user's.
    if !errand.has_no_part && draft.keep_as(&part).is_ok() && !caller.is_quiet {
        say(&format!(
            "saved {} bytes of '{}' in '{}': resume with --continue or the next mirror",
            count(came),
            shown(&name),
            shown(beside.as_bytes())
        ));
    }
}

/// Sets the time of a local file to that of the remote one, if possible.
fn set_time(file: &File, modified: Option<Timestamp>) {
    let Some(Timestamp { seconds, nanos }) = modified else { return };
    if let Ok(seconds) = u64::try_from(seconds) {
        _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
    }
}

/// Compares a local file with the remote one by HASH, if the server supports it.
pub(super) async fn compare(
    dialogue: &mut Dialogue,
    path: &[u8],
    file: &File,
    record: &mut Record,
) -> Result<(), Trouble> {
    let Some(told) = told_hash(dialogue, path).await? else { return Ok(()) };
    let ours = told.of_ours(file, None).await?;
    record.note_hash(&told.name, &ours);
    if ours == told.digest {
        return Ok(());
    }
    Err(Trouble::Differs(format!(
        "the local and remote '{}' differ by HASH: try again without --continue",
        shown(path)
    )))
}

/// Compares the remote file with the first `len` bytes of the local one; `None` without HASH.
pub(super) async fn compare_prefix(
    dialogue: &mut Dialogue,
    path: &[u8],
    file: &File,
    len: u64,
) -> Result<Option<bool>, Trouble> {
    let Some(told) = told_hash(dialogue, path).await? else { return Ok(None) };
    Ok(Some(told.of_ours(file, Some(len)).await? == told.digest))
}

/// Hash of a remote file (draft-bryan-ftp-hash).
struct ToldHash {
    name: String,
    algorithm: &'static digest::Algorithm,
    digest: String,
}

/// Asks the server for the hash of a file; `None` if there is none of a supported algorithm.
async fn told_hash(dialogue: &mut Dialogue, path: &[u8]) -> Result<Option<ToldHash>, Trouble> {
    dialogue.ready().await?;
    if !dialogue.has("HASH") {
        return Ok(None);
    }
    let wanted = format!("cannot read the HASH of '{}'", shown(path));
    let done = match dialogue.run(&wanted, Task::Hash(name_of(path)?)).await {
        Ok(done) => done,
        Err(trouble) if trouble.is_refusal() => return Ok(None),
        Err(trouble) => return Err(trouble),
    };
    let text = String::from_utf8_lossy(done.reply.text()).into_owned();
    let mut words = text.split_ascii_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let algorithm = match name.as_str() {
        "SHA-1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "SHA-256" => &digest::SHA256,
        "SHA-512" => &digest::SHA512,
        // Other algorithms are not supported.
        _ => return Ok(None),
    };
    let digest = words.nth(1).unwrap_or_default().to_ascii_lowercase();
    Ok(Some(ToldHash { name, algorithm, digest }))
}

impl ToldHash {
    /// Returns the same hash of the local file, or of its first `len` bytes.
    async fn of_ours(&self, file: &File, len: Option<u64>) -> Result<String, Trouble> {
        let file = file.try_clone().map_err(anyhow::Error::new)?;
        let algorithm = self.algorithm;
        let ours = tokio::task::spawn_blocking(move || hash(&file, algorithm, len)).await;
        Ok(ours.map_err(|error| anyhow!(error))?.context("cannot read the local file")?)
    }
}

fn hash(
    file: &File,
    algorithm: &'static digest::Algorithm,
    len: Option<u64>,
) -> io::Result<String> {
    let mut context = digest::Context::new(algorithm);
    let (mut piece, mut at) = (vec![0; 1 << 20], 0);
    loop {
        let count = file.read_at(&mut piece, at)?;
        let left = len.map(|len| usize::try_from(len - at).unwrap_or(usize::MAX));
        let count = count.min(left.unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        context.update(piece.get(..count).unwrap_or_default());
        at += u64::try_from(count).unwrap_or(0);
    }
    let digits: Vec<_> =
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits.concat())
}

impl Errand {
    /// Returns the size in bytes and the time in Unix seconds of the local file, if it exists.
    fn here(&self) -> Option<(u64, i64)> {
        match &self.to {
            To::Stdout => None,
            To::File(path) => fs::metadata(path).ok().map(|about| (about.len(), time_of(&about))),
            To::Beneath(jail, name) => {
                jail.status(name).ok().map(|about| (about.len, about.modified_s))
            }
        }
    }

    /// Returns whether the local partial download has the time that such a file gets, and no more
    /// bytes than the whole file.
    fn part_is_its(&self) -> bool {
        let name_of_part = |name: &[u8]| [name, PART].concat();
        let part = match &self.to {
            To::Stdout => None,
            To::File(path) => path.file_name().and_then(|name| {
                let part = OsString::from_vec(name_of_part(name.as_bytes()));
                let about = fs::symlink_metadata(path.with_file_name(part)).ok()?;
                Some((about.len(), time_of(&about)))
            }),
            To::Beneath(jail, name) => {
                let about = jail.status_of_name(&name_of_part(name)).ok();
                about.map(|about| (about.len, about.modified_s))
            }
        };
        let told = self.size.zip(self.modified.map(|modified| modified.seconds));
        part.zip(told).is_some_and(|((len, time), (size, told))| len <= size && time == told)
    }

    /// Returns whether the file was requested alone, and not as one of many from a listing.
    fn is_alone(&self) -> bool {
        !matches!(self.to, To::Beneath(..))
    }

    /// Returns the local destination for messages.
    fn shown_here(&self) -> String {
        match &self.to {
            To::Stdout => "the standard output".to_owned(),
            To::File(path) => path.display().to_string(),
            To::Beneath(_, name) => format!("'{}'", shown(name)),
        }
    }
}
