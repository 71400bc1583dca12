//! Writer of transfer records.
//!
//! Records are collected for a short time, so that many small transfers cost one write. Pending
//! records are written when the server ends; a crash loses them.
//!
//! Data accepted by TCP has not necessarily reached the client. The record of a large file that was
//! sent therefore waits, together with its connection, which is closed for writing, until all data
//! is acknowledged.

use super::log::{Event, Log};
use super::metrics::Metrics;
use crate::transfer_recorder::{Record, Recorder, Session, TICK, nanos, of_settled};
use records::transfer::{Command, Host, Outcome, Role, Stack, Tcp};
use std::cell::{Cell, RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time for which records are collected before they are written.
const SOON: Duration = Duration::from_millis(200);

/// Burst size of records of refused transfers, and the rate per second after it. Our choice.
const REFUSALS_MAX: f64 = 1000.0;
const REFUSALS_PER_SECOND: f64 = 10.0;

/// Maximum number of connections that wait for acknowledgment, and maximum time of each.
const UNSETTLED_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// A file that was handed to TCP and is not yet acknowledged.
#[derive(Debug)]
struct Unsettled {
    record: Record,
    connection: OwnedFd,
    began: Instant,
    given: Instant,
}

/// Writer of transfer records.
#[derive(Debug)]
pub(super) struct TransferLog {
    recorder: Recorder,
    metrics: RefCell<Metrics>,
    unsettled: RefCell<Vec<Unsettled>>,
    /// Whether a task that writes pending records is running.
    is_due: Cell<bool>,
    /// Token bucket for records of refused transfers: tokens left, and time of the last update.
    refusals: Cell<(f64, Instant)>,
}

impl TransferLog {
    /// Creates a writer for records in `folder`, or one that only counts metrics if it is `None`.
    pub(super) fn new(folder: Option<&Path>, log: Log) -> Self {
        // This is an error, so it is logged in quiet mode too.
        let log = Log { is_quiet: false, ..log };
        let tell = move |why: &str| log.say(&Event::NoTransferRecord { why: why.to_owned() });
        Self {
            recorder: Recorder::open(folder, tell),
            metrics: RefCell::default(),
            unsettled: RefCell::default(),
            is_due: Cell::new(false),
            refusals: Cell::new((REFUSALS_MAX, Instant::now())),
        }
    }

    /// Borrows the metrics.
    pub(super) fn metrics(&self) -> RefMut<'_, Metrics> {
        self.metrics.borrow_mut()
    }

    /// Starts the records of a session.
    pub(super) fn session(&self) -> Session {
        self.recorder.session()
    }

    /// Starts the record of a transfer; its command arrives now.
    pub(super) fn begin(&self, command: Option<Command>) -> Record {
        self.recorder.begin(Role::Server, Stack::Kernel, command)
    }

    /// Returns the description of this machine for the first record of a session.
    pub(super) fn host(&self) -> Host {
        self.recorder.host()
    }

    /// Queues a record for writing. Records of transfers refused before any byte moved are
    /// rate-limited, because a client can request any number of them; excess ones are only counted.
    pub(super) fn keep(self: &Rc<Self>, record: &Record) {
        let mut metrics = self.metrics.borrow_mut();
        metrics.observe(&record.transfer);
        let is_refusal = record.transfer.result.outcome != Some(Outcome::Complete)
            && record.transfer.size.wire_bytes.unwrap_or(0) == 0;
        if is_refusal && !self.may_keep_refusal() {
            return metrics.leave_record_out();
        }
        drop(metrics);
        self.write(record);
    }

    /// Takes a token from a bucket of [`REFUSALS_MAX`], refilled at [`REFUSALS_PER_SECOND`].
    fn may_keep_refusal(&self) -> bool {
        let (left, since) = self.refusals.get();
        let (now, earned) = (Instant::now(), since.elapsed().as_secs_f64() * REFUSALS_PER_SECOND);
        let left = (left + earned).min(REFUSALS_MAX);
        self.refusals.set((if left >= 1.0 { left - 1.0 } else { left }, now));
        left >= 1.0
    }

    fn write(self: &Rc<Self>, record: &Record) {
        if self.recorder.is_on() {
            self.recorder.keep(record);
            self.rouse();
        }
    }

    /// Keeps the record of a file sent over `connection` since `began`, once all of it is
    /// acknowledged or can no longer be waited for.
    pub(super) fn keep_settled(
        self: &Rc<Self>,
        mut record: Record,
        connection: OwnedFd,
        began: Instant,
    ) {
        self.metrics.borrow_mut().observe(&record.transfer);
        if !self.recorder.is_on() || self.unsettled.borrow().len() >= UNSETTLED_MAX {
            // The arrival time is unknown.
            record.transfer.time.ns_transfer = None;
            return self.write(&record);
        }
        let given = Instant::now();
        self.unsettled.borrow_mut().push(Unsettled { record, connection, began, given });
        self.rouse();
    }

    /// Starts the task that writes pending records, unless it is running.
    fn rouse(self: &Rc<Self>) {
        if self.is_due.replace(true) {
            return;
        }
        let transfer_log = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(SOON).await;
                transfer_log.settle();
                transfer_log.recorder.flush();
                if transfer_log.unsettled.borrow().is_empty() {
                    break transfer_log.is_due.set(false);
                }
            }
        });
    }

    /// Writes the records of files that are acknowledged or have waited too long.
    fn settle(&self) {
        self.unsettled.borrow_mut().retain_mut(|one| {
            if let Some((ago, tcp)) = of_settled(&one.connection) {
                // TCP_INFO ages have tick resolution. One tick is subtracted, so that an arrival
                // within a tick of the recorded end does not replace the more precise time.
                let arrived = Instant::now().checked_sub(ago + TICK).unwrap_or(one.given);
                one.record.last_until(arrived);
                let transfer = &mut one.record.transfer;
                let sent = nanos(arrived.saturating_duration_since(one.began));
                transfer.time.ns_transfer = transfer.time.ns_transfer.max(Some(sent));
                transfer.tcp = Tcp { streams: transfer.tcp.streams, ..tcp };
            } else if one.given.elapsed() < PATIENCE {
                return true;
            } else {
                one.record.transfer.time.ns_transfer = None;
            }
            self.recorder.keep(&one.record);
            false
        });
    }

    /// Writes all pending records, acknowledged or not.
    pub(super) fn close(&self) {
        self.settle();
        for mut one in self.unsettled.take() {
            // The arrival time remains unknown.
            one.record.transfer.time.ns_transfer = None;
            self.recorder.keep(&one.record);
        }
        self.recorder.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn of_a_file_that_has_not_arrived_no_time_is_told() {
        let seed = os::entropy::seed().unwrap();
        let folder = std::env::temp_dir().join(format!("plumb-transfer-log-{seed:x}"));
        let transfer_log =
            Rc::new(TransferLog::new(Some(&folder), Log { is_json: false, is_quiet: true }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        // Nothing reads the stream, so that some data stays in the send buffer.
        while near.write(&[0; 65_536]).is_ok() {}
        let mut record = transfer_log.begin(Some(Command::Retr));
        record.transfer.time.ns_transfer = Some(4_711);
        let here = tokio::task::LocalSet::new();
        let _entered = here.enter();
        transfer_log.keep_settled(record.clone(), near.into(), Instant::now());
        transfer_log.close();
        transfer_log.keep(&record);
        transfer_log.close();
        let segment = records::journal::segments(&folder).unwrap().remove(0);
        let text = std::fs::read_to_string(segment.path).unwrap();
        let told: Vec<bool> = text.lines().map(|line| line.contains("4711")).collect();
        assert_eq!(told, [false, true], "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    // attack row 148
    #[tokio::test]
    async fn records_of_refused_transfers_are_limited_and_counted() {
        let seed = os::entropy::seed().unwrap();
        let folder = std::env::temp_dir().join(format!("plumb-transfer-log-{seed:x}"));
        let transfer_log =
            Rc::new(TransferLog::new(Some(&folder), Log { is_json: false, is_quiet: true }));
        let here = tokio::task::LocalSet::new();
        let _entered = here.enter();
        let mut record = transfer_log.begin(Some(Command::Retr));
        record.transfer.result.outcome = Some(Outcome::Refused);
        // Fewer tokens than the limit are refilled meanwhile.
        (0..3000).for_each(|_| transfer_log.keep(&record));
        record.transfer.result.outcome = Some(Outcome::Complete);
        transfer_log.keep(&record);
        transfer_log.close();
        let segment = records::journal::segments(&folder).unwrap().remove(0);
        let text = std::fs::read_to_string(segment.path).unwrap();
        let refused = text.lines().filter(|line| line.contains("refused")).count();
        assert!((1000..2000).contains(&refused), "{refused}");
        assert!(text.lines().last().unwrap().contains("complete"));
        let left_out = 3000 - refused;
        let metrics = transfer_log.metrics().text(&[]);
        let line = format!("plumb_transfer_records_left_out_total{{}} {left_out}");
        assert!(metrics.contains(&line), "{metrics}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
