//! Files of the faulty FTP server: their facts, listings, and transfers.

use super::control_stream::ControlStream;
use super::{Cut, Quirk, Session};
use rustix::event::Timespec;
use std::io::{self, Read, Write};
use std::net::TcpStream;

impl Session {
    pub(super) fn execute_file_command(&mut self, verb: &str, argument: &str) -> io::Result<()> {
        if let Some(text) = self.endless(verb) {
            return self.send_endless(text);
        }
        let path = self.path_of(argument);
        let file = self.shared.files.lock().unwrap().get(&path).cloned();
        let file = file.filter(|_| !self.is_unsupported_path(argument));
        match (verb, file) {
            ("SIZE", _) if !self.is_image && self.shared.has(Quirk::SizeOfImages) => {
                self.send_reply("550 SIZE not allowed in ASCII mode")
            }
            ("SIZE", Some(file)) => self.send_reply(&format!("213 {}", file.len())),
            ("MDTM", Some(_)) => self.send_reply("213 20200102030405"),
            ("MLST", Some(file)) => {
                let size = file.len();
                let facts = format!("type=file;size={size};modify=20200102030405; {argument}");
                self.send_reply(&format!("250-this\n {facts}\n250 end"))
            }
            ("RETR", Some(file)) => {
                let offset = std::mem::take(&mut self.offset).min(file.len());
                self.send(file.get(offset..).unwrap_or_default())
            }
            ("APPE", file) => self.receive(path, file),
            ("STOR", file) => {
                let offset = std::mem::take(&mut self.offset);
                let before = file.map(|mut file| {
                    file.truncate(offset);
                    file
                });
                self.receive(path, before)
            }
            ("LIST" | "NLST" | "MLSD", _) => {
                let text = self.listing(verb, argument);
                self.send(text.as_bytes())
            }
            ("ABOR", _) => self.send_reply("226 closed"),
            ("MLFL", _) => self.receive(format!("mail/{argument}"), None),
            ("MAIL", _) => self.take_mail(argument),
            ("SIZE" | "MDTM" | "MLST" | "RETR", None) => self.send_reply("550 no such file"),
            _ => self.send_reply("502 not here"),
        }
    }

    fn endless(&self, verb: &str) -> Option<&'static str> {
        self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Endless(known, text) if *known == verb => Some(*text),
            _ => None,
        })
    }

    fn send_endless(&mut self, text: &str) -> io::Result<()> {
        self.send_reply("150 here it comes")?;
        let Some(mut stream) = self.open()? else { return Ok(()) };
        let piece = text.repeat(65_536 / text.len() + 1);
        while stream.write_all(piece.as_bytes()).is_ok() {}
        self.send_reply("426 you have hung up")
    }

    fn take_mail(&mut self, user: &str) -> io::Result<()> {
        self.send_reply("350 go on")?;
        let mut text = String::new();
        while let Some(line) = self.control.line(false)?.filter(|line| line != ".") {
            text.push_str(&line);
            text.push_str("\r\n");
        }
        self.shared.files.lock().unwrap().insert(format!("mail/{user}"), text.into_bytes());
        self.send_reply("256 delivered")
    }

    fn listing(&self, verb: &str, argument: &str) -> String {
        let asks_for_hidden = argument.starts_with("-a");
        let argument = argument.strip_prefix("-a").map_or(argument, str::trim_start);
        let globbed = argument.replace(['[', ']'], "");
        let is_globbed = verb == "LIST" && self.shared.has(Quirk::Globs);
        let path = self.path_of(if is_globbed { &globbed } else { argument });
        let directory = path.trim_end_matches('/');
        let server = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::ListingOf(known, text) if verb == "LIST" && *known == directory => Some(*text),
            Quirk::Hidden(text) if verb == "LIST" && asks_for_hidden => Some(*text),
            Quirk::Listing(text) if verb == "LIST" => Some(*text),
            Quirk::Facts(text) if verb == "MLSD" => Some(*text),
            _ => None,
        });
        if let Some(text) = server {
            return text.replace('\n', "\r\n");
        }
        let files = self.shared.files.lock().unwrap();
        let directory_entries = files.iter().filter_map(|(name, file)| {
            let name_in_directory = name.strip_prefix(directory)?.trim_start_matches('/');
            (!name_in_directory.contains('/')).then_some((name_in_directory, file.len()))
        });
        let lines = directory_entries.map(|(name, size)| match verb {
            "NLST" => format!("{name}\r\n"),
            "MLSD" => format!("type=file;size={size};modify=20200102030405; {name}\r\n"),
            _ => format!("-rw-r--r-- 1 a b {size} Jan 02 2020 {name}\r\n"),
        });
        lines.collect()
    }

    /// Opens the data connection. If that fails, sends an error reply and returns `None`.
    fn open(&mut self) -> io::Result<Option<ControlStream>> {
        let stream = match (self.passive_listener.take(), self.active.take()) {
            (Some(passive_listener), _) => passive_listener.accept()?.0,
            (None, Some(to)) => TcpStream::connect(to)?,
            (None, None) => {
                self.send_reply("425 first PASV or PORT")?;
                return Ok(None);
            }
        };
        let mut stream = ControlStream::Clear(stream);
        if self.is_protected {
            stream = stream.in_tls(self.shared.certificate.as_ref())?;
            if self.shared.has(Quirk::RequiresTlsResumption) && !stream.is_resumed() {
                self.send_reply("522 the session of the control connection must be resumed")?;
                return Ok(None);
            }
        }
        Ok(Some(stream))
    }

    /// Returns the replies for the start and the end of a transfer.
    fn transfer_replies(&self) -> (&'static str, &'static str) {
        let mut start_reply = "150 here it comes";
        let mut end_reply = "226 done";
        for quirk in self.shared.quirks {
            match quirk {
                Quirk::StartReply(text) => start_reply = text,
                Quirk::EndReply(text) => end_reply = text,
                _ => {}
            }
        }
        (start_reply, end_reply)
    }

    /// Returns the number of bytes after which a transfer of `len` bytes ends too early, and the
    /// way in which it ends.
    fn early_end(&self, len: usize) -> Option<(usize, Cut)> {
        self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Cut(at, cut) if self.shared.is_first(*quirk) => Some((*at, *cut)),
            Quirk::CutBeyond(at, cut) if *at < len => Some((*at, *cut)),
            _ => None,
        })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (start_reply, end_reply) = self.transfer_replies();
        if self.shared.has(Quirk::RepliesInOneSegment) {
            self.send_reply(&format!("{start_reply}\n{end_reply}"))?;
        } else {
            self.send_reply(start_reply)?;
        }
        if self.shared.has(Quirk::FinalReplyBeforeData) {
            self.send_reply(end_reply)?;
        }
        let Some(mut stream) = self.open()? else { return Ok(()) };
        let early_end = self.early_end(bytes.len());
        let until = early_end.map_or(bytes.len(), |(at, _)| at.min(bytes.len()));
        // A client that has enough data closes the connection.
        if self.write_paced(&mut stream, bytes.get(..until).unwrap_or_default()).is_err() {
            return self.send_reply("426 you have hung up");
        }
        if let Some((_, cut)) = early_end {
            return self.cut_off(stream, cut);
        }
        if stream.end(!self.shared.has(Quirk::NoCloseNotify)).is_err() {
            return self.send_reply("426 you have hung up");
        }
        // Further data from the client is ignored.
        _ = io::copy(&mut stream, &mut io::sink());
        let has_replied = self.shared.has(Quirk::RepliesInOneSegment)
            || self.shared.has(Quirk::FinalReplyBeforeData);
        if has_replied { Ok(()) } else { self.send_reply(end_reply) }
    }

    /// Writes all bytes at once, or at the pace of a quirk.
    fn write_paced(&self, stream: &mut ControlStream, bytes: &[u8]) -> io::Result<()> {
        let pace = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Paced(len, millis) => Some((*len, *millis)),
            _ => None,
        });
        let Some((len, millis)) = pace else { return stream.write_all(bytes) };
        for piece in bytes.chunks(len) {
            let time = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
            rustix::event::poll(&mut [], Some(&time))?;
            stream.write_all(piece)?;
        }
        Ok(())
    }

    fn cut_off(&mut self, mut stream: ControlStream, cut: Cut) -> io::Result<()> {
        match cut {
            Cut::Closed => {
                stream.end(true)?;
                self.send_reply("226 done")
            }
            Cut::ReportedAborted => {
                stream.end(true)?;
                self.send_reply("426 cut off")
            }
            Cut::DiskFull => {
                drop(stream);
                self.send_reply("552 the disk is full")
            }
            Cut::Reset => {
                stream.reset()?;
                self.send_reply("226 done")
            }
            Cut::Stalled => {
                // The next command ends the transfer.
                let line = self.control.line(false)?;
                drop(stream);
                self.send_reply("426 given up")?;
                if line.is_some() { self.send_reply("226 aborted") } else { Ok(()) }
            }
            Cut::WithControl => {
                drop(stream);
                let control = std::mem::replace(&mut self.control, ControlStream::Gone);
                control.reset()
            }
        }
    }

    fn receive(&mut self, path: String, before: Option<Vec<u8>>) -> io::Result<()> {
        let (start_reply, end_reply) = self.transfer_replies();
        self.send_reply(start_reply)?;
        let Some(mut stream) = self.open()? else { return Ok(()) };
        let mut bytes = before.unwrap_or_default();
        let early_end = self.early_end(usize::MAX);
        match early_end {
            None => _ = stream.read_to_end(&mut bytes)?,
            Some((at, _)) => {
                let at = u64::try_from(at).unwrap_or(u64::MAX);
                _ = (&mut stream).take(at).read_to_end(&mut bytes)?;
            }
        }
        self.shared.files.lock().unwrap().insert(path, bytes);
        if let Some((_, cut)) = early_end {
            return self.cut_off(stream, cut);
        }
        // The client waits for close_notify.
        _ = stream.end(true);
        self.send_reply(end_reply)
    }
}
