//! Progress of a transfer in at most 40 columns.

use net::time::{Duration, Instant};

/// Maximum width of the progress: the narrowest terminals have 40 columns, and a character in the
/// last column would wrap on some terminals.
const WIDTH_MAX: usize = 39;
/// Minimum interval between two updates. Our choice.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);
/// Time without data after which the progress reports a stall. Our choice: shorter than the timeouts
/// of the protocols, after which requests are repeated.
const STALL_TIME: Duration = Duration::from_secs(5);
/// Time without data after which the protocols end a transfer.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two updates during a stall.
const STALL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a file that are under way. Our choice.
const BUFFERED_MAX: u64 = 1 << 16;

/// Progress of one file.
#[derive(Debug, Default)]
pub(super) struct Progress {
    name: String,
    size: Option<u64>,
    /// Time and position of the start.
    began: Option<(Instant, u64)>,
    position: u64,
    /// Time at which the position has last changed.
    moved_at: Option<Instant>,
    /// Time since which the first answer of the remote program is awaited.
    waits_since: Option<Instant>,
    /// Time at which a stall is to be reported.
    stalls_at: Option<Instant>,
    shown_at: Option<Instant>,
    /// Whether the result of the file was reported, so that no further update follows.
    has_ended: bool,
}

impl Progress {
    /// Starts the wait for the first answer of the remote program.
    pub(super) fn wait(&mut self, now: Instant) {
        self.waits_since = Some(now);
        self.stalls_at = Some(now + STALL_INTERVAL);
    }

    /// Starts the progress of a file at `position`.
    pub(super) fn begin(&mut self, name: &str, size: Option<u64>, position: u64, now: Instant) {
        let name = name.to_owned();
        *self = Self { name, size, began: Some((now, position)), position, ..Self::default() };
        self.move_at(now);
    }

    /// Returns whether the remote end has certainly processed content of the file: more than the
    /// ends and the path buffer.
    pub(super) fn has_moved(&self) -> bool {
        self.began.is_some_and(|(_, start)| self.position > start + BUFFERED_MAX)
    }

    fn move_at(&mut self, now: Instant) {
        self.moved_at = Some(now);
        self.stalls_at = Some(now + STALL_TIME);
    }

    /// Ends the progress of a file, whose result is reported instead.
    pub(super) const fn end(&mut self) {
        self.has_ended = true;
        self.stalls_at = None;
    }

    /// Sets the position.
    pub(super) fn set(&mut self, position: u64, now: Instant) {
        if std::mem::replace(&mut self.position, position) != position {
            self.move_at(now);
        }
    }

    /// Forgets the file, whose record was made.
    pub(super) const fn forget(&mut self) {
        self.began = None;
        self.position = 0;
        self.stalls_at = None;
    }

    /// Returns the position at the start.
    pub(super) fn start(&self) -> u64 {
        self.began.map_or(0, |(_, position)| position)
    }

    /// Returns whether data of the file was transferred.
    pub(super) fn has_data(&self) -> bool {
        self.position > self.start()
    }

    /// Returns when [`Self::timeout`] is due.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.stalls_at
    }

    /// Schedules the next report of a stall.
    pub(super) fn timeout(&mut self, now: Instant) {
        if self.stalls_at.is_some_and(|at| at <= now) {
            self.stalls_at = Some(now + STALL_INTERVAL);
        }
    }

    /// Returns the elapsed time and the number of bytes since the start; before the first answer of
    /// the remote program, the time of the wait for it.
    pub(super) fn total(&self, now: Instant) -> (Duration, u64) {
        let waits_since = self.waits_since.unwrap_or(now);
        let (at, position) = self.began.unwrap_or((waits_since, self.position));
        (now - at, self.position.saturating_sub(position))
    }

    /// Returns the text if an update is due.
    pub(super) fn update(&mut self, now: Instant) -> Option<String> {
        let is_due = self.shown_at.is_none_or(|at| now - at >= UPDATE_INTERVAL) && !self.has_ended;
        is_due.then(|| {
            self.shown_at = Some(now);
            self.text(now)
        })
    }

    fn text(&self, now: Instant) -> String {
        if self.began.is_none() {
            let wait = self.waits_since.map_or(Duration::ZERO, |since| now - since);
            return format!("Waiting for an answer, {} s left", seconds_left(wait));
        }
        let (time, bytes) = self.total(now);
        let percent = self.size.filter(|size| *size > 0).map(|size| {
            let hundredfold = u128::from(self.position) * 100;
            format!(" {}%", (hundredfold / u128::from(size)).min(100))
        });
        let stall = self.moved_at.map(|at| now - at).filter(|stall| *stall >= STALL_TIME);
        if let Some(stall) = stall {
            let percent = percent.unwrap_or_default();
            let stall = format!("{percent} no data, {} s left, ^C cancels", seconds_left(stall));
            let name = shortened(&self.name, WIDTH_MAX.saturating_sub(stall.len()));
            return format!("{name}{stall}");
        }
        let millis = time.as_millis().max(1);
        let rate = u64::try_from(u128::from(bytes) * 1000 / millis).unwrap_or(u64::MAX);
        let numbers = format!(
            "{} {} {}/s",
            percent.unwrap_or_default(),
            short_bytes(self.position),
            short_bytes(rate)
        );
        let name = shortened(&self.name, WIDTH_MAX.saturating_sub(numbers.len()));
        format!("{name}{numbers}")
    }
}

/// Returns the seconds until a transfer without data since `silence` ends.
const fn seconds_left(silence: Duration) -> u64 {
    SILENCE_TIMEOUT.as_secs().saturating_sub(silence.as_secs())
}

/// Returns `name` in at most `width` columns.
fn shortened(name: &str, width: usize) -> String {
    // Some characters occupy two columns.
    let columns = |letter: char| if letter.is_ascii() { 1 } else { 2 };
    if name.chars().map(columns).sum::<usize>() <= width {
        return name.to_owned();
    }
    let mut used = 1;
    let kept = name.chars().take_while(|letter| {
        used += columns(*letter);
        used <= width
    });
    let mut short: String = kept.collect();
    short.push('~');
    short
}

/// Returns a number of bytes with at most three digits, and its unit.
pub(super) fn short_bytes(bytes: u64) -> String {
    let mut unit = 1_u64;
    for name in ["B", "kB", "MB", "GB", "TB"] {
        let whole = bytes / unit;
        if whole < 10 && unit > 1 {
            return format!("{whole}.{} {name}", bytes % unit * 10 / unit);
        }
        if whole < 1000 || name == "TB" {
            return format!("{whole} {name}");
        }
        unit *= 1000;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_has_at_most_three_digits() {
        let texts = [0, 999, 1000, 9999, 10_000, 999_999, 1_250_000, 4_000_000_000];
        let texts = texts.map(short_bytes);
        assert_eq!(
            texts,
            ["0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.2 MB", "4.0 GB"]
        );
    }

    #[test]
    fn progress_fits_40_columns() {
        let mut progress = Progress::default();
        let name = "a-very-long-name-of-a-file-from-a-bulletin-board.zip";
        progress.begin(name, Some(2_000_000), 0, Instant::ZERO);
        progress.set(1_000_000, Instant::ZERO);
        let text = progress.update(Instant::ZERO + Duration::from_secs(1)).unwrap();
        assert_eq!(text, "a-very-long-name-o~ 50% 1.0 MB 1.0 MB/s");
        assert!(text.len() < 40);
    }

    #[test]
    fn a_stall_is_reported_after_five_seconds_and_then_every_second() {
        let mut progress = Progress::default();
        progress.begin("archive.zip", Some(100), 0, Instant::ZERO);
        progress.set(42, Instant::ZERO + Duration::from_secs(1));
        let mut texts = Vec::new();
        for _ in 0..2 {
            let now = progress.deadline().unwrap();
            progress.timeout(now);
            texts.push((now - Instant::ZERO, progress.update(now).unwrap()));
        }
        let text = |seconds| format!("arc~ 42% no data, {seconds} s left, ^C cancels");
        assert_eq!(texts[0], (Duration::from_secs(6), text(55)));
        assert_eq!(texts[1], (Duration::from_secs(7), text(54)));
        assert!(texts[0].1.len() <= WIDTH_MAX);
        progress.set(43, Instant::ZERO + Duration::from_secs(8));
        assert_eq!(progress.deadline(), Some(Instant::ZERO + Duration::from_secs(13)));
        progress.end();
        assert_eq!(progress.deadline(), None);
    }

    #[test]
    fn the_wait_for_the_first_answer_displays_the_time_that_is_left() {
        let mut progress = Progress::default();
        progress.wait(Instant::ZERO);
        assert_eq!(progress.update(Instant::ZERO).unwrap(), "Waiting for an answer, 60 s left");
        for left in [59, 58] {
            let now = progress.deadline().unwrap();
            progress.timeout(now);
            let text = format!("Waiting for an answer, {left} s left");
            assert_eq!(progress.update(now), Some(text));
        }
        progress.begin("a", None, 0, Instant::ZERO);
        assert_eq!(progress.deadline(), Some(Instant::ZERO + STALL_TIME));
    }

    #[test]
    fn an_update_is_due_after_an_interval() {
        let mut progress = Progress::default();
        progress.begin("a", None, 0, Instant::ZERO);
        assert_eq!(progress.update(Instant::ZERO).as_deref(), Some("a 0 B 0 B/s"));
        assert_eq!(progress.update(Instant::ZERO + Duration::from_millis(199)), None);
        assert!(progress.update(Instant::ZERO + Duration::from_millis(200)).is_some());
    }

    #[test]
    fn no_update_follows_the_end_of_a_file_until_the_next_file_begins() {
        let mut progress = Progress::default();
        progress.begin("a", None, 0, Instant::ZERO);
        progress.end();
        assert_eq!(progress.update(Instant::ZERO + Duration::from_secs(1)), None);
        progress.begin("b", None, 0, Instant::ZERO);
        assert!(progress.update(Instant::ZERO + Duration::from_secs(1)).is_some());
    }
}
