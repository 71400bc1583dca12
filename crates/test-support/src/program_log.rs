//! Log of a running program: the lines that the program has written to a pipe.

use crate::poll::poll_until_timeout;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Lines that a program has written so far. A thread reads them until the pipe ends.
#[derive(Debug)]
pub struct ProgramLog {
    lines: Arc<Mutex<Vec<String>>>,
}

impl ProgramLog {
    /// Starts to read `pipe`, usually the standard error of the program.
    pub fn read(pipe: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&lines);
        thread::spawn(move || {
            let lines = BufReader::new(pipe).lines().map_while(Result::ok);
            lines.for_each(|line| lock(&received).push(line));
        });
        Self { lines }
    }

    /// Waits for a line that contains `text`, and returns it.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds.
    pub fn wait_for(&self, text: &str) -> String {
        poll_until_timeout(|| lock(&self.lines).iter().find(|line| line.contains(text)).cloned())
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }

    /// Returns the number of lines so far that contain `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        lock(&self.lines).iter().filter(|line| line.contains(text)).count()
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
