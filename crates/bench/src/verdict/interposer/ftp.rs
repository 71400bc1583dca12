//! Relays an FTP session, and delays selected steps.

use super::super::service_address::SERVER;
use super::super::setup::Delays;
use super::super::stop::Flag;
use super::timeouts::{READ_TIMEOUT, is_timeout, sleep};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes that the simulated disk reads or writes at a time.
const BLOCK: usize = 16_384;
/// Time limit for a data connection to arrive.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

/// Relays the control connection until one side ends it.
pub(super) fn relay_session(
    mut client: TcpStream,
    server: TcpStream,
    delays: Delays,
    stop: &Flag,
) -> Result<()> {
    let mut to_server = server.try_clone()?;
    let to_client = client.try_clone()?;
    let stop_flag = stop.clone();
    let reply_thread = thread::spawn(move || {
        let mut session = Session { client: to_client, delays, stop: stop_flag, data: None };
        // The end of the session closes both directions.
        _ = session.forward_replies(server);
        _ = session.client.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4_096];
    while !stop.is_set() {
        match client.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                if to_server.write_all(bytes.get(..count).unwrap_or_default()).is_err() {
                    break;
                }
            }
            Err(error) if is_timeout(&error) => {}
            Err(_) => break,
        }
    }
    _ = to_server.shutdown(Shutdown::Both);
    _ = reply_thread.join();
    Ok(())
}

struct Session {
    client: TcpStream,
    delays: Delays,
    stop: Flag,
    /// Thread of the data connection announced last.
    data: Option<JoinHandle<()>>,
}

impl Session {
    /// Forwards the replies of the server, line by line.
    fn forward_replies(&mut self, mut server: TcpStream) -> Result<()> {
        let mut bytes = [0; 4_096];
        let mut pending = Vec::new();
        while !self.stop.is_set() {
            let count = match server.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if is_timeout(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            pending.extend_from_slice(bytes.get(..count).unwrap_or_default());
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.forward_line(&line)?;
            }
        }
        Ok(())
    }

    fn forward_line(&mut self, line: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(line).into_owned();
        let delays = self.delays;
        let mut line = line.to_vec();
        sleep(delays.each_reply_ms, &self.stop);
        match text.get(..4) {
            Some("230 ") => sleep(delays.login_ms, &self.stop),
            Some("229 " | "227 ") => {
                sleep(delays.command_ms, &self.stop);
                line = self.replace_port(&text)?;
            }
            // The server opens the file before the first byte of data.
            Some("150 " | "125 ") => sleep(delays.first_byte_ms, &self.stop),
            Some("226 " | "250 ") if self.data.is_some() => {
                // Wait until the data thread has relayed all data; a panicked thread has ended too.
                _ = self.data.take().map(JoinHandle::join);
                sleep(delays.last_reply_ms, &self.stop);
            }
            _ => {}
        }
        Ok(self.client.write_all(&line)?)
    }

    /// Returns the reply to EPSV or PASV, with the server's port replaced by a port of the
    /// interposer.
    fn replace_port(&mut self, text: &str) -> Result<Vec<u8>> {
        let server_port = port_in(text).context("the server's reply contains no port")?;
        let listener = TcpListener::bind((SERVER, 0))?;
        let port = listener.local_addr()?.port();
        let delays = self.delays;
        let stop = self.stop.clone();
        self.data = Some(thread::spawn(move || {
            // If relaying the data fails, both ends see a data connection that closes early.
            _ = carry_data(&listener, server_port, delays, &stop);
        }));
        let reply = match text.starts_with("229") {
            true => format!("229 Entering Extended Passive Mode (|||{port}|)\r\n"),
            false => {
                let [high, low] = port.to_be_bytes();
                let host = SERVER.replace('.', ",");
                format!("227 Entering Passive Mode ({host},{high},{low}).\r\n")
            }
        };
        Ok(reply.into_bytes())
    }
}

/// Parses the port in a reply 227 or 229.
fn port_in(reply: &str) -> Option<u16> {
    let port_text = reply.split_once('(')?.1.split_once(')')?.0;
    if reply.starts_with("229") {
        return port_text.trim_matches('|').parse().ok();
    }
    let mut numbers = port_text.rsplit(',').map(|number| number.trim().parse::<u8>().ok());
    let low = numbers.next()??;
    let high = numbers.next()??;
    Some(u16::from_be_bytes([high, low]))
}

/// Waits for the client, connects to the server, and relays both directions.
fn carry_data(listener: &TcpListener, server_port: u16, delays: Delays, stop: &Flag) -> Result<()> {
    listener.set_nonblocking(true)?;
    let until = Instant::now() + ACCEPT_LIMIT;
    let client = loop {
        match listener.accept() {
            Ok((client, _)) => break client,
            Err(_) if Instant::now() > until || stop.is_set() => {
                anyhow::bail!("no data connection")
            }
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], server_port)))?;
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
    }
    let from_client = client.try_clone()?;
    let to_server = server.try_clone()?;
    let stop_flag = stop.clone();
    let write_pace = DiskPace {
        after_ms: delays.write_block_ms,
        pause: delays.write_pause,
        ..DiskPace::default()
    };
    let read_pace = DiskPace {
        before_ms: delays.read_block_ms,
        pause: delays.read_pause,
        ..DiskPace::default()
    };
    let upload =
        thread::spawn(move || relay_blocks(from_client, to_server, write_pace, &stop_flag));
    relay_blocks(server, client, read_pace, stop);
    _ = upload.join();
    Ok(())
}

/// Speed of a simulated disk.
#[derive(Clone, Copy, Debug, Default)]
struct DiskPace {
    /// Delays before and after each block, ms.
    before_ms: u64,
    after_ms: u64,
    /// `(bytes, ms)`: a pause of `ms` after every `bytes`.
    pause: Option<(u64, u64)>,
}

impl DiskPace {
    /// Returns the pause of the disk after a block that raises the total from `before` to `after`
    /// bytes, ms.
    fn pause_ms(self, before: u64, after: u64) -> u64 {
        let pauses =
            self.pause.map(|(bytes, ms)| (after / bytes.max(1) - before / bytes.max(1), ms));
        pauses.map_or(0, |(count, ms)| count * ms)
    }
}

/// Relays one direction block by block, with a delay before or a pause after each block.
fn relay_blocks(mut from: TcpStream, mut to: TcpStream, pace: DiskPace, stop: &Flag) {
    let mut block = vec![0; BLOCK];
    let mut total = 0;
    while !stop.is_set() {
        let count = match from.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_timeout(&error) => continue,
            Err(_) => break,
        };
        // A partial block takes a proportional part of the block's time.
        let part = |ms: u64| ms * count as u64 / BLOCK as u64;
        sleep(part(pace.before_ms), stop);
        if to.write_all(block.get(..count).unwrap_or_default()).is_err() {
            break;
        }
        let before = total;
        total += count as u64;
        sleep(part(pace.after_ms) + pace.pause_ms(before, total), stop);
    }
    _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_pauses_after_each_interval_of_bytes() {
        let pace = DiskPace { pause: Some((1_000, 70)), ..DiskPace::default() };
        let pauses = [(0, 999), (999, 1_000), (1_000, 1_500), (1_500, 3_200)];
        let pauses = pauses.map(|(before, after)| pace.pause_ms(before, after));
        assert_eq!(pauses, [0, 70, 0, 140]);
    }

    #[test]
    fn the_port_of_either_reply_is_read() {
        assert_eq!(port_in("229 Entering Extended Passive Mode (|||40001|)\r\n"), Some(40_001));
        assert_eq!(port_in("227 Entering Passive Mode (127,0,0,1,156,65).\r\n"), Some(40_001));
        assert_eq!(port_in("229 no port"), None);
        assert_eq!(port_in("227 (1,2,3,4,5,999)"), None);
    }
}
