//! `plumb serve` as a service: notifications, inherited sockets, the log of the journal and log files.
//!
//! The tests take the part of systemd on loopback, so that they need neither root nor a namespace.

use os::process::Program;
use rustix::process::Signal;
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::ProgramLog;

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
