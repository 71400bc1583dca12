//! Local display of a login: the decoded output of the remote host, the emulated terminal with its
//! status line, the echo prediction, and notices of plumb itself.

use super::emulated_terminal::{EmulatedTerminal, Emulation, HEATH19_SIZE, KeyReader, StatusLine};
use super::paging::WrappedText;
use super::predicted::EchoPrediction;
use super::screen::Screen;
use super::session_settings::{LoginProtocol, LoginSettings};
use super::session_status::LoginTraffic;
use super::terminal_input;
use carrier::CarrierStatus;
use net::Cx;
use net::meter::Account;
use net::time::Instant;
use os::output::Output;
use os::tty::set_display_reset;
use protocols::terminal::encoding::Decoder;
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Window size in columns and rows if the size of the local terminal is unknown.
const DEFAULT_WINDOW: (u16, u16) = (80, 24);
const BELL: &[u8] = b"\x07";
/// Time limit for a display that accepts nothing at the end of a session. Our choice.
const DISPLAY_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of notices queued for an emulated terminal until the next write. Our choice.
/// Further notices appear in the recording only.
const NOTICES_MAX: usize = 256;

/// Display part of a login.
pub(super) struct LocalDisplay {
    output: Output,
    pub(super) screen: Screen,
    pub(super) prediction: EchoPrediction,
    decoder: Decoder,
    /// Whether a CR is inserted before each LF of the remote host that does not follow a CR.
    inserts_carriage_returns: bool,
    /// Whether the last displayed byte was a CR.
    last_was_cr: bool,
    /// Columns and rows of the local terminal.
    window: (u16, u16),
    /// Emulated terminal, if there is one.
    emulator: Option<EmulatedTerminal>,
    /// Whether the emulated terminal has changed since it was last drawn.
    needs_redraw: bool,
    /// Status line, if it is displayed.
    status_line: Option<StatusLine>,
    /// Notices queued for the emulated terminal.
    notices: Vec<String>,
}

impl LocalDisplay {
    /// Creates the display of a session on `output`.
    pub(super) fn new(settings: &LoginSettings, output: Output) -> Self {
        let window =
            terminal_input::window().map_or(DEFAULT_WINDOW, |window| (window.columns, window.rows));
        Self {
            output,
            screen: Screen::with_filter(settings.filter),
            prediction: EchoPrediction::default(),
            decoder: Decoder::new(settings.encoding),
            // In raw mode, LF alone leaves the cursor in the same column.
            inserts_carriage_returns: settings.protocol == LoginProtocol::Tcp
                && settings.is_interactive,
            last_was_cr: false,
            window,
            emulator: None,
            needs_redraw: false,
            status_line: None,
            notices: Vec::new(),
        }
    }

    /// Returns the standard output, for a new connection.
    pub(super) fn into_output(self) -> Output {
        self.output
    }

    /// Returns the descriptor of the display.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Returns the columns and rows of the local terminal.
    pub(super) fn window(&self) -> (u16, u16) {
        self.window
    }

    /// Sets the columns and rows of the local terminal.
    pub(super) fn set_window(&mut self, window: (u16, u16)) {
        self.window = window;
    }

    /// Returns the columns and rows that are reported to the remote host.
    pub(super) fn remote_window(&self, settings: &LoginSettings) -> (u16, u16) {
        match (settings.emulation.is_heath19(), settings.has_status_line) {
            (true, _) => HEATH19_SIZE,
            (false, true) => (self.window.0, self.window.1.saturating_sub(1).max(1)),
            (false, false) => self.window,
        }
    }

    /// Creates the emulated terminal and starts the prediction, as far as they are requested and
    /// the session is interactive.
    pub(super) fn begin(&mut self, settings: &LoginSettings, cx: &mut Cx<'_>) {
        if settings.is_interactive {
            self.set_up_screen(settings, cx);
        }
        // A Heath-19 echoes and moves its cursor differently.
        let is_heath19 = settings.emulation.is_heath19();
        let is_predicted = settings.is_interactive && !is_heath19;
        self.prediction.begin(is_predicted.then_some((settings.predict, self.window)));
        self.reserve_status_row(settings);
    }

    fn set_up_screen(&mut self, settings: &LoginSettings, cx: &mut Cx<'_>) {
        match settings.emulation {
            Emulation::Heath19 => self.emulator = Some(EmulatedTerminal::heath19(false)),
            Emulation::Heath19Strict => self.emulator = Some(EmulatedTerminal::heath19(true)),
            Emulation::None if settings.has_status_line => {
                self.emulator = Some(EmulatedTerminal::ansi(self.remote_window(settings)));
            }
            Emulation::None => {}
        }
        if settings.has_status_line {
            self.status_line = Some(StatusLine::new(cx.now));
        }
        self.needs_redraw = self.emulator.is_some();
    }

    /// Excludes the status line from prediction.
    fn reserve_status_row(&mut self, settings: &LoginSettings) {
        // A window of one row has no status line.
        let has_status_row = settings.has_status_line && self.window.1 > 1;
        self.prediction.reserve_rows(has_status_row.into());
    }

    /// Displays or removes the status line, as `settings` request.
    pub(super) fn change_status_line(&mut self, settings: &LoginSettings, cx: &mut Cx<'_>) {
        self.status_line = None;
        self.reserve_status_row(settings);
        let is_heath19 = self.is_heath19();
        if settings.has_status_line {
            if !is_heath19 {
                self.screen.restore();
                self.emulator = Some(EmulatedTerminal::ansi(self.remote_window(settings)));
            }
            self.status_line = Some(StatusLine::new(cx.now));
        } else if !is_heath19 {
            self.leave_screen();
        }
    }

    /// Resizes the emulated terminal to a new window.
    pub(super) fn fit_screen(&mut self, size: (u16, u16)) {
        if let Some(emulator) = &mut self.emulator {
            emulator.resize(size);
            self.needs_redraw = true;
        }
    }

    /// Reports the new window size to the prediction.
    pub(super) fn resize_prediction(&mut self, settings: &LoginSettings) {
        self.prediction.resize(self.window);
        self.reserve_status_row(settings);
    }

    /// Returns whether a terminal is emulated.
    pub(super) fn is_emulated(&self) -> bool {
        self.emulator.is_some()
    }

    /// Returns whether a Heath-19 is emulated.
    pub(super) fn is_heath19(&self) -> bool {
        self.emulator.as_ref().is_some_and(EmulatedTerminal::is_heath19)
    }

    /// Returns whether the emulated screen is held until a key releases it.
    pub(super) fn is_held(&self) -> bool {
        self.emulator.as_ref().is_some_and(EmulatedTerminal::is_held)
    }

    /// Converts received data to the text to display.
    pub(super) fn decode<'a>(&mut self, data: &'a [u8]) -> Cow<'a, [u8]> {
        let mut text = Cow::Borrowed(data);
        // A Heath-19 has its own character set.
        if !self.is_heath19() && !self.decoder.is_plain() {
            let mut decoded = Vec::new();
            self.decoder.decode(data, &mut decoded);
            text = Cow::Owned(decoded);
        }
        if self.inserts_carriage_returns {
            let mut lines = Vec::new();
            self.insert_carriage_returns(&text, &mut lines);
            text = Cow::Owned(lines);
        }
        text
    }

    /// Inserts a CR before each LF that does not follow a CR.
    fn insert_carriage_returns(&mut self, text: &[u8], lines: &mut Vec<u8>) {
        for &byte in text {
            if byte == b'\n' && !self.last_was_cr {
                lines.push(b'\r');
            }
            lines.push(byte);
            self.last_was_cr = byte == b'\r';
        }
    }

    /// Passes text to the emulated terminal.
    pub(super) fn show_emulated(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        if let Some(emulator) = &mut self.emulator {
            emulator.receive(text, cx);
            self.needs_redraw = true;
        }
    }

    /// Passes keys to an emulated Heath-19; returns `false` if no Heath-19 is emulated.
    pub(super) fn type_emulated(&mut self, keys: &[u8], cx: &mut Cx<'_>) -> bool {
        let Some(emulator) = self.emulator.as_mut().filter(|emulator| emulator.is_heath19()) else {
            return false;
        };
        let mut rest = keys;
        while let Some(key_press) = KeyReader.next(&mut rest) {
            emulator.key(key_press, cx);
        }
        self.needs_redraw = true;
        true
    }

    /// Returns and removes the emulated terminal's output for the remote host.
    pub(super) fn take_emulator_output(&mut self) -> Vec<u8> {
        self.emulator.as_mut().map(EmulatedTerminal::take_output).unwrap_or_default()
    }

    /// Rings the bell.
    pub(super) fn ring(&mut self) {
        self.screen.put(BELL);
    }

    /// Displays a notice on a line of its own.
    pub(super) fn put_notice(&mut self, sentence: &str) {
        let mut page = WrappedText::new(self.window.0);
        page.push_sentence(sentence);
        if self.screen.is_in_line() {
            self.screen.put(b"\r\n");
        }
        self.screen.put(format!("\x1b[2m{}\x1b[22m\r\n", page.finish().trim_end()).as_bytes());
    }

    /// Displays text of plumb on the emulated terminal, if there is one, or else on the screen.
    pub(super) fn put_own(&mut self, text: &str, cx: &mut Cx<'_>) {
        match self.is_emulated() {
            true => self.show_emulated(text.as_bytes(), cx),
            false => self.screen.put(text.as_bytes()),
        }
    }

    /// Queues a notice for the emulated terminal.
    pub(super) fn queue_notice(&mut self, sentence: &str) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(sentence.to_owned());
        }
    }

    /// Displays the queued notices on the emulated terminal.
    pub(super) fn show_notices(&mut self, cx: &mut Cx<'_>) {
        for sentence in std::mem::take(&mut self.notices) {
            let mut page = WrappedText::new(self.window.0);
            page.push_sentence(&sentence);
            if let Some(emulator) = &mut self.emulator {
                emulator.show_notice(page.finish().trim_end(), cx);
                self.needs_redraw = true;
            }
        }
    }

    /// Records on the status line that keys were sent.
    pub(super) fn key_sent(&mut self, now: Instant) {
        if let Some(line) = &mut self.status_line {
            line.key_sent(now);
        }
    }

    /// Records on the status line that output of the remote host was received.
    pub(super) fn output_received(&mut self, now: Instant) {
        if let Some(line) = &mut self.status_line {
            line.output_received(now);
        }
    }

    /// Requests the carrier's status for the status line if it is due.
    pub(super) fn request_status_if_due(&mut self, now: Instant) {
        if let Some(line) = &mut self.status_line {
            line.request_if_due(now);
        }
    }

    /// Returns whether the status line waits for the carrier's status.
    pub(super) fn wants_status(&self) -> bool {
        self.status_line.as_ref().is_some_and(StatusLine::is_requested)
    }

    /// Displays the carrier's status on the status line.
    pub(super) fn update_status_line(&mut self, status: &CarrierStatus) {
        if let Some(line) = &mut self.status_line {
            line.update(status);
            self.needs_redraw = true;
        }
    }

    /// Returns the earlier of the deadlines of the status line and the prediction.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let status = self.status_line.as_ref().map(StatusLine::deadline);
        status.into_iter().chain(self.prediction.deadline()).min()
    }

    /// Draws the changes of the emulated terminal, and the status line.
    pub(super) fn render(&mut self, traffic: &LoginTraffic) {
        if !self.needs_redraw {
            return;
        }
        let Some(emulator) = &mut self.emulator else { return };
        self.needs_redraw = false;
        let status = self.status_line.as_ref().map(|line| line.text(traffic, self.window.0));
        let bytes = emulator.render(self.window, status.as_deref());
        _ = set_display_reset(&emulator.reset());
        self.screen.put(&bytes);
    }

    /// Passes pending output through the predictor, which adds its own output.
    pub(super) fn predict_pending_output(&mut self, cx: &mut Cx<'_>) {
        self.prediction.pass(&mut self.screen, cx);
    }

    /// Writes as much of the queued output as the display accepts.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Screen::flush`].
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let previous_account = cx.meter.enter(Account::Interrupt);
        let write_result = self.screen.flush(&self.output, cx);
        cx.meter.enter(previous_account);
        write_result
    }

    /// Writes all output queued for the display. A blocked terminal (`is_interactive`) delays the
    /// end of the program by at most [`DISPLAY_DRAIN_TIMEOUT`]; a pipe is written completely.
    pub(super) fn drain(&mut self, is_interactive: bool, cx: &mut Cx<'_>) {
        let limit = is_interactive.then_some(DISPLAY_DRAIN_TIMEOUT);
        // Ignored: an error has no effect at the end of a session or before a suspension.
        _ = self.screen.drain(&self.output, limit, cx);
    }

    /// Moves the displayed picture up by one row, so that the last row is empty for the prompt.
    pub(super) fn free_prompt_row(&mut self) {
        if let Some(emulator) = &mut self.emulator {
            emulator.invalidate_shown();
            self.needs_redraw = true;
            self.screen.put(format!("\x1b[m\x1b[?25h\x1b[{}H\r\n", self.window.1).as_bytes());
        }
    }

    /// Restores the user's screen temporarily.
    pub(super) fn suspend_screen(&mut self) {
        if let Some(emulator) = &mut self.emulator {
            let bytes = emulator.leave();
            _ = set_display_reset(b"");
            self.needs_redraw = true;
            self.screen.put(&bytes);
        }
    }

    /// Ends the prediction, resets the terminal modes that the remote host has set, and writes all
    /// output.
    pub(super) fn leave(&mut self, is_interactive: bool, cx: &mut Cx<'_>) {
        self.prediction.end(&mut self.screen, cx);
        self.screen.restore();
        self.leave_screen();
        self.drain(is_interactive, cx);
    }

    /// Restores the user's screen.
    fn leave_screen(&mut self) {
        if let Some(mut emulator) = self.emulator.take() {
            let bytes = emulator.leave();
            _ = set_display_reset(b"");
            self.screen.put(&bytes);
        }
    }
}
