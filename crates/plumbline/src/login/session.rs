//! One login: Telnet on one side, the person's keyboard and screen on the other.
//!
//! ```text
//!   keyboard ──► attention ──┬─► line or characters ──► Telnet ──► carrier
//!      (near)                └─► prompt (`prompt`)                    │
//!   screen ◄── held while at the prompt ◄── Telnet ◄──────────────────┘
//! ```
//!
//! What is typed goes to the far side, up to the escape character; what follows that is for the
//! prompt. A pipe has no escape character: it is passed through, and its end closes our half of
//! the connection. The order of a turn is the carrier's: input, application, output; the screen
//! is written once in it.

use super::line::{Edited, Line};
use super::near::{Near, Read};
use super::prompt::{Attention, Inquiry};
use super::screen::Screen;
use super::settings::{Echo, LineEnd, Mode, Settings};
use crate::carry::{CarrierStatus, Session};
use anyhow::{Context, Result};
use os::clock::Calibration;
use protocols::Cx;
use protocols::application::Stream;
use protocols::application::telnet::{
    Command, EndOfLine, Event, OptionCode, Side, Telnet, UserSettings,
};
use protocols::meter::Account;
use protocols::terminal::prediction::Predictor;
use protocols::time::Instant;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The most typed bytes that wait for a far side that takes none; ours: a long paste.
const UNSENT_LIMIT: usize = 64 * 1024;
/// Assumed where nobody knows the size of the window.
const WINDOW: (u16, u16) = (80, 24);
const BELL: &[u8] = b"\x07";

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection is not open yet.
    Opening,
    /// Both ways are open.
    Open,
    /// Nothing more goes out than what waits.
    Closing,
    /// The person has ended it.
    Left,
    /// Nobody reads the screen any more.
    Unread,
}

/// What a session has carried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// When the connection was open.
    pub(super) opened_at: Option<Instant>,
    /// Bytes received, commands of Telnet included.
    pub(super) bytes_in: u64,
    /// Bytes sent, commands of Telnet included.
    pub(super) bytes_out: u64,
}

/// Returns with whom, and by which way, where the connection is to that address.
type Greeting = Box<dyn FnOnce(SocketAddr) -> String>;

/// One login.
pub(super) struct Login {
    pub(super) telnet: Telnet,
    pub(super) settings: Settings,
    pub(super) near: Near,
    pub(super) screen: Screen,
    pub(super) attention: Attention,
    /// What is typed of a line, where whole lines go out.
    pub(super) line: Line,
    /// What Telnet had no room for.
    unsent: Vec<u8>,
    has_room: bool,
    /// Whether the last byte from a pipe was a CR, which waits for what follows.
    has_cr: bool,
    pub(super) stage: Stage,
    pub(super) traffic: Traffic,
    pub(super) window: (u16, u16),
    /// To whom, and by which way.
    pub(super) peer: String,
    /// Says with whom, by which address, if that is to be said when the connection is open.
    greeting: Option<Greeting>,
    /// The address of the connection that is opening.
    address: Option<SocketAddr>,
    /// Asked at the prompt, for the carrier to answer.
    pub(super) inquiry: Option<Inquiry>,
    pub(super) calibration: Calibration,
    failure: Option<anyhow::Error>,
    /// What is shown before the far side has echoed it, if that is wanted.
    pub(super) predictor: Option<Predictor>,
}

impl Login {
    /// Makes a login at `peer`, as people are told of it.
    pub(super) fn new(settings: Settings, near: Near, peer: String) -> Self {
        let window = super::near::window().map_or(WINDOW, |window| (window.columns, window.rows));
        let telnet = Telnet::user(&UserSettings {
            terminal_type: settings.terminal_type.clone(),
            window,
            // The ends of lines are put in here; this is what the engine makes of a CR.
            end_of_line: EndOfLine::CrNul,
            starts_negotiation: settings.starts_negotiation,
            ..UserSettings::default()
        });
        Self {
            telnet,
            settings,
            near,
            screen: Screen::default(),
            attention: Attention::Session,
            line: Line::default(),
            unsent: Vec::new(),
            has_room: false,
            has_cr: false,
            stage: Stage::Opening,
            traffic: Traffic::default(),
            window,
            peer,
            greeting: None,
            address: None,
            inquiry: None,
            calibration: Calibration::start(),
            failure: None,
            predictor: None,
        }
    }

    /// Sets how it is said on stderr, when the connection is open, with whom.
    pub(super) fn greet_with(&mut self, greeting: Greeting) {
        self.greeting = Some(greeting);
    }

    /// Returns whether whole lines go out.
    pub(super) fn is_by_line(&self) -> bool {
        let is_on = |option| self.telnet.is_enabled(Side::Him, option);
        match self.settings.mode {
            Mode::Character => false,
            Mode::Line => true,
            Mode::Automatic => !is_on(OptionCode::ECHO) && !is_on(OptionCode::SUPPRESS_GO_AHEAD),
        }
    }

    /// Returns whether what is typed is shown by this side.
    pub(super) fn echoes_here(&self) -> bool {
        match self.settings.echo {
            Echo::Automatic => self.telnet.echoes_locally(),
            Echo::Local => true,
            Echo::Remote => false,
        }
    }

    /// Returns what is sent for the key at the end of a line.
    pub(super) fn line_end(&self) -> EndOfLine {
        self.settings.line_end.when(self.is_by_line())
    }

    /// Begins the session: the connection is open.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>) {
        self.stage = Stage::Open;
        self.traffic.opened_at = Some(cx.now);
        self.begin_prediction();
        self.telnet.start(cx);
        if self.settings.is_binary {
            self.ask_binary(true, cx);
        }
    }

    /// Asks that BINARY begin or end both ways (RFC 856).
    pub(super) fn ask_binary(&mut self, enable: bool, cx: &mut Cx<'_>) {
        for side in [Side::Us, Side::Him] {
            // What is so already, or asked, need not be asked.
            _ = self.telnet.ask(side, OptionCode::BINARY, enable, cx);
        }
    }

    /// Takes what was typed.
    pub(super) fn typed(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        let mut rest = keys;
        while !rest.is_empty() && self.stage != Stage::Left {
            let Attention::Session = self.attention else {
                let (key, others) = rest.split_at_checked(1).unwrap_or_default();
                rest = others;
                self.attend(key.first().copied().unwrap_or_default(), cx);
                continue;
            };
            let escape = self.settings.escape.0;
            let end = rest.iter().position(|key| Some(*key) == escape);
            let (keys, others) =
                rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or_default();
            self.keys(keys, cx);
            self.ask_mark(cx);
            rest = others;
            if end.is_some() {
                rest = rest.get(1..).unwrap_or_default();
                self.escape();
            }
        }
    }

    /// Takes keys for the far side.
    fn keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if self.is_by_line() {
            for key in keys {
                self.line_key(*key, cx);
            }
            return;
        }
        let end = LineEnd::unencoded(self.line_end());
        if self.echoes_here() {
            let mut echo = Vec::new();
            keys.iter().for_each(|key| show_key(*key, &mut echo));
            self.screen.put(&echo);
        } else {
            self.predict(keys, cx);
        }
        // The engine makes a CR into CR NUL, so most keys go as they are.
        if end == b"\r" || self.telnet.is_enabled(Side::Us, OptionCode::BINARY) {
            return self.send(keys, cx);
        }
        for piece in keys.split_inclusive(|key| *key == b'\r') {
            match piece.strip_suffix(b"\r") {
                Some(text) => {
                    self.send(text, cx);
                    self.send(end, cx);
                }
                None => self.send(piece, cx),
            }
        }
    }

    fn line_key(&mut self, key: u8, cx: &mut Cx<'_>) {
        let mut echo = Vec::new();
        match self.line.key(key, &mut echo) {
            Edited::Taken => {}
            Edited::Ended => {
                let mut line = self.line.take();
                line.extend_from_slice(LineEnd::unencoded(self.line_end()));
                self.send(&line, cx);
            }
            Edited::Control(control) => {
                show_key(control, &mut echo);
                if control == INTERRUPT {
                    // As at a Unix terminal: the line goes, and whoever runs is interrupted; that
                    // is said in the way of the network (RFC 854).
                    self.line.take();
                    self.telnet.command(Command::InterruptProcess, cx);
                } else {
                    self.send_line_now(cx);
                    self.send(&[control], cx);
                }
            }
        }
        if self.echoes_here() {
            self.screen.put(&echo);
        }
    }

    /// Sends what is typed of a line, without its end.
    pub(super) fn send_line_now(&mut self, cx: &mut Cx<'_>) {
        let line = self.line.take();
        self.send(&line, cx);
    }

    /// Takes what came from a pipe: its lines end by LF, those of the network as is chosen.
    fn piped(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if self.settings.is_binary {
            return self.send(data, cx);
        }
        let end = LineEnd::unencoded(self.settings.line_end.when(true));
        let mut encoded = Vec::with_capacity(data.len() + data.len() / 16 + 2);
        if std::mem::take(&mut self.has_cr) {
            encoded.push(b'\r');
        }
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            encoded.extend_from_slice(text);
            match encoded.last() {
                _ if text.len() == piece.len() => {}
                Some(b'\r') => encoded.push(b'\n'),
                _ => encoded.extend_from_slice(end),
            }
        }
        // Only what follows tells whether a CR ends a line.
        self.has_cr = encoded.pop_if(|last| *last == b'\r').is_some();
        self.send(&encoded, cx);
    }

    /// Takes the end of a pipe.
    fn end_pipe(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.has_cr) {
            self.send(b"\r", cx);
        }
        self.stage = Stage::Closing;
    }

    /// Gives data to Telnet, or keeps what that has no room for.
    pub(super) fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let taken = if self.unsent.is_empty() { self.telnet.send(data, cx) } else { 0 };
        let rest = data.get(taken..).unwrap_or_default();
        if self.settings.is_interactive && self.unsent.len() + rest.len() > UNSENT_LIMIT {
            // The escape character must be read however long the far side takes nothing.
            return self.screen.put(BELL);
        }
        self.unsent.extend_from_slice(rest);
    }

    /// Shows what the far side writes; where that could not be held any longer, asks anew.
    fn show_far(&mut self, text: &[u8]) {
        if self.screen.put_far(text) {
            self.show_prompt();
        }
    }

    /// Follows what the far side now wants: keys that were kept for a line go out.
    fn follow_options(&mut self, cx: &mut Cx<'_>) {
        if !self.line.is_empty() && !self.is_by_line() {
            self.send_line_now(cx);
        }
    }

    fn take_keyboard(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let left = cx.meter.enter(Account::Interrupt);
        let read = self.near.read();
        cx.meter.enter(Account::Terminal);
        match read.context("the standard input cannot be read")? {
            Read::Nothing => {}
            Read::Some(count) => {
                let buffer = self.near.take_buffer();
                let data = buffer.get(..count).unwrap_or_default();
                if self.settings.is_interactive {
                    self.typed(data, cx);
                } else {
                    self.piped(data, cx);
                }
                self.near.put_back(buffer);
            }
            Read::End if self.settings.is_interactive => self.stage = Stage::Unread,
            Read::End => self.end_pipe(cx),
        }
        cx.meter.enter(left);
        Ok(())
    }

    fn take_window(&mut self, cx: &mut Cx<'_>) {
        if let Some(window) = self.near.new_window() {
            self.window = (window.columns, window.rows);
            self.telnet.resize(window.columns, window.rows, cx);
            self.resize_prediction();
        }
    }
}

/// Appends what a key looks like where this side shows it.
fn show_key(key: u8, echo: &mut Vec<u8>) {
    match key {
        b'\r' | b'\n' => echo.extend_from_slice(b"\r\n"),
        0x08 | 0x7f => echo.extend_from_slice(b"\x08 \x08"),
        b'\t' => echo.push(key),
        0..b' ' => echo.extend_from_slice(&[b'^', key + b'@']),
        _ => echo.push(key),
    }
}

const INTERRUPT: u8 = 3;

impl Stream for Login {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        if let (Some(named), Some(address)) = (self.greeting.take(), self.address) {
            let (way, escape) = (named(address), self.settings.escape);
            super::say(&format!("Connected to {way}.\nEscape character is {escape}."));
        }
        self.begin(cx);
        if self.settings.is_interactive
            && let Err(error) = self.near.set_raw()
        {
            self.failure = Some(error.into());
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.traffic.bytes_in += data.len() as u64;
        let left = cx.meter.enter(Account::Terminal);
        let mut input = data;
        while let Some(event) = self.telnet.receive(&mut input, cx) {
            match event {
                Event::Data(run) => self.show_far(run),
                Event::Option { .. } => {
                    self.follow_options(cx);
                    self.interrupt_prediction();
                }
                Event::TimingMark { .. } => self.mark_answered(cx),
                _ => {}
            }
        }
        cx.meter.enter(left);
    }

    fn urgent(&mut self, is_ahead: bool) {
        if is_ahead {
            self.telnet.urgent();
            self.screen.drop_held();
        } else {
            self.telnet.urgent_ended();
        }
    }

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.telnet.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.traffic.bytes_out += count as u64;
        self.telnet.sent(count);
        self.has_room = true;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.unsent.clear();
        if self.stage == Stage::Open {
            self.stage = Stage::Closing;
        }
    }

    fn is_closing(&self) -> bool {
        !matches!(self.stage, Stage::Opening | Stage::Open) && self.unsent.is_empty()
    }

    fn wants_to_run(&self) -> bool {
        self.has_room && !self.unsent.is_empty()
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.has_room = false;
        let unsent = std::mem::take(&mut self.unsent);
        if !unsent.is_empty() {
            let taken = self.telnet.send(&unsent, cx);
            self.unsent.extend_from_slice(unsent.get(taken..).unwrap_or_default());
        }
        self.run_prediction(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.prediction_deadline()
    }
}

impl Session for Login {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.near.inputs()
    }

    fn reached(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    fn wants_input(&self, index: usize) -> bool {
        match self.stage {
            Stage::Opening => false,
            Stage::Open if index == self.near.keyboard() && !self.settings.is_interactive => {
                self.unsent.is_empty()
            }
            Stage::Open => true,
            // The person may still want to leave a far side that does not close.
            Stage::Closing => self.settings.is_interactive,
            Stage::Left | Stage::Unread => false,
        }
    }

    fn has_more_input(&self, index: usize) -> bool {
        index == self.near.keyboard() && self.near.may_have_more()
    }

    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()> {
        if index != self.near.keyboard() {
            self.take_window(cx);
            return Ok(());
        }
        self.take_keyboard(cx)
    }

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.pass_prediction(cx);
        if self.screen.waiting().is_empty() {
            return Ok(());
        }
        let left = cx.meter.enter(Account::Interrupt);
        let flushed = self.screen.flush();
        cx.meter.enter(left);
        match flushed {
            // Nobody reads any more: the reader of a pipe has seen enough, or the window is shut.
            Err(error) if is_hang_up(&error) => self.stage = Stage::Unread,
            flushed => flushed.context("the standard output takes no more")?,
        }
        Ok(())
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        self.answer_inquiry(status);
    }

    fn wants_status(&self) -> bool {
        self.inquiry.is_some()
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Left | Stage::Unread)
    }
}

fn is_hang_up(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
