//! The measured servers: Debian's, and `plumb serve`.

use crate::PLUMB;
use crate::relayed_path::{
    RelayedPath, SERVER_ADDRESS, in_server_network, run_on_a_tun, run_over_path, wait_until,
};
use os::process::Program;
use records::Measurement;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::peers;

/// A Telnet server program, and the options of its socket.
#[derive(Clone, Copy)]
pub(crate) struct Telnetd {
    pub(crate) command: fn() -> Command,
    /// `true` if the server's socket has `TCP_NODELAY` set.
    pub(crate) has_nodelay: bool,
}

pub(crate) const BUSYBOX: Telnetd = Telnetd { command: busybox, has_nodelay: false };
pub(crate) const INETUTILS: Telnetd = Telnetd { command: inetutils, has_nodelay: false };

impl Telnetd {
    /// Returns the server with `TCP_NODELAY` set.
    pub(crate) const fn with_nodelay(self) -> Self {
        Self { has_nodelay: true, ..self }
    }
}

fn busybox() -> Command {
    let mut command = peers::BUSYBOX.command();
    command.args(["telnetd", "-i", "-l", "/bin/sh"]);
    command
}

fn inetutils() -> Command {
    let mut command = peers::INETUTILS_TELNETD.command();
    command.args(["-h", "-E", "/bin/sh"]);
    command
}

/// Returns a server whose login program waits for a second before it starts the shell.
pub(crate) fn with_slow_start() -> Command {
    let script = unique("slow");
    fs::write(&script, "#!/bin/sh\nsleep 1\nexec /bin/sh -i\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = peers::BUSYBOX.command();
    command.args(["telnetd", "-i", "-l"]).arg(script);
    command
}

/// Returns a new path in the temporary directory.
fn unique(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("plumb-causes-{}-{count}-{name}", std::process::id()))
}

/// Runs `command`, which must end in `plumb`, with `words`, and returns the measurement.
pub(crate) fn measure(command: &mut Command, words: &[&str]) -> Measurement {
    let state = unique("state");
    command.args(["measure", "--json"]).args(words);
    command.env("XDG_STATE_HOME", &state).env("HOME", &state);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
}

/// Measures the login at `server`, which serves one client, over `path`.
pub(crate) fn measure_login(path: RelayedPath, server: Telnetd) -> Measurement {
    run_over_path(path, move |remote| {
        let listener =
            in_server_network(remote, || TcpListener::bind((SERVER_ADDRESS, 2323)).unwrap());
        measure_at(listener, server, "kernel")
    })
}

/// Measures the login at `server` through plumb's own TCP on a TUN.
pub(crate) fn measure_over_tun(server: Telnetd) -> Measurement {
    run_on_a_tun(move || {
        measure_at(TcpListener::bind((SERVER_ADDRESS, 2323)).unwrap(), server, "tun:plumb0")
    })
}

fn measure_at(listener: TcpListener, server: Telnetd, via: &str) -> Measurement {
    let server_thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(server.has_nodelay).unwrap();
        let mut command = (server.command)();
        command.stdout(OwnedFd::from(stream.try_clone().unwrap()));
        Program::start(command.stdin(OwnedFd::from(stream))).unwrap()
    });
    let words = ["--via", via, "10.0.0.1:2323", "--keys", "60"];
    let record = measure(&mut Command::new(PLUMB), &words);
    drop(server_thread.join().unwrap());
    record
}

/// Starts `plumb serve` in the network namespace of this thread, and waits until it listens.
fn plumb_serve(words: &[&str]) -> Program {
    let mut command = Command::new(PLUMB);
    command.arg("serve").args(words).args(["--exec", "/bin/sh"]);
    command.env("XDG_STATE_HOME", unique("serve")).stderr(Stdio::null());
    Program::start(&mut command).unwrap()
}

/// Waits until a server listens at `port` of 10.0.0.1.
fn wait_for_listener(port: u16) {
    let give_up_at = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect((SERVER_ADDRESS, port)).is_err() {
        assert!(Instant::now() < give_up_at, "nobody listens");
        wait_until(Instant::now() + Duration::from_millis(20));
    }
}

/// Measures a login at `plumb serve`.
pub(crate) fn measure_plumb_serve(path: RelayedPath) -> Measurement {
    run_over_path(path, |remote| {
        let words = ["--listen", "10.0.0.1:2323", "--tls", "off"];
        let server = in_server_network(remote, || plumb_serve(&words));
        wait_for_listener(2323);
        let record = measure(&mut Command::new(PLUMB), &["10.0.0.1:2323", "--keys", "60"]);
        drop(server);
        record
    })
}

/// Measures a login in TLS at a server whose first answer, and therefore the handshake, is delayed
/// by `delay`.
pub(crate) fn measure_with_slow_tls(delay: Duration) -> Measurement {
    run_over_path(RelayedPath::default(), move |remote| {
        let words = ["--listen-tls", "10.0.0.1:993"];
        let server = in_server_network(remote, || plumb_serve(&words));
        wait_for_listener(993);
        let listener =
            in_server_network(remote, || TcpListener::bind((SERVER_ADDRESS, 992)).unwrap());
        let network =
            in_server_network(remote, || os::namespace::Network::of_this_thread().unwrap());
        thread::spawn(move || {
            network.enter().unwrap();
            for client in listener.incoming().flatten() {
                let callee = TcpStream::connect((SERVER_ADDRESS, 993)).unwrap();
                let [to, from] = [&callee, &client].map(|it| it.try_clone().unwrap());
                thread::spawn(move || forward_with_delay(from, to, Duration::ZERO));
                thread::spawn(move || forward_with_delay(callee, client, delay));
            }
        });
        let words = ["telnets://10.0.0.1", "--keys", "60"];
        let record = measure(&mut Command::new(PLUMB), &words);
        drop(server);
        record
    })
}

/// Forwards one direction of a connection, delaying the first data by `delay`.
fn forward_with_delay(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    _ = to.set_nodelay(true);
    let mut bytes = [0; 16_384];
    let mut delay = Some(delay);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(delay) = delay.take() {
            wait_until(Instant::now() + delay);
        }
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Write);
}

/// Measures a login at a host name whose name server delays each answer by `delay`.
pub(crate) fn measure_by_host_name(delay: Duration) -> Measurement {
    run_over_path(RelayedPath::default(), move |remote| {
        let words = ["--listen", "10.0.0.1:2323", "--tls", "off"];
        let server = in_server_network(remote, || plumb_serve(&words));
        wait_for_listener(2323);
        let names = UdpSocket::bind("127.0.0.1:53").unwrap();
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, from)) = names.recv_from(&mut query) {
                let query = query[..length].to_vec();
                let names = names.try_clone().unwrap();
                thread::spawn(move || {
                    wait_until(Instant::now() + delay);
                    _ = names.send_to(&answer(&query), from);
                });
            }
        });
        let file = unique("resolv.conf");
        fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(file).arg(PLUMB);
        let record = measure(&mut command, &["far.example:2323", "--keys", "60"]);
        drop(server);
        record
    })
}

/// Answers an A query with the server's address, and any other query with no records.
fn answer(query: &[u8]) -> Vec<u8> {
    let question = &query[12..];
    // The name ends with an empty label, followed by type and class.
    let end = question.iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_ipv4 = question[end - 4..end] == [0, 1, 0, 1];
    let mut out = query[..2].to_vec();
    out.extend([0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]);
    out.extend(&question[..end]);
    if is_ipv4 {
        out.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1]);
    }
    out
}

/// Writes vsftpd's configuration for a directory.
fn vsftpd_settings(directory: &Path) -> PathBuf {
    let base = directory.display();
    let text = format!(
        "listen=YES\nlisten_address={SERVER_ADDRESS}\nlisten_port=2121\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_other_write_enable=YES\nanon_umask=022\nanon_root={base}/root\nno_anon_password=YES\n\
         ftp_username=games\nsecure_chroot_dir={base}/empty\nseccomp_sandbox=NO\nisolate_network=NO\n"
    );
    let file = directory.join("vsftpd.conf");
    fs::write(&file, text).unwrap();
    file
}

/// Measures a vsftpd server with a file of `bytes` bytes and a directory for uploads.
pub(crate) fn measure_files(
    path: RelayedPath,
    bytes: usize,
    words: &'static [&'static str],
) -> Measurement {
    run_over_path(path, move |remote| {
        let directory = unique("files");
        for name in ["root/pub", "root/incoming", "empty"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        let open = Permissions::from_mode(0o777);
        fs::set_permissions(directory.join("root/incoming"), open).unwrap();
        fs::write(directory.join("root/pub/file"), vec![b'.'; bytes]).unwrap();
        let mut command = peers::VSFTPD.command();
        command.arg(vsftpd_settings(&directory));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = in_server_network(remote, || Program::start(&mut command).unwrap());
        wait_for_listener(2121);
        let record = measure(&mut Command::new(PLUMB), words);
        drop(server);
        // A directory that is left behind does no harm.
        _ = fs::remove_dir_all(&directory);
        record
    })
}
