//! Task of a serial line: opens the device, carries data, and reopens the device after it was lost.

use super::Console;
use crate::serve::LoginServer;
use crate::serve::log::Event;
use anyhow::{Context, Result};
use os::modem_lines::{Marks, ModemLines, Received};
use os::readiness::{self, Registered};
use os::serial::Serial;
use protocols::meter::Counter;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::Interest;

/// Interval of attempts to reopen a lost device. Reconnecting a USB adapter takes longer.
const RETRY: Duration = Duration::from_millis(500);
/// Polling interval of the modem lines, if a client wants them: changes cause no readiness event.
const WIRES: Duration = Duration::from_millis(100);
/// Read size.
const READ_LEN: usize = 4096;

/// Bits of the RFC 2217 line state, equal to the line status register of a 16550.
const BREAK: u8 = 0x10;
const WRONG: u8 = 0x08;

/// Runs the line indefinitely.
pub(in crate::serve) async fn tend(console: Rc<Console>, shop: Rc<LoginServer>) {
    let device = console.settings.device.display().to_string();
    let mut record = Record::new(&console);
    let mut last = String::new();
    loop {
        let why = match open(&console) {
            Ok(line) => {
                let line = Rc::new(line);
                *console.line.borrow_mut() = Some(Rc::clone(&line));
                shop.log.say(&Event::LineUp { device: &device });
                if !last.is_empty() {
                    console.desk.borrow_mut().tell_all("serial line reopened");
                }
                let why = carry(&console, &line, &mut record, &shop).await;
                console.line.borrow_mut().take();
                console.desk.borrow_mut().lose_line();
                format!("connection to the line lost: {why}")
            }
            Err(error) => format!("{error:#}"),
        };
        // Repeated failures with the same reason are reported once.
        if why != last {
            shop.log.say(&Event::LineDown { device: &device, why: why.clone() });
            console.desk.borrow_mut().tell_all("serial line lost, waiting for it");
            last = why;
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn open(console: &Console) -> Result<Registered<Serial>> {
    let line = Serial::open_with(&console.settings.device, console.holds.get())?;
    line.mark_breaks().context("cannot enable BREAK detection")?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    readiness::register(line, interest).context("cannot poll the serial line")
}

/// Carries bytes in both directions until the line is lost. Returns the reason.
async fn carry(
    console: &Console,
    line: &Registered<Serial>,
    record: &mut Record,
    shop: &LoginServer,
) -> io::Error {
    let mut marks = Marks::default();
    let mut wires = tokio::time::interval(WIRES);
    loop {
        let (has_output, wants_wires) = {
            let mut desk = console.desk.borrow_mut();
            (!desk.waiting_for_line().is_empty(), desk.wants_wires())
        };
        // Random order, so that a line with continuous output does not delay input.
        let carried = tokio::select! {
            carried = read(console, line, &mut marks, record, shop) => carried,
            carried = write(console, line), if has_output => carried,
            () = console.work.notified() => Ok(()),
            _ = wires.tick(), if wants_wires => {
                look_at_wires(console, line.get_ref());
                Ok(())
            }
        };
        if let Err(error) = carried {
            return error;
        }
    }
}

async fn read(
    console: &Console,
    line: &Registered<Serial>,
    marks: &mut Marks,
    record: &mut Record,
    shop: &LoginServer,
) -> io::Result<()> {
    let mut guard = line.readable().await?;
    let mut bytes = [0; READ_LEN];
    let read = guard.try_io(|line| or_would_block(line.get_ref().read(&mut bytes)?));
    let Ok(read) = read else { return Ok(()) };
    let count = read?;
    if count == 0 {
        return Err(io::Error::new(ErrorKind::NotConnected, "the device hung up"));
    }
    let (mut data, mut state) = (Vec::with_capacity(count), 0);
    for byte in bytes.get(..count).unwrap_or_default() {
        match marks.take(*byte) {
            Some(Received::Byte(byte)) => data.push(byte),
            Some(Received::Wrong(byte)) => {
                data.push(byte);
                state |= WRONG;
            }
            // A BREAK is also received as a NUL (in RFC 2217 the notification accompanies the
            // data).
            Some(Received::Break) => state |= BREAK,
            None => {}
        }
    }
    record.keep(&data, shop);
    let skipped = {
        let mut desk = console.desk.borrow_mut();
        desk.mark_line(state);
        desk.hear(&data)
    };
    shop.bench().meter.add(Counter::ConsoleBytesSkipped, skipped);
    Ok(())
}

async fn write(console: &Console, line: &Registered<Serial>) -> io::Result<()> {
    let mut guard = line.writable().await?;
    let mut desk = console.desk.borrow_mut();
    let written =
        guard.try_io(|line| or_would_block(line.get_ref().write(desk.waiting_for_line())?));
    if let Ok(written) = written {
        desk.line_took(written?);
    }
    Ok(())
}

fn or_would_block(count: Option<usize>) -> io::Result<usize> {
    count.ok_or_else(|| ErrorKind::WouldBlock.into())
}

/// Reads the modem lines. A line without any reports nothing.
fn look_at_wires(console: &Console, line: &Serial) {
    if let Ok(lines) = line.modem_lines() {
        console.desk.borrow_mut().set_wires(modem_state(lines));
    }
}

/// Returns the upper half of the RFC 2217 modem state, equal to that of a 16550's modem status
/// register.
fn modem_state(lines: ModemLines) -> u8 {
    let bit = |is_on: bool, bit: u8| if is_on { bit } else { 0 };
    bit(lines.carrier(), 0x80)
        | bit(lines.ring(), 0x40)
        | bit(lines.data_set_ready(), 0x20)
        | bit(lines.clear_to_send(), 0x10)
}

/// File that records the output of the line, if configured.
#[derive(Debug)]
struct Record {
    file: Option<io::Result<File>>,
}

impl Record {
    fn new(console: &Console) -> Self {
        let path = console.settings.log.as_ref();
        Self { file: path.map(|path| OpenOptions::new().create(true).append(true).open(path)) }
    }

    /// Appends `data`. If writing fails, logs the error and stops recording.
    fn keep(&mut self, data: &[u8], shop: &LoginServer) {
        let kept = match &mut self.file {
            Some(Ok(file)) => file.write_all(data),
            Some(Err(error)) => Err(std::mem::replace(error, ErrorKind::Other.into())),
            None => return,
        };
        if let Err(error) = kept {
            shop.log.say(&Event::NoRecord { why: error.to_string() });
            self.file = None;
        }
    }
}
