//! Creates transfer records and writes them to the journal.

use super::record::{Record, nanos};
use os::load::Machine;
use os::state_directory::state_directory;
use records::journal::{Event, Journal, Settings};
use records::transfer::{Command, Host, Identifier, Role, Stack, Text, Transfer};
use std::fmt;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Value of `sysinfo(2)` for a load average of 1.
const LOAD_SCALE: u64 = 1 << 16;

/// Directory of the transfer records of the packaged service.
pub const SERVICE_RECORDS: &str = "/var/lib/plumb/transfers";

/// Returns the directory of the transfer records of the user.
pub fn records_directory() -> PathBuf {
    state_directory().join("transfers")
}

/// Returns the directory of the journal in a state directory, to which records are written first.
pub fn journal_directory_in(state_directory: &Path) -> PathBuf {
    state_directory.join("transfers/journal")
}

/// Creates records and writes them to the journal.
pub struct TransferRecorder {
    /// `None` if no records are kept.
    journal: Option<Mutex<Journal>>,
    /// Random number that distinguishes the identifiers of this process from those of other
    /// processes.
    random: u64,
    count: AtomicU64,
    host: Host,
    version: Text,
    program: Text,
    /// Reports that the journal cannot be written.
    report: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for TransferRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferRecorder").field("is_recording", &self.journal.is_some()).finish()
    }
}

/// A session whose transfers are numbered.
#[derive(Debug)]
pub struct RecordedSession {
    id: Identifier,
    transfers: u64,
}

impl RecordedSession {
    /// Assigns `record` its number in the session, and returns whether it is the first record.
    pub fn number(&mut self, record: &mut Record) -> bool {
        self.transfers += 1;
        record.transfer.identity.session_id = Some(self.id);
        record.transfer.identity.seq = Some(self.transfers);
        self.transfers == 1
    }
}

impl TransferRecorder {
    /// Creates a recorder for a client command, which writes to the journal of the user. Errors are
    /// passed to `report`. A user without a writable home directory, as in a container, has no
    /// journal and gets no message.
    pub fn for_client(is_wanted: bool, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let directory = journal_directory_in(&state_directory());
        let is_writable = |directory: &Path| {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            !matches!(
                created.map_err(|error| error.kind()),
                Err(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
            )
        };
        let is_wanted = is_wanted && is_writable(&directory);
        Self::open(is_wanted.then_some(directory.as_path()), report)
    }

    /// Creates a recorder that keeps no records.
    pub fn off() -> Self {
        Self::open(None, |_| {})
    }

    /// Opens the journal in `directory`; without a directory, no records are kept. Errors are
    /// passed to `report`.
    pub fn open(directory: Option<&Path>, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let journal = directory.and_then(|directory| {
            let open_result = Journal::open(directory, Settings::default());
            let report_failure = |error| {
                report(&format!(
                    "cannot record transfers in {}: {error}; make it writable for user ID {}, or \
                     disable records with --no-record",
                    directory.display(),
                    os::user::effective_id()
                ));
            };
            open_result.map_err(report_failure).ok()
        });
        let machine = journal.is_some().then(Machine::current);
        let host = machine.map(|machine| Host {
            cpu_model: machine.processor.as_deref().map(Text::from),
            cpus: machine.processors.and_then(|count| u64::try_from(count).ok()),
            load1_hundredths: None,
            kernel: Some(Text::from(&machine.kernel)),
        });
        Self {
            journal: journal.map(Mutex::new),
            // Without entropy, identifiers depend on the time and the count only.
            random: os::entropy::seed().unwrap_or(0),
            count: AtomicU64::new(0),
            host: host.unwrap_or_default(),
            version: Text::from(env!("CARGO_PKG_VERSION")),
            program: Text::from("plumb"),
            report: Box::new(report),
        }
    }

    fn new_identifier(&self, unix_ns: u64) -> Identifier {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // An odd factor maps each count to a different number, spread over the whole range.
        let spread = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Identifier::new(unix_ns, self.random.wrapping_add(spread))
    }

    /// Begins a session.
    pub fn session(&self) -> RecordedSession {
        RecordedSession { id: self.new_identifier(unix_ns()), transfers: 0 }
    }

    /// Begins the record of a transfer whose command is given now.
    pub fn begin(&self, role: Role, stack: Stack, command: Option<Command>) -> Record {
        let unix_ns = unix_ns();
        let mut transfer = Transfer::new(self.new_identifier(unix_ns));
        transfer.identity.role = Some(role);
        transfer.identity.stack = Some(stack);
        transfer.identity.program = Some(self.program.clone());
        transfer.identity.version = Some(self.version.clone());
        transfer.request.command = command;
        transfer.time.start_unix_ns = Some(unix_ns);
        transfer.time.start_boot_ns = Some(nanos(os::clock::boot_time()));
        Record { transfer, began: Instant::now() }
    }

    /// Returns the machine and its load, for the first record of a session.
    pub fn host(&self) -> Host {
        let load = rustix::system::sysinfo().loads.first().copied();
        let hundredths = |load: u64| load.saturating_mul(100) / LOAD_SCALE;
        // The kernel's `long` has 32 bits on some machines.
        #[allow(
            clippy::useless_conversion,
            reason = "the element type of `loads` differs between platforms"
        )]
        let load = load.and_then(|load| u64::try_from(load).ok());
        Host { load1_hundredths: load.map(hundredths), ..self.host.clone() }
    }

    /// Queues a record for the journal. The record is in the file when [`Self::flush`] returns.
    pub fn keep(&self, record: &Record) {
        self.with_journal(|journal| journal.append(&record.transfer));
    }

    /// Returns whether records are kept.
    pub fn is_recording(&self) -> bool {
        self.journal.is_some()
    }

    /// Writes the kept records to the journal.
    pub fn flush(&self) {
        self.with_journal(Journal::flush);
    }

    fn with_journal(&self, act: impl FnOnce(&mut Journal)) {
        let Some(journal) = &self.journal else { return };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut journal);
        match journal.event() {
            Some(Event::Failing(error)) => (self.report)(&format!(
                "cannot write transfer records: {error}; transfers continue without records until \
                 the error is corrected"
            )),
            Some(Event::Resumed { lost: 0 }) | None => {}
            Some(Event::Resumed { lost }) => (self.report)(&format!(
                "transfer records are written again; {lost} records were lost"
            )),
        }
    }
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}
