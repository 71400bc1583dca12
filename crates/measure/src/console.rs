//! Telnet with a terminal emulator but without a keyboard: the measurement types the keys and reads
//! the screen. A serial line does not use Telnet; its data passes unchanged.

use super::timestamps::Stamp;
use net::Cx;
use net::time::{Duration, Instant};
use protocols::telnet::{Event, Telnet, UserSettings};
use protocols::terminal::Terminal;
use records::arrivals::Arrival;

pub(crate) const COLUMNS: u16 = 80;
pub(crate) const ROWS: u16 = 24;
/// Maximum number of captured bytes of a command's output.
const CAPTURE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes queued for a serial line.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of recorded arrivals. The bytes of later data are added to the last recorded
/// arrival.
const ARRIVALS_MAX: usize = 4096;

/// Telnet engine and terminal emulator.
pub(crate) struct MeasureConsole {
    telnet: Telnet,
    /// Output queued for a serial line or a program without Telnet; `None` with Telnet.
    line: Option<Vec<u8>>,
    screen: Screen,
}

/// Terminal emulator that displays and observes received data.
struct Screen {
    terminal: Terminal,
    watch: Option<Watch>,
    capture: Option<Vec<u8>>,
    counter: Option<ByteCounter>,
    data_at: Option<Instant>,
    /// Reads the time that this process has waited for a CPU.
    run_queue_wait: fn() -> Option<Duration>,
    /// Number of reads and their receive delays.
    reads: ReadStatistics,
    /// Wait times of this process when [`MeasureConsole::watch`] was called.
    waits_at_start: WaitTimes,
}

/// Wait times of this process since its start.
///
/// A wait for a CPU delays the measurement only while data waits to be read. If no data is
/// available during the wait, the measurement is not delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitTimes {
    /// Time waiting for a CPU.
    run_queue: Option<Duration>,
    reads: ReadStatistics,
}

/// Statistics of all reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReadStatistics {
    count: u64,
    /// Number of reads with a known receive delay. The kernel timestamps only data that arrives
    /// some milliseconds after the request, and not every carrier supports timestamps.
    stamped_count: u64,
    /// Sum of the receive delays of the reads in `stamped_count`.
    delay: Duration,
}

impl WaitTimes {
    /// Returns the time that this process has waited for a CPU since `before`.
    pub(crate) fn run_queue_since(&self, before: &Self) -> Option<Duration> {
        Some(self.run_queue?.saturating_sub(before.run_queue?))
    }

    /// Returns the part of the CPU wait since `before` that delayed received data. The part is at
    /// most the time for which data was available but unread, if that time is known.
    pub(crate) fn receive_delay_since(&self, before: &Self) -> Option<Duration> {
        let run_queue = self.run_queue_since(before)?;
        let is_receive_delay_known = self.reads.count - before.reads.count
            == self.reads.stamped_count - before.reads.stamped_count;
        let unread = self.reads.delay.saturating_sub(before.reads.delay);
        Some(if is_receive_delay_known { run_queue.min(unread) } else { run_queue })
    }
}

/// Number of occurrences of a byte.
#[derive(Clone, Copy, Debug)]
struct ByteCounter {
    byte: u8,
    count: usize,
}

/// Observations from the call of [`MeasureConsole::watch`] until the requested number of cells is
/// written.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Number of cells to wait for.
    pub(crate) wanted_cells: u64,
    /// Cells in which a character was written.
    pub(crate) cells: u64,
    /// Bytes of data that wrote these cells.
    pub(crate) bytes: u64,
    /// Time at which the cells were requested, if known.
    pub(crate) requested_at: Option<Stamp>,
    /// Time just before the data that contains the first cell was received.
    pub(crate) received_at: Option<Stamp>,
    /// Time at which the latest data was passed to Telnet.
    pub(crate) arrived_at: Option<Stamp>,
    /// Time just before the first cell was written.
    pub(crate) first_cell_at: Option<Stamp>,
    /// Time just after the last cell was written.
    pub(crate) last_cell_at: Option<Stamp>,
    /// Time that this process waited for a CPU until the last cell was written.
    pub(crate) run_queue_wait: Option<Duration>,
    data_at: Option<Instant>,
    /// Time at which [`MeasureConsole::watch`] was called.
    began_at: Option<Instant>,
    /// Longest interval between two arrivals, beginning with the data that contains the first cell.
    pub(crate) longest_gap: Option<Duration>,
    /// Arrivals of data, beginning with the data that contains the first cell.
    pub(crate) arrivals: Vec<Arrival>,
}

impl Watch {
    /// Creates a watch for `wanted_cells` cells.
    pub(crate) fn new(wanted_cells: u64) -> Self {
        Self {
            wanted_cells,
            cells: 0,
            bytes: 0,
            requested_at: None,
            received_at: None,
            arrived_at: None,
            first_cell_at: None,
            last_cell_at: None,
            run_queue_wait: None,
            data_at: None,
            began_at: None,
            longest_gap: None,
            arrivals: Vec::new(),
        }
    }

    /// Returns whether all requested cells have been written.
    pub(crate) fn is_complete(&self) -> bool {
        self.cells >= self.wanted_cells
    }

    fn on_arrival(&mut self, cx: &mut Cx<'_>) {
        self.arrived_at = Some(Stamp::now(cx));
        if let Some(before) = self.data_at {
            let gap = cx.now - before;
            self.longest_gap = Some(self.longest_gap.map_or(gap, |longest| longest.max(gap)));
            self.data_at = Some(cx.now);
        }
    }

    fn on_cells_written(&mut self, before: Stamp, bytes: usize, cells: u64, cx: &mut Cx<'_>) {
        if cells == 0 && self.first_cell_at.is_none() {
            return;
        }
        self.first_cell_at.get_or_insert(before);
        self.data_at.get_or_insert(cx.now);
        self.bytes += bytes as u64;
        self.record_arrival(bytes as u64, cx.now);
        if cells > 0 {
            self.cells += cells;
            self.last_cell_at = Some(Stamp::now(cx));
        }
    }
}

impl Watch {
    /// Records data that arrived at `now`. All data with the same time is one arrival.
    fn record_arrival(&mut self, bytes: u64, now: Instant) {
        let elapsed = now - *self.began_at.get_or_insert(now);
        let at_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let is_arrival_list_full = self.arrivals.len() >= ARRIVALS_MAX;
        match self.arrivals.last_mut() {
            Some(last) if last.at_ns == at_ns || is_arrival_list_full => last.bytes += bytes,
            _ => self.arrivals.push(Arrival { at_ns, bytes }),
        }
    }
}

impl MeasureConsole {
    /// Creates a console on a serial line.
    pub(crate) fn on_line() -> Self {
        Self { line: Some(Vec::new()), ..Self::new() }
    }

    /// Creates a console in the initial state.
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
                counter: None,
                data_at: None,
                run_queue_wait: || None,
                reads: ReadStatistics::default(),
                waits_at_start: WaitTimes::default(),
            },
        }
    }

    /// Sets the function that reads the time that this process has waited for a CPU.
    pub(crate) fn set_run_queue_reader(&mut self, read: fn() -> Option<Duration>) {
        self.screen.run_queue_wait = read;
    }

    /// Records how long the next data has waited to be read.
    pub(crate) fn take_receive_delay(&mut self, delay: Duration) {
        let reads = &mut self.screen.reads;
        reads.stamped_count += 1;
        reads.delay = reads.delay.saturating_add(delay);
    }

    /// Starts the Telnet negotiation; has no effect on a serial line.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        if self.line.is_none() {
            self.telnet.start(cx);
        }
    }

    /// Returns whether the remote host has answered every Telnet option offer and request of this
    /// side.
    pub(crate) fn negotiation_is_quiet(&self) -> bool {
        self.line.is_some() || self.telnet.negotiation_is_quiet()
    }

    /// Returns the output queued for the carrier.
    pub(crate) fn output(&self) -> &[u8] {
        self.line.as_deref().unwrap_or_else(|| self.telnet.output())
    }

    /// Removes `count` bytes that the carrier has accepted from the output.
    pub(crate) fn sent(&mut self, count: usize) {
        match &mut self.line {
            Some(line) => drop(line.drain(..count.min(line.len()))),
            None => self.telnet.sent(count),
        }
    }

    /// Returns the position in the output at which urgent data ends.
    pub(crate) fn urgent_mark(&self) -> Option<usize> {
        if self.line.is_some() { None } else { self.telnet.urgent_mark() }
    }

    /// Notifies Telnet that urgent data follows in the input, or that all urgent data was received.
    pub(crate) fn urgent(&mut self, is_ahead: bool) {
        if is_ahead { self.telnet.urgent() } else { self.telnet.urgent_ended() }
    }

    /// Types keys.
    pub(crate) fn type_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        self.enqueue(keys, cx);
    }

    /// Queues bytes for Telnet or for the serial line and returns the number of accepted bytes.
    fn enqueue(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let Some(line) = &mut self.line else { return self.telnet.send(bytes, cx) };
        let count = bytes.len().min(LINE_BYTES_MAX.saturating_sub(line.len()));
        line.extend_from_slice(bytes.get(..count).unwrap_or_default());
        count
    }

    /// Processes data from the remote host.
    pub(crate) fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        self.screen.reads.count += 1;
        let mut watching = self.screen.watch.as_mut().filter(|watch| !watch.is_complete());
        if let Some(watch) = &mut watching {
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
        if let Some(watch) =
            self.screen.watch.as_mut().filter(|watch| watch.first_cell_at.is_none())
        {
            watch.received_at = Some(Stamp::now(cx));
        }
        let replies = self.screen.terminal.output().to_vec();
        if !replies.is_empty() {
            let count = self.enqueue(&replies, cx);
            self.screen.terminal.sent(count);
        }
    }

    /// Starts to observe received data until `cells` cells are written.
    pub(crate) fn watch(&mut self, cells: u64, cx: &mut Cx<'_>) {
        // Reading the wait times takes time itself, so they are read before the first stamp.
        self.screen.waits_at_start = self.screen.waits();
        let started_at = Some(Stamp::now(cx));
        self.screen.watch = Some(Watch {
            requested_at: started_at,
            received_at: started_at,
            began_at: Some(cx.now),
            ..Watch::new(cells)
        });
    }

    /// Returns the wait times of this process.
    pub(crate) fn waits(&self) -> WaitTimes {
        self.screen.waits()
    }

    /// Returns the time that this process has waited for a CPU since [`MeasureConsole::watch`].
    pub(crate) fn run_queue_wait(&self) -> Option<Duration> {
        self.screen.waits().run_queue_since(&self.screen.waits_at_start)
    }

    /// Returns the observations since [`MeasureConsole::watch`].
    pub(crate) fn current_watch(&self) -> Option<&Watch> {
        self.screen.watch.as_ref()
    }

    /// Ends the watch and returns its observations.
    pub(crate) fn end_watch(&mut self) -> Option<Watch> {
        let screen = &mut self.screen;
        let mut watch = screen.watch.take()?;
        if watch.run_queue_wait.is_none() {
            watch.run_queue_wait = screen.waits().receive_delay_since(&screen.waits_at_start);
        }
        Some(watch)
    }

    /// Starts to capture received data.
    pub(crate) fn capture(&mut self) {
        self.screen.capture = Some(Vec::new());
    }

    /// Ends the capture and returns the data.
    pub(crate) fn end_capture(&mut self) -> Vec<u8> {
        self.screen.capture.take().unwrap_or_default()
    }

    /// Starts to count occurrences of `byte`.
    pub(crate) fn count_byte(&mut self, byte: u8) {
        self.screen.counter = Some(ByteCounter { byte, count: 0 });
    }

    /// Returns the number of occurrences since [`MeasureConsole::count_byte`].
    pub(crate) fn byte_count(&self) -> usize {
        self.screen.counter.map_or(0, |counter| counter.count)
    }

    /// Returns the time of the latest data.
    pub(crate) fn data_at(&self) -> Option<Instant> {
        self.screen.data_at
    }

    /// Returns the cursor's row and column.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.screen.terminal.cursor()
    }

    /// Returns whether the cell at this row and column shows `character`.
    pub(crate) fn shows(&self, (row, column): (u16, u16), character: char) -> bool {
        self.screen.terminal.cell(row, column).is_some_and(|cell| cell.character() == character)
    }

    /// Returns the last line of the screen that contains text, together with the lines before it if
    /// the program has wrapped a longer line at words.
    pub(crate) fn last_line(&self) -> Option<String> {
        let rows = (0..ROWS).rev().map(|row| self.screen.terminal.row_text(row));
        let mut texts = rows.map(|text| text.trim().to_owned()).skip_while(String::is_empty);
        let mut line = texts.next()?;
        for before in texts {
            let first_word = line.split(' ').next().unwrap_or_default();
            let is_wrapped = !before.is_empty()
                && before.chars().count() + 1 + first_word.chars().count() > usize::from(COLUMNS);
            if !is_wrapped {
                break;
            }
            line = format!("{before} {line}");
        }
        Some(line)
    }

    /// Returns the text in the cursor's row before the cursor, including blanks.
    pub(crate) fn line(&self) -> String {
        let (row, column) = self.cursor();
        let text = self.screen.terminal.row_text(row);
        let before = text.chars().chain(std::iter::repeat(' '));
        before.take(usize::from(column)).collect()
    }
}

impl Screen {
    fn waits(&self) -> WaitTimes {
        WaitTimes { run_queue: (self.run_queue_wait)(), reads: self.reads }
    }

    /// Passes data without Telnet commands to the terminal emulator.
    fn show(&mut self, run: &[u8], cx: &mut Cx<'_>) {
        self.data_at = Some(cx.now);
        if let Some(captured) = &mut self.capture {
            let free_bytes = CAPTURE_BYTES_MAX.saturating_sub(captured.len());
            captured.extend_from_slice(run.get(..free_bytes.min(run.len())).unwrap_or_default());
        }
        if let Some(counter) = &mut self.counter {
            counter.count += run.iter().filter(|byte| **byte == counter.byte).count();
        }
        match self.watch.as_mut().filter(|watch| !watch.is_complete()) {
            None => drop(self.terminal.receive(run, cx)),
            Some(watch) => {
                let before = Stamp::now(cx);
                let written_cells = self.terminal.receive(run, cx);
                watch.on_cells_written(before, run.len(), written_cells.cells, cx);
                if watch.is_complete() {
                    let waits_at_start = self.waits().receive_delay_since(&self.waits_at_start);
                    if let Some(watch) = &mut self.watch {
                        watch.run_queue_wait = waits_at_start;
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

    fn waits(run_queue: Duration, count: u64, stamped_count: u64, delay: Duration) -> WaitTimes {
        WaitTimes {
            run_queue: Some(run_queue),
            reads: ReadStatistics { count, stamped_count, delay },
        }
    }

    #[test]
    fn a_wait_for_a_cpu_that_ended_before_data_arrived_is_not_counted() {
        let before = waits(ms(5), 3, 3, ms(1));
        assert_eq!(waits(ms(15), 4, 4, ms(3)).receive_delay_since(&before), Some(ms(2)));
        assert_eq!(
            waits(ms(6), 4, 4, ms(3)).receive_delay_since(&before),
            Some(ms(1)),
            "woken late"
        );
        assert_eq!(waits(ms(15), 3, 3, ms(1)).receive_delay_since(&before), Some(Duration::ZERO));
    }

    #[test]
    fn the_full_wait_counts_if_the_arrival_time_of_data_is_unknown() {
        let before = waits(ms(5), 3, 0, Duration::ZERO);
        assert_eq!(waits(ms(15), 5, 1, ms(3)).receive_delay_since(&before), Some(ms(10)));
        assert_eq!(WaitTimes::default().receive_delay_since(&before), None);
        assert_eq!(before.receive_delay_since(&WaitTimes::default()), None);
    }
}
