//! `plumb serve` as a service: notifications, inherited sockets, the log of the journal and log files.
//!
//! The tests take the part of systemd on loopback, so that they need neither root nor a namespace.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use os::process::Program;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::{ProgramLog, peers, poll_until_timeout};

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
fn with_log_stderr_the_log_is_written_to_the_file_and_to_standard_error() {
    let directory = Directory::new("log-both");
    let log_file = directory.0.join("log");
    let text = format!(
        "log-file = \"{}\"\nlog-stderr = true\n[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n",
        log_file.display()
    );
    let path = directory.configuration(&text);
    let mut command = plumb();
    command.args(["serve", "--config"]).arg(path);
    let (mut program, log) = directory.start(&mut command);
    let line = wait_for_line(&log_file, "serving FTP at ");
    assert!(log.wait_for("serving FTP at ").ends_with(line.split(" plumb: ").nth(1).unwrap()));
    program.signal(Signal::TERM).unwrap();
    wait_for_line(&log_file, "shutting down");
    log.wait_for("shutting down");
    assert!(program.child().wait().unwrap().success());
    assert!(!log.lines().iter().any(|line| line.contains("the log continues")));
}

/// Runs logrotate with the configuration of the package, for the log files in `logs` of the user
/// "daemon".
fn rotate(directory: &Directory, logs: &Path) {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/logrotate.conf");
    let text = fs::read_to_string(packaged).unwrap();
    assert!(text.contains("su plumb plumb") && text.contains("create 0640 plumb plumb"));
    let text = text.replace("/var/log/plumb", logs.to_str().unwrap());
    let text = text.replace("plumb plumb", "daemon daemon");
    let (text, _) = text.split_once("    sharedscripts").unwrap();
    let configuration = directory.write("logrotate.conf", &format!("{text}}}\n"));
    let mut command = peers::LOGROTATE.command();
    command.arg("--force").arg("--state").arg(directory.0.join("state")).arg(configuration);
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
#[ignore = "needs root and logrotate"]
fn logrotate_rotates_the_log_of_a_service_that_runs_as_root() {
    if !os::user::is_root() {
        return test_support::not_configured("root", "the log belongs to another user");
    }
    let directory = Directory::new("rotate");
    let logs = directory.0.join("logs");
    fs::create_dir(&logs).unwrap();
    // The user "daemon" of Debian.
    std::os::unix::fs::chown(&logs, Some(1), Some(1)).unwrap();
    // The user must reach the directory.
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o755)).unwrap();
    rotate(&directory, &logs);
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let log_file = logs.join("serve.log");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0027 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_plumb"), "serve"]);
    command.arg("--config").arg(path).arg("--log-file").arg(&log_file);
    let (mut program, _log) = directory.start(&mut command);
    wait_for_line(&log_file, "serving FTP at ");
    // With delaycompress, the second rotation compresses the first file.
    for _ in 0..2 {
        rotate(&directory, &logs);
        program.signal(Signal::USR1).unwrap();
        wait_for_line(&log_file, "log files reopened");
    }
    for name in ["serve.log", "serve.log.1", "serve.log.2.gz"] {
        let owner = fs::metadata(logs.join(name)).unwrap();
        assert_eq!((owner.uid(), owner.mode() & 0o777), (1, 0o640), "{name}");
    }
    // A symbolic link in a directory of another user is not followed.
    let target = directory.write("target", "");
    program.signal(Signal::TERM).unwrap();
    program.child().wait().unwrap();
    fs::remove_file(&log_file).unwrap();
    std::os::unix::fs::symlink(&target, &log_file).unwrap();
    let (mut program, log) = directory.start(&mut command);
    log.wait_for("cannot open log file");
    assert!(!program.child().wait().unwrap().success());
    assert_eq!(fs::read_to_string(target).unwrap(), "");
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
    assert_eq!(log.lines(), [format!("the log continues in {}", log_file.display())]);
}

#[test]
#[ignore = "runs a server; ./x test"]
fn a_full_disk_is_reported_once_and_the_log_resumes_with_the_number_of_lost_lines() {
    let directory = Directory::new("log-full");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let log_file = directory.0.join("log");
    std::os::unix::fs::symlink("/dev/full", &log_file).unwrap();
    let mut command = plumb();
    command.args(["serve", "--config"]).arg(path).arg("--log-file").arg(&log_file);
    let (mut program, log) = directory.start(&mut command);
    let warning = log.wait_for("cannot write the log file ");
    assert!(warning.contains("until it can be written: No space left on device"), "{warning}");
    // Each reload writes lines, and none of them stops the writer.
    for _ in 0..2 {
        program.signal(Signal::HUP).unwrap();
    }
    fs::remove_file(&log_file).unwrap();
    let line = poll_until_timeout(|| {
        program.signal(Signal::HUP).unwrap();
        let text = fs::read_to_string(&log_file).ok()?;
        text.contains("configuration reloaded").then(|| text.lines().next().unwrap().to_owned())
    });
    let reason = " log lines lost: the log was full or not read fast enough";
    assert!(line.ends_with(reason), "{line}");
    let warnings = log.lines();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

/// Takes the part of systemctl for the server: checks the arguments, and sends the signal.
const SYSTEMCTL: &str = r#"#!/bin/sh
[ "$*" = 'kill --kill-who=main --signal=USR1 plumb-serve.service plumb-login.service plumb-console@*.service' ] &&
exec kill -USR1 PID
"#;

#[test]
#[ignore = "needs logrotate"]
fn the_packaged_configuration_of_logrotate_rotates_the_log_of_a_running_server() {
    let directory = Directory::new("logrotate");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let logs = directory.0.join("log");
    fs::create_dir(&logs).unwrap();
    let log_file = logs.join("serve.log");
    let mut command = plumb();
    command.args(["serve", "--config"]).arg(path).arg("--log-file").arg(&log_file);
    let (mut program, _log) = directory.start(&mut command);
    wait_for_line(&log_file, "serving FTP at ");
    // A configuration that an operator is editing.
    directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\n");
    let systemctl = SYSTEMCTL.replace("PID", &program.child().id().to_string());
    let systemctl = directory.write("systemctl", &systemctl);
    fs::set_permissions(systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    let user = |option| {
        let output = Command::new("id").args([option, "-n"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let owner = format!("{} {}", user("-u"), user("-g"));
    let text = include_str!("../../../packaging/logrotate.conf")
        .replace("/var/log/plumb", logs.to_str().unwrap())
        .replace("/run/systemd/system", logs.to_str().unwrap())
        .replace("plumb plumb", &owner);
    let configuration = directory.write("logrotate.conf", &text);
    fs::set_permissions(&configuration, fs::Permissions::from_mode(0o644)).unwrap();
    let mut logrotate = peers::LOGROTATE.command();
    logrotate.args(["--force", "--state"]).arg(directory.0.join("rotated")).arg(configuration);
    let programs = format!("{}:/usr/bin:/bin", directory.0.display());
    let output = logrotate.env("PATH", programs).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    wait_for_line(&log_file, "log files reopened");
    let renamed = fs::read_to_string(logs.join("serve.log.1")).unwrap();
    assert!(renamed.contains("serving FTP at ") && !renamed.contains("reopened"), "{renamed}");
    // The configuration was not read: the last line of the log is that of the signal.
    let log = fs::read_to_string(&log_file).unwrap();
    assert!(log.lines().count() == 1 && !log.contains("configuration"), "{log}");
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
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let client = || BufReader::new(TcpStream::connect(address).unwrap());
    let read_reply = |client: &mut BufReader<TcpStream>| {
        let mut reply = String::new();
        client.read_line(&mut reply).unwrap();
        reply
    };
    // Failed transfers and failed handshakes are warnings.
    let mut downloading = client();
    read_reply(&mut downloading);
    for command in ["USER anonymous", "PASS x", "EPSV", "RETR missing"] {
        downloading.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        read_reply(&mut downloading);
    }
    let failed = log.wait_for("download of '/missing' failed: file not found");
    assert!(failed.starts_with("<4>[1] "), "{failed}");
    drop(downloading);
    let ended = log.wait_for(" disconnected after ");
    assert!(ended.starts_with("<6>[1] "), "{ended}");
    let mut handshaking = client();
    read_reply(&mut handshaking);
    handshaking.get_mut().write_all(b"AUTH TLS\r\n").unwrap();
    let reply = read_reply(&mut handshaking);
    assert!(reply.starts_with("234 "), "{reply}");
    handshaking.get_mut().write_all(b"no TLS record\r\n").unwrap();
    let failed = log.wait_for(" s: received corrupt message");
    assert!(failed.starts_with("<4>[2] "), "{failed}");
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
fn a_reload_applies_texts_and_moves_the_log_to_another_file() {
    let directory = Directory::new("reload");
    let text = "[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\ngreeting = \"old\"\n";
    let path = directory.configuration(text);
    let mut command = plumb();
    let (mut program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
    let line = log.wait_for("serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let log_file = directory.0.join("log");
    let keys = format!("record = false\nlog-file = \"{}\"\n", log_file.display());
    directory.configuration(&format!("{keys}{}", text.replace("old", "new")));
    program.signal(Signal::HUP).unwrap();
    wait_for_line(&log_file, "configuration reloaded");
    let mut greeting = String::new();
    BufReader::new(TcpStream::connect(address).unwrap()).read_line(&mut greeting).unwrap();
    assert_eq!(greeting, "220 new\r\n");
}

#[test]
#[ignore = "runs a server; ./x test"]
fn the_end_of_each_open_session_is_logged_with_its_reason_when_the_server_stops() {
    let login = "[login]\nexec = [\"cat\"]\nlisten = [\"127.0.0.1:0\"]\n";
    let ftp = "[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n";
    // A session also continues after its server was removed from the configuration.
    for is_removed in [false, true] {
        let directory = Directory::new("ends");
        let path = directory.configuration(&format!("{login}{ftp}"));
        let mut command = plumb();
        let (mut program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
        let connect = |event: &str| {
            let line = log.wait_for(event);
            let address = line.split(event).nth(1).unwrap().split(", ").next().unwrap();
            BufReader::new(TcpStream::connect(address).unwrap())
        };
        let mut typing = connect("listening on ");
        typing.get_mut().write_all(b"hello\r\n").unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"hello") {
            assert_ne!(typing.read_until(b'o', &mut received).unwrap(), 0);
        }
        let mut idle = connect("serving FTP at ");
        idle.read_line(&mut String::new()).unwrap();
        if is_removed {
            directory.configuration(ftp);
            program.signal(Signal::HUP).unwrap();
            log.wait_for("configuration reloaded");
        }
        program.signal(Signal::TERM).unwrap();
        assert!(program.child().wait().unwrap().success());
        let line = log.wait_for(": the server stopped; 7 bytes in, ");
        assert!(line.contains("[1] 127.0.0.1:") && line.contains(" disconnected after "), "{line}");
        log.find_within(Duration::from_secs(10), |lines| {
            let is_ftp = |line: &&String| {
                line.contains("[2] 127.0.0.1:") && line.ends_with(" s: the server stopped")
            };
            lines.iter().find(is_ftp).map(drop)
        });
    }
}

/// TLS record with the ClientHello of a client that knows TLS 1.1 at most (RFC 4346 §7.4.1.2).
fn client_hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([0; 32]);
    // No session, one cipher suite, no compression.
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let len = u8::try_from(hello.len()).unwrap();
    [&[22, 3, 1, 0, len + 4, 1, 0, 0, len], hello.as_slice()].concat()
}

#[test]
#[ignore = "runs a server; ./x test"]
fn a_client_with_an_old_version_of_tls_is_logged_with_the_minimum() {
    let directory = Directory::new("old-tls");
    let path = directory.configuration(
        "[login]\nexec = [\"cat\"]\nlisten-tls = [\"127.0.0.1:0\"]\n\
         [ftp]\nroot = \"ROOT\"\nlisten-tls = [\"127.0.0.1:0\"]\n",
    );
    let mut command = plumb();
    let (_program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
    let why = "the client offers only old versions of TLS; the minimum is TLS 1.2";
    for (listener, expected) in [
        ("listening on ", format!(" refused: TLS handshake failed: {why}")),
        ("serving FTP at ", format!(" disconnected after 0 s: {why}")),
    ] {
        let line = log.wait_for(listener);
        let address = line.split(listener).nth(1).unwrap().split(", ").next().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&client_hello_of_tls_1_1()).unwrap();
        log.wait_for(&expected);
    }
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

#[test]
#[ignore = "runs a server; ./x test"]
fn a_reload_with_a_used_port_keeps_the_listeners_and_the_next_one_opens_the_new_ones() {
    let directory = Directory::new("listeners");
    // Not an ephemeral port, which another test could take after it is released.
    let used = (20_000..30_000).find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let used = used.unwrap();
    let port = used.local_addr().unwrap().port();
    let text = "[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n";
    let path = directory.configuration(text);
    let mut command = plumb();
    let (mut program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
    let line = log.wait_for("serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let open_session = TcpStream::connect(address).unwrap();
    let login = format!("[login]\nexec = [\"cat\"]\nlisten = [\"127.0.0.1:{port}\"]\n");
    directory.configuration(&format!("{login}{}", text.replace("ROOT", "/nonexistent")));
    program.signal(Signal::HUP).unwrap();
    let line = log.wait_for("configuration not reloaded");
    assert!(line.contains("cannot open root directory /nonexistent"), "{line}");
    directory.configuration(&format!("{login}{text}"));
    program.signal(Signal::HUP).unwrap();
    let why = format!("cannot listen on 127.0.0.1:{port}: the port is used by another program");
    log.wait_for(&why);
    drop(used);
    program.signal(Signal::HUP).unwrap();
    log.wait_for("configuration reloaded");
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    directory.configuration(&login);
    program.signal(Signal::HUP).unwrap();
    log.wait_for(&format!("no longer listening on {address}"));
    poll_until_timeout(|| TcpStream::connect(address).err());
    // The open session continues.
    (&open_session).write_all(b"NOOP\r\n").unwrap();
    let replies: Vec<_> =
        BufReader::new(&open_session).lines().take(2).map(Result::unwrap).collect();
    assert!(replies[0].starts_with("220 ") && replies[1].starts_with("200 "), "{replies:?}");
}

#[test]
#[ignore = "runs a server; ./x test"]
fn the_state_and_the_meters_of_a_service_are_in_the_directories_of_its_service_manager() {
    let directory = Directory::new("directories");
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let [state, runtime] = ["service-state", "service-runtime"].map(|name| directory.0.join(name));
    let mut command = plumb();
    command.args(["serve", "--config"]).arg(path);
    command.env("STATE_DIRECTORY", &state).env("RUNTIME_DIRECTORY", &runtime);
    let (mut program, log) = directory.start(&mut command);
    let line = log.wait_for("serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let socket = runtime.join(format!("{}.sock", program.child().id()));
    assert!(socket.exists() && state.join("certificate.pem").exists());
    let mut get = plumb();
    get.args(["get", "-q", &format!("ftp://{address}/greeting"), "-"]).env_remove("XDG_STATE_HOME");
    assert!(get.env("HOME", &directory.0).status().unwrap().success());
    assert!(directory.0.join(".local/state/plumb/transfers/journal").exists());
    program.signal(Signal::TERM).unwrap();
    assert!(program.child().wait().unwrap().success());
    assert!(fs::read_dir(state.join("transfers/journal")).unwrap().count() > 0);
    assert!(!directory.0.join("state").exists());
}

#[test]
#[ignore = "runs a server; ./x test"]
fn the_log_names_refused_commands_and_the_size_of_the_file_instead_of_the_compressed_one() {
    let directory = Directory::new("log-lines");
    directory.write("files/zeros", &"0".repeat(50_000));
    let path = directory.configuration("[ftp]\nroot = \"ROOT\"\nlisten = [\"127.0.0.1:0\"]\n");
    let mut command = plumb();
    let (_program, log) = directory.start(command.args(["serve", "--config"]).arg(path));
    let line = log.wait_for("serving FTP at ");
    let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
    let run = |arguments: &[&str]| {
        let output = plumb().args(arguments).args(["--no-record"]).output().unwrap();
        output.status.success()
    };
    let url = format!("ftp://{address}/zeros");
    assert!(run(&["get", "-q", "--mode", "Z", &url, "-"]));
    log.wait_for("[1] 127.0.0.1");
    let line = log.wait_for("download of '/zeros'");
    assert!(line.contains("'/zeros': 50000 bytes in "), "{line}");
    let file = directory.0.join("files/greeting");
    assert!(!run(&["put", "-q", file.to_str().unwrap(), &format!("ftp://{address}/new")]));
    let line = log.wait_for("refused: ");
    let why = "'STOR new' refused: Permission denied: no right to write new files here";
    assert!(line.contains(why), "{line}");
    assert!(log.lines().iter().filter(|line| line.contains("certificate SHA-256")).count() == 1);
}
