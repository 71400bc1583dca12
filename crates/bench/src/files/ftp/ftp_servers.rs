//! The servers: how each is started, and its login.

use super::directories::Directories;
use crate::files::account::Account;
use crate::telnetd::program;
use crate::typing::plumb;
use anyhow::{Context, Result, ensure};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerProgram {
    Plumb,
    /// plumb without records.
    Unrecorded,
    Vsftpd,
    PureFtpd,
    Proftpd,
    Pyftpdlib,
}

/// Time limit for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Owner of the uploads to servers with virtual users.
const USER_ID: u32 = 1000;
const PYTHON: &str = "/usr/bin/python3";
const PYFTPDLIB: &str = "
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import TLS_FTPHandler
from pyftpdlib.servers import FTPServer
logging.basicConfig(level=logging.ERROR)
root, port, certificate = sys.argv[1:]
users = DummyAuthorizer()
users.add_user('me', 'secret', root, perm='elradfmwMT')
TLS_FTPHandler.authorizer = users
TLS_FTPHandler.certfile = certificate
server = FTPServer(('127.0.0.1', int(port)), TLS_FTPHandler, backlog=1024)
server.max_cons = 100000
server.serve_forever()
";

impl ServerProgram {
    /// Servers of the rows that compare pairs.
    pub(super) const ALL: [Self; 5] =
        [Self::Plumb, Self::Vsftpd, Self::PureFtpd, Self::Proftpd, Self::Pyftpdlib];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plumb => "plumb",
            Self::Unrecorded => "plumb without records",
            Self::Vsftpd => "vsftpd",
            Self::PureFtpd => "pure-ftpd",
            Self::Proftpd => "proftpd",
            Self::Pyftpdlib => "pyftpdlib",
        }
    }

    /// Returns the port of the server.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Plumb => 7101,
            Self::Vsftpd => 7102,
            Self::PureFtpd => 7103,
            Self::Proftpd => 7104,
            Self::Pyftpdlib => 7105,
            Self::Unrecorded => 7106,
        }
    }

    /// Returns the user name and the password: anonymous if the server accepts anonymous logins
    /// without a password check.
    pub(super) fn user(self) -> (&'static str, &'static str) {
        match self {
            Self::Plumb | Self::Unrecorded | Self::Vsftpd => ("ftp", "a@b"),
            Self::PureFtpd | Self::Proftpd | Self::Pyftpdlib => ("me", "secret"),
        }
    }

    /// Returns the command that starts the server at `port`. plumb's server allows `sessions`
    /// sessions.
    pub(super) fn command(
        self,
        directories: &Directories,
        port: u16,
        sessions: usize,
    ) -> Result<Command> {
        match self {
            Self::Plumb => plumb_command(directories, port, sessions),
            Self::Unrecorded => {
                let mut command = plumb_command(directories, port, sessions)?;
                command.arg("--no-record");
                Ok(command)
            }
            Self::Vsftpd => vsftpd_command(directories, port),
            Self::PureFtpd => pure_ftpd_command(directories, port),
            Self::Proftpd => proftpd_command(directories, port),
            Self::Pyftpdlib => pyftpdlib_command(directories, port),
        }
    }
}

/// Returns the command for plumb's server, which listens at all addresses: clients on a TUN do not
/// connect to its loopback address.
fn plumb_command(directories: &Directories, port: u16, sessions: usize) -> Result<Command> {
    let text = format!(
        "[ftp]\nroot = \"{}\"\nrights = \"writable\"\nlisten = [\"0.0.0.0:{port}\"]\n\
         sessions-max = {sessions}\nsessions-per-source-max = {sessions}\n",
        directories.at("root")
    );
    let file = directories.directory.join(format!("plumb-{port}.toml"));
    fs::write(&file, text)?;
    let mut command = Command::new(plumb()?);
    command.args(["serve", "--quiet", "--config"]).arg(file);
    command.env("XDG_STATE_HOME", directories.directory.join("state"));
    Ok(command)
}

fn vsftpd_command(directories: &Directories, port: u16) -> Result<Command> {
    let path = program("vsftpd", "vsftpd")?;
    let at = directories.directory.display();
    let text = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
         anon_root={at}/root\nno_anon_password=YES\nftp_username=games\n\
         secure_chroot_dir={at}/empty\nssl_enable=YES\nallow_anon_ssl=YES\n\
         force_anon_data_ssl=NO\nforce_anon_logins_ssl=NO\nrequire_ssl_reuse=NO\n\
         rsa_cert_file={at}/cert.pem\nrsa_private_key_file={at}/key.pem\n\
         seccomp_sandbox=NO\nisolate_network=NO\n"
    );
    let file = directories.directory.join("vsftpd.conf");
    fs::write(&file, text)?;
    let mut command = Command::new(path);
    command.arg(file);
    Ok(command)
}

/// Creates a users' file with one user whose password is cheap to check.
fn write_users(directories: &Directories, name: &str) -> Result<PathBuf> {
    let mut openssl = Command::new("openssl");
    let openssl_output = openssl.args(["passwd", "-1", "secret"]).stdin(Stdio::null()).output()?;
    let hash = String::from_utf8(openssl_output.stdout)?;
    let line = format!("me:{}:{USER_ID}:{USER_ID}::{}", hash.trim(), directories.at("root"));
    let file = directories.directory.join(name);
    let line = match name {
        "pure.passwd" => format!("{line}/./::::::::::::\n"),
        _ => format!("{line}:/bin/sh\n"),
    };
    fs::write(&file, line)?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    Ok(file)
}

fn pure_ftpd_command(directories: &Directories, port: u16) -> Result<Command> {
    let path = program("pure-ftpd", "pure-ftpd")?;
    let users = write_users(directories, "pure.passwd")?;
    // If the package was unpacked but not installed, `pure-pw` is in another directory of its tree.
    let unpacked_path = path.with_file_name("tree/usr/bin/pure-pw");
    let pure_pw =
        if unpacked_path.is_file() { unpacked_path } else { program("pure-pw", "pure-ftpd")? };
    let libraries = format!("tree/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(pure_pw)
        .env("LD_LIBRARY_PATH", path.with_file_name(libraries))
        .args(["mkdb", &directories.at("pure.pdb"), "-f"])
        .arg(users)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "pure-pw failed to create the users");
    let mut command = Command::new(path);
    command.args(["-S", &format!("127.0.0.1,{port}"), "-c", "100", "-C", "100", "-E", "-H", "-A"]);
    command.args([
        "-l",
        &format!("puredb:{}", directories.at("pure.pdb")),
        "-L",
        "1000000:8",
        "-u",
        "1",
    ]);
    command.args(["-g", &directories.at("pure.pid"), "-Y", "1", "-2", &directories.at("both.pem")]);
    Ok(command)
}

fn proftpd_command(directories: &Directories, port: u16) -> Result<Command> {
    let path = program("proftpd", "proftpd-core")?;
    let users = write_users(directories, "proftpd.passwd")?;
    let unpacked_path = path.with_file_name("tree/usr/lib/proftpd");
    let modules =
        if unpacked_path.is_dir() { unpacked_path } else { PathBuf::from("/usr/lib/proftpd") };
    let at = directories.directory.display();
    let text = format!(
        "ServerType standalone\nServerName bench\nDefaultAddress 127.0.0.1\nPort {port}\n\
         UseIPv6 off\nUser nobody\nGroup nogroup\nModulePath {}\nLoadModule mod_tls.c\n\
         PidFile {at}/proftpd.pid\nScoreboardFile none\nDelayEngine off\nMaxInstances 100\n\
         UseReverseDNS off\nAuthUserFile {}\nAuthOrder mod_auth_file.c\nRequireValidShell off\n\
         AllowOverwrite on\nWtmpLog off\nSystemLog none\nTransferLog none\nUseSendfile on\n\
         TLSEngine on\nTLSRequired off\nTLSRSACertificateFile {at}/cert.pem\n\
         TLSRSACertificateKeyFile {at}/key.pem\nTLSOptions NoSessionReuseRequired\n",
        modules.display(),
        users.display()
    );
    let file = directories.directory.join("proftpd.conf");
    fs::write(&file, text)?;
    let mut command = Command::new(path);
    command.args(["-n", "-q", "-c"]).arg(file);
    Ok(command)
}

fn pyftpdlib_command(directories: &Directories, port: u16) -> Result<Command> {
    let python_check = Command::new(PYTHON).args(["-c", "import pyftpdlib, OpenSSL"]).output();
    let is_installed = python_check.is_ok_and(|python_check| python_check.status.success());
    ensure!(is_installed, "there is no pyftpdlib: install it (apt-get install python3-pyftpdlib)");
    let mut command = Command::new(PYTHON);
    command.args(["-W", "ignore", "-c", PYFTPDLIB, &directories.at("root"), &port.to_string()]);
    command.arg(directories.directory.join("both.pem"));
    Ok(command)
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) server_program: ServerProgram,
    pub(super) account: Account,
    pub(super) program: Program,
}

impl Server {
    /// Starts a server, and waits until it accepts connections.
    pub(super) fn start(
        server_program: ServerProgram,
        mut command: Command,
        port: u16,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.current_dir(Path::new("/"));
        let mut program = Program::start(&mut command)
            .with_context(|| format!("{} cannot be started", server_program.name()))?;
        let account = Account::open(server_program.name(), program.id());
        let clock = Monotonic::start();
        let until = clock.now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = program.exit_status()?.is_some();
            ensure!(!has_ended && clock.now() < until, "{} does not start", server_program.name());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { server_program, account, program })
    }
}
