//! The servers of the second case generator: the selection for a case, and arguments that the
//! servers of the first case generator do not have.

use super::super::case::Peer;
use super::super::cause::{Cause, Kind};
use super::super::service::Service;
use super::super::setup::Setup;
use super::cause::Fault;
use super::programs;
use std::path::Path;
use std::process::Command;

/// Returns the servers of a service that support the causes.
pub(super) fn servers_for(service: Service, causes: &[Cause]) -> Vec<Peer> {
    let has = |fault| causes.iter().any(|cause| cause.kind == Kind::Second(fault));
    let all: &[Peer] = match service {
        // The other servers are configured not to look up names, or cannot look them up.
        Service::Login | Service::LoginOwnTcp if has(Fault::ReverseLookup) => {
            &[Peer::InetutilsTelnetd]
        }
        Service::Login | Service::LoginOwnTcp => &[
            Peer::InetutilsTelnetd,
            Peer::BusyboxTelnetd,
            Peer::PlumbLogin,
            Peer::PythonTelnetd,
            Peer::PythonTelnetd,
        ],
        Service::FtpGet | Service::FtpPut
            if has(Fault::ReverseLookup) || has(Fault::IdentLookup) =>
        {
            &[Peer::Proftpd]
        }
        Service::FtpGet | Service::FtpPut => &[
            Peer::VsftpdInetd,
            Peer::PyftpdlibThreads,
            Peer::PureFtpd,
            Peer::Proftpd,
            Peer::PlumbFtp,
        ],
        // plumb serve has no setting to refuse options.
        Service::TftpGet if has(Fault::PlainTftp) => {
            &[Peer::TftpdHpa, Peer::Atftpd, Peer::Dnsmasq, Peer::PythonTftpd]
        }
        Service::TftpGet => &[
            Peer::TftpdHpa,
            Peer::Atftpd,
            Peer::Dnsmasq,
            Peer::PlumbTftp,
            Peer::PythonTftpd,
            Peer::PythonTftpd,
        ],
    };
    all.to_vec()
}

/// Returns the arguments with which a TFTP server refuses options; empty if it should accept them.
pub(in super::super) fn refusals(peer: Peer, setup: &Setup) -> &'static [&'static str] {
    match peer {
        _ if !setup.second.has_no_options => &[],
        Peer::TftpdHpa => {
            &["-r", "blksize", "-r", "blksize2", "-r", "tsize", "-r", "timeout", "-r", "utimeout"]
        }
        Peer::Atftpd => &["--no-blksize", "--no-windowsize", "--no-tsize", "--no-timeout"],
        Peer::Dnsmasq => &["--tftp-no-blocksize"],
        _ => &[],
    }
}

/// Adds the arguments of a Python server.
pub(in super::super) fn python_arguments(
    command: &mut Command,
    peer: Peer,
    setup: &Setup,
    file: &Path,
    (address, port): (&str, u16),
) {
    let text = match peer {
        Peer::PythonTelnetd => programs::TELNETD,
        Peer::PythonTftpd => programs::TFTPD,
        _ => programs::PYFTPDLIB,
    };
    command.args(["-W", "ignore", "-c", text]).arg(file).args([address, &port.to_string()]);
    if peer == Peer::PythonTftpd {
        command.arg(if setup.second.has_no_options { "plain" } else { "options" });
    }
}

/// Returns the lines of proftpd's configuration for lookups of names and users. `program` leads to
/// the modules of an unpacked package.
pub(in super::super) fn proftpd_lines(setup: &Setup, program: &Path) -> String {
    let mut text = match setup.second.server_resolver_ms {
        Some(_) => "UseReverseDNS on\n",
        None => "UseReverseDNS off\n",
    }
    .to_owned();
    if setup.second.asks_ident {
        let modules = program.with_file_name("tree/usr/lib/proftpd");
        if modules.is_dir() {
            text += &format!("ModulePath {}\n", modules.display());
        }
        text += "LoadModule mod_ident.c\nIdentLookups on\n";
    }
    text
}
