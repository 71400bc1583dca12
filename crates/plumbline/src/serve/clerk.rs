//! Who keeps the records of what is served.
//!
//! A record waits a little for others, so that many small transfers are one write. What waits is
//! written when the server ends; a crash loses it.

use super::log::{Event, Log};
use crate::transfers::{Record, Recorder, Session};
use records::transfer::{Command, Host, Role, Stack};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// How long a record waits for others.
const SOON: Duration = Duration::from_millis(200);

/// Who keeps the records of what is served.
#[derive(Debug)]
pub(super) struct Clerk {
    recorder: Recorder,
    /// Whether somebody will write what waits.
    is_due: Cell<bool>,
}

impl Clerk {
    /// Makes one who keeps records in `folder`, if there is one.
    pub(super) fn new(folder: Option<&Path>, log: Log) -> Self {
        // It is an error, which those too are told who want to hear of nothing else.
        let log = Log { is_quiet: false, ..log };
        let tell = move |why: &str| log.say(&Event::NoTransferRecord { why: why.to_owned() });
        Self { recorder: Recorder::open(folder, tell), is_due: Cell::new(false) }
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

    /// Keeps a record; it is written soon.
    pub(super) fn keep(self: &Rc<Self>, record: &Record) {
        if !self.recorder.is_on() {
            return;
        }
        self.recorder.keep(record);
        if self.is_due.replace(true) {
            return;
        }
        let clerk = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(SOON).await;
            clerk.flush();
        });
    }

    /// Writes what waits.
    pub(super) fn flush(&self) {
        self.is_due.set(false);
        self.recorder.flush();
    }
}
