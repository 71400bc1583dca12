//! Shared parts of the FTP server tests: directories, a server, and a raw control connection.

use os::process::Program;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use test_support::ProgramLog;

/// The directories of a test.
pub(crate) struct TestDirectories(pub(crate) PathBuf);

impl TestDirectories {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("plumb-ftp-serve-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(path);
        for directory in ["there", "here"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        Self(path)
    }

    pub(crate) fn remote_path(&self, name: &str) -> PathBuf {
        self.0.join("there").join(name)
    }

    pub(crate) fn local_path(&self, name: &str) -> PathBuf {
        self.0.join("here").join(name)
    }

    /// Runs a client program in the local directory, checks that it succeeds, and returns its
    /// output.
    pub(crate) fn run_client_ok(&self, program: &str, words: &[&str], typed: &str) -> String {
        let output = self.run_client(program, words, typed);
        let messages = [output.stdout, output.stderr].concat();
        let messages = String::from_utf8_lossy(&messages).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {messages}");
        messages
    }

    pub(crate) fn run_client(&self, program: &str, words: &[&str], typed: &str) -> Output {
        let peer = test_support::peers::named(program);
        let mut command = peer.map_or_else(|| Command::new(program), |peer| peer.command());
        command.args(words).current_dir(self.local_path("")).env("HOME", self.local_path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Writes a users' file in which ann's password is "secret"; `rest` is appended to her table.
    pub(crate) fn users_file(&self, rest: &str) -> String {
        let mut hasher = Command::new(env!("CARGO_BIN_EXE_plumb"));
        hasher.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hasher = hasher.spawn().unwrap();
        hasher.stdin.take().unwrap().write_all(b"secret").unwrap();
        let hash = String::from_utf8(hasher.wait_with_output().unwrap().stdout).unwrap();
        let path = self.local_path("users.toml");
        fs::write(&path, format!("[ann]\npassword = \"{}\"\n{rest}\n", hash.trim())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for TestDirectories {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns `len` bytes with every byte value and every kind of line end.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// A running server.
pub(crate) struct Server {
    pub(crate) program: Program,
    log: ProgramLog,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server at the local address `ip` whose anonymous users may write.
    pub(crate) fn writable(directories: &TestDirectories, ip: &str, words: &[&str]) -> Self {
        let place = format!("{ip}:0");
        let words = [&["--writable", "--ftp-listen", &place], words].concat();
        Self::start(directories, &words)
    }

    /// Starts a server with `lines` in the table `[ftp]` of its configuration.
    pub(crate) fn configured(directories: &TestDirectories, lines: &str, words: &[&str]) -> Self {
        let configuration = directories.local_path("serve.toml");
        fs::write(&configuration, format!("[ftp]\n{lines}")).unwrap();
        let configuration = configuration.to_str().unwrap().to_owned();
        let words = [&["--config", &configuration, "--ftp-listen", "127.0.0.1:0"], words].concat();
        Self::start(directories, &words)
    }

    /// Starts a server whose root is the directory `there`.
    pub(crate) fn start(directories: &TestDirectories, words: &[&str]) -> Self {
        Self::start_by(directories, &[], words)
    }

    /// Starts a server whose root is the directory `there`. The command line of the server is
    /// appended to the command `before`.
    pub(crate) fn start_by(directories: &TestDirectories, before: &[&str], words: &[&str]) -> Self {
        let plumb = env!("CARGO_BIN_EXE_plumb");
        let mut command = Command::new(before.first().unwrap_or(&plumb));
        if let Some(prefix_arguments) = before.get(1..) {
            command.args(prefix_arguments).arg(plumb);
        }
        command.args(["serve", "--ftp", "--root"]).arg(directories.remote_path("")).args(words);
        command.env("XDG_STATE_HOME", directories.0.join("state"));
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        let mut server = Self { program, log, port: 0 };
        let line = server.wait_for_log("serving FTP at ");
        let place = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
        server.port = place.rsplit(':').next().unwrap().parse().unwrap();
        server
    }

    /// Waits for a line of the server's log that contains `text`, and returns it.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        self.log.wait_for(text)
    }

    pub(crate) fn url(&self, ip: &str, name: &str) -> String {
        format!("ftp://{ip}:{}/{name}", self.port)
    }
}

/// A raw control connection, without a client program.
pub(crate) struct ControlConnection(pub(crate) BufReader<TcpStream>);

impl ControlConnection {
    pub(crate) fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut line = Self(BufReader::new(stream));
        assert_eq!(line.read_reply(), 220);
        line
    }

    /// Connects from the local address `source`.
    pub(crate) fn from_address(source: std::net::Ipv4Addr, server: &Server) -> Self {
        use rustix::net::{AddressFamily, SocketType};
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrV4::new(source, 0)).unwrap();
        let to = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, server.port);
        rustix::net::connect(&socket, &to).unwrap();
        let mut line = Self(BufReader::new(TcpStream::from(socket)));
        assert_eq!(line.read_reply(), 220);
        line
    }

    pub(crate) fn logged_in(server: &Server) -> Self {
        let mut line = Self::connect(server);
        assert_eq!((line.send("USER ftp"), line.send("PASS a@b")), (331, 230));
        line
    }

    /// Sends a command and returns the code of the reply.
    pub(crate) fn send(&mut self, command: &str) -> u16 {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.read_reply()
    }

    /// Sends a command and returns the whole reply.
    pub(crate) fn send_and_read(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        loop {
            let start = reply.len();
            assert_ne!(self.0.read_line(&mut reply).unwrap(), 0, "the connection has ended");
            if reply[start..].get(3..4) == Some(" ") {
                return reply;
            }
        }
    }

    /// Like [`Self::send`], for a server that may be gone.
    pub(crate) fn try_send(&mut self, command: &str) -> Option<u16> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        self.try_read_reply()
    }

    pub(crate) fn try_read_reply(&mut self) -> Option<u16> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.get(..3)?.parse().ok()
    }

    /// Like [`Self::passive`], for a server that may be gone.
    pub(crate) fn try_passive(&mut self) -> Option<TcpStream> {
        self.0.get_mut().write_all(b"EPSV\r\n").ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let port = line.split('|').nth(3)?.parse::<u16>().ok()?;
        TcpStream::connect(("127.0.0.1", port)).ok()
    }

    /// Stores `bytes` and returns the code of the last reply.
    pub(crate) fn store(&mut self, command: &str, bytes: &[u8]) -> u16 {
        let mut data = self.passive();
        let code = self.send(command);
        if code != 150 {
            return code;
        }
        // A server that rejects the bytes may have closed the connection.
        _ = data.write_all(bytes);
        drop(data);
        self.read_reply()
    }

    /// Runs a download command and returns the data, or the code of a refusal.
    pub(crate) fn retrieve(&mut self, command: &str) -> Result<Vec<u8>, u16> {
        let mut data = self.passive();
        let code = self.send(command);
        if code != 150 {
            return Err(code);
        }
        let mut bytes = Vec::new();
        let read = data.read_to_end(&mut bytes);
        match self.read_reply() {
            226 => read.map(|_| bytes).map_err(|_| 0),
            code => Err(code),
        }
    }

    pub(crate) fn read_reply(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.get(3..4) == Some(" ") {
                return line.get(..3).unwrap().parse().unwrap();
            }
            assert!(!line.is_empty(), "the connection has ended");
        }
    }

    /// Requests a passive data connection and opens it.
    pub(crate) fn passive(&mut self) -> TcpStream {
        self.0.get_mut().write_all(b"EPSV\r\n").unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let port = line.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    }
}
