//! Tests of TFTP between `plumb` and Debian's clients and servers.
//!
//! Each test has its own network namespace, with servers at 10.0.0.1 and ::1, and its own directory
//! with `there` for the server's files and `here` for the client's.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::{SERVER, in_configured_network, in_new_network, poll_until_timeout};
use net::time::Duration;
use os::process::Program;
use rustix::process::Signal;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use test_support::ProgramLog;
use test_support::peers::{self, Peer};

const PORT: u16 = 6969;
const V6: &str = "[::1]:6969";

/// The directories of a test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("plumb-tftp-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(path);
        for directory in ["there", "here"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
            // Debian's servers may run as a different user.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(path.join(directory), mode).unwrap();
        }
        Self(path)
    }

    fn remote_path(&self, name: &str) -> PathBuf {
        self.0.join("there").join(name)
    }

    fn local_path(&self, name: &str) -> PathBuf {
        self.0.join("here").join(name)
    }

    /// Runs `plumb` in the local directory.
    fn plumb(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(words).current_dir(self.local_path("")).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs `plumb` and checks that it succeeds.
    fn run_ok(&self, words: &[&str]) {
        let output = self.plumb(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    }

    /// Runs `plumb`, checks that it fails with this code, and returns its error message.
    fn run_failing(&self, code: i32, words: &[&str]) -> String {
        let output = self.plumb(words);
        let messages = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {messages}");
        assert_eq!(messages.lines().count(), 1, "{messages}");
        messages
    }

    fn names_here(&self) -> usize {
        std::fs::read_dir(self.local_path("")).unwrap().count()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns `len` bytes with every byte value and every kind of line end.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// A running `plumb serve --tftp` and its log.
struct Server {
    _program: Program,
    log: ProgramLog,
}

impl Server {
    fn start(directory: &TestDirectory, rights: &str) -> Self {
        Self::start_at(directory, &[rights, "--tftp-listen", "0.0.0.0:6969", "--tftp-listen", V6])
    }

    fn start_at(directory: &TestDirectory, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--tftp", "--root"]).arg(directory.remote_path("")).args(words);
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        let server = Self { _program: program, log };
        server.wait_for_log("serving TFTP at 0.0.0.0");
        server
    }

    /// Waits for a log line that contains `text`, and returns it.
    fn wait_for_log(&self, text: &str) -> String {
        self.log.wait_for(text)
    }

    fn count_log_lines(&self, text: &str) -> usize {
        self.log.count(text)
    }
}

/// Runs a Debian client in the local directory.
fn run_peer_ok(directory: &TestDirectory, program: Peer, words: &[&str]) {
    let mut command = program.command();
    let output = command.args(words).current_dir(directory.local_path("")).output().unwrap();
    assert!(output.status.success(), "{} {words:?}: {}", program.name, text(&output.stderr));
}

/// Starts a Debian server with the options `words` for the directory `there`.
fn start_peer(program: Peer, words: &[&str], directory: &TestDirectory) -> Program {
    let mut command = program.command();
    command.args(words).arg(directory.remote_path("")).stdin(Stdio::null());
    Program::start(&mut command).unwrap()
}

/// Waits until the server at `address` serves the file `small`.
fn wait_for_server(directory: &TestDirectory, address: &str) {
    poll_until_timeout(|| {
        let url = format!("tftp://{address}/small");
        directory.plumb(&["get", "-f", &url, "up"]).status.success().then_some(())
    });
}

fn transfer_with_debian_client(gets_and_puts: fn(&TestDirectory)) {
    in_new_network(move || {
        let directory = TestDirectory::new();
        let server = Server::start(&directory, "--writable");
        let file = pattern(1_000_000);
        std::fs::write(directory.remote_path("file"), &file).unwrap();
        gets_and_puts(&directory);
        assert_eq!(std::fs::read(directory.local_path("got")).unwrap(), file);
        server.wait_for_log("upload of 'put'");
        assert_eq!(std::fs::read(directory.remote_path("put")).unwrap(), file);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's users of TFTP"]
fn the_client_of_tftp_hpa_works_with_plumb_serve() {
    transfer_with_debian_client(|directory| {
        let port = PORT.to_string();
        run_peer_ok(
            directory,
            peers::TFTP_HPA,
            &["-m", "binary", SERVER, &port, "-c", "get", "file", "got"],
        );
        run_peer_ok(
            directory,
            peers::TFTP_HPA,
            &["-m", "binary", SERVER, &port, "-c", "put", "got", "put"],
        );
        std::fs::write(directory.remote_path("lines"), "one\ntwo\r\nthree").unwrap();
        run_peer_ok(
            directory,
            peers::TFTP_HPA,
            &["-m", "ascii", SERVER, &port, "-c", "get", "lines", "lines"],
        );
        assert_eq!(std::fs::read(directory.local_path("lines")).unwrap(), b"one\ntwo\r\nthree");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's users of TFTP"]
fn the_client_of_atftp_works_with_plumb_serve_with_windowsize() {
    transfer_with_debian_client(|directory| {
        let port = PORT.to_string();
        let options = ["--option", "blksize 1428", "--option", "windowsize 16"];
        let download_options =
            [&options[..], &["-g", "-r", "file", "-l", "got", SERVER, &port]].concat();
        let put = [&options[..], &["-p", "-r", "put", "-l", "got", SERVER, &port]].concat();
        run_peer_ok(directory, peers::ATFTP, &download_options);
        run_peer_ok(directory, peers::ATFTP, &put);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and curl"]
fn curl_works_with_the_tftp_server_of_plumb() {
    transfer_with_debian_client(|directory| {
        let url = |name: &str| format!("tftp://{V6}/{name}");
        run_peer_ok(
            directory,
            peers::CURL,
            &["-sS", "--tftp-blksize", "1400", &url("file"), "-o", "got"],
        );
        run_peer_ok(directory, peers::CURL, &["-sS", "-T", "got", &url("put")]);
    });
}

/// Transfers with every combination of block size and window, in both directions, octet and
/// netascii.
fn transfer_with_each_option(directory: &TestDirectory, address: &str) {
    let url = |name: &str| format!("tftp://{address}/{name}");
    for (block_size, window) in
        [("512", "1"), ("8", "7"), ("1428", "16"), ("1428", "64"), ("8192", "4")]
    {
        let len = if block_size == "8" { 20_000 } else { 300_000 };
        std::fs::write(directory.remote_path("file"), pattern(len)).unwrap();
        let options = ["--block-size", block_size, "--window", window];
        directory.run_ok(&[&["get", "-q", "-f"][..], &options, &[&url("file"), "file"]].concat());
        assert_eq!(
            std::fs::read(directory.local_path("file")).unwrap(),
            pattern(len),
            "{options:?}"
        );
        directory.run_ok(&[&["put", "-q"][..], &options, &["file", &url("new")]].concat());
        poll_until_timeout(|| {
            (std::fs::read(directory.remote_path("new")).ok()? == pattern(len)).then_some(())
        });
        std::fs::remove_file(directory.remote_path("new")).unwrap();
    }
    std::fs::write(directory.remote_path("lines"), "one\ntwo\n").unwrap();
    directory.run_ok(&["get", "-f", &url("lines;mode=netascii"), "lines"]);
    assert_eq!(std::fs::read(directory.local_path("lines")).unwrap(), b"one\ntwo\n");
    let message = directory.run_failing(1, &["get", &url("missing")]);
    assert!(message.contains("has no file 'missing'"), "{message}");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's servers of TFTP"]
fn plumb_works_with_the_server_of_tftp_hpa() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        std::fs::write(directory.remote_path("small"), "x").unwrap();
        let words = ["-L", "-c", "-p", "-u", "root", "-a", "0.0.0.0:6970", "-s"];
        let _peer = start_peer(peers::TFTPD_HPA, &words, &directory);
        wait_for_server(&directory, "10.0.0.1:6970");
        transfer_with_each_option(&directory, "10.0.0.1:6970");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's servers of TFTP"]
fn plumb_works_with_the_server_of_atftp() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        std::fs::write(directory.remote_path("small"), "x").unwrap();
        let words = [
            "--daemon",
            "--no-fork",
            "--user",
            "root.root",
            "--logfile",
            "/dev/null",
            "--port",
            "6970",
        ];
        let _peer = start_peer(peers::ATFTPD, &words, &directory);
        wait_for_server(&directory, "10.0.0.1:6970");
        transfer_with_each_option(&directory, "10.0.0.1:6970");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn verbose_mode_reports_the_negotiated_options() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _server = Server::start(&directory, "--read-only");
        std::fs::write(directory.remote_path("file"), pattern(5000)).unwrap();
        let words = ["get", "-v", "--window", "4", "tftp://10.0.0.1:6969/file"];
        let messages = text(&directory.plumb(&words).stderr);
        let expected = "< negotiated: blksize 1428, windowsize 4, tsize 5000\n";
        assert!(messages.starts_with(expected), "{messages}");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn plumb_works_with_its_own_server_in_both_families_and_over_userspace_udp() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _server = Server::start(&directory, "--writable");
        transfer_with_each_option(&directory, "10.0.0.1:6969");
        transfer_with_each_option(&directory, V6);
        let file = pattern(500_000);
        std::fs::write(directory.remote_path("file"), &file).unwrap();
        let via = ["--via", "tun:plumb0", "-q"];
        directory.run_ok(&[&["get"][..], &via, &["tftp://10.0.0.1:6969/file", "by-tun"]].concat());
        assert_eq!(std::fs::read(directory.local_path("by-tun")).unwrap(), file);
        directory
            .run_ok(&[&["put"][..], &via, &["by-tun", "tftp://10.0.0.1:6969/from-tun"]].concat());
        assert_eq!(std::fs::read(directory.remote_path("from-tun")).unwrap(), file);
    });
}

/// Starts a relay between a client and the server for one transfer. The relay drops one in
/// `loss_divisor` datagrams on average. Returns the address to which the client sends its request.
fn lossy_relay(loss_divisor: u64) -> SocketAddr {
    let local = Arc::new(UdpSocket::bind("10.0.0.1:0").unwrap());
    let remote = Arc::new(UdpSocket::bind("10.0.0.1:0").unwrap());
    let relay_address = local.local_addr().unwrap();
    let client = Arc::new(Mutex::new(relay_address));
    let server = Arc::new(Mutex::new(SocketAddr::from(([10, 0, 0, 1], PORT))));
    let relay_direction =
        |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, source: &Arc<_>, target: &Arc<_>, seed| {
            let from = Arc::clone(from);
            let to = Arc::clone(to);
            let source: Arc<Mutex<SocketAddr>> = Arc::clone(source);
            let target: Arc<Mutex<SocketAddr>> = Arc::clone(target);
            let mut random: u64 = seed;
            thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok((len, sender)) = from.recv_from(&mut bytes) {
                    *source.lock().unwrap() = sender;
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if !(random >> 33).is_multiple_of(loss_divisor) {
                        _ = to.send_to(&bytes[..len], *target.lock().unwrap());
                    }
                }
            });
        };
    relay_direction(&local, &remote, &client, &server, 1);
    relay_direction(&remote, &local, &server, &client, 2);
    relay_address
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_file_arrives_completely_over_a_path_that_loses_one_datagram_in_twenty() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::start(&directory, "--writable");
        let file = pattern(400_000);
        std::fs::write(directory.remote_path("file"), &file).unwrap();
        let url = format!("tftp://{}/file", lossy_relay(20));
        directory.run_ok(&["get", "-q", &url, "got"]);
        assert_eq!(std::fs::read(directory.local_path("got")).unwrap(), file);
        let put = format!("tftp://{}/put", lossy_relay(20));
        directory.run_ok(&["put", "-q", "got", &put]);
        server.wait_for_log("'put': 400000 bytes");
        assert_eq!(std::fs::read(directory.remote_path("put")).unwrap(), file);
    });
}

// attack row 79
// attack row 92
#[test]
#[ignore = "needs root or a user namespace"]
fn a_name_that_leads_out_of_the_root_is_refused_and_logged_escaped() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::start(&directory, "--writable");
        std::fs::write(directory.0.join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", directory.remote_path("link")).unwrap();
        std::fs::write(directory.local_path("mine"), "mine").unwrap();
        for name in ["../secret", "link", "/../secret", "a/../../secret"] {
            let url = format!("tftp://10.0.0.1:6969/{name}");
            let messages = directory.run_failing(1, &["get", &url, "out"]);
            assert!(messages.contains("10.0.0.1:"), "{messages}");
        }
        directory.run_failing(1, &["put", "mine", "tftp://10.0.0.1:6969/../secret"]);
        assert_eq!(std::fs::read(directory.0.join("secret")).unwrap(), b"secret");
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.send_to(b"\0\x01../\x1b[2J\nx\0octet\0", (SERVER, PORT)).unwrap();
        let line = server.wait_for_log("request for '../\\x1b");
        assert!(line.ends_with("'../\\x1b[2J\\nx' refused: Permission denied."), "{line}");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn uploads_are_refused_by_default_and_write_once_allows_new_files_only() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        std::fs::write(directory.local_path("file"), "new").unwrap();
        let put = ["put", "file", "tftp://10.0.0.1:6969/file"];
        let server = Server::start(&directory, "--read-only");
        let messages = directory.run_failing(1, &put);
        assert!(
            messages.contains("rejects 'file': it replied 'Uploads are disabled.'"),
            "{messages}"
        );
        drop(server);
        let server = Server::start(&directory, "--write-once");
        directory.run_ok(&put);
        let messages = directory.run_failing(1, &put);
        assert!(messages.contains("already has 'file' and keeps it"), "{messages}");
        drop(server);
    });
}

// attack row 99
#[test]
#[ignore = "needs root, for a small disk"]
fn a_full_disk_keeps_the_old_file_and_is_reported_on_both_sides() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _server = Server::start(&directory, "--writable");
        std::fs::write(directory.remote_path("file"), pattern(3_000_000)).unwrap();
        let script = format!(
            "mount -t tmpfs -o size=1m none {here} && cd {here} && echo old >file && \
             {plumb} get -f tftp://10.0.0.1:6969/file; code=$?; cat file; ls -A | wc -l; exit $code",
            here = directory.local_path("").display(),
            plumb = env!("CARGO_BIN_EXE_plumb"),
        );
        let output =
            Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
        let messages = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{messages}");
        assert!(messages.contains("the disk is full after"), "{messages}");
        assert_eq!(text(&output.stdout), "old\n1\n");
    });
}

/// Starts a fake TFTP server that answers the first request with these datagrams.
fn fake_server(answers: &'static [&'static [u8]]) -> (SocketAddr, thread::JoinHandle<SocketAddr>) {
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (_, user) = socket.recv_from(&mut [0; 1000]).unwrap();
        for answer in answers {
            socket.send_to(answer, user).unwrap();
        }
        // Waits until the client has acknowledged or ended the transfer.
        socket.recv_from(&mut [0; 1000]).map_or(user, |(_, user)| user)
    });
    (address, answering)
}

// attack row 92
#[test]
#[ignore = "needs root or a user namespace"]
fn server_messages_are_escaped_for_the_terminal() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let (at, _answering) = fake_server(&[b"\0\x05\0\x02\x1b]0;owned\x07no\r\n\0"]);
        let messages = directory.run_failing(1, &["get", &format!("tftp://{at}/file")]);
        assert!(messages.contains("it replied '\\x1b]0;owned\\x07no'"), "{messages}");
        assert_eq!(directory.names_here(), 0);
    });
}

// attack row 99
#[test]
#[ignore = "needs root or a user namespace"]
fn a_file_shorter_than_announced_is_not_kept() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let (at, _answering) = fake_server(&[b"\0\x06tsize\x009\0", b"\0\x03\0\x01short"]);
        let messages = directory.run_failing(1, &["get", &format!("tftp://{at}/file")]);
        assert!(messages.contains("after 5 bytes of 'file', but announced 9 bytes"), "{messages}");
        assert_eq!(directory.names_here(), 0);
    });
}

// attack row 99
#[test]
#[ignore = "needs root or a user namespace"]
fn an_interrupt_leaves_no_partial_file() {
    const BLOCK: &[u8] = &{
        let mut block = [7; 516];
        block[0] = 0;
        block[1] = 3;
        block[2] = 0;
        block[3] = 1;
        block
    };
    in_new_network(|| {
        let directory = TestDirectory::new();
        let (at, answering) = fake_server(&[BLOCK]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["get", &format!("tftp://{at}/file")]).current_dir(directory.local_path(""));
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        // The client has acknowledged the block.
        answering.join().unwrap();
        program.signal(Signal::INT).unwrap();
        let status = program.wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.code(), Some(130));
        let messages = std::io::read_to_string(program.child().stderr.take().unwrap()).unwrap();
        assert!(messages.contains("interrupted after 512 bytes of 'file'"), "{messages}");
        assert_eq!(directory.names_here(), 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_duplicate_request_is_answered_once_and_a_broadcast_never() {
    in_configured_network(
        &[
            &["link", "add", "far0", "type", "veth", "peer", "name", "near0"],
            &["address", "add", "10.0.0.1/24", "broadcast", "10.0.0.255", "dev", "far0"],
            &["link", "set", "far0", "up"],
            &["link", "set", "near0", "up"],
        ],
        || {
            let directory = TestDirectory::new();
            let server = Server::start(&directory, "--read-only");
            std::fs::write(directory.remote_path("file"), "file").unwrap();
            let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
            socket.set_broadcast(true).unwrap();
            socket.send_to(b"\0\x01to-all\0octet\0", ("10.0.0.255", PORT)).unwrap();
            for _ in 0..3 {
                socket.send_to(b"\0\x01file\0octet\0", (SERVER, PORT)).unwrap();
            }
            let mut bytes = [0; 1000];
            let (len, port) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], b"\0\x03\0\x01file");
            socket.send_to(b"\0\x04\0\x01", port).unwrap();
            server.wait_for_log("download of 'file'");
            // By the time this request is answered, all earlier datagrams have been processed.
            socket.send_to(b"\0\x01none\0octet\0", (SERVER, PORT)).unwrap();
            let (len, _) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!(&bytes[..4], b"\0\x05\0\x01", "{:?}", &bytes[..len]);
            assert_eq!(
                (server.count_log_lines("download of"), server.count_log_lines("to-all")),
                (1, 0)
            );
        },
    );
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_never_answers_gets_the_first_packet_twice() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::start(&directory, "--read-only");
        std::fs::write(directory.remote_path("file"), pattern(10_000)).unwrap();
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.send_to(b"\0\x01file\0octet\0", (SERVER, PORT)).unwrap();
        server.wait_for_log("the client never answered");
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 1000];
        let packet_count = (0..10).filter(|_| socket.recv_from(&mut bytes).is_ok()).count();
        assert_eq!(packet_count, 2);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_pipe_can_be_uploaded_from_and_downloaded_to() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::start(&directory, "--writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["put", "-q", "-", "tftp://10.0.0.1:6969/piped"]).stdin(Stdio::piped());
        let mut put = command.spawn().unwrap();
        put.stdin.take().unwrap().write_all(&pattern(200_000)).unwrap();
        assert!(put.wait().unwrap().success());
        server.wait_for_log("upload of 'piped'");
        let output = directory.plumb(&["get", "-q", "tftp://10.0.0.1:6969/piped", "-"]);
        assert!(output.stdout == pattern(200_000), "{}", text(&output.stderr));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_silent_host_a_closed_port_and_an_invalid_url_have_distinct_errors() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _silent = UdpSocket::bind("10.0.0.1:7000").unwrap();
        let messages =
            directory.run_failing(1, &["get", "--timeout", "1", "tftp://10.0.0.1:7000/file"]);
        assert!(
            messages.contains("did not answer the request for 'file' within 1 s"),
            "{messages}"
        );
        let messages = directory.run_failing(1, &["get", "tftp://10.0.0.1:7001/file"]);
        assert!(messages.contains("no TFTP server at 10.0.0.1:7001"), "{messages}");
        let messages = directory.run_failing(1, &["get", "tftp://192.0.2.1/file"]);
        assert!(messages.contains("no route to 192.0.2.1:69"), "{messages}");
        directory.run_failing(2, &["get", "http://10.0.0.1/file"]);
        std::fs::write(directory.local_path("file"), "old").unwrap();
        let messages = directory.run_failing(2, &["get", "tftp://10.0.0.1/file"]);
        assert!(messages.contains("exists: use -f to replace it"), "{messages}");
    });
}
