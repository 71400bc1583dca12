//! Display of a series of tries on the whole terminal (`--follow`).

use anyhow::{Context, Result};
use measure::Interrupter;
use ratatui::crossterm::event::Event;
use ratatui::style::{Color, Style as TerminalStyle};
use ratatui::text::{Line, Span};
use records::measures::Attempt;
use report::bar_chart::Style;
use report::summary::{LiveLine, LiveSeries};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which keys are read and changes are displayed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Status of the try in progress.
static STATUS: Mutex<String> = Mutex::new(String::new());

/// Displays `text` as the status of the try in progress.
pub(super) fn show_status(text: &str) {
    text.clone_into(&mut STATUS.lock().unwrap_or_else(PoisonError::into_inner));
}

/// A display in a thread of its own.
pub(super) struct LiveDisplay {
    tries: Arc<Mutex<Vec<Attempt>>>,
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl LiveDisplay {
    /// Starts the display. The key q interrupts the tries.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal cannot be used.
    pub(super) fn start(target: String, style: Style, interrupter: Interrupter) -> Result<Self> {
        let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
        let tries = Arc::<Mutex<Vec<Attempt>>>::default();
        let has_ended = Arc::new(AtomicBool::new(false));
        let shared_tries = Arc::clone(&tries);
        let is_over = Arc::clone(&has_ended);
        let run = move || -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                terminal.draw(|frame| {
                    let tries = shared_tries.lock().unwrap_or_else(PoisonError::into_inner);
                    let status = STATUS.lock().unwrap_or_else(PoisonError::into_inner);
                    let series = LiveSeries { target: &target, tries: &tries, status: &status };
                    let area = frame.area();
                    let style = Style { width: area.width.into(), ..style };
                    let lines = series.lines(style, area.height.into());
                    let lines = lines.into_iter().map(|line| terminal_line(line, style.color));
                    frame.render_widget(ratatui::text::Text::from_iter(lines), area);
                })?;
                if let Some(Event::Key(key)) = crate::meters::next_event(POLL_INTERVAL)?
                    && crate::meters::is_quit_key(key)
                    && !interrupter.interrupt()
                {
                    // The second key does not wait for the try in progress.
                    ratatui::restore();
                    std::process::exit(130);
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("display".to_owned()).spawn(run);
        Ok(Self { tries, has_ended, thread: thread.context("cannot start a thread")? })
    }

    /// Adds a try that has ended.
    pub(super) fn push(&self, attempt: &Attempt) {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.push(attempt.clone());
    }

    /// Ends the display and restores the terminal.
    pub(super) fn end(self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Ignored: a display that has failed does not change the results.
        _ = self.thread.join();
        ratatui::restore();
    }
}

fn terminal_line(line: LiveLine, has_color: bool) -> Line<'static> {
    let spans = line.into_iter().map(|span| match span.color.filter(|_| has_color) {
        Some(color) => Span::styled(span.text, TerminalStyle::default().fg(Color::Indexed(color))),
        None => Span::raw(span.text),
    });
    Line::from_iter(spans)
}
