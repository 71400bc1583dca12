//! A Telnet with a screen and no keyboard: what the measurement types on and reads from. On a serial
//! line there is no Telnet, and bytes are bytes.

use super::stamp::Stamp;
use protocols::Cx;
use protocols::application::telnet::{Event, Telnet, UserSettings};
use protocols::terminal::Terminal;
use protocols::time::{Duration, Instant};
use records::arrivals::Arrival;

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;
/// What is kept of the output of a command.
const CAPTURE_BYTES_MAX: usize = 64 * 1024;
/// What waits for a line at most.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most arrivals that are kept; what comes then is counted with the last one.
const ARRIVALS_MAX: usize = 4096;

/// Telnet and screen.
pub(crate) struct Console {
    telnet: Telnet,
    /// What waits for a line that has no Telnet.
    line: Option<Vec<u8>>,
    screen: Screen,
}

/// What comes is shown here, and watched.
struct Screen {
    terminal: Terminal,
    watch: Option<Watch>,
    capture: Option<Vec<u8>>,
    tally: Option<Tally>,
    data_at: Option<Instant>,
    /// Reads for how long this program has waited for a processor.
    run_queue_wait: fn() -> Option<Duration>,
    /// What was read so far, and for how long it had waited to be read.
    reads: Reads,
    /// The waits when the watch began.
    waited: Waits,
}

/// For how long this program has waited since it began.
///
/// A wait for a processor delays what is measured only while data waits to be read: a program that
/// waits to be run and then waits for data has lost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// For a processor.
    run_queue: Option<Duration>,
    reads: Reads,
}

/// All that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    count: u64,
    /// Reads whose receive delay is known: the kernel stamps only what arrives some milliseconds after
    /// it was asked to, and not every carrier has stamps.
    stamped: u64,
    /// The receive delays of those.
    delay: Duration,
}

impl Waits {
    /// Returns for how long this program has waited for a processor since `before`.
    pub(crate) fn run_queue_since(&self, before: &Self) -> Option<Duration> {
        Some(self.run_queue?.saturating_sub(before.run_queue?))
    }

    /// Returns for how long this program delayed what happened since `before` by waiting for a
    /// processor: at most as long as data waited for it, where that is known.
    pub(crate) fn since(&self, before: &Self) -> Option<Duration> {
        let run_queue = self.run_queue_since(before)?;
        let is_known =
            self.reads.count - before.reads.count == self.reads.stamped - before.reads.stamped;
        let unread = self.reads.delay.saturating_sub(before.reads.delay);
        Some(if is_known { run_queue.min(unread) } else { run_queue })
    }
}

/// How often a byte has come.
#[derive(Clone, Copy, Debug)]
struct Tally {
    byte: u8,
    count: usize,
}

/// What has been painted since the watch began, up to the number of cells that were wanted.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Cells that are waited for.
    pub(crate) wanted_cells: u64,
    /// Cells in which a character was written.
    pub(crate) cells: u64,
    /// Bytes of data that did it.
    pub(crate) bytes: u64,
    /// When it was asked for, if that is known.
    pub(crate) asked: Option<Stamp>,
    /// Before the data that brought the first cell had come.
    pub(crate) before: Option<Stamp>,
    /// When the latest data reached Telnet.
    pub(crate) arrived: Option<Stamp>,
    /// Just before the first cell was written.
    pub(crate) first: Option<Stamp>,
    /// Just after the last one was written.
    pub(crate) last: Option<Stamp>,
    /// For how long this program waited for a processor until the last cell was written.
    pub(crate) run_queue_wait: Option<Duration>,
    data_at: Option<Instant>,
    /// When the watch began.
    began: Option<Instant>,
    /// The longest time between two arrivals, from the one with the first cell on.
    pub(crate) longest_gap: Option<Duration>,
    /// What came when since the watch began, from the data with the first cell on.
    pub(crate) arrivals: Vec<Arrival>,
}

impl Watch {
    /// Watches for `wanted_cells` cells.
    pub(crate) fn new(wanted_cells: u64) -> Self {
        Self {
            wanted_cells,
            cells: 0,
            bytes: 0,
            asked: None,
            before: None,
            arrived: None,
            first: None,
            last: None,
            run_queue_wait: None,
            data_at: None,
            began: None,
            longest_gap: None,
            arrivals: Vec::new(),
        }
    }

    /// Returns whether all the cells that were wanted have been written.
    pub(crate) fn is_complete(&self) -> bool {
        self.cells >= self.wanted_cells
    }

    fn on_arrival(&mut self, cx: &mut Cx<'_>) {
        self.arrived = Some(Stamp::now(cx));
        if let Some(before) = self.data_at {
            let gap = cx.now - before;
            self.longest_gap = Some(self.longest_gap.map_or(gap, |longest| longest.max(gap)));
            self.data_at = Some(cx.now);
        }
    }

    fn on_painted(&mut self, before: Stamp, bytes: usize, cells: u64, cx: &mut Cx<'_>) {
        if cells == 0 && self.first.is_none() {
            return;
        }
        self.first.get_or_insert(before);
        self.data_at.get_or_insert(cx.now);
        self.bytes += bytes as u64;
        self.keep_arrival(bytes as u64, cx.now);
        if cells > 0 {
            self.cells += cells;
            self.last = Some(Stamp::now(cx));
        }
    }
}

impl Watch {
    /// Notes data that came at `now`; what came with the one before is one arrival.
    fn keep_arrival(&mut self, bytes: u64, now: Instant) {
        let since = now - *self.began.get_or_insert(now);
        let at_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let is_full = self.arrivals.len() >= ARRIVALS_MAX;
        match self.arrivals.last_mut() {
            Some(last) if last.at_ns == at_ns || is_full => last.bytes += bytes,
            _ => self.arrivals.push(Arrival { at_ns, bytes }),
        }
    }
}

impl Console {
    /// Makes a console on a serial line.
    pub(crate) fn on_line() -> Self {
        Self { line: Some(Vec::new()), ..Self::new() }
    }

    /// Makes a console at which nothing has happened yet.
    pub(crate) fn new() -> Self {
        let settings = UserSettings {
            terminal_type: "xterm".to_owned(),
            window: (COLUMNS, ROWS),
            ..UserSettings::default()
        };
        Self {
            telnet: Telnet::user(&settings),
            line: None,
            screen: Screen {
                terminal: Terminal::new(COLUMNS, ROWS),
                watch: None,
                capture: None,
                tally: None,
                data_at: None,
                run_queue_wait: || None,
                reads: Reads::default(),
                waited: Waits::default(),
            },
        }
    }

    /// Has `read` say for how long this program has waited for a processor.
    pub(crate) fn account_run_queue(&mut self, read: fn() -> Option<Duration>) {
        self.screen.run_queue_wait = read;
    }

    /// Takes for how long the data that comes next has waited to be read.
    pub(crate) fn take_receive_delay(&mut self, delay: Duration) {
        let reads = &mut self.screen.reads;
        reads.stamped += 1;
        reads.delay = reads.delay.saturating_add(delay);
    }

    /// Begins to negotiate, where there is somebody to negotiate with.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        if self.line.is_none() {
            self.telnet.start(cx);
        }
    }

    /// Returns whether every offer and request of ours has been answered.
    pub(crate) fn negotiation_is_quiet(&self) -> bool {
        self.line.is_some() || self.telnet.negotiation_is_quiet()
    }

    /// Returns what waits for the carrier.
    pub(crate) fn output(&self) -> &[u8] {
        self.line.as_deref().unwrap_or_else(|| self.telnet.output())
    }

    /// Takes note that the carrier has taken so many bytes of it.
    pub(crate) fn sent(&mut self, count: usize) {
        match &mut self.line {
            Some(line) => drop(line.drain(..count.min(line.len()))),
            None => self.telnet.sent(count),
        }
    }

    /// Returns where in the output urgent data ends.
    pub(crate) fn urgent_mark(&self) -> Option<usize> {
        if self.line.is_some() { None } else { self.telnet.urgent_mark() }
    }

    /// Takes note that urgent data is ahead in what comes, or that it has come.
    pub(crate) fn urgent(&mut self, is_ahead: bool) {
        if is_ahead { self.telnet.urgent() } else { self.telnet.urgent_ended() }
    }

    /// Strikes keys.
    pub(crate) fn strike(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        self.give(keys, cx);
    }

    /// Gives bytes to Telnet or to the line, and returns how many had room.
    fn give(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let Some(line) = &mut self.line else { return self.telnet.send(bytes, cx) };
        let count = bytes.len().min(LINE_BYTES_MAX.saturating_sub(line.len()));
        line.extend_from_slice(bytes.get(..count).unwrap_or_default());
        count
    }

    /// Takes what came from the far side.
    pub(crate) fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        self.screen.reads.count += 1;
        let mut open = self.screen.watch.as_mut().filter(|watch| !watch.is_complete());
        if let Some(watch) = &mut open {
            watch.on_arrival(cx);
        }
        if self.line.is_some() {
            self.screen.show(data, cx);
        } else {
            while let Some(event) = self.telnet.receive(&mut data, cx) {
                if let Event::Data(run) = event {
                    self.screen.show(run, cx);
                }
            }
        }
        if let Some(watch) = self.screen.watch.as_mut().filter(|watch| watch.first.is_none()) {
            watch.before = Some(Stamp::now(cx));
        }
        let replies = self.screen.terminal.output().to_vec();
        if !replies.is_empty() {
            let count = self.give(&replies, cx);
            self.screen.terminal.sent(count);
        }
    }

    /// Begins to watch for `cells` cells.
    pub(crate) fn watch(&mut self, cells: u64, cx: &mut Cx<'_>) {
        // Both readings of it lie outside of what the stamps enclose.
        self.screen.waited = self.screen.waits();
        let before = Some(Stamp::now(cx));
        let asked = before;
        self.screen.watch = Some(Watch { asked, before, began: Some(cx.now), ..Watch::new(cells) });
    }

    /// Returns for how long this program has waited.
    pub(crate) fn waits(&self) -> Waits {
        self.screen.waits()
    }

    /// Returns for how long this program has waited for a processor since [`Console::watch`].
    pub(crate) fn run_queue_wait(&self) -> Option<Duration> {
        self.screen.waits().run_queue_since(&self.screen.waited)
    }

    /// Returns what has been painted since [`Console::watch`].
    pub(crate) fn watched(&self) -> Option<&Watch> {
        self.screen.watch.as_ref()
    }

    /// Ends the watch, and returns what it has seen.
    pub(crate) fn end_watch(&mut self) -> Option<Watch> {
        let screen = &mut self.screen;
        let mut watch = screen.watch.take()?;
        if watch.run_queue_wait.is_none() {
            watch.run_queue_wait = screen.waits().since(&screen.waited);
        }
        Some(watch)
    }

    /// Begins to keep the data that comes.
    pub(crate) fn capture(&mut self) {
        self.screen.capture = Some(Vec::new());
    }

    /// Ends the capture, and returns what it has kept.
    pub(crate) fn end_capture(&mut self) -> Vec<u8> {
        self.screen.capture.take().unwrap_or_default()
    }

    /// Begins to count how often `byte` comes.
    pub(crate) fn tally(&mut self, byte: u8) {
        self.screen.tally = Some(Tally { byte, count: 0 });
    }

    /// Returns how often it has come since.
    pub(crate) fn tallied(&self) -> usize {
        self.screen.tally.map_or(0, |tally| tally.count)
    }

    /// Returns when data came last.
    pub(crate) fn data_at(&self) -> Option<Instant> {
        self.screen.data_at
    }

    /// Returns the cursor's row and column.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.screen.terminal.cursor()
    }

    /// Returns whether the cell at a place shows `character`.
    pub(crate) fn shows(&self, (row, column): (u16, u16), character: char) -> bool {
        self.screen.terminal.cell(row, column).is_some_and(|cell| cell.character() == character)
    }

    /// Returns the text on the cursor's row in front of the cursor, blanks included.
    pub(crate) fn line(&self) -> String {
        let (row, column) = self.cursor();
        let text = self.screen.terminal.row_text(row);
        let before = text.chars().chain(std::iter::repeat(' '));
        before.take(usize::from(column)).collect()
    }
}

impl Screen {
    fn waits(&self) -> Waits {
        Waits { run_queue: (self.run_queue_wait)(), reads: self.reads }
    }

    /// Shows a run of data.
    fn show(&mut self, run: &[u8], cx: &mut Cx<'_>) {
        self.data_at = Some(cx.now);
        if let Some(kept) = &mut self.capture {
            let room = CAPTURE_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(run.get(..room.min(run.len())).unwrap_or_default());
        }
        if let Some(tally) = &mut self.tally {
            tally.count += run.iter().filter(|byte| **byte == tally.byte).count();
        }
        match self.watch.as_mut().filter(|watch| !watch.is_complete()) {
            None => drop(self.terminal.receive(run, cx)),
            Some(watch) => {
                let before = Stamp::now(cx);
                let written = self.terminal.receive(run, cx);
                watch.on_painted(before, run.len(), written.cells, cx);
                if watch.is_complete() {
                    let waited = self.waits().since(&self.waited);
                    if let Some(watch) = &mut self.watch {
                        watch.run_queue_wait = waited;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn waits(run_queue: Duration, count: u64, stamped: u64, delay: Duration) -> Waits {
        Waits { run_queue: Some(run_queue), reads: Reads { count, stamped, delay } }
    }

    #[test]
    fn a_wait_for_a_processor_that_ended_before_data_arrived_is_not_counted() {
        let before = waits(ms(5), 3, 3, ms(1));
        assert_eq!(waits(ms(15), 4, 4, ms(3)).since(&before), Some(ms(2)));
        assert_eq!(waits(ms(6), 4, 4, ms(3)).since(&before), Some(ms(1)), "woken late");
        assert_eq!(waits(ms(15), 3, 3, ms(1)).since(&before), Some(Duration::ZERO));
    }

    #[test]
    fn all_of_a_wait_counts_where_the_arrival_of_data_is_not_known() {
        let before = waits(ms(5), 3, 0, Duration::ZERO);
        assert_eq!(waits(ms(15), 5, 1, ms(3)).since(&before), Some(ms(10)));
        assert_eq!(Waits::default().since(&before), None);
        assert_eq!(before.since(&Waits::default()), None);
    }
}
