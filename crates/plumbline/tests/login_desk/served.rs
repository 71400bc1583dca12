//! `plumb serve` as a program of a test, and a caller whose bytes are the test's own.

use super::{SERVER, within_the_limit};
use os::process::Program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The port of the server in cleartext.
pub(crate) const PORT: &str = "2323";

/// A running `plumb serve`, and what it has said.
pub(crate) struct Served {
    pub(crate) program: Program,
    said: Arc<Mutex<Vec<String>>>,
    state: PathBuf,
}

impl Served {
    /// Starts the server in cleartext alone at 10.0.0.1 with these further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let at = format!("{SERVER}:{PORT}");
        Self::start_with(&[&["--listen", &at, "--tls", "off"], arguments].concat())
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.arg("serve").args(arguments);
        Self::run(command)
    }

    /// Runs a command that is or becomes a server.
    pub(crate) fn run(mut command: Command) -> Self {
        let state = unique("state");
        std::fs::create_dir_all(&state).unwrap();
        command.env("XDG_STATE_HOME", &state);
        command.env("LD_PRELOAD_OF_THE_SERVER", "1").stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        let server = Self { program, said, state };
        server.says("listening at");
        server
    }

    /// Waits until the server has said a line with `text` in it, and returns it.
    pub(crate) fn says(&self, text: &str) -> String {
        within_the_limit(|| {
            self.said.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
        })
    }

    /// Returns what the server has said so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// Writes a file of users in which `name` has `password`, and returns its path.
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

/// Returns a path in the folder for what is of no lasting use, another each time.
pub(crate) fn unique(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("plumb-serve-{}-{count}-{name}", std::process::id()))
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.state);
    }
}

/// A caller without Telnet: what it says is what goes over the wire.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    pub(crate) heard: Vec<u8>,
    /// How much of it was waited for already.
    read: usize,
}

impl Caller {
    pub(crate) fn new() -> Self {
        Self::at((SERVER, 2323))
    }

    /// Calls this place.
    pub(crate) fn at(place: impl ToSocketAddrs + Copy) -> Self {
        let stream = within_the_limit(|| TcpStream::connect(place).ok());
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        Self::on(stream)
    }

    /// Speaks on a connection that is there.
    pub(crate) const fn on(stream: TcpStream) -> Self {
        Self { stream, heard: Vec::new(), read: 0 }
    }

    pub(crate) fn says(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Returns whether a name is asked for; it is not where the connection ends before.
    pub(crate) fn is_asked(&mut self) -> bool {
        let mut bytes = [0; 4096];
        while !self.heard.windows(7).any(|window| window == b"login: ") {
            let count = self.stream.read(&mut bytes).unwrap_or(0);
            if count == 0 {
                return false;
            }
            self.heard.extend_from_slice(&bytes[..count]);
        }
        true
    }

    /// Waits until `text` has come after what was waited for before.
    pub(crate) fn hears(&mut self, text: &[u8]) {
        let mut bytes = [0; 4096];
        loop {
            let unread = &self.heard[self.read..];
            if let Some(at) = unread.windows(text.len()).position(|window| window == text) {
                self.read += at + text.len();
                return;
            }
            // What was looked through need not be again, but for its last bytes.
            self.read += unread.len().saturating_sub(text.len());
            let answer = self.stream.read(&mut bytes);
            let text = String::from_utf8_lossy(text);
            let so_far = String::from_utf8_lossy(&self.heard);
            let count = answer.unwrap_or_else(|error| panic!("{error}, no '{text}': {so_far}"));
            assert!(count > 0, "closed, and no '{text}': {so_far}");
            self.heard.extend_from_slice(&bytes[..count]);
        }
    }

    /// Reads until the server closes; a reset is an end too.
    pub(crate) fn hears_the_end(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.stream.read(&mut bytes) {
            self.heard.extend_from_slice(&bytes[..count]);
        }
    }
}
