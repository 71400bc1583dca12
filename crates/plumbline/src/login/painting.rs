//! Sessions with an emulated terminal: keys and text pass through it.

use super::far::far_window;
use super::painted::{Emulation, KeyReader, Painted, StatusLine};
use super::prompt::Attention;
use super::session::Login;
use os::tty::set_display_reset;
use protocols::Cx;

impl Login {
    /// Returns the columns and rows that are reported to the remote host.
    pub(super) fn far_window(&self) -> (u16, u16) {
        far_window(&self.settings, self.window)
    }

    /// Creates the emulated terminal if one is requested and the session is interactive.
    pub(super) fn set_up_screen(&mut self, cx: &mut Cx<'_>) {
        if !self.settings.is_interactive {
            return;
        }
        match self.settings.emulation {
            Emulation::Heath19 => self.painted = Some(Painted::heath19(false)),
            Emulation::Heath19Strict => self.painted = Some(Painted::heath19(true)),
            Emulation::None if self.settings.has_status_line => {
                self.painted = Some(Painted::ansi(self.far_window()));
            }
            Emulation::None => {}
        }
        if self.settings.has_status_line {
            self.status_line = Some(StatusLine::new(cx.now));
        }
        self.is_unpainted = self.painted.is_some();
    }

    /// Enables or disables the status line.
    pub(super) fn toggle_status_line(&mut self, cx: &mut Cx<'_>) {
        self.settings.has_status_line = !self.settings.has_status_line;
        self.status_line = None;
        self.reserve_status_row();
        let is_heath19 = self.painted.as_ref().is_some_and(Painted::is_heath19);
        if self.settings.has_status_line {
            if !is_heath19 {
                self.screen.restore();
                self.painted = Some(Painted::ansi(self.far_window()));
            }
            self.status_line = Some(StatusLine::new(cx.now));
        } else if !is_heath19 {
            self.leave_screen();
        }
        self.fit_screen(cx);
    }

    /// Adapts to a new window size.
    pub(super) fn fit_screen(&mut self, cx: &mut Cx<'_>) {
        let (columns, rows) = self.far_window();
        if let Some(painted) = &mut self.painted {
            painted.resize((columns, rows));
            self.is_unpainted = true;
        }
        self.telnet.resize(columns, rows, cx);
    }

    /// Passes text to the emulated terminal and sends the terminal's responses to the remote host.
    pub(super) fn show_painted(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        let Some(painted) = &mut self.painted else { return };
        painted.receive(text, cx);
        self.is_unpainted = true;
        self.send_painted(cx);
    }

    /// Passes keys to an emulated Heath-19; returns whether there is one.
    pub(super) fn take_painted_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) -> bool {
        let Some(painted) = self.painted.as_mut().filter(|painted| painted.is_heath19()) else {
            return false;
        };
        let mut rest = keys;
        while let Some(struck) = KeyReader.next(&mut rest) {
            painted.key(struck, cx);
        }
        self.is_unpainted = true;
        self.send_painted(cx);
        true
    }

    fn send_painted(&mut self, cx: &mut Cx<'_>) {
        let output = self.painted.as_mut().map(Painted::take_output).unwrap_or_default();
        if output.is_empty() {
            return;
        }
        let is_heath19 = self.painted.as_ref().is_some_and(Painted::is_heath19);
        if is_heath19 && self.echoes_here() {
            self.tape.output(&output, cx.now);
            if let Some(painted) = &mut self.painted {
                painted.receive(&output, cx);
            }
        }
        self.send_keys(&output, cx);
    }

    /// Draws the changes, unless the prompt is displayed.
    pub(super) fn paint(&mut self) {
        let is_prompting = matches!(self.attention, Attention::Prompt(_));
        if !self.is_unpainted || is_prompting || !self.near.is_raw() {
            return;
        }
        let Some(painted) = &mut self.painted else { return };
        self.is_unpainted = false;
        let line = self.status_line.as_ref();
        let status = line.map(|line| line.text(&self.traffic, self.window.0));
        let bytes = painted.paint(self.window, status.as_deref());
        _ = set_display_reset(&painted.reset());
        self.screen.put(&bytes);
    }

    /// Makes room for the prompt below the drawn screen.
    pub(super) fn cover_painted(&mut self) {
        if let Some(painted) = &mut self.painted {
            painted.forget_shown();
            self.is_unpainted = true;
            self.screen.put(format!("\x1b[m\x1b[?25h\x1b[{}H\r\n", self.window.1).as_bytes());
        }
    }

    /// Restores the user's screen temporarily.
    pub(super) fn lend_screen(&mut self) {
        if let Some(painted) = &mut self.painted {
            let bytes = painted.leave();
            _ = set_display_reset(b"");
            self.is_unpainted = true;
            self.screen.put(&bytes);
        }
    }

    /// Ends the use of the display: writes all output and restores the terminal.
    pub(super) fn leave_display(&mut self, cx: &mut Cx<'_>) {
        self.end_prediction(cx);
        self.leave_screen();
        self.drain_display(cx);
        self.near.leave_raw();
    }

    /// Restores the user's screen.
    pub(super) fn leave_screen(&mut self) {
        if let Some(mut painted) = self.painted.take() {
            let bytes = painted.leave();
            _ = set_display_reset(b"");
            self.screen.put(&bytes);
        }
    }
}
