//! The measured paths: a client and a server each.

use super::arguments::os_strings;
use super::temporary_directory::TemporaryDirectory;
use crate::telnetd::{Kind, Service, program, set_environment, shell};
use crate::typing::{Via, plumb};
use anyhow::Result;
use std::process::Command;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientProgram {
    /// telnet of GNU inetutils.
    Inetutils,
    /// telnet of busybox.
    Busybox,
    /// plink, PuTTY's command-line client.
    Plink,
    /// `plumb login`.
    Plumb(Via),
    /// `plumb login` in TLS.
    PlumbTls,
    /// OpenSSH.
    Ssh,
    /// socat between a terminal and a connection, without a login protocol.
    Socat,
    /// mosh without prediction.
    Mosh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerProgram {
    /// telnetd of GNU inetutils.
    Inetutils,
    /// telnetd of busybox.
    Busybox,
    /// `plumb serve`.
    Plumb,
    /// `plumb serve` in TLS.
    PlumbTls,
    /// OpenSSH.
    Ssh,
    /// socat between a connection and a terminal, without a login protocol.
    Socat,
    /// mosh.
    Mosh,
}

/// A pair of client and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Client, an arrow, and server.
    pub(super) label: &'static str,
    pub(super) client: ClientProgram,
    pub(super) server: ServerProgram,
}

impl Path {
    /// Returns all paths in the order of the report.
    pub(super) fn all() -> Vec<Self> {
        let path = |label, client, server| Self { label, client, server };
        vec![
            path("inetutils > inetutils", ClientProgram::Inetutils, ServerProgram::Inetutils),
            path("busybox > busybox", ClientProgram::Busybox, ServerProgram::Busybox),
            path("inetutils > busybox", ClientProgram::Inetutils, ServerProgram::Busybox),
            path("plink > inetutils", ClientProgram::Plink, ServerProgram::Inetutils),
            path(PLUMB, ClientProgram::Plumb(Via::Kernel), ServerProgram::Plumb),
            path(PLUMB_ON_TUN, ClientProgram::Plumb(Via::Tun(0)), ServerProgram::Plumb),
            path("plumb > inetutils", ClientProgram::Plumb(Via::Kernel), ServerProgram::Inetutils),
            path("inetutils > plumb", ClientProgram::Inetutils, ServerProgram::Plumb),
            path("plumb > plumb, TLS", ClientProgram::PlumbTls, ServerProgram::PlumbTls),
            path("ssh > sshd", ClientProgram::Ssh, ServerProgram::Ssh),
            path("mosh > mosh", ClientProgram::Mosh, ServerProgram::Mosh),
            path(SOCAT, ClientProgram::Socat, ServerProgram::Socat),
        ]
    }

    /// Returns whether client and server are third-party Telnet programs.
    pub(super) fn is_third_party_telnet(&self) -> bool {
        let is_third_party_client = matches!(
            self.client,
            ClientProgram::Inetutils | ClientProgram::Busybox | ClientProgram::Plink
        );
        is_third_party_client
            && matches!(self.server, ServerProgram::Inetutils | ServerProgram::Busybox)
    }

    /// Returns whether the client prints all output of the server. mosh prints only the final state
    /// of the screen.
    pub(super) fn displays_all_output(&self) -> bool {
        self.client != ClientProgram::Mosh
    }
}

/// Label of the path with goals.
pub(super) const PLUMB: &str = "plumb > plumb";
/// Label of the path over plumb's own TCP/IP.
pub(super) const PLUMB_ON_TUN: &str = "plumb, TUN > plumb";
/// Label of the path over a bare TCP connection.
pub(super) const SOCAT: &str = "socat > socat";
/// Label of the path to which screenfuls and long texts are compared.
pub(super) const INETUTILS: &str = "inetutils > inetutils";

impl ClientProgram {
    /// Returns the client command that connects to `port`; `directory` holds the files it needs.
    pub(super) fn command(&self, port: u16, directory: &TemporaryDirectory) -> Result<Command> {
        let port = port.to_string();
        let (program, arguments) = match self {
            Self::Inetutils => {
                let own = program("inetutils-telnet", "inetutils-telnet");
                let own = own.or_else(|_| program("telnet", "inetutils-telnet"))?;
                (own, os_strings(&["127.0.0.1", &port]))
            }
            Self::Busybox => {
                (program("busybox", "busybox-static")?, os_strings(&["telnet", "127.0.0.1", &port]))
            }
            Self::Plink => (
                program("plink", "putty-tools")?,
                os_strings(&["-telnet", "-no-antispoof", "-P", &port, "127.0.0.1"]),
            ),
            Self::Plumb(via) => {
                (plumb()?, os_strings(&["login", &via.host(), &port, "--via", &via.name()]))
            }
            Self::PlumbTls => {
                (plumb()?, os_strings(&["login", &format!("telnets://127.0.0.1:{port}")]))
            }
            Self::Ssh => (program("ssh", "openssh-client")?, directory.ssh_arguments(&port)),
            Self::Socat => (
                program("socat", "socat")?,
                os_strings(&["-,raw,echo=0", &format!("TCP:127.0.0.1:{port},nodelay")]),
            ),
            Self::Mosh => (program("mosh-client", "mosh")?, os_strings(&["127.0.0.1", &port])),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        set_environment(&mut command);
        // Known certificates are read from and written to the bench's directory only.
        command.env("XDG_STATE_HOME", &directory.path);
        Ok(command)
    }
}

impl ServerProgram {
    /// Returns the command that starts the server on a connection, or `None` if the server listens
    /// itself.
    pub(super) fn service(self, directory: &TemporaryDirectory) -> Result<Option<Service>> {
        let shell = shell();
        let service = match self {
            Self::Inetutils => Kind::Inetutils.service(&shell)?,
            Self::Busybox => Kind::Busybox.service(&shell)?,
            Self::Ssh => Service {
                name: "sshd".to_owned(),
                program: program("sshd", "openssh-server")?,
                arguments: directory.prepare_ssh()?,
            },
            Self::Socat => Service {
                name: "socat".to_owned(),
                program: program("socat", "socat")?,
                arguments: os_strings(&[
                    "FD:0,nodelay",
                    &format!("EXEC:{} -i,pty,setsid,ctty,stderr", shell.display()),
                ]),
            },
            Self::Plumb | Self::PlumbTls | Self::Mosh => return Ok(None),
        };
        Ok(Some(service))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_include_those_with_goals() {
        let all = Path::all();
        for label in [PLUMB, PLUMB_ON_TUN, SOCAT, INETUTILS] {
            assert_eq!(all.iter().filter(|path| path.label == label).count(), 1, "{label}");
        }
    }

    #[test]
    fn a_path_with_a_plumb_program_is_not_third_party() {
        let all = Path::all();
        let others: Vec<_> = all.iter().filter(|path| path.is_third_party_telnet()).collect();
        assert_eq!(others.len(), 4);
        assert!(others.iter().all(|path| !path.label.contains("plumb")));
    }
}
