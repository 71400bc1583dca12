//! Records of current logins (`utmp`) and past logins (`wtmp`), as displayed by `who` and `last`.
//!
//! A failure to write a record is no reason to refuse a login: many machines have no such files.

use std::ffi::{CStr, CString};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// File with the history of logins.
const WTMP: &CStr = c"/var/log/wtmp";

/// The login database, which is global state of the C library that only one thread may use at a
/// time. The server runs sessions in two threads, so every access uses this lock.
static DATABASE: Mutex<Database> = Mutex::new(Database(()));

/// Permission to call the database functions of the C library, held by one thread at a time.
struct Database(());

impl Database {
    /// Writes `record` to the database, and appends it to the file `wtmp`.
    fn put(&mut self, record: &libc::utmpx, wtmp: &CStr) -> io::Result<()> {
        // SAFETY: the record is initialized and outlives the calls; the name is NUL-terminated. No
        // other thread is in these functions: there is one `Database`, and it is borrowed mutably.
        unsafe {
            libc::setutxent();
            let pointer = libc::pututxline(record);
            let error = io::Error::last_os_error();
            libc::endutxent();
            updwtmpx(wtmp.as_ptr(), record);
            if pointer.is_null() { Err(error) } else { Ok(()) }
        }
    }
}

/// One login at one terminal.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the terminal, without `/dev/`.
    line: Vec<u8>,
    process_id: i32,
    host: IpAddr,
    wtmp: CString,
}

impl Entry {
    /// Creates the entry for a login from `host` on the terminal at `path`, in the process
    /// `process_id`.
    #[must_use]
    pub fn new(path: &Path, process_id: u32, host: IpAddr) -> Self {
        let path = path.as_os_str().as_encoded_bytes();
        let line = path.strip_prefix(b"/dev/").unwrap_or(path).to_vec();
        Self {
            line,
            process_id: i32::try_from(process_id).unwrap_or(0),
            host,
            wtmp: WTMP.to_owned(),
        }
    }

    /// Records the login of `user`.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not exist or may not be written.
    pub fn log_in(&self, user: &str) -> io::Result<()> {
        self.write(libc::USER_PROCESS, user)
    }

    /// Records the end of the login on this terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not exist or may not be written.
    pub fn log_out(&self) -> io::Result<()> {
        self.write(libc::DEAD_PROCESS, "")
    }

    fn write(&self, kind: libc::c_short, user: &str) -> io::Result<()> {
        let record = self.record(kind, user);
        DATABASE.lock().unwrap_or_else(PoisonError::into_inner).put(&record, &self.wtmp)
    }

    fn record(&self, kind: libc::c_short, user: &str) -> libc::utmpx {
        // SAFETY: all fields are integers and arrays of integers, so all zeros are a valid value.
        let mut record: libc::utmpx = unsafe { std::mem::zeroed() };
        record.ut_type = kind;
        record.ut_pid = self.process_id;
        fill(&mut record.ut_line, &self.line);
        // `ut_id` identifies the entry; by convention it is the end of the terminal's name.
        let tail = self.line.len().saturating_sub(record.ut_id.len());
        fill(&mut record.ut_id, self.line.get(tail..).unwrap_or_default());
        fill(&mut record.ut_user, user.as_bytes());
        fill(&mut record.ut_host, self.host.to_string().as_bytes());
        record.ut_addr_v6 = address_words(self.host).map(|word| word as _);
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_1970 = since_1970.unwrap_or_default();
        // On most machines the record has 32 bits for the seconds.
        record.ut_tv.tv_sec = since_1970.as_secs().try_into().unwrap_or_default();
        record.ut_tv.tv_usec = since_1970.subsec_micros().try_into().unwrap_or_default();
        record
    }
}

/// Converts an address to its format in the record: octets in order, an IPv4 address in the first
/// word.
fn address_words(host: IpAddr) -> [i32; 4] {
    let mut words = [0; 4];
    match host {
        IpAddr::V4(address) => words[0] = i32::from_ne_bytes(address.octets()),
        IpAddr::V6(address) => {
            for (word, four) in words.iter_mut().zip(address.octets().as_chunks::<4>().0) {
                *word = i32::from_ne_bytes(*four);
            }
        }
    }
    words
}

fn fill(field: &mut [libc::c_char], text: &[u8]) {
    for (place, byte) in field.iter_mut().zip(text) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
}

unsafe extern "C" {
    /// Appends a record to a `wtmp` file (glibc).
    fn updwtmpx(file: *const libc::c_char, record: *const libc::utmpx);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn text(field: &[libc::c_char]) -> String {
        let bytes = field.iter().map(|unit| unit.to_ne_bytes()[0]);
        String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
    }

    #[test]
    fn an_entry_contains_user_terminal_and_remote_host() {
        let host = "192.0.2.7".parse().unwrap();
        let entry = Entry::new(Path::new("/dev/pts/17"), 41, host);
        let record = entry.record(libc::USER_PROCESS, "mike");
        assert_eq!(text(&record.ut_line), "pts/17");
        assert_eq!(text(&record.ut_id), "s/17");
        assert_eq!(text(&record.ut_user), "mike");
        assert_eq!(text(&record.ut_host), "192.0.2.7");
        assert_eq!(record.ut_addr_v6[0].to_ne_bytes(), [192, 0, 2, 7]);
        assert_eq!(record.ut_pid, 41);
        assert!(record.ut_tv.tv_sec > 0);
    }

    #[test]
    fn a_name_that_is_too_long_is_truncated() {
        let entry = Entry::new(Path::new("/dev/pts/1"), 1, "::1".parse().unwrap());
        let record = entry.record(libc::USER_PROCESS, &"x".repeat(500));
        assert!(record.ut_user.iter().all(|unit| *unit != 0));
        assert_eq!(record.ut_addr_v6[3].to_ne_bytes(), [0, 0, 0, 1]);
    }

    #[test]
    fn the_user_database_is_written_by_one_thread_at_a_time() {
        let path = std::env::temp_dir().join(format!("plumb-utmp-{}", std::process::id()));
        std::fs::write(&path, []).unwrap();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is NUL-terminated and outlives the call, which copies it.
        assert_eq!(unsafe { libc::utmpxname(name.as_ptr()) }, 0);
        let mut entry = Entry::new(Path::new("/dev/pts/3"), 9, "192.0.2.1".parse().unwrap());
        entry.wtmp = c"/nowhere/wtmp".to_owned();
        let len = || std::fs::metadata(&path).unwrap().len();
        let database = DATABASE.lock().unwrap();
        let (sender, writer_id) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            entry.log_in("mike").unwrap();
            entry.log_out().unwrap();
        });
        let status = format!("/proc/self/task/{}/stat", writer_id.recv().unwrap());
        // The writer either sleeps on the lock or, without a lock, ends by itself.
        let sleeps = || std::fs::read_to_string(&status).is_ok_and(|text| text.contains(") S "));
        while !writer.is_finished() && !sleeps() {
            std::thread::yield_now();
        }
        assert_eq!(len(), 0, "another thread wrote while the database was locked");
        drop(database);
        writer.join().unwrap();
        // The record of the logout replaces that of the login.
        assert_eq!(len(), size_of::<libc::utmpx>() as u64);
        std::fs::remove_file(&path).unwrap();
    }
}
