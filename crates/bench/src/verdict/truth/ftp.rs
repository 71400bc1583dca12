//! An FTP client of one session: RFC 959 with EPSV (RFC 2428), one file after the other.

use super::super::service::Service;
use super::super::trial_servers::{LARGE_FACTOR, user_of};
use super::super::user_wait::UserWait;
use super::run::{LIMIT, MEASUREMENT_TIME_LIMIT, Run, none_if_silent};
use super::times::{Truth, millis};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Maximum number of transfers of the file.
const MAX_TRANSFERS: usize = 3;
/// Time limit for the transfer of the large file, which is omitted if it is expected to take
/// longer.
const LARGE_LIMIT: Duration = Duration::from_secs(14);

pub(super) fn measure(run: &Run<'_>, truth: &mut Truth) -> Result<()> {
    let stream = run.connect()?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut client = Client { control: BufReader::new(stream) };
    client.reply('2')?;
    let (user, password) = user_of(run.case.peer);
    let reply = client.command(&format!("USER {user}"), &['2', '3'])?;
    if reply.starts_with('3') {
        client.command(&format!("PASS {password}"), &['2'])?;
    }
    truth.set(UserWait::Login, &[millis(run.started_at.elapsed())], false);
    if none_if_silent(client.command("TYPE I", &['2']))?.is_none() {
        truth.set_limit(UserWait::Transfer);
        return Ok(());
    }
    let started_at = Instant::now();
    let mut times = Vec::new();
    for _ in 0..MAX_TRANSFERS {
        let requested_at = Instant::now();
        let transfer_result = match run.case.service {
            Service::FtpPut => client.store("incoming/truth", run.case.bytes),
            _ => client.retrieve("pub/file", run.case.bytes),
        };
        if transfer_result.is_err() {
            truth.set_limit(UserWait::Transfer);
            return Ok(());
        }
        times.push(millis(requested_at.elapsed()));
        if run.case.service == Service::FtpPut && client.delete("incoming/truth").is_err() {
            break;
        }
        if started_at.elapsed() > MEASUREMENT_TIME_LIMIT {
            break;
        }
    }
    truth.set(UserWait::Transfer, &times, run.is_random);
    let expected_ms = times.iter().copied().fold(0.0, f64::max) * LARGE_FACTOR as f64;
    if run.case.service == Service::FtpGet && expected_ms < millis(LARGE_LIMIT) {
        let requested_at = Instant::now();
        match none_if_silent(client.retrieve("pub/large", run.case.bytes * LARGE_FACTOR))? {
            Some(()) => truth.set(UserWait::Large, &[millis(requested_at.elapsed())], false),
            None => truth.set_limit(UserWait::Large),
        }
    }
    // The server may close the connection first.
    _ = client.command("QUIT", &['2']);
    Ok(())
}

struct Client {
    control: BufReader<TcpStream>,
}

impl Client {
    fn command(&mut self, line: &str, classes: &[char]) -> Result<String> {
        self.control.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
        let reply = self.read_reply()?;
        let is_expected = classes.iter().any(|class| reply.starts_with(*class));
        ensure!(is_expected, "the reply to {line} is {}", reply.trim());
        Ok(reply)
    }

    fn reply(&mut self, class: char) -> Result<String> {
        let reply = self.read_reply()?;
        ensure!(reply.starts_with(class), "the reply is {}", reply.trim());
        Ok(reply)
    }

    /// Reads a reply, and returns its last line.
    fn read_reply(&mut self) -> Result<String> {
        let mut first: Option<String> = None;
        loop {
            let mut line = Vec::new();
            let count = self.control.read_until(b'\n', &mut line).context("cannot read a reply")?;
            ensure!(count > 0, "the server has closed the connection");
            let line = String::from_utf8_lossy(&line).into_owned();
            let code = line.get(..3).unwrap_or_default();
            // RFC 959 section 4.2: a reply of several lines ends with its code and a space.
            let is_last = line.get(3..4) != Some("-");
            match &first {
                None if is_last => return Ok(line),
                None => first = Some(code.to_owned()),
                Some(first) if first == code && is_last => return Ok(line),
                Some(_) => {}
            }
        }
    }

    /// Opens a data connection to the port that the server announces.
    fn open_data(&mut self) -> Result<TcpStream> {
        let reply = self.command("EPSV", &['2'])?;
        let port_text = reply.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let port: u16 = port_text.context("no port in the reply")?.0.trim_matches('|').parse()?;
        let mut address = self.control.get_ref().peer_addr()?;
        address.set_port(port);
        let data = TcpStream::connect_timeout(&address, LIMIT)?;
        data.set_read_timeout(Some(LIMIT))?;
        data.set_write_timeout(Some(LIMIT))?;
        Ok(data)
    }

    fn retrieve(&mut self, name: &str, bytes: u64) -> Result<()> {
        let mut data = self.open_data()?;
        self.command(&format!("RETR {name}"), &['1'])?;
        let mut buffer = vec![0; 65_536];
        let mut total = 0_u64;
        loop {
            match data.read(&mut buffer)? {
                0 => break,
                count => total += count as u64,
            }
        }
        ensure!(total == bytes, "{total} of {bytes} bytes arrived");
        // proftpd waits up to ten seconds for the client to close before its final reply.
        drop(data);
        self.reply('2')?;
        Ok(())
    }

    fn store(&mut self, name: &str, bytes: u64) -> Result<()> {
        let mut data = self.open_data()?;
        self.command(&format!("STOR {name}"), &['1'])?;
        let buffer = vec![b'.'; 65_536];
        let mut remaining_bytes = usize::try_from(bytes)?;
        while remaining_bytes > 0 {
            let piece = buffer.get(..remaining_bytes.min(buffer.len())).unwrap_or_default();
            data.write_all(piece)?;
            remaining_bytes -= piece.len();
        }
        drop(data);
        self.reply('2')?;
        Ok(())
    }

    /// Removes an uploaded file: vsftpd does not let an anonymous user overwrite a file.
    fn delete(&mut self, name: &str) -> Result<()> {
        self.command(&format!("DELE {name}"), &['2', '5'])?;
        Ok(())
    }
}
