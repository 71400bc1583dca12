//! Download of one file, with retries and recovery.
//!
//! A temporary file (draft) receives the data and takes the final name when the download is
//! complete. If a transfer breaks off, the next attempt resumes at the last received byte, provided
//! that the remote file still has the same size and time. When all attempts have failed, the
//! received part is kept as the partial download `name.part`. The partial download gets the time of
//! the remote file, so that `--continue` recognizes it. A file assembled from several transfers is
//! compared by HASH if the server supports HASH.
//!
//! Resuming requires a file that has the same octets on both hosts. For text, or for words that are
//! not octets, the server may store the file in another form and of another size. Such a file is
//! always downloaded from its start.

use super::client::FtpClient;
use super::connector::Connector;
use super::data_task::LocalEnd;
use super::download::{
    Destination, Download, PART_SUFFIX, begin, is_already_complete, open_parent, resume_part,
};
use super::error::FtpError;
use super::file_options::{FileOutcome, FtpOptions};
use super::remote_hash::compare;
use super::remote_path::{name_of, split};
use super::tail_sample::TailSample;
use crate::escaped;
use crate::recorder::Record;
use anyhow::Context;
use os::beneath::{AtomicFile, Existing, sweep};
use protocols::ftp::user::Task;
use protocols::ftp::{ByteSize, Mode, Representation, Structure, Timestamp, Type};
use records::format::count;
use records::severity::Severity;
use ring::digest;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

/// Downloads one file.
pub async fn get(
    client: &mut FtpClient,
    download: &Download,
    options: &FtpOptions,
    record: &mut Record,
) -> Result<FileOutcome, FtpError> {
    if options.skips_existing && download.has_local_file() {
        return Ok(FileOutcome::Kept);
    }
    let _running = client.connector.shared.progress.begin_file(&download.path);
    match fetch(client, download, options, record).await {
        Err(error) if error.is_refused_command() && download.is_single() => {
            Err(client.explained_refusal(&download.path, error, "use -r to download it").await)
        }
        result => result,
    }
}

/// Asks the server for the missing size and time of a file.
async fn query_missing_facts(
    client: &mut FtpClient,
    download: &mut Download,
    options: &FtpOptions,
) -> Result<(), FtpError> {
    let is_image = options.representation.keeps_octets();
    if is_image && download.size.is_none() {
        (download.size, download.modified) = client.size_and_time(&download.path).await?;
        // The progress display can show the total now.
        let expected = download.size.unwrap_or(0);
        client.connector.shared.progress.expect_more(expected);
    } else if !is_image && download.modified.is_none() {
        (download.size, download.modified) = match options.representation.mode {
            // Deflated data may expand to any size, so the limit requires the remote size.
            Mode::Deflate => client.size_and_time(&download.path).await?,
            _ => client.text_size_and_time(&download.path, options.keeps_time).await?,
        };
    }
    if download.has_rough_time {
        let modified = client.modification_time(&download.path).await?;
        download.modified = modified.or(download.modified);
        download.has_rough_time = false;
    }
    Ok(())
}

async fn fetch(
    client: &mut FtpClient,
    download: &Download,
    options: &FtpOptions,
    record: &mut Record,
) -> Result<FileOutcome, FtpError> {
    let mut download = download.clone();
    let is_image = options.representation.keeps_octets();
    let in_place = open_in_place(&download.destination)?;
    let needs_facts = options.continues || options.segments > 1 || in_place.is_none();
    client.ready().await?;
    if needs_facts {
        query_missing_facts(client, &mut download, options).await?;
    }
    let max_bytes = max_file_bytes(&download, options);
    // For types other than image, the server reports the size of another form of the file.
    download.size = download.size.filter(|_| is_image);
    if let Some(file) = in_place {
        return download_in_place(client, &download, options, &file, record).await;
    }
    let Some((atomic_file, from)) = open(&download, options, &client.connector)? else {
        return Ok(FileOutcome::AlreadyComplete);
    };
    let file = atomic_file.file().try_clone().map_err(anyhow::Error::new)?;
    let sample = TailSample::cut(&file, from).map_err(anyhow::Error::new)?;
    let mut received_bytes = sample.at;
    let result = match segmented_size(&download, options, from) {
        Some(size) => download_segments(client, &download, options, &file, size, record).await,
        None => {
            download_limited(
                client,
                &mut download,
                options,
                &file,
                max_bytes,
                (&mut received_bytes, &mut *record),
            )
            .await
        }
    };
    let result = match result {
        Ok(()) if !sample.is_in(&file) => {
            discard_partial(&file, &download.path, &client.connector)?;
            received_bytes = 0;
            download_limited(
                client,
                &mut download,
                options,
                &file,
                max_bytes,
                (&mut received_bytes, &mut *record),
            )
            .await
        }
        result => result,
    };
    let is_assembled =
        from > 0 || record.streams() > 1 || segmented_size(&download, options, from).is_some();
    let result = match result {
        Ok(()) if is_assembled && is_image => compare(client, &download.path, &file, record).await,
        result => result,
    };
    if let Err(error) = result {
        let has_wrong_content = matches!(error, FtpError::Differs(_)) || error.is_size_exceeded();
        let is_resumable = is_image && options.segments <= 1 && !has_wrong_content;
        keep_partial(atomic_file, &download, received_bytes, is_resumable, &client.connector);
        return Err(error);
    }
    commit(atomic_file, &download, options)
}

/// Empties a partial download that is not the beginning of the remote file `path`.
fn discard_partial(file: &File, path: &[u8], connector: &Connector) -> Result<(), FtpError> {
    let escaped = escaped(path);
    (connector.shared.message)(
        Severity::Note,
        &format!("the partial download of '{escaped}' is of another file: downloading it again"),
    );
    Ok(file.set_len(0).map_err(anyhow::Error::new)?)
}

/// Gives the file of a complete download its final time and name.
fn commit(
    atomic_file: AtomicFile,
    download: &Download,
    options: &FtpOptions,
) -> Result<FileOutcome, FtpError> {
    set_time(atomic_file.file(), download.modified.filter(|_| options.keeps_time));
    match atomic_file.commit_soon() {
        Ok(()) => Ok(FileOutcome::Transferred),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(existing_file_error(download, options))
        }
        Err(error) => Err(anyhow::Error::new(error).context("cannot save the file").into()),
    }
}

/// Maximum number of restarts of a download because the file has grown since its size was reported.
const GROWTH_RESTARTS_MAX: u32 = 3;

/// Returns the maximum number of bytes of the local file, if the server reports a size. For text
/// and words the limit is four times that size: no supported conversion expands a file more.
fn max_file_bytes(download: &Download, options: &FtpOptions) -> Option<u64> {
    let Representation { data_type, structure, .. } = options.representation;
    let is_octets = matches!(data_type, Type::Image | Type::Local(ByteSize::OCTET));
    match is_octets && structure == Structure::File {
        true => download.size,
        false => download.size.map(|size| size.saturating_mul(4).saturating_add(64 * 1024)),
    }
}

/// Downloads a file of at most `max_bytes` bytes. Starts again if the remote file has grown.
async fn download_limited(
    client: &mut FtpClient,
    download: &mut Download,
    options: &FtpOptions,
    file: &File,
    mut max_bytes: Option<u64>,
    (received_bytes, record): (&mut u64, &mut Record),
) -> Result<(), FtpError> {
    for _ in 0..GROWTH_RESTARTS_MAX {
        match download_from(
            client,
            download,
            options,
            file,
            max_bytes,
            (&mut *received_bytes, &mut *record),
        )
        .await
        {
            Err(error) if error.is_size_exceeded() => {
                let (size, modified) = client.size_and_time(&download.path).await?;
                let grown_download = Download { size, modified, ..download.clone() };
                if max_file_bytes(&grown_download, options) <= max_bytes {
                    return Err(error);
                }
                max_bytes = max_file_bytes(&grown_download, options);
                let size = size.filter(|_| options.representation.keeps_octets());
                *download = Download { size, ..grown_download };
                *received_bytes = 0;
                file.set_len(0).map_err(anyhow::Error::new)?;
            }
            result => return result,
        }
    }
    download_from(client, download, options, file, max_bytes, (received_bytes, record)).await
}

/// Downloads a file from offset `received_bytes` on. If the server refuses the path, changes to the
/// parent directory first.
async fn download_from(
    client: &mut FtpClient,
    download: &Download,
    options: &FtpOptions,
    file: &File,
    max_bytes: Option<u64>,
    (received_bytes, record): (&mut u64, &mut Record),
) -> Result<(), FtpError> {
    let segment = Segment { download, options, file, max_bytes, end: None, is_segment: false };
    let refusal = match segment.get(client, received_bytes, record).await {
        Err(error) if error.is_refused_command() && download.path.contains(&b'/') => error,
        result => return result,
    };
    let last_component = split(&download.path).1.to_vec();
    let result = match client.enter_parent_directory(&download.path).await {
        Ok(true) => {
            let by_last_component = Download { path: last_component, ..download.clone() };
            let segment = Segment { download: &by_last_component, ..segment };
            let result = segment.get(client, received_bytes, record).await;
            result.map_err(|other| if other.is_refusal() { refusal } else { other })
        }
        Ok(false) => Err(refusal),
        Err(error) => Err(error),
    };
    // CWD changed the working directory. Later paths must resolve as before, so the session ends.
    client.close_session().await;
    result
}

/// Opens a destination that is written in place: standard output, a device or a pipe. A download
/// never replaces such a file.
fn open_in_place(destination: &Destination) -> Result<Option<File>, FtpError> {
    match destination {
        Destination::Stdout => {
            let stdout = rustix::io::dup(rustix::stdio::stdout()).map_err(anyhow::Error::new)?;
            Ok(Some(File::from(stdout)))
        }
        Destination::File(path)
            if fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()) =>
        {
            let open_result = File::options().write(true).open(path);
            let sentence = || format!("cannot write {}", path.display());
            Ok(Some(open_result.with_context(sentence)?))
        }
        _ => Ok(None),
    }
}

async fn download_in_place(
    client: &mut FtpClient,
    download: &Download,
    options: &FtpOptions,
    file: &File,
    record: &mut Record,
) -> Result<FileOutcome, FtpError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let local_end = LocalEnd::WriteTo {
            file: file.try_clone().map_err(anyhow::Error::new)?,
            at: None,
            stop_after: None,
            max_bytes: None,
        };
        let task = retrieve(download, options, 0)?;
        let (result, moved) =
            client.run_once(&download_context(download), task, Some(local_end)).await;
        record.add_attempt(client, moved.as_ref(), 0);
        let has_received_data = moved.is_some_and(|moved| moved.file_bytes > 0);
        match result {
            Ok(_) => return Ok(FileOutcome::Transferred),
            // Bytes already written to the destination cannot be withdrawn, so there is no retry.
            Err(error) if has_received_data || !client.wait_before_retry(attempt, &error).await => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
}

fn download_context(download: &Download) -> String {
    format!("cannot download '{}'", escaped(&download.path))
}

fn retrieve(download: &Download, options: &FtpOptions, from: u64) -> Result<Task, FtpError> {
    Ok(Task::Retrieve {
        name: name_of(&download.path)?,
        representation: options.representation,
        offset_bytes: from,
        expected_bytes: download.size,
    })
}

/// Returns the size of a file to download in segments; `None` if the download is not divided.
fn segmented_size(download: &Download, options: &FtpOptions, from: u64) -> Option<u64> {
    let is_segmented = options.segments > 1 && from == 0 && options.representation.keeps_octets();
    download.size.filter(|size| is_segmented && *size >= u64::from(options.segments))
}

/// If the server does not begin at the requested offset, the download restarts at once, but only in
/// attempts before this number. Later attempts handle that failure like any other failure.
const RESTARTS_MAX: u32 = 32;

/// Range of a file to download, up to `end` or the end of the file.
struct Segment<'a> {
    download: &'a Download,
    options: &'a FtpOptions,
    file: &'a File,
    /// Maximum number of bytes of the whole file.
    max_bytes: Option<u64>,
    end: Option<u64>,
    /// Whether other sessions download the rest of the file.
    is_segment: bool,
}

impl Segment<'_> {
    /// Downloads the range from offset `at` on. Advances `at` by the bytes received.
    async fn get(
        &self,
        client: &mut FtpClient,
        at: &mut u64,
        record: &mut Record,
    ) -> Result<(), FtpError> {
        let is_image = self.options.representation.keeps_octets();
        let mut attempt = 0;
        loop {
            attempt += 1;
            if !is_image {
                *at = 0;
                self.file.set_len(0).map_err(anyhow::Error::new)?;
            }
            let local_end = LocalEnd::WriteTo {
                file: self.file.try_clone().map_err(anyhow::Error::new)?,
                at: Some(*at),
                stop_after: self.end.map(|end| end - *at),
                max_bytes: self.max_bytes.map(|max_bytes| max_bytes.saturating_sub(*at)),
            };
            let task = retrieve(self.download, self.options, *at)?;
            let (result, moved) =
                client.run_once(&download_context(self.download), task, Some(local_end)).await;
            record.add_attempt(client, moved.as_ref(), *at);
            let mut has_enough = false;
            if let Some(moved) = moved {
                *at += moved.file_bytes;
                has_enough = moved.has_enough;
            }
            match result {
                Ok(_) => return Ok(()),
                Err(_) if has_enough => return Ok(()),
                // The server cannot begin at the offset of the segment: the caller starts again
                // with the whole file.
                Err(error) if error.denies_restart() && self.is_segment => return Err(error),
                Err(error) if error.denies_restart() && attempt < RESTARTS_MAX => {
                    self.restart(at)?;
                }
                Err(error) if !client.wait_before_retry(attempt, &error).await => {
                    return Err(error);
                }
                Err(_) if self.is_complete(client, at).await? => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// Truncates the file and resets the offset to 0.
    fn restart(&self, at: &mut u64) -> Result<(), FtpError> {
        *at = 0;
        Ok(self.file.set_len(0).map_err(anyhow::Error::new)?)
    }

    /// Returns whether the local file is complete although no reply has confirmed the transfer.
    /// Empties the file and resets the offset to 0 if the remote file has changed.
    async fn is_complete(&self, client: &mut FtpClient, at: &mut u64) -> Result<bool, FtpError> {
        let is_image = self.options.representation.keeps_octets();
        if *at == 0 || self.end.is_some() || !is_image {
            return Ok(false);
        }
        let (size, modified) = client.size_and_time(&self.download.path).await?;
        let is_unchanged = size == self.download.size && modified == self.download.modified;
        if !is_unchanged {
            self.restart(at)?;
        }
        Ok(is_unchanged && size == Some(*at))
    }
}

/// Downloads a file in segments, each over its own session.
async fn download_segments(
    client: &mut FtpClient,
    download: &Download,
    options: &FtpOptions,
    file: &File,
    size: u64,
    record: &mut Record,
) -> Result<(), FtpError> {
    let count = u64::from(options.segments);
    let mut segments = tokio::task::JoinSet::new();
    for index in 1..count {
        let download = download.clone();
        let options = *options;
        let file = file.try_clone().map_err(anyhow::Error::new)?;
        let connector = Arc::clone(&client.connector);
        let mut begin = size / count * index;
        let end = size / count * (index + 1);
        let mut record = record.clone();
        segments.spawn(async move {
            let mut client = FtpClient::new(&connector);
            let end = (index + 1 < count).then_some(end);
            let download = &download;
            let options = &options;
            let file = &file;
            let segment =
                Segment { download, options, file, max_bytes: Some(size), end, is_segment: true };
            let result = segment.get(&mut client, &mut begin, &mut record).await;
            client.quit().await;
            (result, record)
        });
    }
    let max_bytes = Some(size);
    let end = Some(size / count);
    let segment = Segment { download, options, file, max_bytes, end, is_segment: true };
    let mut result = segment.get(client, &mut 0, record).await;
    while let Some(ended) = segments.join_next().await {
        let (other, of_other) = ended.map_err(anyhow::Error::new)?;
        record.add(&of_other);
        result = match (result, other) {
            // A refused offset takes precedence over other errors: all segments are unusable.
            (Err(error), _) if error.denies_restart() => Err(error),
            (_, Err(error)) if error.denies_restart() => Err(error),
            (result, other) => result.and(other),
        };
    }
    match result {
        Err(error) if error.denies_restart() => {
            file.set_len(0).map_err(anyhow::Error::new)?;
            download_from(client, download, options, file, Some(size), (&mut 0, record)).await
        }
        result => result,
    }
}

/// Opens the draft of a download and returns it with the offset at which to resume; `None` if the
/// local file is already complete.
fn open(
    download: &Download,
    options: &FtpOptions,
    connector: &Connector,
) -> Result<Option<(AtomicFile, u64)>, FtpError> {
    if options.continues && is_already_complete(download) {
        return Ok(None);
    }
    if options.existing == Existing::Keep && download.local_size_and_time().is_some() {
        return Err(existing_file_error(download, options));
    }
    connector.sweep_beside(&download.destination);
    let key = resume_key(download, options, connector);
    let has_part =
        options.continues && !download.is_part_name_taken && download.has_matching_part();
    if has_part && let Ok(atomic_file) = resume_part(download, options.existing, key) {
        let at = atomic_file.file().metadata().map_err(anyhow::Error::new)?.len();
        return Ok(Some((atomic_file, at)));
    }
    match begin(download, options.existing, key) {
        Ok(atomic_file) if key.is_none() => Ok(Some((atomic_file, 0))),
        Ok(atomic_file) => {
            // Length of the data left by a killed process, if any.
            let old_len = atomic_file.file().metadata().map_err(anyhow::Error::new)?.len();
            let at = old_len
                * u64::from(options.continues && download.size.is_some_and(|size| old_len <= size));
            atomic_file.file().set_len(at).map_err(anyhow::Error::new)?;
            Ok(Some((atomic_file, at)))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(existing_file_error(download, options))
        }
        Err(error) => {
            let sentence = format!("cannot write {}", download.local_name());
            Err(FtpError::Local(anyhow::Error::new(error).context(sentence)))
        }
    }
}

/// Returns the key that names the draft (temporary file) of a download; `None` if the draft cannot
/// be resumed. A later process with the same key resumes the draft. Files without a reported size
/// and time, segmented downloads (which have gaps) and small files are not resumed.
fn resume_key(download: &Download, options: &FtpOptions, connector: &Connector) -> Option<u64> {
    let (size, modified) = download.size.zip(download.modified)?;
    let name = match &download.destination {
        Destination::Stdout => return None,
        Destination::File(path) => path.file_name()?.as_bytes(),
        Destination::Beneath(_, name) => name.as_slice(),
    };
    let is_small = size < RESUMED_MIN_BYTES;
    if is_small || options.segments > 1 || !options.representation.keeps_octets() {
        return None;
    }
    let user = connector.settings.user.as_bytes();
    let target = connector.target.to_string();
    let size_and_time = format!("{size} {}", modified.seconds);
    let parts = [target.as_bytes(), user, &download.path, name, size_and_time.as_bytes()];
    let with_length = |part: &&[u8]| [part.len().to_be_bytes().as_slice(), part].concat();
    let text: Vec<u8> = parts.iter().flat_map(with_length).collect();
    let digest = digest::digest(&digest::SHA256, &text);
    let first_bytes = digest.as_ref().first_chunk::<8>()?;
    Some(u64::from_be_bytes(*first_bytes))
}

/// Returns the error for an existing file. If the file may be the beginning of the remote file,
/// left by another program, the message explains how to resume.
fn existing_file_error(download: &Download, options: &FtpOptions) -> FtpError {
    let name = download.local_name();
    let remote = download.size.zip(download.modified).zip(download.local_size_and_time());
    if let (true, Destination::File(path), Some(((size, modified), (len, _)))) =
        (options.continues, &download.destination, remote)
        && len < size
    {
        let local = escaped(path.as_os_str().as_bytes());
        let seconds = modified.seconds;
        let len = count(len);
        let size = count(size);
        return FtpError::Exists(format!(
            "{name} exists, with {len} of {size} bytes: if it is the beginning of the remote file, \
             run mv '{local}' '{local}.part' && touch -d @{seconds} '{local}.part' and then use \
             -c; or use -f to download the whole file"
        ));
    }
    FtpError::Exists(format!("{name} exists: use -f to replace it, or name another file"))
}

/// Minimum size of a file whose download is resumed after plumb was killed; our own choice.
const RESUMED_MIN_BYTES: u64 = 64 * 1024;
impl Connector {
    /// Removes, once per directory, the drafts of killed processes beside `destination`.
    fn sweep_beside(&self, destination: &Destination) {
        let (key, root_dir) = match destination {
            Destination::Stdout => return,
            Destination::File(path) => {
                (path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes(), None)
            }
            Destination::Beneath(root_dir, name) => (split(name).0, Some(root_dir)),
        };
        let is_new = {
            let mut swept = self.swept_directories.lock().unwrap_or_else(PoisonError::into_inner);
            swept.insert(key.to_vec())
        };
        if !is_new {
            return;
        }
        // Ignored: a draft that cannot be removed only takes disk space.
        match (root_dir, destination) {
            (Some(root_dir), _) => _ = root_dir.sweep(if key.is_empty() { b"." } else { key }),
            (None, Destination::File(path)) => {
                if let Ok((directory, _)) = open_parent(path) {
                    _ = sweep(&directory);
                }
            }
            _ => {}
        }
    }
}

/// Keeps the received data as the partial download `name.part`, if the download can be resumed.
fn keep_partial(
    atomic_file: AtomicFile,
    download: &Download,
    received_bytes: u64,
    is_resumable: bool,
    connector: &Connector,
) {
    let name = match &download.destination {
        Destination::Stdout => return,
        Destination::File(path) => path.file_name().map(|name| name.as_bytes().to_vec()),
        Destination::Beneath(_, name) => {
            name.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec)
        }
    };
    let Some(name) =
        name.filter(|_| is_resumable && received_bytes > 0 && download.modified.is_some())
    else {
        return;
    };
    set_time(atomic_file.file(), download.modified);
    let part = [name.as_slice(), PART_SUFFIX].concat();
    let part_path = match &download.destination {
        Destination::File(path) => {
            path.with_file_name(std::ffi::OsStr::from_bytes(&part)).into_os_string()
        }
        _ => std::ffi::OsStr::from_bytes(&part).to_owned(),
    };
    // If the data cannot be kept, the next download starts at 0. An existing `name.part` may belong
    // to the user, so it is not replaced.
    if !download.is_part_name_taken && atomic_file.keep_as(&part).is_ok() && !connector.is_quiet {
        (connector.shared.message)(
            Severity::Note,
            &format!(
                "saved {} bytes of '{}' in '{}': resume with -c or the next mirror",
                count(received_bytes),
                escaped(&name),
                escaped(part_path.as_bytes())
            ),
        );
    }
}

/// Sets the time of a local file to the time of the remote file, if possible.
fn set_time(file: &File, modified: Option<Timestamp>) {
    let Some(Timestamp { seconds, nanos }) = modified else { return };
    if let Ok(seconds) = u64::try_from(seconds) {
        _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
    }
}
