//! A server that accepts logins, echoes keys, prints screenfuls, and sends and receives files, with
//! optional injected delays.
//!
//! The server interprets single characters: `n` is a user name, `x` a key, and `s` requests a
//! screenful; `d` and a length of four bytes request a file, and `u` and a length of four bytes
//! announce an upload.

use net::Cx;
use net::station::{Application, Layers};
use net::time::{Duration, Instant};
use net::transport::tcp::{ConnectionId, Event, Profile};
use std::collections::VecDeque;

/// Injected delays and sizes of the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    pub(crate) profile: Profile,
    /// Delay before the prompt for a user name.
    pub(crate) prompt: Duration,
    /// Delay from a user name to the acceptance of the login.
    pub(crate) login: Duration,
    /// Delay before each answer.
    pub(crate) think: Duration,
    /// Size of each piece of a screenful, in bytes.
    pub(crate) piece_bytes: usize,
    /// Byte offset in a file at which the server stops reading, and the duration of the pause.
    pub(crate) pause: Option<(usize, Duration)>,
}

pub(crate) const PORT: u16 = 23;
/// Length of a screenful in bytes: 24 lines of 80 cells, the last one without its line end.
pub(crate) const SCREEN_BYTES: usize = 24 * 82 - 2;
/// Echo of Return, which a shell sends before the output of the command.
const RETURN: &[u8] = b"\r\n";
/// Content of files and screenfuls, which occurs in no other answer.
const FILLER: u8 = b'.';

/// State of the input parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Commands,
    /// Inside the four-byte length of a file.
    Length {
        value: u32,
        remaining: u8,
        is_upload: bool,
    },
    File {
        remaining: usize,
    },
}

#[derive(Debug)]
pub(crate) struct LoginServer {
    settings: ServerSettings,
    connection: Option<ConnectionId>,
    is_listening: bool,
    reading: Reading,
    read_bytes: usize,
    paused_until: Option<Instant>,
    /// Pending answers, each with the earliest time at which it is sent.
    answers: VecDeque<(Instant, Vec<u8>)>,
    /// Remaining bytes of an outgoing file.
    file_remaining: usize,
    /// Data that TCP has not accepted yet. The next piece of a screenful or file is generated when
    /// it is empty.
    output: Vec<u8>,
    has_more_output: bool,
}

impl LoginServer {
    pub(crate) fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            connection: None,
            is_listening: false,
            reading: Reading::Commands,
            read_bytes: 0,
            paused_until: None,
            answers: VecDeque::new(),
            file_remaining: 0,
            output: Vec::new(),
            has_more_output: false,
        }
    }

    fn answer(&mut self, text: &[u8], after: Duration, cx: &Cx<'_>) {
        let at = self.answers.back().map_or(cx.now, |(at, _)| (*at).max(cx.now));
        // Answers are sequential.
        self.answers.push_back((at + after, text.to_vec()));
    }

    fn process_command(&mut self, byte: u8, cx: &Cx<'_>) {
        let think = self.settings.think;
        match byte {
            b'n' => self.answer(b"L", self.settings.login, cx),
            b'h' => self.answer(&[b'T'; 3_000], think, cx),
            b's' => {
                self.answer(RETURN, think, cx);
                let screen = vec![FILLER; SCREEN_BYTES];
                for piece in screen.chunks(self.settings.piece_bytes) {
                    self.answer(piece, Duration::ZERO, cx);
                }
            }
            b'd' => self.reading = Reading::Length { value: 0, remaining: 4, is_upload: false },
            b'u' => self.reading = Reading::Length { value: 0, remaining: 4, is_upload: true },
            _ => self.answer(&[byte], think, cx),
        }
    }

    fn take(&mut self, bytes: &[u8], cx: &Cx<'_>) {
        for byte in bytes {
            match &mut self.reading {
                Reading::Commands => self.process_command(*byte, cx),
                Reading::Length { value, remaining, is_upload } => {
                    *value = *value << 8 | u32::from(*byte);
                    *remaining -= 1;
                    let bytes = *value as usize;
                    if *remaining == 0 && *is_upload {
                        self.reading = Reading::File { remaining: bytes };
                        self.read_bytes = 0;
                    } else if *remaining == 0 {
                        self.reading = Reading::Commands;
                        self.file_remaining = bytes;
                    }
                }
                Reading::File { remaining } => {
                    *remaining -= 1;
                    self.read_bytes += 1;
                    if *remaining == 0 {
                        self.reading = Reading::Commands;
                        self.answer(b"k", self.settings.think, cx);
                    }
                }
            }
        }
    }

    fn read(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let Some(id) = self.connection else { return };
        if self.paused_until.is_some_and(|until| cx.now < until) {
            return;
        }
        if self.paused_until.is_some() {
            self.settings.pause = None;
            self.paused_until = None;
        }
        loop {
            let data = match layers.tcp.received(id) {
                Ok(data) if !data.is_empty() => data.to_vec(),
                _ => return,
            };
            self.take(&data, cx);
            let _ = layers.tcp.consume(id, data.len());
            if let Some((at, pause)) = self.settings.pause
                && matches!(self.reading, Reading::File { .. })
                && self.read_bytes >= at
            {
                self.paused_until = Some(cx.now + pause);
                return;
            }
        }
    }

    fn write(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let Some(id) = self.connection else { return };
        self.has_more_output = false;
        if self.output.is_empty() {
            if let Some((at, _)) = self.answers.front()
                && *at <= cx.now
                && let Some((_, text)) = self.answers.pop_front()
            {
                self.output = text;
            } else if self.file_remaining > 0 {
                let count = self.file_remaining.min(16_384);
                self.file_remaining -= count;
                self.output = vec![FILLER; count];
            }
        }
        if let Ok(taken) = layers.tcp.send(id, &self.output) {
            self.output.drain(..taken);
        }
        // Each piece is a separate write, which TCP processes before the next one.
        let is_due = self.answers.front().is_some_and(|(at, _)| *at <= cx.now);
        self.has_more_output = self.output.is_empty() && (is_due || self.file_remaining > 0);
    }
}

impl Application for LoginServer {
    fn wants_to_run(&self) -> bool {
        !self.is_listening || self.has_more_output
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if !self.is_listening {
            self.is_listening = true;
            layers.tcp.listen(PORT, self.settings.profile).unwrap();
        }
        while let Some((id, event)) = layers.tcp.event() {
            if event == Event::Established {
                self.connection = Some(id);
                self.answer(b"P", self.settings.prompt, cx);
            }
        }
        self.read(layers, cx);
        self.write(layers, cx);
    }

    fn deadline(&self) -> Option<Instant> {
        // While TCP accepts no data, there is no deadline.
        let answer = self.answers.front().map(|(at, _)| *at).filter(|_| self.output.is_empty());
        [answer, self.paused_until].into_iter().flatten().min()
    }
}
