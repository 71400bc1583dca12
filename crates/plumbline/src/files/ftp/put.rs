//! One file from here.
//!
//! If it is broken off, another attempt asks how much is there, and goes on behind it. A file that
//! was put together so is compared by HASH, where the server has that. A pipe cannot be read twice,
//! and is tried once, if anything of it has gone.

use super::dialogue::Dialogue;
use super::get::{Ending, Terms, compare};
use super::mover::Near;
use super::remote::name_of;
use super::trouble::Trouble;
use crate::transfers::Record;
use anyhow::Context;
use protocols::application::ftp::Timestamp;
use protocols::application::ftp::user::{StoreKind, Task};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that is to go.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) from: PathBuf,
    pub(super) path: Vec<u8>,
    /// Whether the file there is to have the time of ours.
    pub(super) keeps_time: bool,
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

/// Puts one file.
pub(super) async fn put(
    dialogue: &mut Dialogue,
    errand: &Errand,
    terms: &Terms,
    record: &mut Record,
) -> Result<Ending, Trouble> {
    let (mut file, size, modified) = open(&errand.from)?;
    let is_image = terms.representation.passes_through();
    let wanted = format!("to put '{}'", errand.path.escape_ascii());
    dialogue.ready().await?;
    let (mut at, mut made, mut is_pieced) = (0, 0, false);
    if let (true, true, Some(size)) = (terms.continues, is_image, size) {
        let (there, time) = dialogue.size_and_time(&errand.path).await?;
        let is_newer = time.zip(modified).is_some_and(|(there, here)| there >= here);
        match there.filter(|there| is_newer && *there <= size) {
            Some(there) if there == size => return Ok(Ending::WasThere),
            Some(there) => (at, is_pieced) = (there, there > 0),
            None => {}
        }
    }
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
            allocation_bytes: None,
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
        if is_image && sent > 0 {
            // What is there is ours, and so much of it.
            let (there, _) = dialogue.size_and_time(&errand.path).await?;
            at = there.filter(|there| *there <= at + sent).unwrap_or(0);
            is_pieced = at > 0;
        }
    }
    if is_pieced {
        compare(dialogue, &errand.path, &file).await?;
    }
    if let (true, Some(modified)) = (errand.keeps_time && dialogue.has("MFMT"), modified) {
        // The file is there, and has a time.
        _ = dialogue.run(&wanted, Task::SetModified(modified, name_of(&errand.path)?)).await;
    }
    Ok(Ending::Moved)
}
