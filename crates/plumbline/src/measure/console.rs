//! A Telnet with a screen and no keyboard: what the measurement types on and reads from.

use super::stamp::Stamp;
use protocols::Cx;
use protocols::application::telnet::{Event, Telnet, UserSettings};
use protocols::terminal::Terminal;
use protocols::time::{Duration, Instant};

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;
/// What is kept of the output of a command.
const CAPTURE_BYTES_MAX: usize = 64 * 1024;

/// Telnet and screen.
pub(crate) struct Console {
    telnet: Telnet,
    terminal: Terminal,
    watch: Option<Watch>,
    capture: Option<Vec<u8>>,
    data_at: Option<Instant>,
}

/// What has been painted since the watch began, up to the number of cells that were wanted.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    wanted_cells: u64,
    /// Cells in which a character was written.
    pub(crate) cells: u64,
    /// Bytes of data that did it.
    pub(crate) bytes: u64,
    /// Before the data that brought the first cell had come.
    pub(crate) before: Option<Stamp>,
    /// When the latest data reached Telnet.
    pub(crate) arrived: Option<Stamp>,
    /// Just before the first cell was written.
    pub(crate) first: Option<Stamp>,
    /// Just after the last one was written.
    pub(crate) last: Option<Stamp>,
    data_at: Option<Instant>,
    /// The longest time between two arrivals, from the one with the first cell on.
    pub(crate) longest_gap: Option<Duration>,
}

impl Watch {
    /// Watches for `wanted_cells` cells.
    pub(crate) fn new(wanted_cells: u64) -> Self {
        Self {
            wanted_cells,
            cells: 0,
            bytes: 0,
            before: None,
            arrived: None,
            first: None,
            last: None,
            data_at: None,
            longest_gap: None,
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
        if cells > 0 {
            self.cells += cells;
            self.last = Some(Stamp::now(cx));
        }
    }
}

impl Console {
    /// Makes a console at which nothing has happened yet.
    pub(crate) fn new() -> Self {
        let settings = UserSettings {
            terminal_type: "xterm".to_owned(),
            window: (COLUMNS, ROWS),
            ..UserSettings::default()
        };
        Self {
            telnet: Telnet::user(&settings),
            terminal: Terminal::new(COLUMNS, ROWS),
            watch: None,
            capture: None,
            data_at: None,
        }
    }

    /// Returns the Telnet engine.
    pub(crate) fn telnet(&self) -> &Telnet {
        &self.telnet
    }

    /// Returns the Telnet engine, for what the transport has to say to it.
    pub(crate) fn telnet_mut(&mut self) -> &mut Telnet {
        &mut self.telnet
    }

    /// Strikes keys.
    pub(crate) fn strike(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        self.telnet.send(keys, cx);
    }

    /// Takes what came from the far side.
    pub(crate) fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        let mut open = self.watch.as_mut().filter(|watch| !watch.is_complete());
        if let Some(watch) = &mut open {
            watch.on_arrival(cx);
        }
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            self.data_at = Some(cx.now);
            if let Some(kept) = &mut self.capture {
                let room = CAPTURE_BYTES_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(run.get(..room.min(run.len())).unwrap_or_default());
            }
            match self.watch.as_mut().filter(|watch| !watch.is_complete()) {
                None => drop(self.terminal.receive(run, cx)),
                Some(watch) => {
                    let before = Stamp::now(cx);
                    let written = self.terminal.receive(run, cx);
                    watch.on_painted(before, run.len(), written.cells, cx);
                }
            }
        }
        if let Some(watch) = self.watch.as_mut().filter(|watch| watch.first.is_none()) {
            watch.before = Some(Stamp::now(cx));
        }
        let replies = self.terminal.output().to_vec();
        if !replies.is_empty() {
            self.terminal.sent(self.telnet.send(&replies, cx));
        }
    }

    /// Begins to watch for `cells` cells.
    pub(crate) fn watch(&mut self, cells: u64, cx: &mut Cx<'_>) {
        let before = Some(Stamp::now(cx));
        self.watch = Some(Watch { before, ..Watch::new(cells) });
    }

    /// Returns what has been painted since [`Console::watch`].
    pub(crate) fn watched(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Ends the watch, and returns what it has seen.
    pub(crate) fn end_watch(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// Begins to keep the data that comes.
    pub(crate) fn capture(&mut self) {
        self.capture = Some(Vec::new());
    }

    /// Ends the capture, and returns what it has kept.
    pub(crate) fn end_capture(&mut self) -> Vec<u8> {
        self.capture.take().unwrap_or_default()
    }

    /// Returns when data came last.
    pub(crate) fn data_at(&self) -> Option<Instant> {
        self.data_at
    }

    /// Returns the cursor's row and column.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.terminal.cursor()
    }

    /// Returns whether the cell at a place shows `character`.
    pub(crate) fn shows(&self, (row, column): (u16, u16), character: char) -> bool {
        self.terminal.cell(row, column).is_some_and(|cell| cell.character() == character)
    }

    /// Returns the text on the cursor's row in front of the cursor, blanks included.
    pub(crate) fn line(&self) -> String {
        let (row, column) = self.cursor();
        let text = self.terminal.row_text(row);
        let before = text.chars().chain(std::iter::repeat(' '));
        before.take(usize::from(column)).collect()
    }
}
