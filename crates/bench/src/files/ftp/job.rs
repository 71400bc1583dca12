//! The jobs, and the client programs that run them.

use super::directories::{Directories, LARGE, SMALL, small_name};
use super::ftp_servers::ServerProgram;
use crate::telnetd::program;
use crate::typing::{Via, plumb};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FtpClientProgram {
    Plumb,
    Curl,
    Lftp,
}

/// Files to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// One file of this many MiB; a download is discarded.
    Large(u64),
    /// One file of this many MiB, downloaded to a file.
    Saved(u64),
    /// `files` files of 4 KiB, over `connections` concurrent connections.
    Small { files: u32, connections: u32 },
}

/// Transfer type of a file's words, and their local storage format in plumb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Image,
    /// TYPE L 36, stored as received.
    L36,
    /// TYPE L 36, each word stored in five octets.
    L36InFive,
}

/// A transfer that a client program performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) is_upload: bool,
    pub(super) in_tls: bool,
    pub(super) load: Load,
    pub(super) words: Words,
    pub(super) on_tun: bool,
}

/// Name of a downloaded large file.
const SAVED_NAME: &str = "kept";
/// TUN of plumb's own TCP.
pub(super) const TUN: Via = Via::Tun(0);

impl FtpClientProgram {
    pub(super) const ALL: [Self; 3] = [Self::Plumb, Self::Curl, Self::Lftp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plumb => "plumb",
            Self::Curl => "curl",
            Self::Lftp => "lftp",
        }
    }

    /// Returns the path of the program.
    pub(super) fn path(self) -> Result<PathBuf> {
        match self {
            Self::Plumb => plumb(),
            Self::Curl => program("curl", "curl"),
            Self::Lftp => program("lftp", "lftp"),
        }
    }

    /// Returns the command that runs the job at the server of `server_program`.
    pub(super) fn command(
        self,
        directories: &Directories,
        server_program: ServerProgram,
        job: Job,
    ) -> Result<Command> {
        let mut command = Command::new(self.path()?);
        match self {
            Self::Plumb => plumb_command(&mut command, directories, server_program, job),
            Self::Curl => curl_command(&mut command, directories, server_program, job)?,
            Self::Lftp => lftp_job_command(&mut command, directories, server_program, job),
        }
        command.current_dir(directories.directory.join("here"));
        command.env("HOME", directories.directory.join("home"));
        command.env("XDG_STATE_HOME", directories.directory.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

fn plumb_command(
    command: &mut Command,
    directories: &Directories,
    server_program: ServerProgram,
    job: Job,
) {
    let (name, password) = server_program.user();
    let via = if job.on_tun { TUN } else { Via::Kernel };
    let scheme = if job.in_tls { "ftpes" } else { "ftp" };
    let url = format!("{scheme}://{name}@{}:{}", via.host(), server_program.port());
    command.env("PLUMB_FTP_PASSWORD", password);
    command.arg(if job.is_upload { "put" } else { "get" });
    command.args(["--quiet", "--tries", "1", "--via", &via.name()]);
    if server_program == ServerProgram::Unrecorded {
        command.arg("--no-record");
    }
    match job.words {
        Words::Image => {}
        Words::L36 => _ = command.args(["--type", "L36"]),
        Words::L36InFive => _ = command.args(["--type", "L36", "--store", "c36"]),
    }
    match (job.load, job.is_upload) {
        (Load::Large(_), false) => {
            command.args(["--force", &format!("{url}/{LARGE}"), "/dev/null"]);
        }
        (Load::Saved(_), _) => _ = command.args([&format!("{url}/{LARGE}"), SAVED_NAME]),
        (Load::Large(_), true) => {
            command.args([directories.at("source/large"), format!("{url}/in/{LARGE}")]);
        }
        (Load::Small { connections, .. }, is_upload) => {
            command.args(["--recursive", "--jobs", &connections.to_string()]);
            match is_upload {
                false => command.args([&format!("{url}/{SMALL}"), "."]),
                true => command.args([directories.at("source/small"), format!("{url}/in/")]),
            };
        }
    }
}

fn curl_command(
    command: &mut Command,
    directories: &Directories,
    server_program: ServerProgram,
    job: Job,
) -> Result<()> {
    let (name, password) = server_program.user();
    let url = format!("ftp://127.0.0.1:{}", server_program.port());
    command.args(["-q", "-sS", "-u", &format!("{name}:{password}")]);
    if job.in_tls {
        command.args(["--ssl-reqd", "-k"]);
    }
    match (job.load, job.is_upload) {
        (Load::Large(_), false) => _ = command.args([&format!("{url}/{LARGE}"), "-o", "/dev/null"]),
        (Load::Saved(_), _) => _ = command.args([&format!("{url}/{LARGE}"), "-o", SAVED_NAME]),
        (Load::Large(_), true) => {
            command.args(["-T", &directories.at("source/large"), &format!("{url}/in/{LARGE}")]);
        }
        (Load::Small { files, connections }, is_upload) => {
            let mut text = String::new();
            for number in 0..files {
                let file = small_name(number);
                text += &match is_upload {
                    false => format!("url={url}/{SMALL}/{file}\noutput={file}\n"),
                    true => {
                        let from = directories.at("source/small");
                        format!("url={url}/in/{file}\nupload-file={from}/{file}\n")
                    }
                };
            }
            let list = directories.directory.join("curl.list");
            fs::write(&list, text)?;
            command.args(["-Z", "--parallel-max", &connections.to_string(), "-K"]).arg(list);
        }
    }
    Ok(())
}

fn lftp_job_command(
    command: &mut Command,
    directories: &Directories,
    server_program: ServerProgram,
    job: Job,
) {
    let (name, password) = server_program.user();
    let tls = match job.in_tls {
        false => "set ftp:ssl-allow no",
        true => {
            "set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:ssl-protect-data yes; \
             set ftp:ssl-allow-anonymous yes"
        }
    };
    let lftp_command = match (job.load, job.is_upload) {
        (Load::Large(_), false) => format!("get {LARGE} -o /dev/null"),
        (Load::Saved(_), _) => format!("get {LARGE} -o {SAVED_NAME}"),
        (Load::Large(_), true) => format!("put {} -o in/{LARGE}", directories.at("source/large")),
        (Load::Small { connections, .. }, false) => {
            format!("mirror --parallel={connections} {SMALL} .")
        }
        (Load::Small { connections, .. }, true) => {
            format!("lcd {}; cd in; mput -P {connections} *", directories.at("source/small"))
        }
    };
    // If a server supports MODE Z, lftp would deflate all files on the single processor.
    command.arg("--norc").arg("-c").arg(format!(
        "{tls}; set ftp:use-mode-z no; set xfer:clobber yes; set cmd:fail-exit yes; \
         set net:max-retries 1; \
         open -u {name},{password} ftp://127.0.0.1:{}; {lftp_command}",
        server_program.port()
    ));
}
