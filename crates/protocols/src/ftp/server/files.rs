//! Commands on files and parameters, from CWD to MAIL.

use super::*;
use crate::ftp::command::{ListArgument, Opts, Range, SetFacts, Site};
use crate::ftp::listing::Pattern;
use crate::ftp::timestamp::Timestamp;
use alloc::format;

impl Server {
    pub(super) fn file_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Cwd(name) => self.change_directory(&name, cx),
            Command::Cdup => {
                let path = self.directory.parent();
                let pending = Pending::ChangeDirectory(path.clone());
                self.perform(Operation::ChangeDirectory(path), pending);
            }
            Command::Smnt(_) => self.reply(502, b"SMNT is not supported"),
            Command::Pwd => {
                let quoted = reply::quote(&self.directory.to_bytes());
                self.reply(257, &[&quoted, b" is the current directory".as_slice()].concat());
            }
            Command::Type(data_type) => {
                self.representation.data_type = data_type;
                self.reply(200, format!("Type is {data_type}").as_bytes());
            }
            Command::Stru(structure) => {
                self.representation.structure = structure;
                self.reply(200, format!("Structure is {structure}").as_bytes());
            }
            Command::Mode(mode) => {
                self.representation.mode = mode;
                self.reply(200, format!("Mode is {mode}").as_bytes());
            }
            Command::Allo(bytes) => {
                // RFC 959 §4.1.3: the size in ALLO is in logical bytes.
                let bits = match self.representation.data_type {
                    Type::Local(size) => u64::from(size.bits()),
                    _ => 8,
                };
                let octets = bytes.checked_mul(bits).map_or(u64::MAX, |bits| bits.div_ceil(8));
                self.perform(Operation::Allocate(octets), Pending::Allocate(octets));
            }
            Command::Rest(bytes) if bytes == 0 || self.can_restart() => {
                self.restart_bytes = bytes;
                self.reply(350, format!("Restarting at {bytes}, send RETR or STOR").as_bytes());
            }
            Command::Rest(_) => self.reply(504, b"REST not supported in this type and structure"),
            Command::Rnfr(_)
            | Command::Rnto(_)
            | Command::Dele(_)
            | Command::Rmd(_)
            | Command::Mkd(_) => self.tree_command(&command, cx),
            Command::Site(site) => self.site(site, cx),
            Command::Stat(listed) => self.status_of(&listed, cx),
            Command::Mail(_) if !self.settings.accepts_mail => {
                self.reply(502, b"Mail not accepted");
            }
            Command::Mail(user) => {
                self.perform(Operation::Mailbox(user.clone()), Pending::Mailbox(user));
            }
            Command::Syst
            | Command::Help(_)
            | Command::Feat
            | Command::Opts(_)
            | Command::Lang(_)
            | Command::Csid(_)
            | Command::Clnt(_) => self.informational_command(command),
            other => self.request_operation(other, cx),
        }
    }

    fn change_directory(&mut self, name: &Name, cx: &mut Cx<'_>) {
        let Some(path) = self.path_of(Some(name), cx) else { return };
        let pending = Pending::ChangeDirectory(path.clone());
        self.perform(Operation::ChangeDirectory(path), pending);
    }

    fn tree_command(&mut self, command: &Command, cx: &mut Cx<'_>) {
        let (Command::Rnfr(name)
        | Command::Rnto(name)
        | Command::Dele(name)
        | Command::Rmd(name)
        | Command::Mkd(name)) = command
        else {
            return;
        };
        let from = self.rename_from.take();
        let Some(path) = self.path_of(Some(name), cx) else { return };
        match (command, from) {
            (Command::Rnfr(_), _) => {
                self.perform(Operation::Exists(path.clone()), Pending::RenameFrom(path));
            }
            (Command::Rnto(_), None) => self.reply(503, b"Send RNFR first"),
            (Command::Rnto(_), Some(from)) => {
                let pending = Pending::Plain(250, "Renamed");
                self.perform(Operation::Rename { from, to: path }, pending);
            }
            // The root can be neither created nor removed.
            _ if path.is_root() => self.reply(550, b"The root cannot be created or removed"),
            (Command::Dele(_), _) => {
                self.perform(Operation::Delete(path), Pending::Plain(250, "Deleted"));
            }
            (Command::Rmd(_), _) => {
                self.perform(Operation::RemoveDirectory(path), Pending::Plain(250, "Removed"));
            }
            _ => {
                let operation = Operation::MakeDirectory(path.clone());
                self.perform(operation, Pending::MakeDirectory(path));
            }
        }
    }

    fn site(&mut self, site: Site, cx: &mut Cx<'_>) {
        let (facts, name) = match site {
            Site::Help => {
                return self.reply_lines(
                    214,
                    &[
                        b"SITE commands:",
                        b"HELP",
                        b"CHMOD mode file",
                        b"UTIME time file",
                        b"PARTIAL file",
                        b"End",
                    ],
                );
            }
            Site::Partial(name) => {
                if UPLOAD_RIGHTS.iter().any(|right| self.is_granted(*right))
                    || self.has_right(Right::Write, cx)
                {
                    let Some(path) = self.path_of(Some(&name), cx) else { return };
                    self.perform(Operation::Partial(path), Pending::Size);
                }
                return;
            }
            Site::Chmod(mode, name) => (SetFacts { mode: Some(mode), ..SetFacts::default() }, name),
            Site::Utime(time, name) => {
                (SetFacts { modified: Some(time), ..SetFacts::default() }, name)
            }
        };
        // SITE itself requires only a login, but this subcommand changes a file.
        if !self.has_right(Right::Change, cx) {
            return;
        }
        let Some(path) = self.path_of(Some(&name), cx) else { return };
        self.perform(Operation::SetFacts(path, facts), Pending::Plain(200, "Changed"));
    }

    fn status_of(&mut self, listed: &ListArgument, cx: &mut Cx<'_>) {
        if !self.has_right(Right::List, cx) {
            return;
        }
        let requested_path = listed.name.as_ref().map(Name::as_bytes).unwrap_or_default();
        let name_start =
            requested_path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let (above, last) = requested_path.split_at_checked(name_start).unwrap_or_default();
        let pattern = Pattern::parse(last);
        let name = Name::new(if pattern.is_some() { above } else { requested_path }).ok();
        let Some(path) = self.path_of(name.as_ref(), cx) else { return };
        let shows_hidden = listed.shows_hidden;
        self.perform(Operation::Status { path, pattern, shows_hidden }, Pending::Status);
    }

    /// Handles commands that request an operation on one file from the owner.
    fn request_operation(&mut self, command: Command, cx: &mut Cx<'_>) {
        let name = match &command {
            Command::Mdtm(name)
            | Command::Size(name)
            | Command::Hash(name)
            | Command::HashOf(_, _, name)
            | Command::Mfmt(_, name)
            | Command::Mff(_, name)
            | Command::Comb(name, _) => Some(name),
            Command::Mlst(name) | Command::Avbl(name) => name.as_ref(),
            _ => return self.reply(502, b"Command not implemented"),
        };
        let Some(path) = self.path_of(name, cx) else { return };
        let (operation, pending) = match command {
            Command::Mdtm(_) => (Operation::Modified(path), Pending::Modified),
            Command::Size(_) => {
                // In RFC 3659 §4, SIZE counts the bytes of the current MODE, but clients expect the
                // size of the file: lftp switches to MODE Z by itself and then compares SIZE with
                // the file.
                let representation = Representation { mode: Mode::Stream, ..self.representation };
                let text_max_bytes = self.settings.text_size_max_bytes;
                (Operation::Size { path, representation, text_max_bytes }, Pending::Size)
            }
            Command::Mlst(_) => (Operation::Facts(path.clone()), Pending::Facts(path)),
            Command::Avbl(_) => (Operation::Available(path), Pending::Available),
            Command::Hash(name) => {
                let range = Range::default();
                let algorithm = self.hash;
                let start = 0;
                let is_hash_command = true;
                let pending = Pending::Hash { name, algorithm, start, is_hash_command };
                (Operation::Hash(algorithm, path, range), pending)
            }
            Command::HashOf(algorithm, range, name) => {
                let pending =
                    Pending::Hash { name, algorithm, start: range.start, is_hash_command: false };
                (Operation::Hash(algorithm, path, range), pending)
            }
            Command::Mfmt(time, name) => {
                let facts = SetFacts { modified: Some(time), ..SetFacts::default() };
                (
                    Operation::SetFacts(path, facts),
                    Pending::SetFacts(set_facts_reply(&facts, &name)),
                )
            }
            Command::Mff(facts, name) => (
                Operation::SetFacts(path, facts),
                Pending::SetFacts(set_facts_reply(&facts, &name)),
            ),
            Command::Comb(_, parts) => {
                let mut paths = Vec::with_capacity(parts.len());
                for part in &parts {
                    let Some(path) = self.path_of(Some(part), cx) else { return };
                    paths.push(path);
                }
                let operation = Operation::Combine { target: path, parts: paths };
                (operation, Pending::Plain(250, "Combined"))
            }
            _ => return,
        };
        self.perform(operation, pending);
    }

    /// Continues the session with the owner's answer to [`ServerEvent::Perform`].
    pub fn on_performed(&mut self, result: Result<Outcome, FileError>, cx: &mut Cx<'_>) {
        let Busy::Performing(_) = &self.busy else { return };
        let Busy::Performing(pending) = core::mem::replace(&mut self.busy, Busy::No) else {
            return;
        };
        self.last_received_at = cx.now;
        match result {
            _ if self.is_closing => {}
            Ok(outcome) => self.report_outcome(pending, outcome),
            Err(error) => {
                if matches!(error, FileError::Missing(_)) {
                    cx.meter.count(Counter::FtpRightsRefused);
                }
                let (code, text) = error.reply();
                // RFC 959 §5.4 defines no other error code for ALLO.
                let code = if matches!(pending, Pending::Allocate(_)) { 504 } else { code };
                self.reply(code, text.as_bytes());
            }
        }
        self.run_queue(cx);
    }

    fn report_outcome(&mut self, pending: Pending, outcome: Outcome) {
        match (pending, outcome) {
            (Pending::ChangeDirectory(path), Outcome::Done) => {
                self.directory = path;
                self.reply(250, b"Directory changed");
            }
            (Pending::MakeDirectory(path), Outcome::Done) => {
                let quoted = reply::quote(&path.to_bytes());
                self.reply(257, &[&quoted, b" created".as_slice()].concat());
            }
            (Pending::RenameFrom(path), Outcome::Done) => {
                self.rename_from = Some(path);
                self.reply(350, b"Send RNTO");
            }
            (Pending::Plain(code, text), Outcome::Done) => self.reply(code, text.as_bytes()),
            (Pending::Size | Pending::Available, Outcome::Size(size))
            | (Pending::Size, Outcome::PartialSize(size)) => {
                self.reply(213, format!("{size}").as_bytes());
            }
            (Pending::Modified, Outcome::Modified(time)) => {
                self.reply(213, Timestamp::to_text(time).as_bytes());
            }
            (Pending::Facts(path), Outcome::Entry(mut entry)) => {
                entry.name = path.to_bytes();
                let mut line = Vec::new();
                self.facts.write(&entry, &mut line);
                self.reply_lines(250, &[b"Facts:", &line, b"End"]);
            }
            (Pending::SetFacts(set_facts_reply), Outcome::Done) => {
                self.reply(213, set_facts_reply.as_bytes());
            }
            (pending, outcome) => self.report_value(pending, outcome),
        }
    }

    fn report_value(&mut self, pending: Pending, outcome: Outcome) {
        match (pending, outcome) {
            (
                Pending::Hash { name, algorithm, start, is_hash_command: true },
                Outcome::Hash { digits, len_bytes },
            ) => {
                let end = start.saturating_add(len_bytes);
                let head = format!("{} {start}-{end} ", algorithm.name());
                let line = [head.as_bytes(), &digits, b" ", name.as_bytes()].concat();
                self.reply(213, &line);
            }
            (Pending::Hash { .. }, Outcome::Hash { digits, .. }) => self.reply(250, &digits),
            (Pending::Host(host), Outcome::Greeting(greeting)) => {
                self.host = Some(host);
                self.reply(220, greeting.as_bytes());
            }
            (Pending::Allocate(octets), Outcome::Done) => {
                self.allocation_bytes = Some(octets);
                self.reply(200, b"Enough free space");
            }
            (Pending::Mailbox(user), Outcome::Done) => {
                self.busy = Busy::Mailing { user, text: Vec::new(), is_too_long: false };
                self.reply(350, b"Send the mail, ended by a line with a period alone");
            }
            (Pending::Status, Outcome::Lines { lines, is_directory }) => {
                let listed_lines = lines.iter().take(STATUS_LINES_MAX).map(Vec::as_slice);
                let status_lines: Vec<&[u8]> = core::iter::once(b"Status:".as_slice())
                    .chain(listed_lines)
                    .chain(core::iter::once(b"End".as_slice()))
                    .collect();
                self.reply_lines(if is_directory { 212 } else { 213 }, &status_lines);
            }
            // The owner's answer does not match the operation.
            _ => self.reply(451, b"Local error"),
        }
    }

    pub(super) fn mail_line(&mut self, line: &Line) {
        let Busy::Mailing { user, text, is_too_long } = &mut self.busy else { return };
        let Line::Whole(line) = line else {
            *is_too_long = true;
            return;
        };
        if line != b"." {
            if text.len() + line.len() < MAIL_MAX_BYTES {
                text.extend_from_slice(line);
                text.push(b'\n');
            } else {
                *is_too_long = true;
            }
            return;
        }
        let user = user.take();
        let text = core::mem::take(text);
        let is_too_long = *is_too_long;
        self.busy = Busy::No;
        if is_too_long {
            return self.reply(552, b"Mail too long");
        }
        let pending = Pending::Plain(256, "Mail delivered");
        self.perform(Operation::Deliver { user, text }, pending);
    }

    fn informational_command(&mut self, command: Command) {
        match command {
            Command::Syst => {
                let system = self.settings.system.clone();
                self.reply(215, system.as_bytes());
            }
            Command::Help(name) => self.help(name.as_ref()),
            Command::Feat => self.features(),
            Command::Opts(opts) => self.opts(&opts),
            // RFC 2640 §4.1: LANG without an argument selects the default language, English.
            Command::Lang(None) => self.reply(200, b"English"),
            Command::Lang(Some(language)) => {
                let is_english = language.as_bytes().to_ascii_lowercase().starts_with(b"en");
                let (code, text): (u16, &[u8]) =
                    if is_english { (200, b"English") } else { (504, b"English only") };
                self.reply(code, text);
            }
            Command::Csid(_) => self.reply(200, b"Name=plumbline; Version=0.1; CaseSensitive=1;"),
            _ => self.reply(200, b"Noted"),
        }
    }

    fn opts(&mut self, opts: &Opts) {
        match opts {
            Opts::Utf8(true) => self.reply(200, b"Names are UTF-8"),
            Opts::Utf8(false) => self.reply(504, b"Names are always UTF-8"),
            Opts::Mlst(facts) => {
                self.facts = *facts;
                let text = [b"MLST OPTS ", self.facts.names().as_slice()].concat();
                self.reply(200, text.trim_ascii_end());
            }
            Opts::Hash(algorithm) => {
                self.hash = algorithm.unwrap_or(self.hash);
                self.reply(200, self.hash.name().as_bytes());
            }
            Opts::DeflateLevel(level) => {
                self.deflate_level = Some(*level);
                self.reply(200, b"Compression level set");
            }
        }
    }
}

/// Returns the facts that were set, in the format of the replies to MFMT and MFF.
fn set_facts_reply(facts: &SetFacts, name: &Name) -> Name {
    let mut text = Vec::new();
    if let Some(time) = facts.modified {
        text.extend_from_slice(format!("Modify={};", time.to_text()).as_bytes());
    }
    if let Some(time) = facts.created {
        text.extend_from_slice(format!("Create={};", time.to_text()).as_bytes());
    }
    if let Some(mode) = facts.mode {
        text.extend_from_slice(format!("UNIX.mode=0{mode:o};").as_bytes());
    }
    text.push(b' ');
    text.extend_from_slice(name.as_bytes());
    Name::new(text).unwrap_or_else(|_| name.clone())
}
