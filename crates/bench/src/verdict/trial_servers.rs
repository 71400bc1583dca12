//! The servers of a run: Debian's and plumb's, with default settings as far as a test without
//! system users allows.
//!
//! Telnet servers are started for each connection, as by inetd. They run a shell, or a script that
//! first asks for a name and a password, like login(1).

use super::super::telnetd::{program, set_environment};
use super::super::typing::plumb;
use super::case::{Case, Peer};
use super::resolver;
use super::second;
use super::service::Service;
use super::service_address::{BEHIND_PORT, SERVER, TFTP_PORT, port_of};
use super::setup::Setup;
use super::stop::Stop;
use anyhow::{Context, Result, bail, ensure};
use os::process::Program;
use std::fs::{self, File, Permissions};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for the start of a server.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Owner of the files of servers with virtual users.
const USER_ID: u32 = 1000;
const PYTHON: &str = "/usr/bin/python3";
/// pyftpdlib with one user and default settings.
const PYFTPDLIB: &str = "
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
logging.basicConfig(level=logging.ERROR)
root, address, port = sys.argv[1:]
users = DummyAuthorizer()
users.add_user('me', 'secret', root, perm='elradfmwMT')
FTPHandler.authorizer = users
FTPServer((address, int(port)), FTPHandler).serve_forever()
";
/// A directory with the files of a case, removed on drop.
#[derive(Debug)]
pub(super) struct Directory(pub(super) PathBuf);

/// Ratio of the size of the file whose time `plumb` only predicts to the size of the file that
/// `plumb` transfers.
pub(super) const LARGE_FACTOR: u64 = 4;

impl Directory {
    /// Creates the directory with `root/pub/file`, `root/pub/large`, `root/incoming`, and the login
    /// script.
    pub(super) fn make(case: &Case, setup: &Setup) -> Result<Self> {
        let name = format!("plumb-verdict-{}-{}", std::process::id(), case.number);
        let directory = Self(std::env::temp_dir().join(name));
        for name in ["root/pub", "root/incoming", "empty", "state"] {
            fs::create_dir_all(directory.0.join(name))?;
        }
        for name in ["", "root", "root/pub", "empty"] {
            fs::set_permissions(directory.0.join(name), Permissions::from_mode(0o755))?;
        }
        let incoming = directory.0.join("root/incoming");
        fs::set_permissions(&incoming, Permissions::from_mode(0o777))?;
        chown(&incoming, Some(USER_ID), Some(USER_ID))?;
        for (name, bytes) in [("file", case.bytes), ("large", case.bytes * LARGE_FACTOR)] {
            let path = directory.0.join("root/pub").join(name);
            File::create(&path)?.set_len(bytes)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        }
        let script = directory.script();
        fs::write(&script, script_text(case, setup))?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        fs::write(directory.0.join("password"), "secret\n")?;
        Ok(directory)
    }

    fn script(&self) -> PathBuf {
        self.0.join("login.sh")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Leftovers are in a temporary directory.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn script_text(case: &Case, setup: &Setup) -> String {
    let wait = |ms: u64| match ms {
        0 => String::new(),
        ms => format!("sleep {}.{:03}\n", ms / 1_000, ms % 1_000),
    };
    let mut text = format!("#!/bin/sh\n{}", wait(setup.prompt_ms));
    if case.asks_password {
        text += "printf 'login: '\nread -r name\nstty -echo\nprintf 'Password: '\nread -r password\n\
                 stty echo\necho\n";
        text += &wait(setup.password_ms);
    }
    if setup.second.profile_ms > 0 {
        text += "echo 'Last login: Sun Nov 22 09:14:07 from 10.0.0.2'\n";
        text += &wait(setup.second.profile_ms);
    }
    text + "exec " + case.shell.command() + "\n"
}

/// The running servers; they stop on drop.
#[derive(Debug)]
pub(super) struct Servers {
    _inetd: Option<Stop>,
    _program: Option<Program>,
}

/// Returns the path of a peer's program, or the reason why it cannot run here.
pub(super) fn path_of(peer: Peer) -> Result<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    match peer {
        Peer::InetutilsTelnetd => program("telnetd", "inetutils-telnetd"),
        Peer::BusyboxTelnetd => program("busybox", "busybox-static"),
        Peer::PlumbLogin | Peer::PlumbFtp | Peer::PlumbTftp => plumb(),
        Peer::Vsftpd | Peer::VsftpdInetd => program("vsftpd", "vsftpd"),
        Peer::PureFtpd => program("pure-ftpd", "pure-ftpd"),
        Peer::Proftpd => program("proftpd", "proftpd-core"),
        Peer::PythonTelnetd | Peer::PythonTftpd => {
            let path = PathBuf::from(PYTHON);
            ensure!(path.is_file(), "there is no {PYTHON}: install it (apt-get install python3)");
            Ok(path)
        }
        Peer::Pyftpdlib | Peer::PyftpdlibThreads => {
            let known = Command::new(PYTHON).args(["-c", "import pyftpdlib"]).output();
            let is_installed = known.is_ok_and(|known| known.status.success());
            ensure!(
                is_installed,
                "there is no pyftpdlib: install it (apt-get install python3-pyftpdlib)"
            );
            Ok(PathBuf::from(PYTHON))
        }
        Peer::TftpdHpa => match named("PLUMB_TFTPD_HPA") {
            Some(path) if path.is_file() => Ok(path),
            _ => program("in.tftpd", "tftpd-hpa"),
        },
        Peer::Atftpd => match named("PLUMB_ATFTPD") {
            Some(path) if path.is_file() => Ok(path),
            _ => program("atftpd", "atftpd"),
        },
        Peer::Dnsmasq => program("dnsmasq", "dnsmasq-base"),
    }
}

/// Returns the version that a peer's program prints: the first line with a digit.
pub(super) fn version_of(peer: Peer) -> String {
    let question: &[&str] = match peer {
        Peer::Vsftpd | Peer::VsftpdInetd => &["-v"],
        Peer::PureFtpd | Peer::BusyboxTelnetd => &["--help"],
        Peer::Pyftpdlib | Peer::PyftpdlibThreads => {
            &["-W", "ignore", "-c", "import pyftpdlib; print('pyftpdlib', pyftpdlib.__ver__)"]
        }
        Peer::TftpdHpa | Peer::Atftpd => &["-V"],
        _ => &["--version"],
    };
    let answer = || -> Result<String> {
        // vsftpd prints its version to descriptor 0.
        let file = std::env::temp_dir().join(format!("plumb-version-{}", std::process::id()));
        let stdin =
            File::options().create(true).truncate(true).read(true).write(true).open(&file)?;
        let output = Command::new(path_of(peer)?).args(question).stdin(stdin).output()?;
        let log = fs::read(&file)?;
        fs::remove_file(&file)?;
        let all = [output.stdout, output.stderr, log].concat();
        let all = String::from_utf8_lossy(&all).into_owned();
        let line = all.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
        Ok(line.unwrap_or_default().trim().chars().take(60).collect())
    };
    answer().unwrap_or_else(|error| error.to_string())
}

/// Starts the server of `case` in the network namespace of the calling thread, at `address` and
/// `port`, and waits until it answers.
pub(super) fn start(
    case: &Case,
    setup: &Setup,
    directory: &Directory,
    place: (&str, u16),
) -> Result<Servers> {
    let at = &directory.0;
    let path = path_of(case.peer)?;
    let mut command = match setup.second.server_resolver_ms {
        None => Command::new(&path),
        Some(_) => {
            let file = at.join("server-resolv.conf");
            fs::write(&file, "nameserver 127.0.0.1\n")?;
            resolver::with_file(&path, &file)
        }
    };
    set_environment(&mut command);
    command.env("XDG_STATE_HOME", at.join("state")).env("HOME", at.join("state"));
    match case.service {
        Service::Login | Service::LoginOwnTcp => {
            login_arguments(&mut command, case.peer, setup, directory, place);
        }
        Service::FtpGet | Service::FtpPut => {
            ftp_arguments(&mut command, case.peer, setup, (at, &path), place)?;
        }
        Service::TftpGet => tftp_arguments(&mut command, case.peer, setup, at, place)?,
    }
    if matches!(case.peer, Peer::InetutilsTelnetd | Peer::BusyboxTelnetd | Peer::VsftpdInetd) {
        return inetd(command, place, setup.has_nagle);
    }
    let log = File::create(at.join("server.log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut program = Program::start(&mut command)
        .with_context(|| format!("cannot start {}", case.peer.name()))?;
    await_answer(&mut program, case.service, place).with_context(|| {
        let log = fs::read_to_string(at.join("server.log")).unwrap_or_default();
        format!("{} does not start: {}", case.peer.name(), log.trim())
    })?;
    Ok(Servers { _inetd: None, _program: Some(program) })
}

fn login_arguments(
    command: &mut Command,
    peer: Peer,
    setup: &Setup,
    directory: &Directory,
    (address, port): (&str, u16),
) {
    match peer {
        Peer::PythonTelnetd => {
            let script = directory.script();
            return second::python_arguments(command, peer, setup, &script, (address, port));
        }
        Peer::InetutilsTelnetd => command.args(["-h", "-E"]),
        Peer::BusyboxTelnetd => command.args(["telnetd", "-i", "-f", "/dev/null", "-l"]),
        _ => {
            let place = format!("{address}:{port}");
            command.args(["serve", "--quiet", "--tls", "off", "--listen", &place, "--exec"])
        }
    };
    command.arg(directory.script());
}

fn ftp_arguments(
    command: &mut Command,
    peer: Peer,
    setup: &Setup,
    (at, path): (&Path, &Path),
    (address, port): (&str, u16),
) -> Result<()> {
    match peer {
        Peer::Vsftpd => {
            let listen = format!("listen=YES\nlisten_address={address}\nlisten_port={port}\n");
            command.arg(vsftpd_settings(at, &listen)?);
        }
        Peer::VsftpdInetd => {
            command.arg(vsftpd_settings(at, "listen=NO\nuse_sendfile=NO\n")?);
        }
        Peer::PyftpdlibThreads => {
            second::python_arguments(command, peer, setup, &at.join("root"), (address, port));
        }
        Peer::PureFtpd => {
            let users = pure_ftpd_users(at, path)?;
            command.args(["-S", &format!("{address},{port}"), "-E", "-H", "-A", "-u", "1", "-l"]);
            command.arg(format!("puredb:{}", users.display())).arg("-g").arg(at.join("pid"));
        }
        Peer::Proftpd => {
            let lookups = second::proftpd_lines(setup, path);
            let file = proftpd_settings(at, address, port, &lookups)?;
            command.args(["-n", "-q", "-c"]).arg(file);
        }
        Peer::Pyftpdlib => {
            command.args(["-W", "ignore", "-c", PYFTPDLIB]).arg(at.join("root"));
            command.args([address, &port.to_string()]);
        }
        _ => {
            let root = at.join("root");
            let text = format!(
                "[ftp]\nroot = \"{}\"\nrights = \"writable\"\nlisten = [\"{address}:{port}\"]\n",
                root.display()
            );
            fs::write(at.join("ftp.toml"), text)?;
            command.args(["serve", "--quiet", "--no-record", "--config"]).arg(at.join("ftp.toml"));
        }
    }
    Ok(())
}

fn tftp_arguments(
    command: &mut Command,
    peer: Peer,
    setup: &Setup,
    at: &Path,
    (address, port): (&str, u16),
) -> Result<()> {
    let place = format!("{address}:{port}");
    let refusals = second::refusals(peer, setup);
    match peer {
        Peer::PythonTftpd => {
            let root = at.join("root/pub");
            second::python_arguments(command, peer, setup, &root, (address, port));
        }
        Peer::TftpdHpa => {
            command.args(["-L", "-u", "root", "-a", &place]).args(refusals);
            command.arg("-s").arg(at.join("root/pub"));
        }
        Peer::Atftpd => {
            command.args(["--daemon", "--no-fork", "--user", "root.root", "--logfile"]);
            command.args(["/dev/null", "--bind-address", address, "--port", &port.to_string()]);
            command.args(refusals).arg(at.join("root/pub"));
        }
        Peer::Dnsmasq => {
            ensure!(port == TFTP_PORT, "dnsmasq serves TFTP only at port 69");
            command.args(["--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root"]);
            command.args(["--enable-tftp", "--bind-interfaces", "--pid-file="]).args(refusals);
            command.arg(format!("--listen-address={address}"));
            command.arg(format!("--tftp-root={}", at.join("root/pub").display()));
        }
        _ => {
            command.args(["serve", "--quiet", "--tftp", "--no-record", "--root"]);
            command.arg(at.join("root/pub")).args(["--tftp-listen", &place]);
        }
    }
    Ok(())
}

/// Starts `command` for each connection, with the connection as its standard input and output.
fn inetd(mut command: Command, place: (&str, u16), has_nagle: bool) -> Result<Servers> {
    let listener = TcpListener::bind(place).context("cannot listen for Telnet")?;
    listener.set_nonblocking(true)?;
    // Programs inherit the network namespace of this thread, and this thread inherits that of the
    // calling thread.
    let stop = Stop::start(move |stop| {
        let mut programs = Vec::new();
        while !stop.is_set() {
            let Ok((connection, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            // If a server does not start, the client sees its connection closed.
            let started = connection
                .set_nonblocking(false)
                .and_then(|()| connection.set_nodelay(!has_nagle))
                .and_then(|()| connection.try_clone())
                .and_then(|input| {
                    command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(connection));
                    Program::start(command.stderr(Stdio::null()))
                });
            // The `Command` value would otherwise keep the connection open.
            command.stdin(Stdio::null()).stdout(Stdio::null());
            programs.extend(started.ok());
        }
    });
    Ok(Servers { _inetd: Some(stop), _program: None })
}

fn await_answer(program: &mut Program, service: Service, place: (&str, u16)) -> Result<()> {
    let until = Instant::now() + START_LIMIT;
    loop {
        let answers = match service {
            Service::TftpGet => answers_tftp(place)?,
            _ => TcpStream::connect(place).is_ok(),
        };
        if answers {
            return Ok(());
        }
        if let Some(status) = program.exit_status()? {
            bail!("the server has ended: {status}");
        }
        ensure!(
            Instant::now() < until,
            "no answer from the server for {} s",
            START_LIMIT.as_secs()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Requests a file that does not exist, and returns whether any reply arrives.
fn answers_tftp(place: (&str, u16)) -> Result<bool> {
    let socket = UdpSocket::bind((place.0, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    socket.send_to(b"\0\x01none\0octet\0", place)?;
    Ok(socket.recv_from(&mut [0; 512]).is_ok())
}

fn vsftpd_settings(at: &Path, listen: &str) -> Result<PathBuf> {
    let directory = at.display();
    let text = format!(
        "{listen}background=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_other_write_enable=YES\nanon_umask=022\nanon_root={directory}/root\n\
         no_anon_password=YES\nftp_username=games\nsecure_chroot_dir={directory}/empty\n\
         seccomp_sandbox=NO\nisolate_network=NO\n"
    );
    let file = at.join("vsftpd.conf");
    fs::write(&file, text)?;
    Ok(file)
}

/// Returns a hash of the password `secret` that is cheap to check.
fn password_hash() -> Result<String> {
    let mut openssl = Command::new("openssl");
    let openssl_output = openssl.args(["passwd", "-1", "secret"]).stdin(Stdio::null()).output();
    let openssl_output =
        openssl_output.context("cannot run openssl: install it (apt-get install openssl)")?;
    Ok(String::from_utf8(openssl_output.stdout)?.trim().to_owned())
}

fn pure_ftpd_users(at: &Path, path: &Path) -> Result<PathBuf> {
    // If the package was unpacked but not installed, `pure-pw` is in another directory of its tree.
    let unpacked_path = path.with_file_name("tree/usr/bin/pure-pw");
    let pure_pw =
        if unpacked_path.is_file() { unpacked_path } else { program("pure-pw", "pure-ftpd")? };
    let libraries = format!("tree/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let users = at.join("users");
    let database = at.join("users.pdb");
    let hash = password_hash()?;
    let home = at.join("root");
    let line = format!("me:{hash}:{USER_ID}:{USER_ID}::{}/./::::::::::::\n", home.display());
    fs::write(&users, line)?;
    let mut command = Command::new(pure_pw);
    command.env("LD_LIBRARY_PATH", path.with_file_name(libraries)).stdin(Stdio::null());
    let openssl_output = command.arg("mkdb").arg(&database).arg("-f").arg(&users).output()?;
    ensure!(openssl_output.status.success(), "pure-pw failed to create the user");
    Ok(database)
}

fn proftpd_settings(at: &Path, address: &str, port: u16, lookups: &str) -> Result<PathBuf> {
    let users = at.join("proftpd-users");
    let directory = at.display();
    let home = at.join("root");
    let line = format!("me:{}:{USER_ID}:{USER_ID}::{}:/bin/sh\n", password_hash()?, home.display());
    fs::write(&users, line)?;
    fs::set_permissions(&users, Permissions::from_mode(0o600))?;
    let text = format!(
        "ServerType standalone\nServerName verdict\nDefaultAddress {address}\nPort {port}\n\
         SocketBindTight on\nUser nobody\nGroup nogroup\nPidFile {directory}/proftpd.pid\n\
         ScoreboardFile none\nDelayEngine off\n{lookups}DefaultRoot {directory}/root\n\
         AuthUserFile {directory}/proftpd-users\nAuthOrder mod_auth_file.c\n\
         RequireValidShell off\nAllowRetrieveRestart on\nAllowOverwrite on\nWtmpLog off\n\
         SystemLog none\nTransferLog none\n"
    );
    let file = at.join("proftpd.conf");
    fs::write(&file, text)?;
    Ok(file)
}

/// Returns the idle time before a server is measured: proftpd greets about 0.4 s later if another
/// connection began or ended within the last second.
pub(super) const fn settling_time(peer: Peer) -> Duration {
    match peer {
        Peer::Proftpd => Duration::from_millis(1_500),
        _ => Duration::from_millis(50),
    }
}

/// Returns the user name and password for a server, as in the configurations above.
pub(super) const fn user_of(peer: Peer) -> (&'static str, &'static str) {
    match peer {
        Peer::PureFtpd | Peer::Proftpd | Peer::Pyftpdlib | Peer::PyftpdlibThreads => {
            ("me", "secret")
        }
        _ => ("anonymous", "bench@example.net"),
    }
}

/// Returns the address and port at which the server itself listens.
pub(super) fn server_address_of(case: &Case, setup: &Setup) -> (&'static str, u16) {
    match setup.needs_interposer() {
        true => ("127.0.0.1", BEHIND_PORT),
        false => (SERVER, port_of(case.service)),
    }
}
