//! Passes the keys and the text of a session through the emulated terminal, if there is one.

use super::emulated_terminal::{EmulatedTerminal, Emulation, KeyReader, StatusLine};
use super::prompt::KeyTarget;
use super::remote::remote_window;
use super::session::Login;
use net::Cx;
use os::tty::set_display_reset;

impl Login {
    /// Returns the columns and rows that are reported to the remote host.
    pub(super) fn remote_window(&self) -> (u16, u16) {
        remote_window(&self.settings, self.window)
    }

    /// Creates the emulated terminal if one is requested and the session is interactive.
    pub(super) fn set_up_screen(&mut self, cx: &mut Cx<'_>) {
        if !self.settings.is_interactive {
            return;
        }
        match self.settings.emulation {
            Emulation::Heath19 => self.emulator = Some(EmulatedTerminal::heath19(false)),
            Emulation::Heath19Strict => self.emulator = Some(EmulatedTerminal::heath19(true)),
            Emulation::None if self.settings.has_status_line => {
                self.emulator = Some(EmulatedTerminal::ansi(self.remote_window()));
            }
            Emulation::None => {}
        }
        if self.settings.has_status_line {
            self.status_line = Some(StatusLine::new(cx.now));
        }
        self.needs_redraw = self.emulator.is_some();
    }

    /// Enables or disables the status line.
    pub(super) fn toggle_status_line(&mut self, cx: &mut Cx<'_>) {
        self.settings.has_status_line = !self.settings.has_status_line;
        self.status_line = None;
        self.reserve_status_row();
        let is_heath19 = self.emulator.as_ref().is_some_and(EmulatedTerminal::is_heath19);
        if self.settings.has_status_line {
            if !is_heath19 {
                self.screen.restore();
                self.emulator = Some(EmulatedTerminal::ansi(self.remote_window()));
            }
            self.status_line = Some(StatusLine::new(cx.now));
        } else if !is_heath19 {
            self.leave_screen();
        }
        self.fit_screen(cx);
    }

    /// Adapts to a new window size.
    pub(super) fn fit_screen(&mut self, cx: &mut Cx<'_>) {
        let (columns, rows) = self.remote_window();
        if let Some(emulator) = &mut self.emulator {
            emulator.resize((columns, rows));
            self.needs_redraw = true;
        }
        self.telnet.resize(columns, rows, cx);
    }

    /// Passes text to the emulated terminal and sends the terminal's responses to the remote host.
    pub(super) fn show_emulated(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        let Some(emulator) = &mut self.emulator else { return };
        emulator.receive(text, cx);
        self.needs_redraw = true;
        self.send_emulator_output(cx);
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
        self.send_emulator_output(cx);
        true
    }

    fn send_emulator_output(&mut self, cx: &mut Cx<'_>) {
        let output = self.emulator.as_mut().map(EmulatedTerminal::take_output).unwrap_or_default();
        if output.is_empty() {
            return;
        }
        let is_heath19 = self.emulator.as_ref().is_some_and(EmulatedTerminal::is_heath19);
        if is_heath19 && self.echoes_locally() {
            self.logs.record_output(&output, cx.now);
            if let Some(emulator) = &mut self.emulator {
                emulator.receive(&output, cx);
            }
        }
        self.send_keys(&output, cx);
    }

    /// Draws the changes, unless the prompt is displayed.
    pub(super) fn render(&mut self) {
        let is_prompting = matches!(self.key_target, KeyTarget::Prompt(_));
        if !self.needs_redraw || is_prompting || !self.terminal.is_raw() {
            return;
        }
        let Some(emulator) = &mut self.emulator else { return };
        self.needs_redraw = false;
        let line = self.status_line.as_ref();
        let status = line.map(|line| line.text(&self.traffic, self.window.0));
        let bytes = emulator.render(self.window, status.as_deref());
        _ = set_display_reset(&emulator.reset());
        self.screen.put(&bytes);
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

    /// Ends the use of the display: writes all output and restores the terminal.
    pub(super) fn leave_display(&mut self, cx: &mut Cx<'_>) {
        self.end_prediction(cx);
        self.leave_screen();
        self.drain_display(cx);
        self.terminal.leave_raw();
    }

    /// Restores the user's screen.
    pub(super) fn leave_screen(&mut self) {
        if let Some(mut emulator) = self.emulator.take() {
            let bytes = emulator.leave();
            _ = set_display_reset(b"");
            self.screen.put(&bytes);
        }
    }
}
