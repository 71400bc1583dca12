//! The measured paths: a client and a server each.

use super::folder::Folder;
use crate::bench::telnetd::{Kind, Service, program, set_environment, shell};
use crate::bench::typing::{Via, plumb};
use anyhow::Result;
use std::ffi::OsString;
use std::process::Command;

/// Client program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Near {
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

/// Server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
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
    /// The client.
    pub(super) near: Near,
    /// The server.
    pub(super) far: Far,
}

impl Path {
    /// Returns all paths in the order of the report.
    pub(super) fn all() -> Vec<Self> {
        let path = |label, near, far| Self { label, near, far };
        vec![
            path("inetutils > inetutils", Near::Inetutils, Far::Inetutils),
            path("busybox > busybox", Near::Busybox, Far::Busybox),
            path("inetutils > busybox", Near::Inetutils, Far::Busybox),
            path("plink > inetutils", Near::Plink, Far::Inetutils),
            path(OURS, Near::Plumb(Via::Kernel), Far::Plumb),
            path(OURS_ON_TUN, Near::Plumb(Via::Tun(0)), Far::Plumb),
            path("plumb > inetutils", Near::Plumb(Via::Kernel), Far::Inetutils),
            path("inetutils > plumb", Near::Inetutils, Far::Plumb),
            path("plumb > plumb, TLS", Near::PlumbTls, Far::PlumbTls),
            path("ssh > sshd", Near::Ssh, Far::Ssh),
            path("mosh > mosh", Near::Mosh, Far::Mosh),
            path(SOCAT, Near::Socat, Far::Socat),
        ]
    }

    /// Returns whether client and server are third-party Telnet programs.
    pub(super) fn is_telnet_of_others(&self) -> bool {
        let near = matches!(self.near, Near::Inetutils | Near::Busybox | Near::Plink);
        near && matches!(self.far, Far::Inetutils | Far::Busybox)
    }

    /// Returns whether the client prints all output of the server. mosh prints only the final state
    /// of the screen.
    pub(super) fn shows_everything(&self) -> bool {
        self.near != Near::Mosh
    }
}

/// Label of the path with goals.
pub(super) const OURS: &str = "plumb > plumb";
/// Label of the path over plumb's own TCP/IP.
pub(super) const OURS_ON_TUN: &str = "plumb, TUN > plumb";
/// Label of the path that is a bare connection.
pub(super) const SOCAT: &str = "socat > socat";
/// Label of the reference for screenfuls and long texts.
pub(super) const INETUTILS: &str = "inetutils > inetutils";

impl Near {
    /// Returns the client command that connects to `port`; `folder` holds the files it needs.
    pub(super) fn command(&self, port: u16, folder: &Folder) -> Result<Command> {
        let port = port.to_string();
        let (program, arguments) = match self {
            Self::Inetutils => {
                let own = program("inetutils-telnet", "inetutils-telnet");
                let own = own.or_else(|_| program("telnet", "inetutils-telnet"))?;
                (own, words(&["127.0.0.1", &port]))
            }
            Self::Busybox => {
                (program("busybox", "busybox-static")?, words(&["telnet", "127.0.0.1", &port]))
            }
            Self::Plink => (
                program("plink", "putty-tools")?,
                words(&["-telnet", "-no-antispoof", "-P", &port, "127.0.0.1"]),
            ),
            Self::Plumb(via) => {
                (plumb()?, words(&["login", &via.host(), &port, "--via", &via.name()]))
            }
            Self::PlumbTls => (plumb()?, words(&["login", &format!("telnets://127.0.0.1:{port}")])),
            Self::Ssh => (program("ssh", "openssh-client")?, folder.ssh_arguments(&port)),
            Self::Socat => (
                program("socat", "socat")?,
                words(&["-,raw,echo=0", &format!("TCP:127.0.0.1:{port},nodelay")]),
            ),
            Self::Mosh => (program("mosh-client", "mosh")?, words(&["127.0.0.1", &port])),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        set_environment(&mut command);
        // Known certificates are read from and written to the bench's directory only.
        command.env("XDG_STATE_HOME", &folder.path);
        Ok(command)
    }
}

impl Far {
    /// Returns how the server is started with a connection, or `None` if it listens itself.
    pub(super) fn service(self, folder: &Folder) -> Result<Option<Service>> {
        let shell = shell();
        let service = match self {
            Self::Inetutils => Kind::Inetutils.service(&shell)?,
            Self::Busybox => Kind::Busybox.service(&shell)?,
            Self::Ssh => Service {
                name: "sshd".to_owned(),
                program: program("sshd", "openssh-server")?,
                arguments: folder.prepare_ssh()?,
            },
            Self::Socat => Service {
                name: "socat".to_owned(),
                program: program("socat", "socat")?,
                arguments: words(&[
                    "FD:0,nodelay",
                    &format!("EXEC:{} -i,pty,setsid,ctty,stderr", shell.display()),
                ]),
            },
            Self::Plumb | Self::PlumbTls | Self::Mosh => return Ok(None),
        };
        Ok(Some(service))
    }
}

/// Converts `words` to arguments.
pub(super) fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_with_goals_are_among_all() {
        let all = Path::all();
        for label in [OURS, OURS_ON_TUN, SOCAT, INETUTILS] {
            assert_eq!(all.iter().filter(|path| path.label == label).count(), 1, "{label}");
        }
    }

    #[test]
    fn a_way_with_anything_of_ours_is_none_of_the_others() {
        let all = Path::all();
        let others: Vec<_> = all.iter().filter(|path| path.is_telnet_of_others()).collect();
        assert_eq!(others.len(), 4);
        assert!(others.iter().all(|path| !path.label.contains("plumb")));
    }
}
