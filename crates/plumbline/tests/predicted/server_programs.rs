//! The servers, each started in the server's network namespace, and a directory with the served
//! files.

use super::network_path::SERVER;
use crate::login_harness::poll_until_timeout;
use os::process::Program;
use std::fs::{self, File, Permissions};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use test_support::peers;

/// Server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    InetutilsTelnetd,
    BusyboxTelnetd,
    PlumbLogin,
    Vsftpd,
    PureFtpd,
    Proftpd,
    PlumbFtp,
    TftpdHpa,
    Atftpd,
    PlumbTftp,
}

const PORT: u16 = 2323;

/// A temporary directory, removed on drop.
pub(crate) struct TempDirectory(pub(crate) PathBuf);

impl TempDirectory {
    /// Creates the directory with a file `served/file` of `bytes` bytes.
    pub(crate) fn with_file(bytes: u64) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-predicted-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for directory in ["served", "empty"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        let file = File::create(path.join("served/file")).unwrap();
        file.set_len(bytes).unwrap();
        fs::set_permissions(path.join("served/file"), Permissions::from_mode(0o644)).unwrap();
        Self(path)
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

impl Peer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InetutilsTelnetd => "inetutils telnetd",
            Self::BusyboxTelnetd => "busybox telnetd",
            Self::PlumbLogin => "plumb serve",
            Self::Vsftpd => "vsftpd",
            Self::PureFtpd => "pure-ftpd",
            Self::Proftpd => "proftpd",
            Self::PlumbFtp => "plumb serve --ftp",
            Self::TftpdHpa => "tftpd-hpa",
            Self::Atftpd => "atftpd",
            Self::PlumbTftp => "plumb serve --tftp",
        }
    }

    pub(crate) fn url(self) -> String {
        match self {
            Self::InetutilsTelnetd | Self::BusyboxTelnetd | Self::PlumbLogin => {
                format!("{SERVER}:{PORT}")
            }
            Self::PureFtpd => format!("ftp://me@{SERVER}:{PORT}/file"),
            Self::Proftpd => format!("ftp://me@{SERVER}:{PORT}/served/file"),
            Self::Vsftpd | Self::PlumbFtp => format!("ftp://{SERVER}:{PORT}/file"),
            Self::TftpdHpa | Self::Atftpd | Self::PlumbTftp => {
                format!("tftp://{SERVER}:{PORT}/file")
            }
        }
    }

    /// Starts the server in the network namespace of this thread.
    pub(crate) fn start(self, directory: &TempDirectory) -> Program {
        let mut command = match self {
            Self::InetutilsTelnetd => {
                let mut command = peers::INETUTILS_TELNETD.command();
                command.args(["-h", "-E", "/bin/sh"]);
                return serve_one_client(command);
            }
            Self::BusyboxTelnetd => {
                let mut command = peers::BUSYBOX.command();
                command.args(["telnetd", "-i", "-l", "/bin/sh"]);
                return serve_one_client(command);
            }
            Self::PlumbLogin => {
                let mut command = plumb(directory);
                command.args(["serve", "--quiet", "--tls", "off"]);
                command.args(["--listen", &format!("{SERVER}:{PORT}"), "--exec", "/bin/sh"]);
                command
            }
            Self::Vsftpd => vsftpd(&directory.0),
            Self::PureFtpd => pure_ftpd(&directory.0),
            Self::Proftpd => proftpd(&directory.0),
            Self::PlumbFtp => {
                let mut command = plumb(directory);
                command.args(["serve", "--quiet", "--ftp", "--no-record", "--root"]);
                command.arg(directory.0.join("served"));
                command.args(["--ftp-listen", &format!("{SERVER}:{PORT}")]);
                command
            }
            Self::TftpdHpa => {
                let mut command = peers::TFTPD_HPA.command();
                command.args(["-L", "-p", "-u", "root", "-a", &format!("{SERVER}:{PORT}"), "-s"]);
                command.arg(directory.0.join("served"));
                command
            }
            Self::Atftpd => {
                let mut command = peers::ATFTPD.command();
                command.args(["--daemon", "--no-fork", "--user", "root.root", "--logfile"]);
                command.args(["/dev/null", "--bind-address", SERVER, "--port"]);
                command.arg(PORT.to_string()).arg(directory.0.join("served"));
                command
            }
            Self::PlumbTftp => {
                let mut command = plumb(directory);
                command.args(["serve", "--quiet", "--tftp", "--no-record", "--root"]);
                command.arg(directory.0.join("served"));
                command.args(["--tftp-listen", &format!("{SERVER}:{PORT}")]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = Program::start(&mut command).unwrap();
        assert!(self.wait_until_answering(), "{} does not answer", self.name());
        program
    }

    /// Waits until the server answers. Returns `false` if a TFTP server does not answer in time.
    fn wait_until_answering(self) -> bool {
        const ATTEMPTS_MAX: usize = 200;
        match self {
            Self::TftpdHpa | Self::Atftpd | Self::PlumbTftp => {
                (0..ATTEMPTS_MAX).any(|_| is_tftp_answering())
            }
            _ => {
                poll_until_timeout(|| TcpStream::connect((SERVER, PORT)).ok());
                true
            }
        }
    }
}

/// Requests a file that does not exist, and returns whether any reply arrives.
fn is_tftp_answering() -> bool {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    socket.send_to(b"\0\x01none\0octet\0", (SERVER, PORT)).unwrap();
    socket.recv_from(&mut [0; 512]).is_ok()
}

/// Accepts one connection and runs `command` with it as stdin and stdout. Returns a placeholder
/// process (`cat` with an input that never ends) for callers that expect a program.
fn serve_one_client(mut command: Command) -> Program {
    let listener = TcpListener::bind((SERVER, PORT)).unwrap();
    thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else { return };
        command.stdout(OwnedFd::from(client.try_clone().unwrap())).stderr(Stdio::null());
        let mut server = command.stdin(OwnedFd::from(client)).spawn().unwrap();
        drop(command);
        _ = server.wait();
    });
    Program::start(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null())).unwrap()
}

pub(crate) fn plumb(directory: &TempDirectory) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.env("XDG_STATE_HOME", &directory.0).env("HOME", &directory.0);
    command.env("PLUMB_FTP_PASSWORD", "secret");
    command
}

fn vsftpd(directory: &Path) -> Command {
    let base = directory.display();
    let text = format!(
        "listen=YES\nlisten_address={SERVER}\nlisten_port={PORT}\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nanon_root={base}/served\nno_anon_password=YES\n\
         ftp_username=games\nsecure_chroot_dir={base}/empty\nseccomp_sandbox=NO\n\
         isolate_network=NO\n"
    );
    let file = directory.join("vsftpd.conf");
    fs::write(&file, text).unwrap();
    let mut command = peers::VSFTPD.command();
    command.arg(file);
    command
}

/// Returns the hash of the password `secret` for a users' file.
fn hash() -> String {
    let output = peers::OPENSSL.command().args(["passwd", "-1", "secret"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn proftpd(directory: &Path) -> Command {
    let users = directory.join("proftpd-users");
    let base = directory.display();
    fs::write(&users, format!("me:{}:1000:1000::{base}:/bin/sh\n", hash())).unwrap();
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "ServerType standalone\nServerName predicted\nDefaultAddress {SERVER}\nPort {PORT}\n\
         SocketBindTight on\nUser nobody\nGroup nogroup\nPidFile {base}/proftpd.pid\n\
         ScoreboardFile none\nDelayEngine off\nUseReverseDNS off\nDefaultRoot {base}\n\
         AuthUserFile {base}/proftpd-users\nAuthOrder mod_auth_file.c\nRequireValidShell off\n\
         AllowRetrieveRestart on\nWtmpLog off\nSystemLog none\nTransferLog none\n"
    );
    let file = directory.join("proftpd.conf");
    fs::write(&file, text).unwrap();
    let mut command = peers::PROFTPD.command();
    command.args(["-n", "-q", "-c"]).arg(file);
    command
}

fn pure_ftpd(directory: &Path) -> Command {
    let program = peers::PURE_FTPD.path();
    // An unpacked package has `pure-pw` in another directory of the same tree.
    let unpacked_program = program.with_file_name("tree/usr/bin/pure-pw");
    let password_program =
        if unpacked_program.is_file() { unpacked_program } else { PathBuf::from("pure-pw") };
    let libraries = format!("tree/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = program.with_file_name(libraries);
    let hash = hash();
    let users = directory.join("users");
    let database = directory.join("users.pdb");
    let path = format!("me:{hash}:1000:1000::{}/served/./::::::::::::\n", directory.display());
    fs::write(&users, path).unwrap();
    let mut password_program = Command::new(password_program);
    password_program
        .env("LD_LIBRARY_PATH", libraries)
        .arg("mkdb")
        .arg(&database)
        .arg("-f")
        .arg(&users);
    assert!(password_program.status().unwrap().success(), "pure-pw");
    let mut command = Command::new(program);
    command.args(["-S", &format!("{SERVER},{PORT}"), "-E", "-H", "-A", "-u", "1", "-l"]);
    command.arg(format!("puredb:{}", database.display()));
    command.arg("-g").arg(directory.join("pid"));
    command
}
