//! Relays a Telnet session, and delays the answers of the server or lets some of them stall.

use super::super::setup::Delays;
use super::super::stop::Flag;
use super::timeouts::{is_timeout, sleep};
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const BUFFER: usize = 16_384;

/// Relays both directions until one of them ends.
pub(super) fn relay_session(
    mut client: TcpStream,
    mut server: TcpStream,
    delays: Delays,
    stop: &Flag,
) -> Result<()> {
    let has_typed = Arc::new(AtomicBool::new(false));
    let mut from_server = server.try_clone()?;
    let to_client = client.try_clone()?;
    let typed_flag = Arc::clone(&has_typed);
    let stop_flag = stop.clone();
    let reply_thread = thread::spawn(move || {
        forward_replies(&mut from_server, to_client, delays, &typed_flag, &stop_flag);
    });
    let mut bytes = [0; BUFFER];
    let mut text = Text::default();
    while !stop.is_set() {
        let count = match client.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_timeout(&error) => continue,
            Err(_) => break,
        };
        let piece = bytes.get(..count).unwrap_or_default();
        if text.has_character(piece) {
            has_typed.store(true, Ordering::Relaxed);
        }
        if server.write_all(piece).is_err() {
            break;
        }
    }
    // The peers may already have closed the connections.
    _ = server.shutdown(Shutdown::Both);
    _ = client.shutdown(Shutdown::Both);
    _ = reply_thread.join();
    Ok(())
}

/// Forwards the server's output. After the first key of the client, delays the output as `delays`
/// specifies.
fn forward_replies(
    server: &mut TcpStream,
    mut client: TcpStream,
    delays: Delays,
    has_typed: &AtomicBool,
    stop: &Flag,
) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    let writer_stop = stop.clone();
    let writer = thread::spawn(move || {
        for (send_at, piece) in receiver {
            let remaining = send_at.saturating_duration_since(Instant::now());
            sleep(u64::try_from(remaining.as_millis()).unwrap_or(0), &writer_stop);
            thread::sleep(send_at.saturating_duration_since(Instant::now()));
            if write_pieces(&mut client, &piece, delays.pieces, &writer_stop).is_err() {
                break;
            }
        }
        _ = client.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; BUFFER];
    let mut count_of_pieces = 0_u64;
    let mut free_at = Instant::now();
    while !stop.is_set() {
        let count = match server.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_timeout(&error) => continue,
            Err(_) => break,
        };
        let mut send_at = Instant::now();
        if has_typed.load(Ordering::Relaxed) {
            count_of_pieces += 1;
            send_at += Duration::from_millis(delays.reply_ms);
            // While a program stalls, all its later output is delayed too.
            if let Some((one_in, ms)) = delays.stall
                && count_of_pieces.is_multiple_of(one_in)
            {
                free_at = send_at + Duration::from_millis(ms);
            }
        }
        let piece = bytes.get(..count).unwrap_or_default().to_vec();
        if sender.send((send_at.max(free_at), piece)).is_err() {
            break;
        }
    }
    drop(sender);
    _ = writer.join();
}

/// Writes `bytes` at once or, with `pieces` = `(len, ms)`, `len` bytes at a time with a pause of
/// `ms` after each write.
fn write_pieces(
    client: &mut TcpStream,
    bytes: &[u8],
    pieces: Option<(u64, u64)>,
    stop: &Flag,
) -> Result<()> {
    let Some((length, ms)) = pieces else { return Ok(client.write_all(bytes)?) };
    for piece in bytes.chunks(usize::try_from(length)?.max(1)) {
        client.write_all(piece)?;
        sleep(ms, stop);
    }
    Ok(())
}

/// Finds characters between Telnet commands (RFC 854, RFC 855).
#[derive(Debug, Default)]
struct Text {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Data,
    Command,
    Option,
    Subnegotiation,
    SubnegotiationCommand,
}

const IAC: u8 = 255;
const SB: u8 = 250;
const SE: u8 = 240;

impl Text {
    /// Returns whether `bytes` contain a keystroke: a printable character, or Return.
    fn has_character(&mut self, bytes: &[u8]) -> bool {
        let mut is_found = false;
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (State::Data, IAC) => State::Command,
                (State::Data, byte) => {
                    is_found |= byte == b'\r' || (0x20..0x7F).contains(&byte);
                    State::Data
                }
                (State::Command, SB) => State::Subnegotiation,
                (State::Command, 251..=254) => State::Option,
                (State::Command | State::Option, _) => State::Data,
                (State::Subnegotiation, IAC) => State::SubnegotiationCommand,
                (State::SubnegotiationCommand, SE) => State::Data,
                (State::Subnegotiation | State::SubnegotiationCommand, _) => State::Subnegotiation,
            };
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_contains_no_characters_and_a_key_is_one() {
        let mut text = Text::default();
        assert!(!text.has_character(&[IAC, 253, 1, IAC, SB, 24, 0, b'x', b't', IAC, SE]));
        assert!(!text.has_character(&[0]));
        assert!(text.has_character(b"a"));
        assert!(text.has_character(b"\r"));
        assert!(!text.has_character(&[IAC]));
        assert!(!text.has_character(&[251, b'a']));
    }
}
