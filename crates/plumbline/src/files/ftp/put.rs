//! Upload of one file, with retries and recovery.
//!
//! If a transfer breaks off, the next attempt asks how much the server has and resumes there,
//! unless that may be an older file of the same name: some servers keep the old file until the new
//! one is complete. A file assembled from several transfers is compared by HASH if the server
//! supports it. A pipe cannot be read twice: there is no retry once any of it was sent.
//!
//! With --continue, the content of the remote file is verified before anything is appended: by HASH
//! of all of it, or else by its size, its time and its last bytes. A remote file that is not the
//! beginning of the local one is left as it is, unless it may be replaced.
//!
//! The remote file gets the time of the local one, if the server can set times.

use super::dialogue::Dialogue;
use super::get::{Ending, Terms, compare, compare_prefix};
use super::mover::Near;
use super::remote::name_of;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfer_recorder::Record;
use anyhow::Context;
use os::jail::Existing;
use protocols::application::ftp::user::{StoreKind, Task};
use protocols::application::ftp::{Representation, Timestamp};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file to upload.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) from: PathBuf,
    pub(super) path: Vec<u8>,
}

/// Opens a local file, and returns it with its size and time; `-` is the standard input.
fn open(path: &Path) -> Result<(File, Option<u64>, Option<Timestamp>), Trouble> {
    if path == Path::new("-") {
        let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(anyhow::Error::new)?;
        return Ok((stdin.into(), None, None));
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let about = file.metadata().map_err(anyhow::Error::new)?;
    if about.is_dir() {
        return Err(Trouble::Wrong(format!("{name} is a directory: use -r to upload it")));
    }
    let modified = Timestamp { seconds: about.mtime(), nanos: 0 };
    let size = about.is_file().then_some(about.len());
    Ok((file, size, Some(modified)))
}

/// File size from which an interrupted upload asks how much has arrived.
const WORTH_GOING_ON_BYTES: u64 = 64 * 1024;

/// Number of bytes at the end of a part that are compared if the server has no HASH.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// Content on the server before an upload continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// Nothing that can be continued.
    Nothing,
    /// This many bytes of the local file, verified.
    Part(u64),
    /// The same, stored apart from the file of that name.
    KeptApart(u64),
    /// All of the local file.
    Whole,
}

/// Verifies the remote file before anything is appended to it.
///
/// # Errors
///
/// Returns an error if the remote file is not the beginning of the local one, or cannot be
/// compared. It is left as it is.
async fn begun(
    dialogue: &mut Dialogue,
    errand: &Errand,
    file: &File,
    size: u64,
    modified: Option<Timestamp>,
) -> Result<Begun, Trouble> {
    if let Some(part) = kept_apart(dialogue, errand, file, size).await? {
        return Ok(Begun::KeptApart(part));
    }
    let (there, time) = dialogue.size_and_time(&errand.path).await?;
    let Some(there) = there.filter(|there| *there > 0) else { return Ok(Begun::Nothing) };
    let found = if there == size { Begun::Whole } else { Begun::Part(there) };
    let is_same = match compare_prefix(dialogue, &errand.path, file, there).await? {
        _ if there > size => false,
        Some(is_same) => is_same,
        None => {
            // A part is newer than its source. Within the same second, the content decides.
            let ages = time.zip(modified).map(|(there, here)| (there.seconds, here.seconds));
            let is_not_older = ages.is_some_and(|(there, here)| there >= here);
            let is_younger = ages.is_some_and(|(there, here)| there > here);
            match found {
                Begun::Whole => is_not_older,
                _ => match sample_is_same(dialogue, errand, file, there).await? {
                    Some(is_same) => is_same && (is_not_older || there <= SAMPLE_BYTES),
                    None => is_younger,
                },
            }
        }
    };
    if is_same { Ok(found) } else { Err(mismatch(errand)) }
}

/// Returns how many bytes of the local file the server keeps of an interrupted upload, apart from
/// the file of that name (SITE PARTIAL of `plumb serve`). REST and STOR continue it in the same
/// session.
async fn kept_apart(
    dialogue: &mut Dialogue,
    errand: &Errand,
    file: &File,
    size: u64,
) -> Result<Option<u64>, Trouble> {
    dialogue.ready().await?;
    if !dialogue.has("SITE PARTIAL") {
        return Ok(None);
    }
    let wanted = format!("cannot query the partial upload of '{}'", shown(&errand.path));
    let task = Task::Quote(name_of(&[b"SITE PARTIAL ", errand.path.as_slice()].concat())?);
    let part = match dialogue.run(&wanted, task).await {
        Ok(done) => done.reply.number().filter(|part| (1..=size).contains(part)),
        Err(trouble) if trouble.is_refusal() => return Ok(None),
        Err(trouble) => return Err(trouble),
    };
    let session = dialogue.session_number();
    if let Some(part) = part
        && compare_prefix(dialogue, &errand.path, file, part).await? == Some(true)
        && session.is_some()
        && dialogue.session_number() == session
    {
        return Ok(Some(part));
    }
    // The name denotes the part until the session ends.
    dialogue.hang_up().await;
    Ok(None)
}

fn mismatch(errand: &Errand) -> Trouble {
    Trouble::Mismatch(format!(
        "'{}' on the server is not known to be the beginning of {}: it was not changed; to \
         replace it, use --force, or omit --continue",
        shown(&errand.path),
        errand.from.display()
    ))
}

/// Compares the last bytes of a remote part with the local file; `None` if they cannot be read.
async fn sample_is_same(
    dialogue: &mut Dialogue,
    errand: &Errand,
    file: &File,
    there: u64,
) -> Result<Option<bool>, Trouble> {
    let from = there.saturating_sub(SAMPLE_BYTES);
    let task = Task::Retrieve {
        name: name_of(&errand.path)?,
        representation: Representation::IMAGE,
        offset_bytes: from,
        expected_bytes: Some(there),
    };
    let wanted = format!("cannot compare '{}'", shown(&errand.path));
    let near = Some(Near::Memory(Vec::new()));
    let (result, moved) = dialogue.run_once(&wanted, task, near).await;
    match result {
        Ok(_) => {}
        Err(trouble) if trouble.is_refusal() || trouble.is_restart() => return Ok(None),
        Err(trouble) => return Err(trouble),
    }
    let theirs = moved.map(|moved| moved.memory).unwrap_or_default();
    let mut ours = vec![0; usize::try_from(there - from).unwrap_or(0)];
    let is_read = file.read_exact_at(&mut ours, from).is_ok();
    Ok(Some(is_read && ours == theirs))
}

/// Start offset of an upload, and how it continues there.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    at: u64,
    /// Whether it continues a part that the server stores apart; valid in this session only.
    is_apart: bool,
    /// Whether REST sets the offset at which STOR begins (RFC 3659 §5). APPE begins at the end of
    /// the file, which moves while an earlier session still delivers data that it has received.
    has_restart: bool,
    session: Option<u64>,
}

impl Position {
    fn of(begun: Begun, dialogue: &Dialogue) -> Self {
        let (at, is_apart) = match begun {
            Begun::Nothing | Begun::Whole => return Self::default(),
            Begun::Part(at) => (at, false),
            Begun::KeptApart(at) => (at, true),
        };
        let has_restart = is_apart || dialogue.has("REST STREAM");
        Self { at, is_apart, has_restart, session: dialogue.session_number() }
    }

    /// Returns the task that sends a file from this offset on. The size `announced` is sent first,
    /// as ALLO. A server that keeps partial uploads commits at once a file of the announced size,
    /// and otherwise waits for the end of the control connection.
    fn store(
        self,
        errand: &Errand,
        terms: &Terms,
        announced: Option<u64>,
    ) -> Result<Task, Trouble> {
        let is_appended = self.at > 0 && !self.has_restart;
        Ok(Task::Store {
            name: Some(name_of(&errand.path)?),
            kind: if is_appended { StoreKind::Append } else { StoreKind::Replace },
            representation: terms.representation,
            offset_bytes: if self.has_restart { self.at } else { 0 },
            allocation_bytes: announced.filter(|_| self.at == 0),
        })
    }

    /// Returns whether the session has changed, so that the server may no longer have the part.
    fn is_lost(self, dialogue: &Dialogue) -> bool {
        self.is_apart && (self.session.is_none() || dialogue.session_number() != self.session)
    }
}

/// Returns the position at which an upload continues that broke off after `sent` bytes. `before` is
/// the size of the earlier file of that name.
async fn position_after(
    dialogue: &mut Dialogue,
    errand: &Errand,
    file: &File,
    size: u64,
    (last, sent, before): (Position, u64, Option<u64>),
) -> Result<Position, Trouble> {
    if let Some(part) = kept_apart(dialogue, errand, file, size).await? {
        return Ok(Position::of(Begun::KeptApart(part), dialogue));
    }
    let (there, _) = dialogue.size_and_time(&errand.path).await?;
    let is_ours = last.at > 0 && !last.is_apart || there != before;
    let at = there.filter(|there| is_ours && *there <= last.at + sent).unwrap_or(0);
    let differs = at > 0 && compare_prefix(dialogue, &errand.path, file, at).await? == Some(false);
    Ok(Position::of(if differs || at == 0 { Begun::Nothing } else { Begun::Part(at) }, dialogue))
}

/// Uploads one file.
pub(super) async fn put(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    let (file, size, modified) = open(&errand.from)?;
    let is_image = terms.representation.keeps_octets();
    dialogue.ready().await?;
    let begun = match (terms.continues && is_image, size) {
        (true, Some(size)) => begun(dialogue, errand, &file, size, modified).await,
        _ => Ok(Begun::Nothing),
    };
    let begun = match begun {
        Err(Trouble::Mismatch(_)) if terms.existing == Existing::Replace => Begun::Nothing,
        Ok(Begun::Whole) => return Ok(Ending::WasThere),
        begun => begun?,
    };
    let source = Source { errand, terms, file: &file, size };
    let position = send(dialogue, &source, Position::of(begun, dialogue), record).await?;
    if position.at > 0 {
        let is_whole = has_size(dialogue, errand, size).await?;
        if !is_whole {
            // Another session has written to the file, or the server has ignored the offset.
            send(dialogue, &source, Position::default(), record).await?;
        }
        compare(dialogue, &errand.path, &file, record).await?;
    }
    if let Some(modified) = modified.filter(|_| terms.keeps_time) {
        set_time(dialogue, &errand.path, modified).await?;
    }
    Ok(Ending::Moved)
}

/// A local file to send.
struct Source<'a> {
    errand: &'a Errand,
    terms: &'a Terms,
    file: &'a File,
    size: Option<u64>,
}

/// Sends a file from `position` on, with retries. Returns the position of the last attempt.
async fn send(
    dialogue: &mut Dialogue,
    source: &Source<'_>,
    mut position: Position,
    record: &mut Record,
) -> Result<Position, Trouble> {
    let Source { errand, terms, mut file, size } = *source;
    let is_image = terms.representation.keeps_octets();
    let wanted = format!("cannot upload '{}'", shown(&errand.path));
    let mut made = 0;
    let is_large = is_image && size.is_some_and(|size| size >= WORTH_GOING_ON_BYTES);
    let before = match is_large && position.at == 0 {
        true => dialogue.size_and_time(&errand.path).await?.0,
        false => None,
    };
    loop {
        made += 1;
        if position.is_lost(dialogue) {
            let kept = kept_apart(dialogue, errand, file, size.unwrap_or(0)).await?;
            position = Position::of(kept.map_or(Begun::Nothing, Begun::KeptApart), dialogue);
        }
        if size.is_some() {
            file.seek(SeekFrom::Start(position.at)).map_err(anyhow::Error::new)?;
        }
        let near = Near::From(file.try_clone().map_err(anyhow::Error::new)?);
        let announced = size.filter(|_| is_image && dialogue.has("SITE PARTIAL"));
        let task = position.store(errand, terms, announced)?;
        dialogue.caller.shared.tally.fetch_add(position.at, Ordering::Relaxed);
        let (result, moved) = dialogue.run_once(&wanted, task, Some(near)).await;
        record.take(dialogue, moved.as_ref(), position.at);
        let sent = moved.map_or(0, |moved| moved.file_bytes);
        let Err(trouble) = result else { break };
        uncount(dialogue, position.at + sent);
        if position.at > 0 && (trouble.is_refused_command() || trouble.is_restart()) {
            // The server accepts no data after the existing part: send the whole file again.
            position = Position::default();
            continue;
        }
        if size.is_none() && sent > 0 || !dialogue.caller.wait(made, &trouble).await {
            return Err(trouble);
        }
        if let Some(size) = size.filter(|_| sent > 0 && (is_large || position.at > 0)) {
            let last = (position, sent, before);
            position = position_after(dialogue, errand, file, size, last).await?;
            if position.at == size && !position.is_apart && !trouble.is_refusal() {
                // The file is complete, although no reply has confirmed it.
                break;
            }
        }
    }
    Ok(position)
}

/// Subtracts the bytes of a failed attempt from the progress: the next one may send them again.
fn uncount(dialogue: &Dialogue, sent: u64) {
    let tally = &dialogue.caller.shared.tally;
    let less = |total: u64| Some(total.saturating_sub(sent));
    _ = tally.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Returns whether the remote file has the local size, as far as the server reports it.
async fn has_size(
    dialogue: &mut Dialogue,
    errand: &Errand,
    size: Option<u64>,
) -> Result<bool, Trouble> {
    let (there, _) = dialogue.size_and_time(&errand.path).await?;
    Ok(there.zip(size).is_none_or(|(there, size)| there == size))
}

/// Sets the time of the remote file: by MFMT if the server advertises it, otherwise by SITE UTIME.
/// Several servers support SITE UTIME, not all of them advertise it; its three times are those of
/// access, change and creation. A server that refuses SITE UTIME is not asked again. A refusal is
/// not an error.
async fn set_time(
    dialogue: &mut Dialogue,
    path: &[u8],
    modified: Timestamp,
) -> Result<(), Trouble> {
    let wanted = format!("cannot set the time of '{}'", shown(path));
    let caller = Arc::clone(&dialogue.caller);
    let has_command = dialogue.has("MFMT");
    let mut why = "the server does not set times".to_owned();
    if has_command || !caller.avoids_times.load(Ordering::Relaxed) {
        let task = match has_command {
            true => Task::SetModified(modified, name_of(path)?),
            false => {
                let time = modified.to_text();
                let times = format!(" {time} {time} {time} UTC");
                Task::Quote(name_of(&[b"SITE UTIME ", path, times.as_bytes()].concat())?)
            }
        };
        match dialogue.run_once(&wanted, task, None).await.0 {
            Ok(_) => return Ok(()),
            Err(trouble) if !trouble.is_refusal() => return Err(trouble),
            // MFMT may succeed for another file.
            Err(trouble) if has_command => why = trouble.sentence(),
            Err(_) => caller.avoids_times.store(true, Ordering::Relaxed),
        }
    }
    if caller.shared.is_verbose.load(Ordering::Relaxed) {
        say(&format!("'{}' has the time of the upload: {why}", shown(path)));
    }
    Ok(())
}
