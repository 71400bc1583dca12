//! Writer of transfer records.
//!
//! Records are collected for a short time, so that many small transfers cost one write. Pending
//! records are written when the server ends; a crash loses them.
//!
//! Data accepted by TCP has not necessarily reached the client. After a large file was sent, the
//! server therefore keeps the record and the connection, which is closed for writing, until all
//! data is acknowledged.

use super::log::{Log, ServeEvent};
use super::metrics::Metrics;
use records::transfer::{Command, Host, Outcome, Role, Stack, Tcp};
use std::cell::{Cell, RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use transfer::recorder::{Record, RecordedSession, TICK, TransferRecorder, nanos, of_settled};

/// Time for which records are collected before they are written.
const FLUSH_DELAY: Duration = Duration::from_millis(200);

/// Token bucket that limits records of refused transfers: burst size, and refill rate per second.
/// Our choice.
const REFUSALS_MAX: f64 = 1000.0;
const REFUSALS_PER_SECOND: f64 = 10.0;

/// Maximum number of connections that wait for acknowledgment, and maximum wait of each connection.
const UNACKNOWLEDGED_MAX: usize = 64;
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A file that was handed to TCP and is not yet acknowledged.
#[derive(Debug)]
struct UnacknowledgedFile {
    record: Record,
    connection: OwnedFd,
    started_at: Instant,
    handed_over_at: Instant,
}

/// Writer of transfer records.
#[derive(Debug)]
pub(super) struct TransferLog {
    /// Directory of the records; `None` if none are written.
    directory: RefCell<Option<PathBuf>>,
    recorder: RefCell<Rc<TransferRecorder>>,
    log: Log,
    metrics: RefCell<Metrics>,
    unacknowledged: RefCell<Vec<UnacknowledgedFile>>,
    /// Whether a task that writes pending records is running.
    is_flush_scheduled: Cell<bool>,
    /// Token bucket for records of refused transfers: tokens left, and time of the last update.
    refusals: Cell<(f64, Instant)>,
}

impl TransferLog {
    /// Creates a writer for records in `directory`. If `directory` is `None`, the writer only
    /// updates the metrics.
    pub(super) fn new(directory: Option<&Path>, log: Log) -> Self {
        // A failure to write records is an error, so it is logged in quiet mode too.
        let log = Log { is_quiet: false, ..log };
        Self {
            directory: RefCell::new(directory.map(Path::to_owned)),
            recorder: RefCell::new(Rc::new(open(directory, log))),
            log,
            metrics: RefCell::default(),
            unacknowledged: RefCell::default(),
            is_flush_scheduled: Cell::new(false),
            refusals: Cell::new((REFUSALS_MAX, Instant::now())),
        }
    }

    /// Writes further records to `directory`, or none.
    pub(super) fn set_directory(&self, directory: Option<&Path>) {
        if self.directory.borrow().as_deref() == directory {
            return;
        }
        self.recorder().flush();
        self.recorder.replace(Rc::new(open(directory, self.log)));
        self.directory.replace(directory.map(Path::to_owned));
    }

    fn recorder(&self) -> Rc<TransferRecorder> {
        Rc::clone(&self.recorder.borrow())
    }

    /// Borrows the metrics.
    pub(super) fn metrics(&self) -> RefMut<'_, Metrics> {
        self.metrics.borrow_mut()
    }

    /// Returns the numbering of the transfer records of a new session.
    pub(super) fn session(&self) -> RecordedSession {
        self.recorder().session()
    }

    /// Starts the record of a transfer whose command has just arrived.
    pub(super) fn begin(&self, command: Option<Command>) -> Record {
        self.recorder().begin(Role::Server, Stack::Kernel, command)
    }

    /// Returns the description of this machine for the first record of a session.
    pub(super) fn host(&self) -> Host {
        self.recorder().host()
    }

    /// Queues a record for writing. Records of transfers refused before any byte moved are
    /// rate-limited, because a client can request any number of them; excess records are only
    /// counted.
    pub(super) fn keep(self: &Rc<Self>, record: &Record) {
        let mut metrics = self.metrics.borrow_mut();
        metrics.observe(&record.transfer);
        let is_refusal = record.transfer.result.outcome != Some(Outcome::Complete)
            && record.transfer.size.wire_bytes.unwrap_or(0) == 0;
        if is_refusal && !self.may_keep_refusal() {
            return metrics.count_omitted_record();
        }
        drop(metrics);
        self.write(record);
    }

    /// Takes a token from a bucket of [`REFUSALS_MAX`], refilled at [`REFUSALS_PER_SECOND`].
    fn may_keep_refusal(&self) -> bool {
        let (tokens, since) = self.refusals.get();
        let now = Instant::now();
        let refill = since.elapsed().as_secs_f64() * REFUSALS_PER_SECOND;
        let tokens = (tokens + refill).min(REFUSALS_MAX);
        self.refusals.set((if tokens >= 1.0 { tokens - 1.0 } else { tokens }, now));
        tokens >= 1.0
    }

    fn write(self: &Rc<Self>, record: &Record) {
        if self.recorder().is_recording() {
            self.recorder().keep(record);
            self.schedule_flush();
        }
    }

    /// Queues the record of a file sent over `connection` since `started_at`. The record is written
    /// when all data is acknowledged or [`ACK_TIMEOUT`] has expired. If too many connections are
    /// already waiting, the record is written without the arrival time.
    pub(super) fn keep_until_acknowledged(
        self: &Rc<Self>,
        mut record: Record,
        connection: OwnedFd,
        started_at: Instant,
    ) {
        self.metrics.borrow_mut().observe(&record.transfer);
        let is_waiting_list_full = self.unacknowledged.borrow().len() >= UNACKNOWLEDGED_MAX;
        if !self.recorder().is_recording() || is_waiting_list_full {
            // The arrival time is unknown.
            record.transfer.time.transfer_ns = None;
            return self.write(&record);
        }
        let handed_over_at = Instant::now();
        self.unacknowledged.borrow_mut().push(UnacknowledgedFile {
            record,
            connection,
            started_at,
            handed_over_at,
        });
        self.schedule_flush();
    }

    /// Starts the task that writes pending records if the task is not running yet.
    fn schedule_flush(self: &Rc<Self>) {
        if self.is_flush_scheduled.replace(true) {
            return;
        }
        let transfer_log = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(FLUSH_DELAY).await;
                transfer_log.write_acknowledged();
                transfer_log.recorder().flush();
                if transfer_log.unacknowledged.borrow().is_empty() {
                    break transfer_log.is_flush_scheduled.set(false);
                }
            }
        });
    }

    /// Writes the records of sent files that are fully acknowledged or whose [`ACK_TIMEOUT`] has
    /// expired.
    fn write_acknowledged(&self) {
        self.unacknowledged.borrow_mut().retain_mut(|file| {
            if let Some((ago, tcp)) = of_settled(&file.connection) {
                // TCP_INFO ages have tick resolution. One tick is subtracted, so that an arrival
                // within a tick of the recorded end does not replace the more precise time.
                let arrived_at =
                    Instant::now().checked_sub(ago + TICK).unwrap_or(file.handed_over_at);
                file.record.extend_until(arrived_at);
                let transfer = &mut file.record.transfer;
                let elapsed_ns = nanos(arrived_at.saturating_duration_since(file.started_at));
                transfer.time.transfer_ns = transfer.time.transfer_ns.max(Some(elapsed_ns));
                transfer.tcp = Tcp { streams: transfer.tcp.streams, ..tcp };
            } else if file.handed_over_at.elapsed() < ACK_TIMEOUT {
                return true;
            } else {
                file.record.transfer.time.transfer_ns = None;
            }
            self.recorder().keep(&file.record);
            false
        });
    }

    /// Writes all pending records, including the records of files that are not fully acknowledged.
    pub(super) fn close(&self) {
        self.write_acknowledged();
        for mut file in self.unacknowledged.take() {
            // The arrival time remains unknown.
            file.record.transfer.time.transfer_ns = None;
            self.recorder().keep(&file.record);
        }
        self.recorder().flush();
    }
}

fn open(directory: Option<&Path>, log: Log) -> TransferRecorder {
    let log_error =
        move |why: &str| log.write(&ServeEvent::NoTransferRecord { why: why.to_owned() });
    TransferRecorder::open(directory, log_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_file_that_has_not_arrived_has_no_recorded_time() {
        let seed = os::entropy::seed().unwrap();
        let directory = std::env::temp_dir().join(format!("plumb-transfer-log-{seed:x}"));
        let transfer_log =
            Rc::new(TransferLog::new(Some(&directory), Log { is_json: false, is_quiet: true }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut local = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _remote = listener.accept().unwrap();
        local.set_nonblocking(true).unwrap();
        // Nothing reads the stream, so that some data stays in the send buffer.
        while local.write(&[0; 65_536]).is_ok() {}
        let mut record = transfer_log.begin(Some(Command::Retr));
        record.transfer.time.transfer_ns = Some(4_711);
        let local_set = tokio::task::LocalSet::new();
        let _entered = local_set.enter();
        transfer_log.keep_until_acknowledged(record.clone(), local.into(), Instant::now());
        transfer_log.close();
        transfer_log.keep(&record);
        transfer_log.close();
        let segment = records::journal::segments(&directory).unwrap().remove(0);
        let text = std::fs::read_to_string(segment.path).unwrap();
        let has_time: Vec<bool> = text.lines().map(|line| line.contains("4711")).collect();
        assert_eq!(has_time, [false, true], "{text}");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    // attack row 148
    #[tokio::test]
    async fn records_of_refused_transfers_are_limited_and_counted() {
        let seed = os::entropy::seed().unwrap();
        let directory = std::env::temp_dir().join(format!("plumb-transfer-log-{seed:x}"));
        let transfer_log =
            Rc::new(TransferLog::new(Some(&directory), Log { is_json: false, is_quiet: true }));
        let local_set = tokio::task::LocalSet::new();
        let _entered = local_set.enter();
        let mut record = transfer_log.begin(Some(Command::Retr));
        record.transfer.result.outcome = Some(Outcome::Refused);
        // The bucket holds 1000 tokens, and fewer than 1000 are refilled during the loop.
        (0..3000).for_each(|_| transfer_log.keep(&record));
        record.transfer.result.outcome = Some(Outcome::Complete);
        transfer_log.keep(&record);
        transfer_log.close();
        let segment = records::journal::segments(&directory).unwrap().remove(0);
        let text = std::fs::read_to_string(segment.path).unwrap();
        let refused_count = text.lines().filter(|line| line.contains("refused")).count();
        assert!((1000..2000).contains(&refused_count), "{refused_count}");
        assert!(text.lines().last().unwrap().contains("complete"));
        let dropped_records = 3000 - refused_count;
        let metrics = transfer_log.metrics().text(&[]);
        let line = format!("plumb_transfer_records_left_out_total{{}} {dropped_records}");
        assert!(metrics.contains(&line), "{metrics}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
