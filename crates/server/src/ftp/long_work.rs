//! Long operations on files: hashes, sizes of texts, copies, listings.
//!
//! They run in steps on the pool of blocking threads. Each step needs a permit of a queue that is
//! fair between sources ([`FairQueue`]), so a long file of one client delays other clients by one
//! step. Dropping the future ends the operation after the current step.

use super::super::fair_queue::FairQueue;
use super::digest::Digest;
use super::file_error::file_error;
use super::listing::{Lister, Progress};
use super::upload::Upload;
use super::user_files::{FileView, seek};
use os::beneath::Kind;
use protocols::ftp::data::Encoder;
use protocols::ftp::listing::{ListForm, Pattern};
use protocols::ftp::server::{FileError, Operation, Outcome};
use protocols::ftp::{HashAlgorithm, Range, Representation, Right, VirtualPath};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use transfer::ftp_data::Steps;

/// Maximum number of file bytes that one step reads.
const STEP_BYTES: u64 = 4 << 20;
/// Maximum number of bytes per read.
const PIECE_BYTES: usize = 256 * 1024;
/// Maximum number of directory entries that one step examines.
const STEP_NAMES: usize = 10_000;
/// Maximum number of lines in a reply to STAT. Our choice.
const LINES_MAX: usize = 2_000;

/// Runs all steps of `work` for the client at `source`. Returns `None` if the queue is full.
pub(super) async fn run<W: Steps>(
    queue: &FairQueue,
    source: IpAddr,
    mut work: W,
) -> Option<W::Output> {
    loop {
        let permit = queue.acquire(source).await.ok()?;
        let result = tokio::task::spawn_blocking(move || {
            let output = work.step();
            drop(permit);
            (work, output)
        });
        // A step that panics has the same result as a full queue.
        let (rest, output) = result.await.ok()?;
        if output.is_some() {
            return output;
        }
        work = rest;
    }
}

/// File operation in steps. The first step also prepares the operation.
pub(super) struct LongOperation {
    view: FileView,
    operation: Operation,
    hash_max_bytes: u64,
    state: Option<OperationState>,
}

enum OperationState {
    Hash(Hash),
    Size(Box<TextSize>),
    Combine(Box<Combine>),
    Status(Box<StatusLines>),
}

impl LongOperation {
    /// Converts a long operation into steps, or returns a short operation unchanged in `Err`. One
    /// operation hashes at most `hash_max_bytes` of a file.
    pub(super) fn new(
        view: &FileView,
        operation: Operation,
        hash_max_bytes: u64,
    ) -> Result<Self, Operation> {
        let is_long = match &operation {
            Operation::Hash(..) | Operation::Combine { .. } | Operation::Status { .. } => true,
            Operation::Size { path, representation, .. } => {
                !view.representation(path, *representation).passes_through()
            }
            _ => false,
        };
        match is_long {
            true => Ok(Self { view: view.clone(), operation, hash_max_bytes, state: None }),
            false => Err(operation),
        }
    }

    fn begin(&self) -> Result<OperationState, FileError> {
        let view = &self.view;
        view.check_rights(&self.operation)?;
        Ok(match &self.operation {
            Operation::Hash(algorithm, path, range) => OperationState::Hash(Hash::new(
                view,
                *algorithm,
                path,
                *range,
                self.hash_max_bytes,
            )?),
            Operation::Size { path, representation, text_max_bytes } => {
                let representation = view.representation(path, *representation);
                let size = TextSize::new(view, path, &representation, *text_max_bytes)?;
                OperationState::Size(Box::new(size))
            }
            Operation::Combine { target, parts } => {
                OperationState::Combine(Box::new(Combine::new(view, target, parts)?))
            }
            Operation::Status { path, pattern, shows_hidden } => {
                let lines = StatusLines::new(view, path, pattern.as_ref(), *shows_hidden)?;
                OperationState::Status(Box::new(lines))
            }
            _ => return Err(FileError::NotSupported),
        })
    }
}

impl Steps for LongOperation {
    type Output = Result<Outcome, FileError>;

    fn step(&mut self) -> Option<Self::Output> {
        let state = match self.state.take().map_or_else(|| self.begin(), Ok) {
            Ok(state) => self.state.insert(state),
            Err(error) => return Some(Err(error)),
        };
        match state {
            OperationState::Hash(hash) => hash.step(),
            OperationState::Size(size) => size.step(),
            OperationState::Combine(combine) => combine.step(),
            OperationState::Status(lines) => lines.step(),
        }
        .transpose()
    }
}

type Step = Result<Option<Outcome>, FileError>;

/// State of a hash computation over a file or a range of it.
struct Hash {
    digest: Option<Digest>,
    file: File,
    left_bytes: u64,
    total_bytes: u64,
}

impl Hash {
    fn new(
        view: &FileView,
        algorithm: HashAlgorithm,
        path: &VirtualPath,
        range: Range,
        max_bytes: u64,
    ) -> Result<Self, FileError> {
        view.access.require(Right::Read, path)?;
        let (mut file, len, _) = view.file_or_partial(path)?;
        seek(&mut file, range.start)?;
        let end = range.end.unwrap_or(u64::MAX);
        if end.min(len).saturating_sub(range.start) > max_bytes {
            return Err(FileError::HashLimit);
        }
        // A file that grows meanwhile is not read beyond the limit either.
        let left_bytes = end.saturating_sub(range.start).min(max_bytes);
        Ok(Self { digest: Some(Digest::new(algorithm)), file, left_bytes, total_bytes: 0 })
    }

    fn step(&mut self) -> Step {
        let Some(digest) = &mut self.digest else { return Err(FileError::Local) };
        let mut part = self.file.by_ref().take(self.left_bytes.min(STEP_BYTES));
        // The buffer is not kept between steps, because thousands of operations may be waiting.
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = part.read(&mut piece).map_err(|error| file_error(&error))?;
            if count == 0 {
                break;
            }
            digest.update(piece.get(..count).unwrap_or_default());
            self.left_bytes = self.left_bytes.saturating_sub(count as u64);
            self.total_bytes += count as u64;
        }
        // A step that reads fewer bytes than allowed has reached the end of the file.
        let is_over = part.limit() > 0 || self.left_bytes == 0;
        if !is_over {
            return Ok(None);
        }
        let digits = self.digest.take().map(Digest::finish).unwrap_or_default();
        Ok(Some(Outcome::Hash { digits, len_bytes: self.total_bytes }))
    }
}

/// State of counting the bytes that RETR would send (RFC 3659 §4.1).
struct TextSize {
    encoder: Encoder,
    file: File,
    total_bytes: u64,
    /// Constructor of the result, either for a file or for a partial upload.
    outcome: fn(u64) -> Outcome,
}

impl TextSize {
    fn new(
        view: &FileView,
        path: &VirtualPath,
        representation: &Representation,
        text_max_bytes: u64,
    ) -> Result<Self, FileError> {
        // A query of the size requires no right to read the file.
        let (file, len_bytes, is_partial) = view.file_or_partial(path)?;
        let outcome = if is_partial { Outcome::PartialSize } else { Outcome::Size };
        if len_bytes > text_max_bytes {
            return Err(FileError::TooLarge);
        }
        let encoder = Encoder::new(representation, None).map_err(|_| FileError::NotSupported)?;
        Ok(Self { encoder, file, total_bytes: 0, outcome })
    }

    fn step(&mut self) -> Step {
        let mut piece = vec![0; PIECE_BYTES];
        let mut wire = Vec::new();
        for _ in 0..STEP_BYTES / PIECE_BYTES as u64 {
            let count = self.file.read(&mut piece).map_err(|error| file_error(&error))?;
            let encoded = match piece.get(..count).unwrap_or_default() {
                [] => self.encoder.finish(&mut wire),
                read => self.encoder.encode(read, &mut wire),
            };
            encoded.map_err(|_| FileError::Local)?;
            self.total_bytes += wire.len() as u64;
            wire.clear();
            if count == 0 {
                return Ok(Some((self.outcome)(self.total_bytes)));
            }
        }
        Ok(None)
    }
}

/// Concatenation of several files into one.
struct Combine {
    upload: Option<Upload>,
    parts: Vec<(File, u64)>,
}

impl Combine {
    fn new(
        view: &FileView,
        target: &VirtualPath,
        parts: &[VirtualPath],
    ) -> Result<Self, FileError> {
        let upload = Some(view.begin_combined(target)?);
        let parts = parts.iter().rev().map(|part| view.read(part));
        Ok(Self { upload, parts: parts.collect::<Result<_, _>>()? })
    }

    fn step(&mut self) -> Step {
        let Some(upload) = &mut self.upload else { return Err(FileError::Local) };
        let Some((file, left_bytes)) = self.parts.last_mut() else {
            self.upload.take().map_or(Err(FileError::Local), Upload::commit)?;
            return Ok(Some(Outcome::Done));
        };
        let count = STEP_BYTES.min(*left_bytes);
        upload.copy(file.try_clone().map_err(|error| file_error(&error))?, count)?;
        *left_bytes -= count;
        if *left_bytes == 0 {
            self.parts.pop();
        }
        Ok(None)
    }
}

/// Lines of a reply to STAT.
struct StatusLines {
    lister: Lister,
    is_directory: bool,
    lines: Vec<Vec<u8>>,
}

impl StatusLines {
    fn new(
        view: &FileView,
        path: &VirtualPath,
        pattern: Option<&Pattern>,
        shows_hidden: bool,
    ) -> Result<Self, FileError> {
        let is_directory = view.status(path)?.kind == Kind::Directory;
        let lister = Lister::new(view, path, &ListForm::Unix, pattern, shows_hidden)?;
        Ok(Self { lister, is_directory, lines: Vec::new() })
    }

    fn step(&mut self) -> Step {
        let mut line = Vec::new();
        let mut names_max = STEP_NAMES;
        while self.lines.len() < LINES_MAX {
            let progress = self.lister.write(&mut line, 1, &mut names_max)?;
            if !line.is_empty() {
                self.lines.push(line.trim_ascii_end().to_vec());
                line.clear();
            }
            match progress {
                Progress::Full => {}
                Progress::Paused => return Ok(None),
                Progress::Done => break,
            }
        }
        let lines = std::mem::take(&mut self.lines);
        let is_directory = self.is_directory;
        Ok(Some(Outcome::Lines { lines, is_directory }))
    }
}

/// Long work that writes the next lines of a listing: at least `min_bytes` bytes, unless the
/// listing ends earlier.
pub(super) struct ListingPiece {
    lister: Option<Box<Lister>>,
    lines: Vec<u8>,
    min_bytes: usize,
}

/// Result of [`ListingPiece`]: the lines, and the listing to continue.
pub(super) struct Listed {
    pub(super) lister: Box<Lister>,
    pub(super) lines: Vec<u8>,
    /// Whether more lines follow.
    pub(super) has_more: Result<bool, FileError>,
}

impl ListingPiece {
    pub(super) fn new(lister: Box<Lister>, lines: Vec<u8>, min_bytes: usize) -> Self {
        Self { lister: Some(lister), lines, min_bytes }
    }
}

impl Steps for ListingPiece {
    type Output = Listed;

    fn step(&mut self) -> Option<Listed> {
        let mut names_max = STEP_NAMES;
        let lister = self.lister.as_mut()?;
        let has_more = match lister.write(&mut self.lines, self.min_bytes, &mut names_max) {
            Ok(Progress::Paused) => return None,
            Ok(progress) => Ok(progress == Progress::Full),
            Err(error) => Err(error),
        };
        let lines = std::mem::take(&mut self.lines);
        self.lister.take().map(|lister| Listed { lister, lines, has_more })
    }
}
