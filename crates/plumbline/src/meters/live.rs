//! Periodically updated display of the meters on a terminal.

use super::meter_table::{EarlierReading, columns, per_second, process_lines, total_lines};
use anyhow::{Context, Result, bail};
use carrier::meters::{MeterReport, Primitive};
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use records::format::count;
use report::table::wrap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Text of the last line.
const KEY_HELP: &str = "q: quit";

/// Maximum time until a change of the terminal size is noticed.
const RESIZE_INTERVAL: Duration = Duration::from_millis(100);

/// Displays the meters at `path` until the user quits or the process ends.
///
/// # Errors
///
/// Returns an error if the terminal cannot be used.
pub(super) fn show(path: &Path, first: MeterReport, every: Duration) -> Result<()> {
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = (|| {
        let has_color = crate::output_style::style().color;
        let mut view = View { report: first, before: None, has_ended: false, has_color };
        loop {
            terminal.draw(|frame| view.draw(frame))?;
            if waits_for_quit(every)? {
                return Ok(());
            }
            view.read(path);
        }
    })();
    ratatui::restore();
    result
}

/// Waits for `time`; returns whether the user wants to quit. A change of the terminal size ends the
/// wait.
fn waits_for_quit(time: Duration) -> Result<bool> {
    let deadline = Instant::now() + time;
    loop {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        match next_event(remaining_time)? {
            Some(Event::Key(key)) if is_quit_key(key) => return Ok(true),
            Some(Event::Resize(..)) | None => return Ok(false),
            Some(_) => {}
        }
    }
}

/// Returns the next event of the terminal, or `None` after `time`.
///
/// # Errors
///
/// Returns an error if the terminal has hung up. crossterm would read it again and again.
pub(crate) fn next_event(time: Duration) -> Result<Option<Event>> {
    let deadline = Instant::now() + time;
    loop {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        let clock = Monotonic::start();
        let until = clock.now() + remaining_time.min(RESIZE_INTERVAL);
        let stdin = io::stdin();
        let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
        readiness::wait(&mut terminal, &clock, Some(until))?;
        let [terminal] = terminal;
        if terminal.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            bail!("the terminal has hung up");
        }
        if event::poll(Duration::ZERO)? {
            return Ok(Some(event::read()?));
        }
        if remaining_time.is_zero() {
            return Ok(None);
        }
    }
}

/// Returns whether `key` ends a display on the whole terminal.
pub(crate) fn is_quit_key(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(
        (key.code, is_control),
        (KeyCode::Char('q') | KeyCode::Esc, false) | (KeyCode::Char('c'), true)
    )
}

/// State of the display.
struct View {
    report: MeterReport,
    before: Option<MeterReport>,
    has_ended: bool,
    has_color: bool,
}

impl View {
    fn read(&mut self, path: &Path) {
        match carrier::meters::request_report(path) {
            Ok(report) => self.before = Some(std::mem::replace(&mut self.report, report)),
            // The last report stays visible.
            Err(_) => self.has_ended = true,
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let width = usize::from(frame.area().width);
        let rows = u16::try_from(self.report.all.primitives.len()).unwrap_or(u16::MAX);
        // The last line has priority, then the accounts; other parts use the remaining space.
        let mut free_rows = frame.area().height.saturating_sub(1);
        let table_height = rows.saturating_add(1).min(free_rows);
        free_rows -= table_height;
        let process_text = fitting_text(&process_lines(&self.report), width, &mut free_rows);
        let totals_text = fitting_text(&total_lines(&self.report), width, &mut free_rows);
        let heights = [process_text.height(), usize::from(table_height), totals_text.height()];
        let [top, middle, bottom] =
            heights.map(|height| Constraint::Length(u16::try_from(height).unwrap_or(u16::MAX)));
        let areas =
            Layout::vertical([top, middle, bottom, Constraint::Min(0), Constraint::Length(1)]);
        let [top, middle, bottom, rest, last] = areas.areas(frame.area());
        frame.render_widget(process_text, top);
        frame.render_widget(self.table(width), middle);
        frame.render_widget(totals_text, bottom);
        frame.render_widget(self.counters(usize::from(rest.height)), rest);
        let state = if self.has_ended { "The process has ended; " } else { "" };
        let keys = Line::from(format!("{state}{KEY_HELP}")).style(Modifier::DIM);
        frame.render_widget(keys, last);
    }

    fn table(&self, width: usize) -> Table<'_> {
        let before = self.before.as_ref().map(|before| EarlierReading {
            figures: &before.all,
            passed_ns: self.report.uptime_ns.saturating_sub(before.uptime_ns),
        });
        let columns = columns(width, before.is_some());
        let header = columns.iter().enumerate().map(|(index, column)| cell(index, column.header()));
        let busiest = self.busiest();
        let rows = self.report.all.primitives.iter().map(|primitive| {
            let cells = columns.iter().enumerate();
            let cells =
                cells.map(|(index, column)| cell(index, &column.cell(primitive, before.as_ref())));
            let has_moved = before.as_ref().is_none_or(|before| before.has_moved(primitive));
            let style = match has_moved {
                false => Style::from(Modifier::DIM),
                true if busiest == Some(primitive.name.as_str()) => self.color(Color::Yellow),
                true => Style::default(),
            };
            Row::new(cells).style(style)
        });
        let widths = columns.iter().map(|column| Constraint::Length(column.width()));
        let header = Row::new(header).style(Style::from(Modifier::REVERSED));
        Table::new(rows, widths).header(header).column_spacing(1)
    }

    /// Returns the primitive that takes at least half of the busy time.
    fn busiest(&self) -> Option<&str> {
        let primitives = self.report.all.primitives.iter();
        let half = |primitive: &&Primitive| primitive.share.is_some_and(|share| share >= 0.5);
        primitives.filter(half).map(|primitive| primitive.name.as_str()).next()
    }

    fn color(&self, color: Color) -> Style {
        if self.has_color { Style::from(color) } else { Style::default() }
    }

    /// Returns the counters, as many as fit: those that have changed since the reading before come
    /// first, and the others are dim.
    fn counters(&self, room: usize) -> Paragraph<'_> {
        let passed_ns = self.before.as_ref().map(|before| self.report.uptime_ns - before.uptime_ns);
        let counters = self.report.all.counters.iter().map(|(name, value)| {
            let before = self.before.as_ref().map(|before| &before.all.counters);
            let change = before.map_or(0, |all| value - all.get(name).unwrap_or(&0).min(value));
            (change, *value, name.as_str())
        });
        let mut counters: Vec<_> = counters.collect();
        counters.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(b.2)));
        let heading = format!("{:>13} {:>10} {}", "count", "per s", "counter");
        let heading = Line::from(heading).style(Style::from(Modifier::REVERSED));
        let lines = counters.into_iter().take(room.saturating_sub(2));
        let lines = lines.map(|(change, value, name)| {
            let rate = per_second(change, passed_ns).map_or_else(String::new, count);
            let line = Line::from(format!("{:>13} {rate:>10} {name}", count(value)));
            match (change, passed_ns) {
                (0, Some(_)) => line.style(Style::from(Modifier::DIM)),
                (_, Some(_)) => line.style(self.color(Color::Green)),
                _ => line,
            }
        });
        Paragraph::new([Line::default(), heading].into_iter().chain(lines).collect::<Vec<_>>())
    }
}

/// Returns the first of `sentences` that fit completely into `room` lines of `width` columns, and
/// subtracts their lines from `room`.
fn fitting_text(sentences: &[String], width: usize, room: &mut u16) -> Text<'static> {
    let mut fitting = Text::default();
    for sentence in sentences {
        let lines = wrap(sentence, width);
        let Some(left) = u16::try_from(lines.len()).ok().and_then(|lines| room.checked_sub(lines))
        else {
            break;
        };
        *room = left;
        fitting.extend(lines.into_iter().map(Line::from));
    }
    fitting
}

/// Creates a cell; names in the first column are left-aligned, numbers right-aligned.
fn cell(column: usize, text: &str) -> Cell<'static> {
    let alignment = if column == 0 { Alignment::Left } else { Alignment::Right };
    Cell::from(Text::from(text.to_owned()).alignment(alignment))
}

#[cfg(test)]
mod tests {
    use super::super::meter_table::example;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(width: u16, height: u16, view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn view(has_before: bool) -> View {
        let mut report = example();
        report.all.counters.insert("segments received".to_owned(), 4_000);
        report.all.counters.insert("wakeups".to_owned(), 2_469);
        let before = has_before.then(|| {
            let mut before = example();
            before.uptime_ns -= 1_000_000_000;
            before.all.primitives[2].visits -= 10;
            before
        });
        View { report, before, has_ended: false, has_color: true }
    }

    #[test]
    fn the_meters_on_a_screen_of_eighty_columns() {
        insta::assert_snapshot!(screen(80, 18, &view(true)));
    }

    #[test]
    fn the_meters_on_a_screen_of_forty_columns() {
        insta::assert_snapshot!(screen(40, 18, &view(false)));
    }

    #[test]
    fn rows_and_counters_that_do_not_move_are_dim_and_moving_counters_come_first() {
        let mut view = view(true);
        let before = view.before.as_mut().unwrap();
        before.all.counters = view.report.all.counters.clone();
        before.all.counters.insert("wakeups".to_owned(), 2_369);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let row_of = |text: &str| (0..24).find(|y| line(*y).contains(text)).unwrap();
        let is_dim = |text: &str| {
            let cells = (0..80).map(|x| &buffer[(x, row_of(text))]);
            cells.filter(|cell| cell.symbol() != " ").all(|cell| cell.modifier == Modifier::DIM)
        };
        assert!(is_dim("application") && !is_dim("Telnet"), "{buffer:?}");
        assert!(is_dim("segments received") && !is_dim("100 wakeups"), "{buffer:?}");
        assert!(row_of("100 wakeups") < row_of("segments received"));
        view.has_color = false;
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let is_plain = |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset;
        assert!(terminal.backend().buffer().content.iter().all(is_plain));
    }

    #[test]
    fn on_a_low_screen_primitives_have_priority_and_sentences_are_complete_or_omitted() {
        let mut view = view(false);
        let primitive = view.report.all.primitives[3].clone();
        let name = |number| format!("primitive {number}");
        view.report.all.primitives =
            (0..12).map(|number| Primitive { name: name(number), ..primitive.clone() }).collect();
        let screen = screen(40, 19, &view);
        assert!((0..12).all(|number| screen.contains(&name(number))), "{screen}");
        assert!(screen.contains("CPU time of the   \"\n\"process 104 ms."), "{screen}");
        // The process text takes 2 of 19 lines, the table 13, the first sentence 2 and the keys 1.
        // The remaining line is too little for the second sentence.
        assert!(!screen.contains("transactions") && screen.contains("q: quit"), "{screen}");
    }

    #[test]
    fn a_screen_of_one_cell_does_not_panic() {
        assert_eq!(screen(1, 1, &view(true)).chars().filter(|c| *c == '"').count(), 2);
    }

    #[test]
    fn q_and_control_c_quit_and_c_does_not() {
        let key = |code, modifiers| is_quit_key(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
    }
}
