//! One file from here.
//!
//! If it is broken off, another attempt asks how much is there, and goes on behind it, unless that
//! may be an older file of the name: some servers keep that one until the new one is whole. A file
//! that was put together so is compared by HASH, where the server has that. A pipe cannot be read
//! twice, and is tried once, if anything of it has gone.
//!
//! The file there gets the time of ours, where the server can set one.

use super::dialogue::Dialogue;
use super::get::{Ending, Terms, compare};
use super::mover::Near;
use super::remote::name_of;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfers::Record;
use anyhow::Context;
use protocols::application::ftp::Timestamp;
use protocols::application::ftp::user::{StoreKind, Task};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file that is to go.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) from: PathBuf,
    pub(super) path: Vec<u8>,
}

/// Opens a file of ours; `-` is the standard input.
fn open(path: &Path) -> Result<(File, Option<u64>, Option<Timestamp>), Trouble> {
    if path == Path::new("-") {
        let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(anyhow::Error::new)?;
        return Ok((stdin.into(), None, None));
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("the file {name} cannot be read"))?;
    let about = file.metadata().map_err(anyhow::Error::new)?;
    if about.is_dir() {
        return Err(Trouble::Wrong(format!("{name} is a folder: say -r to put all of it")));
    }
    let modified = Timestamp { seconds: about.mtime(), nanos: 0 };
    let size = about.is_file().then_some(about.len());
    Ok((file, size, Some(modified)))
}

/// From this size on it is worth a question how much is there.
const WORTH_GOING_ON_BYTES: u64 = 64 * 1024;

/// Returns how much of a file is there and as new as ours, of an upload that was broken off.
async fn begun(
    dialogue: &mut Dialogue,
    errand: &Errand,
    size: u64,
    modified: Option<Timestamp>,
) -> Result<Option<u64>, Trouble> {
    let (there, time) = dialogue.size_and_time(&errand.path).await?;
    let is_newer = time.zip(modified).is_some_and(|(there, here)| there >= here);
    Ok(there.filter(|there| is_newer && *there <= size))
}

/// Puts one file.
pub(super) async fn put(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    let (mut file, size, modified) = open(&errand.from)?;
    let is_image = terms.representation.keeps_octets();
    let wanted = format!("to put '{}'", shown(&errand.path));
    dialogue.ready().await?;
    let begun = match (terms.continues && is_image, size) {
        (true, Some(size)) => begun(dialogue, errand, size, modified).await?,
        _ => None,
    };
    if begun.is_some() && begun == size {
        return Ok(Ending::WasThere);
    }
    let (mut at, mut made) = (begun.unwrap_or(0), 0);
    let mut is_pieced = at > 0;
    let is_large = is_image && size.is_some_and(|size| size >= WORTH_GOING_ON_BYTES);
    let before = match is_large && at == 0 {
        true => dialogue.size_and_time(&errand.path).await?.0,
        false => None,
    };
    loop {
        made += 1;
        if size.is_some() {
            file.seek(SeekFrom::Start(at)).map_err(anyhow::Error::new)?;
        }
        let task = Task::Store {
            name: Some(name_of(&errand.path)?),
            kind: if at > 0 { StoreKind::Append } else { StoreKind::Replace },
            representation: terms.representation,
            offset_bytes: 0,
            // A server that keeps partial uploads commits at once what came as it was announced, and
            // else waits for the end of the control connection.
            allocation_bytes: size.filter(|_| is_image && at == 0 && dialogue.has("SITE PARTIAL")),
        };
        let near = Near::From(file.try_clone().map_err(anyhow::Error::new)?);
        let (result, moved) = dialogue.run_once(&wanted, task, Some(near)).await;
        record.take(dialogue, moved.as_ref(), at);
        let sent = moved.map_or(0, |moved| moved.file_bytes);
        let Err(trouble) = result else { break };
        if at > 0 && trouble.is_refused_command() {
            // It takes nothing behind what is there: all of it goes again.
            (at, is_pieced) = (0, false);
            continue;
        }
        let is_over = size.is_none() && sent > 0;
        if is_over || !dialogue.caller.wait(made, &trouble).await {
            return Err(trouble);
        }
        if sent > 0 && (is_large || at > 0) {
            let (there, _) = dialogue.size_and_time(&errand.path).await?;
            let is_ours = at > 0 || there != before;
            at = there.filter(|there| is_ours && *there <= at + sent).unwrap_or(0);
            is_pieced = at > 0;
            if Some(at) == size && !trouble.is_refusal() {
                // All of it is there, although nobody has said so.
                break;
            }
        }
    }
    if is_pieced {
        compare(dialogue, &errand.path, &file, record).await?;
    }
    if let Some(modified) = modified.filter(|_| terms.keeps_time) {
        set_time(dialogue, &errand.path, modified).await?;
    }
    Ok(Ending::Moved)
}

/// Gives the file there a time: by MFMT, where the server says that it has that; else by the SITE
/// UTIME of several servers, of which not all say so, and whose three times are those of access,
/// change and making. One that refuses that is not asked again; the file is there all the same, and
/// has a time.
async fn set_time(
    dialogue: &mut Dialogue,
    path: &[u8],
    modified: Timestamp,
) -> Result<(), Trouble> {
    let wanted = format!("the time of '{}'", shown(path));
    let caller = Arc::clone(&dialogue.caller);
    let has_command = dialogue.has("MFMT");
    let mut why = "the server sets no times".to_owned();
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
            // It may set that of another file.
            Err(trouble) if has_command => why = trouble.sentence(),
            Err(_) => caller.avoids_times.store(true, Ordering::Relaxed),
        }
    }
    if caller.shared.is_verbose.load(Ordering::Relaxed) {
        say(&format!("'{}' has the time of now: {why}", shown(path)));
    }
    Ok(())
}
