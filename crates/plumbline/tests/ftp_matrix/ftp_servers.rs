//! The FTP servers, each at 127.0.0.1 and fd00::1.

use super::matrix::TransferMode;
use os::process::Program;
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::{is_root_of_the_machine, peers};

/// Server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vsftpd,
    PureFtpd,
    Proftpd,
    Pyftpdlib,
    Libunftp,
    Plumb,
}

const PORT: u16 = 2100;
const PYFTPDLIB: &str = "
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import TLS_FTPHandler
from pyftpdlib.servers import FTPServer
root, host, port, certificate = sys.argv[1:]
users = DummyAuthorizer()
users.add_user('me', 'secret', root, perm='elradfmwMT')
TLS_FTPHandler.authorizer = users
TLS_FTPHandler.certfile = certificate
FTPServer((host, int(port)), TLS_FTPHandler).serve_forever()
";

/// A running server.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) is_v6: bool,
    pub(crate) port: u16,
    _program: Program,
}

impl Server {
    /// Starts the servers, each at both addresses. Only root of the machine can start some of the
    /// servers.
    pub(crate) fn start_all(directory: &Path, kinds: &[Kind]) -> Vec<Self> {
        let mut started = Vec::new();
        make_certificate(directory);
        for (at, kind) in kinds.iter().enumerate() {
            for is_v6 in [false, true] {
                let port = PORT + u16::try_from(at * 2).unwrap() + u16::from(is_v6);
                let site = ServerSite { directory, port, is_v6 };
                let Some(mut command) = kind.command(&site) else { continue };
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let program = Program::start(&mut command).unwrap();
                started.push(Self { kind: *kind, is_v6, port, _program: program });
            }
        }
        for server in &started {
            let site = (server.host(), server.port);
            let is_there = (0..1000).any(|_| {
                let is_there = TcpStream::connect(site).is_ok();
                if !is_there {
                    std::thread::sleep(Duration::from_millis(20));
                }
                is_there
            });
            assert!(is_there, "{} does not start at {}", server.kind.name(), server.host());
        }
        started
    }

    pub(crate) fn host(&self) -> &'static str {
        if self.is_v6 { "fd00::1" } else { "127.0.0.1" }
    }

    /// Returns the host in the form used in a URL.
    pub(crate) fn host_in_url(&self) -> &'static str {
        if self.is_v6 { "[fd00::1]" } else { "127.0.0.1" }
    }
}

/// Address and files of one server.
struct ServerSite<'a> {
    directory: &'a Path,
    port: u16,
    is_v6: bool,
}

impl ServerSite<'_> {
    fn file_path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn host(&self) -> &'static str {
        if self.is_v6 { "fd00::1" } else { "127.0.0.1" }
    }

    fn file(&self, kind: &str, text: &str) -> PathBuf {
        let file = self.directory.join(format!("{kind}-{}", self.port));
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    }

    /// Writes a users' file in the format of `/etc/passwd` with the user of the tests, and returns
    /// its path.
    fn users(&self, kind: &str, tail: &str) -> PathBuf {
        let mut openssl = peers::OPENSSL.command();
        let output = openssl.args(["passwd", "-1", "secret"]).output().unwrap();
        let hash = String::from_utf8(output.stdout).unwrap();
        let root = self.file_path("root");
        self.file(kind, &format!("me:{}:1000:1000::{root}{tail}\n", hash.trim()))
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Vsftpd, Self::PureFtpd, Self::Proftpd, Self::Pyftpdlib, Self::Libunftp, Self::Plumb];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vsftpd => "vsftpd",
            Self::PureFtpd => "pure-ftpd",
            Self::Proftpd => "proftpd",
            Self::Pyftpdlib => "pyftpdlib",
            Self::Libunftp => "libunftp",
            Self::Plumb => "plumb",
        }
    }

    /// Returns the user name and password for logins.
    pub(crate) fn client(self) -> (&'static str, &'static str) {
        match self {
            Self::Vsftpd | Self::Plumb => ("ftp", "a@b"),
            Self::PureFtpd | Self::Proftpd | Self::Pyftpdlib | Self::Libunftp => ("me", "secret"),
        }
    }

    /// Returns whether the server supports `case`. libunftp has no EPRT, so its active mode is IPv4
    /// only.
    pub(crate) fn supports(self, case: TransferMode) -> bool {
        self != Self::Libunftp || !case.is_active || !case.is_v6
    }

    fn command(self, site: &ServerSite<'_>) -> Option<Command> {
        match self {
            Self::Vsftpd => vsftpd(site),
            Self::PureFtpd => pure_ftpd(site),
            Self::Proftpd => proftpd(site),
            Self::Pyftpdlib => Some(pyftpdlib(site)),
            Self::Libunftp => Some(libunftp(site)),
            Self::Plumb => Some(plumb(site)),
        }
    }
}

/// vsftpd, with the resumption of TLS sessions required on data connections.
fn vsftpd(site: &ServerSite<'_>) -> Option<Command> {
    let program = is_root_of_the_machine().then(|| peers::VSFTPD.path())?;
    let directory = site.directory.display();
    let port = site.port;
    let host = site.host();
    let listen = match site.is_v6 {
        false => format!("listen=YES\nlisten_address={host}"),
        true => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={host}"),
    };
    let text = format!(
        "{listen}\nlisten_port={port}\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
         anon_root={directory}/root\nno_anon_password=YES\nftp_username=games\n\
         secure_chroot_dir={directory}/empty\nssl_enable=YES\nallow_anon_ssl=YES\n\
         force_anon_data_ssl=NO\nforce_anon_logins_ssl=NO\nrequire_ssl_reuse=YES\n\
         rsa_cert_file={directory}/cert.pem\nrsa_private_key_file={directory}/key.pem\n\
         seccomp_sandbox=NO\nisolate_network=NO\n"
    );
    let mut command = Command::new(program);
    command.arg(site.file("vsftpd", &text));
    Some(command)
}

fn pure_ftpd(site: &ServerSite<'_>) -> Option<Command> {
    let program = is_root_of_the_machine().then(|| peers::PURE_FTPD.path())?;
    // An unpacked package has `pure-pw` in another directory of the same tree.
    let unpacked_program = program.with_file_name("tree/usr/bin/pure-pw");
    let password_program =
        if unpacked_program.is_file() { unpacked_program } else { PathBuf::from("pure-pw") };
    let users = site.users("pure-users", "/./::::::::::::");
    let database = site.file_path(&format!("pure-{}.pdb", site.port));
    let libraries = format!("tree/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let status = Command::new(password_program)
        .env("LD_LIBRARY_PATH", program.with_file_name(libraries))
        .args(["mkdb", &database, "-f"])
        .arg(users)
        .output();
    assert!(status.unwrap().status.success(), "pure-pw");
    let mut command = Command::new(program);
    command.args(["-S", &format!("{},{}", site.host(), site.port), "-c", "50", "-C", "50"]);
    command.args(["-E", "-H", "-A", "-u", "1", "-l", &format!("puredb:{database}")]);
    let id = site.file_path(&format!("pure-{}.pid", site.port));
    command.args(["-g", &id, "-Y", "1", "-2", &site.file_path("both.pem")]);
    Some(command)
}

/// ProFTPD, which by default requires the resumption of TLS sessions on data connections.
fn proftpd(site: &ServerSite<'_>) -> Option<Command> {
    let program = is_root_of_the_machine().then(|| peers::PROFTPD.path())?;
    let modules_directory = program.with_file_name("tree/usr/lib/proftpd");
    let modules = if modules_directory.is_dir() {
        modules_directory
    } else {
        PathBuf::from("/usr/lib/proftpd")
    };
    let users = site.users("proftpd-users", ":/bin/sh");
    let directory = site.directory.display();
    let port = site.port;
    let host = site.host();
    let text = format!(
        "ServerType standalone\nServerName matrix\nUseIPv6 on\nDefaultAddress {host}\nPort {port}\n\
         SocketBindTight on\nUser nobody\nGroup nogroup\nModulePath {}\nLoadModule mod_tls.c\n\
         PidFile {directory}/proftpd-{port}.pid\nScoreboardFile none\nDelayEngine off\n\
         UseReverseDNS off\nAuthUserFile {}\nAuthOrder mod_auth_file.c\nRequireValidShell off\n\
         AllowOverwrite on\nWtmpLog off\nSystemLog none\nTransferLog none\nTLSEngine on\n\
         TLSRequired off\nTLSRSACertificateFile {directory}/cert.pem\n\
         TLSRSACertificateKeyFile {directory}/key.pem\n",
        modules.display(),
        users.display()
    );
    let mut command = Command::new(program);
    command.args(["-n", "-q", "-c"]).arg(site.file("proftpd", &text));
    Some(command)
}

fn pyftpdlib(site: &ServerSite<'_>) -> Command {
    let mut command = peers::PYFTPDLIB.command();
    command.args(["-W", "ignore", "-c", PYFTPDLIB, &site.file_path("root"), site.host()]);
    command.args([&site.port.to_string(), &site.file_path("both.pem")]);
    command
}

fn libunftp(site: &ServerSite<'_>) -> Command {
    let mut command = peers::LIBUNFTP.command();
    command.args([&site.file_path("root"), site.host(), &site.port.to_string()]);
    command.args([site.file_path("cert.pem"), site.file_path("key.pem")]);
    command
}

fn plumb(site: &ServerSite<'_>) -> Command {
    let host = if site.is_v6 { "[fd00::1]" } else { "127.0.0.1" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["serve", "--quiet", "--ftp", "--writable", "--root", &site.file_path("root")]);
    command.args(["--ftp-listen", &format!("{host}:{}", site.port)]);
    command.env("XDG_STATE_HOME", site.directory.join(format!("state-{}", site.port)));
    command
}

fn make_certificate(directory: &Path) {
    let status = peers::OPENSSL
        .command()
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3"])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(directory)
        .output();
    assert!(status.unwrap().status.success(), "openssl makes no certificate");
    let read = |name| fs::read(directory.join(name)).unwrap();
    fs::write(directory.join("both.pem"), [read("key.pem"), read("cert.pem")].concat()).unwrap();
}
