//! Log writer for an output that may block: a bounded queue and a writer thread.
//!
//! Without the queue, a server would block while its log is not read. When the queue is full,
//! further lines are dropped and counted; the writer thread then writes the count as a line. Lines
//! that the output does not accept, as on a full disk, are counted too: the thread tries to write
//! each later line, and first writes the count when the output accepts lines again.

use rustix::io::Errno;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of queued bytes.
const QUEUE_MAX_BYTES: usize = 1 << 20;
/// Pause of the writer thread after a write, so that many lines cost one wakeup and one write.
const BATCH_DELAY: Duration = Duration::from_millis(10);

/// Formats the line that reports the number of dropped lines.
type DropReportFn = fn(u64) -> Vec<u8>;

/// Handle of the queue. The writer thread runs until the process ends.
#[derive(Debug)]
pub(super) struct LineWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signaled when lines are queued, and when all are written.
    state_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queued_lines: Vec<u8>,
    dropped_lines: u64,
    /// Formats the report of dropped lines.
    report: Option<DropReportFn>,
    is_writing: bool,
    /// Whether the writer thread waits for a line.
    is_idle: bool,
    /// Whether the last write has failed.
    has_failed: bool,
}

impl LineWriter {
    /// Starts a thread that writes to `output`.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("log".to_owned());
        drop(thread.spawn(move || write_all(&thread_shared, output))?);
        Ok(Self(shared))
    }

    /// Enqueues a line including its line end; `report` formats the count of dropped lines. Never
    /// blocks on the output.
    pub(super) fn put(&self, line: &[u8], report: DropReportFn) {
        let mut state = self.0.lock();
        state.report = Some(report);
        if state.queued_lines.len() + line.len() > QUEUE_MAX_BYTES {
            state.dropped_lines += 1;
            return;
        }
        state.queued_lines.extend_from_slice(line);
        if state.is_idle {
            state.is_idle = false;
            drop(state);
            self.0.state_changed.notify_all();
        }
    }

    /// Waits until all lines are written, at most for `limit`. Returns whether all lines were
    /// written.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.0.lock();
        while state.is_writing || !state.queued_lines.is_empty() {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let wait_result = self.0.state_changed.wait_timeout(state, remaining);
            state = wait_result.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.has_failed
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_all(shared: &Shared, output: impl Write) {
    let mut output = CountingOutput { output, lost_lines: 0 };
    let mut lines = Vec::new();
    let mut has_failed = false;
    loop {
        let dropped_lines;
        let report;
        {
            let mut state = shared.lock();
            state.is_writing = false;
            state.has_failed = has_failed;
            shared.state_changed.notify_all();
            while state.queued_lines.is_empty() && state.dropped_lines == 0 {
                state.is_idle = true;
                state = shared.state_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_idle = false;
            std::mem::swap(&mut lines, &mut state.queued_lines);
            dropped_lines = std::mem::take(&mut state.dropped_lines);
            report = state.report;
            state.is_writing = true;
        }
        has_failed = output.write(&mut lines, dropped_lines, report).is_err();
        lines.clear();
        // Release the memory of a burst.
        lines.shrink_to(64 * 1024);
        std::thread::sleep(BATCH_DELAY);
    }
}

/// Output with the number of lines that it has not accepted since the last successful write.
struct CountingOutput<W> {
    output: W,
    lost_lines: u64,
}

impl<W: Write> CountingOutput<W> {
    /// Writes the report of lost lines, if there are any, then `lines`, then the report of
    /// `dropped_lines`.
    fn write(
        &mut self,
        lines: &mut Vec<u8>,
        dropped_lines: u64,
        report: Option<DropReportFn>,
    ) -> io::Result<()> {
        let lines_len = lines.len();
        let report_of = |count| report.filter(|_| count > 0).map(|report| report(count));
        let first = report_of(self.lost_lines).unwrap_or_default();
        if let Err(error) = self.output.write_all(&first) {
            self.lost_lines += line_count(lines) + dropped_lines;
            return Err(error);
        }
        self.lost_lines = 0;
        lines.extend(report_of(dropped_lines).unwrap_or_default());
        let mut written_bytes = 0;
        while let Some(rest) = lines.get(written_bytes..).filter(|rest| !rest.is_empty()) {
            match self.output.write(rest) {
                Ok(count) if count > 0 => written_bytes += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    // A line of which only a part was written is lost.
                    let lost_lines = lines.get(written_bytes..lines_len).map_or(0, line_count);
                    self.lost_lines = lost_lines + dropped_lines;
                    return failed.and(Err(io::ErrorKind::WriteZero.into()));
                }
            }
        }
        Ok(())
    }
}

fn line_count(lines: &[u8]) -> u64 {
    lines.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

/// Standard error of this process, written without the lock of [`io::stderr`]. Other threads would
/// wait for that lock while a write blocks.
#[derive(Debug)]
pub(super) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(rustix::stdio::stderr(), bytes) {
            // Standard error is in nonblocking mode: another program that shares the terminal may
            // have set this mode.
            Err(Errno::AGAIN) => {
                std::thread::sleep(Duration::from_millis(10));
                Err(io::ErrorKind::Interrupted.into())
            }
            written => Ok(written?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

    /// Output on which each write blocks until the test reads the written bytes.
    struct BlockingOutput(SyncSender<Vec<u8>>, Sender<()>);

    impl Write for BlockingOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.send(()).unwrap();
            self.0.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn unread() -> (LineWriter, Receiver<Vec<u8>>, Receiver<()>) {
        let (output, read) = sync_channel(0);
        let (begins, has_begun) = channel();
        (LineWriter::start(BlockingOutput(output, begins)).unwrap(), read, has_begun)
    }

    fn report(count: u64) -> Vec<u8> {
        format!("{count} dropped\n").into_bytes()
    }

    // attack row 118
    #[test]
    fn unread_lines_are_dropped_and_counted_without_blocking() {
        let (writer, read, has_begun) = unread();
        writer.put(b"first\n", report);
        has_begun.recv().unwrap();
        let line = [b'x'; 1024];
        for _ in 0..2 * QUEUE_MAX_BYTES / line.len() {
            writer.put(&line, report);
        }
        assert_eq!(read.recv().unwrap(), b"first\n");
        let received = read.recv().unwrap();
        assert!(received.ends_with(b"x1024 dropped\n"), "{}", received.len());
        assert_eq!(received.len(), QUEUE_MAX_BYTES + b"1024 dropped\n".len());
        writer.put(b"last\n", report);
        assert_eq!(read.recv().unwrap(), b"last\n");
    }

    #[test]
    fn a_flush_waits_for_written_lines_up_to_its_limit() {
        let (writer, read, has_begun) = unread();
        assert!(writer.flush(Duration::from_secs(600)));
        writer.put(b"a\n", report);
        has_begun.recv().unwrap();
        assert!(!writer.flush(Duration::from_millis(1)));
        assert_eq!(read.recv().unwrap(), b"a\n");
        assert!(writer.flush(Duration::from_secs(600)));
        drop(read);
        writer.put(b"b\n", report);
        assert!(!writer.flush(Duration::from_secs(600)));
    }

    #[test]
    fn lines_are_written_again_after_failed_writes_with_the_number_of_lost_lines() {
        /// Output with space for a number of bytes, and its content.
        #[derive(Clone, Default)]
        struct LimitedOutput(Arc<Mutex<(usize, Vec<u8>)>>);

        impl Write for LimitedOutput {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut content = self.0.lock().unwrap();
                let count = bytes.len().min(content.0);
                if count == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                content.0 -= count;
                content.1.extend_from_slice(bytes.get(..count).unwrap());
                Ok(count)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let output = LimitedOutput::default();
        let writer = LineWriter::start(output.clone()).unwrap();
        let limit = Duration::from_secs(600);
        for (space, line, is_written) in [
            (2, b"a\n".as_slice(), true),
            (0, b"b\n", false),
            (0, b"c\nd\n", false),
            (100, b"e\n", true),
            // The first part of the line does not count.
            (1, b"ff\n", false),
            (100, b"g\n", true),
            (0, b"h\n", false),
            // There is space for the report of the lost line, but not for the next line.
            (b"1 dropped\n".len(), b"i\n", false),
            (100, b"j\n", true),
        ] {
            output.0.lock().unwrap().0 = space;
            writer.put(line, report);
            assert_eq!(writer.flush(limit), is_written, "{line:?}");
        }
        let text = String::from_utf8(output.0.lock().unwrap().1.clone()).unwrap();
        let expected = "a\n3 dropped\ne\nf1 dropped\ng\n1 dropped\n1 dropped\nj\n";
        assert_eq!(text, expected);
    }
}
