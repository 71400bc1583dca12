//! Local end of a transfer: a file, a device or a pipe.

use anyhow::{Context, Result, bail};
use os::jail::{Draft, Existing, sweep};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Number of bytes read or written at a time.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;
/// Size of the pieces read from a pipe, and maximum number of pieces that wait to be sent.
const PIPE_PIECE_BYTES: usize = 64 * 1024;
const PIECES_MAX: usize = 4;

/// Local source of bytes.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file, which is always ready.
    File(File),
    /// A pipe or a terminal.
    Pipe(Pipe),
}

/// A pipe, read by its own thread.
#[derive(Debug)]
pub(crate) struct Pipe {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    taken: usize,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// This many bytes, at least one.
    Bytes(usize),
    /// No data is available yet.
    Later,
    /// The source has ended.
    End,
}

impl Source {
    /// Opens `path`, and returns its size if it is a regular file; `-` is the standard input.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<u64>)> {
        if path == Path::new("-") {
            return Ok((Self::Pipe(Pipe::of(io::stdin())), None));
        }
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let about = file.metadata()?;
        if about.is_dir() {
            bail!("{name} is a directory, not a file");
        }
        if about.is_file() {
            return Ok((Self::File(file), Some(about.len())));
        }
        Ok((Self::Pipe(Pipe::of(file)), None))
    }

    /// Reads the next bytes into `room`, which is not empty.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Piece> {
        match self {
            Self::File(file) => Ok(match file.read(room)? {
                0 => Piece::End,
                count => Piece::Bytes(count),
            }),
            Self::Pipe(pipe) => pipe.read(room),
        }
    }

    /// Waits until a read returns data or the end.
    pub(crate) async fn ready(&mut self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Pipe(pipe) => pipe.ready().await,
        }
    }
}

impl Pipe {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        // The thread is left behind if it is blocked when the transfer ends.
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIPE_PIECE_BYTES];
                let read = from.read(&mut piece).map(|count| piece.truncate(count));
                let is_last = read.is_err() || piece.is_empty();
                if sender.blocking_send(read.map(|()| piece)).is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces, piece: Vec::new(), taken: 0 }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<Piece> {
        if self.taken == self.piece.len() {
            match self.pieces.try_recv() {
                Ok(piece) => (self.piece, self.taken) = (piece?, 0),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(Piece::Later),
                Err(mpsc::error::TryRecvError::Disconnected) => return Ok(Piece::End),
            }
        }
        let rest = self.piece.get(self.taken..).unwrap_or_default();
        let count = rest.len().min(room.len());
        if let Some((to, from)) = room.get_mut(..count).zip(rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken += count;
        Ok(if count == 0 { Piece::End } else { Piece::Bytes(count) })
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.taken == self.piece.len()
            && let Some(piece) = self.pieces.recv().await
        {
            (self.piece, self.taken) = (piece?, 0);
        }
        Ok(())
    }
}

/// Local destination of bytes.
#[derive(Debug)]
pub(crate) struct Sink {
    to: To,
    gathered: Vec<u8>,
}

#[derive(Debug)]
enum To {
    /// A file, which appears when it is complete.
    Draft(Draft),
    /// A pipe, a terminal or a device.
    Plain(File),
}

/// Reason why there is no sink.
#[derive(Debug)]
pub(crate) enum NoSink {
    /// A file of that name exists.
    Exists(PathBuf),
    /// The system refuses to open or create the file.
    Refused(anyhow::Error),
}

impl Sink {
    /// Creates a sink for a draft.
    pub(crate) fn of(draft: Draft) -> Self {
        Self { to: To::Draft(draft), gathered: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Creates a sink for an open file.
    pub(crate) fn plain(file: File) -> Self {
        Self { to: To::Plain(file), gathered: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Opens a sink for `path`; `-` is the standard output.
    pub(crate) fn open(path: &Path, existing: Existing) -> Result<Self, NoSink> {
        let refused = |error: io::Error| {
            let sentence = format!("cannot write {}", path.display());
            NoSink::Refused(anyhow::Error::new(error).context(sentence))
        };
        if path == Path::new("-") {
            let stdout = rustix::io::dup(rustix::stdio::stdout());
            return Ok(Self::plain(stdout.map_err(|error| refused(error.into()))?.into()));
        }
        // A symbolic link is followed: its target is the file to replace.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            let device = File::options().write(true).open(&path).map_err(refused)?;
            return Ok(Self::plain(device));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let Some(name) = path.file_name() else {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        };
        let folder = OwnedFd::from(File::open(folder).map_err(refused)?);
        // A draft that cannot be removed only takes disk space.
        _ = sweep(&folder);
        match Draft::begin(folder, name.as_bytes(), existing) {
            Ok(draft) => Ok(Self::of(draft)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(NoSink::Exists(path)),
            Err(error) => Err(refused(error)),
        }
    }

    /// Appends the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gathered.len() + bytes.len() > PIECE_BYTES {
            self.flush()?;
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = match &self.to {
            To::Draft(draft) => draft.file(),
            To::Plain(file) => file,
        };
        file.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }

    /// Writes the buffered bytes, and commits a draft.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let To::Draft(draft) = self.to else { return Ok(()) };
        // The disk may be slow. Other tasks do not wait for it.
        let committed = tokio::task::spawn_blocking(|| draft.commit()).await;
        committed.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
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
    fn a_file_is_there_when_it_is_whole_and_not_before() {
        let folder = folder("whole");
        let path = folder.join("file");
        let mut sink = Sink::open(&path, Existing::Keep).unwrap();
        sink.write(&vec![7; PIECE_BYTES + 1]).unwrap();
        assert!(!path.exists());
        finish(sink).unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![7; PIECE_BYTES + 1]);
        let again = Sink::open(&path, Existing::Keep);
        assert!(matches!(again, Err(NoSink::Exists(there)) if there.ends_with("file")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn where_a_link_leads_the_file_is_replaced_and_the_link_stays() {
        let folder = folder("link");
        fs::write(folder.join("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        let mut sink = Sink::open(&folder.join("link"), Existing::Replace).unwrap();
        sink.write(b"new").unwrap();
        finish(sink).unwrap();
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"new");
        assert!(folder.join("link").is_symlink());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_is_written_as_it_is() {
        let mut sink = Sink::open(Path::new("/dev/null"), Existing::Keep).unwrap();
        sink.write(b"away").unwrap();
        finish(sink).unwrap();
    }

    #[test]
    fn a_pipe_gives_what_it_has_and_then_its_end() {
        let mut pipe = Pipe::of(&b"some bytes"[..]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut room = [0; 5];
        let mut all = Vec::new();
        loop {
            runtime.block_on(pipe.ready()).unwrap();
            match pipe.read(&mut room).unwrap() {
                Piece::Bytes(count) => all.extend_from_slice(&room[..count]),
                Piece::Later => {}
                Piece::End => break,
            }
        }
        assert_eq!(all, b"some bytes");
    }
}
