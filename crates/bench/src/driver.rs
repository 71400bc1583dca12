//! One session on a pseudo-terminal, into which the bench types like a user: a key, its echo, the
//! next key.
//!
//! The client program runs on the terminal, and the bench reads and writes the other end. The time
//! of an echo runs from the write of the key until the bench reads the same character. A session
//! without output for [`OUTPUT_TIMEOUT`] is an error, so a run always ends.

use super::telnetd::Listener;
use anyhow::{Context, Result, bail, ensure};
use net::Instant;
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::schedule::processor_time;
use os::tty::WindowSize;
use std::path::Path;
use std::process::Command;

const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without output after which the server is assumed to wait for input.
const QUIET_TIMEOUT: Duration = Duration::from_millis(60);
/// Minimum number of bytes that a simulated slow display reads at once.
const DISPLAY_READ_BYTES: usize = 128;
/// Maximum idle time for which a simulated slow display catches up by a faster read.
const DISPLAY_CATCH_UP_LIMIT: Duration = Duration::from_millis(10);
const WINDOW_SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };
const PROMPT: &[u8] = b"ready> ";
/// Sets the prompt. The command does not contain the prompt literally, so the echo of the command
/// is not mistaken for the prompt.
const SET_PROMPT: &[u8] = b"PS1='rea''dy> '\r";
/// Character that fills the screen in a screenful measurement. The prompt does not contain it.
pub(super) const SCREEN_CHARACTER: u8 = b'#';
pub(super) const SCREEN_COLUMNS: usize = 80;
const SCREEN_LINES: usize = 24;

/// Returns the text of a full screen.
pub(super) fn screen_text() -> String {
    let line = char::from(SCREEN_CHARACTER).to_string().repeat(SCREEN_COLUMNS);
    format!("{line}\n").repeat(SCREEN_LINES)
}

/// Duration of a full screen of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Screenful {
    /// Time from the first byte after the Return key to the last byte of the screen.
    pub(super) first_to_last_ns: u64,
    /// Time from the Return key to the last byte of the screen.
    pub(super) key_to_last_ns: u64,
}

/// Processor time used so far; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessorTimes {
    /// Processor time of the client program on the terminal.
    pub(super) client_ns: Option<u64>,
    /// Processor time of the Telnet server of this session.
    pub(super) server_ns: Option<u64>,
}

/// The server of one session.
#[derive(Debug)]
pub(super) enum Server {
    /// A child process of the bench.
    Program(Program),
    /// Process ID of a server that has detached from its parent and ends with its client.
    Daemon(u32),
}

impl Server {
    fn id(&self) -> u32 {
        match self {
            Self::Program(program) => program.id(),
            Self::Daemon(id) => *id,
        }
    }
}

/// Cost of a long text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Time from the key that requested the text to the prompt after the text.
    pub(super) wall_ns: u64,
    /// Processor time of the client.
    pub(super) client_ns: Option<u64>,
    /// Processor time of the server.
    pub(super) server_ns: Option<u64>,
}

/// A session of a client program into which the bench types.
#[derive(Debug)]
pub(super) struct Session {
    // Dropped first, so that the server sees the end of its connection.
    terminal: PtyProgram,
    server: Option<Server>,
    clock: Monotonic,
    buffer: Vec<u8>,
}

impl Session {
    /// Starts `client` and, if there is a `server`, the server process for its connection; waits
    /// for the shell.
    pub(super) fn open(client: Command, server: Option<&Listener>) -> Result<Self> {
        let name = program_name(&client);
        let mut session = Self::start(client)?;
        if let Some(listener) = server {
            let program_result = listener.answer(OUTPUT_TIMEOUT);
            let program = program_result.with_context(|| session.final_output(&name))?;
            session.server = Some(Server::Program(program));
        }
        session.prepare().with_context(|| format!("{name} did not reach the shell"))?;
        Ok(session)
    }

    /// Starts `client`, which connects to the already listening `server`; waits for the shell.
    pub(super) fn open_to(client: Command, server: Server) -> Result<Self> {
        let name = program_name(&client);
        let mut session = Self { server: Some(server), ..Self::start(client)? };
        session.prepare().with_context(|| format!("{name} did not reach the shell"))?;
        Ok(session)
    }

    fn start(client: Command) -> Result<Self> {
        let name = program_name(&client);
        let terminal = Pty::open(WINDOW_SIZE)?.start(client);
        let terminal = terminal.with_context(|| format!("cannot start {name}"))?;
        Ok(Self { terminal, server: None, clock: Monotonic::start(), buffer: vec![0; 65_536] })
    }

    fn prepare(&mut self) -> Result<()> {
        self.read_until(|text| ends_with(text, b"# ") || ends_with(text, b"$ "))?;
        // Options are still being negotiated when the first prompt arrives.
        self.drain(QUIET_TIMEOUT)?;
        self.type_keys(SET_PROMPT)?;
        self.read_until(|text| ends_with(text, PROMPT))?;
        self.drain(QUIET_TIMEOUT)
    }

    /// Returns the output of a client that has not connected.
    fn final_output(&mut self, name: &str) -> String {
        let text = self.read_for(QUIET_TIMEOUT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        format!(
            "{name} has not connected to the server; its output is '{}'",
            text.trim().escape_debug()
        )
    }

    /// Types `key` and returns the time until its echo, in nanoseconds.
    pub(super) fn echo(&mut self, key: u8) -> Result<u64> {
        self.drain(Duration::ZERO)?;
        let typed_at = self.clock.now();
        self.type_keys(&[key])?;
        let until = typed_at + OUTPUT_TIMEOUT;
        while !self.read(until)?.contains(&key) {}
        Ok(nanos(self.clock.now() - typed_at))
    }

    /// Prints `file`, which holds [`screen_text`], in the shell; waits for `gap` before each key.
    ///
    /// The pace matters: the kernel delays acknowledgments only on a connection that alternates
    /// directions without a pause.
    pub(super) fn screenful(
        &mut self,
        file: &Path,
        mut gap: impl FnMut() -> Duration,
    ) -> Result<Screenful> {
        for key in format!("cat {}", file.display()).bytes() {
            self.sleep_for(gap())?;
            self.echo(key)?;
        }
        self.sleep_for(gap())?;
        let typed_at = self.clock.now();
        self.type_keys(b"\r")?;
        let until = typed_at + OUTPUT_TIMEOUT;
        let mut first_at = None;
        let mut count = 0;
        let mut rest = Vec::new();
        while count < SCREEN_COLUMNS * SCREEN_LINES {
            let text = self.read(until)?;
            count += text.iter().filter(|byte| **byte == SCREEN_CHARACTER).count();
            rest = text.to_vec();
            first_at.get_or_insert_with(|| self.clock.now());
        }
        let last_at = self.clock.now();
        if !rest.ends_with(PROMPT) {
            self.read_until(|text| text.ends_with(PROMPT))?;
        }
        Ok(Screenful {
            first_to_last_ns: nanos(last_at - first_at.unwrap_or(typed_at)),
            key_to_last_ns: nanos(last_at - typed_at),
        })
    }

    /// Types `keys` and returns the output up to and including `end`.
    pub(super) fn ask(&mut self, keys: &[u8], end: &str) -> Result<String> {
        self.drain(Duration::ZERO)?;
        self.type_keys(keys)?;
        let until = self.clock.now() + OUTPUT_TIMEOUT;
        let mut text = String::new();
        while !text.contains(end) {
            text.push_str(&String::from_utf8_lossy(self.read(until)?));
            ensure!(text.len() < TEXT_MAX_BYTES, "the output of the program does not end");
        }
        Ok(text)
    }

    /// Prints `file`, which contains [`SCREEN_CHARACTER`] `count` times, in the shell.
    pub(super) fn transfer(&mut self, file: &Path, count: usize) -> Result<Transfer> {
        self.drain(Duration::ZERO)?;
        self.type_keys(format!("cat {}", file.display()).as_bytes())?;
        self.drain(QUIET_TIMEOUT)?;
        let before = self.processor_times();
        let typed_at = self.clock.now();
        self.type_keys(b"\r")?;
        let mut received_count = 0;
        let mut end = Vec::new();
        while received_count < count || !end.ends_with(PROMPT) {
            let text = self.read(self.clock.now() + OUTPUT_TIMEOUT)?;
            received_count += text.iter().filter(|byte| **byte == SCREEN_CHARACTER).count();
            // The prompt may arrive in several reads.
            end.extend_from_slice(text);
            end.drain(..end.len().saturating_sub(PROMPT.len()));
        }
        let wall_ns = nanos(self.clock.now() - typed_at);
        self.drain(QUIET_TIMEOUT)?;
        let after = self.processor_times();
        let difference = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        Ok(Transfer {
            wall_ns,
            client_ns: difference(before.client_ns, after.client_ns),
            server_ns: difference(before.server_ns, after.server_ns),
        })
    }

    /// Starts a command that writes without end.
    pub(super) fn begin_flood(&mut self) -> Result<()> {
        self.drain(Duration::ZERO)?;
        self.type_keys(b"yes\r")
    }

    /// Types ^C during a flood and continues to read at `bytes_per_second`, like a slow display.
    /// Returns the time until the prompt arrives, or `None` if it does not within `limit`.
    pub(super) fn interrupt(
        &mut self,
        bytes_per_second: u64,
        limit: Duration,
    ) -> Result<Option<Duration>> {
        self.type_keys(b"\x03")?;
        self.read_slowly(bytes_per_second, limit, true)
    }

    /// Reads at most `bytes_per_second` for `time`, or until the prompt arrives if `until_prompt`.
    /// Returns the time until the prompt.
    pub(super) fn read_slowly(
        &mut self,
        bytes_per_second: u64,
        time: Duration,
        until_prompt: bool,
    ) -> Result<Option<Duration>> {
        let started_at = self.clock.now();
        let mut counted_at = started_at;
        let mut budget_ns = 0;
        let mut end = Vec::new();
        let ns_per_byte = (1_000_000_000 / bytes_per_second.max(1)).max(1);
        loop {
            let now = self.clock.now();
            if now - started_at >= time {
                return Ok(None);
            }
            // After an idle time the display catches up on at most `DISPLAY_CATCH_UP_LIMIT`.
            budget_ns = (budget_ns + nanos(now - counted_at)).min(nanos(DISPLAY_CATCH_UP_LIMIT));
            counted_at = now;
            let readable_bytes = usize::try_from(budget_ns / ns_per_byte)?.min(self.buffer.len());
            if readable_bytes < DISPLAY_READ_BYTES {
                let missing_time_ns = (DISPLAY_READ_BYTES - readable_bytes) as u64 * ns_per_byte;
                self.sleep_for(Duration::from_nanos(missing_time_ns))?;
                continue;
            }
            let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
            wait(&mut ready, &self.clock, Some(started_at + time))?;
            let buffer = self.buffer.get_mut(..readable_bytes).unwrap_or_default();
            let count = match self.terminal.read(buffer)? {
                Some(0) => bail!("the program has ended"),
                count => count.unwrap_or(0),
            };
            budget_ns = budget_ns.saturating_sub(count as u64 * ns_per_byte);
            end.extend_from_slice(self.buffer.get(..count).unwrap_or_default());
            end.drain(..end.len().saturating_sub(PROMPT.len()));
            if until_prompt && end.ends_with(PROMPT) {
                return Ok(Some(self.clock.now() - started_at));
            }
        }
    }

    fn sleep_for(&self, time: Duration) -> Result<()> {
        wait(&mut [], &self.clock, Some(self.clock.now() + time))?;
        Ok(())
    }

    /// Returns the processor time used so far.
    pub(super) fn processor_times(&mut self) -> ProcessorTimes {
        let processor_ns = |id: u32| processor_time(id).map(nanos);
        ProcessorTimes {
            client_ns: processor_ns(self.terminal.program().id()),
            server_ns: self.server.as_ref().map(Server::id).and_then(processor_ns),
        }
    }

    fn type_keys(&self, keys: &[u8]) -> Result<()> {
        let written_bytes = self.terminal.write(keys)?;
        ensure!(written_bytes == Some(keys.len()), "the terminal's input buffer is full");
        Ok(())
    }

    /// Waits for the next output, and returns it. The returned output may be empty.
    fn read(&mut self, until: Instant) -> Result<&[u8]> {
        let mut descriptors = [PollFd::new(&self.terminal, PollFlags::IN)];
        if wait(&mut descriptors, &self.clock, Some(until))? == Wake::Deadline {
            bail!("no output from the client for {} s", OUTPUT_TIMEOUT.as_secs());
        }
        match self.terminal.read(&mut self.buffer)? {
            Some(0) => bail!("the program has ended"),
            count => Ok(self.buffer.get(..count.unwrap_or(0)).unwrap_or_default()),
        }
    }

    fn read_until(&mut self, is_complete: impl Fn(&[u8]) -> bool) -> Result<()> {
        let until = self.clock.now() + OUTPUT_TIMEOUT;
        let mut text = Vec::new();
        while !is_complete(&text) {
            let piece = self.read(until).map(<[u8]>::to_vec);
            let received_count = || format!("the screen shows '{}'", text.escape_ascii());
            let piece = piece.with_context(received_count)?;
            text.extend(piece);
            ensure!(text.len() < TEXT_MAX_BYTES, "the output of the program does not end");
        }
        Ok(())
    }

    /// Reads and discards output until none has arrived for `quiet`.
    fn drain(&mut self, quiet: Duration) -> Result<()> {
        self.read_for(quiet).map(drop)
    }

    fn read_for(&mut self, quiet: Duration) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let until = self.clock.now() + quiet;
            let mut descriptors = [PollFd::new(&self.terminal, PollFlags::IN)];
            if wait(&mut descriptors, &self.clock, Some(until))? == Wake::Deadline {
                return Ok(text);
            }
            match self.terminal.read(&mut self.buffer)? {
                Some(0) => return Ok(text),
                count => text.extend(self.buffer.iter().take(count.unwrap_or(0))),
            }
            ensure!(text.len() < TEXT_MAX_BYTES, "the output of the program does not end");
        }
    }
}

/// Returns whether `text` ends with `prompt`. A final sequence that shows the cursor is ignored,
/// because clients that paint the screen send the sequence after the prompt.
fn ends_with(text: &[u8], prompt: &[u8]) -> bool {
    text.strip_suffix(b"\x1b[?25h").unwrap_or(text).ends_with(prompt)
}

fn program_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Maximum length of an answer in bytes, larger than any expected answer.
const TEXT_MAX_BYTES: usize = 1 << 20;

/// Returns `time` in nanoseconds.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Session {
        let mut command = Command::new("sh");
        command.env("PS1", "$ ").env_remove("ENV");
        Session::open(command, None).unwrap()
    }

    #[test]
    fn a_shell_echoes_every_key() {
        let mut session = shell();
        assert!(session.echo(b'x').unwrap() > 0);
        assert!(session.echo(b'y').unwrap() > 0);
    }

    #[test]
    fn a_screen_is_full_when_all_its_lines_have_arrived() {
        let file = std::env::temp_dir().join(format!("plumb-bench-test-{}", std::process::id()));
        std::fs::write(&file, screen_text()).unwrap();
        let screenful = shell().screenful(&file, || Duration::ZERO).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(screenful.first_to_last_ns <= screenful.key_to_last_ns);
    }

    #[test]
    fn a_program_that_exits_immediately_is_reported() {
        let error = Session::open(Command::new("true"), None).unwrap_err();
        assert!(format!("{error:#}").contains("has ended"), "{error:#}");
    }

    #[test]
    fn a_screen_has_24_lines_of_80_characters() {
        assert_eq!(screen_text().lines().count(), SCREEN_LINES);
        assert!(screen_text().lines().all(|line| line.len() == SCREEN_COLUMNS));
    }
}
