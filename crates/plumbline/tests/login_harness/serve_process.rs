//! `plumb serve` as a child process of a test, and a raw client.

use super::{SERVER, poll_until_timeout};
use os::process::Program;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use test_support::ProgramLog;

/// Port of the cleartext server.
pub(crate) const PORT: &str = "2323";

/// A running `plumb serve` and its log.
pub(crate) struct ServeProcess {
    pub(crate) program: Program,
    log: ProgramLog,
    state: PathBuf,
}

impl ServeProcess {
    /// Starts a cleartext server at 10.0.0.1 with further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let address = format!("{SERVER}:{PORT}");
        Self::start_with(&[&["--listen", &address, "--tls", "off"], arguments].concat())
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.arg("serve").args(arguments);
        Self::run(command)
    }

    /// Runs a command that is, or executes, a server.
    pub(crate) fn run(mut command: Command) -> Self {
        let state = unique("state");
        std::fs::create_dir_all(&state).unwrap();
        command.env("XDG_STATE_HOME", &state);
        command.env("LD_PRELOAD_OF_THE_SERVER", "1").stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        let server = Self { program, log, state };
        server.wait_for_log("listening on");
        server
    }

    /// Waits for a log line that contains `text`, and returns it.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        self.log.wait_for(text)
    }

    /// Returns the log lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lines()
    }

    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.log.count(text) > 0
    }

    /// Writes a users' file with `name` and `password`, and returns its path.
    pub(crate) fn users(name: &str, password: &str, rest: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hasher = command.spawn().unwrap();
        hasher.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
        let hash = String::from_utf8(hasher.wait_with_output().unwrap().stdout).unwrap();
        let path = unique("users");
        let text = format!("[{name}]\npassword = \"{}\"\n{rest}\n", hash.trim());
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Returns a new path in the temporary directory.
pub(crate) fn unique(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("plumb-serve-{}-{count}-{name}", std::process::id()))
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.state);
    }
}

/// A client without a Telnet layer: its bytes go over the wire unchanged.
pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
    pub(crate) received: Vec<u8>,
    /// Number of received bytes already consumed by earlier waits.
    read: usize,
}

impl RawClient {
    pub(crate) fn new() -> Self {
        Self::connect_to((SERVER, 2323))
    }

    /// Connects to `address`.
    pub(crate) fn connect_to(address: impl ToSocketAddrs + Copy) -> Self {
        let stream = poll_until_timeout(|| TcpStream::connect(address).ok());
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        Self::from_stream(stream)
    }

    /// Uses an existing connection.
    pub(crate) const fn from_stream(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), read: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Returns whether the server asks for a user name; `false` if it closes the connection first.
    pub(crate) fn receives_login_prompt(&mut self) -> bool {
        let mut bytes = [0; 4096];
        while !self.received.windows(7).any(|window| window == b"login: ") {
            let count = self.stream.read(&mut bytes).unwrap_or(0);
            if count == 0 {
                return false;
            }
            self.received.extend_from_slice(&bytes[..count]);
        }
        true
    }

    /// Waits until `text` has arrived after the text of the previous wait.
    pub(crate) fn wait_for(&mut self, text: &[u8]) {
        let mut bytes = [0; 4096];
        loop {
            let unread = &self.received[self.read..];
            if let Some(position) = unread.windows(text.len()).position(|window| window == text) {
                self.read += position + text.len();
                return;
            }
            // Do not search the same bytes again, except the last ones, which may begin `text`.
            self.read += unread.len().saturating_sub(text.len());
            let answer = self.stream.read(&mut bytes);
            let text = String::from_utf8_lossy(text);
            let so_far = String::from_utf8_lossy(&self.received);
            let count = answer.unwrap_or_else(|error| panic!("{error}, no '{text}': {so_far}"));
            assert!(count > 0, "closed, and no '{text}': {so_far}");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    /// Reads until the server closes or resets the connection.
    pub(crate) fn read_to_end_of_stream(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.stream.read(&mut bytes) {
            self.received.extend_from_slice(&bytes[..count]);
        }
    }
}
