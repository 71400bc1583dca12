//! One file to here, with all that may go wrong on the way.
//!
//! What comes is written under a name of its own and takes the right one when it is whole. If it is
//! broken off, another attempt goes on where the last one ended, if the file there is of the same
//! size and time still. When all attempts have failed, what came is kept as `name.part` with the
//! time of the file there, by which `--continue` knows it. A file that was put together so is
//! compared by HASH, where the server has that.
//!
//! All of that needs a file that is the same octets on either side. Of a text, or of words that are
//! not octets, the server may keep another form, of another size: it comes from its start.

use super::dialogue::{Caller, Dialogue};
use super::mover::Near;
use super::remote::{name_of, split};
use super::sample::Sample;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfers::Record;
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

/// Where a file goes.
#[derive(Clone, Debug)]
pub(super) enum To {
    /// To the standard output.
    Stdout,
    /// To this file.
    File(PathBuf),
    /// To this name within a folder, and never out of it.
    Beneath(Arc<Jail>, Vec<u8>),
}

/// A file that is to come.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) path: Vec<u8>,
    /// What a listing has told, if one was asked.
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Timestamp>,
    /// Whether `modified` is the time of a LIST, which MDTM replaces.
    pub(super) has_rough_time: bool,
    /// Whether the server has another file under the name that the part of this one would have.
    pub(super) has_no_part: bool,
    pub(super) to: To,
}

/// How files move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) representation: Representation,
    pub(super) existing: Existing,
    /// Whether what is there is gone on with.
    pub(super) continues: bool,
    /// Into how many pieces one file is cut.
    pub(super) segments: u32,
    /// Whether a file gets the time of the one that it is made from.
    pub(super) keeps_time: bool,
    /// Whether the type is that of the system which the server says it is.
    pub(super) asks_system: bool,
}

/// What has come of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was moved.
    Moved,
    /// It was there already.
    WasThere,
}

/// Gets one file.
pub(super) async fn get(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    match fetch(dialogue, errand, terms, record).await {
        Err(trouble) if trouble.is_refused_command() && errand.is_alone() => {
            // What cannot be had may be a folder, of which a server says no more than that.
            let found = dialogue.look_at(&errand.path).await.ok().flatten();
            let is_folder = found.is_some_and(|entry| entry.kind.is_directory());
            let shown = shown(&errand.path);
            let sentence = format!("'{shown}' there is a folder: say -r to get all of it");
            Err(if is_folder { Trouble::IsFolder(sentence) } else { trouble })
        }
        result => result,
    }
}

/// Asks for what is not known of a file.
async fn learn_facts(
    dialogue: &mut Dialogue,
    errand: &mut Errand,
    terms: &Terms,
) -> Result<(), Trouble> {
    let is_image = terms.representation.keeps_octets();
    if is_image && errand.size.is_none() {
        (errand.size, errand.modified) = dialogue.size_and_time(&errand.path).await?;
        // Whoever watches knows now how much there is.
        let expected = errand.size.unwrap_or(0);
        dialogue.caller.shared.expected.fetch_add(expected, Ordering::Relaxed);
    } else if !is_image && errand.modified.is_none() {
        (errand.size, errand.modified) = match terms.representation.mode {
            // What is compressed may become any size.
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
    // The size there is that of another form of the file.
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
            say(&format!("what was kept of '{shown}' is not of that file: all of it comes again"));
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
        Err(error) => Err(Trouble::Ours(anyhow::Error::new(error).context("the file has no name"))),
    }
}

/// How often a file is asked for again that has grown since its size was told.
const GROWN_MAX: u32 = 3;

/// Returns the most bytes that a file may have here, if the server tells its size. Of text and words
/// it is that of another form: no conversion makes it four times as long.
fn most_bytes(errand: &Errand, terms: &Terms) -> Option<u64> {
    let Representation { data_type, structure, .. } = terms.representation;
    let is_octets = matches!(data_type, Type::Image | Type::Local(ByteSize::OCTET));
    match is_octets && structure == Structure::File {
        true => errand.size,
        false => errand.size.map(|size| size.saturating_mul(4).saturating_add(64 * 1024)),
    }
}

/// Gets a file that must not have more than `most` bytes, unless it has grown meanwhile.
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

/// Gets a file from `came` on, from a server that may know no paths.
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
    // Names begin elsewhere now.
    dialogue.hang_up().await;
    result
}

/// Returns what is written as it is: the standard output, a device, a pipe. A file of that kind is
/// never replaced by one that has come.
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
            let sentence = || format!("the file {} cannot be written", path.display());
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
            // What was written cannot be taken back.
            Err(trouble) if is_begun || !dialogue.caller.wait(made, &trouble).await => {
                return Err(trouble);
            }
            Err(_) => {}
        }
    }
}

fn wanted(errand: &Errand) -> String {
    format!("to get '{}'", shown(&errand.path))
}

fn retrieve(errand: &Errand, terms: &Terms, from: u64) -> Result<Task, Trouble> {
    Ok(Task::Retrieve {
        name: name_of(&errand.path)?,
        representation: terms.representation,
        offset_bytes: from,
        expected_bytes: errand.size,
    })
}

/// Returns the size of a file that is to come in several pieces.
fn segments(errand: &Errand, terms: &Terms, from: u64) -> Option<u64> {
    let is_cut = terms.segments > 1 && from == 0 && terms.representation.keeps_octets();
    errand.size.filter(|size| is_cut && *size >= u64::from(terms.segments))
}

/// How often a file is begun anew because the server does not begin where it was told to; then
/// that is an attempt like others.
const RESTARTS_MAX: u32 = 32;

/// A part of a file, up to its end or to the file's.
struct Piece<'a> {
    errand: &'a Errand,
    terms: &'a Terms,
    file: &'a File,
    /// The most bytes that the whole file may have.
    most: Option<u64>,
    end: Option<u64>,
    /// Whether others get the rest.
    is_piece: bool,
}

impl Piece<'_> {
    /// Gets it from `at` on, which moves with what has come.
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
                // A piece alone is of no use: whoever wants it begins with the whole.
                Err(trouble) if trouble.is_restart() && self.is_piece => return Err(trouble),
                Err(trouble) if trouble.is_restart() && made < RESTARTS_MAX => self.again(at)?,
                Err(trouble) if !dialogue.caller.wait(made, &trouble).await => return Err(trouble),
                Err(_) if self.has_all(dialogue, at).await? => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// Begins at the start.
    fn again(&self, at: &mut u64) -> Result<(), Trouble> {
        *at = 0;
        Ok(self.file.set_len(0).map_err(anyhow::Error::new)?)
    }

    /// Returns whether all of the file is here, although the server has not said so. Begins at the
    /// start again if the file there is another one now.
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

/// Gets a file over as many sessions as it has pieces.
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
            // Whatever else went wrong, with this one no pieces are right.
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

/// Opens what an errand writes, and returns where it goes on; `None` if the file is here already.
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
            // What a process that was killed has left, if anything.
            let left = draft.file().metadata().map_err(anyhow::Error::new)?.len();
            let at = left * u64::from(terms.continues && errand.size.is_some_and(|it| left <= it));
            draft.file().set_len(at).map_err(anyhow::Error::new)?;
            Ok(Some((draft, at)))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(errand, terms)),
        Err(error) => {
            let sentence = format!("the file {} cannot be written", errand.shown_here());
            Err(Trouble::Ours(anyhow::Error::new(error).context(sentence)))
        }
    }
}

/// Returns what names the draft of a download, if the server tells which file it is: another process
/// with the same key continues it. A file that comes in pieces has gaps, and is not resumed; a small
/// one comes again as fast as it would be resumed.
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

/// Says that there is a file of that name; and how to go on with it, if it is the beginning of the
/// one there that some other program has left.
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
            "{name} exists, with {len} of {size} bytes: if it is the beginning of that file, say \
             mv '{whole}' '{whole}.part' && touch -d @{seconds} '{whole}.part' and --continue goes \
             on with it; or say --force to get all of it"
        ));
    }
    Trouble::Wrong(format!("{name} exists: say --force to replace it, or name another file"))
}

/// The smallest file whose download is resumed after its process was killed; our own choice.
const RESUMED_MIN_BYTES: u64 = 64 * 1024;
/// The end of the name of a file's first part.
pub(super) const PART: &[u8] = b".part";

/// Opens the directory that a file is in, and returns the name of the file.
fn place_of(path: &Path) -> io::Result<(OwnedFd, Vec<u8>)> {
    // The file that a link leads to is the one that is meant.
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

/// Takes up the first part of a file that was kept under its own name.
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
    /// Removes what processes that were killed have left in the directory of a file, once for each
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
        // What cannot be removed takes room and does no other harm.
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

/// Returns whether a file of the same size and time is here.
fn is_here(errand: &Errand) -> bool {
    let told = errand.size.zip(errand.modified.map(|modified| modified.seconds));
    told.is_some() && told == errand.here()
}

/// Keeps what came, if it may be of use.
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
    // Where it cannot be kept it is fetched anew. A file of that name may be one of the user's.
    if !errand.has_no_part && draft.keep_as(&part).is_ok() && !caller.is_quiet {
        say(&format!(
            "{} bytes of '{}' are kept in '{}': --continue, or the next mirror, goes on there",
            count(came),
            shown(&name),
            shown(beside.as_bytes())
        ));
    }
}

/// Gives a file the time that the one there has; where that cannot be, it is as new as it is.
fn set_time(file: &File, modified: Option<Timestamp>) {
    let Some(Timestamp { seconds, nanos }) = modified else { return };
    if let Ok(seconds) = u64::try_from(seconds) {
        _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
    }
}

/// Compares a file of ours with the one there, where the server can.
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
        "'{}' here and there are not the same, by HASH: try again, without --continue",
        shown(path)
    )))
}

/// Compares the file there with the first `len` bytes of ours; `None` if the server cannot.
pub(super) async fn compare_prefix(
    dialogue: &mut Dialogue,
    path: &[u8],
    file: &File,
    len: u64,
) -> Result<Option<bool>, Trouble> {
    let Some(told) = told_hash(dialogue, path).await? else { return Ok(None) };
    Ok(Some(told.of_ours(file, Some(len)).await? == told.digest))
}

/// The hash of a file there (draft-bryan-ftp-hash).
struct ToldHash {
    name: String,
    algorithm: &'static digest::Algorithm,
    digest: String,
}

/// Asks the server for the hash of a file; `None` if it has none that we have.
async fn told_hash(dialogue: &mut Dialogue, path: &[u8]) -> Result<Option<ToldHash>, Trouble> {
    dialogue.ready().await?;
    if !dialogue.has("HASH") {
        return Ok(None);
    }
    let wanted = format!("the HASH of '{}'", shown(path));
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
        // The others we do not have.
        _ => return Ok(None),
    };
    let digest = words.nth(1).unwrap_or_default().to_ascii_lowercase();
    Ok(Some(ToldHash { name, algorithm, digest }))
}

impl ToldHash {
    /// Returns the same hash of our file, or of its first `len` bytes.
    async fn of_ours(&self, file: &File, len: Option<u64>) -> Result<String, Trouble> {
        let file = file.try_clone().map_err(anyhow::Error::new)?;
        let algorithm = self.algorithm;
        let ours = tokio::task::spawn_blocking(move || hash(&file, algorithm, len)).await;
        Ok(ours.map_err(|error| anyhow!(error))?.context("our file cannot be read")?)
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
    /// Returns size and time of what has its name here, if something has.
    fn here(&self) -> Option<(u64, i64)> {
        match &self.to {
            To::Stdout => None,
            To::File(path) => fs::metadata(path).ok().map(|about| (about.len(), time_of(&about))),
            To::Beneath(jail, name) => {
                jail.status(name).ok().map(|about| (about.len, about.modified_s))
            }
        }
    }

    /// Returns whether the file under the name of its part has the time that such a part gets, and no
    /// more bytes than the whole.
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

    /// Returns whether it is not one of many, which are known from a listing.
    fn is_alone(&self) -> bool {
        !matches!(self.to, To::Beneath(..))
    }

    /// Returns our end as a person may see it.
    fn shown_here(&self) -> String {
        match &self.to {
            To::Stdout => "the standard output".to_owned(),
            To::File(path) => path.display().to_string(),
            To::Beneath(_, name) => format!("'{}'", shown(name)),
        }
    }
}
