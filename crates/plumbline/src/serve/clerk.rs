//! Who keeps the records of what is served.
//!
//! A record waits a little for others, so that many small transfers are one write. What waits is
//! written when the server ends; a crash loses it.
//!
//! What a server has given to TCP is not with the far side yet. The record of a large file that went
//! out waits with its connection, which is closed for writing, until all is acknowledged.

use super::log::{Event, Log};
use super::metrics::Metrics;
use crate::transfers::{Record, Recorder, Session, TICK, nanos, of_settled};
use records::transfer::{Command, Host, Outcome, Role, Stack, Tcp};
use std::cell::{Cell, RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a record waits for others.
const SOON: Duration = Duration::from_millis(200);

/// How many records of refused transfers are kept at once, and how many a second after that; ours.
const REFUSALS_MAX: f64 = 1000.0;
const REFUSALS_PER_SECOND: f64 = 10.0;

/// How many connections wait at most, and how long.
const UNSETTLED_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// A file that has been given to TCP.
#[derive(Debug)]
struct Unsettled {
    record: Record,
    connection: OwnedFd,
    began: Instant,
    given: Instant,
}

/// Who keeps the records of what is served.
#[derive(Debug)]
pub(super) struct Clerk {
    recorder: Recorder,
    metrics: RefCell<Metrics>,
    unsettled: RefCell<Vec<Unsettled>>,
    /// Whether somebody will write what waits.
    is_due: Cell<bool>,
    /// Records of refused transfers that may still be kept, and since when.
    refusals: Cell<(f64, Instant)>,
}

impl Clerk {
    /// Makes one who keeps records in `folder`, if there is one.
    pub(super) fn new(folder: Option<&Path>, log: Log) -> Self {
        // It is an error, which those too are told who want to hear of nothing else.
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

    /// Lends what is counted for those who watch.
    pub(super) fn metrics(&self) -> RefMut<'_, Metrics> {
        self.metrics.borrow_mut()
    }

    /// Begins a session.
    pub(super) fn session(&self) -> Session {
        self.recorder.session()
    }

    /// Begins the record of a transfer whose command is given now.
    pub(super) fn begin(&self, command: Option<Command>) -> Record {
        self.recorder.begin(Role::Server, Stack::Kernel, command)
    }

    /// Returns what machine this is, for the first record of a session.
    pub(super) fn host(&self) -> Host {
        self.recorder.host()
    }

    /// Keeps a record; it is written soon. Of transfers that were refused before anything moved, a
    /// client may ask for any number at once: some of their records are kept, and the others counted.
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

    /// Takes one of [`REFUSALS_MAX`] records, of which [`REFUSALS_PER_SECOND`] come back.
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

    /// Keeps the record of a file that has been given to `connection`, and is sent since `began`,
    /// when all of it has arrived, or nobody can wait for it.
    pub(super) fn keep_settled(
        self: &Rc<Self>,
        mut record: Record,
        connection: OwnedFd,
        began: Instant,
    ) {
        self.metrics.borrow_mut().observe(&record.transfer);
        if !self.recorder.is_on() || self.unsettled.borrow().len() >= UNSETTLED_MAX {
            // Nobody knows when it arrives.
            record.transfer.time.ns_transfer = None;
            return self.write(&record);
        }
        let given = Instant::now();
        self.unsettled.borrow_mut().push(Unsettled { record, connection, began, given });
        self.rouse();
    }

    /// Has somebody write what waits.
    fn rouse(self: &Rc<Self>) {
        if self.is_due.replace(true) {
            return;
        }
        let clerk = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(SOON).await;
                clerk.settle();
                clerk.recorder.flush();
                if clerk.unsettled.borrow().is_empty() {
                    break clerk.is_due.set(false);
                }
            }
        });
    }

    /// Takes up the records of files that have arrived.
    fn settle(&self) {
        self.unsettled.borrow_mut().retain_mut(|one| {
            if let Some((ago, tcp)) = of_settled(&one.connection) {
                // What is nearer than a tick is known better already.
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

    /// Writes what waits, settled or not.
    pub(super) fn close(&self) {
        self.settle();
        for mut one in self.unsettled.take() {
            // Nobody will know when it arrives.
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
        let folder = std::env::temp_dir().join(format!("plumb-clerk-{seed:x}"));
        let clerk = Rc::new(Clerk::new(Some(&folder), Log { is_json: false, is_quiet: true }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        // Nobody reads it, so that some of it stays with us.
        while near.write(&[0; 65_536]).is_ok() {}
        let mut record = clerk.begin(Some(Command::Retr));
        record.transfer.time.ns_transfer = Some(4_711);
        let here = tokio::task::LocalSet::new();
        let _entered = here.enter();
        clerk.keep_settled(record.clone(), near.into(), Instant::now());
        clerk.close();
        clerk.keep(&record);
        clerk.close();
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
        let folder = std::env::temp_dir().join(format!("plumb-clerk-{seed:x}"));
        let clerk = Rc::new(Clerk::new(Some(&folder), Log { is_json: false, is_quiet: true }));
        let here = tokio::task::LocalSet::new();
        let _entered = here.enter();
        let mut record = clerk.begin(Some(Command::Retr));
        record.transfer.result.outcome = Some(Outcome::Refused);
        // Fewer than the limit come back meanwhile.
        (0..3000).for_each(|_| clerk.keep(&record));
        record.transfer.result.outcome = Some(Outcome::Complete);
        clerk.keep(&record);
        clerk.close();
        let segment = records::journal::segments(&folder).unwrap().remove(0);
        let text = std::fs::read_to_string(segment.path).unwrap();
        let refused = text.lines().filter(|line| line.contains("refused")).count();
        assert!((1000..2000).contains(&refused), "{refused}");
        assert!(text.lines().last().unwrap().contains("complete"));
        let left_out = 3000 - refused;
        let metrics = clerk.metrics().text(&[]);
        let line = format!("plumb_transfer_records_left_out_total{{}} {left_out}");
        assert!(metrics.contains(&line), "{metrics}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
