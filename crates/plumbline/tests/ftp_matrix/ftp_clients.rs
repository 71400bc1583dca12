//! The client programs, each of which uploads and downloads a file.

use super::ftp_servers::{Kind, Server};
use super::matrix::TransferMode;
use net::time::Duration;
use os::process::Program;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use test_support::peers;

/// Client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientProgram {
    Curl,
    Lftp,
    Ncftp,
    Tnftp,
    Inetutils,
    Ftplib,
    Suppaftp,
    Plumb,
}

/// Time limit for one transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
const FTPLIB: &str = "
import ftplib, ssl, sys
direction, in_tls, passive, host, port, user, password, name = sys.argv[1:]
class Resuming(ftplib.FTP_TLS):
    # By itself ftplib does not resume the TLS session, which plumb serve requires as vsftpd does.
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        session = self.sock.session
        return self.context.wrap_socket(conn, server_hostname=self.host, session=session), size
if in_tls == 'True':
    ftp = Resuming(context=ssl._create_unverified_context())
else:
    ftp = ftplib.FTP()
ftp.connect(host, int(port), 30)
ftp.login(user, password)
if in_tls == 'True':
    ftp.prot_p()
ftp.set_pasv(passive == 'True')
if direction == 'send':
    with open(name, 'rb') as file:
        ftp.storbinary('STOR in/' + name, file)
else:
    with open(name, 'wb') as file:
        ftp.retrbinary('RETR ' + name, file.write)
ftp.quit()
";

/// Result of a client program. The error is the output of the failed program.
type ClientResult = Result<(), String>;

impl ClientProgram {
    pub(crate) const ALL: [Self; 8] = [
        Self::Curl,
        Self::Lftp,
        Self::Ncftp,
        Self::Tnftp,
        Self::Inetutils,
        Self::Ftplib,
        Self::Suppaftp,
        Self::Plumb,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Lftp => "lftp",
            Self::Ncftp => "ncftp",
            Self::Tnftp => "tnftp",
            Self::Inetutils => "inetutils",
            Self::Ftplib => "ftplib",
            Self::Suppaftp => "suppaftp",
            Self::Plumb => "plumb",
        }
    }

    /// Finds the client's programs, and prints their versions under the name of the calling test.
    pub(crate) fn find_programs(self) {
        for is_upload in [true, false] {
            _ = self.command(is_upload);
        }
    }

    fn command(self, is_upload: bool) -> Command {
        match self {
            Self::Curl => peers::CURL.command(),
            Self::Lftp => peers::LFTP.command(),
            Self::Ncftp if is_upload => peers::NCFTPPUT.command(),
            Self::Ncftp => peers::NCFTPGET.command(),
            Self::Tnftp => peers::TNFTP.command(),
            Self::Inetutils => peers::INETUTILS_FTP.command(),
            Self::Ftplib => peers::PYTHON.command(),
            Self::Suppaftp => peers::SUPPAFTP.command(),
            Self::Plumb => Command::new(env!("CARGO_BIN_EXE_plumb")),
        }
    }

    /// Returns whether the client supports `case`. Only some clients support TLS, and one lacks
    /// IPv6. curl before 8.0 does not use TLS on connections that it accepts.
    fn supports(self, case: TransferMode) -> bool {
        match self {
            Self::Curl => !(case.in_tls && case.is_active),
            Self::Lftp | Self::Ftplib | Self::Suppaftp | Self::Plumb => true,
            Self::Tnftp | Self::Inetutils => !case.in_tls,
            Self::Ncftp => !case.in_tls && !case.is_v6,
        }
    }

    /// Uploads the file `name` into the server's directory `in`. Returns `None` if the client does
    /// not support the transfer mode.
    pub(crate) fn upload(
        self,
        server: &Server,
        case: TransferMode,
        here: &Path,
        name: &str,
    ) -> Option<ClientResult> {
        self.transfer(server, case, here, name, true)
    }

    /// Downloads the file `name` from the server's root. Returns `None` if the client does not
    /// support the transfer mode.
    pub(crate) fn download(
        self,
        server: &Server,
        case: TransferMode,
        here: &Path,
        name: &str,
    ) -> Option<ClientResult> {
        self.transfer(server, case, here, name, false)
    }

    fn transfer(
        self,
        server: &Server,
        case: TransferMode,
        here: &Path,
        name: &str,
        is_upload: bool,
    ) -> Option<ClientResult> {
        (self.supports(case) && server.kind.supports(case)).then_some(())?;
        let mut command = self.command(is_upload);
        let typed = match self {
            Self::Curl => curl(&mut command, server, case, name, is_upload),
            Self::Lftp => lftp(&mut command, server, case, name, is_upload),
            Self::Ncftp => ncftp(&mut command, server, case, name, is_upload),
            Self::Tnftp => {
                command.args(["-n", "-v"]).args(case.is_active.then_some("-A"));
                classic(server, name, is_upload)
            }
            Self::Inetutils => {
                command.args(["-n", "-v", if case.is_active { "-A" } else { "-p" }]);
                classic(server, name, is_upload)
            }
            Self::Ftplib => ftplib(&mut command, server, case, name, is_upload),
            Self::Suppaftp => suppaftp(&mut command, server, case, name, is_upload),
            Self::Plumb => plumb(&mut command, server, case, name, is_upload),
        };
        Some(run(command, here, &typed))
    }
}

fn run(mut command: Command, here: &Path, typed: &str) -> ClientResult {
    let input = here.join("typed");
    let messages = here.join("said");
    fs::write(&input, typed).unwrap();
    let output = File::create(&messages).unwrap();
    command.current_dir(here).env("HOME", here).env("XDG_STATE_HOME", here.join("state"));
    command.stdin(File::open(input).unwrap()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut program = Program::start(&mut command).unwrap();
    let status = program.wait_for_end(TRANSFER_TIMEOUT).unwrap();
    let messages = fs::read(messages).unwrap();
    let messages = String::from_utf8_lossy(&messages).into_owned();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}: {messages}")),
        None => Err(format!("it had not ended after {} s: {messages}", TRANSFER_TIMEOUT.as_secs())),
    }
}

fn curl(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    let url = format!("ftp://{}:{}", server.host_in_url(), server.port);
    command.args(["-q", "-sS", "--globoff", "-u", &format!("{client}:{password}")]);
    command.args(case.in_tls.then_some(["--ssl-reqd", "-k"]).into_iter().flatten());
    command.args(case.is_active.then_some(["-P", "-"]).into_iter().flatten());
    match is_upload {
        true => command.args(["-T", name, &format!("{url}/in/{name}")]),
        false => command.args(["-o", name, &format!("{url}/{name}")]),
    };
    String::new()
}

fn lftp(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    let tls = match case.in_tls {
        false => "set ftp:ssl-allow no",
        true => {
            "set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:ssl-protect-data yes; \
             set ftp:ssl-allow-anonymous yes"
        }
    };
    let transfer_command = match is_upload {
        true => format!("put {name} -o in/{name}"),
        false => format!("get {name}"),
    };
    let passive = if case.is_active { "no" } else { "yes" };
    command.arg("--norc").arg("-c").arg(format!(
        "{tls}; set ftp:passive-mode {passive}; set cmd:fail-exit yes; set net:max-retries 1; \
         open -u {client},{password} ftp://{}:{}; {transfer_command}",
        server.host_in_url(),
        server.port
    ));
    String::new()
}

fn ncftp(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    command.args(["-V", "-u", client, "-p", password, "-P", &server.port.to_string()]);
    command.args([if case.is_active { "-E" } else { "-F" }, server.host()]);
    match is_upload {
        true => command.args(["in", name]),
        false => command.args([".", name]),
    };
    String::new()
}

/// Returns the input for the interactive clients with the command set of BSD ftp.
fn classic(server: &Server, name: &str, is_upload: bool) -> String {
    let (client, password) = server.kind.client();
    let commands = match is_upload {
        true => format!("put {name} in/{name}"),
        false => format!("get {name}"),
    };
    let host = server.host();
    let port = server.port;
    format!("open {host} {port}\nuser {client} {password}\nbinary\n{commands}\nquit\n")
}

fn ftplib(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    let python = |messages: bool| if messages { "True" } else { "False" };
    command.args(["-c", FTPLIB, if is_upload { "send" } else { "get" }, python(case.in_tls)]);
    command.args([python(!case.is_active), server.host(), &server.port.to_string()]);
    command.args([client, password, name]);
    String::new()
}

fn suppaftp(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    let word = |messages: bool| if messages { "yes" } else { "no" };
    command.args([
        if is_upload { "send" } else { "get" },
        word(case.in_tls),
        word(!case.is_active),
    ]);
    command.args([server.host(), &server.port.to_string(), client, password, name]);
    String::new()
}

fn plumb(
    command: &mut Command,
    server: &Server,
    case: TransferMode,
    name: &str,
    is_upload: bool,
) -> String {
    let (client, password) = server.kind.client();
    let scheme = if case.in_tls { "ftpes" } else { "ftp" };
    let url = format!("{scheme}://{client}@{}:{}", server.host_in_url(), server.port);
    command.env("PLUMB_FTP_PASSWORD", password);
    // libunftp reads the first bytes of TLS as a command if they arrive early.
    let tries = if server.kind == Kind::Libunftp && case.in_tls { "4" } else { "1" };
    command.args([if is_upload { "put" } else { "get" }, "--quiet", "--tries", tries]);
    command.args(case.is_active.then_some("--active"));
    match is_upload {
        true => command.args([name, &format!("{url}/in/{name}")]),
        false => command.arg(format!("{url}/{name}")),
    };
    String::new()
}
