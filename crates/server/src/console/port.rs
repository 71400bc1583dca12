//! Task of a serial line: opens the device, carries data, and reopens the device after it was lost.

use super::SerialConsole;
use crate::log::ServeEvent;
use crate::log_file;
use crate::login_server::LoginServer;
use anyhow::{Context, Result};
use net::meter::Counter;
use os::modem_lines::{MarkDecoder, ModemLines, Received};
use os::readiness::{self, Registered, none_as_pending};
use os::serial::Serial;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;

/// Interval of attempts to reopen a lost device. Reconnecting a USB adapter takes longer.
const REOPEN_INTERVAL: Duration = Duration::from_millis(500);
/// Polling interval of the modem lines, if a client requests notifications: changes of a modem line
/// cause no readiness event.
const MODEM_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of bytes per read.
const READ_LEN: usize = 4096;

/// Bits of the RFC 2217 line state, equal to the line status register of a 16550.
const BREAK: u8 = 0x10;
const FRAMING_OR_PARITY_ERROR: u8 = 0x08;

/// Serves the serial line indefinitely.
pub(super) async fn run_port(console: Rc<SerialConsole>, server: Rc<LoginServer>) {
    let device = console.settings().device.display().to_string();
    let mut output_log = OutputLog::new(&console);
    let mut last_failure = String::new();
    loop {
        let why = match open(&console) {
            Ok(line) => {
                let line = Rc::new(line);
                *console.line.borrow_mut() = Some(Rc::clone(&line));
                server.log.write(&ServeEvent::LineUp { device: &device });
                if !last_failure.is_empty() {
                    console.multiplexer.borrow_mut().notify_all("serial line reopened");
                }
                let why = forward(&console, &line, &mut output_log, &server).await;
                console.line.borrow_mut().take();
                console.multiplexer.borrow_mut().discard_input();
                format!("connection to the line lost: {why}")
            }
            Err(error) => format!("{error:#}"),
        };
        // Repeated failures with the same reason are reported once.
        if why != last_failure {
            server.log.write(&ServeEvent::LineDown { device: &device, why: why.clone() });
            console.multiplexer.borrow_mut().notify_all("serial line lost, waiting for it");
            last_failure = why;
        }
        tokio::time::sleep(REOPEN_INTERVAL).await;
    }
}

fn open(console: &SerialConsole) -> Result<Registered<Serial>> {
    let line = Serial::open_with(&console.settings().device, console.line_settings.get())?;
    line.mark_breaks().context("cannot enable BREAK detection")?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    readiness::register(line, interest).context("cannot poll the serial line")
}

/// Forwards bytes in both directions until the line is lost. Returns the reason.
async fn forward(
    console: &SerialConsole,
    line: &Registered<Serial>,
    output_log: &mut OutputLog,
    server: &LoginServer,
) -> io::Error {
    let mut marks = MarkDecoder::default();
    let mut modem_poll = tokio::time::interval(MODEM_POLL_INTERVAL);
    loop {
        let (has_input, wants_modem_state) = {
            let mut multiplexer = console.multiplexer.borrow_mut();
            (!multiplexer.queued_input().is_empty(), multiplexer.wants_modem_state())
        };
        // Random order, so that a line with continuous output does not delay input.
        let result = tokio::select! {
            result = read(console, line, &mut marks, output_log, server) => result,
            result = write(console, line), if has_input => result,
            () = console.wakeup.notified() => Ok(()),
            _ = modem_poll.tick(), if wants_modem_state => {
                poll_modem_lines(console, line.get_ref());
                Ok(())
            }
        };
        if let Err(error) = result {
            return error;
        }
    }
}

async fn read(
    console: &SerialConsole,
    line: &Registered<Serial>,
    marks: &mut MarkDecoder,
    output_log: &mut OutputLog,
    server: &LoginServer,
) -> io::Result<()> {
    line.readable().await?.retain_ready();
    let mut bytes = [0; READ_LEN];
    let read = line.attempt(Interest::READABLE, |line| none_as_pending(line.read(&mut bytes)));
    let Poll::Ready(count) = read? else { return Ok(()) };
    if count == 0 {
        return Err(io::Error::new(ErrorKind::NotConnected, "the device hung up"));
    }
    let mut data = Vec::with_capacity(count);
    let mut state = 0;
    for byte in bytes.get(..count).unwrap_or_default() {
        match marks.take(*byte) {
            Some(Received::Byte(byte)) => data.push(byte),
            Some(Received::Wrong(byte)) => {
                data.push(byte);
                state |= FRAMING_OR_PARITY_ERROR;
            }
            // A BREAK is also received as a NUL (in RFC 2217 the notification accompanies the
            // data).
            Some(Received::Break) => state |= BREAK,
            None => {}
        }
    }
    output_log.append(&data, console, server);
    let dropped_bytes = {
        let mut multiplexer = console.multiplexer.borrow_mut();
        multiplexer.add_line_state(state);
        multiplexer.broadcast(&data)
    };
    server.engine().meter.add(Counter::ConsoleBytesSkipped, dropped_bytes);
    Ok(())
}

async fn write(console: &SerialConsole, line: &Registered<Serial>) -> io::Result<()> {
    line.writable().await?.retain_ready();
    let mut multiplexer = console.multiplexer.borrow_mut();
    let write = |line: &Serial| none_as_pending(line.write(multiplexer.queued_input()));
    if let Poll::Ready(count) = line.attempt(Interest::WRITABLE, write)? {
        multiplexer.consume_input(count);
    }
    Ok(())
}

/// Reads the modem lines. A serial line without modem lines reports nothing.
fn poll_modem_lines(console: &SerialConsole, line: &Serial) {
    if let Ok(lines) = line.modem_lines() {
        console.multiplexer.borrow_mut().set_modem_state(modem_state(lines));
    }
}

/// Returns the upper half of the RFC 2217 modem state, which equals the upper half of a 16550's
/// modem status register.
fn modem_state(lines: ModemLines) -> u8 {
    let bit = |is_on: bool, bit: u8| if is_on { bit } else { 0 };
    bit(lines.carrier(), 0x80)
        | bit(lines.ring(), 0x40)
        | bit(lines.data_set_ready(), 0x20)
        | bit(lines.clear_to_send(), 0x10)
}

/// File that records the output of the line, if configured.
#[derive(Debug)]
struct OutputLog {
    file: Option<io::Result<File>>,
}

impl OutputLog {
    fn new(console: &SerialConsole) -> Self {
        let settings = console.settings();
        let path = settings.log.as_ref();
        Self { file: path.map(|path| log_file::open(path)) }
    }

    /// Appends `data`. If writing fails, logs the error and stops recording until the next reload.
    fn append(&mut self, data: &[u8], console: &SerialConsole, server: &LoginServer) {
        if console.is_log_reopen_due.take() {
            *self = Self::new(console);
        }
        let write_result = match &mut self.file {
            Some(Ok(file)) => file.write_all(data),
            Some(Err(error)) => Err(std::mem::replace(error, ErrorKind::Other.into())),
            None => return,
        };
        if let Err(error) = write_result {
            server.log.write(&ServeEvent::NoRecord { why: error.to_string() });
            self.file = None;
        }
    }
}
