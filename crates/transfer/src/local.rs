//! Local end of a transfer: a file, a device or a pipe.

use anyhow::{Context, Result, bail};
use os::beneath::{AtomicFile, Existing, sweep};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Number of bytes read or written at a time.
pub const PIECE_BYTES: usize = 256 * 1024;
/// Maximum number of bytes per read from a pipe.
const PIPE_PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of pieces that were read from a pipe and wait to be sent.
const PIECES_MAX: usize = 4;

/// Local source of bytes.
#[derive(Debug)]
pub enum LocalSource {
    /// A file, which is always ready.
    File(File),
    /// A pipe or a terminal.
    Pipe(Pipe),
}

/// A pipe, read by its own thread.
#[derive(Debug)]
pub struct Pipe {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    consumed: usize,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// This many bytes were read, at least one.
    Bytes(usize),
    /// No data is available yet.
    Pending,
    /// The source has ended.
    End,
}

impl LocalSource {
    /// Opens `path` and also returns the size of a regular file; `-` is the standard input.
    pub fn open(path: &Path) -> Result<(Self, Option<u64>)> {
        if path == Path::new("-") {
            return Ok((Self::Pipe(Pipe::of(io::stdin())), None));
        }
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            bail!("{name} is a directory, not a file");
        }
        if metadata.is_file() {
            return Ok((Self::File(file), Some(metadata.len())));
        }
        Ok((Self::Pipe(Pipe::of(file)), None))
    }

    /// Reads the next bytes into the buffer `room`, which must not be empty.
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<ReadStatus> {
        match self {
            Self::File(file) => Ok(match file.read(room)? {
                0 => ReadStatus::End,
                count => ReadStatus::Bytes(count),
            }),
            Self::Pipe(pipe) => pipe.read(room),
        }
    }

    /// Waits until a read returns data or the end of the source.
    pub async fn ready(&mut self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Pipe(pipe) => pipe.ready().await,
        }
    }
}

impl Pipe {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        // A thread that is still blocked when the transfer ends keeps running until the process
        // exits.
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIPE_PIECE_BYTES];
                let result = from.read(&mut piece).map(|count| piece.truncate(count));
                let is_last = result.is_err() || piece.is_empty();
                if sender.blocking_send(result.map(|()| piece)).is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces, piece: Vec::new(), consumed: 0 }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<ReadStatus> {
        if self.consumed == self.piece.len() {
            match self.pieces.try_recv() {
                Ok(piece) => (self.piece, self.consumed) = (piece?, 0),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(ReadStatus::Pending),
                Err(mpsc::error::TryRecvError::Disconnected) => return Ok(ReadStatus::End),
            }
        }
        let unread = self.piece.get(self.consumed..).unwrap_or_default();
        let count = unread.len().min(room.len());
        if let Some((to, from)) = room.get_mut(..count).zip(unread.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consumed += count;
        Ok(if count == 0 { ReadStatus::End } else { ReadStatus::Bytes(count) })
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.consumed == self.piece.len()
            && let Some(piece) = self.pieces.recv().await
        {
            self.piece = piece?;
            self.consumed = 0;
        }
        Ok(())
    }
}

/// Local destination of bytes.
#[derive(Debug)]
pub struct Sink {
    output: FileOutput,
    buffered: Vec<u8>,
}

#[derive(Debug)]
enum FileOutput {
    /// A file that gets its final name when it is complete.
    AtomicFile(AtomicFile),
    /// A pipe, a terminal or a device.
    Plain(File),
}

/// Reason why a sink cannot be opened.
#[derive(Debug)]
pub enum SinkError {
    /// A file with this path already exists.
    Exists(PathBuf),
    /// The system refuses to open or create the file.
    Refused(anyhow::Error),
}

impl Sink {
    /// Creates a sink that writes to a draft (temporary file).
    pub fn from_atomic_file(atomic_file: AtomicFile) -> Self {
        Self {
            output: FileOutput::AtomicFile(atomic_file),
            buffered: Vec::with_capacity(PIECE_BYTES),
        }
    }

    /// Creates a sink that writes to an open file, device or pipe.
    pub fn from_file(file: File) -> Self {
        Self { output: FileOutput::Plain(file), buffered: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Opens a sink for `path`; `-` is the standard output.
    pub fn open(path: &Path, existing: Existing) -> Result<Self, SinkError> {
        let to_refused = |error: io::Error| {
            let sentence = format!("cannot write {}", path.display());
            SinkError::Refused(anyhow::Error::new(error).context(sentence))
        };
        if path == Path::new("-") {
            let stdout = rustix::io::dup(rustix::stdio::stdout());
            return Ok(Self::from_file(stdout.map_err(|error| to_refused(error.into()))?.into()));
        }
        // A symbolic link is followed: its target is the file to replace.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            let device = File::options().write(true).open(&path).map_err(to_refused)?;
            return Ok(Self::from_file(device));
        }
        let directory = match path.parent() {
            Some(directory) if directory != Path::new("") => directory,
            _ => Path::new("."),
        };
        let Some(name) = path.file_name() else {
            return Err(to_refused(io::ErrorKind::IsADirectory.into()));
        };
        let directory = OwnedFd::from(File::open(directory).map_err(to_refused)?);
        // Ignored: a draft that cannot be removed only takes disk space.
        _ = sweep(&directory);
        match AtomicFile::begin(directory, name.as_bytes(), existing) {
            Ok(atomic_file) => Ok(Self::from_atomic_file(atomic_file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(SinkError::Exists(path))
            }
            Err(error) => Err(to_refused(error)),
        }
    }

    /// Appends the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffered.len() + bytes.len() > PIECE_BYTES {
            self.flush()?;
        }
        self.buffered.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = match &self.output {
            FileOutput::AtomicFile(atomic_file) => atomic_file.file(),
            FileOutput::Plain(file) => file,
        };
        file.write_all(&self.buffered)?;
        self.buffered.clear();
        Ok(())
    }

    /// Writes the buffered bytes, and gives a draft its final name.
    pub async fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let FileOutput::AtomicFile(atomic_file) = self.output else { return Ok(()) };
        // The disk may be slow, so the commit runs in a blocking thread and does not delay other
        // tasks.
        let join_result = tokio::task::spawn_blocking(|| atomic_file.commit()).await;
        join_result.map_err(io::Error::other)?
    }
}

/// Returns whether an error is a lack of disk space.
pub fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("plumb-local-{name}-{id}"));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn finish(sink: Sink) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(sink.finish())
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let directory = directory("whole");
        let path = directory.join("file");
        let mut sink = Sink::open(&path, Existing::Keep).unwrap();
        sink.write(&vec![7; PIECE_BYTES + 1]).unwrap();
        assert!(!path.exists());
        finish(sink).unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![7; PIECE_BYTES + 1]);
        let second_open = Sink::open(&path, Existing::Keep);
        assert!(
            matches!(second_open, Err(SinkError::Exists(existing)) if existing.ends_with("file"))
        );
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_target_of_a_symbolic_link_is_replaced_and_the_link_stays() {
        let directory = directory("link");
        fs::write(directory.join("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", directory.join("link")).unwrap();
        let mut sink = Sink::open(&directory.join("link"), Existing::Replace).unwrap();
        sink.write(b"new").unwrap();
        finish(sink).unwrap();
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"new");
        assert!(directory.join("link").is_symlink());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_device_is_written_in_place() {
        let mut sink = Sink::open(Path::new("/dev/null"), Existing::Keep).unwrap();
        sink.write(b"away").unwrap();
        finish(sink).unwrap();
    }

    #[test]
    fn a_pipe_returns_its_data_and_then_the_end() {
        let mut pipe = Pipe::of(&b"some bytes"[..]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut room = [0; 5];
        let mut received = Vec::new();
        loop {
            runtime.block_on(pipe.ready()).unwrap();
            match pipe.read(&mut room).unwrap() {
                ReadStatus::Bytes(count) => received.extend_from_slice(&room[..count]),
                ReadStatus::Pending => {}
                ReadStatus::End => break,
            }
        }
        assert_eq!(received, b"some bytes");
    }
}
