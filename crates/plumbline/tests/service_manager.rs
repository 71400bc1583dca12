//! `plumb serve` as a service: notifications, inherited sockets, the log of the journal and log files.
//!
//! The tests take the part of systemd on loopback, so that they need neither root nor a namespace.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use os::process::Program;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::{ProgramLog, poll_until_timeout};

/// Moves descriptors 0 and 1 to 3 and 4, and sets `LISTEN_PID`, as systemd does.
const INHERIT: &str = r#"exec 3<&0 4<&1 0</dev/null 1>/dev/null
LISTEN_PID=$$ LISTEN_FDS=2 exec "$@""#;

/// Directory of one test, which is removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("plumb-service-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("files")).unwrap();
        fs::write(path.join("files/greeting"), "hello").unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a configuration with `text` and the root directory.
    fn configuration(&self, text: &str) -> PathBuf {
        self.write("serve.toml", &text.replace("ROOT", self.0.join("files").to_str().unwrap()))
    }

    /// Starts `plumb serve` with this configuration.
    fn start(&self, command: &mut Command) -> (Program, ProgramLog) {
        command.env("XDG_STATE_HOME", self.0.join("state")).stderr(Stdio::piped());
        let mut program = Program::start(command).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        (program, log)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn plumb() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plumb"))
}

/// Receives one notification.
fn notification(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let len = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..len].to_vec()).unwrap()
}

#[test]
#[ignore = "runs a server; ./x test"]
fn inherited_sockets_are_served_and_the_service_manager_learns_each_state() {
    let directory = Directory::new("inherit");
    let manager = directory.0.join("notify");
    let notifications = UnixDatagram::bind(&manager).unwrap();
    notifications.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ftp = listener.local_addr().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tftp = udp.local_addr().unwrap();
    let path = directory.configuration(&format!(
        "[ftp]\nroot = \"ROOT\"\nlisten = [\"{ftp}\"]\n[tftp]\nroot = \"ROOT\"\nlisten = [\"{tftp}\"]\n"
    ));
    let mut command = Command::new("sh");
    command.args(["-c", INHERIT, "sh", env!("CARGO_BIN_EXE_plumb"), "serve", "--config"]);
    command.arg(path).env("NOTIFY_SOCKET", &manager);
    command.stdin(OwnedFd::from(listener)).stdout(OwnedFd::from(udp));
    let (mut program, log) = directory.start(&mut command);
    assert_eq!(notification(&notifications), "READY=1\n");
    for url in [format!("ftp://{ftp}/greeting"), format!("tftp://{tftp}/greeting")] {
        let output = plumb().args(["get", "--no-record", &url, "-"]).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "hello", "{url}: {}", String::from_utf8_lossy(&output.stderr));
    }
    program.signal(Signal::HUP).unwrap();
    assert!(notification(&notifications).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(notification(&notifications), "READY=1\n");
    program.signal(Signal::TERM).unwrap();
    assert_eq!(notification(&notifications), "STOPPING=1\n");
    assert!(program.child().wait().unwrap().success(), "{:?}", log.lines());
}

#[test]
#[ignore = "runs a server; ./x test"]
fn an_inherited_socket_that_the_configuration_lacks_is_closed_and_logged() {
    let directory = Directory::new("unused");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = listener.local_addr().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let mut command = Command::new("sh");
    command.args(["-c", INHERIT, "sh", env!("CARGO_BIN_EXE_plumb"), "serve", "--config"]);
    command.arg(path).stdin(OwnedFd::from(listener)).stdout(OwnedFd::from(udp));
    let (_program, log) = directory.start(&mut command);
    // The command has the sockets, too.
    drop(command);
    log.wait_for(&format!("inherited socket {unused} closed: it is not an address of the"));
    assert!(TcpStream::connect(unused).is_err());
}

#[test]
#[ignore = "runs a server; ./x test"]
fn a_log_file_has_times_and_sessions_and_is_opened_again_on_sighup() {
    let directory = Directory::new("log-file");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let log_file = directory.0.join("log");
    let renamed = directory.0.join("log.1");
    let mut command = plumb();
    command.args(["serve", "--config"]).arg(path).arg("--log-file").arg(&log_file);
    let (mut program, log) = directory.start(&mut command);
    let line = wait_for_line(&log_file, "serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let get = || {
        let url = format!("ftp://{address}/greeting");
        assert!(plumb().args(["get", "-q", "--no-record", &url, "-"]).status().unwrap().success());
    };
    get();
    let moved = wait_for_line(&log_file, "download of '/greeting': 5 bytes");
    assert!(moved.contains("Z plumb: [1] 127.0.0.1:"), "{moved}");
    wait_for_line(&log_file, "[1] 127.0.0.1");
    fs::rename(&log_file, &renamed).unwrap();
    program.signal(Signal::HUP).unwrap();
    wait_for_line(&log_file, "configuration reloaded");
    get();
    wait_for_line(&log_file, "[2] 127.0.0.1");
    assert!(!fs::read_to_string(renamed).unwrap().contains("[2]"));
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[test]
#[ignore = "runs a server; ./x test"]
fn lines_of_the_journal_have_a_level_and_no_time() {
    let directory = Directory::new("journal");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    // The shell sets the device and the inode of its standard error, as systemd does.
    let script = "JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr) exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_plumb"), "serve", "--config"]).arg(path);
    let (_program, log) = directory.start(&mut command);
    let line = log.wait_for("serving FTP at ");
    assert!(line.starts_with("<5>serving FTP at 127.0.0.1:"), "{line}");
}

/// Waits for a line of the file `path` that contains `text`, and returns it.
fn wait_for_line(path: &Path, text: &str) -> String {
    poll_until_timeout(|| {
        let lines = fs::read_to_string(path).ok()?;
        lines.lines().find(|line| line.contains(text)).map(str::to_owned)
    })
}

#[test]
#[ignore = "runs a server; ./x test"]
fn a_reload_applies_texts_and_names_the_keys_that_need_a_restart() {
    let directory = Directory::new("reload");
    let text = "[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\ngreeting = \"old\"\n";
    let path = directory.configuration(text);
    let mut command = plumb();
    let (mut program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
    let line = log.wait_for("serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    directory.configuration(&format!("record = false\n{}", text.replace("old", "new")));
    program.signal(Signal::HUP).unwrap();
    log.wait_for("plumb: warning: a change of record needs a restart");
    let mut greeting = String::new();
    BufReader::new(TcpStream::connect(address).unwrap()).read_line(&mut greeting).unwrap();
    assert_eq!(greeting, "220 new\r\n");
}

#[test]
#[ignore = "runs a server; ./x test"]
fn print_config_prints_a_configuration_that_check_accepts() {
    let directory = Directory::new("print");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let mut command = plumb();
    command.args(["serve", "--print-config", "--deny", "10.0.0.0/8", "--config"]).arg(path);
    let printed = command.output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.contains("\ndeny = [\"10.0.0.0/8\"]\n"), "{text}");
    let path = directory.write("printed.toml", &text);
    let checked = plumb().args(["serve", "--check", "--config"]).arg(&path).output().unwrap();
    let expected = format!("{}: configuration OK\n", path.display());
    assert_eq!(String::from_utf8(checked.stdout).unwrap(), expected);
    let text = text.replace("127.0.0.1:0", "192.0.2.9:2121");
    let path = directory.write("printed.toml", &text);
    let checked = plumb().args(["serve", "--check", "--config"]).arg(&path).output().unwrap();
    assert_eq!(checked.status.code(), Some(2));
}
