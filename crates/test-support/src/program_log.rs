//! Log of a running program: the lines that the program has written to a pipe.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Lines that a program has written so far. A thread reads them until the pipe ends.
#[derive(Debug)]
pub struct ProgramLog {
    received: Arc<Received>,
}

/// Lines, and the event of a further line.
#[derive(Debug, Default)]
struct Received {
    lines: Mutex<Vec<String>>,
    is_longer: Condvar,
}

impl ProgramLog {
    /// Starts to read `pipe`, usually the standard error of the program.
    pub fn read(pipe: impl Read + Send + 'static) -> Self {
        let received = Arc::new(Received::default());
        let log = Arc::clone(&received);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                lock(&received.lines).push(line);
                received.is_longer.notify_all();
            }
        });
        Self { received: log }
    }

    /// Waits until `find` returns a value for the lines so far, and returns it.
    ///
    /// # Panics
    ///
    /// Panics with the lines if `limit` has passed.
    pub fn find_within<T>(&self, limit: Duration, find: impl Fn(&[String]) -> Option<T>) -> T {
        let mut found = None;
        let is_missing = |lines: &mut Vec<String>| {
            found = find(lines);
            found.is_none()
        };
        let waited = self.received.is_longer.wait_timeout_while(
            lock(&self.received.lines),
            limit,
            is_missing,
        );
        let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let text = lines.join("\n");
        drop(lines);
        found.unwrap_or_else(|| panic!("a line is missing after {limit:?}:\n{text}"))
    }

    /// Waits for a line that contains `text`, and returns it.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds.
    pub fn wait_for(&self, text: &str) -> String {
        self.find_within(TIMEOUT, |lines| lines.iter().find(|line| line.contains(text)).cloned())
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        lock(&self.received.lines).clone()
    }

    /// Returns the number of lines so far that contain `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        lock(&self.received.lines).iter().filter(|line| line.contains(text)).count()
    }
}

fn lock(lines: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_a_part_of_their_text() {
        let log = ProgramLog::read(&b"listening on 1\nlistening on 2\nclosed\n"[..]);
        assert_eq!(log.wait_for("closed"), "closed");
        assert_eq!(log.wait_for("listening"), "listening on 1");
        assert_eq!((log.count("listening"), log.count("open")), (2, 0));
        assert_eq!(log.lines().len(), 3);
    }
}
