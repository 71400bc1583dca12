//! Upload of one file, with retries and recovery.
//!
//! If a transfer breaks off, the next attempt asks the server for the size of the remote file and
//! resumes at that offset. If the remote file may be an older file of the same name, the upload
//! starts again: some servers keep the old file until the new file is complete. A file assembled
//! from several transfers is compared by HASH if the server supports HASH. A pipe cannot be read
//! twice, so an upload from a pipe is not retried after its first byte was sent.
//!
//! With --continue, the content of the remote file is verified before anything is appended: by HASH
//! of the whole remote file, or else by its size, its time and its last bytes. A remote file that
//! is not the beginning of the local file is not changed; with --force it is replaced.
//!
//! The remote file gets the time of the local file, if the server can set times.

use super::client::FtpClient;
use super::data_task::LocalEnd;
use super::error::FtpError;
use super::file_options::{FileOutcome, FtpOptions};
use super::remote_hash::{compare, compare_prefix};
use super::remote_path::name_of;
use crate::escaped;
use crate::recorder::Record;
use anyhow::Context;
use os::beneath::Existing;
use protocols::ftp::user::{StoreKind, Task};
use protocols::ftp::{Representation, Timestamp};
use records::severity::Severity;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file to upload.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Path of the local file.
    pub from: PathBuf,
    /// Path of the file on the server.
    pub path: Vec<u8>,
}

/// Opens a local file, and returns the file with its size and time; `-` is the standard input.
fn open(path: &Path) -> Result<(File, Option<u64>, Option<Timestamp>), FtpError> {
    if path == Path::new("-") {
        let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(anyhow::Error::new)?;
        return Ok((stdin.into(), None, None));
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let metadata = file.metadata().map_err(anyhow::Error::new)?;
    if metadata.is_dir() {
        return Err(FtpError::InvalidRequest(format!(
            "{name} is a directory: use -r to upload it"
        )));
    }
    let modified = Timestamp { seconds: metadata.mtime(), nanos: 0 };
    let size = metadata.is_file().then_some(metadata.len());
    Ok((file, size, Some(modified)))
}

/// Minimum file size for which an interrupted upload asks the server for the size of the remote
/// file.
const RESUME_MIN_BYTES: u64 = 64 * 1024;

/// Number of bytes at the end of a remote part that are compared if the server does not support
/// HASH.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// Content on the server before an upload continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemotePart {
    /// The server has no content at which the upload could continue.
    Nothing,
    /// The remote file has this many bytes, verified to be the beginning of the local file.
    Part(u64),
    /// The server stores this many bytes, verified to be the beginning of the local file, as a
    /// partial upload separate from the remote file (SITE PARTIAL).
    Separate(u64),
    /// The remote file is equal to the local file.
    Complete,
}

/// Verifies the content of the remote file before an upload appends to the file.
///
/// # Errors
///
/// Returns an error if the remote file is not the beginning of the local file, or cannot be
/// compared. The remote file is not changed.
async fn verify_remote_part(
    client: &mut FtpClient,
    upload: &Upload,
    file: &File,
    size: u64,
    modified: Option<Timestamp>,
) -> Result<RemotePart, FtpError> {
    if let Some(part) = separate_part_bytes(client, upload, file, size).await? {
        return Ok(RemotePart::Separate(part));
    }
    let (remote_size, time) = client.size_and_time(&upload.path).await?;
    let Some(remote_size) = remote_size.filter(|remote_size| *remote_size > 0) else {
        return Ok(RemotePart::Nothing);
    };
    let remote_part =
        if remote_size == size { RemotePart::Complete } else { RemotePart::Part(remote_size) };
    let is_same = match compare_prefix(client, &upload.path, file, remote_size).await? {
        _ if remote_size > size => false,
        Some(is_same) => is_same,
        None => {
            // A file that was uploaded from the local file is newer than the local file. If both
            // times are in the same second, the content decides.
            let ages = time.zip(modified).map(|(remote, local)| (remote.seconds, local.seconds));
            let is_remote_not_older = ages.is_some_and(|(remote, local)| remote >= local);
            let is_remote_newer = ages.is_some_and(|(remote, local)| remote > local);
            match remote_part {
                RemotePart::Complete => is_remote_not_older,
                _ => match has_same_tail(client, upload, file, remote_size).await? {
                    Some(is_same) => {
                        is_same && (is_remote_not_older || remote_size <= SAMPLE_BYTES)
                    }
                    None => is_remote_newer,
                },
            }
        }
    };
    if is_same { Ok(remote_part) } else { Err(mismatch(upload)) }
}

/// Returns the number of bytes of an interrupted upload that the server stores separately from the
/// final file (SITE PARTIAL of `plumb serve`). Returns `None` if the server has no such upload, or
/// if its content differs from the local file. REST and STOR continue the upload in the same
/// session.
async fn separate_part_bytes(
    client: &mut FtpClient,
    upload: &Upload,
    file: &File,
    size: u64,
) -> Result<Option<u64>, FtpError> {
    client.ready().await?;
    if !client.advertises("SITE PARTIAL") {
        return Ok(None);
    }
    let context = format!("cannot query the partial upload of '{}'", escaped(&upload.path));
    let task = Task::Quote(name_of(&[b"SITE PARTIAL ", upload.path.as_slice()].concat())?);
    let part_bytes = match client.run(&context, task).await {
        Ok(done) => done.reply.number().filter(|part| (1..=size).contains(part)),
        Err(error) if error.is_refusal() => return Ok(None),
        Err(error) => return Err(error),
    };
    let session = client.session_number();
    if let Some(part_bytes) = part_bytes
        && compare_prefix(client, &upload.path, file, part_bytes).await? == Some(true)
        && session.is_some()
        && client.session_number() == session
    {
        return Ok(Some(part_bytes));
    }
    // The server resolves the name to the partial upload until the session ends.
    client.close_session().await;
    Ok(None)
}

fn mismatch(upload: &Upload) -> FtpError {
    FtpError::Mismatch(format!(
        "cannot confirm that '{}' on the server is the beginning of {}: it was not changed; to \
         replace it, use -f, or omit -c",
        escaped(&upload.path),
        upload.from.display()
    ))
}

/// Compares the last bytes of a remote part with the local file; `None` if the remote bytes cannot
/// be read.
async fn has_same_tail(
    client: &mut FtpClient,
    upload: &Upload,
    file: &File,
    remote_size: u64,
) -> Result<Option<bool>, FtpError> {
    let from = remote_size.saturating_sub(SAMPLE_BYTES);
    let task = Task::Retrieve {
        name: name_of(&upload.path)?,
        representation: Representation::IMAGE,
        offset_bytes: from,
        expected_bytes: Some(remote_size),
    };
    let context = format!("cannot compare '{}'", escaped(&upload.path));
    let local_end = Some(LocalEnd::Memory(Vec::new()));
    let (result, moved) = client.run_once(&context, task, local_end).await;
    match result {
        Ok(_) => {}
        Err(error) if error.is_refusal() || error.denies_restart() => return Ok(None),
        Err(error) => return Err(error),
    }
    let remote = moved.map(|moved| moved.memory).unwrap_or_default();
    let mut local = vec![0; usize::try_from(remote_size - from).unwrap_or(0)];
    let was_local_read = file.read_exact_at(&mut local, from).is_ok();
    Ok(Some(was_local_read && local == remote))
}

/// Start offset of an upload, and the method by which the upload continues at that offset.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    at: u64,
    /// Whether the upload continues a part that the server stores separately; valid in this session
    /// only.
    is_separate: bool,
    /// Whether REST sets the offset at which STOR begins (RFC 3659 §5). APPE begins at the end of
    /// the file, but that end moves while the server still writes data of an earlier session.
    has_restart: bool,
    session: Option<u64>,
}

impl Position {
    fn of(remote_part: RemotePart, client: &FtpClient) -> Self {
        let (at, is_separate) = match remote_part {
            RemotePart::Nothing | RemotePart::Complete => return Self::default(),
            RemotePart::Part(at) => (at, false),
            RemotePart::Separate(at) => (at, true),
        };
        let has_restart = is_separate || client.advertises("REST STREAM");
        Self { at, is_separate, has_restart, session: client.session_number() }
    }

    /// Returns the task that sends a file from the offset of this position. If the upload starts at
    /// offset 0, ALLO first announces the size `announced`. A server that stores partial uploads
    /// separately gives a file its final name when the announced size has arrived. If the file has
    /// any other size, the server does so at the end of the control connection.
    fn store_task(
        self,
        upload: &Upload,
        options: &FtpOptions,
        announced: Option<u64>,
    ) -> Result<Task, FtpError> {
        let is_appended = self.at > 0 && !self.has_restart;
        Ok(Task::Store {
            name: Some(name_of(&upload.path)?),
            kind: if is_appended { StoreKind::Append } else { StoreKind::Replace },
            representation: options.representation,
            offset_bytes: if self.has_restart { self.at } else { 0 },
            allocation_bytes: announced.filter(|_| self.at == 0),
        })
    }

    /// Returns whether the upload continues a part that the server stores separately, and the
    /// session has changed since. The server may no longer provide this part.
    fn is_part_lost(self, client: &FtpClient) -> bool {
        self.is_separate && (self.session.is_none() || client.session_number() != self.session)
    }
}

/// Returns the position at which an interrupted upload continues. The last attempt began at `last`
/// and sent `sent` bytes. `before` is the size of the remote file before the upload.
async fn position_after(
    client: &mut FtpClient,
    upload: &Upload,
    file: &File,
    size: u64,
    (last, sent, before): (Position, u64, Option<u64>),
) -> Result<Position, FtpError> {
    if let Some(part) = separate_part_bytes(client, upload, file, size).await? {
        return Ok(Position::of(RemotePart::Separate(part), client));
    }
    let (remote_size, _) = client.size_and_time(&upload.path).await?;
    let is_ours = last.at > 0 && !last.is_separate || remote_size != before;
    let at =
        remote_size.filter(|remote_size| is_ours && *remote_size <= last.at + sent).unwrap_or(0);
    let differs = at > 0 && compare_prefix(client, &upload.path, file, at).await? == Some(false);
    Ok(Position::of(
        if differs || at == 0 { RemotePart::Nothing } else { RemotePart::Part(at) },
        client,
    ))
}

/// Uploads one file.
pub async fn put(
    client: &mut FtpClient,
    upload: &Upload,
    options: &FtpOptions,
    record: &mut Record,
) -> Result<FileOutcome, FtpError> {
    let (file, size, modified) = open(&upload.from)?;
    let is_image = options.representation.keeps_octets();
    client.ready().await?;
    if options.skips_existing && client.find_entry(&upload.path).await?.is_some() {
        return Ok(FileOutcome::Kept);
    }
    let remote_part = match (options.continues && is_image, size) {
        (true, Some(size)) => verify_remote_part(client, upload, &file, size, modified).await,
        _ => Ok(RemotePart::Nothing),
    };
    let remote_part = match remote_part {
        Err(FtpError::Mismatch(_)) if options.existing == Existing::Replace => RemotePart::Nothing,
        Ok(RemotePart::Complete) => return Ok(FileOutcome::AlreadyComplete),
        remote_part => remote_part?,
    };
    let _running = client.connector.shared.progress.begin_file(&upload.path);
    let source = UploadSource { upload, options, file: &file, size };
    let position = send(client, &source, Position::of(remote_part, client), record).await?;
    if position.at > 0 {
        let is_whole = has_size(client, upload, size).await?;
        if !is_whole {
            // The remote size is wrong: another session has written to the file, or the server has
            // ignored the offset.
            send(client, &source, Position::default(), record).await?;
        }
        compare(client, &upload.path, &file, record).await?;
    }
    if let Some(modified) = modified.filter(|_| options.keeps_time) {
        set_time(client, &upload.path, modified).await?;
    }
    Ok(FileOutcome::Transferred)
}

/// A local file to send.
struct UploadSource<'a> {
    upload: &'a Upload,
    options: &'a FtpOptions,
    file: &'a File,
    size: Option<u64>,
}

/// Sends a file from `position` on, with retries. Returns the position of the last attempt.
async fn send(
    client: &mut FtpClient,
    source: &UploadSource<'_>,
    mut position: Position,
    record: &mut Record,
) -> Result<Position, FtpError> {
    let UploadSource { upload, options, mut file, size } = *source;
    let is_image = options.representation.keeps_octets();
    let context = format!("cannot upload '{}'", escaped(&upload.path));
    let mut attempt = 0;
    let is_large = is_image && size.is_some_and(|size| size >= RESUME_MIN_BYTES);
    let size_before = match is_large && position.at == 0 {
        true => client.size_and_time(&upload.path).await?.0,
        false => None,
    };
    loop {
        attempt += 1;
        if position.is_part_lost(client) {
            let part = separate_part_bytes(client, upload, file, size.unwrap_or(0)).await?;
            position = Position::of(part.map_or(RemotePart::Nothing, RemotePart::Separate), client);
        }
        if size.is_some() {
            file.seek(SeekFrom::Start(position.at)).map_err(anyhow::Error::new)?;
        }
        let local_end = LocalEnd::ReadFrom(file.try_clone().map_err(anyhow::Error::new)?);
        let announced = size.filter(|_| is_image && client.advertises("SITE PARTIAL"));
        let task = position.store_task(upload, options, announced)?;
        client.connector.shared.progress.add(position.at);
        let (result, moved) = client.run_once(&context, task, Some(local_end)).await;
        record.add_attempt(client, moved.as_ref(), position.at);
        let sent_bytes = moved.map_or(0, |moved| moved.file_bytes);
        let Err(error) = result else { break };
        client.connector.shared.progress.subtract(position.at + sent_bytes);
        if position.at > 0 && (error.is_refused_command() || error.denies_restart()) {
            // The server accepts no data after the existing part: send the whole file again.
            position = Position::default();
            continue;
        }
        if size.is_none() && sent_bytes > 0 || !client.wait_before_retry(attempt, &error).await {
            return Err(error);
        }
        if let Some(size) = size.filter(|_| sent_bytes > 0 && (is_large || position.at > 0)) {
            let last_attempt = (position, sent_bytes, size_before);
            position = position_after(client, upload, file, size, last_attempt).await?;
            if position.at == size && !position.is_separate && !error.is_refusal() {
                // The remote file is complete, although no reply has confirmed the upload.
                break;
            }
        }
    }
    Ok(position)
}

/// Returns whether the remote file has the local size. An unknown size counts as equal.
async fn has_size(
    client: &mut FtpClient,
    upload: &Upload,
    size: Option<u64>,
) -> Result<bool, FtpError> {
    let (remote_size, _) = client.size_and_time(&upload.path).await?;
    Ok(remote_size.zip(size).is_none_or(|(remote_size, size)| remote_size == size))
}

/// Sets the time of the remote file: by MFMT if the server advertises MFMT, otherwise by SITE
/// UTIME. Several servers support SITE UTIME without advertising it. The arguments of SITE UTIME
/// are the times of access, modification and creation. After a refusal, SITE UTIME is not sent
/// again. A refusal is not an error.
async fn set_time(
    client: &mut FtpClient,
    path: &[u8],
    modified: Timestamp,
) -> Result<(), FtpError> {
    let context = format!("cannot set the time of '{}'", escaped(path));
    let connector = Arc::clone(&client.connector);
    let has_command = client.advertises("MFMT");
    let mut why = "the server does not set modification times".to_owned();
    if has_command || !connector.is_utime_refused.load(Ordering::Relaxed) {
        let task = match has_command {
            true => Task::SetModified(modified, name_of(path)?),
            false => {
                let time = modified.to_text();
                let times = format!(" {time} {time} {time} UTC");
                Task::Quote(name_of(&[b"SITE UTIME ", path, times.as_bytes()].concat())?)
            }
        };
        match client.run_once(&context, task, None).await.0 {
            Ok(_) => return Ok(()),
            Err(error) if !error.is_refusal() => return Err(error),
            // The refusal is not stored: MFMT may succeed for another file.
            Err(error) if has_command => why = error.sentence(),
            Err(_) => connector.is_utime_refused.store(true, Ordering::Relaxed),
        }
    }
    if connector.is_verbose() {
        (connector.shared.message)(
            Severity::Note,
            &format!(
                "the modification time of '{}' is the time of the upload: {why}",
                escaped(path)
            ),
        );
    }
    Ok(())
}
